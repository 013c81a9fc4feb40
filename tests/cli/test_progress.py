#!/usr/bin/env python3
"""Progress on a terminal: one line of a compilation if it takes longer than a second, and nothing elsewhere; one line of a training."""
import os, re, signal, subprocess, sys, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment
from case import FolderCase


def many_kernels(n):
    """A chain of n matrix products of different sizes, each with a kernel of its own."""
    lines = ['hir 1', 'entry "" {', '  input "x" = %x', f'  output "y" = %m{n - 1}', '}', '%x = Placeholder() {dtype=f32, shape=shape[3,64]}']
    for i in range(n):
        lines += [f'%w{i} = Const() {{dtype=f32, value=tensor f32[{64 + i},{65 + i}] values 1 {{0.5 ...}}}}',
                  f'%m{i} = MatMul(%{f"m{i - 1}" if i else "x"}, %w{i}) {{T=f32, transpose_a=false, transpose_b=false}}']
    return '\n'.join(lines) + '\n'


def on_terminal(*arguments, term='xterm', until=None):
    """The exit status, and the text that the tool writes to a terminal as its standard error.  The tool gets SIGTERM when the text matches `until`."""
    ours, its = os.openpty()
    child = subprocess.Popen([environment.TOOL, *arguments], stdout=subprocess.DEVNULL, stderr=its, env={**os.environ, 'TERM': term})
    os.close(its)
    text = b''
    try:
        while more := os.read(ours, 65536):
            text += more
            if until and re.search(until, text.decode(errors='ignore')):
                until = child.send_signal(signal.SIGTERM)
    except OSError:  # the last process has closed the terminal
        pass
    os.close(ours)
    return child.wait(), text.decode()


class Progress(FolderCase):
    def test_shown(self):
        graph = self.path('many.hir', many_kernels(400).encode())
        status, text = on_terminal('compile', '--target', 'x86-64-v3', graph)
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r'\r\x1b\[Kcompiling: code, \d+ of 400 kernels')
        self.assertTrue(text.endswith('\r\x1b[K'), text)

    def test_of_a_training(self):
        """Step, loss, scale, skipped steps, phase, speed and the time that is left."""
        data = []
        for name, columns in ('x', 4), ('y', 1):
            rows = b'\0\0\0\x3f' * 8 * columns
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (8, {columns})}}".ljust(117) + '\n'
            data += ['--data', f'{name}=@' + self.path(f'{name}.npy', b'\x93NUMPY\1\0' + len(header).to_bytes(2, 'little') + header.encode() + rows)]
        status, text = on_terminal('train', os.path.join(HERE, 'train.hir'), *data, '--loss', 'loss', '--train-op', 'train', '--feed', 'rate=0.01', '--batch', '8',
                                   '--steps', '10000000', '--loss-scale', 'fixed:8', '--accelerate-train-mode', 'phases=fast1:9999999,original',
                                   until=r'\r\x1b\[Kstep \d+ of 10000000  loss \S+  scale 8  skipped 0  fast1  \S+ steps/s  \d+ s left ')
        self.assertEqual(status, -signal.SIGTERM, text)

    def test_not_shown(self):
        graph = self.path('one.hir', many_kernels(1).encode())
        for arguments, term in (['-q'], 'xterm'), ([], 'dumb'):
            self.assertEqual(on_terminal('compile', '--target', 'x86-64', *arguments, graph, term=term), (0, ''))
        r = subprocess.run([environment.TOOL, 'compile', '--target', 'x86-64', graph], capture_output=True, text=True, check=True)
        self.assertEqual(r.stderr, '')


if __name__ == '__main__':
    unittest.main()
