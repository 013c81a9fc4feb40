#!/usr/bin/env python3
"""What data select is filled up to a fixed length, as detectors of objects do: by Pad, and by a Fill in front of it, behind it or between two
selections.  Several inputs, among them none and all elements, give the results of live TensorFlow; so does such a graph in the body of map_fn in
both forms of control flow, and with an open batch.  A run that selects more elements than fit stops.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import check_stops, close, freeze, np, run, tf, tool  # noqa: E402
import freezing  # noqa: E402

F32 = tf.float32
ROWS, COLUMNS = 9, 4


def chosen(x, limit=0.):
    return tf.boolean_mask(x, x[:, 0] > limit)


def missing(y, most):
    return most - tf.shape(y)[0]


# ---- graphs of x: [rows, columns], of which at most `most` are selected ----

def behind(x, most):
    y = chosen(x)
    return tf.pad(y, [[0, missing(y, most)], [0, 0]]), tf.shape(y)[0]


def in_front(x, most):
    """Beside the selected elements of a vector, another padding value, and another axis."""
    y = tf.boolean_mask(x[:, 1], x[:, 0] > 0)
    rest = tf.reshape(tf.stack([most - tf.size(y), tf.constant(0)]), [1, 2])
    return tf.pad(y, rest, constant_values=-1.), tf.pad(tf.transpose(chosen(x)), [[0, 0], [most - tf.size(y), 0]])


def around(x, most):
    y = chosen(x)
    return (tf.pad(tf.cast(y * 9, tf.int32), [[2, missing(y, most)], [0, 0]], constant_values=7),)


def joined(x, most):
    """Indices of boxes and their scores, filled up as TensorFlow's detectors do, and what is gathered by them."""
    scores = x[:, 0]
    at, best = tf.image.non_max_suppression_with_scores(tf.abs(x), scores, most, .9, 0.)
    number = tf.shape(at)[0]
    at = tf.concat([at, tf.zeros(most - number, tf.int32)], 0)
    best = tf.concat([best, tf.zeros(most - number)], -1)
    return tf.where(tf.range(most) < number, best, -tf.ones(most)), tf.gather(x, at), at


def between(x, most):
    """A selection, numbers, and a selection from the other end."""
    y, z = chosen(x), chosen(x, .5)
    rest = tf.fill([2 * most - tf.shape(y)[0] - tf.shape(z)[0], COLUMNS], 3.)
    return tf.concat([y, rest, z], 0), tf.concat([x[:1], rest[:0], tf.ones([missing(y, most), COLUMNS]), y], 0)


def columns(x, most):
    """The padding as columns of what is in front and behind; the result has a tensor for each row."""
    y = chosen(x)
    return tuple(tf.unstack(tf.pad(y, tf.stack([[0, 0], tf.stack([missing(y, most), 0])], 1)), most))


def waited(x, most):
    """Behind a loop of TensorFlow 1 a constant waits for the padding, as TensorFlow's own optimizer writes it."""
    y = chosen(tf.while_loop(lambda y: y[0, 0] < -.5, lambda y: [y + 1], [x])[0])
    y = tf.pad(y, [[0, missing(y, most)], [0, 0]])
    with tf.control_dependencies([y]):
        return tuple(tf.unstack(y + tf.constant(1.), most))


def looped(x, most):
    """Selections from what loops put into arrays."""
    y = chosen(tf.map_fn(lambda row: row * 2, x))
    return tf.pad(y, [[0, missing(y, most)], [0, 0]]), tf.where(tf.scan(lambda sums, row: sums + row, x) > 0)


def mapped(x, most):
    return (tf.map_fn(lambda row: tf.pad(tf.boolean_mask(row, row > 0), [[0, COLUMNS - tf.shape(tf.where(row > 0))[0]]]), x),
            tf.map_fn(lambda row: filled_row(tf.boolean_mask(row, row < 0)), x))


def filled_row(some):
    return tf.concat([tf.zeros([COLUMNS - tf.size(some)]), some], 0)


GRAPHS = behind, in_front, around, joined, between, columns, looped, mapped


# ---- checks ----

def inputs(r):
    x = r.uniform(-1, 1, (ROWS, COLUMNS)).astype('f4')
    return [x, -np.abs(x), np.abs(x) + np.float32(.5), r.uniform(-1, 1, (ROWS, COLUMNS)).astype('f4')]


def check(make, r, folder, lowered):
    f = freeze(lambda x: make(x, ROWS), [tf.TensorSpec((ROWS, COLUMNS), F32, 'x')], f'{folder}/m.pb')
    if lowered:
        f = freezing.frozen(f)
        with open(f'{folder}/m.pb', 'wb') as out:
            out.write(f.graph.as_graph_def().SerializeToString())
    outputs = [t.name.removesuffix(':0') for t in f.outputs]
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', ','.join(outputs))
    for x in inputs(r):
        for i, (got, want) in enumerate(zip(run(folder, f'{folder}/m.htx', {'x': x}, outputs), f(tf.constant(x)))):
            if not close(got, want.numpy(), 1e-6):
                sys.exit(f'{make.__name__}, output {i} of {x}: {got}, not {want.numpy()}')


def check_too_many(r, folder):
    """Five fit, and nine are selected."""
    x = inputs(r)[2]
    for make in behind, in_front, joined_rows:
        f = freeze(lambda x: make(x, 5)[:1], [tf.TensorSpec((ROWS, COLUMNS), F32, 'x')], f'{folder}/m.pb')  # noqa: B023
        tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', f.outputs[0].name.removesuffix(':0'))
        check_stops(f'{make.__name__}, more than fit', folder, f'{folder}/m.htx', {'x': x}, 'out of range')


def joined_rows(x, most):
    y = chosen(x)
    return (tf.concat([y, tf.zeros([missing(y, most), COLUMNS])], 0),)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    a = p.parse_args()
    print('seed', a.seed, flush=True)
    r = np.random.default_rng(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        for make in GRAPHS:
            check(make, r, folder, False)
        for make in waited, looped, mapped:
            check(make, r, folder, True)
        check_too_many(r, folder)
    print(f'{len(GRAPHS) + 1} graphs that fill up what data select agree with TensorFlow')


main()
