"""Convolutions by each of their methods against TensorFlow in float64, on random shapes.

Each graph is a convolution with a filter that is constant or fed, or the gradient of one by its image with a fed filter, or by its filter, and
around it other ops that its kernel may contain: bias, activation, a residual, a concatenation.  The methods must be within their errors (root mean
square, and largest, both relative to the results' root mean square), with the same bits on one thread
and on two, on every target that this machine runs; and if high precision is requested, taps are summed.
"""
import cases
from cases import ROUNDING, computed, methods, rounded, stored

SEED, CASES = 20263, 30

# Direct sums and Winograd's method in float32, over up to 100 channels; measured 4e-7 and 9e-7.
RMS = {'direct': 1e-6, 'winograd': 2e-6, 'winograd-2x2': 1e-6}
LARGEST = 3e-5
# F(2 x 2) with factors rounded to bfloat16, on targets that multiply pairs of it, without the
# rounding of results: measured 1.5e-3 and 2.6e-2.
PAIRS = {'rms': 3e-3, 'largest': 4e-2}


def random_case(r):
    """Mostly a 3 x 3 filter with stride 1; sometimes a convolution without a second method."""
    plain = r.random() < .85
    padding = ['SAME', 'VALID', [int(i) for i in r.integers(0, 4, 4)]][int(r.integers(3))]
    return {'shape': [int(r.integers(1, 4)), int(r.integers(3, 40)), int(r.integers(3, 40)),
                      int(r.choice([1, 3, 9, 16, 17, 32, 40, 96]))],
            'size': 3 if plain else int(r.integers(1, 6)), 'stride': 1 if plain else 2,
            'results': int(r.choice([1, 5, 16, 24, 33, 64, 72])), 'padding': padding,
            'dtype': ['float32', 'float32', 'bfloat16', 'float16'][int(r.integers(4))],
            'epilogue': ['none', 'bias', 'residual', 'concat'][int(r.integers(4))],
            'filter': ['constant', 'fed', 'gradient' if plain else 'fed', 'wanted'][int(r.integers(4))]}


def by_image(tf, y, f, c):
    """The gradient by an image of `stride` times the size of y's, at padding SAME."""
    n, h, w, _ = c['shape']
    sizes = [n, h * c['stride'], w * c['stride'], c['results']]
    y = tf.raw_ops.Conv2DBackpropInput(input_sizes=sizes, filter=f, out_backprop=y, strides=[1, c['stride'], c['stride'], 1], padding='SAME')
    return tf.ensure_shape(y, sizes)


def by_filter(tf, x, g, c):
    """The gradient by the filter, of image x and gradient g of the result."""
    padding, more = c['padding'], {}
    if not isinstance(padding, str):
        padding, more = 'EXPLICIT', {'explicit_paddings': [0, 0, *padding, 0, 0]}
    sizes = [c['size'], c['size'], c['shape'][3], c['results']]
    y = tf.raw_ops.Conv2DBackpropFilter(input=x, filter_sizes=sizes, out_backprop=g, strides=[1, c['stride'], c['stride'], 1],
                                        padding=padding, **more)
    return tf.ensure_shape(y, sizes)


def sizes_of_results(c):
    """Height and width of the convolution's result."""
    if c['padding'] == 'SAME':
        return [-(-v // c['stride']) for v in c['shape'][1:3]]
    padding = [0] * 4 if c['padding'] == 'VALID' else c['padding']
    return [(v + a + b - c['size']) // c['stride'] + 1 for v, a, b in zip(c['shape'][1:3], padding[::2], padding[1::2])]


def graph_of(tf, r, c):
    """GraphDef, feeds, and the exact result."""
    import numpy as np
    dtype = tf.as_dtype(c['dtype'])
    fan = c['size'] ** 2 * c['shape'][3]
    x = rounded(r.normal(0, 1, c['shape']), dtype)
    gradient = c['filter'] == 'gradient'
    f = rounded(r.normal(0, fan ** -.5, [c['size'], c['size'], *(c['shape'][3], c['results'])[::-1 if gradient else 1]]), dtype)
    if c['filter'] == 'wanted':
        of = [c['shape'][0], *sizes_of_results(c), c['results']]
        f = rounded(r.normal(0, np.prod(of[:3]) ** -.5, of), dtype)
    bias = rounded(r.normal(0, 1, [c['results']]), dtype)

    def build(x, f, bias, residual):
        padding = c['padding']
        if not isinstance(padding, str):
            padding = [[0, 0], padding[:2], padding[2:], [0, 0]]
        y = by_image(tf, x, f, c) if gradient else by_filter(tf, x, f, c) if c['filter'] == 'wanted' else \
            tf.nn.conv2d(x, f, c['stride'], padding)
        if c['epilogue'] == 'bias':
            y = tf.nn.relu(tf.nn.bias_add(y, bias))
        if c['epilogue'] == 'residual':
            y = y + residual(y)
        if c['epilogue'] == 'concat':
            y = tf.concat([tf.abs(residual(y)), y, tf.abs(y)], 3)
        return y
    with tf.Graph().as_default() as g:
        y = build(tf.compat.v1.placeholder(dtype, c['shape'], 'x'),
                  tf.constant(f, dtype) if c['filter'] == 'constant' else tf.compat.v1.placeholder(dtype, f.shape, 'f'),
                  tf.constant(bias, dtype), lambda y: tf.compat.v1.placeholder(dtype, y.shape, 'r'))
        tf.identity(y, 'y')
        proto = g.as_graph_def()
    feeds, wide = {'x': x} if c['filter'] == 'constant' else {'x': x, 'f': f}, tf.float64
    if any(n.name == 'r' for n in proto.node):
        shape = [d.size for d in next(n for n in proto.node if n.name == 'r').attr['shape'].shape.dim]
        feeds['r'] = rounded(r.normal(0, 1, shape), dtype)
    exact = build(tf.constant(x, wide), tf.constant(f, wide), tf.constant(bias, wide), lambda y: tf.constant(feeds['r'], wide)).numpy()
    return proto, feeds, np.asarray(exact)


def wrong(y, exact, method, dtype, target):
    import numpy as np
    pairs = method == 'winograd-2x2' and dtype == 'bfloat16' and 'bf16' in target
    more = PAIRS if pairs else {'rms': 0, 'largest': 0}
    y, scale = y.astype(np.float64), np.sqrt(np.mean(exact ** 2)) or 1.
    error = np.abs(y - exact)
    spare = np.maximum(error - 3 * ROUNDING[dtype] * np.abs(exact), 0) if ROUNDING[dtype] else error
    rms, largest = np.sqrt(np.mean(spare ** 2)) / scale, spare.max(initial=0) / scale
    if not np.isfinite(y).all() or rms > RMS[method] + ROUNDING[dtype] / 8 + more['rms'] or \
            largest > LARGEST + 2 * ROUNDING[dtype] + more['largest']:
        return f'{method}: errors {rms:.2g} (root mean square), {largest:.2g} (largest)'
    return None


def check(tf, r, c, targets, folder):
    proto, feeds, exact = graph_of(tf, r, c)
    cases.given(folder, proto, feeds, tf.as_dtype(c['dtype']).as_numpy_dtype)
    expected = c['size'] == 3 and c['stride'] == 1
    taken = {m: 'winograd-2x2' if c['filter'] == 'wanted' and m == 'winograd' else m for m in RMS}  # of a gradient by a filter there is one form
    for method in RMS:
        forced = {m for m in methods(folder, '--conv-method', method) if m != 'one-result'}
        if forced != ({taken[method]} if expected and method != 'direct' else set()):
            yield f'by {method} the methods are {forced}'
    exactly = [m for m in methods(folder, '--op-select-implmode', 'high_precision', '--optypelist-for-implmode',
                                  'Conv2D,Conv2DBackpropInput,Conv2DBackpropFilter') if m != 'one-result']
    if exactly:
        yield f'with high precision the methods are {exactly}'
    for target in targets:
        for method in RMS:
            y = computed(folder, feeds, c['dtype'], target=target, conv_method=method)
            problem = wrong(y, exact, taken[method] if expected else 'direct', c['dtype'], target)
            if problem:
                yield f'{target} {problem}'
    two = computed(folder, feeds, c['dtype'], target=target, conv_method=method, threads=2)
    if stored(two).tobytes() != stored(y).tobytes():
        yield f'{method}: other bits with two threads'
