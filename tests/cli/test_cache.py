#!/usr/bin/env python3
"""The compile cache through the command line: nothing is compiled twice; the verbs; foreign files in the directory."""
import json, os, shutil, subprocess, time, unittest

from cached import MODEL, Cached
from tool import SMALL, TOOL


class Hits(Cached):
    def test_a_second_compilation_needs_no_code_generator(self):
        first = self.compile()
        self.assertEqual(self.compile(env={'HALFTONE_BACKEND': '/nonexistent'}), first)
        self.assertEqual(self.compile('--no-cache'), first)
        self.fails(5, 'code generator', 'run', '-q', self.model, env={'HALFTONE_BACKEND': '/nonexistent', 'HALFTONE_CACHE_MODE': 'off'})
        want = self.tool('run', '-q', self.model, '--no-cache').stdout
        self.assertEqual(self.tool('run', '-q', self.model, env={'HALFTONE_BACKEND': '/nonexistent'}).stdout, want)
        self.tool('bench', '-q', self.model, '--runs', '1', '--duration', '0', env={'HALFTONE_BACKEND': '/nonexistent'})

    def test_the_code_generator_is_not_mapped(self):
        """No memory of the process is both writable and executable."""
        self.compile()
        fifo = os.path.join(self.dir, 'fifo')
        os.mkfifo(fifo)
        for extra, mapped in ([], False), (['--no-cache'], True):
            p = subprocess.Popen([TOOL, 'compile', '-q', self.model, '--target', 'x86-64-v3', '-o', fifo, *extra],
                                 stdout=subprocess.DEVNULL, env={**os.environ, 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_CACHE_MODE': ''})
            self.addCleanup(p.kill)
            # The process waits for a reader before it writes what it has compiled.
            for _ in range(600):
                with open(f'/proc/{p.pid}/wchan') as f:
                    waits = 'fifo' in f.read()
                with open(f'/proc/{p.pid}/maps') as f:
                    maps = f.read()
                if waits or ('halftone-backend' in maps and mapped):
                    break
                time.sleep(0.05)
            self.assertEqual('halftone-backend' in maps, mapped, extra)
            self.assertNotRegex(maps, r' .?wx')
            with open(fifo, 'rb') as f:
                self.assertTrue(f.read())
            self.assertEqual(p.wait(), 0)

    def test_messages_are_said_again(self):
        args = [SMALL, '--policy=force_fp16', '--ac_parallel_enable=1']
        out = os.path.join(self.dir, 'o.htx')
        first = self.tool('compile', *args, '-o', out).err
        self.assertIn('ac_parallel_enable', first)
        self.assertEqual(self.tool('compile', *args, '-o', out).err, first)
        moved = shutil.copy(SMALL, os.path.join(self.dir, 'moved.hir'))
        self.assertEqual(self.tool('compile', moved, *args[1:], '-o', out).err, first.replace(SMALL, moved))
        self.assertEqual(self.stats()['graph_hits'], 2)

    def test_error_on_a_miss(self):
        self.fails(1, 'no graph', 'compile', '-q', self.model, '--error-on-cache-miss')
        self.compile()
        self.assertTrue(self.compile('--error-on-cache-miss'))
        self.fails(1, "option-oo_level is 'O1'", 'compile', '-q', self.model, '--error-on-cache-miss', '--oo_level', 'O1')


class Verbs(Cached):
    def entries(self, kind):
        top = os.path.join(self.cache, 'v1', kind)
        return [os.path.join(d, n) for d, _, names in os.walk(top) for n in names]

    def test_why_miss_names_the_first_part_that_differs(self):
        self.fails_with_miss('the cache has no graph')
        self.compile()
        self.assertRegex(self.tool('cache', 'why-miss', self.model).stdout.decode(), '^hit: [0-9a-f]{32}\n$')
        self.fails_with_miss("target is 'x86-64', in the nearest entry 'x86-64-v3'", '--target', 'x86-64')
        self.fails_with_miss("option-policy is 'force_fp16'", '--policy', 'force_fp16')
        self.fails_with_miss('^miss: model is ', model=self.path('o.hir', MODEL.replace('2.0', '3.0').encode()))
        r = self.tool('cache', 'why-miss', self.model, '--oo_level', 'O0', '--format', 'json', code=1)
        self.assertEqual(json.loads(r.stdout)['part'], 'option-oo_level')

    def fails_with_miss(self, pattern, *args, model=None):
        r = self.tool('cache', 'why-miss', '-q', model or self.model, *args, code=1)
        self.assertRegex(r.stdout.decode(), pattern)

    def test_key_path_pin(self):
        self.compile()
        key = self.tool('cache', 'key', self.model).stdout.decode().strip()
        path = self.tool('cache', 'path', key[:12]).stdout.decode().strip()
        self.assertEqual(self.entries('graph'), [path])
        self.assertEqual(self.tool('cache', 'path').stdout.decode().strip(), self.cache)
        kernels = self.tool('cache', 'key', '--kernels', self.model).stdout.decode().split()
        self.assertEqual(len(set(kernels)), len(self.entries('kernel')))
        self.tool('cache', 'pin', key)
        self.tool('cache', 'clear')
        self.assertEqual((len(self.entries('graph')), len(self.entries('kernel'))), (1, 0))
        self.tool('cache', 'pin', key, '--unpin')
        self.tool('cache', 'clear')
        self.assertEqual(len(self.entries('graph')), 0)
        self.fails(2, '0 entries', 'cache', 'pin', 'f' * 32)

    def test_verify_finds_damage(self):
        self.compile()
        self.assertIn('0 of 0 bytes', self.tool('cache', 'verify').stdout.decode())
        victim = self.entries('kernel')[0]
        with open(victim, 'r+b') as f:
            f.seek(200)
            byte = f.read(1)
            f.seek(200)
            f.write(bytes([byte[0] ^ 4]))
        r = self.tool('cache', 'verify', code=1)
        self.assertIn('damaged', r.err)
        self.assertFalse(os.path.exists(victim))
        self.tool('cache', 'verify')

    def test_verify_leaves_other_versions_alone(self):
        """Versions have separate entries, since the version is part of the key."""
        first = self.compile()
        victim = self.entries('kernel')[0]
        with open(victim, 'r+b') as f:
            self.assertIn(b'\nentry 1\n2\n', f.read())
            f.seek(8)
            f.write(bytes([3]))
        kept = os.path.join(self.dir, 'kept')
        os.rename(victim, kept)
        self.assertEqual(self.compile(), first)
        victim = os.path.join(os.path.dirname(victim), '0' * 30)
        shutil.copy(kept, victim)
        n = json.loads(self.tool('cache', 'verify', '--format', 'json').stdout)
        self.assertEqual((n['foreign'], n['removed']), (1, 0))
        self.assertIn('1 of those that are left are foreign', self.tool('cache', 'verify').stdout.decode())
        self.tool('cache', 'export', os.path.join(self.dir, 'all'))
        self.fails(3, 'it is of another version', 'cache', 'import', kept)
        self.assertTrue(os.path.exists(victim))
        self.tool('cache', 'clear')
        self.assertFalse(os.path.exists(victim))

    def test_verify_leaves_what_cannot_be_read(self):
        self.compile()
        victim = self.entries('kernel')[0]
        os.unlink(victim)
        os.mkdir(victim)
        self.assertIn('cannot be read', self.tool('cache', 'verify', code=1).err)
        self.assertTrue(os.path.exists(victim))

    def test_read_only(self):
        self.compile()
        victim = self.entries('kernel')[0]
        with open(victim, 'ab') as f:
            f.write(b'x')
        self.assertIn('it cannot be removed', self.tool('cache', 'verify', '--cache-mode', 'ro', code=1).err)
        self.fails(5, 'it is read only', 'cache', 'clear', '--cache-mode', 'ro')
        key = self.tool('cache', 'key', self.model).stdout.decode().strip()
        self.fails(5, 'the entry cannot be pinned: the cache is read only', 'cache', 'pin', key, '--cache-mode', 'ro')
        before = self.stats()
        self.fails(5, 'cannot be reset: it is read only', 'cache', 'stats', '--reset', '--cache-mode', 'ro')
        self.assertEqual((self.stats()['puts'], before['pinned']), (before['puts'], 0))
        self.assertTrue(os.path.exists(victim))
        self.tool('cache', 'verify', code=1)
        self.assertFalse(os.path.exists(victim))

    def test_damage_is_a_miss_and_a_warning(self):
        first = self.compile()
        for kind in 'graph', 'reads':
            with open(self.entries(kind)[0], 'r+b') as f:
                f.seek(120)
                f.write(b'\xff\x00\xff')
            out = os.path.join(self.dir, 'o.htx')
            r = self.tool('compile', self.model, '-o', out)
            self.assertIn('damaged', r.err)
            with open(out, 'rb') as f:
                self.assertEqual(f.read(), first)

    def test_export_and_import(self):
        first = self.compile()
        archive = os.path.join(self.dir, 'all')
        self.tool('cache', 'export', archive)
        self.tool('cache', 'clear')
        self.tool('cache', 'import', archive)
        self.assertEqual(self.compile('--error-on-cache-miss'), first)
        again = os.path.join(self.dir, 'again')
        self.tool('cache', 'export', again)
        with open(archive, 'rb') as a, open(again, 'rb') as b:
            data = a.read()
            self.assertEqual(data, b.read())
        bad = self.path('bad', data[:300] + b'\0' + data[301:])
        self.fails(3, 'byte 0', 'cache', 'import', bad)
        self.fails(3, 'no entry', 'cache', 'import', SMALL)

    def test_gc_and_stats(self):
        self.compile()
        self.compile('--policy', 'force_fp16')
        s = self.stats()
        self.assertEqual((s['graphs'], s['graph_misses'], s['graph_hits']), (2, 2, 0))
        self.tool('cache', 'gc', '--max-size', str(s['bytes'] // 2))
        after = self.stats()
        self.assertLessEqual(after['bytes'], s['bytes'] // 2)
        self.assertGreater(after['evicted'], 0)
        self.fails(2, 'max-size', 'cache', 'gc')
        self.tool('cache', 'stats', '--reset')
        self.assertEqual(self.stats()['graph_misses'], 0)

    def test_usage(self):
        self.fails(2, 'did you mean stats', 'cache', 'stat')
        self.fails(2, 'needs MODEL', 'cache', 'why-miss')
        self.fails(2, 'takes no argument', 'cache', 'clear', 'x')
        self.fails(2, 'is not off, ro or rw', 'compile', self.model, '--cache-mode', 'x')
        self.fails(2, 'is off', 'cache', 'stats', '--no-cache')
        self.fails(2, 'is no size', 'compile', self.model, '--max-size', '5Q')


class Others(Cached):
    def test_a_directory_that_others_write_to(self):
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o777)
        self.fails(5, 'others may write', 'compile', '-q', self.model)
        self.assertTrue(self.compile('--cache-shared'))
        self.assertTrue(self.compile('--no-cache'))

    def test_those_who_share_may_all_write(self):
        """Entries, indices and locks have the right permissions whatever the umask is."""
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o2777)
        args = ['--graph_compiler_cache_dir', self.cache, '--graph_key', 'net', '--cache-shared']
        old = os.umask(0o077)
        try:
            self.compile(*args)
        finally:
            os.umask(old)
        for d, folders, files in os.walk(self.cache):
            for n in folders:
                self.assertEqual(os.stat(os.path.join(d, n)).st_mode & 0o2777, 0o2777, n)
            for n in files:
                self.assertEqual(os.stat(os.path.join(d, n)).st_mode & 0o777, 0o666, n)
        self.assertIn('net.lock', os.listdir(self.cache))

    def test_a_place_that_cannot_be_written_to_costs_a_warning(self):
        first = self.compile('--no-cache')
        for place in '/proc/halftone', '/dev/null/halftone':
            r = self.tool('compile', self.model, '-o', os.path.join(self.dir, 'o.htx'), '--cache-dir', place)
            self.assertEqual(r.err.count('the cache cannot write'), 1, r.err)
            with open(os.path.join(self.dir, 'o.htx'), 'rb') as f:
                self.assertEqual(f.read(), first)

    def test_without_a_home(self):
        env = {'HALFTONE_CACHE_DIR': '', 'XDG_CACHE_HOME': '', 'HOME': ''}
        r = self.tool('compile', self.model, env=env)
        self.assertIn('there is no cache', r.err)
        home = os.path.join(self.dir, 'home')
        self.tool('compile', '-q', self.model, env={**env, 'HOME': home})
        self.assertTrue(os.path.isdir(os.path.join(home, '.cache', 'halftone', 'v1', 'graph')))

    def test_many_at_once(self):
        want = {p: self.compile('--no-cache', '--policy', p) for p in ('force_fp32', 'force_fp16', 'allow_mix_precision')}
        runs = []
        for i in range(12):
            policy = list(want)[i % 3]
            out = os.path.join(self.dir, f'{i}.htx')
            runs.append((policy, out, subprocess.Popen(
                [TOOL, 'compile', '-q', self.model, '--target', 'x86-64-v3', '--policy', policy, '-o', out], stdout=subprocess.DEVNULL,
                env={**os.environ, 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_CACHE_MODE': ''})))
        for policy, out, p in runs:
            self.assertEqual(p.wait(), 0)
            with open(out, 'rb') as f:
                self.assertEqual(f.read(), want[policy])
        s = self.stats()
        self.assertEqual(s['graph_hits'] + s['graph_misses'], 12)
        self.assertEqual(s['graphs'], 3)
        self.tool('cache', 'verify')


if __name__ == '__main__':
    unittest.main()
