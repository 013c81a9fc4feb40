#!/usr/bin/env python3
"""Sums, means, products and extremes of segments whose ids are sorted, and of gathered rows, against live TensorFlow:
random sizes, each dtype, ids that are constant, fed, or those of masked rows; segments without rows and no rows at
all. Ids that TensorFlow refuses are refused.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import check_stops, close, freeze, np, run, tf  # noqa: E402

raw = tf.raw_ops
SEGMENTS = 'Sum', 'Mean', 'Prod', 'Max', 'Min'
SPARSE = 'Sum', 'Mean', 'SqrtN'
TOLERANCES = {'float32': 1e-5, 'float64': 1e-12, 'float16': 4e-3, 'bfloat16': 3e-2}
TYPES = *TOLERANCES, 'int8', 'uint8', 'int16', 'uint16', 'int32', 'int64', 'uint32', 'uint64'


def as_fed(t, x):
    """Computes in type t; bfloat16 tensors are fed and fetched as float32."""
    return tf.cast(x, t)


def as_fetched(t, y):
    return tf.cast(y, tf.float32) if t == 'bfloat16' else y


def sorted_ids(r, n, most):
    return np.sort(r.integers(0, most, n)).astype(r.choice(['i4', 'i8']))


def of_segments(t, data, ids):
    return [as_fetched(t, getattr(raw, f'Segment{k}')(data=as_fed(t, data), segment_ids=ids)) for k in SEGMENTS]


def of_gathered(t, data, indices, ids, count):
    kinds = SPARSE if t in TOLERANCES else SPARSE[:1]
    plain = [getattr(raw, f'SparseSegment{k}')(data=as_fed(t, data), indices=indices, segment_ids=ids) for k in kinds]
    stated = [getattr(raw, f'SparseSegment{k}WithNumSegments')(data=as_fed(t, data), indices=indices, segment_ids=ids, num_segments=count)
              for k in kinds]
    return [as_fetched(t, y) for y in plain + stated]


def gradients_of(t, grad, indices, ids, rows):
    """By the rows that were gathered: their sums, and which these are."""
    y = [getattr(raw, f'SparseSegment{k}GradV2')(grad=as_fed(t, grad), indices=indices, segment_ids=ids, dense_output_dim0=rows) for k in SPARSE]
    return [z for g in y for z in (as_fetched(t, g.output), g.sorted_unique_indices)]


def data_of(r, t, shape):
    x = r.uniform(-1.5, 1.5, shape) if t in TOLERANCES else r.integers(0 if t[0] == 'u' else -3, 4, shape)
    return x.astype('float32' if t == 'bfloat16' else t)


def signature_of(feeds):
    return [tf.TensorSpec(x.shape, x.dtype, name=n) for n, x in feeds.items()]


def agree(name, folder, f, feeds, tolerance):
    frozen = freeze(f, signature_of(feeds), f'{folder}/m.pb')
    outputs = [t.name.removesuffix(':0') for t in frozen.outputs]
    want = [t.numpy() for t in tf.nest.flatten(frozen(*map(tf.constant, feeds.values())))]
    for o, g, w in zip(outputs, run(folder, f'{folder}/m.pb', feeds, outputs, '--outputs', ','.join(outputs)), want, strict=True):
        if not close(g, w, tolerance):
            sys.exit(f'{name}: {o} is {g!r}, not {w!r}, of {feeds}')


def check_type(r, folder, t, n):
    shape = n, *r.integers(1, 5, int(r.integers(0, 3)))
    most = int(r.integers(1, 2 * n + 3))
    data = data_of(r, t, shape)
    ids = sorted_ids(r, n, most)
    count = int(r.integers(ids[-1] + 1 if n else 0, most + 3))
    indices = r.integers(0, max(n, 1), n).astype(r.choice(['i4', 'i8']))
    tolerance = TOLERANCES.get(t, 0)
    agree(f'{t}, constant ids', folder, lambda x: (*of_segments(t, x, ids), *of_gathered(t, x, indices, ids, count)), {'x': data}, tolerance)
    agree(f'{t}, ids that are fed', folder,
          lambda x, ids, indices: (*of_segments(t, x, ids), *of_gathered(t, x, indices, ids, count)),
          {'x': data, 'ids': ids, 'indices': indices}, tolerance)
    if t in TOLERANCES and n:
        grad = data_of(r, t, (int(ids[-1]) + 1, *shape[1:]))
        agree(f'{t}, gradients', folder, lambda g, ids, indices: gradients_of(t, g, indices, ids, n), {'g': grad, 'ids': ids, 'indices': indices}, tolerance)


def check_masked(r, folder):
    """Rows that a mask selects: the number of their segments depends on the data, as that of unsorted segments may."""
    n = int(r.integers(2, 20))

    def f(x, score, ids):
        rows, of = tf.boolean_mask(x, score > .5), tf.boolean_mask(ids, score > .5)
        sums = raw.SegmentSum(data=rows, segment_ids=of)
        first = tf.unique(ids)
        return (sums * 2, raw.SegmentMean(data=rows, segment_ids=of), raw.SegmentMax(data=rows, segment_ids=of), tf.shape(sums)[0],
                raw.UnsortedSegmentSum(data=x, segment_ids=first.idx, num_segments=tf.size(first.y)),
                raw.UnsortedSegmentMax(data=x, segment_ids=ids, num_segments=tf.minimum(tf.reduce_max(ids) + 2, 50)))
    for share in 0, .5, 1:
        feeds = {'x': data_of(r, 'float32', (n, 3)), 'score': (r.random(n) < share).astype('f4'), 'ids': sorted_ids(r, n, n).astype('i4')}
        agree(f'masked, {share}', folder, f, feeds, 1e-5)


def check_wrong(r, folder):
    """Ids that are unsorted, negative, or too large; an index beyond the rows; more segments than stated."""
    x = data_of(r, 'float32', (4, 3))

    def gathered(x, indices, ids):
        return raw.SparseSegmentSumWithNumSegments(data=x, indices=indices, segment_ids=ids, num_segments=3)
    wrong = [(lambda x, ids: raw.SegmentSum(data=x, segment_ids=ids), {'x': x, 'ids': np.array(ids, 'i4')})
             for ids in ([0, 1, 0, 2], [-1, 0, 0, 2], [0, 1, 2, 1 << 20])]
    wrong += [(gathered, {'x': x, 'indices': np.array([0, at], 'i4'), 'ids': np.array([0, last], 'i4')}) for at, last in ((4, 1), (1, 3))]
    for i, (f, feeds) in enumerate(wrong):
        freeze(f, signature_of(feeds), f'{folder}/m.pb')
        check_stops(f'wrong ids, {i}', folder, f'{folder}/m.pb', feeds, 'out of range')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    a = p.parse_args()
    print('seed', a.seed, flush=True)
    r = np.random.default_rng(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        for i, t in enumerate(TYPES):
            check_type(r, folder, t, 0 if i == 4 else int(r.integers(1, 12)))
        check_masked(r, folder)
        check_wrong(r, folder)


if __name__ == '__main__':
    main()
