#!/usr/bin/env python3
"""halftone search: the set contains the planted nodes, whose results exceed float16; brute force finds no smaller set;
without any one member a tolerance is exceeded; every verb takes the file as a policy; and an interrupted search
continues."""
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402

SCHEMA = os.path.join(environment.ROOT, 'docs', 'decisions.schema.json')
WIDTH = 8


def chain(units, planted, seed=1, size=2e5):
    """A chain of matrix products.  The result of a planted product has elements near `size`, by default more than float16
    can hold, though it holds all weights, and the next product scales them down."""
    r = np.random.default_rng(seed)
    lines, before, scale = [], '%x', 1.0
    for i in range(units):
        up = i in planted
        values = np.abs(r.normal(1, 0.2, (WIDTH, WIDTH))) / WIDTH * (size if up else 1) * scale
        scale = 1 / size if up else 1.0
        text = ', '.join(repr(float(v)) for v in values.astype(np.float32).ravel())
        lines += [f'%w{i} = Const() {{dtype=f32, value=tensor f32[{WIDTH},{WIDTH}] {{{text}}}}}',
                  f'%m{i} = MatMul({before}, %w{i}) {{T=f32, transpose_a=false, transpose_b=false}}']
        before = f'%m{i}'
    return '\n'.join(['hir 1', 'entry "" {', '  input "x" = %x', f'  output "y" = {before}', '}', '',
                      f'%x = Placeholder() {{dtype=f32, shape=shape[2,{WIDTH}]}}', *lines, ''])


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.x = np.random.default_rng(2).uniform(0.5, 1, (3, 2, WIDTH)).astype(np.float32)
        np.savez(self.path('set.npz'), x=self.x)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), 'w') as f:
            f.write(text)
        return self.path(name)

    def tool(self, *args, code=0):
        r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, cwd=self.folder,
                           env={**os.environ, 'HALFTONE_CACHE_DIR': self.path('cache')})
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr))
        return r

    def search(self, model, *more, tolerance='rel<=0.05', types='f16', output='p.json', code=0):
        r = self.tool('search', model, '--samples', 'set.npz', '--tol', tolerance, '--types', types, '-o', output,
                      *more, code=code)
        return r

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def policy(self, name='p.json'):
        return json.loads(self.read(name))

    def passes(self, model, policy, tolerance='rel<=0.05'):
        r = subprocess.run([environment.TOOL, 'compare', model, '--samples', 'set.npz', '--runs', '0', '--tol', tolerance,
                            '--policy', policy], capture_output=True, text=True, cwd=self.folder)
        self.assertIn(r.returncode, (0, 1), r.stderr)
        return r.returncode == 0

    def kept(self, policy):
        return {n['node'] for n in policy['search']['float32']}


def runs(target):
    """Whether this machine runs code for a target: it has all of its features."""
    done = subprocess.run([environment.TOOL, 'targets', '--format', 'json'], capture_output=True, text=True, check=True)
    listed = json.loads(done.stdout)['targets']
    host, = (set(t['features'].split(',')) for t in listed if t['host'])
    return target == 'host' or any(t['name'] == target and set(t['features'].split(',')) <= host for t in listed)


class Sets(Case):
    def test_planted(self):
        """The set is the products whose results leave the range of float16, and the products that read these results."""
        for units, planted in ((12, {4}), (16, {0, 9}), (40, {7, 20, 33})):
            model = self.write('m.hir', chain(units, planted))
            self.search(model)
            p = self.policy()
            needed = {f'm{k}' for i in planted for k in (i, i + 1)}
            self.assertEqual(self.kept(p), needed)
            self.assertEqual(p['search']['units'], units)
            self.assertLess(p['search']['trials'], 3 * np.log2(units) * len(needed) + 20)
            self.assertTrue(self.passes(model, 'p.json'))

    def rewritten(self, policy, kept):
        """Writes `policy` with the nodes `kept` in float32 and all others in float16.  Returns the name of the file."""
        for n in policy['nodes']:
            for u in n['units']:
                if re.fullmatch(r'm\d+', n['node']):
                    u['to'] = 'float32' if n['node'] in kept else 'float16'
                    n['tensors'] = [u['to']]
        with open(self.path('other.json'), 'w') as f:
            json.dump(policy, f)
        return 'other.json'

    def test_smallest_by_brute_force(self):
        model = self.write('m.hir', chain(7, {1, 4}))
        self.search(model)
        p = self.policy()
        found = self.kept(p)
        names = [f'm{i}' for i in range(7)]
        for size in range(len(found)):
            for kept in itertools.combinations(names, size):
                self.assertFalse(self.passes(model, self.rewritten(p, kept)), kept)
        self.assertTrue(self.passes(model, self.rewritten(p, found)))

    def test_unsafe(self):
        """A product whose weights exceed float16 is not a unit of the search, whatever the target's prices for float16."""
        model = self.write('m.hir', chain(8, {3}, size=1e6))
        for target in filter(runs, ('x86-64-v3', 'x86-64-v4+bf16', 'host')):
            self.search(model, '--target', target)
            p = self.policy()
            self.assertEqual((p['search']['unsafe'], self.kept(p), p['search']['units']), (['m3'], {'m4'}, 7), target)

    def test_sums_of_errors(self):
        """Every node has a small error.  Without any one member a tolerance is exceeded, and the evidence has the value."""
        model = self.write('m.hir', chain(10, ()))
        everything = self.search(model, tolerance='rel<=1')
        worst = self.policy()['search']['result']['value']
        self.assertIn('0 of 10 nodes', everything.stdout)
        bound = f'rel<={worst / 4}'
        self.search(model, tolerance=bound)
        p = self.policy()
        self.assertTrue(p['search']['float32'])
        self.assertTrue(self.passes(model, 'p.json', bound))
        for n in p['search']['float32']:
            self.assertGreater(n['without']['value'], n['without']['bound'])
            policy = self.rewritten(self.policy(), self.kept(p) - {n['node']})
            self.assertFalse(self.passes(model, policy, bound), n)

    def test_two_types(self):
        """bfloat16 holds these results, so no node stays in float32."""
        model = self.write('m.hir', chain(12, {3, 8}))
        self.search(model, types='f16,bf16')
        p = self.policy()
        self.assertEqual(self.kept(p), set())
        self.search(model, '--prefer', 'fewest', types='f16,bf16', tolerance='rel<=0.002')
        p = self.policy()
        types = {u['to'] for n in p['nodes'] for u in n['units'] if u['from'] == 'float32'}
        self.assertTrue(self.passes(model, 'p.json', 'rel<=0.002'))
        self.assertIn('float16', types)

    def test_rules(self):
        """Each rule finds a set that passes; bisection keeps all nodes up to the last one that is needed."""
        model = self.write('m.hir', chain(16, {9}))
        sizes = {}
        for rule in ('minimal', 'polygraphy-forward', 'polygraphy-reverse', 'onnx-segments'):
            self.search(model, '--rule', rule)
            p = self.policy()
            self.assertEqual(p['search']['rule'], rule)
            self.assertTrue(self.passes(model, 'p.json'), rule)
            sizes[rule] = len(p['search']['float32'])
        self.assertEqual(sizes, {'minimal': 2, 'polygraphy-forward': 11, 'polygraphy-reverse': 7, 'onnx-segments': 2})

    def low(self, policy):
        return {n['node'] for n in policy['nodes'] if 'float16' in n['tensors']}

    def price(self, model, policy, target):
        return json.loads(self.tool('explain', model, '--policy', policy, '--target', target, '--format', 'json').stdout)['price_ps']

    def test_prefer(self):
        """Where float16 is slower by the prices, nodes that need not be float32 are reported as slower, and the policy is as fast as the model.
        Small products are slower on x86-64-v3."""
        model = self.write('m.hir', chain(8, {3}))
        for prefer in 'fewest', 'speed':
            said = self.search(model, '--target', 'x86-64-v3', '--prefer', prefer, output=f'{prefer}.json').stdout
            p = self.policy(f'{prefer}.json')
            self.assertEqual((self.kept(p), p['search']['prefer']), ({'m3', 'm4'}, prefer))
            self.assertEqual(len(self.low(p)), 6 - len(p['search']['slower']))
            prices = p['search']['prices_ps']
            self.assertEqual((prices['policy'], prices['model']), (p['price_ps'], self.price(model, 'must_keep_origin_dtype', 'x86-64-v3')))
            self.assertTrue(self.passes(model, f'{prefer}.json'))
            self.assertEqual('low types are slower there' in said, prefer == 'speed')
        self.assertEqual(self.policy('fewest.json')['search']['slower'], [])
        self.assertEqual(set(p['search']['slower']) | self.kept(p) | self.low(p), {f'm{i}' for i in range(8)})
        self.assertLessEqual(prices['policy'], min(prices['model'], prices['minimal']))
        self.assertLess(prices['policy'], prices['minimal'])
        rules = {n['node']: n['units'][0]['rule'] for n in p['nodes'] if n['op'] == 'MatMul'}
        self.assertTrue(all(rules[n] == 'float32 is cheapest' for n in p['search']['slower']))

    def test_faster_stays_low(self):
        """On Zen 4, bfloat16 is faster in large products and slower in small ones: only these are raised to float32."""
        if not runs('znver4'):
            self.skipTest('a search runs what it compiles, and this machine does not run code for Zen 4')
        r = np.random.default_rng(1)
        lines = ['hir 1', 'entry "" {', '  input "x" = %x', '  input "s" = %s', '  output "y" = %y1', '  output "z" = %z2', '}', '',
                 '%x = Placeholder() {dtype=f32, shape=shape[512,64]}', '%s = Placeholder() {dtype=f32, shape=shape[2,8]}']
        for name, before, n in ('y0', 'x', 64), ('y1', 'y0', 64), ('z0', 's', 8), ('z1', 'z0', 8), ('z2', 'z1', 8):
            text = ', '.join(repr(float(v)) for v in (np.abs(r.normal(1, 0.2, (n, n))) / n).astype(np.float32).ravel())
            lines += [f'%w{name} = Const() {{dtype=f32, value=tensor f32[{n},{n}] {{{text}}}}}',
                      f'%{name} = MatMul(%{before}, %w{name}) {{T=f32, transpose_a=false, transpose_b=false}}']
        np.savez(self.path('set.npz'), x=r.uniform(0.5, 1, (1, 512, 64)).astype(np.float32), s=r.uniform(0.5, 1, (1, 2, 8)).astype(np.float32))
        model = self.write('m.hir', '\n'.join([*lines, '']))
        self.search(model, '--target', 'znver4', types='bf16')
        p = self.policy()
        prices = p['search']['prices_ps']
        slower = set(p['search']['slower'])
        self.assertEqual((p['search']['float32'], bool(slower), slower - {'z0', 'z1', 'z2'}), ([], True, set()))
        self.assertLessEqual({'y0', 'y1'}, {n['node'] for n in p['nodes'] if 'bfloat16' in n['tensors']})
        self.assertLess(prices['policy'], min(prices['model'], prices['minimal']))

    def test_no_prices(self):
        """Formats are emulated, so prices say nothing of them."""
        model = self.write('m.hir', chain(8, {3}))
        self.search(model, types='e5m2', tolerance='rel<=0.9')
        p = self.policy()['search']
        self.assertNotIn('prices_ps', p)
        self.assertEqual(p['slower'], [])

    def test_no_set(self):
        np.savez(self.path('ref.npz'), y=np.zeros((3, 2, WIDTH), np.float32) + 7)
        model = self.write('m.hir', chain(4, ()))
        r = self.search(model, '--reference', 'ref.npz', tolerance='abs<=1e-3', code=1)
        self.assertIn('not even float32 keeps the tolerances', r.stderr)
        self.assertFalse(os.path.exists(self.path('p.json')))


class Files(Case):
    def setUp(self):
        super().setUp()
        self.model = self.write('m.hir', chain(20, {5, 13}))

    def test_every_verb(self):
        """Every verb takes the file as a policy, and explain reports the types that the file states."""
        self.search(self.model)
        subprocess.run([sys.executable, os.path.join(HERE, 'validate.py'), SCHEMA, self.path('p.json')], check=True)
        for verb in (('run', '--input', 'x=random(1)'), ('bench', '--runs', '2'), ('compile', '-o', 'm.htx'), ('convert', '-o', 'm.pb'),
                     ('explain',), ('aot', '-o', 'net')):
            self.tool(verb[0], self.model, '--policy', 'p.json', *verb[1:])
        text = self.tool('explain', self.model, '--policy', 'p.json', '--format', 'json').stdout
        decided = {n['node']: n['tensors'] for n in json.loads(text)['nodes']}
        for n in self.policy()['nodes']:
            self.assertEqual(decided[n['node']], n['tensors'])

    def test_reasons(self):
        self.search(self.model, '--prefer', 'fewest')
        kept = self.kept(self.policy())
        for n in self.policy()['nodes']:
            if n['op'] == 'MatMul':
                rule = n['units'][0]['rule']
                self.assertTrue(rule.startswith('float32 by the search' if n['node'] in kept else 'low within'), rule)

    def test_reproducers(self):
        self.search(self.model, '--max-nodes', '1000', '--reproducers', 'why')
        n = len(self.policy()['search']['float32'])
        self.assertEqual(sorted(os.listdir(self.path('why'))), sorted(f'{i + 1}.{k}' for i in range(n) for k in ('json', 'sh')))
        self.assertIn(' --max-nodes 1000', self.read('why/1.sh'))
        path = os.path.dirname(environment.TOOL) + ':' + os.environ['PATH']
        for i in range(n):
            r = subprocess.run(['sh', f'why/{i + 1}.sh'], cwd=self.folder, capture_output=True, text=True,
                               env={**os.environ, 'PATH': path})
            self.assertEqual(r.returncode, 1, r.stderr)

    def test_resume(self):
        """A resumed search runs only the first trial, which shows that the samples are the same; with other samples it runs all."""
        self.search(self.model)
        first = self.policy()
        self.search(self.model, '--resume')
        again = self.policy()
        self.assertEqual(again['search']['trials'], 1)
        self.assertEqual(again['search']['resumed'], first['search']['trials'] - 1)
        self.assertEqual(again['search']['float32'], first['search']['float32'])
        self.assertEqual(again['nodes'], first['nodes'])
        np.savez(self.path('set.npz'), x=self.x[:2])
        self.search(self.model, '--resume')
        self.assertEqual(self.policy()['search']['resumed'], 0)

    def test_cut_off(self):
        """A search resumes from a journal that was cut off at any byte."""
        self.search(self.model)
        whole, first = self.read('p.json.trials'), self.policy()
        for n in range(0, len(whole), len(whole) // 7):
            self.write('p.json.trials', whole[:n])
            self.search(self.model, '--resume')
            p = self.policy()
            self.assertEqual(p['search']['float32'], first['search']['float32'])
            self.assertGreaterEqual(p['search']['resumed'], max(0, whole[:n].count('\n') - 3))

    def test_interrupted(self):
        args = [environment.TOOL, 'search', self.model, '--samples', 'set.npz', '--tol', 'rel<=0.05', '--types', 'f16', '-o', 'p.json']
        p = subprocess.Popen(args, cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        while p.poll() is None:
            if os.path.exists(self.path('p.json.trials')) and self.read('p.json.trials').count('\n') > 5:
                p.send_signal(signal.SIGINT)
                break
            time.sleep(0.001)
        p.communicate()
        self.search(self.model, '--resume')
        self.assertEqual(self.kept(self.policy()), {'m5', 'm6', 'm13', 'm14'})

    def test_standard_output(self):
        r = self.search(self.model, output='-')
        self.assertEqual(len(json.loads(r.stdout)['search']['float32']), 4)
        self.assertEqual([f for f in os.listdir(self.folder) if f.endswith('.trials')], [])


class BadInput(Case):
    def setUp(self):
        super().setUp()
        self.model = self.write('m.hir', chain(4, ()))

    def refused(self, text, code, *args):
        r = self.tool('search', self.model, *args, code=code)
        self.assertIn(text, r.stderr)
        self.assertEqual(r.stdout, '')

    def test_refused(self):
        self.refused('needs -o', 2)
        self.refused("did you mean 'e4m3fn'", 2, '-o', 'p.json', '--types', 'e4m3fm')
        self.refused("'f16' stands twice", 2, '-o', 'p.json', '--types', 'f16,f16')
        self.refused("there is no 'best'", 2, '-o', 'p.json', '--rule', 'best')
        self.refused("'1000001' is no number of samples", 2, '-o', 'p.json', '--samples', '1000001')
        self.refused("prefer: there is no 'accuracy'", 2, '-o', 'p.json', '--prefer', 'accuracy')
        self.refused('not of standard output', 2, '-o', '-', '--resume')
        self.refused('no output', 2, '-o', 'p.json', '--tol', 'z:rel<=1')

    def test_reproducers_file(self):
        """Refused before the search, which has not written a policy then."""
        self.write('why', '')
        self.refused('a file has this name', 5, '--samples', 'set.npz', '-o', 'p.json', '--reproducers', 'why')
        self.assertFalse(os.path.exists(self.path('p.json')))

    def test_no_journal(self):
        self.write('p.json.trials', 'something else\n')
        self.refused('no journal of a search', 3, '-o', 'p.json', '--resume')

    def test_nothing_to_decide(self):
        model = self.write('i.hir', 'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n\n'
                           '%x = Placeholder() {dtype=i32, shape=shape[4]}\n%y = AddV2(%x, %x) {T=i32}\n')
        r = self.tool('search', model, '--samples', '2', '-o', 'p.json')
        self.assertIn('0 of 0 nodes', r.stdout)


if __name__ == '__main__':
    unittest.main()
