"""Memory-bound work in float16 beside float32, in which each weight, or row of a table, is read once."""
import random

HEAD = '''hir 1
source graphdef

entry "" {{
{inputs}  output "y" = %y
}}

'''
WEIGHTS = 'values 1 {0.01 ...}'


def graph(inputs, nodes):
    """inputs: (name, type, shape)."""
    head = HEAD.format(inputs=''.join(f'  input "{n}" = %{n}\n' for n, _, _ in inputs))
    return head + ''.join(f'%{n} = Placeholder() {{shape=shape[{s}], dtype={t}}} : {t}[{s}]\n'
                          for n, t, s in inputs) + nodes


def constant(name, type_, shape, values=WEIGHTS):
    return f'%{name} = Const() {{value=tensor {type_}[{shape}] {values}, dtype={type_}}} : {type_}[{shape}]\n'


def integer(name, value):
    return constant(name, 'i32', '', f'values 1 {{{value}}}')


def dense(t, size):
    return graph([('x', t, f'1,{size}')],
                 constant('w', t, f'{size},{size}') + constant('b', t, size)
                 + f'%m = MatMul(%x, %w) {{T={t}, transpose_a=false, transpose_b=false}}\n'
                   f'%s = BiasAdd(%m, %b) {{T={t}, data_format="NHWC"}}\n%y = Relu(%s) {{T={t}}}\n')


def lstm_step(t, units):
    """One step of a cell: [x, h] times the weights of all gates, and the elementwise ops after it."""
    inputs = [(n, t, f'1,{units}') for n in ('x', 'h', 'c')]
    return graph(inputs,
                 constant('w', t, f'{2 * units},{4 * units}') + constant('b', t, 4 * units)
                 + integer('one', 1)
                 + f'%xh = ConcatV2(%x, %h, %one) {{T={t}, Tidx=i32, N=2}}\n'
                   f'%m = MatMul(%xh, %w) {{T={t}, transpose_a=false, transpose_b=false}}\n'
                   f'%g = BiasAdd(%m, %b) {{T={t}, data_format="NHWC"}}\n'
                   f'%p = Split(%one, %g) {{T={t}, num_split=4}} : ?[*], ?[*], ?[*], ?[*]\n'
                   f'%i = Sigmoid(%p) {{T={t}}}\n%n = Tanh(%p:1) {{T={t}}}\n'
                   f'%f = Sigmoid(%p:2) {{T={t}}}\n%o = Sigmoid(%p:3) {{T={t}}}\n'
                   f'%fc = Mul(%f, %c) {{T={t}}}\n%in = Mul(%i, %n) {{T={t}}}\n'
                   f'%next = Add(%fc, %in) {{T={t}}}\n%th = Tanh(%next) {{T={t}}}\n'
                   f'%y = Mul(%o, %th) {{T={t}}}\n')


def embedding(t, rows, width, taken):
    picked = random.Random(1).sample(range(rows), taken)
    ids = f'values {taken} {{{", ".join(map(str, picked))}}}'
    return graph([('x', t, f'{rows},{width}')],
                 constant('i', 'i32', taken, ids) + integer('axis', 0)
                 + '%y = GatherV2(%x, %i, %axis) '
                   f'{{Tparams={t}, Tindices=i32, Taxis=i32, batch_dims=0}}\n')


# name, graph by type, bytes read from beyond the cache, by bytes of an element
CASES = [
    ('dense 8192 -> 8192, batch 1', lambda t: dense(t, 8192), 8192 * 8192),
    ('LSTM step, 2048 units, batch 1', lambda t: lstm_step(t, 2048), 4096 * 8192),
    ('embedding, 16384 of 65536 rows of 768', lambda t: embedding(t, 65536, 768, 16384),
     2 * 16384 * 768),
]
TARGET = 1.3


def measure(folder, timed_kernels):
    """(results, lines of the report)."""
    results = []
    lines = ['## Float16 where memory bounds', '',
             f'Target: {TARGET} times the speed of float32.', '',
             '| work | float32 us | GB/s | float16 us | GB/s | speed |',
             '| --- | --- | --- | --- | --- | --- |']
    for i, (name, of_type, elements) in enumerate(CASES):
        us, rate = {}, {}
        for t, size in ('f32', 4), ('f16', 2):
            path = f'{folder}/half{i}.{t}.hir'
            with open(path, 'w') as f:
                f.write(of_type(t))
            us[t] = sum(k['min_us'] * k['uses'] for k in timed_kernels(path))
            rate[t] = 1e-3 * size * elements / us[t]
        results.append({'work': name, 'us': us, 'gb_per_s': rate, 'speed': us['f32'] / us['f16']})
        lines.append(f'| {name} | {us["f32"]:.0f} | {rate["f32"]:.1f} | {us["f16"]:.0f} | '
                     f'{rate["f16"]:.1f} | {us["f32"] / us["f16"]:.2f} |')
    return results, lines + ['']
