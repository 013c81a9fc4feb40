"""Expansion, depthwise and projecting convolution, row by row in one kernel and each in one of its own.

Random graphs: an expansion by 1 x 1 or, from few channels, by 3 x 3 with stride 2; a depthwise convolution of each
size, stride and padding; mostly a projection, sometimes with a residual, or with a depthwise convolution and a
projection after it, so that one block's projection could be the expansion of another.  Both methods must give the
same bits, with one thread and with two, on every target that this machine runs, within their errors of TensorFlow
in float64.
"""
import cases

SEED, CASES = 20264, 20

# Three consecutive sums and roundings; measured 5e-7, and 1.3 times the rounding.
ROUNDINGS = 3


def random_case(r):
    stem = r.random() < .2
    size, stride = int(r.choice([1, 2, 3, 3, 3, 4, 5, 5])), int(r.choice([1, 1, 2, 3]))
    side = [int(i) for i in r.integers(9, 40, 2)]
    padding = ['SAME', 'VALID', [int(i) for i in r.integers(0, 4, 4)]][int(r.integers(3))]
    return {'shape': [int(r.integers(1, 4)), *side, 3 if stem else int(r.choice([1, 4, 16, 24, 33]))],
            'stem': stem, 'size': size, 'stride': stride, 'padding': padding,
            'wide': int(r.choice([1, 5, 16, 24, 40, 72, 144])),
            'project': int(r.choice([0, 1, 8, 24, 33])) if r.random() < .9 else -1,
            'activation': ['relu6', 'swish', 'none'][int(r.integers(3))],
            'dtype': ['float32', 'float32', 'bfloat16', 'float16'][int(r.integers(4))],
            'chained': r.random() < .3}


def explicit(padding):
    return padding if isinstance(padding, str) else [[0, 0], padding[:2], padding[2:], [0, 0]]


def layers(tf, r, c):
    """The graph as a function of its input and type, with weights of its own."""
    activation = {'relu6': tf.nn.relu6, 'swish': lambda x: x * tf.sigmoid(x), 'none': lambda x: x}
    dtype, channels, wide, k = tf.as_dtype(c['dtype']), c['shape'][3], c['wide'], c['size']
    at = 3 if c['stem'] else 1
    project = channels if c['project'] < 0 else c['project']

    def weights(fan, *shape):
        return cases.rounded(r.normal(0, fan ** -.5, shape), dtype)
    w = [weights(at * at * channels, at, at, channels, wide), weights(k * k, k, k, wide, 1),
         weights(wide, 1, 1, wide, project), weights(1, wide), weights(1, wide),
         weights(9, 3, 3, max(project, 1), 1), weights(max(project, 1), 1, 1, max(project, 1), 8)]

    def build(x, as_type):
        f = [tf.constant(a, as_type) for a in w]
        y = tf.nn.conv2d(x, f[0], 2 if c['stem'] else 1, 'SAME')
        y = activation[c['activation']](tf.nn.bias_add(y, f[3]))
        y = tf.nn.depthwise_conv2d(y, f[1], [1, c['stride'], c['stride'], 1], explicit(c['padding']))
        y = activation[c['activation']](tf.nn.bias_add(y, f[4]))
        if project:
            y = tf.nn.conv2d(y, f[2], 1, 'SAME')
            if c['chained']:
                y = tf.nn.depthwise_conv2d(y, f[5], [1, 1, 1, 1], 'SAME')
                return tf.nn.conv2d(activation[c['activation']](y), f[6], 1, 'SAME')
        return y + x if y.shape == x.shape else y
    return build


def graph_of(tf, r, c):
    """GraphDef, feeds, the exact result, and whether one kernel can compute it."""
    dtype = tf.as_dtype(c['dtype'])
    build = layers(tf, r, c)
    x = cases.rounded(r.normal(0, 1, c['shape']), dtype)
    with tf.Graph().as_default() as g:
        y = build(tf.compat.v1.placeholder(dtype, c['shape'], 'x'), dtype)
        tf.identity(y, 'y')
        proto = g.as_graph_def()
        depthwise = next(o for o in g.get_operations() if o.type == 'DepthwiseConv2dNative')
        sides = [*depthwise.inputs[0].shape[1:3], *depthwise.outputs[0].shape[1:3]]
    one = min(sides) >= 5 and c['size'] >= c['stride'] and (c['stem'] or c['shape'][3] > 0)
    return proto, {'x': x}, build(tf.constant(x, tf.float64), tf.float64).numpy(), one


def check(tf, r, c, targets, folder):
    proto, feeds, exact, one = graph_of(tf, r, c)
    cases.given(folder, proto, feeds, tf.as_dtype(c['dtype']).as_numpy_dtype)
    methods = cases.methods(folder, '--block-method', 'rows')
    if methods != ['rows'] * one and (one or not c['chained']):  # the layers after it may be a block by themselves
        yield f'the methods are {methods}'
    yield from cases.problems_of_blocks(folder, feeds, c['dtype'], targets,
                                        lambda y: cases.error_of_block(y, exact, c['dtype'], ROUNDINGS))
