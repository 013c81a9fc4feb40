"""Long sums in float32, of elements and of products: their errors do not grow with their length.

The numbers are positive, so adding them one by one would lose more with every addition. Errors are measured in
roundings (2^-24) of the result: the root mean square over all results is at most MOST. An infinite element makes the
sum infinite, and a NaN makes it NaN. One thread and two give the same bits, on every target that this machine runs.
"""
import numpy as np

import cases
from cases import computed

SEED, CASES = 20265, 10
MOST = 6
KINDS = ['all', 'rows', 'columns', 'images', 'squares', 'product', 'product of inputs', 'convolution']


def random_case(r):
    kind = KINDS[int(r.integers(len(KINDS)))]
    long, other = int(r.integers(3000, 60000)), int(r.integers(1, 70))
    depth = int(r.integers(600, 5000))
    return {'kind': kind, 'shape': {'all': [20 * long], 'rows': [other, 2 * long], 'columns': [long, other], 'images': [4, 60, long // 200, other],
                                    'squares': [long, 50], 'product': [other, depth],
                                    'product of inputs': [other, depth // 12 * 12], 'convolution': [1, 5, 6, depth // 3]}[kind],
            'results': int(r.integers(1, 70))}


def made(tf, x, w, c):
    """The results, in the type of the operands."""
    if c['kind'].startswith('product'):
        return tf.matmul(x, w)
    if c['kind'] == 'convolution':
        return tf.nn.conv2d(x, w, 1, 'SAME')
    if c['kind'] == 'squares':
        return tf.nn.l2_loss(x)
    axes = {'all': [0], 'rows': [1], 'columns': [0], 'images': [0, 1, 2]}[c['kind']]
    return tf.reduce_sum(x, axes)


def weights_of(r, c):
    shape = {'product': [c['shape'][-1], c['results']], 'convolution': [3, 3, c['shape'][-1], c['results']]}.get(c['kind'].split()[0], [])
    return r.random(shape).astype('f4')


def feeds_of(x, w, c):
    return {'x': x, 'w': w} if c['kind'] == 'product of inputs' else {'x': x}


def graph_of(tf, c, w):
    with tf.Graph().as_default() as g:
        x = tf.compat.v1.placeholder(tf.float32, c['shape'], 'x')
        right = tf.compat.v1.placeholder(tf.float32, w.shape, 'w') if 'w' in feeds_of(None, w, c) else tf.constant(w)
        tf.identity(made(tf, x, right, c), 'y')
        return g.as_graph_def()


def roundings(y, exact):
    """The root mean square of the errors, relative to the results."""
    return np.sqrt(np.mean(((y.astype('f8') - exact) / exact) ** 2)) * 2**24


def check(tf, r, c, targets, folder):
    x, w = r.random(c['shape']).astype('f4'), weights_of(r, c)
    feeds = feeds_of(x, w, c)
    cases.given(folder, graph_of(tf, c, w), feeds, np.float32)
    exact = made(tf, tf.constant(x, tf.float64), tf.constant(w, tf.float64), c).numpy()
    for target in targets:
        y = computed(folder, feeds, 'float32', target=target, conv_method='direct')
        error = roundings(y, exact)
        if not error <= MOST:
            yield f'{target}: an error of {error:.3g} roundings'
    two = computed(folder, feeds, 'float32', target=target, conv_method='direct', threads=2)
    if two.tobytes() != y.tobytes():
        yield f'{target}: other bits with two threads'
    for special in np.inf, -np.inf, np.nan:
        x.flat[int(r.integers(x.size))] = special
        np.savez(f'{folder}/x.npz', **feeds)
        y = computed(folder, feeds, 'float32', target=target, conv_method='direct')
        want = made(tf, tf.constant(x, tf.float64), tf.constant(w, tf.float64), c).numpy()
        if not np.array_equal(np.where(np.isfinite(y), 0, y), np.where(np.isfinite(want), 0, want), equal_nan=True):
            yield f'{target}: of {special}, other results are not finite than should be'
