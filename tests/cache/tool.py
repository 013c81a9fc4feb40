"""Base of tests of the compile cache: the tool with a cache of its own."""
import glob, os, subprocess, sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, 'tools'), os.path.join(TESTS, 'remote')]
from case import FolderCase
from environment import LONG, TOOL

SMALL = os.path.join(TESTS, 'cli', 'small.hir')


def environment(**more):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith('HALFTONE_CACHE') and not k.startswith('HALFTONE_REMOTE_') and not k.lower().endswith('_proxy')}
    return {**clean, 'HALFTONE_POLICY': '', **more}


class Case(FolderCase):
    # Thousands of small files are kept in memory if the system has a place for that.
    place = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None

    def setUp(self):
        super().setUp()
        self.cache = self.path('cache')

    def start(self, *args, env=None):
        place = [] if any('graph_compiler_cache_dir' in a for a in args) else ['--cache-dir', self.cache]
        return subprocess.Popen([TOOL, *args, *place], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=environment(**(env or {})))

    def tool(self, *args, code=0, env=None):
        """Standard output and standard error of a call."""
        p = self.start(*args, env=env)
        out, err = (s.decode(errors='replace') for s in p.communicate(timeout=600))
        if code is not None:
            self.assertEqual(p.returncode, code, (args, env, out, err))
        self.code = p.returncode
        return out, err

    def temporary(self):
        return glob.glob(os.path.join(glob.escape(self.cache), '**', '.tmp-*'), recursive=True)

    def clean_up(self):
        """Runs gc as if a long time had passed; no temporary file is left."""
        for name in self.temporary():
            os.utime(name, (1000, 1000))
        self.tool('cache', 'gc', '--max-size', '1G')
        self.assertEqual(self.temporary(), [])
