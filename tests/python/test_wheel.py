#!/usr/bin/env python3
"""The wheel: built, checked by auditwheel, installed into an environment that has nothing else, run."""
import os, re, subprocess, sys, unittest, zipfile

from package import SMALL, environment
from case import FolderCase

MOST_BYTES = 30 << 20


def run(*command, **how):
    """A command that has to end well, with an environment that names nothing of the build."""
    clean = {k: v for k, v in os.environ.items() if not re.match('HALFTONE|PYTHON|LD_', k)}
    r = subprocess.run(command, capture_output=True, text=True, env={**clean, 'HALFTONE_CACHE_MODE': 'off'}, **how)
    assert r.returncode == 0, (command, r.stdout[-2000:], r.stderr[-2000:])
    return r.stdout


class Wheel(FolderCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = os.path.join(environment.ROOT, run('scripts/wheel', 'build/dist', cwd=environment.ROOT).split('\n')[-2])

    def test_size_and_contents(self):
        self.assertLessEqual(os.path.getsize(self.wheel), MOST_BYTES)
        self.assertRegex(self.wheel, r'-py3-none-manylinux_2_34_x86_64\.whl$')
        names = zipfile.ZipFile(self.wheel).namelist()
        for name in ('bin/halftone', 'include/halftone/halftone.h', 'lib/libhalftone.so.1', 'lib/libhalftone-rt.so.1',
                     'lib/halftone/halftone-backend.so', 'py.typed', '_api.py'):
            self.assertIn(f'halftone/{name}', names)
        self.assertFalse([n for n in names if 'LLVM' in n or 'curl' in n or 'remote' in n])

    def test_auditwheel(self):
        python = f'{environment.ROOT}/build/venv/wheel/bin/python'
        said = ' '.join(run(python, '-m', 'auditwheel', 'show', self.wheel).split())
        self.assertRegex(said, r'consistent with the following platform tag: "manylinux_2_(\d|[12]\d|3[0-4])_x86_64"')

    def test_clean_environment(self):
        here = self.path('venv')
        run(sys.executable, '-m', 'venv', here)
        run(f'{here}/bin/pip', 'install', '--quiet', self.wheel)
        code = ('import halftone as ht\n'
                'p = ht.load("graph.hir").compile(policy="force_fp16")\n'
                'print(p(x=[[1, 2, 3, 4]])["top"].tolist(), ht.__file__)\n')
        with open(SMALL, 'rb') as f:
            self.path('graph.hir', f.read())
        said = run(f'{here}/bin/python', '-c', code, cwd=self.dir)
        self.assertTrue(said.startswith(f'[0] {here}/'), said)
        self.assertIn('top', run(f'{here}/bin/halftone', 'run', '--input', 'x=f32[1,4]:1,2,3,4', 'graph.hir', cwd=self.dir))
        maps = run(f'{here}/bin/python', '-c', f'{code}print(open("/proc/self/maps").read())', cwd=self.dir)
        foreign = {p for p in re.findall(r'/\S+\.so\S*', maps) if re.search('zip|cjson|snappy|crypto|zstd|bz2|LLVM|halftone', p)}
        self.assertTrue(foreign)
        for path in foreign:
            self.assertTrue(path.startswith(here), path)

    def test_remote_cache_is_refused(self):
        """A wheel without the module says what is missing."""
        here = self.path('site')
        with zipfile.ZipFile(self.wheel) as z:
            z.extractall(here)
        said = run(sys.executable, '-c', f'import sys\nsys.path.insert(0, {here!r})\nimport halftone as ht\ntry:\n'
                   f'  ht.load({SMALL!r}).compile(cache=ht.cache.Cache({self.path("c")!r}, remote="http://127.0.0.1:9/"))\n'
                   'except ht.SystemFailure as error:\n  print(error)\n')
        self.assertIn('cannot load what speaks to the remote cache', said)


if __name__ == '__main__':
    unittest.main()
