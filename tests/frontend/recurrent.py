#!/usr/bin/env python3
"""Recurrent networks and loops over lists: layers of Keras, map_fn, scan, folds and TensorArrays, of random sizes, give
the results of live TensorFlow, frozen and as SavedModel; some of them, chosen at random, in each way to run a model,
and under policies.  An iteration does not copy a list that its loop fills.  Unsupported graphs are refused with the
node's name.

Exit code 77: nothing to test with.
"""
import argparse
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
from live import TOLERANCE, check, close, freeze, np, run, tf, tool  # noqa: E402

keras = environment.keras()
layers = keras.layers


# ---- layers: each takes [batch, steps, features] ----

def of(*kinds, **options):
    """A stack of layers with random numbers of units; all but the last one return sequences."""
    def make(r, x):
        for i, kind in enumerate(kinds):
            more = {'return_sequences': True} if i + 1 < len(kinds) else {}
            x = kind(int(r.integers(1, 9)), **{**options, **more})(x)
        return x
    return make


def both_ways(kind, merge, **options):
    return lambda r, x: layers.Bidirectional(kind(int(r.integers(1, 9)), **options), merge_mode=merge)(x)


def masked(make):
    """Steps whose features are all zero do not count."""
    def with_mask(r, x):
        kept = keras.ops.where(x[:, :, :1] > 0.3, 0.0, x)
        return make(r, layers.Masking()(kept))
    return with_mask


def embedded(r, x):
    words = keras.ops.cast(keras.ops.abs(x[:, :, 0] * 3), 'int32')
    return layers.LSTM(int(r.integers(1, 9)))(layers.Embedding(10, 4, mask_zero=True)(words))


def cells(r, x):
    return layers.RNN([layers.LSTMCell(int(r.integers(1, 9))), layers.GRUCell(3)], return_sequences=True)(x)


def convolved(r, x):
    return layers.ConvLSTM1D(int(r.integers(1, 5)), 3, padding='same', return_sequences=True)(x[:, :, :, None])


def images_convolved(r, x):
    return layers.ConvLSTM2D(int(r.integers(1, 5)), 3, padding='same', return_sequences=True)(x[:, :, :, None, None])


LSTM, GRU, SimpleRNN = layers.LSTM, layers.GRU, layers.SimpleRNN
LAYERS = {
    'lstm': of(LSTM),
    'lstm stacked': of(LSTM, LSTM),
    'lstm states': of(LSTM, return_sequences=True, return_state=True),
    'lstm backwards': of(LSTM, return_sequences=True, go_backwards=True),
    'lstm unrolled': of(LSTM, unroll=True),
    'lstm masked': masked(of(LSTM)),
    'lstm zero output': masked(of(LSTM, return_sequences=True, zero_output_for_mask=True)),
    'gru reset after': of(GRU, reset_after=True),
    'gru reset before': of(GRU, reset_after=False, return_sequences=True),
    'gru masked': masked(of(GRU, GRU, return_sequences=True)),
    'rnn': of(SimpleRNN),
    'rnn masked backwards': masked(of(SimpleRNN, return_sequences=True, go_backwards=True)),
    'lstm both': both_ways(LSTM, 'concat', return_sequences=True),
    'gru both': both_ways(GRU, 'sum'),
    'lstm both masked': masked(both_ways(LSTM, 'ave', return_sequences=True)),
    'embedding': embedded,
    'cells': cells,
    'convolution': convolved,
    'convolution of images': images_convolved,
}


def layer(r, make, shape):
    x = keras.Input(shape[1:], batch_size=shape[0])
    model = keras.Model(x, make(r, x))
    for w in model.weights:
        w.assign(r.standard_normal(w.shape) * 0.4)
    return model


# ---- functions of [steps, columns] ----

def written(x):
    """Elements that depend on the data, and an element that is never set."""
    rows = tf.TensorArray(tf.float32, size=x.shape[0] + 1)
    for i in tf.range(x.shape[0]):
        if x[i, 0] > 0:
            rows = rows.write(i, x[i] * 2)
        else:
            rows = rows.write(i, tf.sin(x[i]))
    return rows.stack()


def read_again(x):
    rows = tf.TensorArray(tf.float32, size=x.shape[0] + 1, clear_after_read=False).write(0, x[0])
    for i in tf.range(x.shape[0]):
        rows = rows.write(i + 1, rows.read(i) * 0.5 + x[i])
    return rows.stack(), rows.size()


def joined(x):
    rows = tf.TensorArray(tf.float32, size=x.shape[0])
    for i in tf.range(x.shape[0]):
        rows = rows.write(i, tf.stack([x[i], x[-1 - i]]))
    return rows.concat(), rows.gather([0, x.shape[0] - 1, 0])


def scattered(x):
    order = list(range(x.shape[0]))[::-1]
    return tf.TensorArray(tf.float32, size=x.shape[0]).scatter(order, x).stack()


def iterated(x):
    s = tf.zeros(x.shape[1:])
    for row in x:
        s = s * 0.5 + row
    return s


def grown(x):
    """An array that grows by its index in a branch, one that grows by its length, and one that is longer from the
    start."""
    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    ends = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    more = tf.TensorArray(tf.float32, size=2, dynamic_size=True, clear_after_read=False).write(0, x[0]).write(1, x[-1])
    for i in tf.range(x.shape[0]):
        if x[i, 0] > 0:
            rows = rows.write(i, x[i] * 2)
        else:
            rows = rows.write(i, tf.sin(x[i]))
        ends = ends.write(ends.size(), x[-1 - i])
        more = more.write(i + 2, more.read(i) + more.read(i + 1) * 0.5)
    return rows.stack(), ends.concat() if x.shape.rank > 2 else ends.stack(), more.stack(), rows.size()


ELEMENT = {'element_dtype': tf.float32}


def pushed(x):
    """Nested loops push elements, a branch pushes more, and the data decide how many are popped, all but three."""
    shape, limit = x.shape[1:], float(tf.reduce_sum(tf.ones_like(x)))
    ops = tf.raw_ops

    def push(i, list, s):
        return i + 1, ops.TensorListPushBack(input_handle=list, tensor=tf.sin(s)), s * 0.5 + x[0]

    def push_some(i, list, s):
        _, list, s = tf.while_loop(lambda j, *_: j < 2, push, (0, list, s))
        list = tf.cond(tf.reduce_sum(s) > limit, lambda: list, lambda: ops.TensorListPushBack(input_handle=list, tensor=s))
        return i + 1, list, tf.ensure_shape(s, shape)

    def pop(n, list, s):
        list, top = ops.TensorListPopBack(input_handle=list, element_shape=shape, **ELEMENT)
        return n - 1, list, s * 0.5 + tf.ensure_shape(top, shape)
    list = ops.TensorListFromTensor(tensor=x, element_shape=shape)
    _, list, s = tf.while_loop(lambda i, *_: i < 3, push_some, (0, list, x[-1]))
    _, list, s = tf.while_loop(lambda n, *_: n > 3, pop, (ops.TensorListLength(input_handle=list), list, s))
    last = ops.TensorListGetItem(input_handle=list, index=2 if x.shape[0] > 2 else 0, element_shape=shape, **ELEMENT)
    return s, last, ops.TensorListLength(input_handle=list)


def resized(x):
    """A list of rows grows, and is joined, gathered from, and partly set."""
    shape, rows = x.shape[1:], x.shape[0]
    ops = tf.raw_ops
    list = ops.TensorListFromTensor(tensor=x, element_shape=shape)
    list = ops.TensorListResize(input_handle=list, size=rows + 2)
    list = ops.TensorListScatterIntoExistingList(input_handle=list, tensor=x, indices=range(1, rows + 1))
    list = ops.TensorListPushBack(input_handle=list, tensor=x[0])
    return (ops.TensorListStack(input_handle=list, element_shape=shape, **ELEMENT),
            ops.TensorListGather(input_handle=list, indices=[rows + 2, 0, rows], element_shape=shape, **ELEMENT),
            ops.TensorListConcatV2(input_handle=list, element_shape=shape, leading_dims=tf.zeros([0], tf.int64), **ELEMENT)[0])


def gradient(f):
    """The form of TensorFlow's gradients of loops: each value that the backward loop needs is pushed on a list."""
    def g(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.square(f(x)))
        return tape.gradient(y, x)
    return g


def until(x):
    return tf.while_loop(lambda y: tf.reduce_sum(tf.abs(y)) < 50, lambda y: (y * 1.3 + tf.sin(y) + 0.1,), (x,))[0]


FUNCTIONS = {
    'grown': grown,
    'pushed': pushed,
    'resized': resized,
    'gradient of a loop': gradient(lambda x: tf.while_loop(
        lambda i, y: i < 4, lambda i, y: (i + 1, tf.tanh(y * y + 0.3)), (0, x))[1]),
    'gradient of a loop of any length': gradient(until),
    'gradient of map_fn': gradient(lambda x: tf.map_fn(
        lambda e: tf.cond(tf.reduce_sum(e) > 0, lambda: e * e, lambda: tf.sin(e)), x)),
    'gradient of scan': gradient(lambda x: tf.scan(lambda a, e: a * 0.5 + e * e * a, x)),
    'map_fn': lambda x: tf.map_fn(lambda e: tf.tanh(e) * 2, x),
    'map_fn of two': lambda x: tf.map_fn(lambda e: (e * 2, tf.reduce_sum(e)), x,
                                         fn_output_signature=(tf.float32, tf.float32)),
    'map_fn of integers': lambda x: tf.map_fn(lambda e: tf.cast(e * 5, tf.int64), x, fn_output_signature=tf.int64),
    'map_fn in map_fn': lambda x: tf.map_fn(lambda e: tf.map_fn(lambda y: tf.sin(y) * 2, e), x),
    'map_fn of a branch': lambda x: tf.map_fn(
        lambda e: tf.cond(tf.reduce_sum(e) > 0, lambda: e * 2, lambda: tf.sin(e)), x),
    'scan': lambda x: tf.scan(lambda a, e: a * 0.5 + e, x),
    'scan backwards': lambda x: tf.scan(lambda a, e: a * 0.5 + e, x, reverse=True),
    'scan of two': lambda x: tf.scan(lambda a, e: (a[0] + e, a[1] * e), x,
                                     initializer=(tf.zeros(x.shape[1:]), tf.ones(x.shape[1:]))),
    'foldl': lambda x: tf.foldl(lambda a, e: a * 0.5 + e, x),
    'foldr': lambda x: tf.foldr(lambda a, e: a * 0.5 + e, x),
    'written': written,
    'read again': read_again,
    'joined': joined,
    'scattered': scattered,
    'iterated': iterated,
}


# ---- results ----

def flat(results):
    return [t.numpy() for t in tf.nest.flatten(results)]


def check_graph(r, folder, name, f, shape, wholly):
    path = f'{folder}/m.pb'
    f = freeze(f, [tf.TensorSpec(shape, tf.float32)], path)
    feeds = {f.inputs[0].op.name: r.standard_normal(shape).astype('f4')}
    outputs, want = [o.op.name for o in f.outputs], flat(f(tf.constant(*feeds.values())))
    if wholly:
        check(name, folder, path, feeds, outputs, want)
        return
    for o, got, w in zip(outputs, run(folder, path, feeds, outputs), want):
        if not close(got, w, TOLERANCE):
            sys.exit(f'{name} of {shape}: {o} is {got}, not {w}')


def check_saved(r, folder, name, model, shape):
    path = f'{folder}/{re.sub("[^a-z]", "_", name)}'
    model.export(path, verbose=False)
    signature = tf.saved_model.load(path).signatures['serving_default']
    (key,) = signature.structured_input_signature[1]
    x = r.standard_normal(shape).astype('f4')
    want = {k: v.numpy() for k, v in signature(**{key: tf.constant(x)}).items()}
    np.savez(f'{folder}/x.npz', x=x)
    tool('run', path, '-o', f'{folder}/y.npz', '--input', f'{key}=@{folder}/x.npz#x')
    with np.load(f'{folder}/y.npz') as got:
        if len(got.files) != len(want):
            sys.exit(f'{name} saved: {got.files}, not {list(want)}')
        for w in want.values():
            if not any(close(got[k], w, TOLERANCE) for k in got.files):
                sys.exit(f'{name} saved of {shape}: none of {got.files} is {w}')


def check_all(r, folder):
    wholly = set(r.choice(list(LAYERS), 4, replace=False)) | set(r.choice(list(FUNCTIONS), 3, replace=False))
    saved = set(r.choice(list(LAYERS), 4, replace=False))
    for name, make in LAYERS.items():
        shape = tuple(int(n) for n in (r.integers(1, 5), r.integers(2, 9), r.integers(1, 9)))
        model = layer(r, make, shape)
        check_graph(r, folder, name, lambda x: model(x), shape, name in wholly)  # noqa: B023
        if name in saved:
            check_saved(r, folder, name, model, shape)
    for name, f in FUNCTIONS.items():
        check_graph(r, folder, name, f, tuple(int(n) for n in r.integers(1, 9, 2)), name in wholly)


# ---- copies by an iteration ----

def check_copies(r, folder):
    """The list has more bytes than all other carried tensors: no copy of a loop is as large."""
    steps = int(r.integers(20, 60))
    model = layer(r, of(LSTM, LSTM, return_sequences=True), (1, steps, 4))
    freeze(lambda x: model(x), [tf.TensorSpec((1, steps, 4), tf.float32)], f'{folder}/m.pb')
    plan = tool('compile', '-q', '--emit', 'plan', f'{folder}/m.pb')
    inside = re.findall(r': loop \d+.*?: again to', plan, re.S)
    copies = [int(n) for part in inside for n in re.findall(r': copy .*\[(\d+)\]', part)]
    if len(inside) != 2 or not copies or max(copies) > 8 * 4:
        sys.exit(f'{len(inside)} loops copy {copies} bytes in an iteration over {steps} steps:\n{plan}')


# ---- loops that end early ----

def check_end(r, folder):
    """A loop whose last steps a mask excludes ends before them, with the same bits as with all steps; also if the mask
    excludes every step."""
    rows, steps = int(r.integers(1, 5)), int(r.integers(3, 12))
    with open(f'{folder}/off.cfg', 'w') as f:
        f.write('recurrent_end:off\n')
    for kind in LSTM, GRU, SimpleRNN:
        model = layer(r, lambda r, x: of(kind)(r, layers.Masking()(x)), (rows, steps, 3))  # noqa: B023
        frozen = freeze(lambda x: model(x), [tf.TensorSpec((rows, steps, 3), tf.float32)], f'{folder}/m.pb')  # noqa: B023
        name, y = frozen.inputs[0].op.name, frozen.outputs[0].op.name
        if 'Maximum(' not in tool('compile', '-q', '--emit', 'hir', f'{folder}/m.pb', '--outputs', y):
            sys.exit(f'{kind.__name__}: a loop does not end where its mask does')
        for longest in 0, int(r.integers(1, steps)), steps:
            x = r.standard_normal((rows, steps, 3)).astype('f4')
            for i, n in enumerate([longest, *r.integers(0, longest + 1, rows - 1)]):
                x[i, n:] = 0
            asked = folder, f'{folder}/m.pb', {name: x}, [y], '--outputs', y
            got, = run(*asked)
            whole, = run(*asked, '--fusion_switch_file', f'{folder}/off.cfg')
            if not np.array_equal(got.view('i4'), whole.view('i4')) or not close(got, model(x).numpy(), TOLERANCE):
                sys.exit(f'{kind.__name__}, {longest} of {steps} steps count: {got}, by all steps {whole}')


# ---- weights that the second level has no room for ----

TARGET = 'x86-64-v3'  # whose second level has 256 KB


def check_turns(r, folder):
    """Steps read large weights from both ends in turn, on one thread or several.  A product that each step would repeat
    runs once."""
    steps = int(r.integers(3, 9))
    for units, many in (128, 1), (64, 0):
        model = layer(r, lambda r, x: LSTM(units)(x), (1, steps, 4))  # noqa: B023
        frozen = freeze(lambda x: model(x), [tf.TensorSpec((1, steps, 4), tf.float32)], f'{folder}/m.pb')  # noqa: B023
        kernels = tool('compile', '-q', '--emit', 'kernels', '--target', TARGET, f'{folder}/m.pb')
        if kernels.count(' turns b') != many:
            sys.exit(f'LSTM of {units} units: expected {many} kernels that turn:\n{kernels}')
        x = r.standard_normal((1, steps, 4)).astype('f4')
        name, y = frozen.inputs[0].op.name, frozen.outputs[0].op.name
        one, two = (run(folder, f'{folder}/m.pb', {name: x}, [y], '--outputs', y, '--target', TARGET, '--threads', n)[0]
                    for n in '12')
        if not np.array_equal(one.view('i4'), two.view('i4')) or not close(one, model(x).numpy(), TOLERANCE):
            sys.exit(f'LSTM of {units} units, {steps} steps: {one} on one thread, {two} on two, TensorFlow {model(x)}')
    w = r.standard_normal((128, 512)).astype('f4')

    def same(x):
        def step(i, s):
            return i + 1, s * 0.5 + tf.nn.softmax(x @ w)
        return tf.while_loop(lambda i, s: i < steps, step, (0, tf.zeros((1, 512))))[1]

    freeze(same, [tf.TensorSpec((1, 128), tf.float32)], f'{folder}/m.pb')
    kernels, plan = (tool('compile', '-q', '--emit', e, '--target', TARGET, f'{folder}/m.pb') for e in ('kernels', 'plan'))
    if ' turns b' in kernels or not re.search(r'matmul.*\n(.*\n)*?.*: loop', plan):
        sys.exit(f'a product of what no step changes is not in front of the loop:\n{kernels}{plan}')


def check_widened(r, folder):
    """Where bfloat16 is multiplied as float32, a loop's weights are held as float32 if they take half of the second level at most."""
    for units, held in (192, 'f32'), (256, 'bf16'):
        model = layer(r, lambda r, x: LSTM(units)(x), (32, 3, 4))  # noqa: B023
        freeze(lambda x: model(x), [tf.TensorSpec((32, 3, 4), tf.float32)], f'{folder}/m.pb')  # noqa: B023
        kernels = tool('compile', '-q', '--emit', 'kernels', '--target', 'icelake-server', '--policy', 'allow_mix_precision_bf16',
                       f'{folder}/m.pb')
        if f' {held}[{4 * units * units}]' not in kernels:
            sys.exit(f'LSTM of {units} units: the weights are not held as {held}:\n{kernels}')


def check_kept(r, folder):
    """Weights that a run of many rows widens once, and one of few for each tile of rows, give each row the same bits."""
    model = layer(r, lambda r, x: LSTM(256)(x), (None, 3, 4))
    frozen = freeze(lambda x: model(x), [tf.TensorSpec((None, 3, 4), tf.float32)], f'{folder}/m.pb')
    name, y = frozen.inputs[0].op.name, frozen.outputs[0].op.name
    asked = '--policy', 'allow_mix_precision_bf16', '--target', TARGET, '--outputs', y, '--input-shape', f'{name}:1..32,3,4'
    if ' wide b' not in tool('compile', '-q', '--emit', 'kernels', f'{folder}/m.pb', *asked):
        sys.exit('LSTM of 256 units and any rows: no product keeps its weights as float32')
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *asked)
    x = r.standard_normal((32, 3, 4)).astype('f4')
    # The loop of few rows, and that of many.
    for most, fewer in (7, range(1, 7)), (32, r.choice(range(8, 32), 5, False)):
        all_rows, = run(folder, f'{folder}/m.htx', {name: x[:most]}, [y])
        for rows in fewer:
            some, = run(folder, f'{folder}/m.htx', {name: x[:rows]}, [y])
            if not np.array_equal(some.view('i4'), all_rows[:rows].view('i4')):
                sys.exit(f'{rows} rows are not the first ones of {most}: {some}, {all_rows}')
    if not close(all_rows, model(x).numpy(), .05):
        sys.exit(f'{all_rows}, TensorFlow {model(x)}')


def check_rows(r, folder):
    """With an open number of rows, products of many rows are in the loop if its weights stay near enough, which takes a
    branch of two loops, with one kernel for both recurrent products; otherwise one loop serves any number of rows."""
    steps = int(r.integers(3, 7))
    for units, many in (32, 1), (128, 1), (256, 0):
        model = layer(r, lambda r, x: LSTM(units)(x), (None, steps, 64))  # noqa: B023
        frozen = freeze(lambda x: model(x), [tf.TensorSpec((None, steps, 64), tf.float32)], f'{folder}/m.pb')  # noqa: B023
        name, y = frozen.inputs[0].op.name, frozen.outputs[0].op.name
        asked = '--outputs', y, '--input-shape', f'{name}:1..32,{steps},64', '--target', TARGET
        graph = tool('compile', '-q', '--emit', 'hir', f'{folder}/m.pb', *asked)
        if len(re.findall(r'\bIf\(', graph)) != many:
            sys.exit(f'LSTM of {units} units and any rows: expected {many} branches:\n{graph}')
        kernels = tool('compile', '-q', '--emit', 'kernels', f'{folder}/m.pb', *asked)
        if kernels.count('  contract {') != 2 + many:
            sys.exit(f'LSTM of {units} units and any rows: expected {2 + many} kernels of products:\n{kernels}')
        for rows in 1, int(r.integers(8, 33)):
            x = r.standard_normal((rows, steps, 64)).astype('f4')
            got, = run(folder, f'{folder}/m.pb', {name: x}, [y], *asked)
            if not close(got, model(x).numpy(), TOLERANCE):
                sys.exit(f'LSTM of {units} units, {rows} rows: {got}, TensorFlow {model(x)}')


# ---- refused graphs, and runs that fail ----

def refuse(folder, f, words, code, x=None):
    f = freeze(f, [tf.TensorSpec((4, 3), tf.float32)], f'{folder}/bad.pb')
    np.savez(f'{folder}/x.npz', x=np.ones((4, 3), 'f4') if x is None else x)
    said = tool('run', f'{folder}/bad.pb', '--input', f'{f.inputs[0].op.name}=@{folder}/x.npz#x', code=code)
    if any(w not in said for w in words):
        sys.exit(f'expected {words}, not: {said}')


def check_refusals(folder):
    def element(list, index):
        return tf.raw_ops.TensorListGetItem(input_handle=list, index=index, element_shape=[3], **ELEMENT)

    def empty(most=-1):
        return tf.raw_ops.EmptyTensorList(element_shape=[3], max_num_elements=most, **ELEMENT)

    def pushes(x, most=-1):
        return tf.while_loop(lambda s, _: tf.reduce_sum(s) > 0, lambda s, a: (
            s, tf.raw_ops.TensorListPushBack(input_handle=a, tensor=s)), (x[0], empty(most)))[1]

    def pops(x):
        def pop(i, list, s):
            list, top = tf.raw_ops.TensorListPopBack(input_handle=list, element_shape=[3], **ELEMENT)
            return i + 1, list, s + tf.ensure_shape(top, [3])
        list = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[3])
        return tf.while_loop(lambda i, *_: i < 9, pop, (0, list, x[0]))[2]

    def popped(x):
        """An element that was popped, and whose bytes are still in memory."""
        list = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[3])
        list, top = tf.raw_ops.TensorListPopBack(input_handle=list, element_shape=[3], **ELEMENT)
        return element(list, tf.cast(x[0, 0], tf.int32) + 2) + top

    def as_long_as(x):
        n = tf.cast(tf.reduce_sum(x), tf.int32)
        rows = tf.TensorArray(tf.float32, size=n, element_shape=[3])
        return tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, x[0])), (0, rows))[1].stack()

    def reads(x):
        at = tf.cast(x[0, 0], tf.int32)
        rows = tf.TensorArray(tf.float32, size=4).unstack(x)
        return tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + rows.read(i + at)), (0, x[0]))[1]

    def looks_up(x):
        """The product of a row that the table does not have."""
        rows = tf.TensorArray(tf.float32, size=4).unstack(tf.gather(np.eye(5, 3, dtype='f4'), tf.cast(x[:, :2], tf.int32)))
        return tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + rows.read(i) @ np.ones((3, 3), 'f4')), (0, x[:2]))[1]

    def writes(x):
        at = tf.cast(x[0, 0], tf.int32)
        rows = tf.TensorArray(tf.float32, size=4)
        return tf.while_loop(lambda i, _: i < 4, lambda i, a: (i + 1, a.write(i + at, x[0])), (0, rows))[1].stack()

    def shapes(x):
        list = tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, **ELEMENT)
        list = tf.raw_ops.TensorListPushBack(input_handle=list, tensor=x)
        return element(tf.raw_ops.TensorListPushBack(input_handle=list, tensor=x[0]), 1)

    index = 'an index is out of range'
    refuse(folder, shapes, ['EmptyTensorList', 'no one shape that is known'], 4)
    refuse(folder, as_long_as, ['TensorListStack', 'all elements of a list, whose number depends on data'], 4)
    refuse(folder, lambda x: element(pushes(x), 0), ['TensorListPushBack', f'{index}, in iteration 1025 of'], 3)
    refuse(folder, lambda x: element(pushes(x, 5), 0), ['TensorListPushBack', f'{index}, in iteration 6 of'], 3)
    refuse(folder, pops, [f'{index}, in iteration 5 of'], 3)
    refuse(folder, popped, [index], 3)
    refuse(folder, reads, ['an index is out of range, in iteration 4 of'], 3)
    refuse(folder, looks_up, ['an index is out of range, in iteration 3 of'], 3, np.array([[1], [4], [5], [0]], 'f4').repeat(3, 1))
    refuse(folder, writes, ['TensorListSetItem', 'an index is out of range, in iteration 4 of'], 3)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=20265)
    p.add_argument('--rounds', type=int, default=10 if environment.LONG else 1)
    a = p.parse_args()
    r = np.random.default_rng(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            check_all(r, folder)
            check_copies(r, folder)
            check_end(r, folder)
            check_turns(r, folder)
            check_widened(r, folder)
            check_kept(r, folder)
            check_rows(r, folder)
        check_refusals(folder)
    print(f'{a.rounds * (len(LAYERS) + len(FUNCTIONS))} graphs with lists agree with TensorFlow')


main()
