#!/usr/bin/env python3
"""The messages of run beside its result: notes that name all inputs in one line, and warnings if outputs are not
finite."""
import os, subprocess, unittest

from tool import TOOL, TOP, ToolCase, without_rates

LOG = b'''hir 1
entry "" {
  input "x" = %%x
  output "y" = %%y
  output "z" = %%z
}
%%x = Placeholder() {dtype=f32, shape=shape[1,4]}
%%c = Const() {dtype=f32, value=tensor f32[4] {%s}}
%%sum = AddV2(%%x, %%c) {T=f32}
%%y = Log(%%sum) {T=f32}
%%z = Exp(%%sum) {T=f32}
'''


def many(n, shape='?,2'):
    """The sum of n inputs."""
    names = ['in%d' % i for i in range(n)]
    lines = ['hir 1', 'entry "" {', *('  input "%s" = %%%s' % (i, i) for i in names), '  output "y" = %y', '}',
             *('%%%s = Placeholder() {dtype=f32, shape=shape[%s]}' % (i, shape) for i in names),
             '%%y = AddN(%s) {N=%d, T=f32}' % (', '.join('%' + i for i in names), n)]
    return '\n'.join(lines).encode() + b'\n'


class Notes(ToolCase):
    def lines(self, r, pattern):
        return [line for line in r.err.splitlines() if pattern in line]

    def test_one_line_for_all_inputs(self):
        named = ["'in0'", "'in1'", "'in2'"]
        for n in 1, 2, 3, 4, 9:
            model = self.path('many.hir', many(n))
            more = ' and %d more' % (n - 3) if n > 3 else ''
            s = 's' if n > 1 else ''
            r = self.tool('run', model)
            self.assertEqual(self.lines(r, 'is 1 here'),
                             [f'halftone: note: the open first dimension of input{s} {", ".join(named[:n])}{more} is 1 here; --batch states another'])
            shapes = ', '.join(i + ' float32[1,2]' for i in named[:n])
            self.assertEqual(self.lines(r, 'random'),
                             [f'halftone: note: input{s} {shapes}{more} {"are" if n > 1 else "is"} random, seed 1'])
            for args in ['explain', '--policy=force_fp16'], ['convert', '-o', self.path('o.hir'), '--policy=force_fp16']:
                self.assertEqual(len(self.lines(self.tool(*args, model), 'counts as one row')), 1, args)
        # Only inputs that are left open, and inputs that nothing feeds.
        r = self.tool('run', '--input', 'in0=f32[1,2]:1', '--input-shape', 'in1:1,2', '--seed=7', self.path('two.hir', many(2)))
        self.assertEqual(self.lines(r, 'is 1 here'), [])
        self.assertEqual(self.lines(r, 'random'), ["halftone: note: input 'in1' float32[1,2] is random, seed 7"])
        self.assertEqual(self.tool('run', '-q', self.path('two.hir')).err, '')

    def test_notes_of_the_demo_fit(self):
        model = os.path.relpath(os.path.join(TOP, 'examples/digits/model.pb'), TOP)
        for args, said in (['run'], 'is 1 here'), (['compile'], 'no target'), (['explain', '--policy=allow_mix_precision_bf16'], 'counts as one row'):
            r = subprocess.run([TOOL, *args, model], cwd=TOP, capture_output=True, text=True, check=True)
            self.assertIn(said, r.stderr)
            self.assertLessEqual(max(map(len, without_rates(r.stderr))), 100, r.stderr)

    def not_finite(self, *args):
        return [line.removeprefix('halftone: warning: ') for line in self.lines(self.tool('run', *args), 'warning: output')]

    def test_outputs_that_are_not_finite(self):
        log = self.path('log.hir', LOG % b'0.0, 0.0, 0.0, 0.0')
        self.assertEqual(self.not_finite(log, '--input', 'x=f32[1,4]:1,2,3,4'), [])
        some = ['--input', 'x=f32[1,4]:-1,0,1,200']
        self.assertEqual(self.not_finite(log, *some), ["output 'y' has 1 NaN and 1 infinite of 4 elements", "output 'z' has 1 infinite of 4 elements"])
        self.assertEqual(self.not_finite(log, *some, '-q'), [])
        self.assertEqual(self.not_finite(log, *some, '--outputs=z', '--format=json'), ["output 'z' has 1 infinite of 4 elements"])
        self.assertEqual(self.not_finite(log, *some, '--outputs=z', '-o', '-'), ["output 'z' has 1 infinite of 4 elements"])
        low = ['--policy=force_fp16', '--outputs=z', log, '--input', 'x=f32[1,4]:-1,0,1,20']
        said = ["output 'z' has 1 infinite of 4 elements"]
        self.assertEqual(self.not_finite(*low), [said[0] + '; --numerics tells where they come from'])
        self.assertEqual(self.not_finite(*low, '--numerics'), said)
        htx = self.path('log.htx')
        self.tool('compile', '-q', *low[:3], '-o', htx)
        self.assertEqual(self.not_finite(htx, *low[3:]), [said[0] + '; run MODEL --numerics tells where they come from'])

    def test_where_they_come_from_outside(self):
        log = self.path('log.hir', LOG % b'0.0, 0.0, 0.0, 0.0')
        for x in 'nan,1,2,3', 'inf,-1,-2,-3':
            self.assertEqual(self.not_finite(log, '--input', 'x=f32[1,4]:' + x), [])
        for c in b'inf', b'-inf', b'nan':
            odd = self.path('odd.hir', LOG % (c + b', 0.0, 0.0, 0.0'))
            self.assertEqual(self.not_finite(odd, '--input', 'x=f32[1,4]:-1,-1,-1,-1'), [])
        # A constant that no output needs causes no message.
        unused = self.path('unused.hir', LOG % b'0.0, 0.0, 0.0, 0.0' + b'%u = Const() {dtype=f32, value=tensor f32[] {inf}}\n')
        self.assertEqual(self.not_finite(unused, '--outputs=y', '--input', 'x=f32[1,4]:-1,1,1,1'), ["output 'y' has 1 NaN of 4 elements"])


if __name__ == '__main__':
    unittest.main()
