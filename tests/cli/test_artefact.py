#!/usr/bin/env python3
"""Artefacts: they compute what the model computes, without the code generator; equal programs are equal
bytes; what is damaged is refused."""
import json, os, random, shutil, struct, subprocess, unittest

from test_cli import SMALL, TOOL, Case, floats, npy

NO_GENERATOR = {'HALFTONE_BACKEND': '/nonexistent'}


class Artefacts(Case):
    def setUp(self):
        super().setUp()
        self.htx = os.path.join(self.dir, 'm.htx')
        self.tool('compile', '-q', SMALL, '-o', self.htx)
        self.x = self.path('x.npy', npy('<f4', (1, 4), floats(1, 2, -3, .5)))

    def outputs(self, model, *args, **more):
        out = os.path.join(self.dir, 'y.npz')
        self.tool('run', '-q', model, '--input', 'x=@' + self.x, '-o', out, *args, **more)
        with open(out, 'rb') as f:
            return f.read()

    def test_computes_the_same_without_the_code_generator(self):
        self.assertEqual(self.outputs(self.htx, env=NO_GENERATOR), self.outputs(SMALL))
        self.assertEqual(self.outputs(self.htx, '--threads', '2', env=NO_GENERATOR), self.outputs(SMALL))
        self.fails(5, 'code generator', 'run', '-q', SMALL, env=NO_GENERATOR)
        report = json.loads(self.tool('bench', '-q', self.htx, '--runs', '1', '--duration', '0', '--format',
                                      'json', env=NO_GENERATOR).stdout)
        self.assertEqual(report['policy'], 'must_keep_origin_dtype')

    def test_policies_and_library_kernels(self):
        random_numbers = self.path('r.hir', b"""hir 1
entry "" {
  output "r" = %r
}
%n = Const() {dtype=i32, value=tensor i32[2] {3, 5}}
%r = RandomUniform(%n) {T=i32, dtype=f32, seed=7, seed2=9}
""")
        for model, policy in ((SMALL, 'force_fp16'), (SMALL, 'allow_mix_precision_bf16'),
                              (random_numbers, 'must_keep_origin_dtype')):
            path, files = os.path.join(self.dir, 'p.htx'), []
            self.tool('compile', '-q', model, '--policy', policy, '-o', path)
            for args in [model, '--policy', policy], [path]:
                files.append(os.path.join(self.dir, f'{len(files)}.npz'))
                self.tool('run', '-q', *args, '-o', files[-1])
            with open(files[0], 'rb') as a, open(files[1], 'rb') as b:
                self.assertEqual(a.read(), b.read(), (policy, model))

    def test_equal_programs_are_equal_bytes(self):
        with open(self.htx, 'rb') as f:
            first = f.read()
        other = os.path.join(self.dir, 'elsewhere')
        os.mkdir(other)
        moved = shutil.copy(SMALL, os.path.join(other, 'renamed.hir'))
        for env in {}, {'LC_ALL': 'de_DE.UTF-8', 'TZ': 'Asia/Tokyo', 'HOME': '/'}:
            for threads in '1', '2':
                r = subprocess.run([TOOL, 'compile', '-q', moved, '--threads', threads, '-o', 'n.htx'],
                                   cwd=other, env={**os.environ, **env}, stdout=subprocess.DEVNULL)
                self.assertEqual(r.returncode, 0)
                with open(os.path.join(other, 'n.htx'), 'rb') as f:
                    self.assertEqual(f.read(), first, (env, threads))
        self.assertNotIn(self.dir.encode(), first)

    def test_threads_pack_and_generate_the_same_bytes(self):
        # Products of 1, 5 and 100 rows with one matrix, which each packs in another way.
        rows, layers = (1, 5, 100), 9
        text = ['hir 1', 'entry "" {', '  input "x" = %x']
        text += [f'  output "y{i}" = %y{i}' for i in range(layers * len(rows))] + ['}', '']
        text.append('%x = Placeholder() {dtype=f32, shape=shape[100,48]}')
        for r, n in enumerate(rows):
            text.append(f'%b{r} = Const() {{dtype=i32, value=tensor i32[2] {{0, 0}}}}')
            text.append(f'%s{r} = Const() {{dtype=i32, value=tensor i32[2] {{{n}, 48}}}}')
            text.append(f'%x{r} = Slice(%x, %b{r}, %s{r}) {{T=f32, Index=i32}}')
        for l in range(layers):
            n = 40 + 3 * l
            values = ', '.join(str((i * 7919 + l) % 1009 / 1024) for i in range(48 * n))
            text.append(f'%w{l} = Const() {{dtype=f32, value=tensor f32[48,{n}] {{{values}}}}}')
            text += [f'%y{l * len(rows) + r} = MatMul(%x{r}, %w{l}) '
                     '{T=f32, transpose_a=false, transpose_b=false}' for r in range(len(rows))]
        model = self.path('many.hir', '\n'.join(text).encode() + b'\n')
        for policy in 'must_keep_origin_dtype', 'force_fp16':
            made = []
            for i, threads in enumerate(('1', '2', '5', '5')):
                path = os.path.join(self.dir, f'{i}.htx')
                self.tool('compile', '-q', model, '--policy', policy, '--threads', threads, '-o', path)
                with open(path, 'rb') as f:
                    made.append(f.read())
            self.assertEqual([m == made[0] for m in made], [True] * len(made), policy)

    def test_manifest(self):
        m = json.loads(self.tool('inspect', self.htx).stdout)
        self.assertEqual(m['schema'], 'halftone.artefact/2')
        m = m['variants'][0]
        self.assertEqual(m['inputs'], [{'name': 'x', 'dtype': 'float32', 'shape': [1, 4]}])
        self.assertEqual([o['name'] for o in m['outputs']], ['y', 'top'])

    def test_what_was_decided_cannot_be_asked_for_again(self):
        for option in (['--policy', 'force_fp16'], ['--target', 'x86-64'], ['--batch', '2'],
                       ['--outputs', 'y'], ['--input-shape', 'x:2,4'], ['--precision_mode=force_fp16']):
            self.fails(2, 'compiled already', 'run', self.htx, *option)
        self.fails(2, "no input 'z'", 'run', self.htx, '--input', 'z=@' + self.x)
        self.fails(3, r'm\.htx: error: .*artefact', 'explain', self.htx)

    def test_damage_is_refused(self):
        with open(self.htx, 'rb') as f:
            whole = f.read()
        r = random.Random(20264)
        broken = os.path.join(self.dir, 'b.htx')
        places = list(range(64)) + [r.randrange(len(whole)) for _ in range(100)]
        for at in places:
            damaged = bytearray(whole)
            damaged[at] ^= 1 << r.randrange(8)
            with open(broken, 'wb') as f:
                f.write(damaged)
            self.fails(3, r'b\.htx', 'run', '-q', broken, env=NO_GENERATOR)
        for n in [0, 1, 7, 8, 63, 64, 383, len(whole) - 1] + [r.randrange(len(whole)) for _ in range(20)]:
            with open(broken, 'wb') as f:
                f.write(whole[:n])
            self.fails(3, r'b\.htx', 'run', '-q', broken, env=NO_GENERATOR)
        with open(broken, 'wb') as f:
            f.write(whole + b'\0')
        self.fails(3, r'b\.htx.*size', 'run', '-q', broken, env=NO_GENERATOR)

    def test_another_version(self):
        with open(self.htx, 'rb') as f:
            data = bytearray(f.read())
        struct.pack_into('<I', data, 8, 1)
        self.fails(3, 'another version; compile', 'run', '-q', self.path('v.htx', data))

    def test_nothing_half_written(self):
        self.fails(5, 'cannot write', 'compile', '-q', SMALL, '-o', os.path.join(self.dir, 'no', 'm.htx'))
        before = sorted(os.listdir(self.dir))
        self.fails(3, r'bad\.pb', 'compile', '-q', self.path('bad.pb', b'\xff' * 9), '-o', self.htx)
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(before + ['bad.pb']))
        self.outputs(self.htx, env=NO_GENERATOR)


if __name__ == '__main__':
    unittest.main()
