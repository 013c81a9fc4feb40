#!/usr/bin/env python3
"""The programs of bench/: their counts are right, and their tables show what they measured."""
import importlib.machinery
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../../bench']
import environment
import micro_memory
import peers_table

GRAPH = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[1,6,5,16]}
%f = Const() {dtype=f32, value=tensor f32[3,3,16,32] values 1 {0.5 ...}}
%c = Conv2D(%x, %f) {T=f32, strides=[1,1,1,1], padding="SAME", dilations=[1,1,1,1]}
%s = Const() {dtype=i32, value=tensor i32[2] {30, 32}}
%m = Reshape(%c, %s) {T=f32, Tshape=i32}
%w = Const() {dtype=f32, value=tensor f32[32,7] values 1 {0.5 ...}}
%p = MatMul(%m, %w) {T=f32, transpose_a=false, transpose_b=false}
%y = Softmax(%p) {T=f32}
'''

# The product behind the loop has 33 million multiply-adds, which take no processor less than 10 us.
LOOP = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[128,512]}
%first = Const() {dtype=i32, value=tensor i32[] {0}}
%loop = StatelessWhile(%first, %x) {T=[i32,f32], cond=@cond{}, body=@body{}}
%w = Const() {dtype=f32, value=tensor f32[512,512] values 1 {0.5 ...}}
%y = MatMul(%loop:1, %w) {T=f32, transpose_a=false, transpose_b=false}

function "cond" {
  signature "\\n\\x04cond"
  arg "i" = %i
  arg "v" = %v
  ret "r" = %more
  %i = _Arg() {T=i32, index=0}
  %v = _Arg() {T=f32, index=1}
  %high = Const() {dtype=i32, value=tensor i32[] {3}}
  %more = Less(%i, %high) {T=i32}
}

function "body" {
  signature "\\n\\x04body"
  arg "i" = %i
  arg "v" = %v
  ret "n" = %n
  ret "s" = %s
  %i = _Arg() {T=i32, index=0}
  %v = _Arg() {T=f32, index=1}
  %one = Const() {dtype=i32, value=tensor i32[] {1}}
  %n = Add(%i, %one) {T=i32}
  %e = Tanh(%v) {T=f32}
  %s = Softmax(%e) {T=f32}
}
'''


def kernels(text, *options):
    with tempfile.NamedTemporaryFile('w', suffix='.hir') as f:
        f.write(text)
        f.flush()
        done = subprocess.run([f'{environment.BUILD}/bench/kernels', '--seconds', '0', *options, f.name],
                              check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Kernels(unittest.TestCase):
    def test_contractions_without_padding(self):
        found = kernels(GRAPH, '--only', 'contraction', '--conv-method', 'direct')
        conv, product = found
        # Of three taps in each direction, the outer ones are once outside the image.
        self.assertEqual(conv['multiply_adds'], (3 * 6 - 2) * (3 * 5 - 2) * 16 * 32)
        self.assertEqual((conv['m'], conv['n'], conv['k'], conv['taps']), (30, 32, 16, 9))
        self.assertEqual((product['m'], product['n'], product['k']), (30, 7, 32))
        self.assertEqual(product['multiply_adds'], 30 * 7 * 32)
        for k in found:
            self.assertTrue(0 < k['min_us'] <= k['median_us'], k)

    def test_steps_behind_loops(self):
        """Each kernel is run with its own arguments, also where the program has steps of loops."""
        product, = kernels(LOOP, '--only', 'contraction')
        self.assertGreater(product['min_us'], 10)

    def test_types(self):
        """Products are in bfloat16 if the machine has instructions for them."""
        low = kernels(GRAPH, '--only', 'contraction', '--policy', 'allow_mix_precision_bf16')
        listed = subprocess.run([environment.TOOL, 'targets', '--format', 'json'], check=True, stdout=subprocess.PIPE)
        host, = [t for t in json.loads(listed.stdout)['targets'] if t['host']]
        self.assertEqual({k['dtype'] for k in low}, {'bf16' if host['capabilities']['dot_bf16'] or host['capabilities']['matrix_bf16'] else 'f32'})

    def test_bytes_of_memory_bound_kernels(self):
        for name, t, nodes, channels, image, _, _ in micro_memory.KERNELS:
            dims = micro_memory.shape(t, channels, image, 1 << 14)
            text = micro_memory.HEAD.format(shape=dims, type=t) + nodes(t, str(channels))
            found = kernels(text, '--only', 'other')
            read = math.prod(map(int, dims.split(','))) * (4 if t == 'f32' else 2)
            self.assertTrue(any(k['bytes'] > read for k in found), (name, t, found))

    def test_bad_arguments(self):
        done = subprocess.run([f'{environment.BUILD}/bench/kernels', '--nonsense', '1', 'x'],
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn('usage', done.stderr)


class Searches(unittest.TestCase):
    def test_rules(self):
        """No rule that passes keeps fewer nodes in float32 than Halftone's, and the table agrees with the JSON."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([f'{HERE}/../../bench/search', 'digits', '--runs', '6', '--json', f'{folder}/r.json'], check=True,
                                  env={**os.environ, 'HALFTONE_CACHE_MODE': 'rw', 'HALFTONE_CACHE_DIR': folder},
                                  stdout=subprocess.PIPE, text=True)
            with open(f'{folder}/r.json') as f:
                found, = json.load(f)
        rows = {row['rule']: row for row in found['rows']}
        self.assertEqual(set(rows), {'minimal', 'minimal, prefer fewest', 'polygraphy-forward', 'polygraphy-reverse', 'onnx-segments', 'onnx-fp16'})
        self.assertTrue(0 < rows['minimal']['float32'] <= min(row['float32'] for row in rows.values() if row['verdict'] == 'pass'))
        self.assertEqual([rows[rule]['verdict'] for rule in rows if rule != 'onnx-fp16'], ['pass'] * 5)
        for rule, row in rows.items():
            self.assertIn(f'| {rule} | {row["float32"]} | {row["slower"]} | {row["trials"]} | {row["verdict"]} |', done.stdout)


class Studies(unittest.TestCase):
    def test_pages(self):
        """The pages of studies have the numbers of the saved results."""
        top = f'{HERE}/../..'
        for script, results, page in ('studies.py', 'studies', 'studies'), ('training_study.py', 'training-study', 'training-study'):
            done = subprocess.run([f'{top}/examples/{script}', '--page', f'{top}/bench/results/{results}-emeraldrapids.json'], check=True,
                                  stdout=subprocess.PIPE)
            with open(f'{top}/docs/{page}.md', 'rb') as f:
                self.assertEqual(done.stdout, f.read())


RESULT = {
    'threads': 2, 'batch': 4, 'peak_gflops': {'f32': 100., 'bf16': 200.},
    'sizes': {m: {'multiply_adds': 10**9, 'model_weight_bytes': 5 * 10**6} for m in ('a', 'b')},
    'models': {
        'a': {'halftone-f32': {'median': 50., 'spread': .1, 'warm_rss': 9., 'warm_over': 3.,
                               'weight_bytes': 4e6, 'arena_bytes': 2e6, 'live_bytes': 2e6,
                               'code_bytes': 1e3, 'kernels': 7, 'load': 12.},
              'halftone-optimal': {'median': 25., 'spread': .1},
              'x-f32': {'median': 100., 'spread': .2}, 'y-f32': {'median': 80., 'spread': .2},
              'x-bf16': {'median': 20., 'spread': 0.}},
        'b': {'halftone-f32': {'median': 10., 'spread': .1}, 'x-f32': {'median': 9., 'spread': .2},
              'y-f32': {'failed': 'wrong: errs by 2', 'samples': []}},
    }}


EQUAL = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[4,64]}
%w = Const() {dtype=f32, value=tensor f32[64,64] values 1 {0.5 ...}}
%v = Const() {dtype=f32, value=tensor f32[64,64] values 1 {0.25 ...}}
%u = Const() {dtype=f32, value=tensor f32[64,64] values 1 {0.125 ...}}
%a = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
%b = MatMul(%a, %v) {T=f32, transpose_a=false, transpose_b=false}
%y = MatMul(%b, %u) {T=f32, transpose_a=false, transpose_b=false}
'''


class Compile(unittest.TestCase):
    def run_tool(self, *options, code=0):
        done = subprocess.run([sys.executable, f'{HERE}/../../bench/compile', *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def measure(self, folder):
        with open(f'{folder}/m.hir', 'w') as f:
            f.write(EQUAL)
        self.run_tool('--models', f.name, '--rounds', '2', '--json', f'{folder}/r.json')
        with open(f'{folder}/r.json') as f:
            return json.load(f)

    def test_phases_and_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.measure(folder)
            model = result['models']['m.hir']
            self.assertEqual(model['model_weight_bytes'], 3 * 64 * 64 * 4)
            self.assertEqual(list(model['dtypes']), ['f32', 'bf16'])
            for dtype, r in model['dtypes'].items():
                self.assertEqual(r['weight_bytes'], model['model_weight_bytes'] // (2 if dtype == 'bf16' else 1), r)
                self.assertGreater(r['warm_over'], 0)
                for t in r['threads'].values():
                    self.assertEqual(len(t['samples']), 2)
                    self.assertEqual(min(t['samples']), t['ms'])
                    self.assertAlmostEqual(sum(t['phases'].values()), t['ms'])
                    self.assertGreater(t['phases']['code'], 0, 'it came from the cache')
            # Equal products with other weights are one kernel.
            self.assertEqual((model['dtypes']['f32']['steps'], model['dtypes']['f32']['kernels']), (3, 1))

    def test_tables_of_a_file(self):
        times = {t: {'ms': ms, 'phases': {'import': 1., 'code': ms - 1}, 'samples': [ms]} for t, ms in (('1', 50.), ('2', 20.))}
        one = {'threads': times, 'weight_bytes': 6e6, 'arena_bytes': 3e6, 'live_bytes': 2e6, 'code_bytes': 7e3,
               'steps': 9, 'kernels': 4, 'parts': 1, 'warm_rss': 20., 'warm_over': 11.}
        with tempfile.NamedTemporaryFile('w', suffix='.json') as f:
            json.dump({'threads': [1, 2], 'models': {'a': {'model_weight_bytes': 4e6, 'dtypes': {'f32': one}}}}, f)
            f.flush()
            text = self.run_tool('--from', f.name).stdout
        self.assertIn('| a | f32 | 50 | 20 | 2.50 | 1 | 49 | 9 | 4 | 7 |', text)
        self.assertIn('| a | f32 | 4.0 | 6.0 | 1.50 | 3.00 | 1.50 | 20.0 | 11.0 | 1 |', text)

    def test_what_cannot_be_compiled(self):
        said = self.run_tool('--models', '/nonexistent.pb', '--rounds', '1', code=1).stderr
        self.assertIn('/nonexistent.pb', said)
        self.assertNotIn('Traceback', said)

    def test_bad_arguments(self):
        for option, value in ('--dtypes', 'f32,f64'), ('--threads', '1,x'), ('--threads', '0'):
            said = self.run_tool('--models', '/nonexistent.pb', option, value, code=2).stderr
            self.assertIn(option, said.splitlines()[-1])

    def test_needs_nothing_that_peers_read(self):
        loader = importlib.machinery.SourceFileLoader('compile_bench', f'{HERE}/../../bench/compile')
        program = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        with mock.patch.object(sys, 'dont_write_bytecode', True):
            loader.exec_module(program)
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(environment, 'obtain') as obtain, \
                mock.patch.object(program.peers_frozen, 'FOLDER', folder):
            self.assertEqual(program.find('convnext', 1), (program.peers_frozen.source('convnext'), []))
        obtain.assert_called_once_with('convnext')


class Tables(unittest.TestCase):
    def test_ratios_and_limits(self):
        text = peers_table.markdown(RESULT)
        # 2 x 4 x 10^9 operations on two threads of 10^11 a second: 40 ms.
        self.assertIn('| a | f32 | 4 | 2 | 50.00 | 10% | y-f32 | 80.00 | 20% | 1.60 | 0.80 |', text)
        self.assertIn('| a | optimal | 4 | 2 | 25.00 | 10% | x-bf16 | 20.00 | 0% | 0.80 | 0.80 |', text)
        self.assertIn('| b | f32 | 4 | 2 | 10.00 | 10% | x-f32 | 9.00 | 20% | 0.90 | 4.00 |', text)
        self.assertIn('f32: speed against the fastest peer, geometric mean of 2: 1.20; slower on 1.', text)
        self.assertIn('| a | f32 | 5.0 | 4.0 | 0.80 | 2.00 | 1.00 | 1 | 7 | 9.0 | 3.0 | 12 |', text)
        self.assertIn('b y-f32: wrong: errs by 2', text)

    def test_plot(self):
        from xml.etree import ElementTree
        bars = [e.text for e in ElementTree.fromstring(peers_table.plot(RESULT)).iter()
                if e.tag.endswith('title')]
        self.assertIn('a halftone-f32: 1.60', bars)
        self.assertEqual(len(bars), 7)


class Overhead(unittest.TestCase):
    def test_one_thread(self):
        done = subprocess.run([sys.executable, f'{HERE}/../../bench/overhead', '--threads', '1',
                               '--seconds', '0.01'], check=True, stdout=subprocess.PIPE, text=True)
        threads, one, hundred, thousand, kernel, _ = (float(v) for v in done.stdout.splitlines()[-1].strip(' |').split(' | '))
        self.assertEqual(threads, 1)
        self.assertLess(one, hundred)
        self.assertLess(hundred, thousand)
        self.assertGreater(kernel, 0)


class Threads(unittest.TestCase):
    def run_tool(self, *arguments, status=0):
        done = subprocess.run([sys.executable, f'{HERE}/../../bench/threads', *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, 'one processor')
    def test_two(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f'{folder}/m.hir', 'w') as f:
                f.write(EQUAL)
            said = self.run_tool('--models', f.name, '--dtypes', 'bf16', '--rounds', '2', '--seconds', '0.01',
                                 '--json', f'{folder}/r.json').stdout
            with open(f'{folder}/r.json') as f:
                samples = json.load(f)['models']['m.hir']['bf16']
        self.assertEqual({k: len(v) for k, v in samples.items()}, {'one': 2, 'several': 2, 'beside': 2})
        one, several, beside = (min(samples[k]) for k in ('one', 'several', 'beside'))
        *_, gain, _, machine = said.splitlines()[-1].strip(' |').split(' | ')
        self.assertEqual((gain, machine), (f'{one / several:.2f}', f'{2 * one / beside:.2f}'))

    def test_bad_arguments(self):
        self.assertIn("'f64' is none of", self.run_tool('--dtypes', 'f64', status=2).stderr)
        self.assertIn('--threads: ', self.run_tool('--threads', '1', status=2).stderr)

    def test_a_model_that_cannot_be_read(self):
        self.assertIn('/dev/null', self.run_tool('--models', '/dev/null', '--rounds', '1', status=1).stderr)


class Recurrent(unittest.TestCase):
    PROGRAM = f'{HERE}/../../bench/recurrent'

    def test_bad_arguments(self):
        for option, said in {'--models': "'none' is none of", '--engines': "'none' is no engine"}.items():
            done = subprocess.run([sys.executable, self.PROGRAM, option, 'none'], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)

    def test_a_row(self):
        loader = importlib.machinery.SourceFileLoader('recurrent_bench', self.PROGRAM)
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(module)
        ms = {'halftone-f32': 2., 'halftone-bf16': 1., 'ort-f32': 3., 'tensorflow-f32': 5., 'openvino-f32': 'no such op'}
        self.assertEqual(module.row('lstm', ms), ('| lstm | 2.000 | 1.000 | 3.000 | 5.000 | no such op | 1.50 |', '1.50'))
        self.assertEqual(module.row('lstm', {**ms, 'halftone-f32': 'wrong by 1.0e-01'})[1], '')
        self.assertEqual(module.row('lstm', {**ms, 'open-f32': 1.})[1], '1.50')  # it is no peer


if __name__ == '__main__':
    unittest.main()
