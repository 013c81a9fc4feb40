#!/usr/bin/env python3
"""Ragged and sparse tensors, ops that move elements along open axes, and sizes that nothing in the graph bounds, against
live TensorFlow: random sizes, fixed and open, with none, some or all elements selected, and rows without elements.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
from live import check_stops, close, freeze, np, run, tf, tool  # noqa: E402

raw = tf.raw_ops
F32, I64 = tf.float32, tf.int64
VALUES, MOST = 40, {'n': 9, 'm': 7}
TABLE = tf.constant(np.random.default_rng(5).standard_normal((9, 4)).astype('f4'))


# ---- inputs: texts are extents that may be open ----

def numbers(*shape):
    return 'f4', shape, None


def whole(*shape, below=9, t='i8'):
    return t, shape, below


LENGTHS = whole('n', below=4)


def ragged(x, lengths):
    return tf.RaggedTensor.from_row_lengths(x[:tf.reduce_sum(lengths)], lengths)


def parts(s):
    return s.indices, s.values, s.dense_shape


def sparse(x):
    return tf.sparse.from_dense(tf.where(x > .5, x, 0.))


# ---- ragged tensors ----

def dense_rows(x, lengths, rows):
    r, v = ragged(x, lengths), ragged(rows, lengths)
    return (r.to_tensor(), r.to_tensor(-1.), v.to_tensor(shape=[None, 2, 3]), v.to_tensor(shape=[5, None, 3]), *parts(r.to_sparse()),
            *parts(v.to_sparse()), r[:, :2].to_tensor(), r[:, -1:].to_tensor(), tf.reverse(r, [1]).to_tensor(), tf.expand_dims(r, -1).to_tensor())


def reduced_rows(x, lengths):
    r = ragged(x, lengths)
    return (tf.reduce_sum(r, 1), tf.reduce_max(r, 1), tf.reduce_prod(r, 1), tf.reduce_sum(r, 0), tf.reduce_mean(r, 1), tf.nn.softmax(r).to_tensor(),
            r.value_rowids(), tf.sequence_mask(r.row_lengths()), r.bounding_shape())


def joined_rows(x, lengths):
    r = ragged(x, lengths)
    return ((r * tf.cast(lengths, F32)[:, None]).to_tensor(), tf.concat([r, r * 2.], 1).to_tensor(), tf.concat([r, r], 0).to_tensor(),
            tf.gather(r, tf.zeros([3], I64)).to_tensor(), tf.gather(r, [[0, 0], [0, 0]]).to_tensor())


def deep_rows(x, lengths, inner):
    inner = inner[:tf.reduce_sum(lengths)]
    r = tf.RaggedTensor.from_nested_row_lengths(tf.concat([x, x, x], 0)[:tf.reduce_sum(inner)], [lengths, inner])
    return (r.to_tensor(), tf.reduce_sum(r, 2).to_tensor(), tf.reduce_sum(r, 1).to_tensor(), r.merge_dims(0, 1).to_tensor(), *parts(r.to_sparse()),
            tf.gather(r, [0]).to_tensor())


def embedded_rows(ids, lengths):
    r = ragged(ids, lengths)
    s = r.to_sparse()
    e = tf.nn.embedding_lookup(TABLE, r)
    return (e.to_tensor(), tf.reduce_mean(e, 1), tf.math.bincount(r, minlength=9, maxlength=9, axis=-1), tf.math.bincount(s, minlength=9, maxlength=9, axis=-1),
            raw.RaggedBincount(splits=r.row_splits, values=r.values, size=tf.constant(5, I64), weights=tf.cast(r.values, F32)),
            raw.RaggedBincount(splits=r.row_splits, values=r.values, size=tf.constant(5, I64), weights=tf.zeros([0], F32), binary_output=True),
            *(tf.nn.safe_embedding_lookup_sparse(TABLE, s, combiner=c) for c in ('mean', 'sqrtn')))


def ranges(lengths, more):
    r, s = tf.ragged.range(lengths), tf.ragged.range(more, lengths, -2)
    t = tf.ragged.range(tf.cast(more, F32) * .25, 2., .5)
    return r.values, r.row_splits, s.to_tensor(), t.values, t.row_splits


def given_rows(x, lengths):
    splits = tf.concat([[0], tf.cumsum(lengths)], 0)
    ids = tf.ragged.row_splits_to_segment_ids(splits)
    r = tf.RaggedTensor.from_value_rowids(x[:splits[-1]], ids, nrows=tf.size(lengths, I64))
    return r.to_tensor(), tf.RaggedTensor.from_uniform_row_length(x, 5).to_tensor(), tf.ragged.boolean_mask(tf.reshape(x, [8, 5]), tf.reshape(x, [8, 5]) > .5).to_tensor()


def repeated(x, times, rows):
    return tf.repeat(x[:8], times), tf.repeat(rows, times[:3], 0), tf.repeat(rows, times[:4], 1), tf.repeat(rows, 2, 1), tf.sequence_mask(times)


# ---- sparse tensors ----

def products(x):
    w = tf.constant(np.arange(18).reshape(6, 3).astype('f4'))
    return (tf.sparse.sparse_dense_matmul(sparse(x), w), tf.sparse.sparse_dense_matmul(sparse(tf.transpose(x)), w, adjoint_a=True),
            tf.sparse.sparse_dense_matmul(sparse(x), tf.transpose(w), adjoint_b=True), (sparse(x) * w[:, 0]).values, (sparse(x) / (w[:, 0] + 1)).values,
            tf.sparse.add(sparse(x), tf.ones_like(x)))


def reductions(x):
    s = sparse(x)
    both = [f(s, axis) for f in (tf.sparse.reduce_sum, tf.sparse.reduce_max) for axis in (0, 1, None)]
    return (*both, tf.sparse.reduce_sum(s, 1, keepdims=True), *parts(tf.sparse.reduce_sum(s, 1, output_is_sparse=True)),
            *parts(tf.sparse.reduce_max(s, 0, output_is_sparse=True)), tf.sparse.softmax(s).values)


def unions(x, y):
    a, b = sparse(x), sparse(y)
    return (*parts(tf.sparse.add(a, b)), *parts(tf.sparse.add(a, b, 1.)), *parts(tf.sparse.maximum(a, b))[:2], *parts(tf.sparse.minimum(a, b))[:2],
            *parts(tf.sparse.concat(1, [a, b])), *parts(tf.sparse.concat(0, [a, b, a])))


def sparse_parts(x):
    s = sparse(x)
    shuffled = tf.SparseTensor(s.indices[::-1], s.values[::-1], s.dense_shape)
    split = [p for axis, count in ((1, 4), (0, 1)) for q in tf.sparse.split(s, count, axis) for p in parts(q)]
    gradient = raw.SparseFillEmptyRowsGrad(reverse_index_map=tf.range(tf.size(s.values, I64)), grad_values=tf.concat([s.values, x[0]], 0))
    return (*parts(tf.sparse.reorder(shuffled))[:2], *parts(tf.sparse.transpose(s)), *parts(tf.sparse.slice(s, [0, 1], [2, 3])), *split, *gradient,
            *parts(tf.sparse.retain(s, s.values > 1.)))


# ---- other ops ----

def moved(x, shift):
    k = tf.boolean_mask(x, x[:, 0] > .5)
    return (tf.roll(x, shift[0], 0), tf.roll(x, [1, -2], [0, 1]), tf.roll(k, 1, 0), tf.roll(k, shift, [0, 1]), k[::-2], x[::-2], x[3::-1], x[:1:-1],
            k[-2::-1], x[shift[0]:0:-1], tf.reverse(x, [0, 1]), raw.Reverse(tensor=x, dims=[True, False]))


def divided(x):
    k = tf.boolean_mask(x, x[:, 0] > .5)
    count = tf.shape(k)[0]
    return (*tf.split(tf.concat([k, k], 0), 2), *tf.split(k, 2, 1), *tf.split(x, [tf.shape(x)[0] - count, count]), *tf.split(x, [1, -1]))


def searched(x, lengths):
    k = tf.sort(tf.boolean_mask(x[:, 0], x[:, 0] > .5))
    rows, of = tf.boolean_mask(x, x[:, 0] > .5), tf.boolean_mask(tf.cast(lengths, tf.int32), x[:, 0] > .5)
    return (tf.searchsorted(k, x[:, 1]), tf.searchsorted(k, tf.concat([k, [np.inf]], 0), side='right'), tf.searchsorted([.7, 1.], k),
            raw.Bucketize(input=k, boundaries=[.7, 1.]), tf.math.bincount(of), tf.math.bincount(of, weights=k, minlength=5, maxlength=5),
            tf.math.bincount(tf.cast(tf.abs(rows) * 2, tf.int32), axis=-1, minlength=6, maxlength=6), tf.math.in_top_k(of, rows, 2),
            tf.reverse_sequence(rows, of, seq_axis=1), tf.reverse_sequence(tf.transpose(x), lengths, seq_axis=0, batch_axis=1))


MODELS = {
    dense_rows: {'x': numbers(VALUES), 'lengths': LENGTHS, 'rows': numbers(VALUES, 3)}, reduced_rows: {'x': numbers(VALUES), 'lengths': LENGTHS},
    joined_rows: {'x': numbers(VALUES), 'lengths': LENGTHS}, deep_rows: {'x': numbers(VALUES), 'lengths': LENGTHS, 'inner': whole(27, below=4)},
    embedded_rows: {'ids': whole(VALUES), 'lengths': LENGTHS}, ranges: {'lengths': whole('n', below=6), 'more': whole('n', below=9)},
    given_rows: {'x': numbers(VALUES), 'lengths': LENGTHS}, repeated: {'x': numbers(VALUES), 'times': whole(8, below=4), 'rows': numbers(3, 4)},
    products: {'x': numbers('n', 6)}, reductions: {'x': numbers('n', 6)}, unions: {'x': numbers('n', 6), 'y': numbers('n', 6)},
    sparse_parts: {'x': numbers('n', 6)}, moved: {'x': numbers('n', 6), 'shift': whole(2, below=5, t='i4')}, divided: {'x': numbers('n', 6)},
    searched: {'x': numbers('n', 6), 'lengths': whole('n', below=6)},
}


def feeds_of(r, inputs, share):
    sizes = {s: int(r.integers(1, most + 1)) for s, most in MOST.items()}
    feeds = {}
    for name, (t, shape, below) in inputs.items():
        real = [sizes.get(s, s) for s in shape]
        if below:
            feeds[name] = r.integers(0, below if share else 1, real).astype(t)
        else:
            feeds[name] = np.where(r.random(real) < share, r.uniform(.6, 2, real), r.uniform(-2, .4, real)).astype(t)
    return feeds


def check(f, inputs, r, folder, is_open):
    feeds = feeds_of(r, inputs, .5)
    shapes = {n: [None if is_open and isinstance(s, str) else k for s, k in zip(inputs[n][1], x.shape)] for n, x in feeds.items()}
    frozen = freeze(f, [tf.TensorSpec(shapes[n], x.dtype, name=n) for n, x in feeds.items()], f'{folder}/m.pb')
    outputs = [t.name.removesuffix(':0') for t in frozen.outputs]
    stated = [o for n, s in shapes.items() if None in s for o in ('--input-shape', f'{n}:{",".join("1..9" if k is None else str(k) for k in s)}')]
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', ','.join(outputs), *stated)
    for share in (.5, 0, 1):
        if share != .5:
            more = feeds_of(r, inputs, share)
            feeds = more if is_open else {n: np.resize(more[n], x.shape) for n, x in feeds.items()}
        try:
            want = [t.numpy() for t in tf.nest.flatten(frozen(*map(tf.constant, feeds.values())))]
        except tf.errors.InvalidArgumentError:
            check_stops(f.__name__, folder, f'{folder}/m.htx', feeds)
            continue
        for o, g, w in zip(outputs, run(folder, f'{folder}/m.htx', feeds, outputs), want, strict=True):
            finite = np.isfinite(w) if w.dtype.kind == 'f' else np.ones(w.shape, bool)
            if g.shape != w.shape or not np.array_equal(g[~finite], w[~finite], equal_nan=True) or \
                    not close(np.where(finite, g, 0).astype(g.dtype), np.where(finite, w, 0).astype(w.dtype), 1e-5):
                sys.exit(f'{f.__name__}, {"open" if is_open else "fixed"}, {share}: {o} is {g!r}, not {w!r}, of {feeds}')


def check_wrong(folder):
    """Splits and numbers of rows that do not fit the values, more elements than there is room for, and sparse tensors that do not fit each
    other stop the run."""
    def rows_by_number(x, rows):
        return raw.RaggedTensorToTensor(shape=tf.constant([-1, -1], I64), values=x, default_value=0.,
                                        row_partition_tensors=[tf.constant(3, I64), rows], row_partition_types=['FIRST_DIM_SIZE', 'VALUE_ROWIDS'])

    def unions_of_parts(at, a, b):
        return raw.SparseAdd(a_indices=at, a_values=[1., 2.], a_shape=a, b_indices=at, b_values=[1., 2.], b_shape=b, thresh=0.)

    def rows(x, splits):
        return tf.RaggedTensor.from_row_splits(x, splits, validate=False).to_tensor()

    x = np.arange(6, dtype='f4')
    freeze(rows, [tf.TensorSpec([6], F32, name='x'), tf.TensorSpec([3], I64, name='splits')], f'{folder}/m.pb')
    for splits in ([0, 4, 3], [0, 2, 7], [0, 2, 5], [1, 2, 6]):
        check_stops(f'splits {splits}', folder, f'{folder}/m.pb', {'x': x, 'splits': np.array(splits)}, 'index is out of range')
    freeze(rows_by_number, [tf.TensorSpec([6], F32, name='x'), tf.TensorSpec([6], I64, name='rows')], f'{folder}/m.pb')
    for numbers_of_rows in ([0, 1, 0, 1, 2, 2], [-1, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 3]):
        check_stops(f'rows {numbers_of_rows}', folder, f'{folder}/m.pb', {'x': x, 'rows': np.array(numbers_of_rows)}, 'index is out of range')
    freeze(tf.range, [tf.TensorSpec([], tf.int32, name='n')], f'{folder}/m.pb')
    check_stops('no room', folder, f'{folder}/m.pb', {'n': np.array(5000, 'i4')}, 'index is out of range')
    freeze(unions_of_parts, [tf.TensorSpec([2, 2], I64, name='at'), tf.TensorSpec([2], I64, name='a'), tf.TensorSpec([2], I64, name='b')], f'{folder}/m.pb')
    for a, b in (([3, 3], [3, 4]), ([1 << 40, 1 << 40], [1 << 40, 1 << 40])):
        check_stops(f'union of {a} and {b}', folder, f'{folder}/m.pb', {'at': np.array([[0, 1], [2, 0]]), 'a': np.array(a), 'b': np.array(b)},
                    'index is out of range')


def check_wide(folder):
    """Distances, extents and sums of more bits than their types have."""
    def lengths(far, a, b):
        shape = tf.constant([3, 1 << 40], I64)
        s = tf.sparse.reorder(tf.SparseTensor(tf.stack([tf.stack([b, b + (1 << 36)]), tf.stack([a, a])]), [1., 2.], shape))
        return (tf.range(-far, far, 1000000000), tf.range(tf.cast(tf.cast(a > 0, tf.uint8) - tf.cast(b > 0, tf.uint8), tf.int32)),
                *parts(tf.sparse.concat(0, [s, s])), *parts(tf.sparse.slice(s, [0, 1 << 35], [3, 1 << 39])),
                tf.range(tf.cast(tf.constant(100, tf.int8) + tf.cast(a, tf.int8), tf.int32)))

    f = freeze(lengths, [tf.TensorSpec([], t, name=n) for n, t in (('far', tf.int32), ('a', I64), ('b', I64))], f'{folder}/m.pb')
    outputs = [t.name.removesuffix(':0') for t in f.outputs]
    for far, a, b in ((2000000000, 0, 2), (5, 1, 0), (1999999999, 1, 1)):
        feeds = {'far': np.array(far, 'i4'), 'a': np.array(a), 'b': np.array(b)}
        want = [t.numpy() for t in f(*map(tf.constant, feeds.values()))]
        for o, g, w in zip(outputs, run(folder, f'{folder}/m.pb', feeds, outputs, '--outputs', ','.join(outputs)), want, strict=True):
            if not close(g, w, 0):
                sys.exit(f'wide: {o} is {g!r}, not {w!r}, of {feeds}')


def check_bad_ranks(folder):
    """The second operand of a union has indices of another rank than the first one."""
    for shape in ([2], [], [2, 1000], [2, 2, 2], [0, 0]):
        graph = tf.Graph()
        with graph.as_default():
            at, values, size = (tf.compat.v1.placeholder(t, s, n) for t, s, n in ((I64, [2, 2], 'at'), (F32, [2], 'values'), (I64, [2], 'size')))
            y = raw.SparseAdd(a_indices=at, a_values=values, a_shape=size, b_indices=tf.compat.v1.placeholder(I64, [2, 2], 'other'), b_values=values,
                              b_shape=size, thresh=0., name='y')
        proto = graph.as_graph_def()
        other = next(n for n in proto.node if n.name == 'other')
        other.attr['shape'].CopyFrom(tf.compat.v1.AttrValue(shape=tf.TensorShape(shape).as_proto()))
        with open(f'{folder}/m.pb', 'wb') as out:
            out.write(proto.SerializeToString())
        if "node 'y" not in tool('compile', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', y[0].op.name, code=4):
            sys.exit(f'indices {shape}: no located error')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('name', nargs='*', help=', '.join(f.__name__ for f in MODELS))
    a = p.parse_args()
    print('seed', a.seed, flush=True)
    chosen = [(f, is_open) for f in MODELS for is_open in (False, True) if not a.name or f.__name__ in a.name]
    for f, is_open in chosen if a.name else environment.share(chosen, a.seed):
        with tempfile.TemporaryDirectory() as folder:
            check(f, MODELS[f], np.random.default_rng([a.seed, list(MODELS).index(f), is_open]), folder, is_open)
    if not a.name:
        with tempfile.TemporaryDirectory() as folder:
            check_wrong(folder)
            check_wide(folder)
            check_bad_ranks(folder)
    print('ok')


if __name__ == '__main__':
    main()
