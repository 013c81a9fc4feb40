"""The places where kernels of products and convolutions round to 16 bits.

Random graphs of a contraction, a bias, a residual and an activation, with numbers so short that all sums are exact in
float32.  One kernel rounds its result once, and at each Cast within it; separate kernels round after each op.  A
product that follows reads the rounded numbers, in whatever type they are stored.  Results must be these bits, on every
target that this machine runs.
"""
import json

import cases
import fusion_table

SEED, CASES = 20266, 10

ROOTS = ['Conv2D', 'Conv2D3x3', 'DepthwiseConv2dNative', 'Conv2DBackpropInput', 'MatMul', 'BatchMatMulV2']
CHANNELS = 24


def random_case(r):
    return {'root': ROOTS[int(r.integers(len(ROOTS)))], 'side': [int(i) for i in r.integers(3, 9, 2)],
            'columns': int(r.choice([1, 8, 24, 40])), 'batch': int(r.integers(1, 3)),
            'residual': bool(r.random() < .5), 'activation': ['relu', 'relu6', 'none'][int(r.integers(3))],
            'ends': ['cast', 'product', 'no'][int(r.integers(3))], 'dtype': ['bfloat16', 'float16'][int(r.integers(2))]}


def product(tf, c, x, w):
    """The contraction's result."""
    if c['root'] == 'Conv2D':
        return tf.nn.conv2d(x, w, 1, 'SAME')
    if c['root'] == 'Conv2D3x3':
        return tf.nn.conv2d(x, w, 2, 'SAME')
    if c['root'] == 'DepthwiseConv2dNative':
        return tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], 'SAME')
    if c['root'] == 'Conv2DBackpropInput':
        shape = [x.shape[0], 2 * x.shape[1], 2 * x.shape[2], c['columns']]
        return tf.nn.conv2d_transpose(x, w, shape, 2, 'SAME')
    return tf.matmul(x, w)


def project(tf, x, w):
    """A product that follows."""
    return tf.matmul(x, w) if x.shape.rank == 2 else tf.nn.conv2d(x, w[None, None], 1, 'SAME')


def shapes(c):
    """The shapes of the operands."""
    image, n = [c['batch'], *c['side'], CHANNELS], c['columns']
    return {'Conv2D': (image, [1, 1, CHANNELS, n]), 'Conv2D3x3': (image, [3, 3, CHANNELS, n]),
            'DepthwiseConv2dNative': (image, [3, 3, CHANNELS, 1]),
            'Conv2DBackpropInput': (image, [3, 3, n, CHANNELS]), 'MatMul': (image[2:], [CHANNELS, n]),
            'BatchMatMulV2': (image, [CHANNELS, n])}[c['root']]


def short(r, shape, limit):
    """Multiples of 1/8: products of two, and sums of 216 of them, have 24 bits at most, and seldom as few as 9 or 12."""
    return r.integers(-limit, limit, shape).astype(float) / 8


def layers(tf, r, c):
    """The graph as a function of its operands, its type, and a function that is applied to each op's result."""
    activation = {'relu6': tf.nn.relu6, 'relu': tf.nn.relu, 'none': lambda x: x}[c['activation']]
    x, w = (short(r, s, 60) for s in shapes(c))
    shape = product(tf, c, tf.constant(x), tf.constant(w)).shape
    bias, other, behind = short(r, shape[-1:], 60), short(r, shape, 60), short(r, [shape[-1], 8], 16)

    def build(x, other, as_type, each, cast, store):
        y = each(product(tf, c, x, tf.constant(w, as_type)))
        y = each(tf.nn.bias_add(cast(y), tf.constant(bias, as_type)))
        y = each(y + other) if c['residual'] else y
        y = activation(y)
        return project(tf, store(y), tf.constant(behind, as_type)) if c['ends'] == 'product' else y
    return build, {'x': x, 'other': other}


def graph_of(tf, r, c):
    """GraphDef, feeds, and the expected results of one kernel and of separate kernels."""
    build, feeds = layers(tf, r, c)
    dtype, wide = tf.as_dtype(c['dtype']), tf.float32 if c['ends'] == 'cast' else tf.as_dtype(c['dtype'])

    def low(x):
        return tf.cast(tf.cast(x, dtype), x.dtype)

    def same(x):
        return x
    with tf.Graph().as_default() as g:
        inputs = {i: tf.compat.v1.placeholder(dtype, x.shape, i) for i, x in feeds.items()}
        inputs = {i: tf.cast(x, wide) for i, x in inputs.items()} if c['ends'] == 'cast' else inputs
        y = build(*inputs.values(), wide, same, low if c['ends'] == 'cast' else same, same)
        tf.identity(tf.cast(y, dtype), 'y')
        proto = g.as_graph_def()
    exact = [tf.constant(x, tf.float64) for x in feeds.values()]
    once = low(build(*exact, tf.float64, same, low if c['ends'] == 'cast' else same, low))
    each = once if c['ends'] == 'cast' else low(build(*exact, tf.float64, low, same, low))
    return proto, feeds, once.numpy(), each.numpy()


def check(tf, r, c, targets, folder):
    proto, feeds, once, each = graph_of(tf, r, c)
    cases.given(folder, proto, feeds, tf.as_dtype(c['dtype']).as_numpy_dtype)
    with open(f'{folder}/off.json', 'w') as f:
        json.dump({'Switch': {'UBFusion': {name: 'off' for name in fusion_table.rounding_once()}}}, f)
    for target in targets:
        for name, expected, options in (('one kernel', once, {}),
                                        ('separate kernels', each, {'fusion_switch_file': f'{folder}/off.json'})):
            y = cases.computed(folder, feeds, c['dtype'], target=target, conv_method='direct', **options)
            differ = int((y.astype(float) != expected).sum())
            if differ:
                yield f'{target}, {name}: {differ} of {y.size} differ'
