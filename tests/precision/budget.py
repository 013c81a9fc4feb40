#!/usr/bin/env python3
"""Error budgets of policy optimal: the frontier is monotone, the chosen decision keeps the budget when others run it on
the same samples, and invalid budgets are refused.  On a generated graph, and on MobileNetV2 if the models are there."""
import io
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

SIZE = 128
TARGET = 'x86-64-v4+bf16'  # the target whose costs count, so that results are the same everywhere


def npy(values, shape):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + struct.pack(f'<{len(values)}f', *values)


def read_npy(data):
    n = struct.unpack('<H', data[8:10])[0]
    assert b"'<f4'" in data[:10 + n], data[:10 + n]
    return struct.unpack(f'<{(len(data) - 10 - n) // 4}f', data[10 + n:])


def graph():
    """Five products with tanh between them, and a second output from the third."""
    r = random.Random(3)
    lines = ['hir 1', 'entry "" {', '  input "x" = %x', '  output "y" = %y', '  output "z" = %z', '}', '',
             f'%x = Placeholder() {{dtype=f32, shape=shape[{SIZE},{SIZE}]}}']
    last = 'x'
    for i in range(5):
        w = ', '.join(f'{r.gauss(0, 1) / math.sqrt(SIZE):.5f}' for _ in range(SIZE * SIZE))
        name = 'y' if i == 4 else f'm{i}'
        lines += [f'%w{i} = Const() {{dtype=f32, value=tensor f32[{SIZE},{SIZE}] {{{w}}}}}',
                  f'%{name} = MatMul(%{last}, %w{i}) {{T=f32, transpose_a=false, transpose_b=false}}']
        if i < 4:
            last = 'z' if i == 2 else f't{i}'
            lines.append(f'%{last} = Tanh(%{name}) {{T=f32}}')
    return '\n'.join(lines) + '\n'


def host():
    listed = json.loads(subprocess.run([environment.TOOL, 'targets', '--format=json'], check=True, stdout=subprocess.PIPE).stdout)
    return next(t['name'] for t in listed['targets'] if t['host'])


class Budget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = cls.file('m.hir', graph().encode())
        # Errors are measured on this machine; TARGET has no matrix units, whose sums of pairs have other roundings.
        cls.env = {**os.environ, 'HALFTONE_HOST': host().removesuffix('+amx')}
        r = random.Random(5)
        cls.samples = []
        for i in range(2):
            x = npy([r.uniform(-2, 2) for _ in range(SIZE * SIZE)], (SIZE, SIZE))
            z = io.BytesIO()
            with zipfile.ZipFile(z, 'w') as f:
                f.writestr('x.npy', x)
            cls.samples.append((cls.file(f's{i}.npy', x), cls.file(f's{i}.npz', z.getvalue())))

    @classmethod
    def file(cls, name, data):
        path = os.path.join(cls.folder.name, name)
        with open(path, 'wb') as f:
            f.write(data)
        return path

    def tool(self, verb, *args, code=0, model=None):
        r = subprocess.run([environment.TOOL, verb, model or self.model, *args], capture_output=True, env=self.env)
        self.assertEqual(r.returncode, code, (args, r.stderr))
        return r

    def explain(self, *args, **more):
        files = ','.join(npz for _, npz in self.samples)
        args = args if any(a.startswith('--samples') for a in args) else (*args, '--samples', files)
        out = self.tool('explain', '--policy', 'optimal', '--target', TARGET, '--format=json', *args, **more).stdout
        return json.loads(out)

    def refused(self, code, pattern, *args, verb='explain'):
        r = self.tool(verb, *args, code=code)
        self.assertEqual(r.stdout, b'')
        self.assertRegex(r.stderr.decode(), pattern)

    def check_frontier(self, points):
        """Points of higher price have smaller errors; no point is dominated."""
        self.assertEqual([p['price_ps'] for p in points], sorted({p['price_ps'] for p in points}))
        errors = [p['error'] for p in points]
        self.assertEqual(errors, sorted(set(errors), reverse=True))
        self.assertEqual(points[-1]['error'], 0)

    def outputs(self, sample, *policy):
        path = os.path.join(self.folder.name, 'out.npz')
        self.tool('run', *policy, '--input', f'x=@{sample}', '-o', path)
        with zipfile.ZipFile(path) as z:
            return {n[:-4]: read_npy(z.read(n)) for n in z.namelist()}

    def measured(self, *policy):
        """Relative errors by output, the largest over the samples."""
        errors = {}
        for sample, _ in self.samples:
            want, got = self.outputs(sample), self.outputs(sample, *policy)
            for n in want:
                e = max(abs(a - b) for a, b in zip(got[n], want[n])) / max(map(abs, want[n]))
                errors[n] = max(errors.get(n, 0), e)
        return errors

    def test_frontier(self):
        report = self.explain('--frontier')
        b = report['certificate']['budget']
        self.check_frontier(b['frontier'])
        self.assertGreater(len(b['frontier']), 3)
        self.assertIsNone(b['chosen'])
        self.assertEqual(report['certificate']['winner'], self.explain('--budget=rel<=1')['certificate']['winner'])
        text = self.tool('explain', '--policy', 'optimal', '--frontier', '--target', TARGET).stdout.decode()
        self.assertIn('frontier: ', text)
        self.assertIn('4 random samples, seed 1', text)

    def test_loose_budget_changes_nothing(self):
        plain = json.loads(self.tool('explain', '--policy', 'optimal', '--target', TARGET, '--format=json').stdout)
        report = self.explain('--budget', 'rel<=0.5')
        self.assertEqual(report['types'], plain['types'])
        b = report['certificate']['budget']
        self.assertEqual((b['runs'], b['groups'], len(b['frontier'])), (1, 0, 1))
        self.assertEqual(b['samples'], '2 given samples')

    def test_chosen_point_keeps_the_budget(self):
        points = self.explain('--frontier')['certificate']['budget']['frontier']
        limit = points[len(points) // 2]['error']
        report = self.explain('--budget', f'rel<={limit:.9g}')
        c = report['certificate']
        b = c['budget']
        chosen = b['frontier'][b['chosen']]
        self.check_frontier(b['frontier'])
        self.assertEqual(c['price_ps'], chosen['price_ps'])
        self.assertLessEqual(chosen['measured'], 1)
        self.assertTrue(report['types'])
        why = self.tool('explain', '--policy', 'optimal', '--target', TARGET, '--budget', f'rel<={limit:.9g}',
                        '--samples', ','.join(n for _, n in self.samples), '--why-not', 'bf16').stdout.decode()
        self.assertIn('float32 by the error budget', why)
        # The next cheaper one was run, and exceeded the budget.
        if b['chosen']:
            self.assertGreater(b['frontier'][b['chosen'] - 1]['measured'], 1)
        policy = ('--policy', 'optimal', '--cost-target', TARGET, '--budget', f'rel<={limit:.9g}', '--samples',
                  ','.join(n for n, _ in self.samples))
        errors = self.measured(*policy)
        self.assertLessEqual(max(errors.values()), limit)
        self.assertAlmostEqual(max(errors.values()), b['limits'][0]['measured'], delta=1e-3 * limit)

    def test_budget_of_one_output(self):
        loose = self.explain('--budget', 'rel<=0.5')['certificate']['budget']['limits'][0]['measured']
        report = self.explain('--budget', f'z:rel<={loose / 20:.9g},y:rms<=1')
        z, y = report['certificate']['budget']['limits']
        self.assertEqual((z['output'], z['metric'], y['output'], y['metric']), ('z', 'rel', 'y', 'rms'))
        self.assertLessEqual(z['measured'], z['most'])
        # Nodes after z may have any precision.
        self.assertEqual(report['types']['y']['T'], 'bfloat16')
        self.assertGreater(y['measured'], z['measured'])

    def test_budget_of_nothing_is_float32(self):
        for metric in 'rel', 'abs', 'rms':
            report = self.explain('--budget', f'{metric}<=0')
            self.assertEqual(report['types'], {})
            self.assertEqual(report['certificate']['budget']['limits'][0]['measured'], 0)

    def test_budget_that_cannot_be_kept(self):
        rules = self.file('c.cfg', b'm1::InputDtype:bfloat16,bfloat16,OutputDtype:bfloat16\n')
        self.refused(1, 'budget cannot be kept: .* leave 1 nodes', '--policy', 'optimal', '--customize-dtypes', rules,
                     '--budget', 'rel<=1e-7')
        self.explain('--customize-dtypes', rules, '--budget', 'rel<=0.5')

    def test_configuration(self):
        config = self.file('run.json', b'{"budget": "rel<=0", "samples": "1:9"}')
        report = json.loads(self.tool('explain', '--policy', 'optimal', '--config', config, '--format=json').stdout)
        self.assertEqual(report['types'], {})
        self.assertEqual(report['certificate']['budget']['samples'], '1 random samples, seed 9')

    def test_convert_and_compile(self):
        for verb, *more in ('convert', '-o', os.path.join(self.folder.name, 'o.pb')), ('compile',):
            self.tool(verb, '--policy', 'optimal', '--budget', 'rel<=0.5', '--samples', '1', *more)

    def test_bad_settings(self):
        o = '--policy', 'optimal'
        one = self.samples[0][0]
        self.refused(2, "budget: 'rel<1' has no '<='", *o, '--budget', 'rel<1')
        self.refused(2, "no output 'w'; did you mean '[xyz]'", *o, '--budget', 'w:rel<=1')
        self.refused(2, "budget is for policy optimal, not 'force_fp16'", '--policy', 'force_fp16', '--budget', 'rel<=1')
        self.refused(2, "frontier is for policy optimal", '--policy', 'grappler-bf16', '--frontier')
        self.refused(2, 'samples have no effect without budget', *o, '--samples', '3')
        self.refused(2, "samples: '0' is not N", *o, '--budget', 'rel<=1', '--samples', '0')
        self.refused(2, "'x.txt' is no .npz or .npy file", *o, '--budget', 'rel<=1', '--samples', 'x.txt')
        self.refused(2, 'a file is missing', *o, '--budget', 'rel<=1', '--samples', f'{one},')
        self.refused(5, 'missing.npy', *o, '--budget', 'rel<=1', '--samples', 'missing.npy')
        self.refused(2, 'single passes', *o, '--budget', 'rel<=1', '--passes', 'infer,precision', verb='opt')
        z = io.BytesIO()
        with zipfile.ZipFile(z, 'w') as f:
            f.writestr('u.npy', npy([1], (1,)))
        self.refused(3, "there is no input 'u'", *o, '--budget', 'rel<=1', '--samples', self.file('u.npz', z.getvalue()))
        self.refused(3, 'no arrays', *o, '--budget', 'rel<=1', '--samples', self.file('n.npz', b'PK\5\6' + bytes(18)))
        self.refused(3, "dimension 0 of input 'x' is 128, 1 was given", *o, '--budget', 'rel<=1', '--samples',
                     self.file('w.npy', npy([1], (1, 1))))

    @unittest.skipIf(environment.SANITIZED, 'the graph above reaches the same code')
    def test_real_model(self):
        model, most = ('frozen/mobilenetv2.pb', '1e-2') if environment.LONG else ('human-models/iris.json', '1e-3')
        model = os.path.join(environment.MODELS, model)
        if not os.path.exists(model):
            self.skipTest(f'{model} is absent')
        c = self.explain('--budget', 'rel<=' + most, '--samples', '1', model=model)['certificate']
        self.check_frontier(c['budget']['frontier'])
        limit, = c['budget']['limits']
        self.assertLessEqual(limit['measured'], float(most))
        # Neither all of what is cheapest, which errs more, nor all float32; how much cheaper depends on the machine.
        float32, = (a['price_ps'] for a in c['alternatives'] if a['name'] == 'float32')
        self.assertLess(c['price_ps'], .98 * float32)
        self.assertGreater(c['budget']['frontier'][0]['error'], 1)


if __name__ == '__main__':
    unittest.main()
