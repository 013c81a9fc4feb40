#!/usr/bin/env python3
"""Models whose batch stays open: one artefact runs any number of rows, chosen at random, with the results of live
TensorFlow; so do `run`, two threads, Python and a net.  Each row has the bits that it has alone.  Models that depend
on the batch, and sizes out of bounds, are refused with the reason.  A batch of fixed size in parts is run in the
same ways.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
from live import check_stops, freeze, np, run, tf, tool  # noqa: E402
from opened import agree, expected, make_net, net_refuses, run_net, weights  # noqa: E402

F32 = tf.float32


# ---- models: each returns a function of the inputs, their shapes without the batch, and their
# types ----

def mlp(r):
    sizes = [int(r.integers(3, 300)) for _ in range(4)]
    w = [weights(r, a, b) for a, b in zip(sizes, sizes[1:])]
    b = [weights(r, n) for n in sizes[1:]]

    def f(x):
        for i in range(3):
            x = tf.nn.relu(tf.nn.bias_add(x @ w[i], b[i])) - tf.reduce_mean(x, -1, keepdims=True)
        return tf.nn.softmax(x), tf.reduce_max(x, 1), tf.argmax(x, -1)
    return f, [(sizes[0],)]


def reshaped(r):
    """Shape arithmetic: Flatten, a split into heads, and back, with the batch from tf.shape()."""
    heads, size = int(r.integers(1, 5)), int(r.integers(1, 9))
    steps = int(r.integers(1, 9))
    w = weights(r, heads * size, heads * size)

    def f(x):
        n = tf.shape(x)[0]
        y = tf.reshape(x, tf.stack([n * steps, heads * size])) @ w
        y = tf.transpose(tf.reshape(y, [n, steps, heads, size]), [0, 2, 1, 3])
        p = tf.nn.softmax(tf.matmul(y, y, transpose_b=True))
        y = tf.transpose(tf.matmul(p, y), [0, 2, 1, 3])
        return tf.reshape(y, [-1, tf.shape(x)[1], heads * size]) + x, tf.reshape(y, [n, -1])
    return f, [(steps, heads * size)]


def convolved(r):
    h, c = int(r.integers(5, 20)), int(r.integers(1, 9))
    a, d, e = weights(r, 3, 3, c, 16), weights(r, 3, 3, 16, 1), weights(r, 1, 1, 16, 16)
    dense = weights(r, 32, 10)
    scale, offset = (tf.constant(r.uniform(.5, 2, 16).astype('f4')) for _ in range(2))

    def f(x):
        x = tf.nn.relu6(tf.nn.conv2d(x, a, 2, 'SAME') * scale + offset)
        y = tf.nn.conv2d(tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], 'SAME'), e, 1, 'SAME') + x
        y = tf.concat([y, tf.nn.max_pool2d(y, 3, 1, 'SAME')], -1)
        return tf.reduce_mean(y, [1, 2]) @ dense, y
    return f, [(h, h, c)]


def of_two(r):
    """Two inputs of the same batch, a table, and an input that all rows share."""
    n, k = int(r.integers(2, 50)), int(r.integers(1, 20))
    table, w = weights(r, 30, n), weights(r, n, n)

    def f(x, ids):
        words = tf.gather(table, tf.math.floormod(ids, 30))
        y = tf.reduce_sum(words, 1) + tf.tanh(x @ w)
        return tf.concat([y, x], 1), tf.clip_by_value(x, -1., 1.)
    return f, [(n,), (k,)], [F32, tf.int32]


MODELS = {f.__name__: f for f in (mlp, reshaped, convolved, of_two)}
ALWAYS = {'mlp': (1, 7, 4096)}  # numbers of rows that are always run, whatever the seed
MANY = 1000  # with so many rows, the two largest elements of some row may differ only by rounding, so argmax is not compared


# ---- the ways to run them ----

def model_of(make, r, folder):
    f, shapes, *types = make(r)
    types = types[0] if types else [F32] * len(shapes)
    names = [f'x{i}' for i in range(len(shapes))]
    signature = [tf.TensorSpec([None, *s], t, name=n) for n, s, t in zip(names, shapes, types)]
    frozen = freeze(f, signature, f'{folder}/m.pb')
    return frozen, dict(zip(names, zip(shapes, types))), [t.name.split(':')[0] for t in frozen.outputs]


def feeds_of(r, shapes, rows):
    def draw(shape, t):
        return r.integers(-99, 99, shape, 'i4') if t.is_integer else r.standard_normal(shape).astype('f4')
    return {n: draw((rows, *s), t) for n, (s, t) in shapes.items()}


def stated(shapes, size='?'):
    return [o for n, (s, _) in shapes.items() for o in ('--input-shape', f'{n}:{",".join(map(str, (size, *s)))}')]


def numbers(name, *rows):
    """TensorFlow's convolutions give results without rows a wrong shape."""
    return [n for n in (*rows, *ALWAYS.get(name, ())) if n or name != 'convolved']


def as_tensorflow(name, how, rows, outputs, got, want):
    told = [i for i, w in enumerate(want) if w.dtype.kind == 'f' or rows < MANY]
    agree(name, f'{how} of {rows} rows', *([a[i] for i in told] for a in (outputs, got, want)))


def check_net(name, folder, r, f, shapes, outputs, asked):
    net = make_net(folder, asked)
    for rows in numbers(name, int(r.integers(1, 70)), 0):
        feeds = feeds_of(r, shapes, rows)
        want = expected(f, feeds)
        as_tensorflow(name, 'net', rows, outputs, run_net(net, [rows], feeds, want), want)
    if not net_refuses(net, -1):
        sys.exit(f'{name}: a net took -1 rows')


def check(name, r, folder):
    f, shapes, outputs = model_of(MODELS[name], r, folder)
    asked = ['--outputs', ','.join(outputs), *stated(shapes)]
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *asked)
    for rows in numbers(name, 0, 1, *map(int, r.integers(2, 200, 4)), 64):
        feeds = feeds_of(r, shapes, rows)
        want = expected(f, feeds)
        got = run(folder, f'{folder}/m.htx', feeds, outputs)
        as_tensorflow(name, 'artefact', rows, outputs, got, want)
        agree(name, f'two threads, {rows} rows', outputs,
              run(folder, f'{folder}/m.htx', feeds, outputs, '--threads', '2'), got, 0)
    agree(name, 'run', outputs, run(folder, f'{folder}/m.pb', feeds, outputs, *asked), got, 0)
    for rows in ALWAYS.get(name, ()):
        feeds = feeds_of(r, shapes, rows)
        as_tensorflow(name, 'run', rows, outputs, run(folder, f'{folder}/m.pb', feeds, outputs, *asked), expected(f, feeds))
    check_net(name, folder, r, f, shapes, outputs, asked)
    for policy, tolerance in {'force_fp16': 3e-2, 'allow_mix_precision_bf16': 1e-1}.items():
        feeds = feeds_of(r, shapes, 37)
        got = run(folder, f'{folder}/m.pb', feeds, outputs, *asked, '--policy', policy)
        floats = [i for i, w in enumerate(expected(f, feeds)) if w.dtype.kind == 'f']
        agree(name, policy, [outputs[i] for i in floats], [got[i] for i in floats],
              [expected(f, feeds)[i] for i in floats], tolerance)


# ---- rows that depend on each other ----

def mixed(r):
    """No part of the batch can be computed by itself: means, orders and the number of rows, and a branch by all of them."""
    c = int(r.integers(1, 20))

    def f(x):
        y = tf.cond(tf.reduce_max(x) > 2., lambda: x - tf.reduce_mean(x, 0), lambda: tf.nn.softmax(x, 0))
        return y, tf.shape(x)[0], x * tf.cast(tf.shape(x)[0], F32), tf.reverse(x, [0]) + x, tf.cumsum(x, 0), tf.reduce_max(y, 0)
    return f, [(c,)]


def check_mixed(r):
    """Bounds take the place of parts, and a note says which."""
    with tempfile.TemporaryDirectory() as folder:
        f, shapes, outputs = model_of(mixed, r, folder)
        asked = ['--outputs', ','.join(outputs), *stated(shapes)]
        said = tool('compile', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *asked)
        if said.count('dimension 0 is at most 64') != 1:
            sys.exit(f'mixed: {said!r}')
        net = make_net(folder, asked)
        for rows in 1, 64, int(r.integers(2, 64)):
            feeds = feeds_of(r, shapes, rows)
            want = expected(f, feeds)
            agree('mixed', f'{rows} rows', outputs, run(folder, f'{folder}/m.htx', feeds, outputs, '--threads', '2'), want)
            agree('mixed', f'net of {rows} rows', outputs, run_net(net, [rows], feeds, want), want)
        if not net_refuses(net, 65):
            sys.exit('mixed: a net took 65 rows')
        said = tool('compile', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', ','.join(outputs), *stated(shapes, '1..7'))
        if 'at most' in said:
            sys.exit(f'mixed: {said!r}')
        check_stops('mixed', folder, f'{folder}/m.htx', feeds_of(r, shapes, 8), '1..7')


# ---- a batch of fixed size in parts ----

def check_parts(r, rows=5):
    """The batch is forked; run, an artefact and a net give TensorFlow's results."""
    with tempfile.TemporaryDirectory() as folder:
        f, ((h, w, c), ) = convolved(r)
        frozen = freeze(f, [tf.TensorSpec([rows, h, w, c], F32, name='x0')], f'{folder}/m.pb')
        outputs = [t.name.split(':')[0] for t in frozen.outputs]
        asked = ['--outputs', ','.join(outputs), '--batch-method', 'parts']
        feeds = {'x0': r.standard_normal((rows, h, w, c)).astype('f4')}
        want = expected(f, feeds)
        if f' x {rows}' not in tool('compile', f'{folder}/m.pb', '--emit', 'plan', '-o', '-', *asked).partition('fork')[2]:
            sys.exit(f'parts: no fork of {rows} instances')
        tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *asked)
        for how, model, more in ('run', 'm.pb', asked), ('artefact', 'm.htx', []):
            for threads in '1', '2', '3':
                agree('parts', f'{how}, {threads} threads', outputs,
                      run(folder, f'{folder}/{model}', feeds, outputs, *more, '--threads', threads), want)
        agree('parts', 'net', outputs, run_net(make_net(folder, asked), [], feeds, want), want)


# ---- refused models ----

def refused(name, f, shape, *why, size='?', feed=None, code=4):
    with tempfile.TemporaryDirectory() as folder:
        freeze(f, [tf.TensorSpec([None, *shape], F32, name='x')], f'{folder}/m.pb')
        more = []
        if feed is not None:
            np.save(f'{folder}/x.npy', feed)
            more = ['--input', f'x=@{folder}/x.npy']
        said = tool('run', f'{folder}/m.pb', '--input-shape', f'x:{size},{",".join(map(str, shape))}', *more, code=code)
        for w in why:
            if w not in said:
                sys.exit(f'{name}: {said!r} does not say {w!r}')


def check_refusals():
    refused('a reshape of the batch', lambda x: tf.reshape(x, [64, -1]), (4,), 'Reshape', 'out of range', feed=np.zeros((2, 4), 'f4'), code=3)
    refused('a fixed number of rows', lambda x: x + tf.ones([64, 4]) * tf.reduce_mean(x, 1, True), (4,), 'mul', 'out of range',
            feed=np.zeros((2, 4), 'f4'), code=3)
    refused('shuffled rows', lambda x: tf.random.shuffle(x), (4,), 'RandomShuffle')
    refused('a size above the range', lambda x: x + 1, (4,), '2 to 8', '9 was given', size='2..8',
            feed=np.zeros((9, 4), 'f4'), code=3)
    refused('a size below the range', lambda x: x + 1, (4,), '2 to 8', '1 was given', size='2..8',
            feed=np.zeros((1, 4), 'f4'), code=3)
    for size in '5..2', '..3', '-1..3', '??', '1...3':
        refused('no range', lambda x: x + 1, (4,), 'NAME:D,D', size=size, code=2)


def check_fields():
    """The report on a program with an open size."""
    with tempfile.TemporaryDirectory() as folder:
        freeze(lambda x: x + 1, [tf.TensorSpec([None, 3], F32, name='x')], f'{folder}/m.pb')
        for args, *wants in (
                (('compile', '--emit', 'plan', '-o', '-'), 'size rows: 1 to 64', 'x: float32[rows,3]', 'spread'),
                (('bench', '--batch', '5', '--duration', '0', '--runs', '1'), '[5,3]', 'latency'),
                (('run',), '[1,3]'),
                (('explain',), '')):
            said = tool(args[0], f'{folder}/m.pb', *args[1:], '--input-shape', 'x:1..64,3')
            for w in wants:
                if w not in said:
                    sys.exit(f'{args[0]}: {said!r} does not say {w!r}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('name', nargs='*', help=', '.join(MODELS))
    a = p.parse_args()
    print(f'seed {a.seed}')
    for name in a.name or environment.share(MODELS, a.seed):
        with tempfile.TemporaryDirectory() as folder:
            check(name, np.random.default_rng([a.seed, list(MODELS).index(name)]), folder)
    if not a.name:
        check_parts(np.random.default_rng([a.seed, len(MODELS)]))
        check_mixed(np.random.default_rng([a.seed, len(MODELS) + 1]))
        check_refusals()
        check_fields()
    print('ok')


main()
