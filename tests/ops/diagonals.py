"""Cases of bands and diagonals of matrices."""
import numpy as np

from case import Case
from values import edges, random

ALIGNMENTS = 'LEFT_LEFT', 'LEFT_RIGHT', 'RIGHT_LEFT', 'RIGHT_RIGHT'
MATRICES = [(4, 4), (3, 6), (7, 2), (1, 1), (2, 5, 3), (2, 1, 3, 17), (3, 1, 4)]
# Names of operands that are parameters, and so constants.
HOW = 'k', 'num_rows', 'num_cols'


def diagonals(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for i in range(5):
                yield CASES[op.name.rstrip('V23')](r, op.name, tag)
    by_name = {op.name for op in rows}
    if 'MatrixBandPart' in by_name:
        yield from band_edges()
    if 'MatrixDiagPartV3' in by_name:
        x, zero = np.ones((3, 4), np.float32), np.float32(0)
        for k in (5, -3, [2, 1], [-4, 0]):
            yield Case('MatrixDiagPartV3', [x, np.array(k, np.int32), zero], settings=HOW, fails=True)


def band_edges():
    """Infinity and NaN outside a band do not affect the result."""
    x = np.resize(edges('f32'), (7, 9))
    for low, high in ((0, 0), (-1, 0), (2, 1), (-1, -1)):
        yield Case('MatrixBandPart', [x, np.int64(low), np.int64(high)], settings=())
    yield Case('MatrixBandPart', [x, np.int64(8), np.int64(0)], settings=('num_lower', 'num_upper'), fails=True)


def band_part(r, op, tag):
    shape = MATRICES[r.integers(len(MATRICES))]
    counts = [np.array(r.integers(-1, n + 1), np.int32) for n in shape[-2:]]
    return Case(op, [random(r, tag, shape), *counts], settings=('num_lower', 'num_upper') if r.integers(2) else ())


def band(r, op, shape):
    """k, the lowest diagonal, the highest, and the attributes."""
    rows, columns = shape[-2:]
    if not op.endswith(('V2', 'V3')):
        return [], 0, 0, {}
    low, high = sorted(int(d) for d in r.integers(1 - rows, columns, 2))
    attrs = {'align': str(r.choice(ALIGNMENTS))} if op.endswith('V3') else {}
    if r.integers(3) == 0:
        return [np.array(low, np.int32)], low, low, attrs
    return [np.array([low, high], np.int32)], low, high, attrs


def band_shape(shape, low, high):
    length = min(shape[-2] + min(high, 0), shape[-1] - max(low, 0))
    return shape[:-2] + ((high - low + 1,) if low < high else ()) + (length,)


def diag(r, op, tag):
    shape = MATRICES[r.integers(len(MATRICES))]
    k, low, high, attrs = band(r, op, shape)
    if not k:
        return Case(op, [random(r, tag, shape[:-1])])
    x = random(r, tag, band_shape(shape, low, high))
    # One size other than the least leaves the other one open.
    sizes = [shape[-2:], (-1, -1)][r.integers(2)]
    return Case(op, [x, *k, *(np.array(s, np.int32) for s in sizes), random(r, tag, ())], attrs, settings=HOW)


def diag_part(r, op, tag):
    shape = MATRICES[r.integers(len(MATRICES))]
    k, _, _, attrs = band(r, op, shape)
    return Case(op, [random(r, tag, shape), *k, *([random(r, tag, ())] if k else [])], attrs, settings=HOW)


def set_diag(r, op, tag):
    shape = MATRICES[r.integers(len(MATRICES))]
    k, low, high, attrs = band(r, op, shape)
    return Case(op, [random(r, tag, shape), random(r, tag, band_shape(shape, low, high)), *k], attrs, settings=HOW)


CASES = {'MatrixBandPart': band_part, 'MatrixDiag': diag, 'MatrixDiagPart': diag_part, 'MatrixSetDiag': set_diag}
