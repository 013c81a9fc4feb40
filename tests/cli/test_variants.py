#!/usr/bin/env python3
"""Compiling an artefact of many variants takes the memory of one, and leaves no other files."""
import os, resource, signal, subprocess, time, unittest

from tool import TOOL, ToolCase, floats, npy

POLICIES = 'must_keep_origin_dtype', 'allow_mix_precision_bf16', 'force_fp16'
TARGETS = 'x86-64-v3', 'x86-64-v4'
N, LAYERS = 1792, 3
WEIGHTS = 4 * N * N * LAYERS  # bytes, as float32
STEP = 8 << 20


class Variants(ToolCase):
    def setUp(self):
        super().setUp()
        self.out = os.path.join(self.dir, 'out')
        os.mkdir(self.out)
        self.htx = os.path.join(self.out, 'm.htx')
        numbers = [', '.join(f'{(i * 7919 + l) % 1009 - 504}.0' for i in range(2 * N)) for l in range(LAYERS)]
        text = ['hir 1', 'entry "" {', '  input "x" = %y0', f'  output "y" = %y{LAYERS}', '}', '',
                f'%y0 = Placeholder() {{dtype=f32, shape=shape[?,{N}]}}']
        for l in range(LAYERS):
            text += [f'%w{l} = Const() {{dtype=f32, value=tensor f32[{N},{N}] {{{numbers[l]} ...}}}}',
                     f'%y{l + 1} = MatMul(%y{l}, %w{l}) {{T=f32, transpose_a=false, transpose_b=false}}']
        self.model = self.path('m.hir', '\n'.join(text + ['']).encode())

    def command(self, policies=POLICIES, targets=TARGETS, to=None, more=()):
        return [TOOL, 'compile', '-q', self.model, '--batch', '1', '--policy', ','.join(policies),
                '--target', ','.join(targets), '-o', to or self.htx, *more]

    def compile(self, policies=POLICIES, targets=TARGETS, limit=(), to=None, more=(), ignore=False):
        def limits():
            for what, n in limit:
                resource.setrlimit(what, (n, n))
        return subprocess.run(self.command(policies, targets, to, more), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, preexec_fn=limits, restore_signals=not ignore,
                              env={**os.environ, 'HALFTONE_POLICY': '', 'TMPDIR': self.out})

    def assert_memory_is_that_of_the_largest(self, *more):
        limit = WEIGHTS
        for policy in POLICIES:
            for target in TARGETS:
                while self.compile([policy], [target], [(resource.RLIMIT_DATA, limit)], more=more).returncode:
                    limit += STEP
                    self.assertLess(limit, 20 * WEIGHTS)
        r = self.compile(limit=[(resource.RLIMIT_DATA, limit + 2 * STEP)], more=more)
        self.assertEqual(r.returncode, 0, (limit, r.stderr))
        return limit

    @unittest.skipIf(os.environ.get('HALFTONE_SANITIZE'), 'a sanitizer has memory of its own')
    def test_memory_is_that_of_the_largest(self):
        self.assert_memory_is_that_of_the_largest()

    @unittest.skipIf(os.environ.get('HALFTONE_SANITIZE'), 'a sanitizer has memory of its own')
    def test_memory_of_hits(self):
        """Entries in a directory shared with other hosts are read to memory, and are spilled like compiled
        variants."""
        cache = ['--cache-mode', 'rw', '--cache-shared', '--cache-dir', os.path.join(self.dir, 'cache')]
        self.assertEqual(self.compile(more=cache).returncode, 0)
        with open(self.htx, 'rb') as f:
            want = f.read()
        self.assertGreater(self.assert_memory_is_that_of_the_largest(*cache, '--error-on-cache-miss'), WEIGHTS)
        with open(self.htx, 'rb') as f:
            self.assertEqual(f.read(), want)

    def test_what_it_is(self):
        """Each variant equals the one that is compiled alone, whether the artefact is a file or a stream."""
        self.assertEqual(self.compile().returncode, 0)
        x = self.path('x.npy', npy('<f4', (1, N), floats(*[.5, -1, 2, .25] * (N // 4))))
        for policy in POLICIES:
            alone = os.path.join(self.dir, 'alone.htx')
            self.assertEqual(self.compile([policy], TARGETS[:1], to=alone).returncode, 0)
            files = []
            for path in self.htx, alone:
                files.append(os.path.join(self.dir, f'{len(files)}.npz'))
                self.tool('run', '-q', path, '--verify', 'full', '--policy', policy, '--target', TARGETS[0],
                          '--input', 'x=@' + x, '-o', files[-1])
            with open(files[0], 'rb') as a, open(files[1], 'rb') as b:
                self.assertEqual(a.read(), b.read(), policy)
        with open(self.htx, 'rb') as f:
            self.assertEqual(self.compile(to='-').stdout, f.read())
        self.assertEqual(os.listdir(self.out), ['m.htx'])

    def test_no_room(self):
        """A file size limit simulates a full disk: it is reached while the first variants are spilled, or when
        the artefact is written."""
        for limit in 4096, WEIGHTS // 2, WEIGHTS + (WEIGHTS >> 2):
            r = self.compile(limit=[(resource.RLIMIT_FSIZE, limit)], ignore=True)
            self.assertEqual(r.returncode, 5, r.stderr)
            self.assertIn(b'm.htx: error: cannot write: File too large', r.stderr)
            self.assertEqual(os.listdir(self.out), [])
        r = self.compile(to=os.path.join(self.out, 'no', 'm.htx'))
        self.assertEqual(r.returncode, 5)
        self.assertIn(b'No such file', r.stderr)

    def spills(self):
        """A process that has spilled something; one that did so and ended before this saw it is started again."""
        for _ in range(20):
            p = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while p.poll() is None:
                if any('(deleted)' in self.link(p.pid, fd) for fd in self.fds(p.pid)):
                    return p
                time.sleep(.002)
            for f in os.listdir(self.out):
                os.unlink(os.path.join(self.out, f))
        self.fail('nothing is spilled')

    def test_killed(self):
        for delay in range(6):
            p = self.spills()
            time.sleep(delay * .01)
            p.send_signal(signal.SIGKILL)
            p.wait()
            self.assertEqual([f for f in os.listdir(self.out) if not f.startswith('m.htx')], [])

    def fds(self, pid):
        try:
            return os.listdir(f'/proc/{pid}/fd')
        except OSError:
            return []

    def link(self, pid, fd):
        try:
            return os.readlink(f'/proc/{pid}/fd/{fd}')
        except OSError:
            return ''


if __name__ == '__main__':
    unittest.main()
