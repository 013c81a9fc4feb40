#!/usr/bin/env python3
"""halftone aot: nets compute the same bits as run, in C and C++ programs, linked in each way; they select the best code
that the CPU runs, and need no other library."""
import json, os, random, re, resource, shutil, struct, subprocess, unittest, zipfile

from nets import C, CXX, DIGITS, HERE, STRICT, TOP, Nets, sections, targets_of_host
from environment import BUILD, HANGS, TOOL
from tool import SMALL, TYPES, npy


# Kernels of the library over numbers of one type.
LIBRARY = """hir 1
entry "" {
  input "x" = %x
  output "top" = %top
  output "places" = %top:1
  output "dense" = %dense
  output "distinct" = %unique
  output "which" = %unique:1
  output "often" = %unique:2
  output "where" = %where
}

%x = Placeholder() {dtype=f32, shape=shape[12,8]}
%three = Const() {dtype=f32, value=tensor f32[] {3}}
%more = Mul(%x, %three) {T=f32}
%t = Cast(%more) {SrcT=f32, DstT=TYPE}
%k = Const() {dtype=i32, value=tensor i32[] {5}}
%top = TopKV2(%t, %k) {T=TYPE, sorted=true}
%all = Const() {dtype=i32, value=tensor i32[1] {-1}}
%flat = Reshape(%t, %all) {T=TYPE, Tshape=i32}
%at = Const() {dtype=i32, value=tensor i32[3,2] {0, 2, 1, 0, 3, 3}}
%shape = Const() {dtype=i32, value=tensor i32[2] {4, 5}}
%low = Const() {dtype=i32, value=tensor i32[1] {1}}
%high = Const() {dtype=i32, value=tensor i32[1] {4}}
%some = Slice(%flat, %low, %high) {T=TYPE, Index=i32}
%third = Const() {dtype=i32, value=tensor i32[1] {3}}
%values = Slice(%flat, %low, %third) {T=TYPE, Index=i32}
%index = Const() {dtype=i32, value=tensor i32[] {0}}
%first = GatherV2(%some, %index, %index) {Tparams=TYPE, Tindices=i32, Taxis=i32}
%dense = SparseToDense(%at, %shape, %values, %first) {T=TYPE, Tindices=i32}
%axis = Const() {dtype=i64, value=tensor i64[1] {0}}
%unique = UniqueWithCountsV2(%flat, %axis) {T=TYPE, Taxis=i64, out_idx=i32}
%where = Where(%t) {T=TYPE}
"""
# Boxes that do not overlap, of one class and of two.
BOXES = """hir 1
entry "" {
  input "x" = %x
  output "boxes" = %best
  output "scores" = %best:1
  output "corners" = %combined
  output "valid" = %combined:3
}

%x = Placeholder() {dtype=f32, shape=shape[12,8]}
%t = Cast(%x) {SrcT=f32, DstT=TYPE}
%zeros = Const() {dtype=i32, value=tensor i32[2] {0, 0}}
%four = Const() {dtype=i32, value=tensor i32[2] {0, 4}}
%corners = Const() {dtype=i32, value=tensor i32[2] {12, 4}}
%column = Const() {dtype=i32, value=tensor i32[2] {12, 1}}
%boxes = Slice(%t, %zeros, %corners) {T=TYPE, Index=i32}
%score = Slice(%t, %four, %column) {T=TYPE, Index=i32}
%all = Const() {dtype=i32, value=tensor i32[1] {-1}}
%scores = Reshape(%score, %all) {T=TYPE, Tshape=i32}
%most = Const() {dtype=i32, value=tensor i32[] {9}}
%overlap = Const() {dtype=TYPE, value=tensor TYPE[] {0.5}}
%least = Const() {dtype=TYPE, value=tensor TYPE[] {-1}}
%sigma = Const() {dtype=TYPE, value=tensor TYPE[] {SIGMA}}
%best = NonMaxSuppressionV5(%boxes, %scores, %most, %overlap, %least, %sigma) {T=TYPE, pad_to_max_output_size=false}
%one = Const() {dtype=i32, value=tensor i32[4] {1, 12, 1, 4}}
%two = Const() {dtype=i32, value=tensor i32[2] {12, 2}}
%classes = Const() {dtype=i32, value=tensor i32[3] {1, 12, 2}}
%images = Slice(%x, %zeros, %corners) {T=f32, Index=i32}
%image = Reshape(%images, %one) {T=f32, Tshape=i32}
%both = Slice(%x, %four, %two) {T=f32, Index=i32}
%class = Reshape(%both, %classes) {T=f32, Tshape=i32}
%half = Const() {dtype=f32, value=tensor f32[] {0.5}}
%lowest = Const() {dtype=f32, value=tensor f32[] {0}}
%combined = CombinedNonMaxSuppression(%image, %class, %most, %most, %half, %lowest) {pad_per_class=false, clip_boxes=true}
"""
# A loop within a loop, whose inner body checks sums.
NESTED = b"""hir 1
entry "" {
  input "x" = %x
  output "y" = %outer:1
}

%x = Placeholder() {dtype=f32, shape=shape[2,2]}
%zero = Const() {dtype=i32, value=tensor i32[] {0}}
%outer = While(%zero, %x) {T=[i32,f32], cond=@below{}, body=@outside{}}

function "below" {
  signature "\\n\\x05below"
  arg "i" = %i
  arg "x" = %x
  ret "r" = %less
  %i = _Arg() {T=i32, index=0}
  %x = _Arg() {T=f32, index=1}
  %three = Const() {dtype=i32, value=tensor i32[] {3}}
  %less = Less(%i, %three) {T=i32}
}

function "outside" {
  signature "\\n\\x07outside"
  arg "i" = %i
  arg "x" = %x
  ret "n" = %next
  ret "r" = %inner:1
  %i = _Arg() {T=i32, index=0}
  %x = _Arg() {T=f32, index=1}
  %zero = Const() {dtype=i32, value=tensor i32[] {0}}
  %one = Const() {dtype=i32, value=tensor i32[] {1}}
  %next = Add(%i, %one) {T=i32}
  %inner = While(%zero, %x) {T=[i32,f32], cond=@below{}, body=@inside{}}
}

function "inside" {
  signature "\\n\\x06inside"
  arg "i" = %i
  arg "x" = %x
  ret "n" = %next
  ret "r" = %sum
  %i = _Arg() {T=i32, index=0}
  %x = _Arg() {T=f32, index=1}
  %one = Const() {dtype=i32, value=tensor i32[] {1}}
  %next = Add(%i, %one) {T=i32}
  %most = Const() {dtype=f32, value=tensor f32[] {40}}
  %axes = Const() {dtype=i32, value=tensor i32[2] {0, 1}}
  %less = Less(%x, %most) {T=f32}
  %all = All(%less, %axes) {Tidx=i32, keep_dims=false}
  %above = LogicalNot(%all)
  %check = Assert(%all, %x, %above) {T=[f32,b1], summarize=9}
  %sum = AddV2(%x, %x, ^check) {T=f32}
}
"""


class AheadOfTime(Nets):
    def test_same_bytes_as_run(self):
        file, raw = self.random_input((1, 28, 28, 1), '|u1', 'B')
        for policy in 'must_keep_origin_dtype', 'allow_mix_precision_bf16', 'force_fp16':
            folder = self.aot(DIGITS, 'digits', '--policy', policy)
            want = self.reference(DIGITS, 'image', file, '--policy', policy)
            self.assertEqual(self.run_ok(self.build(folder, 'digits', self.links(folder, 'digits')[0]), raw), want)
        for compiler in C, CXX:
            for link in self.links(folder, 'digits')[compiler is C:]:
                self.assertEqual(self.run_ok(self.build(folder, 'digits', link, compiler), raw), want)
        file, raw = self.random_input((1, 4), '<f4', 'f')
        folder = self.aot(SMALL, 'small')
        self.assertEqual(self.run_ok(self.build(folder, 'small', self.links(folder, 'small')[0]), raw),
                         self.reference(SMALL, 'x', file))

    def test_other_linker(self):
        if not shutil.which('ld.lld-19') or not shutil.which('clang-19'):
            self.skipTest('no clang-19 with lld')
        folder = self.aot(SMALL, 'small')
        file, raw = self.random_input((1, 4), '<f4', 'f')
        want = self.reference(SMALL, 'x', file)
        for link in self.links(folder, 'small'):
            program = self.build(folder, 'small', ['-fuse-ld=lld-19', *link], ['clang-19', '-D_GNU_SOURCE', *STRICT])
            self.assertEqual(self.run_ok(program, raw), want)

    def test_dispatch(self):
        """Of several levels the best one runs; without it the next one; without any there is an error."""
        levels = targets_of_host()
        self.assertGreaterEqual(len(levels), 2, 'this machine runs one level only')
        folder = self.aot(DIGITS, 'digits', '--target', ','.join(levels[-2:]))
        file, raw = self.random_input((1, 28, 28, 1), '|u1', 'B')
        teller = self.path('target.c', b'#include "digits.h"\n#include <stdio.h>\nint main(void)\n{\n'
                           b'\tconst char *t = digits_target();\n\tputs(t ? t : "none");\n\treturn 0;\n}\n')
        link = ['-L' + folder, '-ldigits']
        runs, tells = (shutil.move(self.build(folder, 'digits', link, main=main), self.path(name))
                       for name, main in (('runs', None), ('tells', teller)))
        for hidden, target in enumerate(reversed(levels[-2:])):
            patched = {'LD_LIBRARY_PATH': self.patch_cpus(folder, 'digits', hidden)}
            self.assertEqual(self.run_ok(runs, raw, env=patched), self.reference(DIGITS, 'image', file, '--target', target))
            self.assertEqual(self.run_ok(tells, env=patched), target.encode() + b'\n')
        patched = {'LD_LIBRARY_PATH': self.patch_cpus(folder, 'digits', 2)}
        r = subprocess.run([runs, raw], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **patched})
        self.assertEqual((r.returncode, r.stdout), (4, b''))
        self.assertIn(b'no code for this CPU', r.stderr)
        self.assertEqual(self.run_ok(tells, env=patched), b'none\n')
        amx = self.aot(DIGITS, 'digits', '--target', 'x86-64-v3,sapphirerapids')
        with open('/proc/cpuinfo') as f:
            has = set(f.read().split()) >= {'amx_bf16', 'avx512_fp16'}
        program = self.build(amx, 'digits', self.links(amx, 'digits')[0], main=teller)
        self.assertEqual(self.run_ok(program), b'sapphirerapids\n' if has else b'x86-64-v3\n')

    def test_needs_nothing(self):
        folder = self.aot(DIGITS, 'digits')
        self.assertEqual(self.run_ok('nm', '-u', os.path.join(folder, 'digits.o')), b'')
        names = self.run_ok('nm', '-g', '--format=just-symbols', os.path.join(folder, 'digits.o')).split()
        exported = [b'digits_metadata', b'digits_run', b'digits_run_parallel', b'digits_status_text', b'digits_stop_text', b'digits_stopped',
                    b'digits_target']
        self.assertEqual(sorted(names), exported)
        names = self.run_ok('nm', '--format=just-symbols', os.path.join(folder, 'digits.o')).split()
        self.assertLessEqual({b'digits.runner', b'digits.teller', b'digits.kernel0'}, set(names))
        library = os.path.join(folder, 'libdigits.so')
        names = self.run_ok('nm', '-D', '--format=just-symbols', library).split()
        self.assertEqual(sorted(names), exported)
        text = self.run_ok('readelf', '-dlrW', library).decode()
        self.assertIn('no relocations', text)
        self.assertNotIn('NEEDED', text)
        self.assertRegex(text, r'GNU_STACK.* RW ')
        self.assertNotIn('RWE', text)
        self.assertRegex(self.run_ok('readelf', '-SW', os.path.join(folder, 'digits.o')).decode(),
                         r'\.note\.GNU-stack +PROGBITS')

    def test_freestanding(self):
        """A program without a C library: header and net need none."""
        folder = self.aot(DIGITS, 'digits')
        file = self.path('zeros.npy', npy('|u1', (1, 28, 28, 1), bytes(784)))
        want = self.reference(DIGITS, 'image', file)
        main = self.path('free.c', b'#include "digits.h"\n\n'
                         b'static _Alignas(DIGITS_ARENA_ALIGN) char arena[DIGITS_ARENA_BYTES];\n'
                         b'static char image[DIGITS_INPUT_0_BYTES], digit[DIGITS_OUTPUT_0_BYTES];\n\n'
                         b'static long call(long number, long a, const void *b, long c)\n{\n\tlong r;\n\n'
                         b'\t__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");\n'
                         b'\treturn r;\n}\n\nvoid begin(void);\nvoid begin(void)\n{\n'
                         b'\tconst void *in[] = { image };\n\tvoid *out[] = { digit };\n'
                         b'\tint status = digits_run(in, out, arena);\n\n'
                         b'\tcall(1, 1, digit, sizeof digit);\n\tcall(60, status, 0, 0);\n}\n\n'
                         b'__asm__(".globl _start\\n_start: and $-16, %rsp\\n\\tcall begin\\n");\n')
        free = ['gcc', '-std=c11', '-ffreestanding', '-nostdlib', '-static', '-fno-stack-protector', *STRICT]
        for link in self.links(folder, 'digits')[:2]:
            self.assertEqual(self.run_ok(self.build(folder, 'digits', link, free, main)), want)

    def test_runner_stands_alone(self):
        """Each piece of code that is copied into nets refers to nothing outside of itself, and stays within its size."""
        found = set()
        for root, _, files in os.walk(os.path.join(BUILD, 'aot')):
            for f in files:
                if f in ('runner.c.o', 'teller.c.o'):
                    name, path = 'ht_aot_' + f[:-4], os.path.join(root, f)
                    self.assertNotRegex(self.run_ok('readelf', '-rW', path).decode(), rf"'\.rela\.?{name}'")
                    self.assertIn(sections(path)[name][2], range(500, 9 * 1024))  # clang makes the runner 8.2 kB
                    found.add(f)
        self.assertEqual(found, {'runner.c.o', 'teller.c.o'})

    def test_library_kernels_stand_alone(self):
        """So does each section of library kernels that is copied into nets."""
        found = set()
        for root, _, files in os.walk(os.path.join(BUILD, 'kernel')):
            for f in files:
                if re.fullmatch(r'net_\w+\.c\.o', f):
                    name, path = 'ht_' + f[:-4], os.path.join(root, f)
                    self.assertNotRegex(self.run_ok('readelf', '-rW', path).decode(), rf"'\.rela\.?{name}'")
                    self.assertIn(sections(path)[name][2], range(8, 8192))
                    found.add(name)
        self.assertEqual(found, {'ht_net_' + n for n in ('boxes', 'check', 'ctc', 'distance', 'index', 'unique', 'where')})

    def test_packages(self):
        first = self.aot(DIGITS, 'digits')
        file, raw = self.random_input((1, 28, 28, 1), '|u1', 'B')
        want = self.reference(DIGITS, 'image', file)
        moved = os.path.join(self.dir, 'elsewhere', 'net')
        os.mkdir(os.path.dirname(moved))
        shutil.move(first, moved)
        env = {'PKG_CONFIG_PATH': moved}
        flags = self.run_ok('pkg-config', '--cflags', '--libs', 'digits', env=env).decode().split()
        static = ['-l:libdigits.a' if f == '-ldigits' else f for f in flags]
        for compiler, link in (C, flags), (CXX, static):
            program = self.build(moved, 'digits', link, compiler)
            self.assertEqual(self.run_ok(program, raw, env={'LD_LIBRARY_PATH': moved}), want)
        work, stage = os.path.join(self.dir, 'cmake'), os.path.join(self.dir, 'stage')
        self.run_ok('cmake', '-G', 'Ninja', '-S', HERE, '-B', work, '-DCMAKE_PREFIX_PATH=' + moved,
                    '-DMAIN=' + os.path.join(moved, 'digits_main.c'), '-DCMAKE_INSTALL_PREFIX=/opt/user')
        self.run_ok('cmake', '--build', work)
        self.run_ok('cmake', '--install', work, env={'DESTDIR': stage})
        shutil.rmtree(moved)
        for program in 'digits_c', 'digits_cc', 'static_c', 'static_cc':
            self.assertEqual(self.run_ok(os.path.join(stage, 'opt/user/bin', program), raw), want, program)

    def test_threads(self):
        runtime = os.path.join(BUILD, 'lib', 'libhalftone-rt.so')
        if b'__asan_init' in self.run_ok('nm', '-D', runtime):
            self.skipTest('libhalftone-rt is instrumented, and the program is not')
        # Winograd's kernel uses memory of its thread, with an image each.
        scratch = self.path('scratch.hir', b"""hir 1
entry "" {
  input "image" = %image
  output "digit_logits" = %y
}

%image = Placeholder() {dtype=u8, shape=shape[3,28,28,64]}
%x = Cast(%image) {SrcT=u8, DstT=f32}
%w = Const() {dtype=f32, value=tensor f32[3,3,64,64] {0.5 ...}}
%y = Conv2D(%x, %w) {T=f32, strides=[1,1,1,1], padding="SAME"}
""")
        parts = ['--batch', '7', '--batch-method', 'parts']  # two for each of three threads, and one for all threads
        shown = self.tool('bench', '-q', DIGITS, *parts, '--format', 'json', '--runs', '1', '--duration', '0')
        self.assertEqual(json.loads(shown.stdout)['parts'], 7)
        for model, shape, compiler, main, more in ((DIGITS, (1, 28, 28, 1), C, 'threads.c', []),
                                                   (DIGITS, (1, 28, 28, 1), CXX, 'threads.cc', []),
                                                   (DIGITS, (7, 28, 28, 1), C, 'threads.c', parts),
                                                   (DIGITS, (2, 28, 28, 1), C, 'threads.c', ['--batch', '2', *parts[2:]]),
                                                   (scratch, (3, 28, 28, 64), C, 'threads.c', ['--batch-method', 'whole']),
                                                   (scratch, (3, 28, 28, 64), C, 'threads.c', [])):
            how = ['--target', 'x86-64-v3', '--conv-method', 'winograd', *more]
            folder = self.aot(model, 'digits', *how)
            file, raw = self.random_input(shape, '|u1', 'B')
            want = self.path('want.raw', self.reference(model, 'image', file, *how))
            link = ['-I' + os.path.join(TOP, 'include'), *self.links(folder, 'digits')[0],
                    '-L' + os.path.join(BUILD, 'lib'), '-lhalftone-rt', '-Wl,-rpath,' + os.path.join(BUILD, 'lib'),
                    '-pthread', '-fopenmp']
            self.run_ok(self.build(folder, 'digits', link, compiler, os.path.join(HERE, main)), raw, want)

    def test_weights_in_a_file(self):
        file, raw = self.random_input((1, 28, 28, 1), '|u1', 'B')
        folder = self.aot(DIGITS, 'digits', '--external-weight', '1')
        weights = os.path.join(folder, 'digits.weights')
        size = os.path.getsize(weights)
        self.assertLess(os.path.getsize(os.path.join(folder, 'digits.o')), size)
        want = self.reference(DIGITS, 'image', file)
        for compiler in CXX, C:
            for link in self.links(folder, 'digits')[compiler is CXX:]:
                program = self.build(folder, 'digits', link, compiler)
                self.assertEqual(self.run_ok(program, weights, raw), want)
        self.assertEqual(self.run_ok(program, 'digits.weights', raw, cwd=folder), want)
        other = self.aot(DIGITS, 'other', '--external-weight', '1', '--policy', 'force_fp16')
        with open(os.path.join(other, 'other.weights'), 'rb') as f:
            wrong = self.path('wrong', f.read().ljust(size, b'\0')[:size])
        for path in wrong, self.path('zeros', bytes(size)), self.path('short', b'1'), '/nonexistent':
            r = subprocess.run([program, path, raw], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((r.returncode, r.stdout), (4, b''), path)
            self.assertIn(b'not the weights of this net', r.stderr)
        # The right weights at another address; no weights.
        places = self.path('places.c', b'#include "digits.h"\n#include <stdio.h>\n#include <stdlib.h>\n\n'
                           b'int main(int argc, char **argv)\n{\n'
                           b'\tchar *arena = (char *)aligned_alloc(64, (DIGITS_ARENA_BYTES + 63) / 64 * 64);\n'
                           b'\tchar *w = (char *)aligned_alloc(64, (DIGITS_WEIGHTS_BYTES + 127) / 64 * 64);\n'
                           b'\tstatic char image[DIGITS_INPUT_0_BYTES], digit[DIGITS_OUTPUT_0_BYTES];\n'
                           b'\tconst void *in[DIGITS_INPUTS] = { image };\n\tvoid *out[DIGITS_OUTPUTS] = { digit };\n'
                           b'\tFILE *f = fopen(argv[argc - 1], "rb");\n\tint offset = argc == 3 ? atoi(argv[1]) : 0;\n\n'
                           b'\tif (!f || fread(w + offset, 1, DIGITS_WEIGHTS_BYTES, f) != DIGITS_WEIGHTS_BYTES)\n\t\treturn 1;\n'
                           b'\treturn digits_run(in, out, arena, w + offset) != (offset % 64 ? DIGITS_E_WEIGHTS : DIGITS_OK) ||\n'
                           b'\t       digits_run(in, out, arena, 0) != DIGITS_E_WEIGHTS;\n}\n')
        program = self.build(folder, 'digits', self.links(folder, 'digits')[0], main=places)
        for offset in '0', '32', '64':
            self.run_ok(program, offset, weights)

    def test_from_an_artefact(self):
        """An artefact gives the same net as its model; damaged weights are refused before they get into the net."""
        htx, folders = os.path.join(self.dir, 'm.htx'), []
        self.tool('compile', '-q', DIGITS, '--batch', '1', '--target', 'x86-64,x86-64-v3', '-o', htx)
        for model, target in (DIGITS, 'x86-64-v3'), (htx, 'x86-64-v3'):
            folders.append(self.aot(model, 'digits', '--target', target))
            folders[-1] = shutil.move(folders[-1], self.path(str(len(folders))))
        file, raw = self.random_input((1, 28, 28, 1), '|u1', 'B')
        one, two = (self.run_ok(self.build(f, 'digits', self.links(f, 'digits')[0]), raw) for f in folders)
        self.assertEqual(one, two)
        with open(htx, 'r+b') as f:
            data = f.read()
            f.seek(len(data) - 100)
            f.write(bytes([data[-100] ^ 1]))
        self.fails(3, 'weights are damaged', 'aot', '-q', htx, '-o', self.path('no'))
        self.assertFalse(os.path.exists(self.path('no')))

    def test_variants_of_an_artefact(self):
        """Nets of all targets of one policy and one set of shapes; variants that are left out without a choice of the
        user are named."""
        htx, out = os.path.join(self.dir, 'v.htx'), os.path.join(self.dir, 'net')
        # Again from the cache, where code may be for a machine that this one is not.
        for more in [], ['--error-on-cache-miss']:
            self.tool('compile', '-q', SMALL, '--policy', 'must_keep_origin_dtype,force_fp16', '--batch', '1,3',
                      '--target', 'x86-64,x86-64-v3,haswell,sapphirerapids', '--cache-mode', 'rw', '--cache-dir',
                      self.path('cache'), '-o', htx, *more)

        def net(*args):
            r = self.tool('aot', htx, '-o', out, '--name', 'net', '--format', 'json', *args)
            net = json.loads(r.stdout)['net']
            return ([t['target'] for t in net['targets']], net['policy'], net['inputs'][0]['shape'],
                    [line.split('; left out: ') for line in r.err.splitlines()])
        targets, policy, shape, left = net()
        self.assertEqual((targets, policy, shape), (['sapphirerapids', 'x86-64-v3', 'x86-64'], 'must_keep_origin_dtype', [1, 4]))
        self.assertEqual([len(re.findall(r' for ', which)) for _, which in left], [8, 4, 1])
        for (why, which), reason, name in zip(left, ('one policy', 'one set of shapes', 'the same machines'),
                                              ('force_fp16', 'x:3,4', 'for haswell with x:1,4')):
            self.assertRegex(why, r'v\.htx: warning: .*' + reason)
            self.assertIn(name, which)
        targets, policy, shape, left = net('--policy', 'force_fp16', '--batch', '3', '--target', 'x86-64-v3,x86-64')
        self.assertEqual((targets, policy, shape, left), (['x86-64-v3', 'x86-64'], 'force_fp16', [3, 4], []))
        targets, _, _, left = net('--policy', 'force_fp16', '--input-shape', 'x:-1,4', '--target', 'haswell')
        self.assertEqual((targets, [why.count('one set of shapes') for why, _ in left]), (['haswell'], [1]))
        file, raw = self.random_input((1, 4), '<f4', 'f')
        self.assertEqual(self.run_ok(self.build(out, 'net', self.links(out, 'net')[0]), raw),
                         self.reference(SMALL, 'x', file, '--policy', 'force_fp16', '--target', 'haswell'))
        for code, text, *args in ((2, 'that policy; it has must_keep', '--policy', 'force_fp32'),
                                  (2, 'for that target; it has', '--target', 'x86-64,x86-64-v4'),
                                  (3, 'has those shapes; it has', '--batch', '2'),
                                  (2, "no input 'z'", '--input-shape', 'z:1,4'),
                                  (2, 'compiled already', '--block-method', 'auto')):
            self.fails(code, text, 'aot', '-q', htx, '-o', out, *args)

    def test_targets_of_the_same_machines(self):
        """The first entry counts, and the user is told if another one was named, for models and artefacts alike."""
        htx, nets = self.path('m.htx'), []
        self.tool('compile', '-q', SMALL, '--target', 'haswell,x86-64,x86-64-v3', '-o', htx)
        for model in SMALL, htx:
            for names, first in ('x86-64-v3,haswell,x86-64', 'x86-64-v3'), ('haswell,x86-64,x86-64-v3,haswell', 'haswell'):
                r = self.tool('aot', model, '-o', os.path.join(self.dir, 'net'), '--name', 'net', '--format', 'json', '--target', names)
                self.assertEqual([t['target'] for t in json.loads(r.stdout)['net']['targets']], [first, 'x86-64'], (model, names))
                self.assertEqual(r.err.count('runs on the same machines: the net has that for ' + first), names.count(',') - 1, r.err)
                with open(os.path.join(self.dir, 'net', 'net.o'), 'rb') as f:
                    nets.append(f.read())
        self.assertEqual(nets[:2], nets[2:])

    def test_levels_share_what_is_equal(self):
        one, two = (json.loads(self.tool('aot', '-q', DIGITS, '-o', os.path.join(self.dir, t), '--target', t,
                                         '--format', 'json').stdout)['net'] for t in
                    ('x86-64-v4', 'x86-64-v4,x86-64-v4+bf16'))
        self.assertEqual(two['weight_bytes'], one['weight_bytes'])
        self.assertEqual([t['target'] for t in two['targets']], ['x86-64-v4+bf16', 'x86-64-v4'])

    def test_report_and_metadata(self):
        r = json.loads(self.tool('aot', '-q', SMALL, '--name', 'n', '--batch=1', '-o', os.path.join(self.dir, 'n'), '--format',
                                 'json', '--target', 'x86-64').stdout)
        self.assertEqual(r['schema'], 'halftone.aot_files/1')
        for f in r['files']:
            self.assertEqual(os.path.getsize(f['path']), f['bytes'])
        self.assertEqual(sorted(os.path.basename(f['path']) for f in r['files']), sorted(
            ['n.o', 'libn.a', 'libn.so', 'n.h', 'n.pc', 'nConfig.cmake', 'n_main.c']))
        self.assertEqual(sorted(os.listdir(os.path.join(self.dir, 'n'))),
                         sorted(os.path.basename(f['path']) for f in r['files']))
        net = r['net']
        self.assertEqual((net['schema'], net['policy']), ('halftone.aot/1', 'must_keep_origin_dtype'))
        self.assertEqual(net['inputs'], [{'name': 'x', 'dtype': 'float32', 'shape': [1, 4]}])
        with open(os.path.join(self.dir, 'n', 'n.o'), 'rb') as f:
            self.assertIn(json.dumps('halftone.aot/1').encode(), f.read())

    def test_header_describes_the_net(self):
        folder = self.aot(DIGITS, 'digits')
        main = self.path('d.c', b'#include "digits.h"\n#include <stdio.h>\nint main(void)\n{\n'
                         b'\tstatic const int in[] = DIGITS_INPUT_0_SHAPE, out[] = DIGITS_OUTPUT_0_SHAPE;\n\n'
                         b'\tprintf("%s %s %zu %d [%d, %d, %d, %d]\\n", DIGITS_INPUT_0_NAME, DIGITS_INPUT_0_DTYPE,\n'
                         b'\t\tDIGITS_INPUT_0_BYTES, DIGITS_INPUT_0_RANK, in[0], in[1], in[2], in[3]);\n'
                         b'\tprintf("%s %s %zu %d [%d, %d]\\n", DIGITS_OUTPUT_0_NAME, DIGITS_OUTPUT_0_DTYPE,\n'
                         b'\t\tDIGITS_OUTPUT_0_BYTES, DIGITS_OUTPUT_0_RANK, out[0], out[1]);\n'
                         b'\tputs(digits_metadata);\n\treturn 0;\n}\n')
        values, metadata = self.run_ok(self.build(folder, 'digits', self.links(folder, 'digits')[0], main=main)).split(b'{', 1)
        self.assertEqual(values, b'image uint8 784 4 [1, 28, 28, 1]\ndigit_logits float32 40 2 [1, 10]\n')
        net = json.loads(b'{' + metadata)
        self.assertEqual([(v['name'], v['dtype'], v['shape']) for v in net['inputs'] + net['outputs']],
                         [('image', 'uint8', [1, 28, 28, 1]), ('digit_logits', 'float32', [1, 10])])

    def test_equal_nets_are_equal_bytes(self):
        both = []
        cache = ['--cache-mode', 'rw', '--cache-dir', self.path('cache')]
        for env, args in (({}, ['--cache-mode', 'off']),
                          ({'LC_ALL': 'de_DE.UTF-8', 'TZ': 'Asia/Tokyo', 'HOME': '/'}, ['--threads', '2', *cache]),
                          ({}, [*cache, '--error-on-cache-miss'])):
            folder = self.aot(DIGITS, 'digits', '--target', 'x86-64-v3', *args, env=env)
            both.append({})
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), 'rb') as f:
                    both[-1][name] = f.read()
            shutil.rmtree(folder)
        self.assertEqual(both[0], both[1])
        self.assertEqual(both[0], both[2])
        for name, data in both[0].items():
            self.assertNotIn(self.dir.encode(), data, name)

    def test_names(self):
        model = self.path('odd.hir', b"""hir 1
entry "" {
  input "class" = %a
  input "a/b" = %b
  input "a_b" = %c
  input "1*/\\"" = %d
  output "y" = %y
}

%a = Placeholder() {dtype=f32, shape=shape[2]}
%b = Placeholder() {dtype=f32, shape=shape[2]}
%c = Placeholder() {dtype=bf16, shape=shape[2]}
%d = Placeholder() {dtype=f32, shape=shape[2]}
%e = Cast(%c) {SrcT=bf16, DstT=f32}
%y = AddN(%a, %b, %e, %d) {N=4, T=f32}
""")
        folder = self.aot(model, 'my-net.v2')
        program = self.build(folder, 'my-net.v2', self.links(folder, 'my-net.v2')[2], CXX)
        self.assertEqual(self.run_ok(program), bytes(8))
        self.assertIn(b'my_net_v2_run', self.run_ok('nm', os.path.join(folder, 'my-net.v2.o')))
        # Two nets linked into one program.
        one = self.aot(SMALL, 'one', '--prefix', 'first')
        two = self.aot(SMALL, 'two', '--prefix', 'second')
        main = self.path('two.c', b'#include "one.h"\n#include "two.h"\nint main(void)\n{\n'
                         b'\treturn first_target() != second_target() && FIRST_INPUTS == SECOND_INPUTS ? 0 : 1;\n}\n')
        self.run_ok(self.build(one, 'one', ['-I' + two, os.path.join(one, 'one.o'), os.path.join(two, 'two.o')],
                               main=main))

    def test_types(self):
        folder = self.aot(TYPES, 'types')
        with open(os.path.join(folder, 'types.o'), 'rb') as f:
            net = json.loads(re.search(rb'\{"schema": "halftone.aot/1".*?\}\n\0', f.read(), re.S)[0][:-1])
        descr = {'float32': '<f4', 'float64': '<f8', 'bool': '|b1', 'float16': '<f2', 'bfloat16': '<u2'}
        raw, inputs = [], []
        for i, v in enumerate(net['inputs']):
            kind = descr.get(v['dtype'])
            if not kind:
                bits = int(re.search(r'\d+', v['dtype'])[0])
                kind = ('|' if bits == 8 else '<') + v['dtype'][0] + str(bits // 8)
            n = int(kind[2:])
            for d in v['shape']:
                n *= d
            raw.append(self.path('%d.raw' % i, b'\1' * n))
            inputs += ['--input', v['name'] + '=@' + self.path('%d.npy' % i, npy(kind, tuple(v['shape']), b'\1' * n))]
        out = os.path.join(self.dir, 'out.npz')
        self.tool('run', '-q', TYPES, *inputs, '-o', out)
        with zipfile.ZipFile(out) as z:
            want = [z.read(n) for n in z.namelist()]
        want = b''.join(d[10 + struct.unpack('<H', d[8:10])[0]:] for d in want)
        self.assertGreater(len(want), 0)
        self.assertEqual(self.run_ok(self.build(folder, 'types', self.links(folder, 'types')[0]), *raw), want)

    def test_default_of_an_input(self):
        model = self.path('default.hir', b"""hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%v = Const() {dtype=f32, value=tensor f32[2] {1.5, -2.5}}
%x = PlaceholderWithDefault(%v) {dtype=f32, shape=shape[2]}
%y = Neg(%x) {T=f32}
""")
        folder = self.aot(model, 'd')
        main = self.path('d.c', b'#include "d.h"\n#include <stdio.h>\nstatic _Alignas(64) char arena[D_ARENA_BYTES];\n'
                         b'int main(void)\n{\n\tfloat y[2];\n\tconst void *in[] = { 0 };\n\tvoid *out[] = { y };\n\n'
                         b'\tif (d_run(in, out, arena))\n\t\treturn 1;\n\tprintf("%g %g\\n", y[0], y[1]);\n'
                         b'\treturn 0;\n}\n')
        for link in self.links(folder, 'd'):
            self.assertEqual(self.run_ok(self.build(folder, 'd', link, main=main)), b'-1.5 2.5\n')

    def test_missing_arrays(self):
        """A NULL input without a default and a NULL output are errors of the caller; tensors without elements need no memory."""
        model = self.path('n.hir', b"""hir 1
entry "" {
  input "x" = %x
  input "d" = %d
  input "none" = %none
  output "y" = %y
  output "z" = %z
  output "nothing" = %nothing
}

%v = Const() {dtype=f32, value=tensor f32[2] {1.5, -2.5}}
%x = Placeholder() {dtype=f32, shape=shape[2]}
%d = PlaceholderWithDefault(%v) {dtype=f32, shape=shape[2]}
%none = Placeholder() {dtype=f32, shape=shape[0]}
%y = AddV2(%x, %d) {T=f32}
%z = Neg(%x) {T=f32}
%nothing = Neg(%none) {T=f32}
""")
        folder = self.aot(model, 'n')
        main = self.path('n.c', b"""#include "n.h"
#include <stdio.h>
#include <string.h>
static _Alignas(64) char arena[N_ARENA_BYTES];
int main(void)
{
	static const float x[] = { 1, 2 };
	float y[2] = { 7, 7 }, z[2];
	const void *in[] = { 0, 0, 0 }, *given[] = { x, 0, 0 };
	void *out[] = { y, z, 0 }, *less[] = { y, 0, 0 };

	if (n_run(in, out, arena) != N_E_ARRAYS || n_run(given, less, arena) != N_E_ARRAYS || y[0] != 7)
		return 1;
	if (strcmp(n_status_text(N_E_ARRAYS), "an output is NULL, or an input that has no default"))
		return 2;
	if (n_run(given, out, arena) != N_OK)
		return 3;
	printf("%g %g %g %g\\n", y[0], y[1], z[0], z[1]);
	return 0;
}
""")
        for link in self.links(folder, 'n'):
            self.assertEqual(self.run_ok(self.build(folder, 'n', link, main=main)), b'2.5 -0.5 -1 -2\n')

    def test_missing_arrays_of_open_sizes(self):
        """Where the run's size is 0 the arrays have no elements, and need no memory."""
        model = self.path('open.hir', b"""hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[?,3]}
%y = Neg(%x) {T=f32}
""")
        folder = self.aot(model, 'o', '--input-shape', 'x:0..9,3')
        main = self.path('o.c', b"""#include "o.h"
static _Alignas(64) char arena[O_ARENA_BYTES];
int main(void)
{
	static const float x[3];
	float y[3];
	const struct o_inputs none = { 0 }, in = { .x = x };
	struct o_outputs nothing = { 0 }, out = { .y = y };

	if (o_call(&none, &nothing, arena, 0) != O_OK)
		return 1;
	if (o_call(&none, &out, arena, 1) != O_E_ARRAYS || o_call(&in, &nothing, arena, 1) != O_E_ARRAYS)
		return 2;
	return o_call(&in, &out, arena, 1) != O_OK;
}
""")
        self.run_ok(self.build(folder, 'o', self.links(folder, 'o')[0], main=main))

    def test_faults(self):
        model = self.path('fault.hir', b"""hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=i32, shape=shape[2]}
%one = Const() {dtype=i32, value=tensor i32[] {1}}
%y = FloorDiv(%one, %x) {T=i32}
""")
        folder = self.aot(model, 'f')
        r = subprocess.run([self.build(folder, 'f', self.links(folder, 'f')[0])], stderr=subprocess.PIPE)
        self.assertEqual(r.returncode, 4)
        self.assertIn(b'integer division by zero', r.stderr)

    def test_library_kernels(self):
        """Kernels of the library, in each type, with the bits of run; and numbers that the run computes."""
        r = random.Random(5)
        x = [r.choice((0.0, -0.0, r.gauss(0, 1), r.gauss(0, 1))) for _ in range(96)]
        raw = self.path('x.raw', struct.pack('<96f', *x))
        file = self.path('x.npy', npy('<f4', (12, 8), struct.pack('<96f', *x)))
        for t in 'f32', 'f16', 'bf16', 'f64', 'i8', 'u16', 'i32', 'i64':
            model = self.path('library.hir', LIBRARY.replace('TYPE', t).encode())
            folder = self.aot(model, 'library')
            want = self.reference(model, 'x', file)
            for link in self.links(folder, 'library')[:1] if t != 'f32' else self.links(folder, 'library'):
                self.assertEqual(self.run_ok(self.build(folder, 'library', link), raw), want, t)
        for t in 'f32', 'f16':
            for sigma in '0', '0.4':
                boxes = self.path('boxes.hir', BOXES.replace('TYPE', t).replace('SIGMA', sigma).encode())
                folder = self.aot(boxes, 'boxes')
                program = self.build(folder, 'boxes', self.links(folder, 'boxes')[0], CXX)
                self.assertEqual(self.run_ok(program, raw), self.reference(boxes, 'x', file), (t, sigma))

    def test_computed_sizes(self):
        """The caller's numbers tell how large outputs are; without them a run is an error."""
        model = self.path('positive.hir', b"""hir 1
entry "" {
  input "x" = %x
  output "at" = %at
  output "y" = %y
  output "sum" = %sum
}

%x = Placeholder() {dtype=f32, shape=shape[?,3]}
%c = Const() {dtype=f32, value=tensor f32[] {0.5}}
%m = Greater(%x, %c) {T=f32}
%at = Where(%m) {T=b1}
%y = GatherNd(%x, %at) {Tparams=f32, Tindices=i64}
%zero = Const() {dtype=i32, value=tensor i32[1] {0}}
%sum = Sum(%y, %zero) {T=f32, Tidx=i32}
""")
        folder = self.aot(model, 'm', '--input-shape', 'x:1..9,3')
        main = self.path('m.c', b"""#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static _Alignas(64) char arena[M_ARENA_BYTES];
int main(void)
{
	static const float x[] = { 0, 1, 2, 3, -4, 5 };
	struct m_inputs in = { .x = x };
	struct m_outputs out = { .at = malloc(M_OUTPUT_0_BYTES_FOR(2)), .y = malloc(M_OUTPUT_1_BYTES_FOR(2)),
		.sum = malloc(M_OUTPUT_2_BYTES) };
	const void *inputs[] = { x, 0 };
	void *outputs[] = { out.at, out.y, out.sum };
	int64_t sizes[M_SIZES];

	if (M_OUTPUT_0_BYTES_FOR(2) != 432 || M_OUTPUT_1_BYTES_FOR(2) != 108 || m_run(inputs, outputs, arena) != M_E_ROWS ||
		m_call(&in, &out, arena, 10, sizes) != M_E_ROWS || m_call(&in, &out, arena, 2, sizes) != M_OK)
		return 1;
	if (strcmp(m_status_text(M_E_ROWS), "an open size is missing or out of bounds: rows is 1 to 9"))
		return 2;
	const int64_t shape[] = M_OUTPUT_0_SHAPE_OF(sizes);
	printf("%d %d %zu %zu:", (int)shape[0], (int)shape[1], M_OUTPUT_0_BYTES_OF(sizes), M_OUTPUT_1_BYTES_OF(sizes));
	for (int64_t i = 0; i < shape[0]; i++)
		printf(" (%d, %d) %g", (int)out.at[2 * i], (int)out.at[2 * i + 1], (double)out.y[i]);
	printf(" %g\\n", (double)*out.sum);
	return 0;
}
""")
        program = self.build(folder, 'm', self.links(folder, 'm')[0], main=main)
        self.assertEqual(self.run_ok(program), b'4 2 64 16: (0, 1) 1 (0, 2) 2 (1, 0) 3 (1, 2) 5 11\n')

    def test_limit_of_iterations(self):
        """The loop divides by zero in its fourth iteration; the limit is checked at the end of an iteration."""
        loop = os.path.join(TOP, 'tests', 'golden', 'plan', 'loop.hir')
        raw = self.path('x.raw', struct.pack('<i', 7))
        for limit, text in (('2', b"node 'loop': the loop does not end within the limit of 2 iterations\n"),
                            ('3', b"node 'quotient': integer division by zero, in 'branch', in iteration 4 of 'loop'\n")):
            folder = self.aot(loop, 'loop', '--max-iterations', limit)
            program = self.build(folder, 'loop', self.links(folder, 'loop')[0])
            r = subprocess.run([program, raw], capture_output=True)
            self.assertEqual((r.returncode, r.stdout), (4, b''))
            self.assertIn(text, r.stderr)

    def sentences(self, model, name, inputs, *options):
        """What the tool says of a run that stops, and what its net says, in C and in C++."""
        def values(v):
            return ','.join('%.9g' % x for x in v[1]) if v[0][0] == 'f' else ','.join(map(str, v[1]))
        feeds = ['--input=%s=%s:%s' % (n, v[0], values(v)) for n, v in inputs.items()]
        r = subprocess.run([TOOL, 'run', '-q', model, *feeds, *options], capture_output=True, text=True)
        self.assertIn(r.returncode, (3, 6), r.stderr)
        said = re.search(r'error: (.*)', r.stderr)[1]
        folder = self.aot(model, name, *options)
        raw = [self.path('%d.raw' % i, struct.pack('<%d%s' % (len(v[1]), v[0][0]), *v[1])) for i, v in enumerate(inputs.values())]
        for compiler in C, CXX:
            p = subprocess.run([self.build(folder, name, self.links(folder, name)[0], compiler), *raw], capture_output=True, text=True)
            self.assertEqual((p.returncode, p.stdout), (4, ''))
            self.assertEqual(p.stderr, '%s: %s\n' % (name, said))
        return said

    def test_where_a_run_stopped(self):
        """A net says what the tool says: node, reason, message, loops with iterations and calls, from the inside out."""
        loop = os.path.join(TOP, 'tests', 'golden', 'plan', 'loop.hir')
        self.assertEqual(self.sentences(loop, 'loop', {'x': ('i32[]', [7])}),
                         "node 'quotient': integer division by zero, in 'branch', in iteration 4 of 'loop'")
        self.assertEqual(self.sentences(loop, 'loop', {'x': ('i32[]', [7])}, '--max-iterations', '2'),
                         "node 'loop': the loop does not end within the limit of 2 iterations")
        nested = self.path('nested.hir', NESTED)
        self.assertEqual(self.sentences(nested, 'nested', {'x': ('f32[2,2]', [2, 1.5, 0.1, 3])}),
                         "node 'check': assertion failed: [[32 24][1.6 48]] [1], in iteration 2 of 'inner', in iteration 2 of 'outer'")
        deep = os.path.join(TOP, 'tests', 'golden', 'passes', 'bodies_recursive.hir')
        said = self.sentences(deep, 'deep', {'x': ('f32[1,2]', [1, 2]), 'y': ('f32[3,2]', [1] * 6), 'n': ('i32[]', [1000])})
        self.assertRegex(said, r"calls are nested too deeply: there is memory for 64 that recurse, in '.*, in more calls or loops$")
        numerics = self.path('numerics.hir', b"""hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[2]}
%y = CheckNumerics(%x) {T=f32, message="the input"}
""")
        self.assertEqual(self.sentences(numerics, 'numerics', {'x': ('f32[2]', [1, float('inf')])}), "node 'y': the tensor has +Inf: the input")

    def test_record_of_a_run(self):
        """What a program reads of a run that stopped, from its arena and from any other memory."""
        folder = self.aot(self.path('nested.hir', NESTED), 'nested', '--target', 'x86-64-v3,x86-64-v4')
        for link in self.links(folder, 'nested')[::2]:
            for compiler in C, CXX:
                self.run_ok(self.build(folder, 'nested', link, compiler, os.path.join(HERE, 'stopped.c')))

    def test_faults_on_threads(self):
        """Faults in parts of a batch, in one step and in several: they are those of one thread, and the run ends."""
        head = b"""hir 1
entry "" {
  input "d" = %d
  input "e" = %e
  output "y" = %y
  output "z" = %z
}

%d = Placeholder() {dtype=i32, shape=shape[?,64]}
%e = Placeholder() {dtype=i32, shape=shape[?,64]}
%c = Const() {dtype=i32, value=tensor i32[] {7}}
%q = FloorDiv(%c, %d) {T=i32}
%p = Pow(%c, %e) {T=i32}
"""
        one = head.replace(b'  output "z" = %z\n', b'') + b'%y = AddV2(%q, %p) {T=i32}\n'
        more = head + b"""%w = Const() {dtype=f32, value=tensor f32[64,64] {0.5 ...}}
%x = Cast(%q) {SrcT=i32, DstT=f32}
%m = MatMul(%x, %w) {T=f32}
%y = Softmax(%m) {T=f32}
%z = BitwiseAnd(%p, %c) {T=i32}
"""
        ones = self.path('ones.npy', npy('<i4', (5, 64), struct.pack('<320i', *[1] * 320)))
        for text, several in (one, False), (more, True):
            model = self.path('parts.hir', text)
            how = ['--target', 'x86-64-v3', '--batch', '5', '--batch-method', 'parts']
            shown = json.loads(self.tool('bench', '-q', model, *how, '--input', 'd=@' + ones, '--input', 'e=@' + ones, '--steps',
                                         '--format', 'json', '--runs', '1', '--duration', '0').stdout)
            self.assertEqual((shown['parts'], len(shown['steps_ms']) > 1), (5, several))
            folder = self.aot(model, 'parts', *how)
            link = [*self.links(folder, 'parts')[0], '-pthread']
            self.run_ok(self.build(folder, 'parts', link, main=os.path.join(HERE, 'faults.c')))

    def test_refused(self):
        numbers = self.path('r.hir', b"""hir 1
entry "" {
  output "r" = %r
}
%n = Const() {dtype=i32, value=tensor i32[2] {3, 5}}
%r = RandomUniform(%n) {T=i32, dtype=f32, seed=7, seed2=9}
""")
        out = os.path.join(self.dir, 'no')
        self.fails(4, r"node 'r'.*cannot be compiled ahead of time.*random_uniform", 'aot', '-q', numbers, '-o', out)
        self.fails(2, 'needs -o FOLDER', 'aot', '-q', SMALL)
        self.fails(2, 'no target stated', 'aot', '-q', SMALL, '-o', out, '--strict-target')
        self.fails(2, "'x86-64-v9'", 'aot', '-q', SMALL, '-o', out, '--target', 'x86-64-v3,x86-64-v9')
        self.fails(2, "'a/b' is no name of a net", 'aot', '-q', SMALL, '-o', out, '--name', 'a/b')
        self.fails(2, "'9x' is no prefix", 'aot', '-q', SMALL, '-o', out, '--prefix', '9x')
        self.assertFalse(os.path.exists(out))
        self.fails(5, 'cannot make this folder', 'aot', '-q', SMALL, '-o', os.path.join(out, 'deep'))
        self.fails(5, 'a file is there', 'aot', '-q', SMALL, '-o', self.path('file', b''))

    def test_no_folder_is_left_behind(self):
        """If any file cannot be written, a folder that was made for them is removed, and an existing one stays."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        for there in False, True:
            for size in 0, 64, 1024, 4096:
                out = os.path.join(self.dir, f'{there}{size}')
                if there:
                    os.mkdir(out)
                    open(os.path.join(out, 'mine'), 'w').close()
                r = subprocess.run([TOOL, 'aot', '-q', '--no-cache', '--batch=1', SMALL, '-o', out], preexec_fn=limit,
                                   restore_signals=False, capture_output=True, timeout=HANGS)
                self.assertEqual(r.returncode, 5, r.stderr)
                self.assertEqual(os.path.exists(out), there)
                self.assertTrue(not there or os.path.exists(os.path.join(out, 'mine')))

    def test_a_larger_model(self):
        model = os.path.join(os.environ.get('HALFTONE_MODELS', '/nonexistent'), 'frozen', 'mobilenetv2.pb')
        if not os.path.exists(model):
            self.skipTest('$HALFTONE_MODELS has no frozen/mobilenetv2.pb')
        net = json.loads(self.tool('inspect', '-q', model, '--format', 'json').stdout)
        folder = self.aot(model, 'mobilenet', '--batch=1', '--policy', 'allow_mix_precision_bf16')
        name = net['inputs'][0]['name']
        file, raw = self.random_input((1, 224, 224, 3), '<f4', 'f')
        want = self.reference(model, name, file, '--policy', 'allow_mix_precision_bf16')
        for link in self.links(folder, 'mobilenet'):
            self.assertEqual(self.run_ok(self.build(folder, 'mobilenet', link), raw), want)


if __name__ == '__main__':
    unittest.main()
