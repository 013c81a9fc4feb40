#!/usr/bin/env python3
"""Loops and branches over tensors of open sizes: recurrent layers of Keras with open batch and number of steps, map_fn,
scan, folds, loops and branches that carry or capture such tensors.  One program for all sizes is run at random ones
and compared with live TensorFlow, on one thread and two, and under policies.  Unsupported graphs are refused with
the node's name, and a run that stops reports loop and iteration.

Exit code 77: nothing to test with.
"""
import argparse
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
from live import TOLERANCE, check_stops, close, fed, freeze, np, run, tf, tool  # noqa: E402

keras = environment.keras()
layers = keras.layers
F32 = tf.float32
POLICIES = {'force_fp16': 2e-2, 'allow_mix_precision_bf16': 1e-1}
ROWS, STEPS, PLACES = 5, 11, 7  # the largest sizes


def weights(r, *shape):
    return (r.standard_normal(shape) * .3).astype('f4')


# ---- recurrent layers, on [batch, steps, features] ----

def units(r):
    return int(r.integers(1, 9))


def layered(make):
    """A model of Keras with open batch and number of steps."""
    def f(r):
        features = int(r.integers(1, 7))
        x = keras.Input((None, features))
        y = make(r, x)
        model = keras.Model(x, y)
        model.set_weights([weights(r, *w.shape) for w in model.get_weights()])

        def call(x):
            y = model(x)
            return tuple(y) if isinstance(y, (list, tuple)) else (y,)
        return call, {'x': (None, None, features)}
    f.__name__ = make.__name__
    return f


@layered
def lstm(r, x):
    return layers.LSTM(units(r))(x)


@layered
def lstm_sequences(r, x):
    return layers.LSTM(units(r), return_sequences=True, return_state=True)(x)


@layered
def stacked(r, x):
    return layers.Dense(3)(layers.LSTM(units(r))(layers.LSTM(units(r), return_sequences=True)(x)))


@layered
def gru(r, x):
    return layers.GRU(units(r), reset_after=bool(r.integers(2)), return_sequences=bool(r.integers(2)))(x)


@layered
def simple(r, x):
    return layers.SimpleRNN(units(r))(x)


@layered
def backwards(r, x):
    return layers.GRU(units(r), go_backwards=True, return_sequences=bool(r.integers(2)))(x)


@layered
def both_ways(r, x):
    return layers.Bidirectional(layers.LSTM(units(r), return_sequences=bool(r.integers(2))))(x)


@layered
def masked(r, x):
    kept = keras.ops.where(x[:, :, :1] > 0.3, 0.0, x)
    return layers.LSTM(units(r), return_sequences=bool(r.integers(2)))(layers.Masking()(kept))


@layered
def embedded(r, x):
    words = keras.ops.cast(keras.ops.abs(x[:, :, 0] * 3), 'int32')
    return layers.LSTM(units(r))(layers.Embedding(40, 4, mask_zero=True)(words))


def images(r):
    """Rows are images, which kernels of Winograd's method compute several at a time."""
    side, channels, filters = 4 * int(r.integers(1, 4)), int(r.integers(3, 17)), 4 * int(r.integers(1, 5))
    x = keras.Input((None, side, side, channels))
    model = keras.Model(x, layers.ConvLSTM2D(filters, 3, padding='same')(x))
    model.set_weights([weights(r, *w.shape) * .3 for w in model.get_weights()])
    return lambda x: (model(x),), {'x': (None, None, side, side, channels)}


def one_row(r):
    """The batch is one row, so states have shapes in which fixed numbers stand beside open ones."""
    f, shapes = lstm_sequences(r)
    return f, {'x': (1, *shapes['x'][1:])}


# ---- loops over lists ----

def mapped(r):
    """map_fn over an open first dimension, whose elements have an open one, too."""
    w = weights(r, 3, 4)
    return lambda x: (tf.map_fn(lambda e: tf.tanh(e @ w), x), tf.map_fn(tf.reduce_sum, x)), {'x': (None, None, 3)}


def scanned(r):
    n = units(r)
    return lambda x: (tf.scan(lambda a, e: tf.tanh(a * .5 + e), x, tf.zeros([n])),
                      tf.foldl(lambda a, e: a * .5 + e, x, tf.ones([n]))), {'x': (None, n)}


def in_each_other(r):
    """map_fn in map_fn: lists of rows, whose lengths are the two open sizes, and a list of lists that a body makes of them."""
    a = float(r.uniform(-1, 1))
    return lambda x: (tf.map_fn(lambda row: tf.map_fn(lambda e: tf.tanh(e * a), row) + tf.scan(lambda s, e: s * .5 + e, row), x),
                      tf.map_fn(lambda row: tf.reduce_max(tf.map_fn(tf.reduce_sum, row)), x)), {'x': (None, None, 3)}


def array(r):
    """A loop over the rows fills and reads a TensorArray."""
    n = units(r)

    def f(x):
        rows = tf.shape(x)[0]
        a = tf.TensorArray(F32, rows, element_shape=(n,))
        a = tf.while_loop(lambda i, a: i < rows, lambda i, a: (i + 1, a.write(i, x[rows - 1 - i] * 2.)), (0, a))[1]
        return (a.stack(),)
    return f, {'x': (None, n)}


def joined(r):
    """Elements of an open size, one behind the other."""
    n = int(r.integers(2, 5))

    def f(x):
        a = tf.TensorArray(F32, n, element_shape=(2, None))
        a = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x[:2] * tf.cast(i, F32))), (0, a))[1]
        return (a.concat(),)
    return f, {'x': (2, None)}


def grown(r):
    """A list of elements that are longer, or shorter, than the tensor that an earlier loop began with."""
    n, more = int(r.integers(2, 4)), bool(r.integers(2))
    shape = tf.TensorShape([None, 3])

    def f(x):
        def longer(i, y):
            return i + 1, tf.concat([y, x], 0) if more else y[1:]
        y = tf.tanh(tf.while_loop(lambda i, y: i < n, longer, (0, tf.pad(x, [[4, 0], [0, 0]])), shape_invariants=(tf.TensorShape([]), shape))[1])
        a = tf.TensorArray(F32, n, element_shape=shape, clear_after_read=False)

        def set(i, y, a):
            a = a.write(i, y * .5)
            return i + 1, a.read(i), a
        _, y, a = tf.while_loop(lambda i, y, a: i < n, set, (0, y, a), shape_invariants=(tf.TensorShape([]), shape, tf.TensorShape(None)))
        return a.stack(), y
    return f, {'x': (None, 3)}


# ---- loops that carry tensors ----

def carried(r):
    """A tensor with open rows and columns, a tensor that no iteration changes, and the number of rows."""
    w, n = weights(r, 4, 4), int(r.integers(0, 9))

    def f(x):
        rows = tf.cast(tf.shape(x)[0], F32)
        return tf.while_loop(lambda i, y, s: i < n, lambda i, y, s: (i + 1, tf.tanh(y @ w) + x * .1, s + tf.reduce_sum(y) / rows),
                             (0, x, 0.))[1:]
    return f, {'x': (None, 4)}


def until(r):
    """A condition on the data, for which elements outside of the size do not count."""
    limit = float(r.uniform(20, 300))
    return lambda x: (tf.while_loop(lambda y: tf.reduce_sum(tf.abs(y)) < limit, lambda y: (y * 1.5 + .1,), (x,))[0],), \
        {'x': (None, None)}


def shaped(r):
    """The result of an iteration has the sizes of a captured tensor."""
    def body(x):
        def f(i, y):
            s = tf.shape(x)
            z = tf.fill(s, tf.cast(i, F32)) + tf.reshape(tf.reshape(y, [-1]), s)
            return i + 1, z + tf.cast(tf.range(s[1]), F32) * tf.cast(s[0], F32)
        return f
    return lambda x: (tf.while_loop(lambda i, y: i < 3, body(x), (0, x))[1],), {'x': (None, None)}


def steps(r):
    """A loop over the columns, of which each iteration takes one by its number."""
    def f(x):
        columns = tf.shape(x)[1]
        return (tf.while_loop(lambda i, s: i < columns, lambda i, s: (i + 1, s * .5 + x[:, i]), (0, tf.zeros_like(x[:, 0])))[1],)
    return f, {'x': (None, None)}


def ends(r):
    """Kernels that read elements at positions that depend on the run's sizes beside elements at fixed positions."""
    return lambda x: (x[:, -1] * x[:, 0], x[0] - x[-1], tf.reverse(x, [1]) * x, x[-1, -1] + x[0, 0] * x), \
        {'x': (None, None)}


def nested(r):
    """A loop and a branch in a loop."""
    w = weights(r, 4, 4)

    def body(i, y):
        z = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * .5 + tf.tanh(y @ w)), (0, y))[1]
        return i + 1, tf.cond(tf.reduce_max(z) > .5, lambda: z * .1, lambda: tf.nn.softmax(z, 0) + y)
    return lambda x: (tf.while_loop(lambda i, y: i < 4, body, (0, x))[1],), {'x': (None, 4)}


# ---- branches ----

def branched(r):
    at = float(r.uniform(-.2, .2))
    return lambda x: tf.cond(tf.reduce_mean(x) > at, lambda: (tf.nn.softmax(x * 2, 0), tf.reduce_mean(x)),
                             lambda: (tf.nn.relu(x) - at, tf.reduce_max(x))), {'x': (None, None)}


def by_size(r):
    """The branch depends on a size, and later nodes use the same size."""
    def f(x):
        y = tf.cond(tf.shape(x)[0] > 2, lambda: tf.reduce_sum(x, 1, keepdims=True) + x, lambda: x * tf.cast(tf.size(x), F32))
        return y, tf.reduce_sum(y, 0)
    return f, {'x': (None, None)}


def chosen(r):
    def f(x):
        at = tf.cast(tf.math.floormod(tf.reduce_max(x) * 10, 3), tf.int32)
        return (tf.switch_case(at, [lambda: x * 2, lambda: tf.transpose(tf.transpose(x) - 1), lambda: x + tf.reduce_mean(x, 0)]),)
    return f, {'x': (None, None)}


def differentiated(r):
    """The gradient of a loop, which hands on the shapes of what it broadcasts and reduces in lists, and the values."""
    n, w = int(r.integers(1, 4)), float(r.uniform(-1, 1))

    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y * w + x + tf.reduce_mean(x, 1, True)) + tf.reduce_mean(y, 0) * .1), (0, x),
                              shape_invariants=(tf.TensorShape([]), x.shape))[1]
            z = tf.reduce_sum(tf.square(y))
        return (tape.gradient(z, x),)
    return f, {'x': (None, None)}


def shorter(r):
    """A list with as many elements as a loop leaves of a tensor that an earlier loop reads from a list."""
    def f(x):
        def write(i, y, a):
            a = a.write(i, y + 1)
            return i + 1, a.read(i), a
        vector = tf.TensorShape([None])
        a = tf.TensorArray(tf.int32, 2, element_shape=vector, clear_after_read=False)
        y = tf.while_loop(lambda i, y, a: i < 2, write, (0, tf.cast(x[:, 0], tf.int32), a), shape_invariants=(tf.TensorShape([]), vector, tf.TensorShape(None)))[1]
        y = tf.while_loop(lambda y: tf.shape(y)[0] > 2, lambda y: (y[:-1],), (y,), shape_invariants=(vector,))[0]
        n = tf.shape(y)[0]
        return (tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x[0, 0])), (0, tf.TensorArray(F32, n, element_shape=())))[1].stack(),)
    return f, {'x': (None, None)}


def doubled(r):
    """Nine iterations double a tensor's rows, which become more than there is room for without a bound."""
    def f(x):
        return (tf.while_loop(lambda i, y: i < 9, lambda i, y: (i + 1, tf.concat([y, y + 1], 0)), (0, x[:3]), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])))[1],)
    return f, {'x': (None, None)}


def turned_column(r):
    """A row is added, and a column of the longer tensor, which is as long as its rows are many, becomes a row of the result."""
    shape = tf.TensorShape([None, None])

    def f(x):
        def longer(i, y):
            y = tf.concat([y, y[:1]], 0)
            return i + 1, y - y[:, 0]
        return (tf.while_loop(lambda i, y: i < tf.minimum(tf.shape(x)[0], 1), longer, (0, x), shape_invariants=(tf.TensorShape([]), shape))[1],)
    return f, {'x': (None, 1)}


# ---- gradients of loops that shorten a tensor of three axes ----

def part(y, axis):
    return [y[1:], y[:, 1:], y[..., 1:-1]][axis]


def by_sums(y, axis):
    return part(y, axis) * 1.5 + tf.reduce_sum(part(y, axis), axis, keepdims=True) * .1


def by_sums_of_others(y, axis):
    s = tf.reduce_sum(y, [i for i in range(3) if i != axis])
    return part(y, axis) + part(tf.reshape(s, [-1 if i == axis else 1 for i in range(3)]), axis) * .1


def by_broadcasts(y, axis):
    y = part(y, axis)
    return tf.broadcast_to(tf.reduce_mean(y, (axis + 1) % 3, keepdims=True), tf.shape(y)) + tf.tanh(y)


def by_mean(y, axis):
    return part(y, axis) * (1 + tf.reduce_mean(y))


def by_itself(y, axis):
    return tf.tanh(part(y, axis)) * 1.5


SHORTER = [by_itself, by_sums, by_broadcasts, by_mean, by_sums_of_others]


def shortened(r, axis):
    """The shape of a tensor, one axis of which a loop shortens, and sometimes another one that is open."""
    fixed = int(r.integers(1, 5)), int(r.integers(1, 5)), int(r.integers(1, 5))
    also = int(r.integers(-3, 3))
    return tuple(None if i in (axis, also) else n for i, n in enumerate(fixed))


def shrinking(r, axis, shape, steps):
    step, n = steps[r.integers(len(steps))], int(r.integers(1, 4))

    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, step(y, axis)), (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape(shape)))[1]
            z = tf.reduce_sum(tf.square(y))
        return tape.gradient(z, x), y
    return f


def shrunk(axis):
    def f(r):
        shape = shortened(r, axis)
        return shrinking(r, axis, shape, SHORTER), {'x': shape}
    f.__name__ = ['shrunk_first', 'shrunk_middle', 'shrunk_last'][axis]
    return f


shrunk_first, shrunk_middle, shrunk_last = shrunk(0), shrunk(1), shrunk(2)


MODELS = [shrunk_first, shrunk_middle, shrunk_last, lstm, lstm_sequences, images, one_row, stacked, gru, simple, backwards, both_ways, masked, embedded, mapped, scanned, in_each_other, array, joined, grown, carried, until, shaped,
          steps, ends, nested, branched, by_size, chosen, differentiated, shorter, doubled,
          turned_column]


# ---- checks ----

def stated(shapes):
    """The options that state all shapes, open dimensions by their bounds."""
    bounds = [f'1..{n}' for n in (ROWS, STEPS, PLACES)]
    return [o for k, s in shapes.items()
            for o in ('--input-shape', f'{k}:' + ','.join(bounds[i] if d is None else str(d) for i, d in enumerate(s)))]


def sizes_of(r, times):
    """Random sizes, including the least and the largest."""
    some = [tuple(int(r.integers(1, n + 1)) for n in (ROWS, STEPS, PLACES)) for _ in range(times)]
    return [(1, 1, 1), (ROWS, STEPS, PLACES), *some]


def agree(name, how, outputs, got, want, tolerance=TOLERANCE):
    for o, g, w in zip(outputs, got, want):
        if not close(g, w, tolerance):
            sys.exit(f'{name}, {how}: {o} is {g}, not {w}')


def check(name, make, r, folder, times):
    f, shapes = make(r)
    frozen = freeze(f, [tf.TensorSpec(s, F32, k) for k, s in shapes.items()], f'{folder}/m.pb')
    outputs = [t.name.removesuffix(':0') for t in frozen.outputs]
    asked = '--outputs', ','.join(outputs)
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *stated(shapes), *asked)
    policy = str(r.choice(list(POLICIES)))
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/p.htx', *stated(shapes), *asked, '--policy', policy)
    all_sizes = sizes_of(r, times)
    for sizes in all_sizes:
        feeds = {k: r.uniform(-1, 1, [sizes[i] if d is None else d for i, d in enumerate(s)]).astype('f4') for k, s in shapes.items()}
        want = [y.numpy() for y in frozen(*(tf.constant(v) for v in feeds.values()))]
        got = run(folder, f'{folder}/m.htx', feeds, outputs)
        agree(name, f'sizes {sizes}', outputs, got, want)
        if sizes == all_sizes[-1]:
            agree(name, f'sizes {sizes}, two threads', outputs, run(folder, f'{folder}/m.htx', feeds, outputs, '--threads', '2'), got, 0)
        if name not in ('until', 'branched', 'nested', 'chosen', 'embedded', 'masked'):  # there rounding changes decisions
            agree(name, f'sizes {sizes}, {policy}', outputs, run(folder, f'{folder}/p.htx', feeds, outputs), want, POLICIES[policy])


# ---- loops that end early ----

def check_end():
    """The end of a loop by its mask does not depend on rows that the run does not have, whose elements are not defined."""
    with tempfile.TemporaryDirectory() as folder:
        x = keras.Input((6, 3))
        model = keras.Model(x, layers.LSTM(4)(layers.Masking()(x)))
        frozen = freeze(lambda x: model(x), [tf.TensorSpec((None, 6, 3), F32, 'x')], f'{folder}/m.pb')
        asked = ['--outputs', frozen.outputs[0].name.removesuffix(':0'), '--input-shape', 'x:1..5,6,3']
        said = tool('compile', '-q', '--emit', 'hir', f'{folder}/m.pb', *asked)
        if 'Maximum(' not in said or not re.search(r'= _Within\(.*fill="zero".* : b1\[', said):
            sys.exit(f'a loop does not end where the mask of its rows does: {said}')


# ---- what is in front of loops ----

def check_front():
    """The products of all steps are in front of the loops, with the steps of a row side by side.  Lists, which are too large for
    constants here, are filled where the loops change them, and are not copied."""
    rows, steps, features, width = 7, 512, 3, 80
    with tempfile.TemporaryDirectory() as folder:
        x = keras.Input((None, features))
        model = keras.Model(x, layers.Bidirectional(layers.GRU(width, return_sequences=True))(x))
        frozen = freeze(lambda x: model(x), [tf.TensorSpec((None, None, features), F32, 'x')], f'{folder}/m.pb')
        asked = [f'{folder}/m.pb', '--outputs', frozen.outputs[0].name.removesuffix(':0'), '--input-shape', f'x:1..{rows},1..{steps},{features}']
        said = tool('compile', '-q', '--emit', 'hir', *asked)
        if said.count(f'f32[{rows},{steps},{3 * width}]\n') < 2 or 'GatherV2(%arg' not in said:
            sys.exit(f'products of the steps are in the loops: {said}')
        plan = tool('compile', '-q', '--emit', 'plan', *asked)
        if any(int(n) > 4 * rows * width for n in re.findall(r'copy \(.*\[(\d+)\]', plan)):
            sys.exit(f'a list is copied: {plan}')


# ---- loops that shorten tensors ----

def check_stacks(r):
    """The same gradients as TensorFlow 1 writes them, with stacks."""
    for axis in range(3):
        shape, step = shortened(r, axis), SHORTER[r.integers(len(SHORTER))]
        graph = tf.Graph()
        tf.compat.v1.disable_control_flow_v2()
        with graph.as_default():
            x = tf.compat.v1.placeholder(F32, shape, 'x')
            y = tf.compat.v1.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, step(y, axis)), (0, x),
                                        shape_invariants=(tf.TensorShape([]), tf.TensorShape(shape)))[1]
            tf.identity(tf.compat.v1.gradients(tf.reduce_sum(tf.square(y)), x)[0], 'g')
            tf.identity(y, 'y')
        tf.compat.v1.enable_control_flow_v2()
        with tempfile.TemporaryDirectory() as folder, tf.compat.v1.Session(graph=graph) as s:
            with open(f'{folder}/m.pb', 'wb') as out:
                out.write(graph.as_graph_def().SerializeToString())
            tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *stated({'x': shape}), '--outputs', 'g,y')
            for sizes in sizes_of(r, 1):
                feeds = {'x': r.uniform(-1, 1, [n if d is None else d for d, n in zip(shape, sizes)]).astype('f4')}
                want = s.run(['g:0', 'y:0'], {'x:0': feeds['x']})
                agree(f'stacks, axis {axis} of {shape}', f'sizes {sizes}', ['g', 'y'], run(folder, f'{folder}/m.htx', feeds, ['g', 'y']), want)


def check_memory(r):
    """A gradient needs memory for as many elements as there may be, and not for the default room along each axis; a run without that much
    memory says so."""
    for axis, shape in enumerate([(None, 64, 96), (64, None, 96), (64, 96, None)]):
        f = shrinking(r, axis, shape, SHORTER[:3])  # what is tiled and reshaped in the others has the default room
        sizes = tuple(7 if d is None else d for d in shape)
        with tempfile.TemporaryDirectory() as folder:
            frozen = freeze(f, [tf.TensorSpec(shape, F32, 'x')], f'{folder}/m.pb')
            outputs = [t.name.removesuffix(':0') for t in frozen.outputs]
            feeds = {'x': r.uniform(-1, 1, sizes).astype('f4')}
            asked = '--outputs', ','.join(outputs)
            got = run(folder, f'{folder}/m.pb', feeds, outputs, *asked, '--max-memory', '512M' if environment.SANITIZED else '32M')
            agree('memory', f'axis {axis}', outputs, got, [y.numpy() for y in frozen(tf.constant(feeds['x']))])
            os.remove(f'{folder}/y.npz')
            said = tool('run', f'{folder}/m.pb', '-o', f'{folder}/y.npz', *fed(folder, feeds), *asked, '--max-memory', '256K', code=6)
            if 'needs' not in said or os.path.exists(f'{folder}/y.npz'):
                sys.exit(f'a run with too little memory: {said!r}')


# ---- what stops, and what is refused ----

def model_of(f, folder, shape=(None, None)):
    frozen = freeze(f, [tf.TensorSpec(shape, F32, 'x')], f'{folder}/m.pb')
    return ['--outputs', ','.join(t.name.removesuffix(':0') for t in frozen.outputs)]


def stops(what, f, x, *reasons):
    """One program for all sizes stops at these ones."""
    with tempfile.TemporaryDirectory() as folder:
        tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *model_of(f, folder), *stated({'x': (None, None)}))
        check_stops(what, folder, f'{folder}/m.htx', {'x': x}, *reasons)


def refused(what, f, *reasons):
    with tempfile.TemporaryDirectory() as folder:
        asked = model_of(f, folder)
        said = tool('compile', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *asked, *stated({'x': (None, None)}), code=4)
        if any(reason not in said for reason in reasons) or os.path.exists(f'{folder}/m.htx'):
            sys.exit(f'{what}: {said!r}')


def ones(*shape):
    return np.ones(shape, 'f4')


def filled(x):
    """A list with as many elements as there are rows, of which the loop sets one more than there are columns."""
    a = tf.TensorArray(F32, tf.shape(x)[0], element_shape=())
    columns = tf.shape(x)[1]
    return tf.while_loop(lambda i, a: i <= columns, lambda i, a: (i + 1, a.write(i, x[0, 0])), (0, a))[1].stack()


def check_refusals():
    indexed = tf.function(lambda x: tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + x[:, i]), (0, x[:, 0]))[1])
    stops('an index of a column that is not there', indexed, ones(2, 3), "while'", 'iteration 4', 'out of range')
    stops('an element behind the end of a list', filled, ones(2, 3), 'iteration 3', 'out of range')
    stops('more rows than stated', lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 9, lambda y: (y + 1,), (x,))[0],
          ones(ROWS + 1, 2), 'no variant', f'x:1..{ROWS}')
    refused('a loop that adds axes', lambda x: tf.while_loop(lambda y: tf.rank(y) < 5, lambda y: (y[None],), (x,),
                                                             shape_invariants=(tf.TensorShape(None),))[0], 'while', 'not known')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--only')
    p.add_argument('--times', type=int, default=1, help='random sizes of each model')
    args = p.parse_args()
    models = {m.__name__: m for m in MODELS}
    failed = []
    print(f'seed {args.seed}')
    for name in args.only.split(',') if args.only else environment.share(models, args.seed):
        with tempfile.TemporaryDirectory() as folder:
            try:
                r = np.random.default_rng([args.seed, list(models).index(name)])
                check(name, models[name], r, folder, args.times)
                print('ok', name)
            except SystemExit as e:
                failed.append(name)
                print('FAILED', name, str(e)[:1500])
    if not args.only:
        check_end()
        check_front()
        check_stacks(np.random.default_rng(args.seed))
        check_memory(np.random.default_rng(args.seed))
        check_refusals()
    if failed:
        sys.exit(f'seed {args.seed}: {failed}')


if __name__ == '__main__':
    main()
