"""Sums, products and extremes by segment ids that begin with the number of each row, as TensorFlow adds the gradient of a variable by all its rows to
one by some: the rows in front are not scattered, but the bits are the same.

The other ids may repeat, and negative ones count for nothing. Near-misses are among the cases: ids that begin elsewhere, or leave out
the last row.
"""
import numpy as np

import cases
from cases import computed

SEED, CASES = 20266, 12
OPS = ['UnsortedSegmentSum'] * 3 + ['UnsortedSegmentProd', 'UnsortedSegmentMax', 'UnsortedSegmentMin']
FIRST = ['all', 'all', 'all', 'shifted', 'fewer']


def random_case(r):
    return {'op': OPS[int(r.integers(len(OPS)))], 'first': FIRST[int(r.integers(len(FIRST)))], 'rows': int(r.integers(1, 60)), 'more': int(r.integers(0, 90)),
            'row': [int(d) for d in r.choice([1, 2, 7, 33, 200], int(r.integers(0, 3)))], 'scaled': bool(r.random() < .7)}


def first_ids(c):
    return {'all': np.arange(c['rows']), 'shifted': np.arange(c['rows'])[::-1], 'fewer': np.arange(max(c['rows'] - 1, 1))}[c['first']].astype('i4')


def made(tf, c, a, b, ids):
    values = tf.concat([a, b], 0)
    if c['scaled']:
        values = values * tf.constant(.3) - .1
    return getattr(tf.raw_ops, c['op'])(data=values, segment_ids=tf.concat([tf.constant(first_ids(c)), ids], 0), num_segments=tf.constant(c['rows']))


def check(tf, r, c, targets, folder):
    feeds = {'a': r.standard_normal((len(first_ids(c)), *c['row'])).astype('f4'), 'b': r.standard_normal((c['more'], *c['row'])).astype('f4'),
             'ids': r.integers(-1, c['rows'], c['more']).astype('i4')}
    with tf.Graph().as_default() as g:
        tf.identity(made(tf, c, **{k: tf.compat.v1.placeholder(x.dtype, x.shape, k) for k, x in feeds.items()}), 'y')
    cases.given(folder, g.as_graph_def(), {}, np.float32)
    np.savez(f'{folder}/x.npz', **feeds)
    want = made(tf, c, **{k: tf.constant(x) for k, x in feeds.items()}).numpy()
    for target in targets:
        y = computed(folder, feeds, 'float32', target=target)
        if not np.array_equal(y, want):
            yield f'{target}: {np.count_nonzero(y != want)} of {y.size} differ'
    if computed(folder, feeds, 'float32', target=target, threads=2).tobytes() != y.tobytes():
        yield f'{target}: other bits with two threads'
