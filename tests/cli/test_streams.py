#!/usr/bin/env python3
"""Streams and signals: outputs are complete, or there are none."""
import errno, os, random, signal, subprocess, time, unittest

from tool import SMALL, TOOL, ToolCase
import hostile, processor_time

PRODUCT = b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[4096,4096]}
%a = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=false}
%y = MatMul(%a, %x) {T=f32, transpose_a=false, transpose_b=false}
'''

class Streams(ToolCase):
    def test_full_disk(self):
        with open('/dev/full', 'w') as full:
            for args in (['inspect', SMALL], ['run', SMALL], ['run', '-o', '-', SMALL], ['opt', SMALL], ['ops'], ['help'],
                         ['convert', '-o', '-', SMALL]):
                self.assertIn('error', self.tool(*args, out=full, code=5).err, args)

    def test_unwritable(self):
        self.fails(5, 'cannot write', 'run', '-o', '/nowhere/at/all/y.npz', SMALL)
        self.fails(5, 'cannot write', 'convert', '-o', '/nowhere/at/all/y.pb', SMALL)

    def test_refused_before_anything_is_written(self):
        old = self.path('old.npz', b'old')
        self.tool('run', '--input', 'x=@' + self.path('absent.npy'), '-o', old, SMALL, code=5)
        with open(old, 'rb') as f:
            self.assertEqual(f.read(), b'old')
        self.assertEqual(os.listdir(self.dir), ['old.npz'])

    def test_closed_streams(self):
        def closed(*args, fd=1):
            return subprocess.run([TOOL, *args], stderr=subprocess.PIPE if fd != 2 else None, preexec_fn=lambda: os.close(fd))
        for args in (['inspect', SMALL], ['ops'], ['run', SMALL], ['convert', '-o', '-', SMALL]):
            r = closed(*args)
            self.assertEqual(r.returncode, 5, args)
            self.assertIn(b'cannot write', r.stderr)
        # A file that is opened meanwhile does not take the place of the closed stream.
        closed('run', '-o', self.path('y.npz'), SMALL)
        self.assertEqual(list(self.outputs(self.path('y.npz'))), ['y.npy', 'top.npy'])
        self.assertEqual(closed('convert', '-o', self.path('c.pb'), SMALL, fd=2).returncode, 0)

    def test_reader_goes_away(self):
        p = subprocess.Popen([TOOL, 'compile', '--emit=llvm', SMALL], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        p.stdout.close()
        self.assertEqual(p.wait(20), -signal.SIGPIPE)

    def test_colour(self):
        bad = ['run', '--threads=0', SMALL]
        self.assertNotIn('\033', self.fails(2, 'error: --threads', *bad).err)
        self.assertIn('\033[1;31merror: \033[0m', self.fails(2, 'threads', *bad, '--color=always').err)
        self.assertIn('\033', self.tool('run', '--color=always', SMALL, env={'NO_COLOR': '1'}).err)
        self.fails(2, 'not auto, always or never', 'run', '--color=blue', SMALL)

        def written_to(terminal):
            data = b''
            try:
                while part := terminal.read(4096):
                    data += part
            except OSError as e:  # how Linux reports the end of what a terminal has
                self.assertEqual(e.errno, errno.EIO)
            return data

        def on_terminal(**env):
            import pty
            ours, theirs = pty.openpty()
            subprocess.run([TOOL, *bad], stderr=theirs, env={**os.environ, 'NO_COLOR': '', 'TERM': 'xterm', **env})
            os.close(theirs)
            with os.fdopen(ours, 'rb', buffering=0) as f:
                return b'\033' in written_to(f)
        self.assertTrue(on_terminal())
        self.assertFalse(on_terminal(NO_COLOR='1'))
        self.assertFalse(on_terminal(TERM='dumb'))

    def test_messages_in_order(self):
        r = self.fails(2, '2 outputs', 'run', '-o', self.path('two.npy'), SMALL)
        self.assertLess(r.err.index('is 1 here'), r.err.index('2 outputs'))

    def test_signals_leave_nothing(self):
        model = self.path('m.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                          b'%x = Placeholder() {dtype=f32, shape=shape[4000000]}\n'
                          b'%w = Const() {dtype=f32, value=tensor f32[4000000] {1.5 ...}}\n%y = AddV2(%x, %w) {T=f32}\n')
        out = self.path('out')
        os.mkdir(out)
        commands = (['convert', '-o', out + '/c.pb'], ['opt', '-o', out + '/o.hir'], ['run', '-o', out + '/y.npz'],
                    ['compile', '--emit=obj', '-o', out + '/k.a'], ['compile', '--emit=hir', '-o', out + '/h.hir'], ['bench'])
        whole = {'c.pb', 'o.hir', 'o.weights', 'y.npz', 'k.a', 'h.hir', 'h.weights'}
        moments = random.Random(7)
        for i in range(60):
            s = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[i % 3]
            p = subprocess.Popen([TOOL, *commands[i % 6], model], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0, 0.12))
            p.send_signal(s)
            self.assertIn(p.wait(60), (-s, 0))
            left = set(os.listdir(out))
            self.assertEqual(left - whole, set(), commands[i % 6])
            for f in left:
                os.unlink(os.path.join(out, f))

    def test_interrupt_leaves_nothing(self):
        for wait in (0.001, 0.01, 0.03, 0.06):
            p = subprocess.Popen([TOOL, 'bench', '--duration=60', SMALL], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.dir)
            time.sleep(wait)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(20), -signal.SIGINT)
            self.assertEqual(os.listdir(self.dir), [])

    def test_interrupt_ends_soon(self):
        """Ctrl-C during the import, the passes, lowering, code generation or a kernel soon ends the tool."""
        large, many, product = self.path('large.pb'), self.path('many.pb'), self.path('product.hir')
        hostile.write('chain_add', 60000, large)
        hostile.write('chain_add', 8000, many)
        self.path('product.hir', PRODUCT)
        for args in (['inspect', large], ['compile', many, '--no-cache', '-o', self.path('m.htx')], ['run', product]):
            command = [TOOL, *args]
            before, begin = processor_time.of_children(), time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            whole, lasts = processor_time.of_children() - before, time.perf_counter() - begin
            for part in .1, .3, .6:
                with self.subTest(args[0], part=part):
                    before = processor_time.of_children()
                    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    time.sleep(part * lasts)
                    until = processor_time.of(p.pid)
                    p.send_signal(signal.SIGINT)
                    self.assertIn(p.wait(60), (-signal.SIGINT, 0))
                    self.assertLess(processor_time.of_children() - before - until, max(whole / 4, .2))

    def test_light_verbs_do_not_load_llvm(self):
        for args in (['version'], ['help'], ['inspect', SMALL], ['explain', '--policy=fp16', SMALL], ['ops']):
            r = subprocess.run([TOOL, *args], capture_output=True, env={**os.environ, 'LD_DEBUG': 'files'})
            self.assertNotIn(b'LLVM', r.stderr.replace(b'HALFTONE_LLVM', b''), args)



if __name__ == '__main__':
    unittest.main()
