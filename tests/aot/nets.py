"""Base of tests of nets, which halftone aot makes and programs link and run; and their expected results."""
import json, os, random, re, shutil, struct, subprocess, sys, tempfile, zipfile
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, 'tests', 'cli'))
from tool import SMALL, ToolCase, npy
from environment import BUILD

DIGITS = os.path.join(TOP, 'examples', 'digits', 'model.pb')
STRICT = ['-Wall', '-Wextra', '-Wpedantic', '-Werror']
C, CXX = ['gcc', '-std=c11', '-D_GNU_SOURCE', *STRICT], ['g++', '-x', 'c++', '-std=c++17', *STRICT]
PLAN_BYTES, LEVEL_BYTES, LEVEL_NEEDS = 104, 104, 64  # as in aot/runner.h


def sections(path):
    """Name: (offset, address, size) of the sections of an ELF file."""
    text = subprocess.run(['readelf', '-SW', path], stdout=subprocess.PIPE, check=True).stdout.decode()
    return {m[1]: (int(m[3], 16), int(m[2], 16), int(m[4], 16)) for m in re.finditer(
        r'\] (\S+) +\w+ +([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+) ', text)}


def targets_of_host():
    text = subprocess.run([os.path.join(BUILD, 'halftone'), 'targets', '--format', 'json'],
                          stdout=subprocess.PIPE, check=True).stdout
    targets = json.loads(text)['targets']
    return [t['name'] for t in targets[:[bool(t['host']) for t in targets].index(True) + 1]]


class Nets(ToolCase):
    @classmethod
    def setUpClass(cls):
        """One cache for run and aot, so that equal code is compiled once."""
        cache = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.enterClassContext(mock.patch.dict(os.environ, HALFTONE_CACHE_MODE='rw', HALFTONE_CACHE_DIR=cache))

    def aot(self, model, name, *args, **more):
        folder = os.path.join(self.dir, name)
        if model in (DIGITS, SMALL) and not any(a.startswith(('--batch', '--input-shape')) for a in args):
            args = *args, '--batch=1'
        self.tool('aot', '-q', model, '--name', name, '-o', folder, *args, **more)
        return folder

    def run_ok(self, *args, env=None, cwd=None):
        r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
                           env={**os.environ, **(env or {})})
        self.assertEqual(r.returncode, 0, (args, r.stdout, r.stderr))
        return r.stdout

    def build(self, folder, name, link, compiler=C, main=None):
        """Links the example, or another program, with the options `link`."""
        program = os.path.join(self.dir, 'program')
        self.run_ok(*compiler, '-I' + folder, main or os.path.join(folder, name + '_main.c'),
                    *(['-x', 'none'] if compiler is CXX else []), *link, '-o', program)
        return program

    def links(self, folder, name):
        return [[os.path.join(folder, name + '.o')], ['-L' + folder, '-l:lib%s.a' % name],
                ['-L' + folder, '-l' + name, '-Wl,-rpath,' + folder]]

    def random_input(self, shape, descr, form, seed=7):
        r = random.Random(seed)
        n = 1
        for d in shape:
            n *= d
        if form == 'f':
            data = struct.pack('<%df' % n, *(r.gauss(0, 1) for _ in range(n)))
        else:
            data = bytes(r.randrange(256) for _ in range(n))
        return self.path('input.npy', npy(descr, shape, data)), self.path('input.raw', data)

    def reference(self, model, name, file, *args):
        """Raw outputs of run, in order."""
        out = os.path.join(self.dir, 'out.npz')
        self.tool('run', '-q', model, '--input', name + '=@' + file, '-o', out, *args)
        with zipfile.ZipFile(out) as z:
            raw = [z.read(n) for n in z.namelist()]
        return b''.join(d[10 + struct.unpack('<H', d[8:10])[0]:] for d in raw)

    def patch_cpus(self, folder, name, hidden):
        """A copy of the shared library in which the first `hidden` levels require a CPU that does not exist."""
        copy = os.path.join(self.dir, 'patched')
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        library = os.path.join(copy, 'lib%s.so' % name)
        at = sections(library)['.rodata'][0] + PLAN_BYTES
        with open(library, 'r+b') as f:
            for i in range(hidden):
                f.seek(at + i * LEVEL_BYTES + LEVEL_NEEDS)
                self.assertLess(struct.unpack('<Q', f.read(8))[0] & 255, 10)  # HT_AOT_LEVEL()
                f.seek(at + i * LEVEL_BYTES + LEVEL_NEEDS)
                f.write(struct.pack('<Q', 99))
        return copy
