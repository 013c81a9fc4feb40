#!/usr/bin/env python3
"""explain names the method of each kernel that had a choice, the reason, and the option that requests another; the
compiled program has the methods that it names."""
import json, re, unittest

from tool import ToolCase

TARGET = 'x86-64-v3'
REASONS = {'faster': '<', 'slower': '>=', 'narrow': '<', 'one channel': '>=', 'overlap': '>', 'traffic': '>',
           'little traffic': '<=', 'many': '>=', 'few': '<', 'fewer taps': '<'}


def graph(inputs, *lines):
    """A graph in textual form, whose result is y."""
    ports = ''.join(f'  input "{n}" = %{n}\n' for n in inputs)
    made = ''.join(f'%{n} = Placeholder() {{dtype=f32, shape=shape{s}}}\n' for n, s in inputs.items())
    return f'hir 1\nentry "" {{\n{ports}  output "y" = %y\n}}\n\n{made}' + ''.join(f'%{line}\n' for line in lines)


def weights(name, *shape):
    count = 1
    for n in shape:
        count *= n
    values = ', '.join(str(i % 7 / 8 - .25) for i in range(count))
    return f'{name} = Const() {{dtype=f32, value=tensor f32{list(shape)} {{{values}}}}}'


def conv(name, x, w, op='Conv2D', stride=1):
    return f'{name} = {op}(%{x}, %{w}) {{T=f32, strides=[1, {stride}, {stride}, 1], padding="SAME"}}'


def convolution(side, channels, results):
    return graph({'x': [1, side, side, channels]}, weights('w', 3, 3, channels, results), conv('y', 'x', 'w'))


def transposed(size, stride, side=8, constant=True, results=8, channels=4):
    filter_ = [size, size, results, channels]
    return graph({'x': [1, side, side, channels], **({} if constant else {'w': filter_})}, *([weights('w', *filter_)] if constant else []),
                 f's = Const() {{dtype=i32, value=tensor i32[4] {{1, {side * stride}, {side * stride}, {results}}}}}',
                 f'y = Conv2DBackpropInput(%s, %w, %x) {{T=f32, strides=[1, {stride}, {stride}, 1], padding="SAME"}}')


def block(side):
    return graph({'x': [1, side, side, 8]}, weights('w', 1, 1, 8, 64), weights('d', 3, 3, 64, 1), weights('p', 1, 1, 64, 8),
                 conv('e', 'x', 'w'), conv('m', 'e', 'd', 'DepthwiseConv2dNative'), conv('y', 'm', 'p'))


def excite(side):
    return graph({'x': [1, side, side, 64]}, weights('r', 1, 1, 64, 8), weights('g', 1, 1, 8, 64), weights('p', 1, 1, 64, 16),
                 'a = Const() {dtype=i32, value=tensor i32[2] {1, 2}}', 'm = Mean(%x, %a) {T=f32, Tidx=i32, keep_dims=true}',
                 conv('s', 'm', 'r'), 't = Relu(%s) {T=f32}', conv('u', 't', 'g'), 'v = Sigmoid(%u) {T=f32}',
                 'z = Mul(%x, %v) {T=f32}', conv('y', 'z', 'p'))


def attention(matrices):
    of = '{T=f32, adj_x=false, adj_y=%s}'
    return graph({n: [matrices, 16, 8] for n in 'qkv'}, f's = BatchMatMulV2(%q, %k) {of % "true"}', 'p = Softmax(%s) {T=f32}',
                 f'y = BatchMatMulV2(%p, %v) {of % "false"}')


class Methods(ToolCase):
    def explain(self, text, *options, of='y'):
        """The only choice in the report, except for products of one row of other nodes; as JSON and as text."""
        def is_other(node, method):
            return method == 'matrix-vector' and node != of
        model = self.path('m.hir', text.encode())
        args = ('explain', '-q', '--target', TARGET, *options, model)
        told, = [m for m in json.loads(self.tool(*args, '--format=json').stdout)['methods'] if not is_other(m['node'], m['method'])]
        line, = [l for l in self.tool(*args).stdout.decode().splitlines() for m in [re.match(r'(\S+) by ([\w-]+)', l)] if m and not is_other(*m.groups())]
        self.assertIn(line, self.tool(*args, '--node', told['node']).stdout.decode().splitlines())
        self.assertTrue(line.startswith(f'{told["node"]} by {told["method"]}'), line)
        relation = REASONS.get(told['reason'])
        self.assertEqual('is' in told, relation is not None)
        if relation:
            self.assertTrue(eval(f'{told["is"]} {relation} {told["limit"]}'), told)
            self.assertIn(f': {told["is"]:.3g}, ', line)
        steps = json.loads(self.tool('bench', model, '--target', TARGET, *options, '--steps', '--format=json', '--runs=1', '--duration=0',
                                     '--warmup=0').stdout)['steps_ms']
        named = [[s[0], s[2]] for s in steps if len(s) > 2 and not is_other(s[0], s[2])]
        plain = told['method'] in ('direct', 'kernels')
        self.assertEqual(named, [] if plain else [[told['node'], told['method']]])
        if 'other' in told:
            other = told['other']
            ask = re.search(r'--(?:conv|block)-method \S+', line.split(f'; {told["other"]}: ')[1]).group().rstrip(',').split()
            forced = json.loads(self.tool('bench', model, '--target', TARGET, *ask, '--steps', '--format=json', '--runs=1', '--duration=0',
                                          '--warmup=0').stdout)['steps_ms']
            self.assertEqual([s[2] for s in forced if len(s) > 2 and not is_other(s[0], s[2])], [] if other in ('direct', 'kernels') else [other])
            if not options:
                asked, line_asked = self.explain(text, *ask, of=of)
                self.assertEqual((asked['node'], asked['method'], asked['reason'], asked.get('other')), (told['node'], other, 'asked', None))
                self.assertTrue(line_asked.endswith(': it was asked for'), line_asked)
        return told, line

    def expect(self, text, method, reason, words, *options, **more):
        told, line = self.explain(text, *options)
        self.assertEqual((told['method'], told['reason']), (method, reason))
        self.assertRegex(line, words)
        for key, value in more.items():
            self.assertEqual(told.get(key), value, told)

    def test_convolution(self):
        self.expect(convolution(32, 32, 32), 'winograd', 'faster', r'\(rms error 7e-07\): its estimated share of the time of direct: .*, less than 0\.9; direct: ',
                    error=7e-7, limit=.9, other='direct')
        self.expect(graph({'x': [1, 32, 32, 32], 'w': [3, 3, 32, 32]}, conv('y', 'x', 'w')), 'winograd', 'faster', 'less than 0\\.9; direct: ', other='direct')
        self.expect(convolution(2, 64, 64), 'direct', 'slower', "by direct: Winograd's estimated share of the time of direct: .*, not less than 0\\.9; ", error=None)
        self.expect(convolution(32, 3, 16), 'direct', 'narrow', "the fewer of channels and results: 3, less than a vector's lanes, 8; ", limit=8, **{'is': 3})
        for mode in ((), ('--op_select_implmode=high_precision',)):
            self.expect(convolution(32, 8, 1), 'one-result', 'one channel', 'one result channel leaves .* taps, .*: 9, at least 4$', *mode, **{'is': 9})
        self.expect(convolution(32, 32, 32), 'direct', 'mode', 'its implementation mode does not transform factors$', '--op_select_implmode=high_precision', other=None)

    def test_transposed_convolution(self):
        self.expect(transposed(2, 2), 'window-rows', 'side by side', 'its windows lie side by side: each result has one tap$')
        self.expect(transposed(3, 2), 'direct', 'overlap', 'its windows overlap or leave gaps; taps .*: 9, more than 1$')
        self.expect(transposed(3, 2, constant=False), 'phases', 'fewer taps', 'a product for each phase of its stride, .*: 0\.25, less than 0\\.75$',
                    limit=.75, other=None)
        self.expect(transposed(3, 1), 'direct', 'overlap', 'taps .*: 9, more than 1$')
        self.expect(transposed(5, 1, constant=False), 'direct', 'overlap', 'taps .*: 25, more than 1$')
        self.expect(transposed(3, 1, constant=False), 'direct', 'narrow', "the fewer of channels and results: 4, less than a vector's lanes, 8; ")
        self.expect(transposed(3, 1, side=32, constant=False, results=32, channels=32), 'winograd', 'faster', 'less than 0\\.9; direct: ', other='direct')
        self.expect(transposed(3, 2, side=1, constant=False), 'phases', 'fewer taps', 'less than 0\\.75$')

    def test_product(self):
        self.expect(graph({'x': [1, 16]}, weights('w', 16, 8), 'y = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}'),
                    'matrix-vector', 'one row', 'the left factor has one row: each weight is read once$')

    def test_one_row_of_what_had_a_choice(self):
        self.expect(convolution(1, 64, 64), 'direct', 'slower', 'not less than 0\\.9; ')
        self.expect(transposed(2, 2, side=1), 'window-rows', 'side by side', 'each result has one tap$')

    def test_block(self):
        self.expect(block(160), 'rows', 'traffic', 'estimated cycles of traffic to memory that it saves: .*, more than it costs, ', other='kernels')
        self.expect(block(16), 'kernels', 'little traffic', 'estimated cycles of traffic to memory that rows would save: 0, not more than they cost, ', other='rows')

    def test_squeeze_and_excitation(self):
        self.expect(excite(160), 'squeeze-excite', 'traffic', 'estimated cycles of traffic to memory that it saves: .*, more than it costs, ', other='kernels')
        self.expect(excite(16), 'kernels', 'little traffic', 'rows would save: 0, not more than they cost, 0; squeeze-excite: ', other='squeeze-excite')

    def test_attention(self):
        self.expect(attention(8), 'attention', 'many', 'attention: matrices: 8, at least 8; ', other='kernels')
        self.expect(attention(7), 'kernels', 'few', 'matrices, whose keys and values every thread would pack: 7, less than 8; ', other='attention')

    def test_shares_take_the_place_of_scores(self):
        """Of a tile's scores there is one local buffer: exponentials and shares are stored over them."""
        kernels = self.tool('compile', '-q', '--target', TARGET, '--emit', 'kernels', '-o', '-',
                            self.path('m.hir', attention(8).encode())).stdout.decode()
        self.assertEqual(len(re.findall(r'local b\d+ f32\[256\]', kernels)), 1, kernels)

    def test_parts_with_several_results(self):
        """A product with one row of a constant, beside one with the batch's rows."""
        text = '''hir 1
entry "" {
  input "x" = %x
  output "n" = %n
  output "r" = %r
  output "s" = %s
}

%x = Placeholder() {dtype=f32, shape=shape[4,3]}
%c = Const() {dtype=f32, value=tensor f32[4] {1.0, 2.0, 3.0, 4.0}}
%n = CheckNumerics(%x) {T=f32, message="m"}
%i = IdentityN(%x, %c, ^n) {T=[f32, f32]}
%r = Relu(%i) {T=f32}
%s = Neg(%i:1) {T=f32}
'''
        self.tool('run', '-q', '--batch-method=parts', self.path('m.hir', text.encode()), '-o', self.path('y.npz'))
        self.assertEqual(self.outputs(self.path('y.npz'))['s.npy'][2], [-1, -2, -3, -4])

    def test_pairs(self):
        """The error of the bfloat16 method is stated; nothing is run."""
        args = ('explain', '-q', '--target', 'x86-64-v4+bf16', '--policy=allow_mix_precision_bf16', '--format=json')
        told, = json.loads(self.tool(*args, self.path('m.hir', convolution(32, 64, 64).encode())).stdout)['methods']
        self.assertEqual((told['method'], told['error']), ('winograd-2x2', 3.8e-3))


if __name__ == '__main__':
    unittest.main(verbosity=2)
