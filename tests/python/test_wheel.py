#!/usr/bin/env python3
"""The source distribution, and the wheel that is built from it: checked by auditwheel, installed on a clean system,
run."""
import os, re, shutil, subprocess, sys, tarfile, unittest, zipfile

from package import HERE, SMALL, environment
from case import FolderCase
sys.path.insert(0, os.path.join(HERE, '..', 'install'))
import chroot

MOST_BYTES = 30 << 20


def run(*command, env={}, **how):
    """Runs a command, which must succeed, in an environment that names nothing of the build except `env`."""
    clean = {k: v for k, v in os.environ.items() if not re.match('HALFTONE|PYTHON|LD_', k)}
    r = subprocess.run(command, capture_output=True, text=True, env={**clean, 'HALFTONE_CACHE_MODE': 'off', **env}, **how)
    assert r.returncode == 0, (command, r.stdout[-2000:], r.stderr[-2000:])
    return r.stdout


def source_distribution(folder):
    """Builds the wheel by pip's hook, unpacked into the folder, where an earlier build is kept."""
    os.makedirs(folder, exist_ok=True)
    hook = 'import sys, halftone_build; print(halftone_build.build_sdist(sys.argv[1]))'
    name = run(sys.executable, '-c', f'import sys; sys.path.insert(0, {environment.ROOT + "/python"!r}); {hook}', folder).split()[-1]
    tree = os.path.join(folder, name.removesuffix('.tar.gz'))
    for file in os.listdir(tree) if os.path.exists(tree) else ():
        path = os.path.join(tree, file)
        if file != 'build':
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    with tarfile.open(os.path.join(folder, name)) as tar:
        tar.extractall(folder, filter='tar')
    os.makedirs(f'{tree}/build', exist_ok=True)
    if not os.path.exists(f'{tree}/build/venv'):
        os.makedirs(f'{environment.ROOT}/build/venv', exist_ok=True)
        os.symlink(f'{environment.ROOT}/build/venv', f'{tree}/build/venv')
    return tree


class Wheel(FolderCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = source_distribution(f'{environment.ROOT}/build/sdist')
        # With the compiler of this build, in a folder at the same place in its tree, so that ccache
        # has the objects.
        with open(f'{environment.BUILD}/CMakeCache.txt') as f:
            compiler = re.search('^CMAKE_C_COMPILER:.*=(.*)', f.read(), re.M)[1]
        cls.build = {'CC': compiler, 'HALFTONE_WHEEL_BUILD': f'{cls.tree}/build'}
        cls.wheel = run('scripts/wheel', f'{environment.ROOT}/build/dist', cwd=cls.tree, env=cls.build).split('\n')[-2]

    def test_pip_builds_the_source_distribution(self):
        """A wheel for this machine also has the module for remote caches."""
        run(sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps', '--no-index', '--wheel-dir', self.dir, self.tree, env=self.build)
        name, = (f for f in os.listdir(self.dir) if f.endswith('.whl'))
        self.assertRegex(name, r'-py3-none-linux_x86_64\.whl$')
        with zipfile.ZipFile(self.path(name)) as z:
            self.assertIn('halftone/lib/halftone/halftone-remote.so', z.namelist())
            z.extractall(self.path('site'))
        self.assertEqual(run(sys.executable, '-c', f'import sys\nsys.path.insert(0, {self.path("site")!r})\nimport halftone as ht\n'
                             f'print(ht.run({SMALL!r}, x=[[1, 2, 3, 4]])["top"].tolist(), ht.__file__)'), f'[0] {self.dir}/site/halftone/__init__.py\n')

    def test_a_source_distribution_of_its_own(self):
        """The unpacked source distribution makes the same source distribution again."""
        run(sys.executable, '-c', 'import sys; sys.path.insert(0, "python"); import halftone_build; halftone_build.build_sdist(sys.argv[1])',
            self.dir, cwd=self.tree)
        name = os.path.basename(self.tree)
        with tarfile.open(f'{self.tree}.tar.gz') as a, tarfile.open(self.path(f'{name}.tar.gz')) as b:
            self.assertEqual(sorted(a.getnames()), sorted(b.getnames()))

    def test_nothing_to_build_with(self):
        """A machine without build tools gets a message."""
        r = subprocess.run([sys.executable, '-c', 'import sys; sys.path.insert(0, "python"); import halftone_build; halftone_build.build_wheel(".")'],
                           cwd=self.tree, capture_output=True, text=True, env={'PATH': self.dir})
        self.assertEqual(r.returncode, 1)
        self.assertIn('halftone: there is no cmake to build with', r.stderr)

    def test_another_system(self):
        """Debian 13: another libc, another Python and its NumPy, no files of Halftone, no network."""
        try:
            with chroot.system('trixie', 'python3-numpy', 'python3-venv') as s:
                self.uses(s, s.put(self.wheel))
        except chroot.Absent as why:
            print(f'skipped: {why}')
            self.skipTest(str(why))

    def uses(self, s, wheel):
        s.run('python3', '-m', 'venv', '--system-site-packages', '/venv')
        s.run('/venv/bin/pip', 'install', '--quiet', '--no-index', wheel)
        graph = s.put(SMALL)
        said = s.run('/venv/bin/python', '-c', f'import halftone as ht, sys\np = ht.load({graph!r}).compile(policy="force_fp16")\n'
                     'print(p(x=[[1, 2, 3, 4]])["top"].tolist(), ht.__file__, "halftone._call" in sys.modules)')
        self.assertRegex(said, r'\[0\] /venv/.* True')
        self.assertIn('top', s.run('/venv/bin/halftone', 'run', '--input', 'x=f32[1,4]:1,2,3,4', graph))

    def test_size_and_contents(self):
        self.assertLessEqual(os.path.getsize(self.wheel), MOST_BYTES)
        self.assertRegex(self.wheel, r'-py3-none-manylinux_2_34_x86_64\.whl$')
        names = zipfile.ZipFile(self.wheel).namelist()
        for name in ('bin/halftone', 'include/halftone/halftone.h', 'lib/libhalftone.so.1', 'lib/libhalftone-rt.so.1',
                     'lib/halftone/halftone-backend.so', 'py.typed', '_api.py', '_call.abi3.so', '_call.pyi'):
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
        """A wheel without the module says so when it is needed."""
        here = self.path('site')
        with zipfile.ZipFile(self.wheel) as z:
            z.extractall(here)
        said = run(sys.executable, '-c', f'import sys\nsys.path.insert(0, {here!r})\nimport halftone as ht\ntry:\n'
                   f'  ht.load({SMALL!r}).compile(cache=ht.cache.Cache({self.path("c")!r}, remote="http://127.0.0.1:9/"))\n'
                   'except ht.SystemFailure as error:\n  print(error)\n')
        self.assertIn('cannot load what speaks to the remote cache', said)


if __name__ == '__main__':
    unittest.main()
