"""Concatenations of 16 bits that products read, which are in memory as float32 where products are made in it.

Random parts of an image, of which some are joined first and then with the others, so that one tensor lies in another.
The readers of both are products, pools, maps, and ops that read 16 bits only.  One thread and two must give the same
bits, on every target that this machine runs, within rounding of TensorFlow in float64.
"""
import cases

SEED, CASES = 20266, 12
ROUNDINGS = 1.1
READERS = 'product', 'window', 'max', 'mean', 'map', 'distinct', 'padded'


def random_case(r):
    def readers(least):
        return [READERS[int(i)] for i in r.permutation(len(READERS))[:int(r.integers(least, 4))]]
    return {'sizes': [int(n) for n in r.integers(3, 12, 2)] + [int(r.integers(1, 40))], 'axis': int(r.integers(1, 4)),
            'parts': [int(n) for n in r.integers(1, 20, int(r.integers(2, 5)))],
            'inner': bool(r.integers(2)), 'of_inner': readers(0), 'of_whole': ['product', *readers(0)],
            'columns': int(r.integers(1, 80)), 'dtype': ['bfloat16', 'float16'][int(r.integers(2))]}


def read(tf, kind, x, weights, t):
    if kind in ('product', 'window'):
        w = tf.constant(weights[kind, int(x.shape[3])], t)
        return tf.nn.relu(tf.nn.conv2d(x, w, 1, 'SAME'))
    if kind in ('max', 'mean'):
        pool = tf.nn.max_pool2d if kind == 'max' else tf.nn.avg_pool2d
        return pool(x, 3, 1, 'SAME')
    if kind == 'distinct':
        which = tf.unique(tf.reshape(x, [-1]))[1]
        return tf.cast(tf.cast(which, tf.float32) / int(which.shape[0]), t)
    return tf.pad(x, [[0, 0], [1, 0], [0, 1], [0, 0]]) if kind == 'padded' else -x


def build(tf, c, images, weights, t):
    parts = [-x if i % 2 else tf.nn.relu(x) for i, x in enumerate(images)]
    results = []
    if c['inner']:
        inner = tf.concat(parts[:2], c['axis'])
        results += [read(tf, kind, inner, weights, t) for kind in c['of_inner']]
        parts = [inner, *parts[2:]]
    whole = tf.concat(parts, c['axis'])
    results += [read(tf, kind, whole, weights, t) for kind in c['of_whole']]
    return tf.concat([tf.reshape(y, [-1]) for y in results], 0)


def check(tf, r, c, targets, folder):
    import numpy as np
    dtype = tf.as_dtype(c['dtype'])
    shapes = [np.insert(np.delete(c['sizes'], c['axis'] - 1), [c['axis'] - 1], n) for n in c['parts']]
    feeds = {f'x{i}': cases.rounded(r.normal(0, 1, [1, *shape]), dtype) for i, shape in enumerate(shapes)}
    weights = {(kind, depth): cases.rounded(r.normal(0, size / depth ** .5, [size, size, depth, c['columns']]), dtype)
               for kind, size in (('product', 1), ('window', 3)) for depth in {c['sizes'][2], sum(c['parts'][:2]), sum(c['parts'])}}
    with tf.Graph().as_default() as g:
        images = [tf.compat.v1.placeholder(dtype, x.shape, k) for k, x in feeds.items()]
        tf.identity(build(tf, c, images, weights, dtype), 'y')
        cases.given(folder, g.as_graph_def(), feeds, dtype.as_numpy_dtype)
    exact = build(tf, c, [tf.constant(x) for x in feeds.values()], weights, tf.float64).numpy()
    for target in targets:
        one, two = (cases.computed(folder, feeds, c['dtype'], target=target, threads=n) for n in (1, 2))
        problem = cases.error_of_block(one, exact, c['dtype'], ROUNDINGS)
        if problem:
            yield f'{target}: {problem}'
        if cases.stored(one).tobytes() != cases.stored(two).tobytes():
            yield f'{target}: other bits by two threads'
