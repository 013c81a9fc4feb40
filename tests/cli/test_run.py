#!/usr/bin/env python3
"""halftone run: results, comparisons, NumPy files."""
import json, struct, unittest, zipfile

from tool import SMALL, TYPES, ToolCase, floats, npy, read_npy


class Run(ToolCase):
    def test_result(self):
        out = self.path('y.npz')
        r = self.tool('run', '--input', 'x=@' + self.x(1, 2, 3, 4), '-o', out, SMALL)
        y = self.outputs(out)
        self.assertEqual(list(y), ['y.npy', 'top.npy'])
        self.assertEqual(y['y.npy'], ('<f4', (1, 3), [6.5, 5.375, 4.75]))
        self.assertEqual(y['top.npy'], ('<i8', (1,), [0]))
        self.assertIn(b'y  float32[1,3]', r.stdout)
        self.tool('run', '--input', 'x=@' + self.x(1, 2, 3, 4), '--outputs', 'y', '-o', self.path('y.npy'), SMALL)
        with open(self.path('y.npy'), 'rb') as f:
            self.assertEqual(read_npy(f.read())[2], [6.5, 5.375, 4.75])
        self.fails(2, '2 outputs', 'run', '-o', self.path('two.npy'), SMALL)

    def test_layouts_of_npy(self):
        want = self.tool('run', '--input', 'x=@' + self.x(1, 2, 3, 4, 5, 6, 7, 8), '--batch=2', '--format=json', SMALL).stdout
        fortran = self.path('f.npy', npy('<f4', (2, 4), floats(1, 5, 2, 6, 3, 7, 4, 8), fortran=True))
        second = self.path('v2.npy', npy('<f4', (2, 4), floats(1, 2, 3, 4, 5, 6, 7, 8), version=2))
        for p in (fortran, second):
            self.assertEqual(self.tool('run', '--input', 'x=@' + p, '--batch=2', '--format=json', SMALL).stdout, want)

    def test_standard_output(self):
        a = self.path('a.npz')
        self.tool('run', '-o', a, SMALL)
        with open(a, 'rb') as f:
            self.assertEqual(self.tool('run', '-o', '-', SMALL).stdout, f.read())

    def test_random_inputs(self):
        r = self.tool('run', SMALL)
        self.assertRegex(r.err, r"input 'x' float32\[1,4\] is random, seed 1")
        self.assertEqual(self.tool('run', '--seed', '1', SMALL).stdout, r.stdout)
        self.assertNotEqual(self.tool('run', '--seed', '2', SMALL).stdout, r.stdout)
        self.assertEqual(self.tool('run', '--quiet', SMALL).err, '')

    def test_threads_give_the_same_bytes(self):
        want = self.tool('run', '-o', '-', '--batch', '64', SMALL).stdout
        for threads in '2', '3', '5':
            self.assertEqual(self.tool('run', '-o', '-', '--batch', '64', '--threads', threads, SMALL).stdout, want)

    def test_expect(self):
        ref, x = self.path('ref.npz'), 'x=@' + self.x(1, 2, 3, 4)
        self.tool('run', '--input', x, '-o', ref, SMALL)
        r = self.tool('run', '--input', x, '--expect', ref, SMALL)
        self.assertIn(b'ok', r.stdout)
        other = 'x=@' + self.x(1, 2, 3, 4.01, name='o.npy')
        r = self.tool('run', '--input', other, '--expect', ref, SMALL, code=1)
        self.assertIn(b'FAILED', r.stdout)
        self.tool('run', '--input', other, '--expect', ref, '--tol', '0.1', SMALL)
        self.tool('run', '--input', other, '--expect', ref, '--tol', 'y:0.1', SMALL)
        r = self.tool('run', '--input', other, '--expect', ref, '--tol=y:1e-9', '--format=json', SMALL, code=1)
        verdict = {v['output']: v for v in json.loads(r.stdout)['expect']}
        self.assertFalse(verdict['y']['ok'])
        self.assertTrue(verdict['top']['ok'])
        self.assertFalse(json.loads(r.stdout)['ok'])
        self.fails(2, "no output 'z'", 'run', '--expect', ref, '--tol', 'z:1', SMALL)
        self.fails(2, 'NUMBER', 'run', '--expect', ref, '--tol', 'much', SMALL)
        self.fails(3, 'another shape', 'run', '--expect', ref, '--batch', '2', SMALL)
        with zipfile.ZipFile(ref, 'w') as f:
            f.writestr('y.npy', npy('<f4', (1, 3), floats(float('nan'), 0, 0)))
        self.fails(3, "no member 'top'", 'run', '--expect', ref, SMALL)
        with zipfile.ZipFile(ref, 'w') as f:
            f.writestr('y.npy', npy('<f4', (1, 3), floats(float('nan'), 5.375, 4.75)))
        r = self.tool('run', '--input', x, '--outputs=y', '--expect', ref, '--format=json', SMALL, code=1)
        self.assertEqual(json.loads(r.stdout)['expect'][0]['error'], 'inf')

    def test_bfloat16(self):
        one = struct.pack('<3H', 0x3f80, 0x4000, 0xc040)  # 1, 2, -3
        ones = self.path('i.npy', npy('<i4', (3,), struct.pack('<3i', 1, 2, -2)))
        for descr in ('<u2', '|V2'):
            b = self.path('b.npy', npy(descr, (3,), one))
            out = self.path('o.npz')
            self.tool('run', '--input', 'b=@' + b, '--input', 'i=@' + ones, '-o', out, TYPES)
            y = self.outputs(out)
            self.assertEqual(y['b2.npy'], ('<u2', (3,), [0x4000, 0x4080, 0xc0c0]))
            self.assertEqual(json.loads(y['b2.dtype.json']), {'dtype': 'bfloat16'})
            self.assertEqual(y['q.npy'][2], [7, 3, -4])
            self.tool('run', '--input', 'b=@' + b, '--input', 'i=@' + ones, '-o', out, '--widen', TYPES)
            self.assertEqual(self.outputs(out)['b2.npy'], ('<f4', (3,), [2, 4, -6]))



if __name__ == '__main__':
    unittest.main()
