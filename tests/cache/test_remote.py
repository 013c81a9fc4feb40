#!/usr/bin/env python3
"""The tool with a remote cache: what another machine compiled is not compiled again, a server that lies does no harm,
and credentials are left nowhere."""
import glob, os, shutil, unittest

from tool import SMALL, Case
from servers import Hostile, WithNginx

NO_GENERATOR = {'HALFTONE_BACKEND': '/nonexistent'}


class Remote(WithNginx, Case):
    def setUp(self):
        super().setUp()
        self.compile = 'compile', SMALL, '--target', 'x86-64-v3', '-o', self.path('m.htx')
        self.tool(*self.compile, '--no-cache')
        self.right = self.read('m.htx')

    def compiled(self, *args, **more):
        """The diagnostics of a compilation, whose result must be right."""
        if os.path.exists(self.path('m.htx')):
            os.unlink(self.path('m.htx'))
        _, err = self.tool(*self.compile, *args, **more)
        self.assertEqual(self.read('m.htx'), self.right)
        return err

    def elsewhere(self):
        """Simulates another machine, whose own cache is empty."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def test_compiled_once(self):
        url = self.nginx.url('/tool')
        self.assertNotIn('warning', self.compiled('--remote-cache', url))  # read only: nothing is sent
        self.elsewhere()
        self.tool(*self.compile, '--remote-cache', url, '--error-on-cache-miss', code=1)
        self.compiled('--remote-cache', url, '--remote-mode', 'rw')
        self.elsewhere()
        self.assertNotIn('warning', self.compiled('--remote-cache', url, '--error-on-cache-miss', env=NO_GENERATOR))
        self.compiled('--error-on-cache-miss', env=NO_GENERATOR)  # now the entry is here, too
        self.elsewhere()
        self.compiled('--cache-mode', 'off', env={**NO_GENERATOR, 'HALFTONE_REMOTE_CACHE': url})

    def test_libcurl_only_with_a_url(self):
        for args, there in (((), False), (('--remote-cache', self.nginx.url('/tool')), True)):
            _, err = self.tool(*self.compile, *args, env={'LD_DEBUG': 'files'})
            self.assertEqual('libcurl' in err, there)

    def test_a_server_that_lies_changes_nothing(self):
        for behaviour in '500', '404', 'garbage-random', 'cas-other-bytes', 'good', 'reset', 'cas-endless', 'elsewhere':
            server = Hostile()
            self.elsewhere()
            err = self.compiled('--remote-cache', server.url(behaviour), '--remote-mode', 'rw')
            self.assertEqual(err.count('remote cache'), 1, err)
            self.assertNotEqual(server.requests, {})
            server.stop()

    def test_entries_under_other_keys(self):
        """Each action names another entry's blob: all digests are right, but the entries belong to other keys."""
        url = self.nginx.url('/mixed')
        self.compiled('--remote-cache', url, '--remote-mode', 'rw')
        actions = sorted(glob.glob(os.path.join(self.nginx.store, 'mixed', 'ac', '*')))
        self.assertGreater(len(actions), 1)
        contents = []
        for name in actions:
            with open(name, 'rb') as f:
                contents.append(f.read())
        for name, other in zip(actions, contents[1:] + contents[:1]):
            with open(name, 'wb') as f:
                f.write(other)
        self.elsewhere()
        self.tool(*self.compile, '--remote-cache', url, '--error-on-cache-miss', code=1)
        self.compiled('--remote-cache', url)

    def test_no_credentials_are_left(self):
        url = self.nginx.url('/password', user='user:p%40ss%3Aw0rd@')
        secrets = [b'p@ss', b'p%40ss', b'w0rd', b't0ken', b'wr0ng']
        token = self.path('token')
        with open(token, 'w') as f:
            f.write('t0ken.of-mine')
        said = []
        for args, env in ((('--remote-cache', url), {}),
                          (('--remote-cache', url.replace('w0rd', 'wr0ng')), {}),
                          (('--remote-cache', self.nginx.url('/token'), '--remote-token-file', token), {}),
                          (('--remote-cache', self.nginx.url('/token')), {'HALFTONE_REMOTE_TOKEN': 't0ken.of-mine'}),
                          (('--remote-cache', self.nginx.url('/token')), {'HALFTONE_REMOTE_TOKEN': 'wr0ng'})):
            self.elsewhere()
            said.append(self.compiled(*args, '--remote-mode', 'rw', env=env).encode())
        self.assertEqual([b'warning' in s for s in said], [False, True, False, False, True], said)
        for args in (('run', SMALL), ('cache', 'stats'), ('cache', 'key', SMALL), ('cache', 'why-miss', SMALL)):
            out, err = self.tool(*args, '--remote-cache', url, code=None)
            said += [out.encode(), err.encode()]
        for folder in self.cache, self.nginx.store:
            for name in glob.glob(os.path.join(folder, '**'), recursive=True):
                if os.path.isfile(name):
                    with open(name, 'rb') as f:
                        said += [f.read(), name.encode()]
        self.assertGreater(len(said), 20)
        for s in secrets:
            self.assertFalse(any(s in text for text in said), s)


if __name__ == '__main__':
    unittest.main()
