#!/usr/bin/env python3
"""Names and lines of kernels for perf and gdb: --jitdump, --perf-map, --gdb."""
import glob, os, re, resource, shutil, signal, subprocess, tempfile, unittest

import jitdump
from test_train import MODEL as TRAINED, ROWS, rows
from tool import TOOL, ToolCase, floats, npy

# A product with an epilogue, a Softmax, and two products with the same code.
MODEL = """hir 1
entry "" {
  input "x" = %%x
  output "net/last/y" = %%"net/last/y"
}

%%x = Placeholder() {dtype=f32, shape=shape[64,256]}
%%w = Const() {dtype=f32, value=tensor f32[256,256] {%s}}
%%"net/dense/a" = MatMul(%%x, %%w) {T=f32, transpose_a=false, transpose_b=false}
%%"net/dense/b" = Exp(%%"net/dense/a") {T=f32}
%%"net/last/c" = MatMul(%%"net/dense/b", %%w) {T=f32, transpose_a=false, transpose_b=false}
%%"net/last/d" = MatMul(%%"net/last/c", %%w) {T=f32, transpose_a=false, transpose_b=false}
%%"net/last/y" = Softmax(%%"net/last/d") {T=f32}
""" % ', '.join(['0.0001'] * (256 * 256))
NAMES = ['MatMul:net/dense/a', 'MatMul:net/last/c+1', 'Softmax:net/last/y']


class Announce(ToolCase):
    def setUp(self):
        super().setUp()
        self.model = self.path('m.hir', MODEL.encode())
        self.at = os.path.join(self.dir, 'told')

    def dumped(self, *args, model=None, env=None):
        shutil.rmtree(self.at, ignore_errors=True)
        self.tool('run', model or self.model, '--jitdump', self.at, *args, env=env)
        path, = glob.glob(self.at + '/jit-*.dump')
        pid, functions = jitdump.read(path)
        self.assertEqual(os.path.basename(path), f'jit-{pid}.dump')
        return pid, functions

    def text(self, *args):
        return self.tool('compile', self.model, '--emit', 'kernels', '-o', '-', '--target=host', *args).stdout.decode()

    def check(self, pid, functions, text):
        """Names; the lines of each function are those of its own kernel in the text that --emit prints."""
        self.assertEqual(sorted(f.name for f in functions), NAMES)
        source = f'{self.at}/kernels-{pid}-0.tile'
        with open(source) as f:
            self.assertEqual(f.read(), text)
        lines = text.split('\n')
        for f in functions:
            self.assertTrue(f.code and f.lines)
            offsets = [at for at, _, _ in f.lines]
            self.assertEqual(offsets, sorted(set(offsets)))
            self.assertLess(offsets[-1], len(f.code))
            self.assertEqual({os.path.realpath(p) for _, _, p in f.lines}, {os.path.realpath(source)})
            of = [n for _, n, _ in f.lines]
            begin = max(i for i, line in enumerate(lines[:min(of)], 1) if line.startswith('kernel'))
            end = begin + lines[begin:].index('}')
            self.assertTrue(begin <= min(of) and max(of) <= end, (f.name, begin, end, of))
        matmul = next(f for f in functions if f.name == 'MatMul:net/dense/a')
        said = [lines[n - 1] for _, n, _ in matmul.lines]
        self.assertTrue(any(re.match(r' +rows d\d columns d\d', line) for line in said), said)
        self.assertTrue(any(re.match(r' +store b\d', line) for line in said), said)
        self.assertTrue(any(re.match(r' +%\d+ = ', line) for line in said), said)

    def test_jitdump(self):
        text = self.text()
        self.check(*self.dumped('--no-cache'), text)
        first = self.dumped('--cache-dir', self.path('cache'), env={'HALFTONE_CACHE_MODE': ''})
        self.check(*first, text)
        # Kernels from the cache: no code is generated.
        again = self.dumped('--cache-dir', self.path('cache'), env={'HALFTONE_CACHE_MODE': '', 'HALFTONE_BACKEND': '/nonexistent'})
        self.check(*again, text)
        self.assertEqual(*([(f.name, f.code, [x[:2] for x in f.lines]) for f in sorted(functions, key=lambda f: f.name)]
                           for _, functions in (first, again)))

    def test_of_other_types(self):
        for policy in 'force_fp16', 'allow_mix_precision_bf16':
            pid, functions = self.dumped('--no-cache', '--policy', policy)
            self.assertTrue(all(f.lines for f in functions))

    def test_of_an_artefact(self):
        """An artefact has names, and the code of a program with lines."""
        self.tool('compile', self.model, '-o', self.path('m.htx'), '--target=host', '--no-cache')
        _, with_lines = self.dumped('--no-cache')
        _, without = self.dumped(model=self.path('m.htx'))
        self.assertEqual({f.name: f.code for f in without}, {f.name: f.code for f in with_lines})
        self.assertEqual([f.lines for f in without], [[]] * len(NAMES))
        self.assertEqual(glob.glob(self.at + '/*.tile'), [])

    def test_several_programs(self):
        """The entries of a training are in one file."""
        x, y = rows(1)
        xs = self.path('x.npy', npy('<f4', (ROWS, 4), floats(*(v for row in x for v in row))))
        ys = self.path('y.npy', npy('<f4', (ROWS, 1), floats(*y)))
        self.tool('train', TRAINED, '--data', f'x=@{xs}', '--data', f'y=@{ys}', '--loss', 'loss', '--train-op', 'train', '--feed', 'rate=0.05',
                  '--batch', '8', '--no-cache', '--steps', '2', '--eval', f'x=@{xs}', '--eval', f'y=@{ys}', '--jitdump', self.at)
        path, = glob.glob(self.at + '/jit-*.dump')
        pid, functions = jitdump.read(path)
        self.assertEqual(len(glob.glob(f'{self.at}/kernels-{pid}-*.tile')), 3)  # steps, evaluations, and evaluations of the last rows
        self.assertEqual(len({s for f in functions for _, _, s in f.lines}), 3)

    def test_perf_map(self):
        p = subprocess.Popen([TOOL, 'run', self.model, '--perf-map', '-q'], stdout=subprocess.DEVNULL)
        self.assertEqual(p.wait(), 0)
        path = f'/tmp/perf-{p.pid}.map'
        self.addCleanup(os.unlink, path)
        with open(path) as f:
            lines = [line.rstrip('\n').split(' ', 2) for line in f]
        self.assertEqual(sorted(name for _, _, name in lines), NAMES)
        places = sorted((int(a, 16), int(n, 16)) for a, n, _ in lines)
        for (a, n), (b, _) in zip(places, places[1:]):
            self.assertLessEqual(a + n, b)

    def test_refusals(self):
        self.fails(5, 'nowhere/a: error: cannot make this folder', 'run', self.model, '--jitdump', self.path('nowhere') + '/a')
        file = self.path('file', b'x')
        self.fails(5, 'jit-[0-9]+.dump: error: cannot write|kernels-.*: error: cannot write', 'run', self.model, '--jitdump', file)
        self.fails(5, 'kernels-0.tile: error: cannot write', 'run', self.model, '--gdb', file)
        self.fails(2, 'jitdump', 'compile', self.model, '--jitdump', self.at)

    def test_full_disk(self):
        """A file that is cut off ends with its last whole function."""
        def small():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        pid, functions = self.dumped('--no-cache')
        whole = os.path.getsize(f'{self.at}/jit-{pid}.dump')
        text = os.path.getsize(f'{self.at}/kernels-{pid}-0.tile')
        for size in text + 8, whole - 1:
            shutil.rmtree(self.at)
            r = subprocess.run([TOOL, 'run', self.model, '--jitdump', self.at, '--no-cache'], capture_output=True, preexec_fn=small)
            self.assertEqual(r.returncode, 5, r.stderr)
            self.assertRegex(r.stderr.decode(), 'jit-[0-9]+.dump: error: cannot write: File too large')
            path, = glob.glob(self.at + '/jit-*.dump')
            _, found = jitdump.read(path)
            self.assertLess(len(found), len(functions))

    @unittest.skipUnless(shutil.which('perf'), 'there is no perf')
    def test_perf(self):
        """perf itself shows names, and lines if it has the sources."""
        # With a cache: perf report looks up the line of each sample, which takes a minute for
        # samples of a code generator.
        cached = ['--cache-dir', self.path('cache')]
        self.dumped(*cached, env={'HALFTONE_CACHE_MODE': ''})
        data, injected = self.path('perf.data'), self.path('injected')
        record = subprocess.run(['perf', 'record', '-q', '-k', '1', '-e', 'cpu-clock', '-F', '5000', '-o', data, TOOL, 'bench', self.model,
                                 '--runs', '500', '--duration', '0.5', '-q', '--jitdump', self.at, *cached], capture_output=True,
                                env={**os.environ, 'HALFTONE_CACHE_MODE': ''})
        if record.returncode:
            self.skipTest('perf cannot record here: ' + record.stderr.decode()[:200])
        r = subprocess.run(['perf', 'inject', '--jit', '-i', data, '-o', injected], capture_output=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        r = subprocess.run(['perf', 'report', '-i', injected, '--stdio', '--sort', 'sym,srcline'], capture_output=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout.decode(), r'MatMul:net/(dense/a|last/c\+1) +kernels-\d+-0.tile:\d+')

    @unittest.skipUnless(shutil.which('gdb'), 'there is no gdb')
    def test_gdb(self):
        text = self.text().split('\n')
        line = next(i for i, t in enumerate(text, 1) if ' rows d' in t)

        def gdb(*commands, args=()):
            command = ['gdb', '-nx', '-q', '-batch', '-ex', 'set breakpoint pending on', '-ex', 'set debuginfod enabled off']
            for c in commands:
                command += ['-ex', c]
            r = subprocess.run([*command, '--args', TOOL, 'run', self.model, '--no-cache', *args], capture_output=True, text=True)
            if 'ptrace' in r.stderr + r.stdout:
                self.skipTest('gdb cannot trace here: ' + r.stderr[:200])
            return r.stdout + r.stderr

        said = gdb(f'break kernels-0.tile:{line}', 'run', 'bt', 'list', args=('--gdb', self.at))
        self.assertRegex(said, rf'#0  MatMul:net/(dense/a|last/c\+1) \(\) at .*/kernels-0.tile:{line}\n')
        self.assertRegex(said, r'#[0-9]+ .* ht_context_run ')
        self.assertRegex(said, r'#[0-9]+ +(0x[0-9a-f]+ in )?main \(')
        self.assertIn(f'{line}\t{text[line - 1]}\n', said)
        self.assertIn(f'{line - 1}\t{text[line - 2]}\n', said)
        # A breakpoint can be set by name.
        said = gdb('break ht_context_run', 'run', 'break -function Softmax:net/last/y', 'continue', 'bt 1', args=('--gdb', self.at))
        self.assertRegex(said, r'#0  Softmax:net/last/y \(\) at ')
        self.assertIn('No stack', gdb('run', 'bt'))


if __name__ == '__main__':
    unittest.main()
