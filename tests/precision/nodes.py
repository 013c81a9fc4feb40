#!/usr/bin/env python3
"""halftone compare --nodes.

Nodes: own errors agree with NumPy's for single nodes; results do not depend on waves, threads and parts of a batch; overflows,
underflows, subnormal numbers and NaN are found; forms of the report; refusals.
Faults: a fault that is planted in a node's kernel makes that node the first one listed (plant.c).
"""
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv(onednn=False)
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

SCHEMA = os.path.join(environment.ROOT, 'docs', 'compare.schema.json')
LOW = {'force_fp16': np.float16, 'allow_mix_precision_bf16': ml_dtypes.bfloat16}
# Models and policies for Faults, of which every other one has its turn.  With HALFTONE_LONG a fault is planted in each of ten nodes, in turn, else in two.
PLANTED = (('blazeface-front', 'force_fp16'), ('selfie', 'allow_mix_precision_bf16'), ('blazeface', 'optimal'),
           ('movenet-lightning', 'force_fp16'), ('mobilenetv2', 'allow_mix_precision_bf16'))
MORE = ('bert', 'force_fp16'), ('bert', 'allow_mix_precision_bf16'), ('efficientnetb0', 'optimal'), ('resnet50', 'force_fp16')


def constant(x):
    return f'tensor f32[{",".join(map(str, x.shape))}] {{{", ".join(repr(float(v)) for v in x.ravel())}}}'


class Weights:
    a, b, c = (np.random.default_rng(3).normal(0, .3, s).astype(np.float32) for s in ((32, 48), (48,), (48, 8)))


PERCEPTRON = f'''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[8,32]}}
%a = Const() {{dtype=f32, value={constant(Weights.a)}}}
%b = Const() {{dtype=f32, value={constant(Weights.b)}}}
%c = Const() {{dtype=f32, value={constant(Weights.c)}}}
%p = MatMul(%x, %a) {{T=f32, transpose_a=false, transpose_b=false}}
%q = BiasAdd(%p, %b) {{T=f32}}
%t = Tanh(%q) {{T=f32}}
%y = MatMul(%t, %c) {{T=f32, transpose_a=false, transpose_b=false}}
'''
# Under allow_mix_precision_bf16 the split is computed in bfloat16 and its two results are cast to float32 behind it, so each program but the
# reference compares the cast of the first result with a tensor that the reference computed before its latest one.
LATE = f'''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[8,32]}}
%a = Const() {{dtype=f32, value={constant(Weights.a)}}}
%d = Const() {{dtype=i32, value=tensor i32[] {{1}}}}
%p = MatMul(%x, %a) {{T=f32, transpose_a=false, transpose_b=false}}
%u = Split(%d, %p) {{T=f32, num_split=2}}
%e = Expm1(%u) {{T=f32}}
%f = Expm1(%u:1) {{T=f32}}
%y = Add(%e, %f) {{T=f32}}
'''
# One kernel, inside of which the result of t has two readers; those of p, q, r and s have one.
TWICE = f'''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[8,32]}}
%a = Const() {{dtype=f32, value={constant(Weights.a)}}}
%b = Const() {{dtype=f32, value={constant(Weights.b)}}}
%p = MatMul(%x, %a) {{T=f32, transpose_a=false, transpose_b=false}}
%q = BiasAdd(%p, %b) {{T=f32}}
%t = Tanh(%q) {{T=f32}}
%r = Relu(%t) {{T=f32}}
%s = Square(%r) {{T=f32}}
%y = Sub(%s, %t) {{T=f32}}
'''
# In float16 exp(12) is infinite, 1e-9 is zero, and infinity minus itself is NaN.
EDGES = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[1,4]}
%e = Exp(%x) {T=f32}
%n = Neg(%x) {T=f32}
%m = Exp(%n) {T=f32}
%d = Sub(%e, %e) {T=f32}
%y = Add(%d, %m) {T=f32}
'''


def rms(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.sqrt(((a - b)**2).sum() / (b**2).sum()))


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def model(self, text, name='m.hir'):
        with open(self.path(name), 'w') as f:
            f.write(text)
        return self.path(name)

    def tool(self, *args, code=0):
        done = subprocess.run([environment.TOOL, 'compare', *args], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def nodes(self, model, policy, samples, *args, code=0):
        done = self.tool(model, '--policy', policy, '--samples', samples, '--nodes', '--runs=0', '--format=json', '--tol=1e9', *args, code=code)
        return json.loads(done.stdout)['models'][0]['policies'][0]['nodes']


class Nodes(Case):
    def test_of_each_node(self):
        """Own and expected errors are within 3 % of those of each node in NumPy, with operands of the float32 run."""
        r, samples = np.random.default_rng(4), 3
        xs = r.normal(size=(samples, 8, 32)).astype(np.float32)
        np.savez(self.path('x.npz'), x=xs)
        w = Weights
        for policy, t in LOW.items():
            def low(x):
                return x.astype(t).astype(np.float32)
            found = {n['node']: n for n in self.nodes(self.model(PERCEPTRON), policy, self.path('x.npz'))['tensors']}
            p = xs.astype(np.float64) @ w.a
            q, th = p + w.b, np.tanh(p + w.b)
            want = {
                'p': rms(low(xs).astype(np.float64) @ low(w.a), p),
                'q': rms(p + low(w.b), q),
                't': rms(low(np.tanh(q).astype(np.float32)), th),
                'y': rms(low((low(th.astype(np.float32)).astype(np.float64) @ low(w.c)).astype(np.float32)), th @ w.c),
            }
            for name, own in want.items():
                n = found[name]
                if name == 'y' and n['dtype'] == 'float32':
                    continue  # float32: this is the cast of the result, which has the name of the imported node
                for which in 'own', 'expected':
                    self.assertAlmostEqual(n[which] / own, 1, delta=.03, msg=(policy, name, which))
                self.assertAlmostEqual(n['excess'], 1, delta=.01)
                self.assertEqual(n['elements'], samples * np.prod(n['shape']))
            self.assertEqual((found['p']['wide'], found['q']['wide'], found['t']['wide']), (True, True, False))
            self.assertGreater(found['y']['error'], found['y']['own'])
            self.assertAlmostEqual(found['p']['error'], found['p']['own'], delta=1e-6)
            for n in found.values():
                self.assertAlmostEqual(n['inherited']**2, max(0, n['error']**2 - n['own']**2), delta=1e-12)

    def test_float32(self):
        for n in self.nodes(self.model(PERCEPTRON), 'must_keep_origin_dtype', '2:1')['tensors']:
            self.assertEqual(n['error'], 0)
            self.assertLess(n['own'], 1e-6)

    def test_read_twice(self):
        """Programs that give each node a kernel of its own store results over operands, but not over those that are read again; the policy's kernel
        stores its inner tensors."""
        for threads in 1, 2:
            found = self.nodes(self.model(TWICE), 'must_keep_origin_dtype', '2:1', f'--threads={threads}')['tensors']
            self.assertEqual([n['node'] for n in found], ['p', 'q', 't', 'r', 's', 'y'])
            self.assertEqual([n['error'] for n in found], [0] * 6)

    def test_final_outputs(self):
        """The error of the last tensor equals the error of the output."""
        done = self.tool(self.model(PERCEPTRON), '--policy=allow_mix_precision_bf16', '--samples=1:5', '--nodes', '--runs=0', '--format=json')
        policy = json.loads(done.stdout)['models'][0]['policies'][0]
        last = max((n for n in policy['nodes']['tensors'] if n['imported']), key=lambda n: n['order'])
        self.assertAlmostEqual(last['error'], policy['outputs'][0]['rms'], delta=1e-12)
        self.assertEqual(last['max_error'], policy['outputs'][0]['abs'])

    def test_what_does_not_matter(self):
        """Results do not depend on the number of waves or threads: on one thread the programs run side by side, on two one after the other if one wave
        suffices.  Nor, but for roundings, do they depend on whether a batch runs in parts."""
        environment.obtain('human-models')
        model = f'{environment.MODELS}/human-models/blazeface-front.json'
        once = self.nodes(model, 'force_fp16', '2:1')
        waves = self.nodes(model, 'force_fp16', '2:1', '--nodes-memory=1M')
        threads = self.nodes(model, 'force_fp16', '2:1', '--threads=2', '--nodes-memory=1G')
        few = self.nodes(model, 'force_fp16', '2:1', '--threads=2', '--nodes-memory=1M')
        self.assertEqual(once['waves'], 1)
        self.assertGreater(waves['waves'], 3)
        self.assertEqual(once['tensors'], waves['tensors'])
        self.assertEqual((threads['waves'], few['waves']), (1, waves['waves']))
        self.assertEqual(once['tensors'], threads['tensors'])
        self.assertEqual(once['tensors'], few['tensors'])
        whole, parts = (self.nodes(self.model(PERCEPTRON), 'force_fp16', '1:1', f'--batch-method={how}')['tensors'] for how in ('whole', 'parts'))
        for a, b in zip(whole, parts, strict=True):
            for key in 'error', 'own', 'expected':
                self.assertAlmostEqual(a[key], b[key], delta=1e-9 + 1e-3 * a[key])

    def test_late(self):
        """A tensor of the reference that another program computes later than the reference's next one is stored until then."""
        once, turns = (self.nodes(self.model(LATE), 'allow_mix_precision_bf16', '2:1', f'--threads={n}')['tensors'] for n in (1, 2))
        casts = {n['node']: n for n in once if n['dtype'] == 'float32' and n['op'] == 'Cast'}
        self.assertEqual(set(casts), {'u/float32', 'u/1/float32'})
        for cast in casts.values():
            self.assertEqual(cast['elements'], 2 * 8 * 24)
            self.assertGreater(cast['error'], 0)
        self.assertEqual(once, turns)

    def test_numbers(self):
        model = self.model(EDGES, 'edges.hir')
        np.savez(self.path('e.npz'), x=np.array([[[1, 2, 3, 4]], [[1, 12, 1, 1]], [[1, 20, 1, 9]]], np.float32))
        nodes = self.nodes(model, 'force_fp16', self.path('e.npz'), code=1)
        first = nodes['first']
        self.assertEqual(first['overflow'], {'node': 'e', 'sample': 2})
        self.assertEqual(first['nan'], {'node': 'd', 'sample': 2})
        self.assertEqual(first['underflow'], {'node': 'm', 'sample': 3})
        self.assertEqual(first['subnormal'], {'node': 'm', 'sample': 2})
        by = {n['node']: n for n in nodes['tensors']}
        self.assertEqual((by['e']['overflow'], by['d']['nan'], by['m']['underflow']), (2, 2, 1))
        self.assertEqual(by['e']['own'], 'inf')
        self.assertEqual(nodes['suspects'], [])
        bfloat = self.nodes(model, 'allow_mix_precision_bf16', self.path('e.npz'))['first']
        self.assertIsNone(bfloat['overflow'])
        self.assertIsNone(bfloat['nan'])

    def test_loops(self):
        """The tensors of all iterations of a loop are compared.  Their error is larger than their own error, since iterations inherit errors."""
        sys.path.insert(0, os.path.join(HERE, '..', 'models'))
        import oracle
        tf = oracle.tensorflow()
        graph = tf.Graph()
        with graph.as_default():
            x = tf.compat.v1.placeholder(tf.float32, (4, 16), 'x')
            w = tf.constant(np.random.default_rng(5).normal(0, .3, (16, 16)).astype(np.float32))
            _, y = tf.compat.v1.while_loop(lambda i, s: i < 12, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w), name='step')), (0, x))
            tf.identity(y, 'y')
        with open(self.path('loop.pb'), 'wb') as f:
            f.write(graph.as_graph_def().SerializeToString())
        nodes = self.nodes(self.path('loop.pb'), 'force_fp16', '2:1')
        inside = [n for n in nodes['tensors'] if n['body'] and n['op'] == 'Tanh']
        self.assertEqual(len(inside), 1, nodes)
        self.assertEqual(inside[0]['elements'], 2 * 12 * 4 * 16)
        self.assertGreater(inside[0]['error'], 1.2 * inside[0]['own'])
        self.assertEqual(nodes['suspects'], [])

    def test_forms(self):
        model = self.model(PERCEPTRON)
        args = model, '--nodes', '--runs=0', '--samples=2:1'
        rows = list(csv.DictReader(io.StringIO(self.tool(*args, '--policy=force_fp16', '--policy=allow_mix_precision_bf16', '--format=csv').stdout)))
        self.assertEqual({r['policy'] for r in rows}, {'force_fp16', 'allow_mix_precision_bf16'})
        self.assertEqual({'p', 'q', 't'} - {r['node'] for r in rows}, set())
        own = {r['node']: float(r['own']) for r in rows if r['policy'] == 'force_fp16'}
        for form in 'text', 'md':
            text = self.tool(*args, '--policy=force_fp16', f'--format={form}').stdout
            self.assertIn('float32, inside', text)
            self.assertIn('own/expected', text)
            ranked = [own[w[0]] for line in text.splitlines() if (w := line.replace('|', ' ').split()) and w[0] in own]
            self.assertEqual(ranked, sorted(own.values(), reverse=True))

    def test_schema(self):
        for i, policy in enumerate(('force_fp16', 'optimal')):
            self.tool(self.model(EDGES), '--nodes', '--runs=0', '--samples=2:1', f'--policy={policy}', '--format=json', '--tol=1e9', '-o', self.path(f'{i}.json'))
        subprocess.run([sys.executable, os.path.join(HERE, 'validate.py'), SCHEMA, self.path('0.json'), self.path('1.json')], check=True)

    def test_node_data(self):
        """Node data have the form that Model Explorer reads: a number for each node, also where the node overflows, and a gradient."""
        files = {}
        for name, model in ('perceptron', PERCEPTRON), ('edges', EDGES):
            files[name] = self.path(f'{name}.json')
            self.tool(self.model(model), '--nodes', '--runs=0', '--samples=2:1', '--policy=force_fp16', '--tol=1e9', '--node-data', files[name])
        files['dtypes'] = self.path('dtypes.json')
        with open(files['dtypes'], 'wb') as f:
            subprocess.run([environment.TOOL, 'explain', self.model(PERCEPTRON), '--policy=force_fp16', '--format=node-data'], check=True, stdout=f)
        with open(files['perceptron']) as f:
            data = json.load(f)
        self.assertEqual(set(data['results']), {'p', 'q', 't', 'y'})
        self.assertTrue(all(isinstance(v['value'], float) for v in data['results'].values()))
        self.assertEqual([s['stop'] for s in data['gradient']], [0, 1])
        read = [sys.executable, os.path.join(HERE, 'validate.py'), os.path.join(HERE, 'model_explorer.schema.json')]
        subprocess.run([*read, *files.values()], check=True)
        data['gradient'].pop()
        with open(files['perceptron'], 'w') as f:
            json.dump(data, f)
        self.assertEqual(subprocess.run([*read, files['perceptron']], stdout=subprocess.DEVNULL).returncode, 1)

    def test_refusals(self):
        model = self.model(PERCEPTRON)
        for args, code, said in (
                (['--node-data=x.json'], 2, 'no effect without --nodes'), (['--nodes-memory=1M'], 2, 'no effect without --nodes'),
                (['--nodes', '--nodes-memory=much'], 2, 'is no size'),
                (['--nodes', '--policy=force_fp16', '--node-data=x.json'], 2, 'of one policy'),
                (['--nodes', '--node-data=/nowhere/x.json'], 5, '/nowhere/x.json')):
            self.assertIn(said, self.tool(model, '--policy=allow_mix_precision_bf16', '--runs=0', *args, code=code).stderr)


class Faults(Case):
    def test_planted(self):
        named = wanted = 0
        for model, policy in PLANTED + MORE if environment.LONG else environment.in_turn(PLANTED, 2):
            frozen = f'{environment.MODELS}/frozen/{model}.pb'
            path = frozen if os.path.exists(frozen) else f'{environment.MODELS}/human-models/{model}.json'
            environment.obtain(model if path == frozen else 'human-models')
            count = 10 if environment.LONG else 2
            with self.subTest(model=model, policy=policy):
                done = subprocess.run([sys.argv[1], path, policy, str(count), '7'], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f'\n{count} of {count}\n', done.stdout)
                named, wanted = named + done.stdout.count('named '), wanted + count
        print(f'{named} of {wanted} planted faults are named first')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
