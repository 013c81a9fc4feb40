#!/usr/bin/env python3
"""Progress of a compilation: one line on a terminal if it takes longer than a second, and nothing elsewhere."""
import os, subprocess, sys, unittest

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


def on_terminal(*arguments, term='xterm'):
    """The text that the tool writes to a terminal as its standard error."""
    ours, its = os.openpty()
    child = subprocess.Popen([environment.TOOL, *arguments], stdout=subprocess.DEVNULL, stderr=its, env={**os.environ, 'TERM': term})
    os.close(its)
    text = b''
    try:
        while more := os.read(ours, 65536):
            text += more
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

    def test_not_shown(self):
        graph = self.path('one.hir', many_kernels(1).encode())
        for arguments, term in (['-q'], 'xterm'), ([], 'dumb'):
            self.assertEqual(on_terminal('compile', '--target', 'x86-64', *arguments, graph, term=term), (0, ''))
        r = subprocess.run([environment.TOOL, 'compile', '--target', 'x86-64', graph], capture_output=True, text=True, check=True)
        self.assertEqual(r.stderr, '')


if __name__ == '__main__':
    unittest.main()
