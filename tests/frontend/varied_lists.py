#!/usr/bin/env python3
"""Lists whose elements have several sizes, against live TensorFlow: elements of loops that select, slices of growing length, parts of
tensors, detections in map_fn, ragged rows in and out of map_fn, and their gradients; random sizes, fixed and open.

Exit code 77: nothing to test with.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import POLICIES, close, freeze, imported, np, tf, tool  # noqa: E402
from open_models import feeds_of, main, numbers, whole  # noqa: E402

F32, I64 = tf.float32, tf.int64
VALUES = 40


def array(size, shape, grows=False):
    return tf.TensorArray(F32, size, dynamic_size=grows, infer_shape=False, element_shape=shape)


# ---- elements of several lengths ----

def selected(x):
    """Each row's elements that are positive, one row after the other, and again as elements."""
    a = array(tf.shape(x)[0], [None])
    for i in tf.range(tf.shape(x)[0]):
        a = a.write(i, tf.boolean_mask(x[i], x[i] > 0))
    sums = array(tf.shape(x)[0], [])
    for i in tf.range(tf.shape(x)[0]):
        sums = sums.write(i, tf.reduce_sum(a.read(i) * 2.))
    return a.concat(), sums.stack()


def prefixes(x):
    """Slices that grow, of rows."""
    a = array(4, [None, x.shape[1]])
    for i in tf.range(4):
        a = a.write(i, x[:i + 1] * tf.cast(i + 1, F32))
    return a.concat(), a.read(2), a.read(0)


def unrolled(x):
    """Constant lengths that differ."""
    a = array(3, [None])
    a = a.write(0, x[0, :2]).write(2, x[1, :5]).write(1, tf.boolean_mask(x[0], x[0] > 0))
    return a.concat(), a.read(2), a.read(1)


def pushed(x):
    a = array(0, [None], True)
    for i in tf.range(tf.shape(x)[0]):
        a = a.write(i, tf.boolean_mask(x[i], x[i] > 0))
    return a.concat()


def as_data_say(x):
    """As many elements of one size as data say, where the shapes of all else are fixed, too."""
    a = tf.TensorArray(F32, 0, dynamic_size=True, element_shape=[2])
    i = tf.constant(0)
    while tf.logical_and(i < 6, x[0, tf.minimum(i, 5)] > 0):
        a = a.write(i, x[0, i:i + 1] * tf.constant([1., 2.]))
        i += 1
    y = a.stack()
    return y, tf.reduce_sum(y, 0), tf.shape(y)[0] * 2


def split(x, lengths):
    """Parts whose lengths are fed."""
    lengths = tf.concat([lengths, [tf.size(x, I64) - tf.reduce_sum(lengths)]], 0)
    a = array(5, [None]).split(tf.reshape(x, [-1]), lengths)
    most = array(5, [])
    for i in tf.range(5):
        most = most.write(i, tf.reduce_max(tf.concat([a.read(i), [0.]], 0)))
    return most.stack(), a.concat()


def no_split(x, lengths):
    """A length below 0, which others make up for, stops the run, although all parts begin inside of the tensor."""
    return split(x, tf.concat([tf.constant([3, -2], I64), lengths[2:]], 0))


def equal(x):
    """Elements of one length that data decide."""
    at = tf.where(x[0] > 0)[:, 0]
    return tf.map_fn(lambda row: tf.gather(row, at) * 2., x), tf.map_fn(lambda row: tf.gather(row, tf.where(x[0] > 0)[:, 0]), x)


def unequal(x):
    """Elements that are put on top of each other stop the run unless they are equally long."""
    return tf.map_fn(lambda row: tf.boolean_mask(row, row > 0), x)


def joined_later(x):
    """Lists in branches and in loops within loops; elements that vary along two axes."""
    def square(k):
        return x[:k, :k] * tf.cast(k, F32)
    a = array(tf.shape(x)[0], [None, None])
    for i in tf.range(tf.shape(x)[0]):
        if x[i, 0] > 0:
            a = a.write(i, square(tf.minimum(i + 1, 6)))
        else:
            a = a.write(i, square(1))
    sums = array(tf.shape(x)[0], [])
    for i in tf.range(tf.shape(x)[0]):
        inner = array(2, [None])
        for k in tf.range(2):
            inner = inner.write(k, tf.boolean_mask(x[i], x[i] > tf.cast(k, F32)))
        sums = sums.write(i, tf.reduce_sum(a.read(i)) + tf.reduce_sum(inner.concat()) * 3.)
    return sums.stack()


def detections(boxes, scores):
    """As detectors do: selected boxes of each image, padded to as many."""
    def one(pair):
        b, s = pair
        b = tf.concat([b, b + 1.], -1)
        at = tf.image.non_max_suppression(b, s, 5, .3, .1)
        b, s = tf.gather(b, at), tf.gather(s, at)
        more = 5 - tf.shape(at)[0]
        return tf.pad(b, [[0, more], [0, 0]]), tf.pad(s, [[0, more]]), tf.shape(at)[0]
    return tf.map_fn(one, (boxes, scores), fn_output_signature=(F32, F32, tf.int32))


def several_ranks(x):
    """Elements of one list that have several ranks, set and read at constant places; an element may be set again."""
    a = tf.TensorArray(F32, 3, infer_shape=False, clear_after_read=False)
    a = a.write(0, x[0]).write(1, x[:, :2]).write(2, x[1, 1])
    first = a.read(1) * 2.
    b = tf.raw_ops.TensorListReserve(element_shape=-1, num_elements=2, element_dtype=F32)
    b = tf.raw_ops.TensorListSetItem(input_handle=b, index=0, item=x)
    b = tf.raw_ops.TensorListSetItem(input_handle=b, index=1, item=x[0, 0])
    b = tf.raw_ops.TensorListSetItem(input_handle=b, index=0, item=x[0] + first[0, 0])
    return a.read(0), first, a.read(2) + 1., *(tf.raw_ops.TensorListGetItem(input_handle=b, index=i, element_shape=-1, element_dtype=F32) for i in range(2))


def resized(x, size):
    """A list that gets a computed length, of which all elements are read."""
    a = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[6])
    a = tf.raw_ops.TensorListResize(input_handle=a, size=size[0])
    return tf.raw_ops.TensorListStack(input_handle=a, element_shape=[6], element_dtype=F32), tf.raw_ops.TensorListLength(input_handle=a)


# ---- ragged rows ----

def ragged_out(x):
    r = tf.map_fn(lambda row: tf.boolean_mask(row, row > 0), x, fn_output_signature=tf.RaggedTensorSpec([None], F32))
    s = tf.map_fn(lambda row: tf.boolean_mask(x, row[:1] * tf.ones([tf.shape(x)[0]]) > x[:, 1]), x,
                  fn_output_signature=tf.RaggedTensorSpec([None, 6], F32, 0))
    return r.values, r.row_splits, s.values, s.row_splits


def ragged_in(x, lengths):
    r = tf.RaggedTensor.from_row_lengths(tf.reshape(x, [-1])[:tf.reduce_sum(lengths)], lengths)
    y = tf.map_fn(lambda row: tf.cumsum(row) * 2., r)
    return tf.map_fn(tf.reduce_sum, r, fn_output_signature=F32), y.values, y.row_splits


def ragged(x, lengths):
    return tf.RaggedTensor.from_row_lengths(x[:tf.reduce_sum(lengths)], lengths)


def ragged_of_any(x, lengths):
    """Any number of rows, in and out, also as pairs and rows that lose elements."""
    r = ragged(x, lengths)
    y = tf.map_fn(lambda row: tf.cumsum(row) * 2., r)
    z = tf.map_fn(lambda row: tf.boolean_mask(row, row > 1.), r)
    a, b = tf.map_fn(lambda p: (p[0] + 1., tf.reduce_max(tf.concat([p[1], [0.]], 0))), (r, r * 2.),
                     fn_output_signature=(tf.RaggedTensorSpec([None], F32), F32))
    return tf.map_fn(tf.reduce_sum, r, fn_output_signature=F32), y.values, y.row_splits, z.values, z.row_splits, a.values, a.row_splits, b


def gradient_of_rows(x, lengths, f):
    x = x[:tf.reduce_sum(lengths)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(tf.RaggedTensor.from_row_lengths(x, lengths))
    return tape.gradient(y, x)


def ragged_gradients(x, lengths):
    """Gradients by the values of rows that map_fn takes, and returns."""
    return (gradient_of_rows(x, lengths, lambda r: tf.reduce_sum(tf.map_fn(lambda row: tf.reduce_sum(row * row), r, fn_output_signature=F32) ** 2)),
            gradient_of_rows(x, lengths, lambda r: tf.reduce_sum(tf.map_fn(lambda row: row * row, r).values ** 2)))


def ragged_variant(x, lengths):
    """A ragged tensor as a vector of variants, and back."""
    r = ragged(x, lengths)
    v = tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=[r.row_splits], rt_dense_values=r.values, batched_input=True)
    y = tf.raw_ops.RaggedTensorFromVariant(encoded_ragged=v, input_ragged_rank=0, output_ragged_rank=1, Tvalues=F32)
    return y[0][0], y[1], tf.shape(v)


# ---- elements without elements ----

def nothing(x):
    """A loop sets elements of a list that have no elements themselves; an index behind the end of the list stops the run."""
    a = tf.raw_ops.TensorListReserve(element_shape=[0], num_elements=tf.shape(x)[0], element_dtype=F32)
    for i in tf.range(tf.shape(x)[0]):
        a = tf.raw_ops.TensorListSetItem(input_handle=a, index=i, item=x[i, :0])
    return tf.raw_ops.TensorListStack(input_handle=a, element_shape=[0], element_dtype=F32)


def nothing_behind(x):
    a = tf.raw_ops.TensorListReserve(element_shape=[0], num_elements=tf.shape(x)[0], element_dtype=F32)
    a = tf.raw_ops.TensorListSetItem(input_handle=a, index=tf.where(x[0, 0] > 0, 20, 0), item=x[0, :0])
    return tf.raw_ops.TensorListStack(input_handle=a, element_shape=[0], element_dtype=F32)


MODELS = {
    selected: {'x': numbers('n', 6)}, prefixes: {'x': numbers(7, 3)}, unrolled: {'x': numbers(2, 6)}, pushed: {'x': numbers('n', 6)}, as_data_say: {'x': numbers('n', 6)},
    split: {'x': numbers('n', 8), 'lengths': whole(4, below=3)},
    no_split: {'x': numbers('n', 8), 'lengths': whole(4, below=3)}, equal: {'x': numbers('n', 6)},
    unequal: {'x': numbers('n', 6)}, joined_later: {'x': numbers('n', 6)}, detections: {'boxes': numbers('n', 9, 2), 'scores': numbers('n', 9)}, ragged_out: {'x': numbers('n', 6)},
    ragged_in: {'x': numbers(3, 6), 'lengths': whole(5, below=4)},
    several_ranks: {'x': numbers(2, 6)}, resized: {'x': numbers('n', 6), 'size': whole(1, below=9, t='i4')},
    ragged_of_any: {'x': numbers(VALUES), 'lengths': whole('n', below=4)}, ragged_gradients: {'x': numbers(VALUES), 'lengths': whole('n', below=4)},
    ragged_variant: {'x': numbers(VALUES), 'lengths': whole('n', below=4)}, nothing: {'x': numbers('n', 6)}, nothing_behind: {'x': numbers('n', 6)},
}


def check_converted(folder):
    """Loops that sizes reach which data decide are written as the model has them, and decided on."""
    r = np.random.default_rng(int.from_bytes(os.urandom(4), 'little'))
    for i, f in enumerate((equal, ragged_in, ragged_gradients)):
        feeds = feeds_of(r, MODELS[f], .5)
        g = freeze(f, [tf.TensorSpec(x.shape, x.dtype, name=n) for n, x in feeds.items()], f'{folder}/m.pb')
        outputs = [t.name.removesuffix(':0') for t in g.outputs]
        policy = list(POLICIES)[i]
        said = tool('convert', f'{folder}/m.pb', '-o', f'{folder}/low.pb', '--outputs', ','.join(outputs), '--policy', policy)
        if 'without knowing sizes' not in said:
            sys.exit(f'{f.__name__}: no note that sizes are not known: {said!r}')
        with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as s:
            tf.import_graph_def(imported(f'{folder}/low.pb'), name='')
            got = s.run([f'{o}:0' for o in outputs], {f'{n}:0': x for n, x in feeds.items()})
        for o, y, w in zip(outputs, got, [t.numpy() for t in tf.nest.flatten(g(*map(tf.constant, feeds.values())))], strict=True):
            if not close(y, w, POLICIES[policy] if w.dtype.kind == 'f' else 0):
                sys.exit(f'{f.__name__}, {policy}: {o} is {y!r}, not {w!r}, of {feeds}')


if __name__ == '__main__':
    main(__doc__, MODELS, (check_converted,))
