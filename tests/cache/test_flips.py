#!/usr/bin/env python3
"""Random damage, single bits and truncation: every damaged entry is a miss, every damaged artefact is refused."""
import glob, os, subprocess, unittest

from tool import LONG, SMALL, Case
from environment import BUILD

FLIPS = os.path.join(BUILD, 'tests', 'cache_flips')


class Flips(Case):
    def test_flips(self):
        artefact = self.path('m.htx')
        self.tool('compile', '-q', '--batch', '1', SMALL, '-o', artefact)
        graphs = glob.glob(os.path.join(self.cache, 'v1', 'graph', '*', '*'))
        kernels = sorted(glob.glob(os.path.join(self.cache, 'v1', 'kernel', '*', '*')), key=os.path.getsize)
        self.assertTrue(graphs and kernels)
        files = [*graphs, kernels[0], kernels[-1], '--', artefact]
        n = (100_000 if LONG else 10_000) // (len(files) - 1)
        r = subprocess.run([FLIPS, str(n), self.cache, *files], capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stdout[-5000:] + r.stderr)
        print(r.stdout)


if __name__ == '__main__':
    unittest.main()
