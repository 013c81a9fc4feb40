#!/usr/bin/env python3
"""mypy --strict accepts the package and a program that uses it; it refuses a program that uses it wrongly."""
import os, subprocess, unittest

from package import PACKAGE, environment
from case import FolderCase

GOOD = '''import halftone as ht
import numpy as np

m: ht.Model = ht.load("m.pb", batch=2)
p: ht.Program = m.compile(policy="optimal", target="host", inputs={"x": ("?", 4)})
names: list[str] = [t.name for t in p.inputs]
y = p(x=np.zeros((2, 4)), threads=2)["y"]
r: ht.Report = m.explain(ht.Policy("force_fp16", profile="cpu"))
rows: int = ht.cache.stats()["bytes"]
'''
BAD = {
    'm: ht.Model = ht.load("m.pb").compile()': 'assignment',
    'ht.load("m.pb", bach=2)': 'call-arg',
    'ht.load("m.pb").compile(threads="2")': 'arg-type',
    'ht.load("m.pb").inputs[0].shapes': 'attr-defined',
}


class Types(FolderCase):
    def mypy(self, *arguments):
        python = subprocess.run([f'{environment.ROOT}/scripts/venv', 'types', 'tests/python/requirements.txt'], check=True,
                                capture_output=True, text=True).stdout.strip()
        return subprocess.run([python, '-m', 'mypy', '--strict', '--config-file', f'{environment.ROOT}/pyproject.toml',
                               '--cache-dir', self.path('cache'), *arguments], capture_output=True, text=True,
                              env={**os.environ, 'MYPYPATH': PACKAGE})

    def test_package(self):
        r = self.mypy(f'{PACKAGE}/halftone')
        self.assertEqual(r.returncode, 0, r.stdout)

    def test_users(self):
        r = self.mypy(self.path('good.py', GOOD.encode()))
        self.assertEqual(r.returncode, 0, r.stdout)
        bad = self.path('bad.py', ('import halftone as ht\n' + '\n'.join(BAD) + '\n').encode())
        r = self.mypy(bad)
        found = [line.rsplit('[', 1)[-1].rstrip(']') for line in r.stdout.splitlines() if 'error:' in line]
        self.assertEqual(found, list(BAD.values()), r.stdout)


if __name__ == '__main__':
    unittest.main()
