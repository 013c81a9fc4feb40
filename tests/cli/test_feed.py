#!/usr/bin/env python3
"""Feeds: shapes that come from arrays, tensors in the middle of a graph, keys of signatures."""
import json, os, struct, unittest, zipfile

from tool import SMALL, ToolCase, floats, npy

# x -> y = x w -> parts of y -> z, and a second branch from u that only `sum` needs.
BRANCHES = b'''hir 1
entry "" {
  input "x" = %x
  input "serving_u" as "u" = %serving_u
  output "z" = %z
  output "Identity" as "total" = %sum
}
%x = Placeholder() {dtype=f32, shape=shape[?,4]}
%serving_u = Placeholder() {dtype=f32, shape=shape[?,?]}
%w = Const() {dtype=f32, value=tensor f32[4,4] {1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0}}
%y = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
%axis = Const() {dtype=i32, value=tensor i32[] {1}}
%parts = Split(%axis, %y) {T=f32, num_split=2}
%z = AddV2(%parts, %parts:1) {T=f32}
%twice = AddV2(%serving_u, %serving_u) {T=f32}
%sum = AddV2(%twice, %z) {T=f32}
%Assert/nothing = NoOp()
'''


class Feed(ToolCase):
    def setUp(self):
        super().setUp()
        self.model = self.path('branches.hir', BRANCHES)

    def run_json(self, *args, model=None):
        r = self.tool('run', '--format=json', *args, model or self.model)
        return {o['name']: o for o in json.loads(r.stdout)['outputs']}, r.err

    def values(self, *args, model=None, outputs=('z',)):
        out = self.path('out.npz')
        self.tool('run', '-q', *args, '--outputs', ','.join(outputs), '-o', out, model or self.model)
        return {n[:-4]: v[1:] for n, v in self.outputs(out).items()}

    def array(self, *shape, name='a.npy', descr='<f4'):
        n = 1
        for d in shape:
            n *= d
        data = struct.pack('<%d%s' % (n, {'<f4': 'f', '<i4': 'i'}[descr]), *range(n))
        return '@' + self.path(name, npy(descr, shape, data))

    def test_shapes_of_arrays(self):
        z = self.path('in.npz')
        for n in 1, 2, 7:
            with zipfile.ZipFile(z, 'w') as f:
                f.writestr('data.npy', npy('<f4', (n, 4), bytes(16 * n)))
            for spec in self.array(n, 4), f'@{z}#data', f'f32[{n},4]:1':
                for more in (), ('--batch', str(n)), ('--input-shape', f'x:{n},4'), ('--input-shape', 'x:-1,4'):
                    r = self.tool('run', '--input', 'x=' + spec, '--format=json', *more, SMALL)
                    self.assertEqual(json.loads(r.stdout)['outputs'][0]['shape'], [n, 3], (spec, more))
                    self.assertNotIn('is 1 here', r.err)
        r = self.tool('bench', '--runs=1', '--duration=0', '--format=json', '--input', 'x=' + self.array(5, 4), SMALL)
        self.assertEqual(json.loads(r.stdout)['batch'], 5)

    def test_each_input_has_its_own(self):
        outputs, err = self.run_json('--input', 'x=' + self.array(3, 4), '--input', 'u=f32[1,2]:0')
        self.assertEqual((outputs['z']['shape'], outputs['Identity']['shape']), ([3, 2], [3, 2]))
        outputs, err = self.run_json('--input', 'x=f32[2,4]:1', '--input-shape', 'u:2,1')
        self.assertEqual(outputs['Identity']['shape'], [2, 2])
        self.assertIn("input 'serving_u' float32[2,1] is random", err)
        outputs, err = self.run_json('--input', 'u=f32[4,2]:1', '--batch', '4')
        self.assertEqual(outputs['z']['shape'], [4, 2])

    def test_what_does_not_agree(self):
        for args, pattern in ((['--batch=3'], r"'@.*a\.npy' is float32\[2,4\], but --batch says float32\[3,4\] for input 'x'"),
                              (['--input-shape', 'x:3,4'], r'is float32\[2,4\], but --input-shape says float32\[3,4\]'),
                              (['--input-shape', 'x:2,5'], r'is float32\[2,4\], but --input-shape says float32\[2,5\]')):
            self.fails(3, pattern, 'run', '--input', 'x=' + self.array(2, 4), *args, SMALL)
        for spec in 'f32[2,5]:1', 'f32[2,4,1]:1', 'f32[]:1', 'i32[2,4]:1', self.array(2, 4, descr='<i4'):
            self.fails(3, r'is .*, but the graph says float32\[\?,4\] for input', 'run', '--input', 'x=' + spec, SMALL)

    def test_default_of_another_shape(self):
        """A feed of a PlaceholderWithDefault has the node's shape, not the default's."""
        model = self.path('d.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                          b'%d = Const() {dtype=f32, value=tensor f32[1] {2.0}}\n'
                          b'%x = PlaceholderWithDefault(%d) {dtype=f32, shape=shape[?]}\n%y = AddV2(%x, %x) {T=f32}\n')
        self.assertEqual(self.values(outputs=['y'], model=model)['y'], ((1,), [4]))
        self.assertEqual(self.values('--input', 'x=f32[3]:1,2,3', outputs=['y'], model=model)['y'], ((3,), [2, 4, 6]))
        self.fails(2, 'has 1 dimensions', 'run', '--input', 'x=f32[3,1]:1', model)

    def test_computed_default(self):
        """A default that the graph computes is computed where nothing is fed, from inputs that are fed or not, and in a shape of its own."""
        model = self.path('c.hir', b"""hir 1
entry "" {
  input "x" = %x
  input "rate" = %rate
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[?]}
%twice = AddV2(%x, %x) {T=f32}
%rate = PlaceholderWithDefault(%twice) {dtype=f32, shape=shape[?]}
%y = AddV2(%rate, %x) {T=f32}
""")
        x = '--input', 'x=f32[3]:1,2,3'
        r = self.tool('run', *x, model)
        self.assertNotIn('rate', r.err)
        self.assertNotIn('random', r.err)
        self.assertEqual(self.values(*x, outputs=['y'], model=model)['y'], ((3,), [3, 6, 9]))
        self.assertEqual(self.values(*x, '--input', 'rate=f32[3]:0', outputs=['y'], model=model)['y'], ((3,), [1, 2, 3]))
        # Random samples have none of it; samples of files have it if they name it.
        self.tool('compare', '--policy=force_fp16', '--batch=3', model)
        self.assertIn("input 'x' is 1", self.tool('compare', '--policy=force_fp16', model).err)
        with zipfile.ZipFile(self.path('s.npz'), 'w') as f:
            for name in 'x', 'rate':
                f.writestr(name + '.npy', npy('<f4', (3,), bytes(12)))
        self.tool('compare', '--policy=force_fp16', '--batch=3', '--samples', self.path('s.npz'), model)
        # Once it is named an input, it is one.
        self.assertIn("input 'rate' float32[3] is random", self.tool('run', *x, '--inputs', 'x,rate', model).err)
        self.assertNotIn("'rate'", self.tool('bench', '--runs=1', '--duration=0', *x, model).err)
        self.assertEqual([i['name'] for i in json.loads(self.tool('inspect', '--format=json', model).stdout)['inputs']], ['x', 'rate'])

    def test_artefacts(self):
        htx = self.path('m.htx')
        self.tool('compile', '-q', '--batch', '1,2', '--outputs', 'z', '-o', htx, self.model)
        for n in 1, 2:
            self.assertEqual(self.run_json('--input', 'x=' + self.array(n, 4), model=htx)[0]['z']['shape'], [n, 2])
        self.fails(3, r'no variant .* has those shapes; it has .*x:1,4.*x:2,4', 'run', '--input', 'x=f32[3,4]:1', htx)
        self.fails(3, r'is float32\[2,4\], but --input-shape says float32\[1,4\]', 'run', '--input', 'x=f32[2,4]:1',
                   '--input-shape', 'x:1,4', htx)
        self.fails(2, "'x' is given twice", 'run', '--input', 'x=f32[2,4]:1', '--input', 'x:0=f32[2,4]:1', htx)
        self.fails(2, 'is compiled already', 'run', '--inputs', 'y', htx)

    def test_tensors_inside(self):
        self.assertEqual(self.values('--input', 'y=f32[2,4]:1,2,3,4,5,6,7,8')['z'], ((2, 2), [4, 6, 12, 14]))
        # One of several results is fed; the other is computed from x.
        self.assertEqual(self.values('--input', 'parts:1=f32[1,2]:10,20', '--input', 'x=f32[1,4]:1,2,3,4')['z'],
                         ((1, 2), [11, 22]))
        self.assertEqual(self.values('--input', 'parts=f32[1,2]:10,20', '--input', 'x:0=f32[1,4]:1,2,3,4')['z'],
                         ((1, 2), [13, 24]))
        self.assertEqual(self.values('--input', 'parts=f32[1,2]:1', '--input', 'parts:1=f32[1,2]:2')['z'], ((1, 2), [3, 3]))
        # A constant may be fed, too.
        self.assertEqual(self.values('--input', 'w=f32[4,4]:1', '--input', 'x=f32[1,4]:1,2,3,4')['z'], ((1, 2), [20, 20]))
        # An output may be fed itself.
        self.assertEqual(self.values('--input', 'z=f32[1,2]:5,6')['z'], ((1, 2), [5, 6]))

    def test_what_lies_behind_is_left_out(self):
        _, err = self.run_json('--input', 'y=f32[1,4]:1', '--outputs', 'z')
        self.assertNotIn("'x'", err)
        r = self.tool('inspect', '--inputs', 'y', '--format=json', self.model)
        self.assertEqual([i['name'] for i in json.loads(r.stdout)['inputs']], ['serving_u', 'y'])
        self.assertEqual(json.loads(r.stdout)['inputs'][1]['shape'], [-1, 4])
        refused = self.path('r.hir', BRANCHES.replace(b'%y = MatMul', b'%bad = NoSuchOp(%x) {T=f32} : f32[?,4]\n%y = MatMul')
                            .replace(b'MatMul(%x', b'MatMul(%bad'))
        self.fails(4, 'NoSuchOp', 'run', '--outputs=z', refused)
        self.assertEqual(self.values('--input', 'bad=f32[1,4]:1,2,3,4', model=refused)['z'], ((1, 2), [4, 6]))

    def test_shapes_inside(self):
        """The shape comes from inference, else from the array; an array that contradicts the graph is refused."""
        self.fails(3, r'is float32\[2,5\], but the graph says float32\[\?,4\] for input', 'run', '--input', 'y=f32[2,5]:1', self.model)
        self.fails(3, r'is int32\[2,4\], but the graph says float32\[\?,4\]', 'run', '--input', 'y=i32[2,4]:1', self.model)
        free = self.path('f.hir', BRANCHES.replace(b'shape[?,4]', b'shape[*]'))
        self.assertEqual(self.values('--input', 'x=f32[2,4]:1', model=free)['z'][0], (2, 2))
        outputs, err = self.run_json('--inputs', 'y', '--batch', '3', '--outputs', 'z')
        self.assertIn("input 'y' float32[3,4] is random", err)
        self.assertEqual(outputs['z']['shape'], [3, 2])

    def test_names_that_cannot_be_fed(self):
        for name, pattern in (('part', "no input 'part'; did you mean 'parts'"), ('parts:2', "no input 'parts:2'"),
                              ('nothing_like_it', "and no tensor of that name; its first input is 'x'"),
                              ('Assert/nothing', 'has no result')):
            self.fails(2, pattern, 'run', '--input', name + '=f32[]:1', self.model)
            self.fails(2, pattern, 'inspect', '--inputs', name, self.model)
            r = self.tool('run', '--lenient', '--input', name + '=f32[]:1', '--input-shape=u:1,2', self.model)
            self.assertRegex(r.err, 'warning: .*' + pattern)
        for args in (['sum', '--outputs=z'], ['parts', '--inputs=z'], ['y', '--inputs=parts,parts:1']):
            r = self.tool('run', '--input', args[0] + '=f32[1,2]:1', '--input-shape=u:1,2', *args[1:], self.model)
            self.assertIn(f"warning: '{args[0]}' is fed, but no output needs it", r.err)
        self.fails(2, 'is to be fed twice', 'run', '--inputs', 'y,y:0', self.model)
        self.fails(2, "'y:0' is to be fed twice", 'run', '--input', 'y=f32[1,4]:1', '--inputs=y', '--input', 'y:0=f32[1,4]:1', self.model)
        # An input of the model may be fed and shaped although nothing needs it.
        self.tool('run', '--input', 'y=f32[1,4]:1', '--input', 'x=f32[1,4]:1', '--outputs=z', self.model)
        self.tool('run', '--input', 'x=f32[1,4]:1', '--input-shape', 'u:1,2', '--outputs=z', self.model)

    def test_every_verb(self):
        cut = ['--inputs', 'y', '--outputs', 'z']
        hir, htx = self.path('c.hir'), self.path('c.htx')
        for verb, *more in (['convert', '-o', hir], ['compile', '-o', htx], ['explain', '--policy=force_fp16'],
                            ['bench', '--runs=1', '--duration=0'], ['opt', '--passes=feeds,prune'], ['inspect'],
                            ['aot', '-o', self.path('net')], ['convert', '--policy=force_fp16', '-o', self.path('d.pb')]):
            self.tool(verb, '-q', *cut, *more, self.model)
        for made in hir, htx:
            self.assertEqual(self.values('--input', 'y=f32[1,4]:1,2,3,4', model=made, outputs=['z'])['z'] if made == hir else
                             self.run_json('--input', 'y=f32[1,4]:1,2,3,4', model=made)[0]['z']['max'],
                             ((1, 2), [4, 6]) if made == hir else 6)
        with open(self.path('d.pb'), 'rb') as f:
            self.assertNotIn(b'MatMul', f.read())
        cache = ['--cache-mode=rw', '--cache-dir', os.path.join(self.dir, 'cache')]
        one = self.tool('run', '-q', *cache, '--input', 'y=f32[1,4]:1', '--outputs=z', self.model).stdout
        self.tool('run', '-q', *cache, '--input', 'x=f32[1,4]:1', '--outputs=z', '--error-on-cache-miss', self.model, code=1)
        again = self.tool('run', '-q', *cache, '--input', 'y=f32[1,4]:1', '--outputs=z', '--error-on-cache-miss', self.model)
        self.assertEqual(again.stdout, one)

    def test_keys(self):
        x, u = ('--input', 'x=f32[1,4]:1,2,3,4'), ('--input', 'u=f32[1,2]:1')
        want = self.values(*x, '--input', 'serving_u:0=f32[1,2]:1', outputs=['Identity'])['Identity']
        self.assertEqual(want, ((1, 2), [6, 8]))
        self.assertEqual(self.values(*x, *u, outputs=['total'])['total'], want)
        self.fails(2, 'asked for twice', 'run', '--outputs', 'total,Identity', self.model)
        self.assertEqual(self.run_json(*x, '--input-shape', 'u:1,2')[0]['Identity']['shape'], [1, 2])
        self.fails(2, "'serving_u' is given twice", 'run', *u, '--input', 'serving_u=f32[1,2]:1', self.model)
        self.fails(2, "'serving_u' is given twice", 'run', '--input-shape', 'u:1,2;serving_u:1,2', self.model)
        ref, htx = self.path('ref.npz'), self.path('k.htx')
        self.tool('compile', '-q', '--input-shape', 'u:1,2', '-o', htx, self.model)
        for model in self.model, htx:
            for key in 'Identity', 'total', 'Identity:0':
                with zipfile.ZipFile(ref, 'w') as f:
                    f.writestr('z.npy', npy('<f4', (1, 2), floats(4, 6)))
                    f.writestr(key + '.npy', npy('<f4', (1, 2), floats(6, 8)))
                self.tool('run', *x, *u, '--expect', ref, '--tol', 'total:0', model)
                with zipfile.ZipFile(ref, 'w') as f:
                    f.writestr('z.npy', npy('<f4', (1, 2), floats(4, 6)))
                    f.writestr(key + '.npy', npy('<f4', (1, 2), floats(6, 9)))
                self.tool('run', *x, *u, '--expect', ref, model, code=1)
        self.fails(3, 'no variant', 'run', *x, '--input', 'u=f32[1,1]:1', htx)

    def test_reference_of_one_output(self):
        x = ('--input', 'x=f32[1,4]:1,2,3,4', '--outputs=z')
        self.tool('run', *x, '--expect', self.path('z.npy', npy('<f4', (1, 2), floats(4, 6))), self.model)
        self.tool('run', *x, '--expect', self.path('z.npy', npy('<f4', (1, 2), floats(4, 7))), self.model, code=1)
        self.fails(3, r'another shape: it is float32\[2\], the output float32\[1,2\]', 'run', *x, '--expect',
                   self.path('z.npy', npy('<f4', (2,), floats(4, 6))), self.model)
        self.fails(2, '2 outputs', 'run', '--input-shape=u:1,2', '--expect', self.path('z.npy'), self.model)


if __name__ == '__main__':
    unittest.main()
