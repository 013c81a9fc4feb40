#!/usr/bin/env python3
"""Checks machine code that few machines run: the instructions of AMX and AVX512_FP16, and the kernels that have them;
the kernels that prefetch weights or shares of images."""
import re, unittest

from tool import ToolCase

AMX, FP16, PLAIN = 'sapphirerapids', 'x86-64-v4+bf16+fp16', 'x86-64-v4+bf16'
SHORT = '--op_select_implmode=high_performance', '--optypelist_for_implmode=MatMul,Conv2D,DepthwiseConv2dNative,AddV2'
TILES = {'ldtilecfg', 'tilezero', 'tileloadd', 'tdpbf16ps', 'tilestored', 'tilerelease'}
ARITHMETIC_F16 = re.compile('^v(add|sub|mul|div|max|min|sqrt|fn?m(add|sub).*)[ps]h$')
GRAPH = '''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype={t}, shape=shape[{x}]}}
%w = Const() {{dtype={t}, value=tensor {t}[{w}] values 1 {{0.5 ...}}}}
'''
MATMUL = '%y = MatMul(%x, %w) {{T={t}, transpose_a=false, transpose_b=false}}\n'
CONV = ('%y = Conv2D(%x, %w) {{strides=[1, 1, 1, 1], dilations=[1, 1, 1, 1], padding="SAME", '
        'explicit_paddings=[], data_format="NHWC", use_cudnn_on_gpu=true, T={t}}}\n')
DEPTHWISE = ('%y = DepthwiseConv2dNative(%x, %w) {{strides=[1, 1, 1, 1], dilations=[1, 1, 1, 1], padding="SAME", '
             'explicit_paddings=[], data_format="NHWC", T={t}}}\n')
IN_FRONT = '%w0 = Const() {{dtype={t}, value=tensor {t}[1,1,64,64] values 1 {{0.5 ...}}}}\n' + CONV.replace('%y', '%c').replace('%w', '%w0')
ADD = '%y = AddV2(%x, %w) {{T={t}}}\n'
PRODUCT = (MATMUL, '37,70', '70,40')
LARGE = (MATMUL, '128,768', '768,3072')
WINDOW = (CONV, '1,14,14,64', '3,3,64,64')


def functions(asm):
    """The instructions of each function, in order."""
    parts = re.split(r'^(kernel_\d+):$', asm, flags=re.M)
    return {name: re.findall(r'^\t([a-z]\w+)', text, re.M)
            for name, text in zip(parts[1::2], parts[2::2])}


class Instructions(ToolCase):
    def of(self, t, graph, target=AMX, *more):
        node, x, w = graph
        model = self.path('m.hir', (GRAPH + node).format(t=t, x=x, w=w).encode())
        asm = self.tool('compile', model, '--emit', 'asm', '--target', target, '-o', '-', *more).stdout
        got = functions(asm.decode())
        self.assertTrue(got)
        return got

    def multiplies(self, kernels):
        """The kernel of the product or the convolution; other kernels pad or widen its operand."""
        some = [k for k in kernels.values() if {'tdpbf16ps', 'vfmadd231ps'} & set(k)]
        self.assertEqual(len(some), 1)
        return some[0]

    def test_products_of_pairs_are_tiles(self):
        for graph, more in ((PRODUCT, ()), ((MATMUL, '37,71', '71,40'), ()), (WINDOW, ('--conv-method', 'direct')),
                            (WINDOW, ('--conv-method', 'winograd-2x2'))):
            with self.subTest(graph[0], more=more):
                kernels = self.of('bf16', graph, AMX, *more)
                product = self.multiplies(kernels)
                self.assertEqual(TILES - set(product), set())
                # Tiles are configured before any tile instruction, and around blocks of fewer rows;
                # they are released after all of them.
                tiles = [i for i in product if i in TILES and i != 'tilerelease']
                self.assertEqual(tiles.index('ldtilecfg'), 0)
                self.assertEqual(tiles.count('ldtilecfg') % 2, 1)
                self.assertEqual(product.count('tilerelease'), 1)
                for k in kernels.values():
                    if k is not product:
                        self.assertEqual(TILES & set(k), set())

    def test_nothing_else_is_tiles(self):
        for t, graph in (('f32', PRODUCT), ('f16', PRODUCT),
                         ('bf16', (ADD, '37,64', '37,64')), ('bf16', (DEPTHWISE, '1,14,14,64', '3,3,64,1'))):
            with self.subTest(graph, t=t):
                for k in self.of(t, graph).values():
                    self.assertEqual(TILES & set(k), set())

    def test_bits_are_rounded_by_classes(self):
        """Without an instruction that narrows to bfloat16, NaNs and subnormals are found and replaced by two instructions."""
        for target, has in (('x86-64-v3', False), ('x86-64-v4', True), (PLAIN, False)):
            with self.subTest(target):
                [k] = self.of('bf16', (ADD, '37,64', '37,64'), target).values()
                self.assertEqual({'vfpclassps', 'vfixupimmps'} <= set(k), has)

    def test_rest_of_open_rows_is_not_unrolled(self):
        """Blocks of two and four rows behind whole ones are loops of one step in depth, so that an open product has no more
        multiply-adds than one of 32 rows."""
        count = {}
        for shapes in 'x:32,256', 'x:1..32,1..256':
            kernels = self.of('f32', (MATMUL, '32,256', '256,512'), 'x86-64-v4', '--input-shape', shapes)
            count[shapes] = sum(k.count('vfmadd231ps') for k in kernels.values())
        self.assertLess(count['x:1..32,1..256'], count['x:32,256'])

    def test_rows_at_one_distance_are_not_copied(self):
        """A product prefetches; so does a window, which is copied before; but not a product of odd depth, whose last
        pair has one number.  The last step of a product is apart from the loop, as it loads nothing for the next one."""
        def copies(kernel):
            between = kernel[kernel.index('tilezero'):kernel.index('tilestored')]
            return sum(i.startswith('vmov') for i in between)
        large, odd, window = (self.multiplies(self.of('bf16', g, AMX)) for g in (LARGE, (MATMUL, '128,767', '767,64'), WINDOW))
        self.assertEqual(large.count('tdpbf16ps'), 8)
        # Rows go past the first level, and leave a panel of 48 KB there; longer panels do not fit.
        deep = self.multiplies(self.of('bf16', (MATMUL, '128,1024', '1024,64'), AMX))
        self.assertEqual([sum(i.startswith('tileload') for i in k) for k in (large, deep)], [8, 8])
        self.assertEqual([k.count('tileloaddt1') for k in (large, deep, window)], [4, 0, 0])
        self.assertEqual(copies(large), 0)
        self.assertEqual(copies(window), 0)
        self.assertGreaterEqual(copies(odd), 16)

    def test_tiles_of_lines_store_all_images_that_a_sum_reads(self):
        """A sum of all images keeps the batch whole, and reads neutral elements of images that the run does not have."""
        sums = ('%i = Const() {{dtype=i32, value=tensor i32[] {{0}}}}\n' + CONV.replace('%y', '%c') +
                '%y = Sum(%c, %i) {{T={t}, Tidx=i32, keep_dims=false}}\n')
        model = self.path('m.hir', (GRAPH + sums).format(t='bf16', x='?,32,32,64', w='3,3,64,64').encode())
        text = self.tool('compile', model, '--emit', 'kernels', '--target', AMX, '--conv-method', 'direct',
                         '--input-shape', 'x:1..16,32,32,64', '-o', '-').stdout.decode()
        product, = (k for k in text.split('# kernel_') if 'contract {' in k)
        self.assertIn('local', product)
        tiles = re.findall(r'dim d\d+ .* grid 0 .*', product)
        self.assertEqual([' to p0 of 16 ' in t for t in tiles], [False, False])

    def test_transposes_load_vectors(self):
        """Squares are transposed in registers, in place of a load for each number."""
        graph = ('%p = Const() {{dtype=i32, value=tensor i32[2] {{1, 0}}}}\n%y = Transpose(%x, %p) {{T={t}, Tperm=i32}}\n', '64,128', '1')
        for t, target in (('f32', PLAIN), ('bf16', PLAIN), ('f32', 'x86-64-v3'), ('f32', 'x86-64')):
            with self.subTest(t=t, target=target):
                kernels = self.of(t, graph, target)
                for k in kernels.values():
                    self.assertEqual({i for i in k if re.match('v?pinsr|v?insertps', i)}, set())

    def test_float16_converts_by_its_own_instructions(self):
        for graph in PRODUCT, WINDOW, (DEPTHWISE, '1,14,14,64', '3,3,64,1'), (ADD, '37,64', '37,64'):
            with self.subTest(graph):
                kernels = self.of('f16', graph, FP16)
                used = set().union(*kernels.values())
                self.assertIn('vcvtph2psx', used)
                self.assertIn('vcvtps2phx', used)
                # Sums are in float32, so there is no float16 arithmetic.
                self.assertEqual({i for i in used if ARITHMETIC_F16.search(i)}, set())
                self.assertTrue(used & {'vfmadd231ps', 'vaddps'})

    def test_float16_sums_short_runs_where_the_mode_says_so(self):
        for graph in PRODUCT, WINDOW:
            for target in FP16, AMX:
                used = set().union(*self.of('f16', graph, target, *SHORT).values())
                self.assertTrue(used & {'vfmadd231ph', 'vfmadd213ph'}, (graph, target))
        for t, graph, target in (('f16', PRODUCT, PLAIN), ('f32', PRODUCT, FP16), ('bf16', PRODUCT, FP16),
                                 ('f16', (ADD, '37,64', '37,64'), FP16)):
            used = set().union(*self.of(t, graph, target, *SHORT).values())
            self.assertEqual({i for i in used if ARITHMETIC_F16.search(i)}, set(), (t, graph, target))

    def test_depthwise_convolutions_sum_in_float32_in_every_mode(self):
        behind = IN_FRONT + DEPTHWISE.replace('%x', '%c'), '1,14,14,64', '3,3,64,1'
        grouped = IN_FRONT + CONV.replace('%x', '%c'), '1,14,14,64', '3,3,1,64'

        def modes(mode, *nodes):
            lines = ''.join(f'{node} = {mode}\n' for node in nodes)
            return '--op_precision_mode', self.path('modes.ini', f'[ByNodeName]\n{lines}'.encode())
        for graph in behind, grouped:
            for mode in 'high_performance', 'keep_fp16':
                in_front = self.of('f16', graph, FP16, *modes(mode, 'c'))
                self.assertTrue(set().union(*in_front.values()) & {'vfmadd231ph', 'vfmadd213ph'})
                self.assertEqual(self.of('f16', graph, FP16, *modes(mode, 'c', 'y')), in_front)

    def test_pairs_of_float16_are_transformed_where_the_mode_says_so(self):
        for mode, pairs in (SHORT, True), ((), False):
            used = set().union(*self.of('f16', WINDOW, FP16, '--conv-method', 'winograd-2x2', *mode).values())
            self.assertEqual(bool(used & {'vfmadd231ph', 'vfmadd213ph'}), pairs)

    def test_weights_are_asked_for_ahead(self):
        for t, target, expected in (('f16', PLAIN, True), ('bf16', 'x86-64-v4', True), ('bf16', PLAIN, False), ('f32', PLAIN, False),
                                    ('f16', 'x86-64-v3', False), ('f32', AMX, True), ('bf16', AMX, True), ('f32', 'znver4', True),
                                    ('bf16', 'znver4', True)):
            for graph, large in (LARGE, True), (PRODUCT, False):
                used = set().union(*self.of(t, graph, target).values())
                self.assertEqual('prefetcht1' in used, expected and large, (t, graph, target))

    def test_weights_of_open_rows_are_asked_for_along_all_blocks_of_the_run(self):
        """The lines of the next panel are divided by the number of blocks that the run has."""
        for shapes, target, divides in (('x:1..512,1..768', 'znver4', True), ('x:1..512,1..768', AMX, True), ('x:512,768', 'znver4', False),
                                        ('x:1..512,1..768', PLAIN, False)):
            kernels = self.of('f32', LARGE, target, '--input-shape', shapes).values()
            asks = [k for k in kernels if 'prefetcht1' in k]
            self.assertEqual(bool(asks), target != PLAIN)
            self.assertEqual(any(i.startswith('div') for k in asks for i in k), divides, (shapes, target))

    def test_lines_of_results_and_of_what_an_epilogue_reads_are_asked_for(self):
        """Each loop over depth asks for a line of the next panel and for one of the results, and for one of what is added to them."""
        add = GRAPH.replace('  output', '  input "r" = %r\n  output') + '%r = Placeholder() {{dtype={t}, shape=shape[{x}]}}\n' + MATMUL.replace('%y', '%p')
        count = {}
        for name, text in ('product', GRAPH + MATMUL), ('sum', add + '%y = AddV2(%p, %r) {{T={t}}}\n'):
            model = self.path('m.hir', text.format(t='f32', x='1024,1024', w='1024,1024').encode())
            for target in 'znver4', PLAIN:
                asm = self.tool('compile', model, '--emit', 'asm', '--target', target, '--batch-method', 'whole', '-o', '-').stdout
                count[target, name] = self.multiplies(functions(asm.decode())).count('prefetcht1')
        self.assertEqual(count[PLAIN, 'sum'], 0)
        self.assertGreater(count['znver4', 'product'], 0)
        self.assertEqual(2 * count['znver4', 'sum'], 3 * count['znver4', 'product'], count)

    def test_shares_of_the_next_tile_are_asked_for(self):
        """The product of a gradient by a filter asks for lines of the image and of the result's gradient that the next tile reads, and for lines of
        results; it reads the gradient in place."""
        shapes = {'x': '4,56,56,64', 'g': '4,28,28,128'}
        text = 'hir 1\nentry "" {\n' + ''.join(f'  input "{i}" = %{i}\n' for i in shapes) + '  output "y" = %y\n}\n'
        text += ''.join(f'%{i} = Placeholder() {{dtype=f32, shape=shape[{s}]}}\n' for i, s in shapes.items())
        text += ('%s = Const() {dtype=i32, value=tensor i32[4] values 4 {3, 3, 64, 128}}\n'
                 '%y = Conv2DBackpropFilter(%x, %s, %g) {T=f32, strides=[1, 2, 2, 1], padding="EXPLICIT", '
                 'explicit_paddings=[0, 0, 1, 1, 1, 1, 0, 0], data_format="NHWC", dilations=[1, 1, 1, 1]}\n')
        model = self.path('m.hir', text.encode())
        for target, asks in ('znver4', True), (PLAIN, False):
            programs, asm = (self.tool('compile', model, '--emit', form, '--target', target, '--conv-method', 'direct', '-o', '-').stdout.decode()
                             for form in ('kernels', 'asm'))
            self.assertEqual((programs.count(' ahead b'), programs.count(' row 128 ')), (2, 1) if asks else (0, 0), target)
            self.assertEqual(self.multiplies(functions(asm)).count('prefetcht1') >= 3, asks, target)

    def test_a_row_is_multiplied_with_pairs_of_bfloat16(self):
        row = MATMUL, '1,768', '768,3072'
        for target in 'x86-64-v3', 'x86-64-v4':
            kernels = self.of('bf16', row, target).values()
            product, = [k for k in kernels if any(i.startswith('vfmadd') for i in k)]
            # Two vectors of each: the first and the second numbers of pairs.
            second = [i for i in product if i.startswith('vpand') or i.startswith('vandps')]
            self.assertGreaterEqual(len(second), 8, target)
            # Only the row is widened number by number.
            self.assertLessEqual(product.count('vpmovzxwd'), 1, target)
        self.assertIn('vdpbf16ps', set().union(*self.of('bf16', row, PLAIN).values()))

    def test_lesser_targets_have_neither(self):
        for t in 'bf16', 'f16', 'f32':
            used = set().union(*self.of(t, PRODUCT, PLAIN).values())
            self.assertEqual(used & (TILES | {'vcvtph2psx', 'vcvtps2phx'}), set())


if __name__ == '__main__':
    unittest.main()
