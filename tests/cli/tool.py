"""Base of tests of the tool: models, NumPy files, calls of the tool."""
import os, struct, subprocess, sys, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, 'tests', 'tools'))
from case import FolderCase
from environment import HANGS, TOOL

SMALL = os.path.join(HERE, 'small.hir')
TYPES = os.path.join(HERE, 'types.hir')
MODEL_VERBS = ('inspect', 'run', 'bench', 'compile', 'opt', 'convert', 'explain')


RATES_MEASURED = 'no costs are known of this machine'


def without_rates(said):
    """The lines of a command's messages, but for the note of the first command on a machine that has no table of costs."""
    return [line for line in said.splitlines() if RATES_MEASURED not in line]


def npy(descr, shape, data, fortran=False, version=1):
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    size = 2 if version == 1 else 4
    head += ' ' * (-(len(head) + 9 + size) % 64) + '\n'
    return b'\x93NUMPY' + bytes([version, 0]) + len(head).to_bytes(size, 'little') + head.encode() + data


def read_npy(data):
    assert data[:6] == b'\x93NUMPY' and data[6] == 1
    n = struct.unpack('<H', data[8:10])[0]
    assert (10 + n) % 64 == 0
    head = eval(data[10:10 + n])
    form = {'<f4': 'f', '<f8': 'd', '<i8': 'q', '<i4': 'i', '<u2': 'H', '<f2': 'e', '|b1': '?'}[head['descr']]
    body = data[10 + n:]
    return head['descr'], head['shape'], list(struct.unpack('<%d%s' % (len(body) // struct.calcsize(form), form), body))


def floats(*v):
    return struct.pack('<%df' % len(v), *v)


class ToolCase(FolderCase):
    def tool(self, *args, code=0, env=None, out=subprocess.PIPE, cwd=None):
        r = subprocess.run([TOOL, *args], stdout=out, cwd=cwd, stderr=subprocess.PIPE, timeout=HANGS,
                           env={**os.environ, 'HALFTONE_POLICY': '', **(env or {})})
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr))
        r.err = r.stderr.decode(errors='replace')
        return r

    def fails(self, code, pattern, *args, **more):
        """Expects a refusal of this class: nothing on standard output, one message with the reason."""
        r = self.tool(*args, code=code, **more)
        self.assertEqual(r.stdout or b'', b'')
        self.assertRegex(r.err, pattern)
        return r

    def x(self, *v, name='x.npy'):
        return self.path(name, npy('<f4', (len(v) // 4, 4), floats(*v)))

    def outputs(self, npz):
        with zipfile.ZipFile(npz) as z:
            return {n: read_npy(z.read(n)) if n.endswith('.npy') else z.read(n) for n in z.namelist()}
