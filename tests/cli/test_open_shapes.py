#!/usr/bin/env python3
"""Open sizes, and several sets of shapes, by the vendor's options and by --input-shape.  Open sizes give one program.
Several sets give a program each; a run selects the one that the shapes of its arrays fit."""
import json, os, re, subprocess, unittest

from tool import SMALL, ToolCase, floats, npy

PROFILES = ('--dynamic_node_type=1', '--dynamic_input_config.input_shape=x:-1,-1', '--dynamic_input_config.dynamic_dims=1,4;3,4')
ANY = (b'hir 1\nentry "" {\n  input "x" = %x\n  input "z" = %z\n  output "y" = %y\n}\n\n%x = Placeholder() {dtype=f32, shape=shape[?,?]}\n'
       b'%z = Placeholder() {dtype=f32, shape=shape[]}\n%y = Mul(%x, %z) {T=f32}\n')


class OpenShapes(ToolCase):
    def setUp(self):
        super().setUp()
        self.htx, self.any = os.path.join(self.dir, 'm.htx'), self.path('any.hir', ANY)

    def array(self, rows, columns=4):
        return self.path('%d.npy' % rows, npy('<f4', (rows, columns), floats(*range(rows * columns))))

    def plan(self, *args, model=SMALL):
        return self.tool('compile', '-q', '--emit', 'plan', '-o', '-', *args, model).stdout.decode()

    def shape(self, *args, **more):
        return json.loads(self.tool('run', '-q', '--format', 'json', *args, **more).stdout)['outputs'][0]['shape']

    def config(self, **settings):
        return '--config', self.path('run.json', json.dumps(settings).encode())

    # ---- one program ----

    def test_what_the_graph_leaves_open(self):
        for args in (['--compile_dynamic_mode'], ['--dynamic_input'], ['--jit_compile=false'], self.config(compile_dynamic_mode=True),
                     self.config(dynamic_input=True, dynamic_graph_execute_mode='dynamic_execute')):
            self.assertEqual(self.plan(*args), self.plan('--input-shape', 'x:?,4'))
            self.assertEqual(self.plan(*args, model=self.any), self.plan('--input-shape', 'x:?,?', model=self.any))
        # No option is needed; a run chooses a size and reports it, or requires a statement.
        self.assertEqual(self.plan(), self.plan('--input-shape', 'x:?,4'))
        self.assertEqual(self.plan(model=self.any), self.plan('--input-shape', 'x:?,?', model=self.any))
        self.assertIn('open dimension 0 is at most 64, 1 is at most 512', self.tool('compile', self.any).err)
        self.assertNotIn('at most', self.tool('compile', self.any, '--input-shape', 'x:1..8,1..9').err)
        for verb in ['run'], ['bench', '--runs=1', '--duration=0'], ['compare', '--policy=force_fp16']:
            self.assertIn("open first dimension of input 'x' is 1 here", self.tool(*verb, SMALL).err)
            self.fails(4, "dimension 1 of input 'x' is open", *verb, self.any)
        self.tool('compile', '-q', SMALL, '--compile_dynamic_mode', '-o', self.htx)
        for n in 1, 5, 100:
            for model in [self.htx], [SMALL, '--compile_dynamic_mode'], [SMALL]:
                self.assertEqual(self.shape(*model, '--input', 'x=@' + self.array(n))[0], n)

    def test_refused(self):
        """A graph that depends on an open size is refused with its node and the shape to state; decisions are those for
        one row, with a note."""
        model = self.path('resized.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[?,4]}\n'
                          b'%s = Const() {dtype=i32, value=tensor i32[4] {1, -1, 4, 1}}\n%o = Const() {dtype=f32, value=tensor f32[1,2,2,1] {0.0 ...}}\n'
                          b'%g = Reshape(%x, %s) {T=f32, Tshape=i32}\n'
                          b'%y = ResizeBilinearGrad(%g, %o) {T=f32, align_corners=false, half_pixel_centers=false}\n')
        for verb in ['compile'], ['aot', '-o', os.path.join(self.dir, 'net')], ['compile', '--emit=plan']:
            r = self.fails(4, r"node '\w+' \(\w+\): .*state its size with --input-shape", *verb, model)
        r = self.fails(4, 'error', 'compile', model)
        self.assertIn("sizes that nobody states are open; --input-shape 'x:1,4' makes a program", r.err)
        self.tool('compile', '-q', model, '--input-shape', 'x:1,4')
        self.assertEqual(self.shape(model, '--input', 'x=@' + self.array(3)), [1, 2, 2, 1])
        one = self.tool('explain', '-q', '--format=json', '--policy=force_fp16', model, '--batch=1')
        any_size = self.tool('explain', '--format=json', '--policy=force_fp16', model)
        self.assertIn('counts as one row', any_size.err)
        self.assertEqual(any_size.stdout, one.stdout)

    def test_opened(self):
        """A size that the graph has is open where --input-shape says so, whatever the cache has.  Where nodes depend on it, a run of
        another size stops at such a node."""
        text = (b'hir 1\nentry "" {\n  input "x" = %%x\n  output "y" = %%y\n}\n%%x = Placeholder() {dtype=f32, shape=shape[1,4]}\n'
                b'%%row = Const() {dtype=i32, value=tensor i32[2] {%s}}\n%%r = Reshape(%%x, %%row) {T=f32, Tshape=i32}\n'
                b'%%w = Const() {dtype=f32, value=tensor f32[4,1] {1.0, 2.0, 3.0, 4.0}}\n'
                b'%%y = MatMul(%%r, %%w) {T=f32, transpose_a=false, transpose_b=false}\n')
        model, fixed = self.path('any.hir', text % b'-1, 4'), self.path('fixed.hir', text % b'1, -1')
        cached = '--cache-dir', os.path.join(self.dir, 'cache')
        for shape in 'x:?,4', 'x:1..8,4':
            for m in model, fixed:
                self.tool('compile', '-q', *cached, m)
                self.tool('compile', '-q', m, *cached, '--input-shape', shape, '-o', self.htx)
                self.assertEqual(self.shape(self.htx, '--input', 'x=@' + self.array(1)), [1, 1])
                if m == model:
                    self.assertEqual(self.shape(self.htx, '--input', 'x=@' + self.array(3)), [3, 1])
                    self.assertEqual(self.shape(m, '--input-shape', shape, '--input', 'x=@' + self.array(3)), [3, 1])
                else:
                    self.fails(3, "node 'y_24': an index is out of range", 'run', self.htx, '--input', 'x=@' + self.array(3))
        self.fails(3, 'the graph says', 'run', model, '--input', 'x=@' + self.array(3))

    def test_ranges(self):
        for ranges, shapes in (('x:[1~8, -1]; z:[]', 'x:1..8,?'), ('x:[-1,2~9]', 'x:?,2..9'), (' x : [ 3 , 1~2 ]', 'x:3,1..2'), ('x:0:[1~8,3]', 'x:1..8,3')):
            want = self.plan('--input-shape', shapes, model=self.any)
            self.assertIn('size ', want)
            self.assertEqual(self.plan('--dynamic_input', '--dynamic_inputs_shape_range', ranges, model=self.any), want)
            self.assertEqual(self.plan(*self.config(dynamic_input=True, dynamic_inputs_shape_range=ranges), model=self.any), want)
        run = lambda n, **more: self.tool('run', '--dynamic_input', '--dynamic_inputs_shape_range=x:[2~8,4]', '--input', 'x=@' + self.array(n), SMALL, **more)
        run(8)
        self.assertIn('2 to 8', run(9, code=3).err)
        r = self.tool('compile', '--dynamic_inputs_shape_range=x:[1~8,4]', SMALL)
        self.assertIn('dynamic_inputs_shape_range counts only with dynamic_input=true', r.err)
        self.fails(4, 'several shapes', 'compile', '--dynamic_input', '--dynamic_inputs_shape_range=x:[1],[2]', SMALL)
        self.fails(2, "no input 'q'", 'compile', '--dynamic_input', '--dynamic_inputs_shape_range=q:[1~2]', SMALL)

    def test_sums_end_with_the_size(self):
        """A sum over an open size, the packing of its operand, and the copy of the input with zeros behind its rows end at the size rounded
        up to a multiple of 8."""
        model = self.path('sum.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[4,?]}\n'
                          b'%y = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=true}\n')
        kernels = self.tool('compile', '-q', '--emit', 'kernels', '-o', '-', '--input-shape', 'x:4,1..64', model).stdout.decode()
        self.assertRegex(kernels, r'dim d\d 64 lanes to 8 \* \(\(p0 \+ 7\) / 8\) of 64 from 8\n')
        self.assertRegex(kernels, r'dim d\d 64 to 8 \* \(\(p0 \+ 7\) / 8\) of 64 from 8\n')
        self.assertRegex(kernels, r'dim d\d reduce 64 to 8 \* \(\(p0 \+ 7\) / 8\) of 64 from 8\n')

    def cut(self, slice_of, type_of, begin, end, then='', masks=(), output='y'):
        """A StridedSlice `y` of x or of its shape `sh`, with one entry behind `begin` axes that it takes as a whole, and what follows it."""
        masks = {**dict.fromkeys(('begin_mask', 'end_mask', 'ellipsis_mask', 'new_axis_mask', 'shrink_axis_mask'), 0), **dict(masks)}
        number = '%%%s = Const() {dtype=i64, value=tensor i64[%d] {%s}}\n'
        of = ''.join(number % (n, len(v), ', '.join(map(str, v))) for n, v in (('b', begin), ('e', end), ('s', [1] * len(begin))))
        return self.path('cut.hir', ('hir 1\nentry "" {\n  input "x" = %%x\n  output "y" = %%%s\n}\n%%x = Placeholder() {dtype=f32, shape=shape[?,?]}\n'
                                     '%%sh = Shape(%%x) {T=f32, out_type=i32}\n%s%%y = StridedSlice(%%%s, %%b, %%e, %%s) {T=%s, Index=i64, %s}\n%s' % (
                                         output, of, slice_of, type_of, ', '.join('%s=%d' % m for m in masks.items()), then)).encode())

    def test_joined_outputs(self):
        """A concatenation that becomes an output is made in its memory, unless something else reads it."""
        def steps(more=''):
            model = self.path('joined.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n' + (b'  output "z" = %z\n' if more else b'') +
                              b'}\n%x = Placeholder() {dtype=f32, shape=shape[?,?,4]}\n%e = Exp(%x) {T=f32}\n'
                              b'%a = Const() {dtype=i32, value=tensor i32[] {2}}\n%y = ConcatV2(%e, %x, %a) {Tidx=i32, N=2, T=f32}\n' + more.encode())
            return len(re.findall(r'^ +\d+: kernel', self.plan('--input-shape', 'x:1..8,1..9,4', model=model), re.M))
        self.assertEqual(steps(), 3)  # the input, and both parts
        self.assertEqual(steps('%z = Tanh(%y) {T=f32}\n'), 5)

    def test_parts(self):
        """Bounds that no axis has, and the largest extent of a shape that gets an axis in front."""
        sizes = '--input-shape', 'x:1..4,1..8'
        for begin, end, want in (2 ** 63 - 1, -5, 0), (-2 ** 63, 2 ** 63 - 1, 3), (1, 2 ** 63 - 1, 2), (-2 ** 63, -1, 2), (1, -2 ** 63, 0):
            model = self.cut('x', 'f32', [0, begin], [0, end], masks={'begin_mask': 1, 'end_mask': 1})
            self.assertEqual(self.shape(model, *sizes, '--input', 'x=@' + self.array(2, 3)), [2, want])
        largest = ('%a = Const() {dtype=i32, value=tensor i32[2] {0, 1}}\n%m = Max(%y, %a) {T=i32, Tidx=i32, keep_dims=false}\n'
                   '%zero = Const() {dtype=i32, value=tensor i32[] {0}}\n%one = Const() {dtype=i32, value=tensor i32[] {1}}\n'
                   '%r = Range(%zero, %m, %one) {Tidx=i32}\n')
        model = self.cut('sh', 'i32', [0], [2], largest, {'new_axis_mask': 1, 'shrink_axis_mask': 1}, 'r')
        self.assertEqual(self.shape(model, *sizes, '--input', 'x=@' + self.array(2, 6)), [6])

    def test_sizes_with_names(self):
        """Dimensions with a name have a size of their own, in artefacts and nets too."""
        model = self.path('apart.hir', b'hir 1\nentry "" {\n  input "a" = %a\n  input "b" = %b\n  output "y" = %y\n}\n'
                          b'%a = Placeholder() {dtype=f32, shape=shape[?,4]}\n%b = Placeholder() {dtype=f32, shape=shape[?,4]}\n'
                          b'%y = MatMul(%a, %b) {T=f32, transpose_a=false, transpose_b=true}\n')
        apart = '--input-shape', 'a:left=1..6,4;b:t=?,4'

        def feeds(a, b):
            return '--input', 'a=@' + self.array(a), '--input', 'b=@' + self.array(b)
        r = self.tool('compile', '-q', model, *apart, '-o', self.htx)
        self.assertIn("open dimension 't' is at most 512", self.tool('compile', model, *apart, '-o', self.htx).err)
        for a, b in (2, 3), (6, 1), (5, 5), (1, 40):
            for of in [self.htx], [model, *apart], [model]:
                self.assertEqual(self.shape(*of, *feeds(a, b)), [a, b])
        self.fails(3, 'no variant of this artefact has those shapes', 'run', self.htx, *feeds(7, 3))
        self.fails(3, "dimension 0 of input 'a' is 1 to 6, 7 was given", 'run', model, *apart, *feeds(7, 3))
        one = '--input-shape', 'a:t=1..6,4;b:t=2..9,4'
        self.assertEqual(self.shape(model, *one, *feeds(2, 2)), [2, 2])
        self.fails(3, "dimension 0 of input 'b' has to be the size that earlier inputs have, 3 was given", 'run', model, *one, *feeds(2, 3))
        self.fails(3, "dimension 0 of input 'a' is 2 to 6, 1 was given", 'run', model, *one, *feeds(1, 1))
        self.assertEqual(self.shape(model, *apart), [6, 512])  # random inputs of the most
        self.fails(2, "the size 't' has no size in common", 'compile', model, '--input-shape', 'a:t=1..6,4;b:t=7..9,4')
        for name in 't-1', '', '1t', 'T', 'x' * 65:
            self.fails(2, f"the name '{name}' of an open size", 'compile', model, '--input-shape', f'a:{name}=1..6,4')
        self.fails(2, 'is not NAME:D,D', 'compile', model, '--input-shape', 'a:t=6,4')
        net = os.path.join(self.dir, 'net')
        self.tool('aot', '-q', model, *apart, '--name', 'm', '-o', net)
        with open(os.path.join(net, 'm.h')) as header:
            self.assertRegex(header.read(), r'#define M_DIM_LEFT_MOST 6\n#define M_DIM_T_LEAST 1\n#define M_DIM_T_MOST 512\n')
        subprocess.run(['gcc', '-D_GNU_SOURCE', '-I' + net, net + '/m_main.c', net + '/m.o', '-o', net + '/main'], check=True)
        raw = [self.path(f'{n}.raw', floats(*range(4 * n))) for n in (2, 3)]
        got = subprocess.run([net + '/main', '2', '3', *raw], check=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(got, floats(14, 38, 62, 38, 126, 214))

    def test_names_of_sizes(self):
        """A node of the program may be named as if it were in the body of a branch."""
        body = '''
function "%s" {
  signature "\\n\\x04%s"
  arg "a" = %%a
  ret "r" = %%r
  %%a = _Arg() {T=f32, index=0}
  %%g = Greater(%%a, %%a) {T=f32}
  %%w = Where(%%g) {T=b1}
  %%r = Size(%%w) {T=i64, out_type=i32}
}
'''
        model = self.path('names.hir', ('hir 1\nentry "" {\n  input "x" = %x\n  input "p" = %p\n  output "y" = %y\n  output "z" = %"then_1/w"\n}\n'
                                        '%x = Placeholder() {dtype=f32, shape=shape[8]}\n%p = Placeholder() {dtype=b1, shape=shape[]}\n'
                                        '%"then_1/w" = Where(%x) {T=f32}\n'
                                        '%y = StatelessIf(%p, %x) {Tcond=b1, Tin=[f32], Tout=[i32], then_branch=@then{}, else_branch=@else{}}\n'
                                        + body % ('then', 'then') + body % ('else', 'else')).encode())
        r = json.loads(self.tool('run', '-q', '--format', 'json', model, '--input', 'x=f32[8]:1', '--input', 'p=bool[]:1').stdout)['outputs']
        self.assertEqual([o['shape'] for o in r], [[], [8, 1]])

    def test_of_atc(self):
        model = '--model=' + SMALL, '--output=' + os.path.join(self.dir, 'm')
        r = self.tool('atc', *model, '--input_shape_range=x:[1~8,4]')
        self.assertIn("'--input-shape=x:1..8,4'", r.err.replace(' --input-shape=x:1..8,4', " '--input-shape=x:1..8,4'"))
        self.assertEqual(self.shape(self.htx, '--input', 'x=@' + self.array(7))[0], 7)
        self.fails(2, '--input_shape_range and --input_shape at', 'atc', *model, '--input_shape_range=x:[1~8,4]', '--input_shape=x:1,4')
        self.fails(2, 'is not NAME', 'atc', *model, '--input_shape_range=x:1~8')

    # ---- several programs ----

    def test_lazily(self):
        lazy = '--dynamic_input', '--dynamic_graph_execute_mode=lazy_recompile'
        for n in 1, 6:
            self.assertEqual(self.shape(SMALL, *lazy, '--input', 'x=@' + self.array(n))[0], n)
        self.fails(2, 'by run and bench', 'compile', *lazy, SMALL)
        self.assertEqual(self.plan(*lazy, '--input-shape', 'x:3,4'), self.plan('--input-shape', 'x:3,4'))

    def test_profiles(self):
        self.tool('compile', '-q', SMALL, *PROFILES, '-o', self.htx)
        shapes = [v['inputs'][0]['shape'] for v in json.loads(self.tool('inspect', self.htx).stdout)['variants']]
        self.assertEqual(shapes, [[1, 4], [3, 4]])
        typed = '--input-shape', 'x:1,4', '--input-shape', 'x:3,4'
        for n in 1, 3:
            for model in [self.htx], [SMALL, *PROFILES], [SMALL, *typed]:
                self.assertEqual(self.shape(*model, '--input', 'x=@' + self.array(n))[0], n)
        two = '--input', 'x=@' + self.array(2)
        for model in [SMALL, *PROFILES], [SMALL, *typed]:
            self.fails(3, 'of the 2 sets of shapes', 'run', *model, *two)
        self.fails(3, 'has those shapes', 'run', self.htx, *two)
        self.assertIn('the first of 2 profiles', self.tool('explain', SMALL, *PROFILES).err)
        self.assertIn('counts before', self.tool('compile', SMALL, *PROFILES, '--input-shape', 'x:2,4').err)

    def test_ranges_side_by_side(self):
        """Of several ranges in an artefact, a run selects the one that contains its size; a size that none contains is
        an error that lists all of them."""
        self.tool('compile', '-q', self.any, '--input-shape', 'x:1..8,4', '--input-shape', 'x:9..64,4', '-o', self.htx)
        code = set()
        for n in 1, 8, 9, 64:
            feed = '--input', 'x=@' + self.array(n)
            self.assertEqual(self.shape(self.htx, *feed), [n, 4])
            code.add(json.loads(self.tool('bench', '-q', '--runs', '1', '--duration', '0', '--format', 'json', self.htx, *feed).stdout)['code_bytes'])
        self.assertEqual(len(code), 2)
        both = os.path.join(self.dir, 'both.htx')
        self.tool('compile', '-q', self.any, '--input-shape', 'x:1..8,1..5', '--input-shape', 'x:1..8,6..9', '-o', both)
        for rows, columns in (1, 1), (8, 5), (3, 6), (7, 9):
            self.assertEqual(self.shape(both, '--input', 'x=@' + self.array(rows, columns)), [rows, columns])
        self.fails(3, r'x:1\.\.8,1\.\.5;z:; .*x:1\.\.8,6\.\.9', 'run', both, '--input', 'x=@' + self.array(8, 10))
        self.fails(3, r'x:1\.\.8,4;z:; .*x:9\.\.64,4', 'run', self.htx, '--input', 'x=@' + self.array(65))
        self.tool('compile', '-q', SMALL, '-o', self.htx)
        self.fails(3, r'x:\?,4', 'run', self.htx, '--input', 'x=f32[1,5]:1')

    def test_fixed_beside_open(self):
        """If a range and a fixed size within it are stated, in either order, a run of that size has the code of the fixed size, and any
        other run has the code of the range."""
        sets = ['--input-shape', 'x:1..8,4'], ['--input-shape', 'x:3,4']
        code = lambda *a: json.loads(self.tool('bench', '-q', '--runs', '1', '--duration', '0', '--format', 'json', *a).stdout)['code_bytes']
        alone, sizes = self.path('alone.htx', b''), set()
        for order in sets, sets[::-1]:
            self.tool('compile', '-q', self.any, *sum(order, []), '-o', self.htx)
            for n, shape in (3, 'x:3,4'), (5, 'x:1..8,4'):
                self.tool('compile', '-q', self.any, '--input-shape', shape, '-o', alone)
                feed = '--input', 'x=@' + self.array(n)
                self.assertEqual(code(self.htx, *feed), code(alone, *feed))
                self.assertEqual(code(self.any, *sum(order, []), *feed), code(alone, *feed))
                sizes.add(code(alone, *feed))
        self.assertEqual(len(sizes), 2)


if __name__ == '__main__':
    unittest.main()
