#!/usr/bin/env python3
"""Dumps: their contents, folders and names, the vendor's options, and folders that cannot be written."""
import csv, glob, json, os, re, resource, signal, struct, subprocess, unittest

from tool import TOOL, ToolCase, npy, read_npy

MODEL = b'''hir 1
entry "" {
  input "x" = %x
  output "net/y" = %"net/y"
}
%x = Placeholder() {dtype=f32, shape=shape[2,4]}
%w = Const() {dtype=f32, value=tensor f32[4,4] {1.0, 0.5, 0.0, 2.0, 0.0, 1.0, -1.0, 0.5, 3.0, 0.0, 1.0, 0.25, -2.0, 1.0, 0.0, 1.0}}
%b = Const() {dtype=f32, value=tensor f32[4] {0.5, -0.5, 0.25, -20.0}}
%"net/a" = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
%"net/b" = BiasAdd(%"net/a", %b) {T=f32, data_format="NHWC"}
%"net/c" = Relu(%"net/b") {T=f32}
%"net/y" = Exp(%"net/c") {T=f32}
'''
X = [1, 2, 3, 4, -1, 0.5, 2, 0]
W = [[1.0, 0.5, 0.0, 2.0], [0.0, 1.0, -1.0, 0.5], [3.0, 0.0, 1.0, 0.25], [-2.0, 1.0, 0.0, 1.0]]
B = [0.5, -0.5, 0.25, -20.0]
A = [sum(X[4 * r + k] * W[k][c] for k in range(4)) for r in range(2) for c in range(4)]
SUM = [a + B[i % 4] for i, a in enumerate(A)]
NAME = re.compile(r'^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[0-9]+\.0\.[0-9]{16}\.(?:npy|(?:input|output)\.[0-9]+\.npy|csv)$')

DIVIDES = b'''hir 1
entry "" {
  input "x" = %x
  input "z" = %z
  output "y" = %y
}
%x = Placeholder() {dtype=i32, shape=shape[3]}
%z = Placeholder() {dtype=i32, shape=shape[3]}
%two = Const() {dtype=i32, value=tensor i32[] {2}}
%twice = Mul(%x, %two) {T=i32}
%quotient = FloorDiv(%twice, %z) {T=i32}
%y = AddV2(%quotient, %x) {T=i32}
'''

OVERFLOWS = b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[4]}
%big = Const() {dtype=f32, value=tensor f32[] {3.0e38}}
%small = Const() {dtype=f32, value=tensor f32[] {0.5}}
%less = Mul(%x, %small) {T=f32}
%more = Mul(%less, %big) {T=f32}
%after = Neg(%more) {T=f32}
%y = AddV2(%after, %x) {T=f32}
'''


class Dump(ToolCase):
    def setUp(self):
        super().setUp()
        self.model = self.path('m.hir', MODEL)
        self.feed = ['--input', 'x=@' + self.path('x.npy', npy('<f4', (2, 4), struct.pack('<8f', *X)))]

    def run_tool(self, *args, verb='run', **more):
        return self.tool(verb, self.model, *self.feed, *args, **more)

    def files(self, folder, step=0):
        """The tensors of a step by node and kind: "net/a" is net_a in file names."""
        at = glob.glob('%s/*/*/*/1/%d/*' % (folder, step))
        got = {}
        for f in at:
            self.assertRegex(os.path.basename(f), NAME)
            parts = os.path.basename(f).split('.')
            with open(f, 'rb') as data:
                got['.'.join(parts[1:2] + parts[5:-1])] = read_npy(data.read())[1:]
        self.assertEqual(len(got), len(at))
        return got

    def test_through_fusion(self):
        """Each node has its tensor although one kernel computes them all, and a dump does not change the result."""
        here, y, plain = self.path('dumps/deep'), self.path('y.npy'), self.path('plain.npy')
        self.run_tool('-o', plain)
        r = self.run_tool('-o', y, '--dump', here)
        self.assertIn('the tensors of 1 of 1 runs are in ' + here, r.err)
        self.assertEqual(self.read(y), self.read(plain))
        got = self.files(here)
        self.assertEqual(sorted(got), ['net_a.output.0', 'net_b.output.0', 'net_c.output.0', 'net_y.output.0'])
        self.assertEqual(got['net_a.output.0'], ((2, 4), A))
        self.assertEqual(got['net_b.output.0'], ((2, 4), SUM))
        self.assertEqual(got['net_c.output.0'], ((2, 4), [max(v, 0) for v in SUM]))
        self.assertEqual(got['net_y.output.0'][1], read_npy(self.read(y))[2])

    def test_folders(self):
        here = self.path('d')
        os.mkdir(here)
        self.run_tool('--enable_dump=true', '--dump_path', here, '--session_device_id=0')
        self.run_tool('--dump', here)
        times = sorted(os.listdir(here))
        self.assertEqual(len(times), 2)
        for t in times:
            self.assertRegex(t, r'^[0-9]{14}$')
            self.assertEqual(glob.glob('%s/%s/*/*/*/*' % (here, t)), ['%s/%s/0/m/1/0' % (here, t)])

    def test_modes(self):
        for mode, want in ('output', {'output.0'}), ('input', {'input.0', 'input.1'}), ('all', {'input.0', 'input.1', 'output.0'}):
            with self.subTest(mode):
                here = self.path(mode)
                self.run_tool('--dump', here, '--dump-mode', mode)
                got = self.files(here)
                self.assertEqual({k.split('.', 1)[1] for k in got}, want)
                if mode != 'output':
                    self.assertEqual(got['net_a.input.0'], ((2, 4), X))
                    self.assertEqual(got['net_a.input.1'], ((4, 4), sum(W, [])))
                    self.assertEqual(got['net_b.input.0'], ((2, 4), A))
                    self.assertEqual(got['net_b.input.1'], ((4,), B))
                    self.assertEqual(got['net_c.input.0'], ((2, 4), SUM))

    def test_steps(self):
        here = self.path('s')
        r = self.run_tool('--dump', here, '--dump-step', '4|1-2', '--runs=6')
        self.assertIn('the tensors of 3 of 6 runs', r.err)
        self.assertEqual(sorted(os.path.basename(d) for d in glob.glob(here + '/*/*/*/1/*')), ['1', '2', '4'])
        self.assertEqual(self.files(here, 4)['net_a.output.0'], ((2, 4), A))
        none = self.path('none')
        self.assertIn('the tensors of 0 of 2 runs', self.run_tool('--dump', none, '--dump_step=7', '--runs=2').err)
        self.assertEqual(glob.glob(none + '/*/*/*/1/*'), [])
        self.fails(2, 'does not rise', 'run', self.model, '--dump', here, '--dump_step=5-3')
        self.run_tool('--dump', here, '--dump_step=0', '--warmup=1', '--runs=2', '--duration=0', verb='bench')

    def test_layers(self):
        here = self.path('l')
        self.run_tool('--dump', here, '--dump_layer=net/c net/a', '--dump_mode=all')
        self.assertEqual(sorted(self.files(here)), ['net_a.input.0', 'net_a.input.1', 'net_a.output.0', 'net_c.input.0', 'net_c.output.0', 'x.output.0'])

    def test_low(self):
        """bfloat16 tensors are float32 in the files; a tensor that a kernel rounds only at its end is rounded only
        there."""
        here = self.path('low')
        self.run_tool('--dump', here, '--policy=allow_mix_precision_bf16')
        got = self.files(here)
        self.assertEqual(got['net_a.output.0'], ((2, 4), A))
        self.assertEqual(got['net_b.output.0'], ((2, 4), SUM))

    def test_statistics(self):
        here = self.path('stats')
        self.run_tool('--dump', here, '--dump_data=stats', '--dump_mode=all')
        at = glob.glob(here + '/*/*/*/1/0/BiasAdd.net_b.*.csv')
        self.assertEqual(len(at), 1)
        with open(at[0]) as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([(r['Input/Output'], r['Index']) for r in sorted(rows, key=lambda r: (r['Input/Output'], r['Index']))],
                         [('input', '0'), ('input', '1'), ('output', '0')])
        out = [r for r in rows if r['Input/Output'] == 'output'][0]
        self.assertEqual((float(out['Max Value']), float(out['Min Value']), out['Count'], out['Shape'], out['Nan Count']),
                         (max(SUM), min(SUM), '8', '2x4', '0'))
        self.assertAlmostEqual(float(out['l2norm']), sum(v * v for v in SUM) ** .5, 4)

    def test_long_names(self):
        long = 'n' * 300
        model = self.path('long.hir', MODEL.replace(b'net/b', long.encode()))
        here = self.path('long')
        self.tool('run', model, *self.feed, '--dump', here)
        folder, = glob.glob(here + '/*/*/*/1/0')
        with open(folder + '/mapping.csv') as f:
            (digits, name), = csv.reader(f)
        self.assertRegex(digits, r'^[0-9]+\.npy$')
        self.assertTrue(name.startswith('BiasAdd.' + long + '.'))
        self.assertEqual(read_npy(self.read(folder + '/' + digits))[1:], ((2, 4), SUM))

    def test_overflow(self):
        """The first node that makes infinities of finite numbers, with its operands; not the nodes after it."""
        model, here = self.path('o.hir', OVERFLOWS), self.path('o')
        os.mkdir(here)
        feed = ['--input', 'x=f32[4]:1,2,4,-8']
        r = self.tool('run', model, *feed, '--enable_dump_debug=true', '--dump_path', here)
        self.assertIn('1 nodes overflowed', r.err)
        got = self.files(here)
        self.assertEqual(sorted(got), ['more.input.0', 'more.input.1', 'more.output.0'])
        self.assertEqual(got['more.input.0'], ((4,), [.5, 1, 2, -4]))
        self.assertEqual(got['more.output.0'][1][2:], [float('inf'), float('-inf')])
        os.mkdir(self.path('none'))
        for more in ['--input', 'x=f32[4]:1,1,1,1'], [*feed, '--dump_debug_mode=atomic_overflow']:
            r = self.tool('run', model, *more, '--enable_dump_debug=true', '--dump_path', self.path('none'))
            self.assertEqual([f for f in glob.glob(self.path('none') + '/**', recursive=True) if os.path.isfile(f)], [])

    def test_fault(self):
        """The operands with which a node failed."""
        model, here = self.path('d.hir', DIVIDES), self.path('f')
        feed = ['--input', 'x=i32[3]:5,6,7', '--input', 'z=i32[3]:1,0,2']
        r = self.fails(3, 'division by zero', 'run', model, *feed, '--enable_exception_dump=1', '--dump_path', here)
        folder = here + '/extra-info/data-dump/0'
        self.assertIn("the operands of 'quotient' are in " + folder, r.err)
        self.assertRegex(r.err, r"'quotient' is an? \w+, with the result i32\[3\]\n")
        r = self.fails(3, 'division by zero', 'run', model, *feed)
        self.assertRegex(r.err, r"'y' is an AddV2, with the result i32\[3\]; halftone run MODEL --enable_exception_dump=1 tells which node of the kernel it was, and keeps its operands\n")
        got = {f.split('.', 1)[1].split('.')[0] + '.' + f.split('.')[-2]: read_npy(self.read(os.path.join(folder, f)))[2] for f in os.listdir(folder)}
        self.assertEqual(got, {'quotient.0': [10, 12, 14], 'quotient.1': [1, 0, 2]})
        good = ['--input', 'x=i32[3]:5,6,7', '--input', 'z=i32[3]:1,1,2']
        y, plain = self.path('y.npy'), self.path('p.npy')
        self.tool('run', model, *good, '-o', y, '--enable_exception_dump=2')
        self.tool('run', model, *good, '-o', plain)
        self.assertEqual(self.read(y), self.read(plain))
        self.assertFalse(os.path.exists('extra-info'))

    def test_vendor_files(self):
        """--dump-format dumpdata: a file for each node; tests/precision/dumpdata.py reads them by protobuf's library."""
        one, two = self.path('messages'), self.path('arrays')
        y, plain = self.path('y.npy'), self.path('plain.npy')
        self.run_tool('-o', plain)
        self.run_tool('-o', y, '--dump', one, '--dump-mode=all', '--dump-format=dumpdata', '--runs=2')
        self.assertEqual(self.read(y), self.read(plain))
        self.run_tool('--dump', two, '--dump-mode=all', '--runs=2')
        names = [os.path.basename(f) for f in glob.glob(one + '/*/0/m/1/*/*')]
        self.assertEqual(sorted(n.split('.')[1] for n in names), sorted(2 * ['net_a', 'net_b', 'net_c', 'net_y']))
        for n in names:
            self.assertRegex(n, r'^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[0-9]+\.0\.[0-9]{16}$')
        for a, b in (one, two), (two, one), (one, one):
            same = self.compare(a, b)
            self.assertEqual((same['compared'], same['above'], same['alone']), (20, 0, 0))
        other = self.path('other.hir', MODEL.replace(b'0.25, -20.0', b'0.5, -20.0'))
        self.tool('run', other, *self.feed, '--dump', self.path('c'), '--dump-format=dumpdata')
        self.assertEqual(self.compare(two, self.path('c'))['first'], '0/net_b.output.0')
        self.assertNotIn('null', self.fails(5, 'cannot be made', 'run', self.model, *self.feed, '--dump', '/dev/full', '--dump-format=dumpdata').err)
        self.fails(2, "'protobuf' is none of npy, dumpdata", 'run', self.model, *self.feed, '--dump', one, '--dump-format=protobuf')
        self.fails(2, 'no effect without a dump', 'run', self.model, *self.feed, '--dump-format=npy')
        self.fails(2, 'dump_data=stats writes none', 'run', self.model, *self.feed, '--dump', one, '--dump_data=stats', '--dump-format=dumpdata')

    def test_vendor_files_of_parts(self):
        """Parts of a batch, and names that are too long, which mapping.csv maps."""
        long = MODEL.replace(b'net/', b'net/' + b'a' * 260 + b'/').replace(b'shape[2,4]', b'shape[6,4]')
        model = self.path('long.hir', long)
        dumps = []
        for form in 'dumpdata', 'npy':
            for batch in 'parts', 'whole':
                dumps.append(self.path(form + batch))
                self.tool('run', model, '--input=x=random(3)', '--dump', dumps[-1], '--dump-mode=all', '--dump-format', form, '--batch-method', batch)
        self.assertTrue(all(re.fullmatch('[0-9]{20}|mapping.csv', os.path.basename(f)) for f in glob.glob(dumps[0] + '/*/*/*/1/0/*')))
        for one, two, more in (dumps[0], dumps[2], []), (dumps[1], dumps[3], []), (dumps[0], dumps[1], ['--tol=1e-6']):
            same = self.compare(one, two, *more)
            self.assertEqual((same['compared'], same['above'], same['alone']), (10, 0, 0))

    def compare(self, *args, code=0):
        r = self.tool('compare', *args, '--format=json', code=code)
        return json.loads(r.stdout)

    def test_compare(self):
        """Compares two dumps, in the order of computation, and names the first tensor above a tolerance."""
        a, b, c = self.path('a'), self.path('b'), self.path('c')
        self.run_tool('--dump', a, '--runs=2')
        self.run_tool('--dump', b, '--runs=2')
        other = self.path('other.hir', MODEL.replace(b'0.25, -20.0', b'0.5, -20.0'))
        self.tool('run', other, *self.feed, '--dump', c)
        same = self.compare(a, b)
        self.assertEqual((same['compared'], same['above'], same['alone'], same['first']), (8, 0, 0, None))
        self.assertEqual([t['rel'] for t in same['tensors']], [0] * 8)
        got = self.compare(c, a)
        self.assertEqual([t['tensor'] for t in got['tensors']], ['0/net_a.output.0', '0/net_b.output.0', '0/net_c.output.0', '0/net_y.output.0'])
        self.assertEqual((got['above'], got['first']), (3, '0/net_b.output.0'))
        self.assertAlmostEqual(got['tensors'][1]['abs'], .25)
        self.assertAlmostEqual(got['tensors'][1]['rel'], .25 / max(map(abs, SUM)))
        self.compare(c, a, '--tol=0.5')
        self.assertEqual(self.compare(c, a, '--tol=0.001', code=1)['first'], '0/net_b.output.0')
        text = self.tool('compare', c, a).stdout.decode()
        self.assertIn('4 tensors compared, 3 different, the first is 0/net_b.output.0; 0 are in the first alone', text)
        self.assertEqual(len(list(csv.reader(self.tool('compare', a, b, '--format=csv').stdout.decode().splitlines()))), 9)

    def test_compare_with_others(self):
        """Arrays from another system, by the names of nodes."""
        a, other = self.path('a'), self.path('fetched')
        os.mkdir(other)
        self.run_tool('--dump', a)
        for name, values in ('net_a', A), ('net_b.0', SUM), ('net_c.0.1700000000000000', [0] * 8):
            with open('%s/%s.npy' % (other, name), 'wb') as f:
                f.write(npy('<f4', (2, 4), struct.pack('<8f', *values)))
        got = self.compare(a, other)
        self.assertEqual((got['compared'], got['above'], got['alone'], got['first']), (3, 1, 1, '0/net_c.output.0'))
        with open(other + '/net_a.npy', 'wb') as f:
            f.write(npy('<f4', (4, 2), struct.pack('<8f', *A)))
        self.assertFalse(self.compare(a, other)['tensors'][0]['same_shape'])
        self.fails(5, 'cannot read', 'compare', a, self.path('nothing'))
        os.mkdir(self.path('empty'))
        self.fails(3, 'there are no tensors', 'compare', self.path('empty'), a)
        self.fails(2, 'is no number', 'compare', a, other, '--tol=rel<=1')
        self.fails(2, 'none of text, json, csv', 'compare', a, other, '--format=junit')

    def test_cannot_write(self):
        self.fails(5, r'file: this folder cannot be made: Not a directory', 'run', self.model, '--dump', self.path('file', b'x'))
        self.fails(5, r'cannot be made', 'run', self.model, '--dump', '/proc/none/x')
        self.fails(3, 'dump_path must be set', 'run', self.model, '--config', self.path('c.json', b'{"dump_config": {"enable_dump": true}}'))
        artefact = self.path('m.htx')
        self.tool('compile', self.model, '-o', artefact)
        self.fails(2, 'run the model itself', 'run', artefact, '--dump', self.path('a'))

    def test_disk_full(self):
        """The result of the run is right; that the dump is incomplete is reported once, with exit code 5."""
        here, y, plain = self.path('full'), self.path('y.npy'), self.path('plain.npy')
        model = self.path('large.hir', MODEL.replace(b'shape[2,4]', b'shape[4096,4]'))
        self.tool('run', model, '-o', plain)

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (66000, 66000))

        self.tool('run', model, '-o', self.path('warm.npy'), '--dump', self.path('warm'))  # kernels are in the cache
        r = subprocess.run([TOOL, 'run', model, '--dump_mode=all', '-o', '/dev/stdout', '-q', '--no-cache', '--dump', here],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)
        self.assertEqual(r.returncode, 0, r.stderr)  # 65664 bytes each
        model = self.path('larger.hir', MODEL.replace(b'shape[2,4]', b'shape[8192,4]'))
        self.tool('run', model, '-o', plain)
        r = subprocess.run([TOOL, 'run', model, '-o', '/dev/stdout', '-q', '--no-cache', '--dump', here],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)
        self.assertEqual(r.returncode, 5, r.stderr)
        self.assertEqual(r.stderr.decode().count('cannot write'), 1)
        self.assertIn('the results of the run are', r.stderr.decode())


if __name__ == '__main__':
    unittest.main()
