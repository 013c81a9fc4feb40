"""Operands: shapes and values, including edge cases."""
import ml_dtypes
import numpy as np

from case import DTYPES
from optable import FLOATS

SHAPES = [(), (1,), (0,), (7,), (16,), (33,), (3, 5), (1, 17), (2, 0, 3), (2, 1, 19), (5, 7, 3),
          (1, 1, 65), (2, 3, 4, 5), (257,)]
# Pairs that broadcast.
PAIRS = [((), ()), ((7,), (7,)), ((3, 5), (5,)), ((3, 1, 5), (4, 5)), ((), (9,)), ((1,), (0,)),
         ((2, 3), ()), ((5, 1), (1, 9)), ((2, 0, 3), (3,)), ((1, 1, 65), (2, 3, 65)), ((33,), (1,)),
         ((2, 3, 4, 5), (3, 1, 5)), ((16,), (16,)), ((4, 17), (4, 1)), ((257,), (257,))]


def random(r, tag, shape, low=-9, high=9):
    """Plain values: normal floats, small integers."""
    d = DTYPES[tag]
    if tag == 'bool':
        return np.asarray(r.integers(0, 2, shape), bool).reshape(shape)
    if tag in FLOATS:
        return np.asarray(r.normal(0, 2.5, shape)).astype(d).reshape(shape)
    return np.asarray(r.integers(max(low, 0) if tag[0] == 'u' else low, high, shape)).astype(
        d).reshape(shape)


def nonzero(r, tag, shape):
    x = random(r, tag, shape)
    return np.where(x == 0, np.ones_like(x), x).reshape(shape)


def edges(tag):
    """Values for which implementations differ.  No subnormals: TensorFlow flushes them."""
    d = DTYPES[tag]
    if tag == 'bool':
        return np.array([False, True])
    if tag not in FLOATS:
        i = np.iinfo(d)
        small = [0, 1, 2, 3, 100] + ([] if tag[0] == 'u' else [-1, -2, -100])
        return np.array(small + [i.min, i.max, i.max - 1, i.max // 2], d)
    f = ml_dtypes.finfo(d)
    x = [0, .5, 1, 1.5, 2, 2.5, 3.5, 5.9, 6, 6.1, 10, 20, 87, 89, 104, 1e-3, 1e4, 65504,
         .49999997, float(f.max), 2 * float(f.smallest_normal), float(f.eps), np.inf]
    with np.errstate(all='ignore'):
        x = np.array(x + [-v for v in x] + [np.nan]).astype(d)
    return x


def pair_edges(tag):
    """All pairs of edge values."""
    e = edges(tag)
    a, b = np.meshgrid(e, e)
    return a.ravel(), b.ravel()


def pick(r, items, count):
    """`count` different items, in their order."""
    chosen = sorted(r.choice(len(items), min(count, len(items)), replace=False))
    return [items[i] for i in chosen]
