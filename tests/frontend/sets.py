#!/usr/bin/env python3
"""Rows as sets, dense and sparse, against live TensorFlow: unions, intersections, differences and sizes, in all types, with rows that are
empty; random sizes, fixed and open.

Exit code 77: nothing to test with.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import tf  # noqa: E402
from open_models import main, whole  # noqa: E402

OPERATIONS = tf.sets.union, tf.sets.intersection, tf.sets.difference, lambda a, b: tf.sets.difference(a, b, False)


def sparse(x):
    """The elements that are not 0, each moved to the front of its row."""
    return tf.sparse.from_dense(x)


def parts(s):
    return s.indices, s.values, s.dense_shape


def each(a, b):
    return [p for f in OPERATIONS for p in parts(f(a, b))]


def dense(x, y):
    return each(x, y)


def mixed(x, y):
    return each(x, sparse(y[:, :3]))


def both_sparse(x, y):
    return each(sparse(x), sparse(y)) + [tf.sets.size(sparse(x)), tf.sets.size(sparse(tf.concat([x, x], 1)))]


def deep(x, y):
    """Two axes of rows."""
    a, b = tf.stack([x, x + 1]), tf.stack([y, y])
    return each(a, b) + each(a, sparse(b)) + [tf.sets.size(sparse(b))]


def typed(x, y):
    low = [p for t in (tf.int8, tf.int16, tf.uint8, tf.uint16, tf.int32) for p in parts(tf.sets.union(tf.cast(x, t), tf.cast(y, t)))]
    far = tf.constant([-2 ** 63, 2 ** 63 - 1, 0, 5], tf.int64)
    return low + each(tf.gather(far, x % 4), tf.gather(far, y % 4))[:6]


def outside(x, y):
    """A row that there may not be stops the run."""
    one = tf.SparseTensor(tf.stack([[x[0, 0] - 1, 0]]), y[0, :1], [2, 1])
    return parts(tf.sets.difference(tf.concat([x[:1], x[:1]], 0), one))


PAIR = {'x': whole('n', 5, below=6), 'y': whole('n', 4, below=6)}
MODELS = {f: PAIR for f in (dense, mixed, both_sparse, deep, typed, outside)}

if __name__ == '__main__':
    main(__doc__, MODELS)
