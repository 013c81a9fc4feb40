#!/usr/bin/env python3
"""Time and memory grow linearly with each kind of size: operands, users, control edges, functions, attributes, depth.
Every kind of tests/tools/hostile.py is tried at N and 4 N elements."""
import os, random, re, shutil, subprocess, sys, tempfile, unittest

from tool import TOOL, TOP, ToolCase, floats, npy
import environment, hostile

N = 8000 if environment.LONG else 4000
# User time of 4 N against N, 4 is linear (more, where caches overflow), 16 quadratic.  Times below
# NOTHING seconds tell nothing.
MOST, NOTHING = 12, 0.1
# Bytes of peak memory that an element may add.  `explain` holds the graph as imported, as decided
# and as lowered, with a report on each node.
BYTES = {'inspect': 2048, 'convert': 16384, 'explain': 6144, 'compile': 4096, 'run': 5120, 'aot': 4096}
# Limits for the kinds whose elements take more memory.  Such an element is two nodes; or a Reshape, whose shapes are made anew by each
# inference; or a function and the node that calls it; or a node around which policies place casts; or a result with a kernel of its own.
MORE_BYTES = {
    'inspect': {
        **dict.fromkeys(('chain_add', 'padded', 'one_function', 'control_through', 'constants_alike', 'chain_reshape'), 3072),
        'functions_called': 4352,
        'functions_nested': 6144,
        'switches': 20480  # two functions, and a copy of each
    },
    'convert': {},
    'explain': {'chain_matmul': 8192, 'constants_alike': 8192, 'control_through': 12288, 'functions_called': 20480, 'unpack': 16384},
    'compile': {'constants_alike': 8192, 'chain_add': 12288, 'functions_called': 12288, 'one_function': 6144},
    'run': {'one_function': 6144},
    'aot': {'one_function': 6144},
}
FEWER = {'switches': 2000}  # a program has at most 50,000 functions of branches and loops
REFUSED = {'dims': 'more than 254 dimensions', 'functions_nested': 'nested more than 1000 deep'}
EXPLAINED = ('unpack', 'addn', 'users', 'constants_alike', 'chain', 'chain_matmul', 'matmul_users', 'identities', 'control_through',
             'functions_called', 'attributes')
POLICIES = ('fp16', 'grappler-bf16', 'optimal')
COMPILED = ('addn', 'users', 'chain', 'chain_matmul', 'matmul_users', 'ladder', 'concat', 'concat_nested', 'pack', 'constants',
            'constants_alike', 'chain_add', 'functions_called', 'one_function', 'placeholders', 'control_in', 'chain_reshape')
# Operands, results, inputs, constants and kernels of a program.
RUN = ('addn', 'users', 'concat', 'placeholders', 'constants', 'control_in', 'one_function')


MEASURED = [sys.executable, '-I', '-S', os.path.join(TOP, 'tests', 'tools', 'measured.py')]
ALONE = {**os.environ, 'HALFTONE_POLICY': '', 'HALFTONE_CACHE_MODE': 'off'}

# MANY elements take at most EACH bytes for each element.  In kinds of COUNTED an element counts twice: a function and its call, or a
# control edge into a node and one out of it.  A program takes more than EACH for an output, an input and a constant (BYTES), so kinds
# with many of these are only inspected (LARGE without LARGE_PROGRAMS).
MANY, EACH = 100000 if environment.LONG else 40000, 2048
COUNTED = {'functions_called': 2, 'control_through': 2}
LARGE = ('functions_called', 'chain_add', 'control_through', 'constants_alike', 'one_function', 'functions_unused', 'addn', 'concat',
         'pack', 'identities', 'users', 'alike', 'constant_users', 'control_in', 'control_values', 'control_out', 'control_chain',
         'attributes', 'ints', 'shapes', 'types', 'strings', 'placeholders', 'constants', 'unpack', 'scopes')
LARGE_PROGRAMS = ('addn', 'concat', 'pack', 'alike', 'control_in', 'control_chain', 'functions_unused', 'attributes', 'ints', 'shapes',
                  'types', 'strings')


def share(kinds, i):
    """The kinds for the i-th verb or policy: a third of them in turn, or with HALFTONE_LONG all."""
    return environment.in_turn(kinds, 3, i)


class Size(ToolCase):
    def measure(self, *args):
        """User time in seconds, peak memory in bytes, exit code, standard error."""
        r, w = os.pipe()
        with open(self.path('err'), 'wb') as err:
            p = subprocess.Popen([*MEASURED, TOOL, *args], stdout=subprocess.DEVNULL, stderr=err, env=ALONE,
                                 preexec_fn=lambda: os.dup2(w, 3), pass_fds=(3, w))
            os.close(w)
            with os.fdopen(r) as f:
                seconds, peak, code = f.read().split()
            self.assertEqual(p.wait(), 0)
        return float(seconds), int(peak), int(code), self.read('err').decode(errors='replace')

    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.mkdtemp(prefix='halftone-')
        cls.addClassCleanup(shutil.rmtree, cls.models)

    def model(self, kind, n, compiled=False):
        """The path of a model, which is written once for all tests."""
        path = os.path.join(self.models, f'{kind}{n}' + ('' if kind == 'signatures' else '.pb'))
        if not os.path.exists(path):
            hostile.write(kind, n, path)
        if compiled:
            self.tool('compile', path, '-o', path := self.path(f'{kind}{n}.htx'))
        return path

    def grows_linearly(self, kind, verb, *more, compiled=False):
        n = FEWER.get(kind, N)
        small, large = self.model(kind, n, compiled), self.model(kind, 4 * n, compiled)
        times = [[], []]
        for _ in range(3):  # in turn; the least time has the least disturbance
            peaks = []
            for i, m in enumerate((small, large)):
                seconds, peak, code, err = self.measure(verb, m, *more)
                times[i].append(seconds)
                peaks.append(peak)
                if kind in REFUSED:
                    self.assertIn(REFUSED[kind], err)
                self.assertEqual(code, 0 if kind not in REFUSED else 3 if kind == 'dims' else 6, err[:300])
            a, b = min(times[0]), min(times[1])
            if b < NOTHING or b < MOST * max(a, NOTHING / 4):
                break
        else:
            self.fail(f'{verb} {kind}: {a:.2f} s for {n} elements, {b:.2f} s for {4 * n}')
        self.assertLess(peaks[1] - peaks[0], MORE_BYTES[verb].get(kind, BYTES[verb]) * 3 * n)

    def test_import_and_clean_up(self):
        for kind in environment.in_turn(hostile.KINDS, 2):
            with self.subTest(kind):
                self.grows_linearly(kind, 'inspect')

    def test_bytes_of_very_many(self):
        for verb, kinds in (('inspect', LARGE if environment.LONG else [k for k in LARGE if k not in LARGE_PROGRAMS]),
                            ('compile -o out.htx', share(LARGE_PROGRAMS, 0)), ('run -o out.npz', share(LARGE_PROGRAMS, 1)),
                            ('aot -o package', share(LARGE_PROGRAMS, 2))):
            verb, *more = verb.split()
            more = more[:1] + [self.path(f) for f in more[1:]]
            _, nothing, *_ = self.measure(verb, self.model('users', 1), *more)
            for kind in kinds:
                with self.subTest(kind, verb=verb):
                    _, peak, code, err = self.measure(verb, self.model(kind, MANY), *more)
                    self.assertEqual(code, 0, err)
                    self.assertLess(peak - nothing, EACH * MANY * COUNTED.get(kind, 1))

    @unittest.skipUnless(shutil.which('valgrind'), 'no valgrind')
    def test_instructions(self):
        """Instructions grow linearly with the number of elements n.  From 2 n to 4 n they grow twice as much as from n to 2 n if the cost is
        linear, and four times as much if it is quadratic; less than three times is required."""
        n = 200
        for verb, kinds in (('inspect', ('chain_add', 'control_through', 'functions_called', 'users', 'attributes')),
                            ('explain', ('unpack', 'chain_matmul'))):
            for kind in kinds:
                with self.subTest(kind, verb=verb):
                    more = ['--policy=optimal'] if verb == 'explain' else []
                    few, twice, four = (self.instructions(verb, self.model(kind, m), *more) for m in (n, 2 * n, 4 * n))
                    self.assertLess(four - twice, 3 * (twice - few))

    def test_shared_bodies(self):
        """Branches share their bodies, which have branches that do so: prune looks at each of 8 bodies, not at 12 to the power of 8."""
        attributes = 'Tcond=bool, Tin=[bool,f32], Tout=[f32]'
        lines = ['hir 1', 'entry "" {', 'input "p" = %p', 'input "x" = %x', 'output "y" = %y', '}', '%p = Placeholder() {dtype=bool, shape=shape[]}',
                 '%x = Placeholder() {dtype=f32, shape=shape[]}',
                 f'%y = StatelessIf(%p, %p, %x) {{{attributes}, then_branch=@f0{{}}, else_branch=@f0{{}}}}']
        for level in range(8):
            lines += [f'function "f{level}" {{', f'signature "\\n\\x02f{level}"', 'arg "p" = %p', 'arg "x" = %i0', 'ret "y" = %i12',
                      '%p = _Arg() {T=bool, index=0}', '%i0 = _Arg() {T=f32, index=1}']
            for i in range(12):
                bodies = f'then_branch=@f{level + 1}{{}}, else_branch=@f{level + 1}{{}}'
                lines.append(f'%i{i + 1} = StatelessIf(%p, %p, %i{i}) {{{attributes}, {bodies}}}' if level < 7 else
                             f'%i{i + 1} = Neg(%i{i}) {{T=f32}}')
            lines.append('}')
        with open(self.path('m.hir'), 'w') as f:
            f.write('\n'.join(lines) + '\n')
        pruned = self.tool('opt', self.path('m.hir'), '--passes', 'prune', '-o', '-').stdout
        self.assertEqual(pruned.count(b'StatelessIf'), 1 + 7 * 12)

    def instructions(self, *args):
        # The processor that Valgrind shows a program is not that of the machine.
        r = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', TOOL, *args],
                           env={**ALONE, 'HALFTONE_HOST': ''}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertEqual(r.returncode, 0, r.stderr.decode())
        return int(re.search(rb'Collected : (\d+)', r.stderr)[1])

    def test_policies(self):
        for i, policy in enumerate(POLICIES):
            for kind in share(EXPLAINED, i):
                with self.subTest(kind, policy=policy):
                    self.grows_linearly(kind, 'explain', '--policy=' + policy)

    def test_convert(self):
        for kind in ('addn', 'users', 'control_in', 'functions_unused', 'attributes', 'constants_alike'):
            with self.subTest(kind):
                self.grows_linearly(kind, 'convert', '-o', self.path('out.pb'))

    def test_compile(self):
        for kind in share(COMPILED, 0):
            with self.subTest(kind):
                self.grows_linearly(kind, 'compile', '-o', self.path('out.htx'))

    def test_run(self):
        for i, compiled in enumerate((False, True)):
            for kind in share(RUN, i):
                with self.subTest(kind, compiled=compiled):
                    self.grows_linearly(kind, 'run', '-o', self.path('out.npz'), compiled=compiled)

    def test_aot(self):
        for kind in share(RUN, 2):
            with self.subTest(kind):
                self.grows_linearly(kind, 'aot', '-o', self.path('package'))

    def test_very_many_buffers(self):
        """A run with more buffers than are placed by size: no step overwrites data that another needs."""
        rng = random.Random(11)
        a, b = ([rng.choice((-1., 1.)) for _ in range(4)] for _ in range(2))
        for n in (30001, 30002):
            with open(self.path('ladder.pb'), 'wb') as f:
                f.write(hostile.ladder(n, 'Mul'))
            self.tool('run', self.path('ladder.pb'), '--input', 'a=@' + self.path('a.npy', npy('<f4', (4, ), floats(*a))),
                      '--input', 'b=@' + self.path('b.npy', npy('<f4', (4, ), floats(*b))), '-o', self.path('y.npz'))
            two = a, b
            for _ in range(n):
                two = two[1], [x * y for x, y in zip(*two)]
            (_, _, got), = self.outputs(self.path('y.npz')).values()
            self.assertEqual(got, two[1])

    def test_long_sum(self):
        """More different operands than a kernel takes."""
        for n in (32, 33, 63, 64, 65, 500):
            rng = random.Random(n)
            values = [[rng.randint(-9, 9) for _ in range(4)] for _ in range(n)]
            inputs = [a for i, v in enumerate(values)
                      for a in ('--input', f'x{i}=@' + self.path(f'x{i}.npy', npy('<f4', (4, ), floats(*v))))]
            self.tool('run', self.model('placeholders', n), *inputs, '-o', self.path('y.npz'))
            (_, _, got), = self.outputs(self.path('y.npz')).values()
            self.assertEqual(got, [sum(column) for column in zip(*values)])

    def test_window_beyond_all_channels(self):
        """An LRN's window ends at the last channel."""
        text = '''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[1,2,2,5]}}
%y = LRN(%x) {{depth_radius={}, bias=1.0, alpha=0.5, beta=0.5, T=f32}}
'''
        rng = random.Random(3)
        x = [rng.uniform(-2, 2) for _ in range(20)]
        feed = 'x=@' + self.path('x.npy', npy('<f4', (1, 2, 2, 5), floats(*x)))
        for radius in (4, 1 << 30):
            self.tool('run', self.path('lrn.hir', text.format(radius).encode()), '--input', feed, '-o', self.path('y.npz'))
            (_, _, got), = self.outputs(self.path('y.npz')).values()
            for i, y in enumerate(got):
                squares = sum(v * v for v in x[i // 5 * 5:i // 5 * 5 + 5])
                self.assertAlmostEqual(y, x[i] / (1 + squares / 2)**.5, places=5)

    def test_more_than_is_free(self):
        """A program that exceeds free memory is refused before memory is allocated."""
        text = '''hir 1
entry "" {
  output "y" = %y
}
%a = Const() {dtype=i64, value=tensor i64[] {0}}
%b = Const() {dtype=i64, value=tensor i64[] {BYTES}}
%c = Const() {dtype=i64, value=tensor i64[] {8}}
%y = Range(%a, %b, %c) {Tidx=i64}
'''
        with open('/proc/meminfo') as f:
            free = next(int(line.split()[1]) * 1024 for line in f if line.startswith('MemAvailable'))
        model = self.path('range.hir', text.replace('BYTES', str(free + (1 << 30))).encode())
        self.fails(6, 'this machine has free', 'run', model)
        self.fails(6, 'to write them', 'run', model, '-o', self.path('y.npz'))
        self.assertFalse(os.path.exists(self.path('y.npz')))

    def test_folding_has_a_budget(self):
        """Constants that a small file describes do not take unlimited memory; those that are not folded are computed."""
        for make in (hostile.fills, hostile.turns):
            peaks = []
            for n in (400, 1200):
                with open(self.path('m.pb'), 'wb') as f:
                    f.write(make(n))
                _, peak, code, err = self.measure('inspect', self.path('m.pb'))
                self.assertEqual(code, 0, err)
                peaks.append(peak)
            self.assertLess(peaks[1] - peaks[0], 100 << 20, make.__name__)
        with open(self.path('m.pb'), 'wb') as f:
            f.write(hostile.fills(400))
        rng = random.Random(5)
        x = [float(rng.randint(-9, 9)) for _ in range(hostile.FILLED)]
        feed = 'x=@' + self.path('x.npy', npy('<f4', (hostile.FILLED, ), floats(*x)))
        self.tool('run', self.path('m.pb'), '--input', feed, '-o', self.path('y.npz'))
        (_, _, got), = self.outputs(self.path('y.npz')).values()
        self.assertEqual(list(got), [v + sum(range(400)) for v in x])

    def test_limit_counts_what_a_run_holds(self):
        """A run that a limit allows stays below it, including its outputs and their file."""
        text = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
  output "z" = %z
}
%x = Placeholder() {dtype=f32, shape=shape[1]}
%s = Const() {dtype=i32, value=tensor i32[1] {8000000}}
%t = Tanh(%x) {T=f32}
%y = BroadcastTo(%x, %s) {T=f32, Tidx=i32}
%z = BroadcastTo(%t, %s) {T=f32, Tidx=i32}
'''
        model = self.path('two.hir', text.encode())
        for more in ([], ['-o', self.path('o.npz')]):
            r = self.fails(6, 'allows', 'run', model, '--max-memory=1M', *more)
            needs = int(r.err.split('a run needs ')[1].split()[0])
            with open(self.path('err'), 'wb') as err:
                p = subprocess.Popen([TOOL, 'run', model, f'--max-memory={needs + (64 << 20)}', *more],
                                     stdout=subprocess.DEVNULL, stderr=err)
                _, status, used = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(p.returncode, 0, self.read('err'))
            self.assertLess(used.ru_maxrss * 1024, needs + (64 << 20))

    def test_what_takes_most(self):
        """An error of too little memory names the node with the largest tensor, and the open sizes that make it large."""
        text = '''hir 1
entry "" {
  input "ids" = %ids
  output "y" = %y
}
%ids = Placeholder() {dtype=f32, shape=shape[?,?,8]}
%axes = Const() {dtype=i32, value=tensor i32[1] {2}}
%product = BatchMatMulV2(%ids, %ids) {T=f32, adj_x=false, adj_y=true}
%soft = Softmax(%product) {T=f32}
%y = BatchMatMulV2(%soft, %ids) {T=f32, adj_x=false, adj_y=false}
'''
        model, htx = self.path('attention.hir', text.encode()), self.path('attention.htx')
        self.tool('compile', '-q', model, '--input-shape', 'ids:1..2,1..100000,8', '-o', htx)
        r = self.fails(6, 'allows', 'run', htx, '--input', 'ids=f32[1,2,8]:1', '--max-memory=1G')
        self.assertRegex(r.err, r"node '\w+': the largest piece of the memory is its tensor, \d{11,} bytes(, because|; in this program) "
                         r"dimension 0 of input 'ids' is up to 2, and dimension 1 of input 'ids' is up to 100000; .*--input-shape")
        computed = self.path('computed.hir', b'''hir 1
entry "" {
  input "x" = %x
  output "n" = %n
}
%x = Placeholder() {dtype=f32, shape=shape[300000]}
%at = Where(%x) {T=f32}
%y = GatherNd(%x, %at) {Tparams=f32, Tindices=i64}
%o = Const() {dtype=i32, value=tensor i32[2] {-1, 1}}
%r = Reshape(%y, %o) {T=f32, Tshape=i32}
%p = MatMul(%r, %r) {T=f32, transpose_a=false, transpose_b=true}
%s = Softmax(%p) {T=f32}
%axes = Const() {dtype=i32, value=tensor i32[2] {0, 1}}
%n = Sum(%s, %axes) {T=f32, Tidx=i32}
''')
        self.assertRegex(self.fails(6, 'a run needs', 'run', computed, '--max-memory=1G').err,
                         r"node 'p': .*360000000000 bytes(, because|; in this program) sizes that the run computes are up to 300000; ")
        small = self.path('small.htx')
        self.tool('compile', '-q', model, '--input-shape', 'ids:1..2,1..10,8', '-o', small)
        self.tool('run', '-q', small, '--input', 'ids=f32[1,2,8]:1', '--max-memory=1G')


if __name__ == '__main__':
    unittest.main()
