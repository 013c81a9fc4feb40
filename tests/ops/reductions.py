"""Cases of reductions, scans, matrix products and normalisations."""
import numpy as np

from case import DTYPES, LOW, Case, Type, flushed, tensorflow_op
from optable import FLOATS, INTEGERS
from values import SHAPES, edges, pick, random

AXES = [((7,), [0], False), ((3, 5), [1], False), ((3, 5), [0], True), ((5, 7, 3), [0, 2], False),
        ((5, 7, 3), [-1], True), ((2, 3, 4, 5), [1, 2], True), ((2, 3, 4, 5), [1, 2], False),
        ((2, 3, 4, 5), [0, 1, 2, 3], False), ((1, 1, 65), [2], False), ((2, 0, 3), [1], False),
        ((3, 5), [], False), ((257,), [0], True), ((4, 1), [0, 1], True), ((33, 17), [0], False)]


def sums(tag):
    """The tolerance of sums of a few hundred terms in undefined order."""
    return {'f32': dict(slack=2e-6), 'f64': dict(slack=1e-14), 'f16': dict(ulps=1, slack=1e-5),
            'bf16': dict(ulps=1, slack=1e-5)}.get(tag, {})


def reduce(r, rows):
    for op in rows:
        if op.name == 'L2Loss':
            for tag in op.types['T']:
                for shape in pick(r, SHAPES, 3):
                    yield Case('L2Loss', [random(r, tag, shape)], **sums(tag))
            continue
        for tag in op.types.get('T', ['bool']):
            more = {} if op.name in ('Max', 'Min') else sums(tag)
            for shape, axes, keep in pick(r, AXES, 4):
                x = random(r, tag, shape, -3, 3)
                if op.name == 'Prod' and tag in FLOATS:
                    x = (x / 2 + np.sign(x)).astype(x.dtype)
                if op.name == 'Mean' and tag in INTEGERS and not 0 < x.size < 256:
                    continue
                index = r.choice([np.int32, np.int64])
                yield Case(op.name, [x, np.array(axes, index)], {'keep_dims': keep}, **more)
            if op.name in ('Max', 'Min') and tag in FLOATS:
                x = random(r, tag, (4, 17))
                x[1, 3], x[2, 0], x[3, 16] = np.inf, -np.inf, -np.inf
                yield Case(op.name, [x, np.array([1], np.int32)], {'keep_dims': False})
                # A NaN anywhere makes the result NaN: in each lane, in odd and even steps, in the
                # remainder after whole vectors.
                x = random(r, tag, (71, 75))
                x[np.arange(71), r.permutation(75)[:71]] = np.nan
                x[r.choice(71, 9, False)] = 1
                for axis in 0, 1:
                    yield Case(op.name, [x, np.array([axis], np.int32)], {'keep_dims': False})


def arg_reduce(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape, axis in pick(r, [((7,), 0), ((3, 5), 1), ((3, 5), 0), ((5, 7, 3), 1),
                                        ((2, 3, 4, 5), -1), ((4, 1), 1), ((3, 65), -1)], 4):
                x = random(r, tag, shape, -3, 3)
                if tag in FLOATS:
                    x = np.round(x)  # with ties: the first one counts
                yield Case(op.name, [x, np.array(axis, np.int32)],
                           {'output_type': Type(r.choice(['i32', 'i64']))})


def cumsum(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape, axis in pick(r, [((7,), 0), ((3, 5), 1), ((5, 7, 3), 0), ((2, 3, 4, 5), -2),
                                        ((65,), 0), ((3, 0), 1)], 3):
                x = random(r, tag, shape, -3, 3)
                yield Case(op.name, [x, np.array(axis, np.int32)],
                           {'exclusive': bool(r.integers(2)), 'reverse': bool(r.integers(2))},
                           **sums(tag))


def top_k(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape, k in (((9,), 3), ((3, 17), 17), ((2, 3, 5), 1), ((4, 6), 0)):
                x = random(r, tag, shape, -5, 5)
                if op.name == 'TopKV2':
                    yield Case(op.name, [x, np.array(k, np.int32)], {'sorted': True, 'index_type': Type(r.choice(['i16', 'i32', 'i64']))},
                               outputs=(0, 1))
                else:  # its kernel is broken in TensorFlow 2.21
                    yield Case(op.name, [x], {'sorted': True, 'k': k}, outputs=(0, 1),
                               oracle=top_k_oracle)
            # the ends of the range, and neighbours that are equal as float64
            e = edges(tag)
            e = e[~np.isnan(e.astype(np.float64))]
            if op.name == 'TopKV2':
                yield Case(op.name, [np.tile(e, (2, 1)), np.array(len(e) // 2, np.int32)],
                           {'sorted': True}, outputs=(0, 1))


def top_k_oracle(inputs, attrs):
    return tensorflow_op('TopKV2', ['input', 'k'], [inputs[0], np.array(attrs['k'], np.int32)],
                         {'sorted': True})


def matmul(r, rows):
    for op in rows:
        if op.name == '_FusedMatMul':
            yield from fused_matmul(r, op)
        elif op.name == 'MatMul':
            for tag in op.types['T']:
                for m, k, n in pick(r, [(3, 5, 7), (1, 17, 1), (16, 16, 16), (5, 0, 3), (0, 4, 2),
                                        (33, 65, 19), (1, 300, 10), (64, 31, 48)], 4):
                    ta, tb = (bool(r.integers(2)) for _ in range(2))
                    a = random(r, tag, (k, m) if ta else (m, k))
                    b = random(r, tag, (n, k) if tb else (k, n))
                    yield Case('MatMul', [a, b], {'transpose_a': ta, 'transpose_b': tb},
                               **sums(tag))
        else:
            yield from batch_matmul(r, op)


BATCHES = [((2,), (2,)), ((3, 2), (3, 2)), ((), ())]
BROADCAST = BATCHES + [((2, 1), (3,)), ((1,), (4,)), ((), (3,)), ((0,), (1,))]


def batch_matmul(r, op):
    v3 = op.name == 'BatchMatMulV3'
    batches = BATCHES if op.name == 'BatchMatMul' else BROADCAST
    for tag in op.types['Ta' if v3 else 'T']:
        if v3 and tag not in op.types['Tout']:
            continue  # mixed types: TensorFlow has kernels on other devices only
        for ba, bb in pick(r, batches, 3):
            m, k, n = ((int(v) for v in r.integers(1, 20, 3)))
            x, y = (bool(r.integers(2)) for _ in range(2))
            a = random(r, tag, ba + ((k, m) if x else (m, k)))
            b = random(r, tag, bb + ((n, k) if y else (k, n)))
            attrs = {'adj_x': x, 'adj_y': y}
            if v3:
                attrs['Tout'] = Type(tag)
            yield Case(op.name, [a, b], attrs, **sums(tag))


# Equations of Keras' layers, and one of each kind.
EQUATIONS = [
    'abc,cde->abde', 'abcd,cde->abe', 'aecd,abcd->acbe', 'acbe,aecd->abcd', 'abc,cd->abd',
    'ab->ba', 'abc->b', 'ab->', '->', 'a,a->', 'a,b->ab', ',ab->ba', 'ab,ab->ab', 'ab,ba->ab', 'ab,b->a',
    'abc,bd->d', 'ab,cd->', 'ab,cd->bd', 'abc,abc->bc', '...ab,...bc->...ac', '...ab,bc->...ac',
    'ab...,b...->...a', '...,...->...', 'a...->...a', 'a...b,...b->a...', 'aa->a', 'abab->ba', 'aa->',
    'aabc,cbb->ab', '12,23->13', 'ab->...ab', 'aab...,b...->...a']
WRONG_EQUATIONS = ['ab,bc', 'ab,bc->ac->a', 'ab, bc->ac', 'ab,b->a', '...b,bc->c', 'a.b,bc->ac',
                   'ab,bc,cd->ad', '']


def random_equation(r):
    """Two operands that share some labels, sometimes with an ellipsis; a result with some of the labels."""
    labels = list(r.permutation(list('abcdefg'))[:r.integers(1, 6)])
    terms = [list(r.permutation(labels)[:r.integers(0, min(len(labels), 4) + 1)]) for _ in range(2)]
    used = [l for l in labels if l in terms[0] + terms[1]]
    out = list(r.permutation(used)[:r.integers(0, len(used) + 1)])
    if r.integers(4) == 0:
        for t in r.integers(0, 2), 2:
            s = (terms + [out])[t]
            s.insert(r.integers(0, len(s) + 1), '...')
    a, b, c = (''.join(t) for t in (*terms, out))
    return f'{a},{b}->{c}'


def equation_shapes(r, equation):
    sizes = {l: int(r.choice([1, 2, 3, 5, 8])) for l in sorted(set(equation))}
    if r.integers(12) == 0:
        sizes[r.choice(sorted(sizes))] = 0
    wide = [int(v) for v in r.integers(2, 5, 2)]
    for term in equation.split('->')[0].split(','):
        before, dots, after = term.partition('...')
        kept = wide[int(r.integers(0, 3)):] if dots else []
        yield (*(sizes[l] for l in before), *(d if r.integers(3) else 1 for d in kept),
               *(sizes[l] for l in after))


def einsum(r, rows):
    for op in rows:
        for tag in [*FLOATS, 'i32', 'i64']:
            for equation in EQUATIONS + [random_equation(r) for _ in range(40)]:
                xs = [random(r, tag, s) for s in equation_shapes(r, equation)]
                constant = ('inputs',) if r.integers(6) == 0 else ()
                yield Case('Einsum', [xs], {'equation': equation}, settings=constant,
                           zero_signs=False, **sums(tag))
        for equation in WRONG_EQUATIONS:
            yield Case('Einsum', [[random(r, 'f32', (3, 3)) for _ in range(2)]],
                       {'equation': equation}, fails=True)


ACTIVATIONS = {
    '': lambda x: x,
    'Relu': lambda x: np.maximum(x, 0),
    'Relu6': lambda x: np.clip(x, 0, 6),
    'Elu': lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    'Tanh': np.tanh,
    'Sigmoid': lambda x: 1 / (1 + np.exp(-x)),
    'LeakyRelu': lambda x: np.where(x > 0, x, x * np.float64(np.float32(.2))),
}


def fused_matmul(r, op):
    def oracle(inputs, attrs):
        a, b, (bias,) = inputs[0], inputs[1], inputs[2]
        a, b, c = (v.astype(np.float64) for v in (a, b, bias))
        a, b = a.T if attrs['transpose_a'] else a, b.T if attrs['transpose_b'] else b
        act = attrs['fused_ops'][1] if len(attrs['fused_ops']) > 1 else ''
        return [flushed(ACTIVATIONS[act](a @ b + c).astype(inputs[0].dtype))]
    for tag in op.types['T']:
        for act in ACTIVATIONS:
            ta, tb = (bool(r.integers(2)) for _ in range(2))
            m, k, n = ((int(v) for v in r.integers(1, 40, 3)))
            attrs = {'transpose_a': ta, 'transpose_b': tb, 'epsilon': 0.,
                     'fused_ops': ['BiasAdd'] + [act] * bool(act)}
            if act == 'LeakyRelu':
                attrs['leakyrelu_alpha'] = float(np.float32(.2))
            # In low types, the value before the activation is rounded.
            more = sums(tag) if tag == 'f32' else dict(ulps=2, slack=2e-2)
            yield Case(op.name, [random(r, tag, (k, m) if ta else (m, k)) / DTYPES[tag].type(4),
                                 random(r, tag, (n, k) if tb else (k, n)) / DTYPES[tag].type(4),
                                 [random(r, tag, (n,))]], attrs, oracle=oracle, **more)


def softmax(r, rows):
    for op in rows:
        for tag in op.types['T']:
            more = {'f32': dict(ulps=8, slack=1e-6), 'f64': dict(ulps=64, slack=1e-13)}.get(
                tag, dict(ulps=1, slack=1e-5))
            for shape in pick(r, [(7,), (3, 5), (1, 17), (5, 7, 3), (2, 2, 3, 65), (0, 4), (3, 1),
                                  (4, 300)], 4):
                yield Case(op.name, [random(r, tag, shape)], exact_in='f64', **more)
            large = np.array([[1000, 999, -1000, 0], [-1e4, -1e4, -1e4, -1e4]]).astype(DTYPES[tag])
            yield Case(op.name, [large], exact_in='f64', **more)
            odd = np.array([[1, -np.inf, 3, 0], [1, np.nan, 2, 3], [1, np.inf, 2, 3]]).astype(
                DTYPES[tag])
            yield Case(op.name, [odd], exact_in='f64', **more)


def batch_norm(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for u in op.types.get('U', [tag]):
                if u != 'f32':
                    continue  # TensorFlow keeps statistics in float32
                volumes = (((2, 3, 2, 5, 6), 'NDHWC'), ((2, 4, 3, 2, 4), 'NCDHW')) if op.name.endswith('V3') else ()
                for shape, layout in (((2, 5, 7, 3), 'NHWC'), ((1, 3, 2, 17), 'NHWC'),
                                      ((2, 3, 5, 7), 'NCHW'), *volumes):
                    yield batch_norm_case(r, op, tag, shape, layout)
                    # With constant moments it becomes a product and a sum.
                    yield batch_norm_case(r, op, tag, shape, layout, ('scale', 'offset', 'mean', 'variance'))
                    if op.name != '_FusedBatchNormEx':
                        yield from batch_moments(r, op, tag, shape, layout)


def over_channels(v, layout):
    """One number for each channel, so that it broadcasts to tensors of this layout."""
    return v.reshape(-1, *[1] * (len(layout) - 1 - layout.index('C')))


def batch_norm_case(r, op, tag, shape, layout, settings=None):
    channels = shape[layout.index('C')]
    scale, offset, mean = (random(r, 'f32', (channels,)) for _ in range(3))
    variance = np.abs(random(r, 'f32', (channels,))) + np.float32(.1)
    attrs = {'epsilon': float(np.float32(1e-3)), 'is_training': False, 'data_format': layout}
    inputs = [random(r, tag, shape), scale, offset, mean, variance]
    activation = ''
    if op.name == '_FusedBatchNormEx':
        activation = str(r.choice(['Identity', 'Relu']))
        attrs |= {'activation_mode': activation, 'num_side_inputs': 0}
        inputs.append([])

    def oracle(inputs, attrs):
        s, o, m, v = (i.astype(np.float64) for i in inputs[1:5])
        s, o, m, v = (over_channels(i, layout) for i in (s, o, m, v))
        y = (inputs[0].astype(np.float64) - m) * s / np.sqrt(v + attrs['epsilon']) + o
        return [flushed((np.maximum(y, 0) if activation == 'Relu' else y).astype(
            inputs[0].dtype))]
    more = dict(slack=2e-6) if tag == 'f32' else dict(ulps=1, slack=1e-4)
    return Case(op.name, inputs, attrs, oracle=oracle, settings=settings, **more)


def batch_moments(r, op, tag, shape, layout):
    """Batch normalisation in training: all five results; V3 moves the running moments by a factor."""
    c = shape[layout.index('C')]
    axes = tuple(i for i, axis in enumerate(layout) if axis != 'C')
    count = np.prod(shape) / c

    def across(v):
        return over_channels(v, layout)

    def oracle(inputs, attrs):
        s, o, m, v = (i.astype(np.float64) for i in inputs[1:5])
        x, f = inputs[0].astype(np.float64), attrs.get('exponential_avg_factor', 1)
        mean, variance = x.mean(axes), x.var(axes)
        y = (x - across(mean)) * across(s / np.sqrt(variance + attrs['epsilon'])) + across(o)
        unbiased = variance * count / max(count - 1, 1)
        moments = [mean, unbiased] if f == 1 else [(1 - f) * m + f * mean, (1 - f) * v + f * unbiased]
        return [flushed(y.astype(inputs[0].dtype))] + [a.astype(np.float32) for a in moments + [mean, variance]]
    for factor in (1., .25):
        attrs = {'epsilon': float(np.float32(1e-3)), 'is_training': True, 'data_format': layout}
        if factor != 1:
            attrs['exponential_avg_factor'] = factor
        running = [random(r, 'f32', (c if factor != 1 else 0,)) for _ in range(2)]
        more = dict(slack=4e-6) if tag == 'f32' else dict(ulps=1, slack=1e-3)
        yield Case(op.name, [random(r, tag, shape), random(r, 'f32', (c,)), random(r, 'f32', (c,)), *running], attrs,
                   outputs=(0, 1, 2, 3, 4), oracle=oracle, **more)


def layer_norm(r, rows):
    def oracle(inputs, attrs):
        x, s, o = (i.astype(np.float64) for i in inputs)
        m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return [flushed(((x - m) / np.sqrt(v + attrs['epsilon']) * s + o).astype(
            inputs[0].dtype))]
    for tag in rows[0].types['T']:
        for shape in ((3, 17), (2, 5, 64), (1, 1, 300)):
            more = {'f32': dict(slack=4e-6), 'f64': dict(slack=1e-12)}.get(
                tag, dict(ulps=1, slack=1e-4))
            yield Case('LayerNorm', [random(r, tag, shape)] + [random(r, tag, shape[-1:])
                                                               for _ in range(2)],
                       {'epsilon': float(np.float32(1e-5))}, oracle=oracle, **more)


def rms_norm(r, rows):
    def oracle(inputs, attrs):
        x, s = (i.astype(np.float64) for i in inputs)
        return [flushed((x / np.sqrt((x * x).mean(-1, keepdims=True) + attrs['epsilon']) * s).astype(inputs[0].dtype))]
    for tag in rows[0].types['T']:
        for shape in ((3, 17), (2, 5, 64), (1, 1, 300)):
            more = {'f32': dict(slack=4e-6), 'f64': dict(slack=1e-12)}.get(
                tag, dict(ulps=1, slack=1e-4))
            yield Case('RmsNorm', [random(r, tag, shape), random(r, tag, shape[-1:])],
                       {'epsilon': float(np.float32(1e-5))}, oracle=oracle, **more)


def lrn(r, rows):
    for tag in rows[0].types['T']:
        for shape, radius in (((1, 3, 3, 7), 2), ((2, 1, 5, 17), 5), ((1, 2, 2, 1), 1)):
            yield Case('LRN', [random(r, tag, shape)],
                       {'depth_radius': radius, 'bias': 1., 'alpha': float(np.float32(.25)),
                        'beta': .5 if radius == 2 else .75},
                       **(dict(slack=4e-6) if tag not in LOW else dict(ulps=1, slack=1e-5)))
