#!/usr/bin/env python3
"""Recurrent networks and loops over lists: layers of Keras, map_fn, scan, folds and TensorArrays, of random
sizes, run as live TensorFlow runs them, frozen and as SavedModel; some of them, chosen at random, in each way that
the tool has, and under policies.  A list that a loop fills is not copied by an iteration.  What cannot be run
is refused by name.

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

keras, layers = tf.keras, tf.keras.layers


# ---- layers: each takes [batch, steps, features] ----

def of(*kinds, **options):
    """Layers of random numbers of units behind each other; all but the last one return sequences."""
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
}


def layer(r, make, shape):
    x = keras.Input(shape[1:], batch_size=shape[0])
    model = keras.Model(x, make(r, x))
    for w in model.weights:
        w.assign(r.standard_normal(w.shape) * 0.4)
    return model


# ---- functions of [steps, columns] ----

def written(x):
    """Elements that depend on the data, and one that is never set."""
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


FUNCTIONS = {
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


# ---- what they compute ----

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


# ---- what an iteration copies ----

def check_copies(r, folder):
    """A list of more bytes than all else that is carried: no copy of a loop is as large."""
    steps = int(r.integers(20, 60))
    model = layer(r, of(LSTM, LSTM, return_sequences=True), (1, steps, 4))
    freeze(lambda x: model(x), [tf.TensorSpec((1, steps, 4), tf.float32)], f'{folder}/m.pb')
    plan = tool('compile', '-q', '--emit', 'plan', f'{folder}/m.pb')
    inside = re.findall(r': loop \d+.*?: again to', plan, re.S)
    copies = [int(n) for part in inside for n in re.findall(r': copy .*\[(\d+)\]', part)]
    if len(inside) != 2 or not copies or max(copies) > 8 * 4:
        sys.exit(f'{len(inside)} loops copy {copies} bytes in an iteration over {steps} steps:\n{plan}')


# ---- what is refused, and what fails ----

def refuse(folder, f, words, code, x=None):
    f = freeze(f, [tf.TensorSpec((4, 3), tf.float32)], f'{folder}/bad.pb')
    np.savez(f'{folder}/x.npz', x=np.ones((4, 3), 'f4') if x is None else x)
    said = tool('run', f'{folder}/bad.pb', '--input', f'{f.inputs[0].op.name}=@{folder}/x.npz#x', code=code)
    if any(w not in said for w in words):
        sys.exit(f'expected {words}, not: {said}')


def check_refusals(folder):
    def grows(x):
        rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(4):
            rows = rows.write(i, x[i])
        return rows.stack()

    def as_long_as(x):
        n = tf.cast(tf.reduce_sum(x), tf.int32)
        rows = tf.TensorArray(tf.float32, size=n, element_shape=[3])
        return tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, x[0])), (0, rows))[1].stack()

    def reads(x):
        at = tf.cast(x[0, 0], tf.int32)
        rows = tf.TensorArray(tf.float32, size=4).unstack(x)
        return tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + rows.read(i + at)), (0, x[0]))[1]

    def writes(x):
        at = tf.cast(x[0, 0], tf.int32)
        rows = tf.TensorArray(tf.float32, size=4)
        return tf.while_loop(lambda i, _: i < 4, lambda i, a: (i + 1, a.write(i + at, x[0])), (0, rows))[1].stack()

    known = 'length and shape of elements are not known'
    refuse(folder, grows, ['TensorListReserve', known], 4)
    refuse(folder, as_long_as, ['TensorListReserve', known], 4)
    refuse(folder, reads, ['an index is out of range, in iteration 4 of'], 3)
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
        check_refusals(folder)
    print(f'{a.rounds * (len(LAYERS) + len(FUNCTIONS))} graphs with lists agree with TensorFlow')


main()
