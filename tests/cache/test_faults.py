#!/usr/bin/env python3
"""The tool with a cache when the system fails: each file operation of the process in turn fails, once or from then on,
or kills the process.  Each time there is the right output, or none and exit code 5, and the cache is intact."""
import errno, os, shutil, unittest

from tool import LONG, SMALL, Case
from environment import BUILD

SHIM = os.path.join(BUILD, 'tests', 'libcache_shim.so')
KILL = 0


class Faulty(Case):
    def setUp(self):
        super().setUp()
        self.htx = self.path('m.htx')
        self.compile = 'compile', '-q', SMALL, '--target', 'x86-64-v3', '-o', self.htx, *self.options()
        self.tool(*self.compile, '--no-cache')
        self.right = self.read('m.htx')
        os.unlink(self.htx)

    def options(self):
        return ()

    def with_fault(self, at, error, for_ever, *args):
        count = self.path('count')
        _, err = self.tool(*args, code=None, env={
            'LD_PRELOAD': SHIM, 'SHIM_AT': str(at), 'SHIM_ERROR': str(error), 'SHIM_COUNT': count,
            'SHIM_FOR_EVER': '1' if for_ever else '0'})
        try:
            with open(count) as f:
                return err, int(f.read())
        except OSError:
            return err, None

    def calls(self, *args):
        return self.with_fault(0, errno.EIO, False, *args)[1]

    def check(self, what, error, err):
        there = os.path.exists(self.htx)
        if error == KILL and self.code == -9:
            pass  # the output is there whole or not at all
        elif self.code == 5:
            self.assertIn('error:', err, what)
        else:
            self.assertEqual((self.code, there), (0, True), (what, err))
        if there:
            self.assertEqual(self.read('m.htx'), self.right, what)
            os.unlink(self.htx)

    def each(self, start, step, error, for_ever=False):
        """`start` brings the cache into the state in which the compilation begins."""
        start()
        self.tool(*self.compile)
        os.unlink(self.htx)
        start()
        n = self.calls(*self.compile)
        os.unlink(self.htx)
        self.assertGreater(n, 20)
        for at in range(1, n + 1, 1 if LONG else step):
            what = start.__name__, at, n, error, for_ever
            start()
            err, _ = self.with_fault(at, error, for_ever, *self.compile)
            self.check(what, error, err)
            _, err = self.tool(*self.compile)
            self.assertNotIn('damaged', err, what)
            self.assertEqual(self.read('m.htx'), self.right, what)
            os.unlink(self.htx)
            self.tool(*self.compile, '--error-on-cache-miss')
            os.unlink(self.htx)
            if error == KILL:
                self.tool('cache', 'verify')
                self.clean_up()

    def cold(self):
        shutil.rmtree(self.cache, ignore_errors=True)

    def warm(self):
        pass


class Faults(Faulty):
    def test_killed(self):
        self.each(self.cold, 2, KILL)
        self.each(self.warm, 1, KILL)

    def test_fails_once(self):
        self.each(self.cold, 2, errno.EIO)
        self.each(self.warm, 1, errno.EIO)
        for error in (errno.ENOSPC, errno.EMFILE, errno.EROFS) if LONG else ():
            self.each(self.cold, 1, error)
            self.each(self.warm, 1, error)

    def test_fails_for_ever(self):
        self.each(self.cold, 3, errno.ENOSPC, True)
        self.each(self.warm, 1, errno.EMFILE, True)
        for error in (errno.EIO, errno.EROFS) if LONG else ():
            self.each(self.cold, 1, error, True)
            self.each(self.warm, 1, error, True)


class IndexFaults(Faulty):
    """With an index of the graph's entries."""
    def options(self):
        return '--graph_compiler_cache_dir', self.cache, '--graph_key', 'net'

    def cold(self):
        super().cold()
        os.mkdir(self.cache)

    def test_killed(self):
        self.each(self.cold, 7, KILL)

    def test_fails(self):
        self.each(self.cold, 7, errno.EIO)
        self.each(self.cold, 11, errno.ENOSPC, True)
        self.each(self.warm, 5, errno.EMFILE)
        for error in (errno.ENOSPC, errno.EMFILE, errno.EROFS) if LONG else ():
            self.each(self.cold, 1, error)
            self.each(self.cold, 1, error, True)


if __name__ == '__main__':
    unittest.main()
