#!/usr/bin/env python3
"""Ragged and sparse tensors, ops that move elements along open axes, and sizes that nothing in the graph bounds, against
live TensorFlow: random sizes, fixed and open, with none, some or all elements selected, and rows without elements.

Exit code 77: nothing to test with.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import check_stops, close, freeze, np, run, tf, tool  # noqa: E402
from open_models import main, numbers, whole  # noqa: E402

raw = tf.raw_ops
F32, I64 = tf.float32, tf.int64
VALUES = 40
TABLE = tf.constant(np.random.default_rng(5).standard_normal((9, 4)).astype('f4'))


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


def gradients(x, y, start):
    """Gradients by the values of sparse tensors."""
    def of(make, *operands):
        with tf.GradientTape() as tape:
            values = [s.values for s in operands]
            tape.watch(values)
            result = make(*(tf.SparseTensor(s.indices, v, s.dense_shape) for s, v in zip(operands, values)))
            y = tf.reduce_sum(result.values ** 3)
        return tape.gradient(y, values)
    a, b = sparse(x), sparse(y)
    return (*of(tf.sparse.add, a, b), *of(lambda s, t: tf.sparse.add(s, t, 2.), a, b), *of(lambda s: tf.sparse.slice(s, [0, 1], [2, 3]), a),
            *of(lambda s: tf.sparse.slice(s, tf.stack([start[0], 0]), [9, 2]), a))


def filled_rows(x, lengths):
    r = ragged(x, lengths)
    y = raw.RaggedFillEmptyRows(value_rowids=r.value_rowids(), values=r.values, nrows=r.nrows(), default_value=7.)
    gradient = raw.RaggedFillEmptyRowsGrad(reverse_index_map=y.reverse_index_map, grad_values=y.output_values * 2)
    return (*y, *gradient)


def diagonals(x, y, n):
    """Matrices of open and of computed sizes, and numbers of a computed number."""
    k = tf.boolean_mask(x[:, 0], x[:, 0] > .5)
    rows = tf.boolean_mask(x, x[:, 0] > .5)
    return (tf.linalg.diag(k), tf.linalg.diag(x), tf.linalg.diag(rows), raw.MatrixDiag(diagonal=tf.transpose(rows)), raw.MatrixDiagPart(input=rows),
            tf.linalg.diag_part(tf.stack([x, x + 1.])), tf.linalg.diag(k, padding_value=3.),
            raw.MatrixSetDiag(input=tf.linalg.diag(k) + 1., diagonal=k), tf.linalg.set_diag(y, tf.linalg.diag_part(y) * 2.),
            raw.LinSpace(start=.5, stop=2., num=tf.minimum(n[0], 50) + 1),
            raw.LinSpace(start=tf.constant(0., tf.float64), stop=3., num=tf.shape(x)[0]),
            raw.LinSpace(start=tf.constant(-float('inf')), stop=2., num=tf.minimum(n[0], 3) + 1))


def bands(x, y):
    """Other diagonals than the main one, of matrices of open and of computed sizes; shorter diagonals at either end of the longest."""
    wide, square = tf.pad(x, [[2, 1], [1, 2]]), tf.matmul(tf.pad(y, [[3, 0], [0, 0]]), tf.pad(y, [[3, 0], [0, 0]]), transpose_b=True)
    some = tf.pad(tf.boolean_mask(y, y[:, 0] > .5), [[2, 2], [0, 0]])
    several = tf.stack([wide, wide * 2.])
    results = []
    for m, k in ((wide, 1), (wide, (-2, 1)), (square, -1), (square, (0, 2)), (several, (-2, -1)), (several, 2), (some, (-3, 2)), (some, -2)):
        for align in ('RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT', 'RIGHT_RIGHT') if isinstance(k, tuple) else ('RIGHT_LEFT',):
            d = tf.linalg.diag_part(m, k=k, align=align, padding_value=7.)
            results += [d, tf.linalg.diag(d, k=k, align=align, padding_value=3.)]
            if not isinstance(k, tuple):  # TensorFlow makes no graph that sets a band of open matrices
                results.append(tf.linalg.set_diag(m, d * 2. + 1., k=k))
    row = tf.pad(y[:, 0], [[1, 1]])
    return (*results, tf.linalg.diag(row, k=1), raw.MatrixDiagV2(diagonal=row, k=-2, num_rows=-1, num_cols=-1, padding_value=1.),
            raw.MatrixDiagPartV2(input=wide, k=[-1, 1], padding_value=5.))


# ---- other ops ----

def moved(x, shift):
    k = tf.boolean_mask(x, x[:, 0] > .5)
    axis = shift[1] % 2
    return (tf.roll(x, shift[0], 0), tf.roll(x, [1, -2], [0, 1]), tf.roll(k, 1, 0), tf.roll(k, shift, [0, 1]), tf.roll(x, shift[0], axis), tf.roll(k, shift, [axis - 2, 0]), k[::-2], x[::-2], x[3::-1], x[:1:-1],
            k[-2::-1], x[shift[0]:0:-1], tf.reverse(x, [0, 1]), raw.Reverse(tensor=x, dims=[True, False]))


def compared(x, xs, y, ys):
    """Edit distances of rows, some of which one of both sides does not have, and of rows of two axes."""
    def wide(values, lengths):
        s = ragged(values, lengths).to_sparse()
        return tf.SparseTensor(s.indices, s.values, tf.stack([tf.size(lengths, I64), 9]))
    def deep(s):
        return tf.SparseTensor(tf.concat([s.indices[:, :1] // 2, s.indices[:, :1] % 2, s.indices[:, 1:]], 1), s.values, [6, 2, 9])
    a, b = wide(x, xs), wide(y, ys)
    return (tf.edit_distance(a, b), tf.edit_distance(a, b, normalize=False), tf.edit_distance(b, a), tf.edit_distance(deep(a), deep(b)),
            tf.edit_distance(tf.SparseTensor(a.indices, tf.cast(a.values, tf.int32), a.dense_shape),
                             tf.SparseTensor(b.indices, tf.cast(b.values, tf.int32), b.dense_shape)))


def beams(scores, lengths, best, **how):
    steps = tf.minimum(tf.cast(lengths, tf.int32) + 2, tf.shape(scores)[0])
    if 'merge_repeated' in how:
        y = raw.CTCBeamSearchDecoder(inputs=scores, sequence_length=steps, top_paths=best, **how)
        return (*y.decoded_indices, *y.decoded_values, *y.decoded_shape, y.log_probability)
    paths, probability = tf.nn.ctc_beam_search_decoder(scores, steps, top_paths=best, **how)
    return (*(p for s in paths for p in parts(s)), probability)


def without_ties(x):
    """Other numbers in each place: of fed ones that repeat, sequences that read alike in both directions have equally probable paths."""
    return x + .3 * tf.reshape(tf.sin(1.7 * tf.range(tf.cast(tf.size(x), x.dtype))), tf.shape(x))


def decoded(x, few, lengths):
    x, few = tf.transpose(without_ties(x), [1, 0, 2]), tf.transpose(without_ties(few), [1, 0, 2])
    return (*beams(x, lengths, 2, beam_width=10), *beams(x, lengths, 1), *beams(few, lengths, 2, beam_width=2, merge_repeated=True),
            *beams(few, lengths, 1, beam_width=1, merge_repeated=False))


def decoded_batches(x, lengths):
    """As tf.keras.backend.ctc_decode does, and as many paths as there may be too few of, which stops the run."""
    scores = tf.math.log(tf.transpose(tf.nn.softmax(without_ties(x)), [1, 0, 2]) + 1e-7)
    paths, probability = tf.nn.ctc_beam_search_decoder(scores, tf.minimum(tf.cast(lengths, tf.int32), tf.shape(x)[1]), beam_width=10, top_paths=2)
    return (*(tf.sparse.to_dense(tf.SparseTensor(s.indices, s.values, (tf.shape(x, I64)[0], tf.shape(x, I64)[1])), default_value=-1) for s in paths),
            probability)


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
    sparse_parts: {'x': numbers('n', 6)}, gradients: {'x': numbers('n', 6), 'y': numbers('n', 6), 'start': whole(1, below=4)},
    filled_rows: {'x': numbers(VALUES), 'lengths': LENGTHS}, diagonals: {'x': numbers('n', 6), 'y': numbers('n', 'm'), 'n': whole(1, below=9)}, bands: {'x': numbers('n', 'm'), 'y': numbers('n', 6)}, moved: {'x': numbers('n', 6), 'shift': whole(2, below=5, t='i4')}, divided: {'x': numbers('n', 6)},
    compared: {'x': whole(VALUES, below=3), 'xs': whole('n', below=4), 'y': whole(VALUES, below=3), 'ys': whole('n', below=4)},
    decoded: {'x': numbers('n', 'm', 8), 'few': numbers('n', 'm', 3), 'lengths': whole('n', below=8)},
    decoded_batches: {'x': numbers('n', 'm', 4), 'lengths': whole('n', below=8)},
    searched: {'x': numbers('n', 6), 'lengths': whole('n', below=6)},
}


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


if __name__ == '__main__':
    main(__doc__, MODELS, (check_wrong, check_wide, check_bad_ranks))
