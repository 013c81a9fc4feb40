#!/usr/bin/env python3
"""The remote cache with nginx, bazel-remote and a server that misbehaves: an entry that was put comes back, and
whatever a server does is a miss after a bounded time, reported once, without any credentials."""
import hashlib, os, random, shutil, subprocess, sys, tempfile, time, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
from case import FolderCase
from environment import BUILD
from servers import ENTRY, GARBAGE, BazelRemote, Hostile, WithNginx, action, certificate, free_port

CLIENT = os.path.join(BUILD, 'tests', 'remote_client')
GO_MODULE = os.path.join(HERE, 'bazel-remote')


class Client(FolderCase):
    def client(self, url, *commands, code=0, secrets=(), env=None, **options):
        """The lines of its output, and its diagnostics; options as in client.c."""
        args = [a for k, v in options.items() for a in ('--' + k.replace('_', '-'), str(v))]
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
        r = subprocess.run([CLIENT, *args, url, *commands], capture_output=True, text=True, timeout=300,
                           env={**clean, **(env or {})})
        self.assertEqual(r.returncode, code, (args, url, commands, r.stdout, r.stderr))
        for s in secrets:
            self.assertNotIn(s, r.stdout + r.stderr)
        return r.stdout.split('\n')[:-1], r.stderr

    def there_and_back(self, url, expect='kept', **more):
        """Puts entries of several sizes and gets them."""
        for i, n in enumerate((1, 1000, 3_000_000)):
            data = random.Random(n).randbytes(n)
            key, back = f'{self.id()}{i}', self.path('back')
            lines, said = self.client(url, 'get', key, back, 'put', key, self.path('entry', data), 'get', key, back,
                                      write=1, **more)
            self.assertEqual((lines, said), (['miss', 'kept', 'hit'], ''))
            self.assertEqual(self.read('back'), data)


class AgainstNginx(WithNginx, Client):
    def fails_once(self, pattern, url, *commands, **more):
        """Expects that all commands fail, with one warning."""
        lines, said = self.client(url, *commands, **more)
        self.assertEqual(set(lines), {'not kept' if c == 'put' else 'miss' for c in commands[::3]}, said)
        self.assertRegex(said, pattern)
        self.assertEqual(said.count('warning'), 1, said)
        return said

    def test_plain(self):
        self.there_and_back(self.nginx.url('/plain'))
        self.there_and_back(self.nginx.url('/slash/'))
        self.there_and_back('unix:' + self.nginx.socket)
        for n, store in enumerate(('plain', 'slash', '')):
            cas = os.path.join(self.nginx.store, store, 'cas')
            for name in os.listdir(cas):
                with open(os.path.join(cas, name), 'rb') as f:
                    self.assertEqual(hashlib.sha256(f.read()).hexdigest(), name)

    def test_one_connection_and_no_expectation(self):
        before = len(self.nginx.requests())
        e = self.path('e', b'x' * 3_000_000)
        self.client(self.nginx.url('/count'), *['put', 'a', e] * 3, *['get', 'a', self.path('b')] * 3, write=1)
        self.assertEqual([r.split('"')[1].split()[0] for r in self.nginx.requests()[before:]],
                         ['PUT', 'PUT'] * 3 + ['GET', 'GET'] * 3)

    def test_read_only_by_default(self):
        lines, said = self.client(self.nginx.url('/ro'), 'put', 'a', self.path('e', b'x'), 'get', 'a', self.path('b'))
        self.assertEqual((lines, said), (['not kept', 'miss'], ''))
        self.assertFalse(os.path.exists(os.path.join(self.nginx.store, 'ro')))

    def test_what_was_evicted_is_a_miss(self):
        for folder in 'ac', 'cas':
            url = self.nginx.url('/evict-' + folder)
            self.client(url, 'put', 'a', self.path('e', b'xyz'), write=1)
            shutil.rmtree(os.path.join(self.nginx.store, 'evict-' + folder, folder))
            self.assertEqual(self.client(url, 'get', 'a', self.path('b')), (['miss'], ''))

    def test_damage_on_the_server(self):
        url, r = self.nginx.url('/damage'), random.Random(3)
        self.client(url, 'put', 'a', self.path('e', r.randbytes(1000)), write=1)
        for folder in 'cas', 'ac':
            where = os.path.join(self.nginx.store, 'damage', folder)
            (name,) = os.listdir(where)
            with open(os.path.join(where, name), 'rb') as f:
                whole = f.read()
            for at in r.sample(range(len(whole) * 8), 50):
                data = bytearray(whole)
                data[at // 8] ^= 1 << at % 8
                with open(os.path.join(where, name), 'wb') as f:
                    f.write(data)
                lines, _ = self.client(url, 'get', 'a', self.path('b'))
                self.assertEqual(lines, ['miss'], (folder, at))
            with open(os.path.join(where, name), 'wb') as f:
                f.write(whole)
        self.assertEqual(self.client(url, 'get', 'a', self.path('b'))[0], ['hit'])

    def test_server_that_takes_nothing_still_gives(self):
        self.client(self.nginx.url('/readonly'), 'get', 'a', self.path('b'))
        e = self.path('e', b'xyz')
        self.client(self.nginx.url('/given'), 'put', 'a', e, write=1)
        os.rename(os.path.join(self.nginx.store, 'given'), os.path.join(self.nginx.store, 'readonly'))
        lines, said = self.client(self.nginx.url('/readonly'), *['put', 'a', e] * 5, 'get', 'a', self.path('b'), write=1)
        self.assertEqual(lines, ['not kept'] * 5 + ['hit'])
        self.assertRegex(said, r'cannot write: .*405')
        self.assertEqual(said.count('warning'), 1)

    def test_three_failures_and_no_more(self):
        before = len(self.nginx.requests())
        e = self.path('e', b'x' * 5000)
        self.fails_once('no room', self.nginx.url('/small'), *['put', 'a', e] * 6, write=1)
        self.assertEqual(len(self.nginx.requests()) - before, 3)

    # ---- credentials ----

    def test_password_in_the_url(self):
        url = self.nginx.url('/password', user='user:p%40ss%3Aw0rd@')
        self.there_and_back(url, secrets=['p@ss', 'p%40ss', 'w0rd'])
        wrong = self.nginx.url('/password', user='user:wr0ng@')
        said = self.fails_once('other credentials', wrong, 'get', 'a', self.path('b'), 'put', 'a', self.path('e', b'x'),
                               write=1, secrets=['wr0ng', 'user'])
        self.assertIn('//***@127.0.0.1', said)

    def test_netrc(self):
        netrc = self.path('netrc', b'machine other.example login a password b\n'
                          b'machine 127.0.0.1 login user password p@ss:w0rd\n')
        self.there_and_back(self.nginx.url('/password'), netrc=netrc, secrets=['p@ss'])
        self.fails_once('credentials', self.nginx.url('/password'), 'get', 'a', self.path('b'))

    def test_token(self):
        token = self.path('token', b't0ken.of-mine\n')
        self.there_and_back(self.nginx.url('/token/a'), token_file=token, secrets=['t0ken'])
        self.there_and_back(self.nginx.url('/token/b', tls=True), token='t0ken.of-mine', ca=self.nginx.ca,
                            secrets=['t0ken'])
        self.fails_once('other credentials', self.nginx.url('/token'), 'get', 'a', self.path('b'), token='wr0ng',
                        secrets=['wr0ng'])
        self.fails_once('holds none', self.nginx.url('/token'), 'get', 'a', self.path('b'),
                        token_file=self.path('nothing'))
        for bad in b'', b'\n', b'two words', b'a\x7f', b'x' * 20000:
            self.fails_once('holds none', self.nginx.url('/token'), 'get', 'a', self.path('b'),
                            token_file=self.path('bad', bad), secrets=['two words', 'xxxx'])

    def test_credentials_do_not_travel_open(self):
        for url, more in (('http://u:s3cret@cache.example/', {}), ('http://cache.example/', {'token': 's3cret'}),
                          ('http://u:s3cret@127.0.0.1.example/', {}), ('http://127.0.0.1@cache.example/', {}),
                          ('http://cache.example', {'token_file': self.path('t', b's3cret')})):
            _, said = self.client(url, code=2, secrets=['s3cret'], **more)
            self.assertIn('https:// only', said)

    def test_credentials_for_this_machine_take_no_proxy(self):
        hostile = Hostile()
        self.addCleanup(hostile.stop)
        proxy = {'http_proxy': hostile.url('good'), 'all_proxy': hostile.url('good')}
        self.there_and_back(self.nginx.url('/token/p'), token='t0ken.of-mine', env=proxy)
        self.assertEqual(hostile.heads, [])

    def test_wrong_urls(self):
        for url, why in (('', 'begins with'), ('ftp://a/', 'begins with'), ('file:///etc/passwd', 'begins with'),
                         ('127.0.0.1:80', 'begins with'), ('http://', 'no host'), ('http://u@/x', 'no host'),
                         ('http:///x', 'no host'), ('http://a/?x', 'query'), ('http://a/#x', 'query'),
                         ('http://a b/', 'escaped'), ('http://a\n/', 'escaped'), ('http://a\\@b/', 'escaped'),
                         ('https://s3cret%@h/', 'not escaped'), ('https://u:s3cret%0a@h/', 'not escaped'),
                         ('https://u:s3cret%g0@h/', 'not escaped'), ('unix:x', 'from the root'),
                         ('https://u%3Ax:s3cret@h/', 'not escaped')):
            _, said = self.client(url, code=2, secrets=['s3cret'])
            self.assertIn(why, said, url)
        _, said = self.client('https://u:s3cret@h/', code=2, token='t', secrets=['s3cret'])
        self.assertIn('same time', said)
        _, said = self.client('https://h/', code=2, token='a b')
        self.assertIn('control character', said)
        _, said = self.client('https://h/', code=5, ca='/nonexistent')
        self.assertIn('cannot read the certificates', said)

    # ---- TLS ----

    def test_tls(self):
        self.there_and_back(self.nginx.url('/tls', tls=True), ca=self.nginx.ca)
        for port, ca in ((self.nginx.tls, None), (self.nginx.wrong, self.nginx.other_ca), (self.nginx.tls, self.nginx.other_ca)):
            more = {'ca': ca} if ca else {}
            self.fails_once('certificate|SSL', f'https://127.0.0.1:{port}/tls', 'get', 'a', self.path('b'), 'put', 'a',
                            self.path('e', b'x'), write=1, token='s3cret', secrets=['s3cret'], **more)
        self.fails_once('SSL', f'https://127.0.0.1:{self.nginx.port}/', 'get', 'a', self.path('b'))


class AgainstBazelRemote(Client):
    """bazel-remote validates results in ac/ and answers only for entries whose blobs exist."""

    @classmethod
    def setUpClass(cls):
        program = shutil.which('bazel-remote') or cls.build()
        cls.server = BazelRemote(program, cls.enterClassContext(tempfile.TemporaryDirectory(prefix='ht')))
        cls.addClassCleanup(cls.server.stop)

    @staticmethod
    def build():
        program = os.path.join(BUILD, 'bazel-remote')
        if os.path.exists(program):
            return program
        if not shutil.which('go'):
            raise unittest.SkipTest('bazel-remote: neither it nor Go is installed')
        if os.environ.get('HALFTONE_OFFLINE') == '1':
            raise unittest.SkipTest('bazel-remote: not built, and HALFTONE_OFFLINE is set')
        r = subprocess.run(['go', 'build', '-o', program, 'github.com/buchgr/bazel-remote'], cwd=GO_MODULE,
                           env={**os.environ, 'GOFLAGS': '-mod=readonly'}, capture_output=True, text=True)
        if r.returncode:
            raise unittest.SkipTest('bazel-remote: Go cannot build it: ' + r.stderr.strip().split('\n')[-1])
        return program

    def url(self):
        return f'http://127.0.0.1:{self.server.port}'

    def test_there_and_back(self):
        self.there_and_back(self.url())

    def test_its_checks_are_on(self):
        sha = hashlib.sha256(b'some action').hexdigest()
        self.assertGreaterEqual(self.server.ask('PUT', '/cas/' + sha, b'other bytes')[0], 400)
        self.assertGreaterEqual(self.server.ask('PUT', '/ac/' + sha, b'no ActionResult')[0], 400)
        self.server.ask('PUT', '/ac/' + sha, action(b'a blob that is not there'))
        self.assertEqual(self.server.ask('GET', '/ac/' + sha)[0], 404)


class AgainstHostileServer(Client):
    def setUp(self):
        super().setUp()
        self.server = Hostile()
        self.addCleanup(self.server.stop)

    def gets(self, behaviour, n=5, total_ms=400, **more):
        lines, said = self.client(self.server.url(behaviour), *['get', 'a', self.path('b')] * n, connect_ms=max(300, total_ms),
                                  total_ms=total_ms, **more)
        return lines, said, self.server.requests.get(behaviour, 0)

    def test_it_can_be_good(self):
        for behaviour in 'good', 'unknown_fields':
            lines, said, _ = self.gets(behaviour, 2, total_ms=5000)
            self.assertEqual((lines, said), (['hit'] * 2, ''))
            self.assertEqual(self.read('b'), ENTRY)

    def test_misses(self):
        for behaviour in '404', '204', 'cas-404', 'cas-204', 'endless-404':
            lines, said, n = self.gets(behaviour, total_ms=5000)
            self.assertEqual((lines, said, n), (['miss'] * 5, '', 10 if behaviour[0] == 'c' else 5), behaviour)

    def test_lies(self):
        """Failures for which another attempt would not help: three requests for an answer, and then none."""
        for behaviour in ('cas-other-bytes', 'cas-short', 'cas-long', 'cas-long-chunked', 'cas-huge', 'cas-endless',
                          'huge', 'endless', 'endless-heads', 'partial', 'no-http', 'elsewhere', 'same-host',
                          'cas-elsewhere', '400', '401', '403', '418', 'cas-403', '409'):
            lines, said, n = self.gets(behaviour, total_ms=5000)
            self.assertEqual(lines, ['miss'] * 5, behaviour)
            self.assertEqual(said.count('warning'), 1, said)
            self.assertEqual(n, 6 if behaviour.startswith('cas-') else 3, behaviour)
            self.assertNotIn('secret', said)
        self.assertNotIn('good', self.server.requests)

    def test_garbage(self):
        for name in GARBAGE:
            lines, said, n = self.gets('garbage-' + name, total_ms=5000)
            self.assertEqual((lines, n), (['miss'] * 5, 3), name)
            self.assertEqual(said.count('warning'), 1, said)

    def test_broken_connections_and_5xx_are_tried_again(self):
        for behaviour in '500', '503', '507', 'reset', 'nothing', 'cas-truncated':
            lines, said, n = self.gets(behaviour, total_ms=5000)
            self.assertEqual((lines, n), (['miss'] * 5, 12 if behaviour[0] == 'c' else 9), behaviour)
            self.assertEqual(said.count('warning'), 1, said)
        lines, said, n = self.gets('flaky', 2, total_ms=5000)
        self.assertEqual((lines, said, n), (['hit'] * 2, '', 12))

    def test_slowness(self):
        for behaviour in 'hang', 'drip', 'drip-head', 'endless-continue', 'cas-hang', 'cas-drip':
            start = time.monotonic()
            lines, said, n = self.gets(behaviour)
            self.assertEqual(lines, ['miss'] * 5, behaviour)
            self.assertEqual(said.count('warning'), 1, said)
            self.assertLess(time.monotonic() - start, 60, behaviour)
        lines, said, n = self.gets('slow-404')
        self.assertEqual(lines, ['miss'] * 5)
        self.assertLess(n, 5)  # it gave up; the number depends on the machine
        self.assertIn('takes too long', said)
        self.assertEqual(self.gets('hang-once', 2, total_ms=2000)[0], ['miss', 'hit'])

    def test_nobody_there(self):
        for url in f'http://127.0.0.1:{free_port()}/', 'unix:' + self.path('s'), 'http://name.invalid/':
            lines, said = self.client(url, *['get', 'a', self.path('b'), 'put', 'a', self.path('e', b'x')] * 4, write=1,
                                      connect_ms=300, total_ms=400)
            self.assertEqual(lines, ['miss', 'not kept'] * 4)
            self.assertEqual(said.count('warning'), 1, said)

    def test_puts(self):
        e = self.path('e', bytes(3_000_000))
        for behaviour in '400', '403', '500', 'reset', 'hang', 'nothing', 'elsewhere', 'no-http', 'endless-heads':
            lines, said = self.client(self.server.url(behaviour), *['put', 'a', e] * 5, write=1, connect_ms=300,
                                      total_ms=400)
            self.assertEqual(lines, ['not kept'] * 5, behaviour)
            self.assertEqual(said.count('warning'), 1, said)

    def test_tls_connections_that_break(self):
        cert = certificate(self.dir, '127.0.0.1')
        server = Hostile(cert)
        self.addCleanup(server.stop)
        e = self.path('e', bytes(8_000_000))
        for behaviour in 'reset', 'nothing', 'cas-truncated', 'hang':
            lines, said = self.client(server.url(behaviour), *['put', 'a', e, 'get', 'a', self.path('b')], write=1,
                                      ca=cert[0], connect_ms=300, total_ms=400)
            self.assertEqual(lines, ['not kept', 'miss'], behaviour)
            self.assertEqual(said.count('warning'), 1, said)
        lines, said = self.client(server.url('good'), 'get', 'a', self.path('b'), ca=cert[0])
        self.assertEqual((lines, said), (['hit'], ''))

    def test_large_entries(self):
        self.assertEqual(self.gets('good', 1, total_ms=5000, max_bytes=len(ENTRY) - 1)[0], ['miss'])
        self.assertEqual(self.gets('good', 1, total_ms=5000, max_bytes=len(ENTRY))[0], ['hit'])
        e = self.path('e', b'12345')
        lines, said = self.client(self.server.url('201'), 'put', 'a', e, write=1, max_bytes=4)
        self.assertEqual((lines, said), (['not kept'], ''))
        self.assertNotIn('201', self.server.requests)


if __name__ == '__main__':
    unittest.main()
