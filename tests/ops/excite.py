"""Squeeze and excitation with the convolution after it, in one kernel and each in one of its own.

Random graphs: the mean of an image, or of the image and a value for each channel; two 1 x 1 convolutions with
activations; the image scaled by channel, sometimes with further ops, in either order of operands; a 1 x 1
convolution, mostly with a bias.  Both methods must give the same bits, with one thread and with two, on every
target that this machine runs, within their errors of TensorFlow in float64. Similar graphs that do not match
(several images, a gate that is used twice or taken by row) stay separate kernels.  The seed is printed;
--seed takes another.
"""
import cases

SEED, CASES = 20265, 8

# Four consecutive sums and roundings; measured 2e-7, and 1.2 times the rounding.
ROUNDINGS = 4
UNLIKE = ['images', 'used twice', 'by row', 'few pixels']


def random_case(r):
    side = [int(i) for i in r.integers(3, 40, 2)]
    unlike = UNLIKE[int(r.integers(len(UNLIKE)))] if r.random() < .3 else ''
    if unlike == 'few pixels':
        side = [int(r.integers(1, 3)), int(r.integers(1, 4))]
    channels = side[1] if unlike == 'by row' else int(r.choice([1, 4, 16, 24, 33, 96, 144]))
    return {'shape': [2 if unlike == 'images' else 1, *side, channels], 'unlike': unlike,
            'squeezed': int(r.choice([1, 4, 8, 20, 48])), 'results': int(r.choice([1, 8, 24, 33, 80])),
            'gate': ['sigmoid', 'hard'][int(r.integers(2))], 'reshaped': r.random() < .3,
            'swapped': r.random() < .5, 'more': r.random() < .3, 'bias': r.random() < .8,
            'dtype': ['float32', 'float32', 'bfloat16', 'float16'][int(r.integers(4))]}


def layers(tf, r, c):
    """The graph as a function of its input and type, with weights of its own."""
    dtype, channels, squeezed = tf.as_dtype(c['dtype']), c['shape'][3], c['squeezed']

    def weights(fan, *shape):
        return cases.rounded(r.normal(0, fan ** -.5, shape), dtype)
    w = [weights(channels, 1, 1, channels, squeezed), weights(squeezed, 1, 1, squeezed, channels),
         weights(channels, 1, 1, channels, c['results']), weights(1, squeezed), weights(1, channels),
         weights(1, c['results'])]

    def build(x, as_type):
        f = [tf.constant(a, as_type) for a in w]
        m = tf.reduce_mean(x, [1, 2], keepdims=not c['reshaped'])
        if c['reshaped']:
            m = tf.reshape(m, [c['shape'][0], 1, 1, channels])
        s = tf.nn.bias_add(tf.nn.conv2d(m, f[0], 1, 'SAME'), f[3])
        s = tf.nn.bias_add(tf.nn.conv2d(s * tf.sigmoid(s), f[1], 1, 'SAME'), f[4])
        g = tf.sigmoid(s) if c['gate'] == 'sigmoid' else tf.nn.relu6(s + 3) / 6
        if c['unlike'] == 'by row':
            g = tf.reshape(g, [1, 1, channels, 1])
        z = g * x if c['swapped'] else x * g
        z = tf.nn.relu(z + .25 * x) if c['more'] else z
        y = tf.nn.conv2d(z, f[2], 1, 'SAME')
        y = tf.nn.bias_add(y, f[5]) if c['bias'] else y
        return y + tf.reduce_sum(g) if c['unlike'] == 'used twice' else y
    return build


def graph_of(tf, r, c):
    """GraphDef, feeds, the exact result."""
    dtype = tf.as_dtype(c['dtype'])
    build = layers(tf, r, c)
    x = cases.rounded(r.normal(0, 1, c['shape']), dtype)
    with tf.Graph().as_default() as g:
        tf.identity(build(tf.compat.v1.placeholder(dtype, c['shape'], 'x'), dtype), 'y')
        proto = g.as_graph_def()
    return proto, {'x': x}, build(tf.constant(x, tf.float64), tf.float64).numpy()


def check(tf, r, c, targets, folder):
    proto, feeds, exact = graph_of(tf, r, c)
    cases.given(folder, proto, feeds, tf.as_dtype(c['dtype']).as_numpy_dtype)
    methods = [m for m in cases.methods(folder, '--block-method', 'rows') if m == 'squeeze-excite']
    if len(methods) != (not c['unlike']):
        yield f'the methods are {methods}'
    yield from cases.problems_of_blocks(folder, feeds, c['dtype'], targets,
                                        lambda y: cases.error_of_block(y, exact, c['dtype'], ROUNDINGS))
