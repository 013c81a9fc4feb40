"""Memory-bound kernels as graphs of one node, beside their bounds.

Out of cache a kernel can be as fast as copying that reads and writes the same amounts, unless its arithmetic takes
longer; its own bound is then its rate with all operands in the second level of cache."""
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
    return (constant('a', t, c) + constant('b', t, c, '0.25')
            + f'%m = Mul(%x, %a) {{T={t}}}\n%s = Add(%m, %b) {{T={t}}}\n%y = Relu(%s) {{T={t}}}\n')


def cast(to):
    return lambda t, c: f'%y = Cast(%x) {{SrcT={t}, DstT={to}, Truncate=false}}\n'


def layer_norm(t, c):
    return (constant('a', t, c) + constant('b', t, c, '0.25')
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


# name, type, graph, channels, whether the other dimensions are those of an image, bytes read for
# each byte written, the bound in cache
KERNELS = [
    ('elementwise chain', 'f32', chain, 256, False, 1, 'the second level: 30 bytes a cycle'),
    ('elementwise chain', 'bf16', chain, 256, False, 1, 'widening, and three roundings, on two pipes'),
    ('cast to bf16', 'f32', cast('bf16'), 256, False, 2, 'the second level: 30 bytes a cycle'),
    ('cast to f32', 'bf16', cast('f32'), 256, False, .5, 'the second level'),
    ('layer norm', 'f32', layer_norm, 768, False, 1, 'five loads and a store a vector'),
    ('layer norm', 'bf16', layer_norm, 768, False, 1, 'widening in three passes'),
    ('softmax', 'f32', softmax, 1024, False, 1, 'multipliers: 11 of exp, 3 of the quotient'),
    ('max pool 2x2 /2', 'f32', pool('MaxPool', 2, 2), 64, True, 4, 'the second level'),
    ('max pool 3x3 /1', 'f32', pool('MaxPool', 3, 1), 64, True, 1, 'nine comparisons and five for NaN'),
    ('average pool 3x3 /1', 'f32', pool('AvgPool', 3, 1), 64, True, 1, 'nine additions, a division'),
    ('depthwise 3x3', 'f32', depthwise(3), 64, True, 1, 'nine multiply-adds'),
    ('depthwise 3x3', 'bf16', depthwise(3), 64, True, 1, 'nine multiply-adds, and widening'),
]

# Bytes: results larger than the last cache, operands in the second level; and the number of rounds,
# in which the measurements alternate, since the speed of memory changes from one second to the
# next.
OUT, IN, ROUNDS = 64 << 20, 96 << 10, 3


def shape(t, channels, image, size):
    rows = size // (channels * (4 if t == 'f32' else 2))
    if not image:
        return f'{rows},{channels}'
    side = int(rows ** .5) // 2 * 2
    return f'1,{side},{side},{channels}'


def copy_rate(a, program, read, written):
    done = run([program, '--seconds', str(a.seconds), '--copy', f'{read},{written}'], 1, a.wrap,
               check=True)
    return max(v for k, v in json.loads(done.stdout).items() if k != 'bytes')


def kernel_rate(a, path, timed_kernels):
    """(us, GB/s) of the longest kernel; operands and results count once each."""
    k = max(timed_kernels(a, path), key=lambda k: k['min_us'])
    return k['min_us'], 1e-3 * k['bytes'] / k['min_us']


def measure_one(a, folder, timed_kernels, program, kernel):
    name, t, nodes, channels, image, reads, bound = kernel
    operand = OUT * max(1, reads // 2)
    r = {'kernel': name, 'dtype': t, 'gb_per_s': 0, 'copy': 0, 'in_cache': 0, 'bound': bound}
    for where, size in ('far', operand), ('near', IN):
        r[where] = shape(t, channels, image, size)
        with open(f'{folder}/{where}.hir', 'w') as f:
            f.write(HEAD.format(shape=r[where], type=t) + nodes(t, str(channels)))
    for _ in range(ROUNDS):
        r['copy'] = max(r['copy'], copy_rate(a, program, operand, int(operand / reads)))
        us, rate = kernel_rate(a, f'{folder}/far.hir', timed_kernels)
        if rate > r['gb_per_s']:
            r['us'], r['gb_per_s'] = us, rate
        r['in_cache'] = max(r['in_cache'], kernel_rate(a, f'{folder}/near.hir', timed_kernels)[1])
    r['limit'] = min(r['copy'], r['in_cache'])
    r['of_limit'] = r['gb_per_s'] / r['limit']
    return r


def measure(a, folder, timed_kernels, program):
    """(results, lines of the report)."""
    lines = ['## Memory-bound kernels', '',
             'GB/s of operands and results, each counted once.  *copy*: the fastest copying that reads and '
             'writes in the same proportion; *in cache*: the same kernel, its data in the second level, '
             'where arithmetic or that level bounds it; *bound*: the lesser of the two.', '',
             '| kernel | out of cache us | GB/s | copy | in cache | bound | of it | bound in cache by |',
             '| --- | --- | --- | --- | --- | --- | --- | --- |']
    results = [measure_one(a, folder, timed_kernels, program, k) for k in KERNELS]
    for r in results:
        lines.append(f'| {r["kernel"]} {r["dtype"]} {r["far"]} | {r["us"]:.0f} | {r["gb_per_s"]:.1f} | '
                     f'{r["copy"]:.1f} | {r["in_cache"]:.1f} | {r["limit"]:.1f} | {r["of_limit"]:.2f} | '
                     f'{r["bound"]} |')
    return results, lines + ['']
