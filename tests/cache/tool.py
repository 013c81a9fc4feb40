"""What tests of the compile cache share: the tool with a cache of its own."""
import glob, os, shutil, subprocess, tempfile, unittest

BUILD = os.path.abspath(os.environ['HALFTONE_BUILD'])
TOOL = os.path.join(BUILD, 'halftone')
SMALL = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cli', 'small.hir')
# Everything instead of samples: minutes.
LONG = os.environ.get('HALFTONE_LONG') == '1'


def environment(**more):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith('HALFTONE_CACHE') and not k.startswith('HALFTONE_REMOTE_') and not k.lower().endswith('_proxy')}
    return {**clean, 'HALFTONE_POLICY': '', **more}


class Case(unittest.TestCase):
    def setUp(self):
        # Thousands of small files: in memory, where there is such a place.
        self.dir = tempfile.mkdtemp(prefix='halftone-', dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None)
        self.addCleanup(shutil.rmtree, self.dir)
        self.cache = self.path('cache')

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, *args, env=None):
        return subprocess.Popen([TOOL, *args, '--cache-dir', self.cache], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=environment(**(env or {})))

    def tool(self, *args, code=0, env=None):
        """What it printed: standard output, and standard error."""
        p = self.start(*args, env=env)
        out, err = (s.decode(errors='replace') for s in p.communicate(timeout=600))
        if code is not None:
            self.assertEqual(p.returncode, code, (args, env, out, err))
        self.code = p.returncode
        return out, err

    def temporary(self):
        return glob.glob(os.path.join(glob.escape(self.cache), '**', '.tmp-*'), recursive=True)

    def clean_up(self):
        """gc a long time later: it leaves no temporary files."""
        for name in self.temporary():
            os.utime(name, (1000, 1000))
        self.tool('cache', 'gc', '--max-size', '1G')
        self.assertEqual(self.temporary(), [])

    def read(self, name):
        with open(self.path(name), 'rb') as f:
            return f.read()
