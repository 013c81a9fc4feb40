"""One tensor that a kernel reads in several orders: as it is, transposed, one row or column of it for all, and mirrored.

Square matrices of random sizes, also fewer columns than a vector has lanes, behind a matrix product and without one.  Elements are
small integers, so results are exact, with one thread and with two, on every target that this machine runs.
"""
import numpy as np

import cases
from cases import computed

SEED, CASES = 20281, 60
ORDERS = {
    'plain': lambda tf, x: x, 'transposed': lambda tf, x: tf.transpose(x), 'row': lambda tf, x: x[:1], 'column': lambda tf, x: x[:, :1],
    'last_row': lambda tf, x: x[-1:], 'mirrored': lambda tf, x: x[:, ::-1], 'turned': lambda tf, x: tf.transpose(x[::-1]),
}
BEFORE = 'nothing', 'product', 'product', 'sum'
OTHERS = [o for o in ORDERS if o != 'plain']


def random_case(r):
    return {'size': int(r.choice([2, 3, 5, 8, 13, 16, 17, 40])), 'orders': ['plain', *map(str, r.choice(OTHERS, int(r.integers(1, 3)), False))],
            'before': BEFORE[int(r.integers(len(BEFORE)))]}


def made(tf, c, a, x):
    terms = [ORDERS[o](tf, x) * (i + 2) for i, o in enumerate(c['orders'])]
    front = {'nothing': lambda: a, 'product': lambda: tf.matmul(a, a), 'sum': lambda: tf.reduce_sum(a, 1, keepdims=True)}[c['before']]()
    for t in terms:
        front = front + t
    return front


def check(tf, r, c, targets, folder):
    feeds = {k: r.integers(-8, 9, (c['size'], c['size'])).astype('f4') for k in 'ax'}
    with tf.Graph().as_default() as g:
        tf.identity(made(tf, c, **{k: tf.compat.v1.placeholder(x.dtype, x.shape, k) for k, x in feeds.items()}), 'y')
    cases.given(folder, g.as_graph_def(), feeds, np.float32)
    want = made(tf, c, **{k: tf.constant(x) for k, x in feeds.items()}).numpy()
    for target in targets:
        for threads in 1, 2:
            y = computed(folder, feeds, 'float32', target=target, threads=threads)
            if not np.array_equal(y, want):
                yield f'{target}, {threads} threads: {np.count_nonzero(y != want)} of {y.size} differ'
