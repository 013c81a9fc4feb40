#!/usr/bin/env python3
"""Comparisons in Python: the numbers of the tool, samples in all forms, refused input."""
import json, os, subprocess, sys, unittest, unittest.mock

from package import SMALL, environment
from case import FolderCase
import halftone as ht
import numpy as np

POLICIES = ['must_keep_origin_dtype', 'allow_mix_precision_bf16']
X = np.random.default_rng(3).normal(size=(9, 1, 4)).astype(np.float32)
LABELS = np.arange(9) % 3


def counted(report):
    """The policies without members that are times."""
    return [{k: v for k, v in p.items() if k not in ('latency_ms', 'speedup')} for p in report['policies']]


class Comparisons(FolderCase):
    def test_as_the_tool(self):
        np.save(self.path('x.npy'), X)
        np.save(self.path('y.npy'), LABELS)
        r = subprocess.run([environment.TOOL, 'compare', SMALL, *(f'--policy={p}' for p in POLICIES), '--samples',
                            self.path('x.npy'), '--labels', self.path('y.npy'), '--metric=top1', '--tol=y:cos>=0.5',
                            '--format=json'], capture_output=True, check=True)
        want = json.loads(r.stdout)['models'][0]
        for samples in X, {'x': X}, (dict(x=x) for x in X), [x.tolist() for x in X]:
            c = ht.compare(SMALL, POLICIES, samples, labels=LABELS, metric='top1', tolerances=['y:cos>=0.5'])
            self.assertEqual(counted(c.to_dict()), counted(want))
            self.assertEqual(c.to_dict()['samples'], 9)
        self.assertTrue(c.passed)
        c.check()
        self.assertEqual(c['allow_mix_precision_bf16']['latency_ms']['runs'], 10)
        self.assertEqual([p['policy'] for p in c.policies], POLICIES)
        self.assertRaises(KeyError, lambda: c['none'])
        self.assertEqual(len(c.table()), 4)
        self.assertIn('| must_keep_origin_dtype ', c._repr_markdown_())

    def test_verdict(self):
        c = ht.compare(ht.load(SMALL), [POLICIES[1]], X, tolerances=['rel<=1e-9'], rounds=0)
        self.assertFalse(c.passed)
        self.assertRaises(ht.Verdict, c.check)
        self.assertEqual(repr(c), '<Comparison allow_mix_precision_bf16 fail>')
        c.save(self.path('r.xml'), 'junit')
        self.assertIn(b'<failure', self.read('r.xml'))
        c.close()
        self.assertRaises(ValueError, c.text)

    def test_page(self):
        c, r = ht.compare(SMALL, POLICIES, X, rounds=1), ht.load(SMALL).explain('force_fp16')
        c.save(self.path('c.json'))
        r.save(self.path('r.json'))
        page = ht.report_page([c, r])
        self.assertEqual(ht.report_page([self.path('c.json'), self.path('r.json')]), page)
        tool = subprocess.run([environment.TOOL, 'report', self.path('c.json'), self.path('r.json')], capture_output=True, check=True)
        self.assertEqual(tool.stdout.decode(), page)
        self.assertEqual(c.to_html(), ht.report_page([c]))
        self.assertEqual(r.to_html(), ht.report_page([r]))
        self.assertRaises(ht.UsageError, ht.report_page, [])
        self.assertRaises(ht.SystemFailure, ht.report_page, [self.path('none.json')])
        with self.assertRaisesRegex(ht.InputError, 'there is no schema'):
            ht.report_page([self.path('bad.json', b'{}')])

    def test_notebook(self):
        """A notebook shows tables and figures: the page, in a frame."""
        import html.parser
        found = []

        class Frames(html.parser.HTMLParser):
            def handle_starttag(self, tag, attrs):
                found.append((tag, dict(attrs)))
        c = ht.compare(SMALL, POLICIES, X, rounds=1)
        Frames().feed(c._repr_html_())
        self.assertEqual([tag for tag, _ in found], ['iframe'])
        self.assertEqual(found[0][1]['srcdoc'], c.to_html())
        self.assertIn('<svg', found[0][1]['srcdoc'])
        self.assertIn('<table', found[0][1]['srcdoc'])

    def test_nodes(self):
        np.savez(self.path('x.npz'), x=X)
        subprocess.run([environment.TOOL, 'compare', SMALL, *(f'--policy={p}' for p in POLICIES), '--samples', self.path('x.npz'), '--nodes',
                        '--runs=0', '--format=json', '-o', self.path('r.json')], check=True, capture_output=True)
        tool = {p['policy']: p['nodes']['tensors'] for p in json.loads(self.read('r.json'))['models'][0]['policies']}
        c = ht.compare(SMALL, POLICIES, iter(X), rounds=0, nodes=True, nodes_memory=64)
        for p in POLICIES:
            self.assertEqual(c[p]['nodes']['tensors'], tool[p])
            self.assertEqual(len(c.nodes(p)), len(tool[p]))
        self.assertEqual(len(c.nodes()), sum(map(len, tool.values())))
        self.assertEqual(c.text('nodes-csv').count('\r\n'), 1 + len(c.nodes()))
        self.assertIn('results', json.loads(c.text('node-data')))
        self.assertRaises(ht.UsageError, ht.compare(SMALL, POLICIES, X, rounds=0).nodes)

    def test_reference(self):
        base = [ht.run(SMALL, x=x) for x in X]
        c = ht.compare(SMALL, [POLICIES[0]], X, reference=[{**b, 'y': b['y'].astype(np.float64) + 1} for b in base], rounds=0,
                       tolerances=['y:abs<=1.1', 'top:abs<=0'])
        self.assertAlmostEqual(c.policies[0]['outputs'][0]['abs'], 1, 12)
        self.assertTrue(c.passed)

    def test_tensorflow(self):
        """TensorFlow computes the reference of each sample, as in the tool, and of each trial of a search."""
        np.save(self.path('x.npy'), X)
        tool = subprocess.run([environment.TOOL, 'compare', SMALL, '--policy', POLICIES[1], '--samples', self.path('x.npy'), '--runs=0',
                               '--reference=tensorflow', '--format=json'], capture_output=True, check=True,
                              env={**os.environ, 'HALFTONE_PYTHON': sys.executable})
        want = json.loads(tool.stdout)['models'][0]['policies'][0]['outputs']
        c = ht.compare(SMALL, POLICIES, X, reference='tensorflow', rounds=0)
        self.assertEqual((c.to_dict()['reference'], c[POLICIES[1]]['outputs']), ('given', want))
        self.assertLess(c[POLICIES[0]]['outputs'][0]['rel'], 1e-5)
        found = ht.search(SMALL, iter(X[:2]), reference='tensorflow', tolerances=['rel<=0.1'], types=['bf16'])
        self.assertEqual(found.float32, [])

    def test_tensorflow_takes_bfloat16(self):
        x = self.path('m.hir', b'hir 1\nentry "" {\n input "x" = %x\n output "y" = %y\n}\n\n%x = Placeholder() {dtype=bf16, shape=shape[2]}\n'
                      b'%y = Exp(%x) {T=bf16}\n')
        import ml_dtypes
        samples = np.array([[0, 1], [2, -3]]).astype(ml_dtypes.bfloat16)
        c = ht.compare(x, [POLICIES[0]], samples, reference='tensorflow', rounds=0)
        self.assertLessEqual(c.policies[0]['outputs'][0]['max_ulp'], 1)

    def test_tensorflow_refused(self):
        without = self.path('python', f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n'.encode())
        os.chmod(without, 0o755)
        for interpreter, pattern in (without, 'the Python package tensorflow is not installed'), ('/none', "cannot run '/none'"), (
                '/bin/true', 'process ended'):
            with unittest.mock.patch.dict(os.environ, HALFTONE_PYTHON=interpreter):
                with self.assertRaisesRegex(ht.SystemFailure, pattern):
                    ht.compare(SMALL, POLICIES, X, reference='tensorflow')
        with self.assertRaisesRegex(ht.UsageError, "no reference 'torch'"):
            ht.compare(SMALL, POLICIES, X, reference='torch')

    def test_batches(self):
        whole = ht.compare(SMALL, POLICIES, X.reshape(3, 3, 4), batch=3, rounds=0, labels=LABELS.reshape(3, 3), metric='top1')
        self.assertEqual((whole.to_dict()['samples'], whole.to_dict()['runs']), (9, 3))

    def test_policies(self):
        c = ht.compare(SMALL, [ht.Policy('force_fp16'), 'allow_mix_precision_bf16'], X, rounds=0)
        self.assertEqual([p['lowest'] for p in c.policies], ['float16', 'bfloat16'])
        with self.assertRaisesRegex(ht.UsageError, 'nonsense'):
            ht.compare(SMALL, ['nonsense'], X)
        with self.assertRaisesRegex(ht.UsageError, 'stated twice'):
            ht.compare(SMALL, [POLICIES[0]] * 2, X)

    def test_refusals(self):
        for pattern, args in (
                ('no samples', dict(samples=[])),
                ("nothing for 'x'", dict(samples=[{}])),
                ("no tensor 'z'", dict(samples=[{'x': X[0], 'z': X[0]}])),
                ('float32', dict(samples=[X[0].astype(np.float64)])),
                ('dimension', dict(samples=[X[0][:, :3]])),
                ('has no label', dict(samples=X, labels=LABELS[:3], metric='top1')),
                ('fewer samples', dict(samples=X[:3], labels=LABELS, metric='top1')),
                ('none of the 3 classes', dict(samples=X, labels=LABELS + 1, metric='top1')),
                ('no metric', dict(samples=X, metric='f1')),
                ('no statistic', dict(samples=X, tolerances=['r<=1'])),
                ('labels without a metric', dict(samples=X, labels=LABELS))):
            with self.assertRaisesRegex(ht.HalftoneError, pattern):
                ht.compare(SMALL, [POLICIES[0]], **args)
        with self.assertRaisesRegex(ht.UsageError, 'no form'):
            ht.compare(SMALL, [POLICIES[0]], X, rounds=0).text('pdf')


if __name__ == '__main__':
    os.environ['HALFTONE_CACHE_MODE'] = 'off'
    unittest.main()
