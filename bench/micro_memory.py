"""Memory-bound kernels as graphs of one node, beside copying as many bytes."""
import json

from machine import run

HEAD = '''hir 1
source graphdef

entry "" {{
  input "x" = %x
  output "y" = %y
}}

%x = Placeholder() {{shape=shape[{shape}], dtype={type}}} : {type}[{shape}]
'''
WINDOW = ('padding="SAME", explicit_paddings=[], data_format="NHWC", T={type}')


def constant(name, type_, shape, value='0.5'):
    return f'%{name} = Const() {{value=tensor {type_}[{shape}] values 1 {{{value} ...}}, dtype={type_}}} : {type_}[{shape}]\n'


def chain(t, c):
    return (constant('a', t, c) + constant('b', t, c)
            + f'%m = Mul(%x, %a) {{T={t}}}\n%s = Add(%m, %b) {{T={t}}}\n%y = Relu(%s) {{T={t}}}\n')


def cast(to):
    return lambda t, c: f'%y = Cast(%x) {{SrcT={t}, DstT={to}, Truncate=false}}\n'


def layer_norm(t, c):
    return (constant('a', t, c) + constant('b', t, c)
            + f'%y = LayerNorm(%x, %a, %b) {{T={t}, epsilon=1e-06}}\n')


def softmax(t, c):
    return f'%y = Softmax(%x) {{T={t}}}\n'


def pool(op, size, stride):
    def nodes(t, c):
        window = WINDOW.format(type=t)
        return (f'%y = {op}(%x) {{ksize=[1, {size}, {size}, 1], strides=[1, {stride}, {stride}, 1], '
                f'{window}}}\n')
    return nodes


def depthwise(size):
    def nodes(t, c):
        return (constant('f', t, f'{size},{size},{c},1', '0.1') +
                f'%y = DepthwiseConv2dNative(%x, %f) {{strides=[1, 1, 1, 1], dilations=[1, 1, 1, 1], '
                f'{WINDOW.format(type=t)}}}\n')
    return nodes


# name, type, graph, channels, whether the other dimensions are those of an image, what bounds it in cache
KERNELS = [
    ('elementwise chain', 'f32', chain, 256, False, 'loads and stores of the first level'),
    ('elementwise chain', 'bf16', chain, 256, False, 'conversions: four operations a vector to widen, as many to round'),
    ('cast to bf16', 'f32', cast('bf16'), 256, False, 'loads'),
    ('cast to f32', 'bf16', cast('f32'), 256, False, 'stores'),
    ('layer norm', 'f32', layer_norm, 768, False, 'three passes over a row in the first level'),
    ('layer norm', 'bf16', layer_norm, 768, False, 'three passes over a row, and conversions'),
    ('softmax', 'f32', softmax, 1024, False, 'the arithmetic of exp: some 20 operations'),
    ('max pool 2x2 /2', 'f32', pool('MaxPool', 2, 2), 64, True, 'loads'),
    ('max pool 3x3 /1', 'f32', pool('MaxPool', 3, 1), 64, True, 'nine loads and comparisons a result'),
    ('average pool 3x3 /1', 'f32', pool('AvgPool', 3, 1), 64, True, 'nine loads and sums a result'),
    ('depthwise 3x3', 'f32', depthwise(3), 64, True, 'nine multiply-adds a result'),
    ('depthwise 3x3', 'bf16', depthwise(3), 64, True, 'nine multiply-adds a result, and conversions'),
]

OUT, IN = 64 << 20, 96 << 10  # bytes of the operand: out of the cache, and in its second level


def shape(t, channels, image, size):
    rows = size // (channels * (4 if t == 'f32' else 2))
    if not image:
        return f'{rows},{channels}', rows
    side = int(rows ** .5) // 2 * 2
    return f'1,{side},{side},{channels}', side * side


def copies(a, program, size):
    done = run([program, '--copy', str(size)], 1, a.wrap, check=True)
    ways = json.loads(done.stdout)
    return {k: v for k, v in ways.items() if k != 'bytes'}


def measure(a, folder, timed_kernels, program):
    """(results, lines of the report)."""
    results = []
    lines = ['## Memory-bound kernels', '',
             'Bytes are those of operands and results, each once.  A plain copy reads what it writes '
             'too; a streaming one does not.', '',
             '| kernel | in | us | GB/s | of a plain copy | of the fastest copy | bound in cache |',
             '| --- | --- | --- | --- | --- | --- | --- |']
    for name, t, nodes, channels, image, bound in KERNELS:
        for where, size in ('memory', OUT), ('cache', IN):
            dims, _ = shape(t, channels, image, size)
            path = f'{folder}/{len(results)}.hir'
            with open(path, 'w') as f:
                f.write(HEAD.format(shape=dims, type=t) + nodes(t, str(channels)))
            copy = copies(a, program, size)
            k = max(timed_kernels(a, path), key=lambda k: k['min_us'])
            rate = 1e-3 * k['bytes'] / k['min_us']
            results.append({'kernel': name, 'dtype': t, 'shape': dims, 'where': where,
                            'us': k['min_us'], 'gb_per_s': rate, 'copy': copy,
                            'of_plain': rate / max(copy['plain'], copy['memcpy']),
                            'of_fastest': rate / max(copy.values()), 'bound': bound})
            r = results[-1]
            lines.append(f'| {name} {t} {dims} | {where} | {r["us"]:.1f} | {rate:.1f} | '
                         f'{r["of_plain"]:.2f} | {r["of_fastest"]:.2f} | '
                         f'{bound if where == "cache" else ""} |')
    return results, lines + ['']
