#!/usr/bin/env python3
"""Searches in Python: the tool's policy, its use, journals, and refused input."""
import json, subprocess, unittest

from package import SMALL, environment
from case import FolderCase
import halftone as ht
import numpy as np

X = np.random.default_rng(3).normal(size=(5, 1, 4)).astype(np.float32)


def evidence(report):
    """The evidence without the command and the numbers of trials, which the journal changes."""
    return {k: v for k, v in report['search'].items() if k not in ('command', 'trials', 'resumed')}


class Searches(FolderCase):
    def test_as_the_tool(self):
        np.save(self.path('x.npy'), X)
        for tolerance in 'rel<=0.1', 'rel<=1e-6':
            subprocess.run([environment.TOOL, 'search', SMALL, '--samples', self.path('x.npy'), f'--tol={tolerance}', '-o',
                            self.path('p.json')], capture_output=True, check=True)
            want = json.loads(self.read('p.json'))
            for samples in X, (dict(x=x) for x in X):
                s = ht.search(SMALL, samples, tolerances=[tolerance])
                self.assertEqual(evidence(s.to_dict()), evidence(want))
                self.assertEqual(s.to_dict()['nodes'], want['nodes'])
        self.assertTrue(s.float32)

    def test_policy(self):
        s = ht.search(ht.load(SMALL), X, tolerances=['rel<=1e-6'])
        s.save(self.path('p.json'))
        for policy in s.policy, self.path('p.json'):
            c = ht.compare(SMALL, [policy], X, tolerances=['rel<=1e-6'], rounds=0)
            self.assertTrue(c.passed)
        for node in s.float32:
            self.assertFalse(ht.compare(SMALL, [s.without(node)], X, tolerances=['rel<=1e-6'], rounds=0).passed)
        self.assertRaises(ht.UsageError, s.without, 'none')
        self.assertIn('nodes stay in float32', s.text())
        self.assertRegex(repr(s), r'<Search [1-9] of [1-9] nodes in float32>')
        s.close()
        self.assertRaises(ValueError, s.text)

    def test_journal(self):
        path = self.path('trials')
        first = ht.search(SMALL, X, tolerances=['rel<=1e-6'], journal=path).to_dict()['search']
        again = ht.search(SMALL, X, tolerances=['rel<=1e-6'], journal=path, resume=True).to_dict()['search']
        self.assertEqual((again['trials'], again['resumed']), (1, first['trials'] - 1))

    def test_refused(self):
        self.assertRaises(ht.UsageError, ht.search, SMALL, [])
        self.assertRaises(ht.UsageError, ht.search, SMALL, X, types=['f8'])
        self.assertRaises(ht.UsageError, ht.search, SMALL, X, rule='best')
        self.assertRaises(ht.Verdict, ht.search, SMALL, X, reference=[{'y': np.full((1, 3), 9, np.float32), 'top': [0]}] * 5,
                          tolerances=['y:abs<=1e-6'])
        self.assertRaises(ht.SystemFailure, ht.search, SMALL, X, journal=self.path('none/trials'))


if __name__ == '__main__':
    unittest.main()
