#!/usr/bin/env python3
"""Tensors whose extents loops and branches change, and open sizes that meet others in a broadcast: each graph is one program for all
sizes.  It gives what TensorFlow gives, and stops where TensorFlow does, in functional form and with the control flow of TensorFlow 1, on
one thread and two.  Where no size is open, graphs are tried in functional form.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../python']
import package  # noqa: E402
import halftone as ht  # noqa: E402
from live import TOLERANCE, np, tf  # noqa: E402
import freezing  # noqa: E402

F32, I32 = tf.float32, tf.int32
ANY = tf.TensorShape([None, 3])
MOST = 6  # rows


def loop(n, body, *values, invariants=None):
    """The values behind n iterations, which may change how many rows they have."""
    invariants = invariants or [tf.TensorShape([None, *v.shape[1:]]) for v in values]
    return tf.while_loop(lambda i, *v: i < n, lambda i, *v: (i + 1, *body(i, *v)), (0, *values), shape_invariants=(tf.TensorShape([]), *invariants))[1:]


# ---- loops: each returns a function of x: [rows, 3] ----

def longer(r):
    n = int(r.integers(0, 6))
    return lambda x: loop(n, lambda i, y: (tf.concat([y, tf.tanh(x) + tf.cast(i, F32)], 0),), x)


def by_data(r):
    """As many iterations as data say, and elementwise ops around what is added."""
    def f(x):
        n = tf.cast(tf.reduce_sum(tf.abs(x)), I32)
        return loop(n, lambda i, y: (tf.tanh(tf.concat([y * .5, y[:1] + tf.cast(i, F32)], 0)) * tf.constant([1., 2., 3.]),), x)
    return f


def several(r):
    """Two tensors in step, of different types, and one that is not changed."""
    def f(x):
        y, z, w = loop(4, lambda i, y, z, w: (tf.concat([x[:1] * w, y], 0), tf.concat([z, [i]], 0), w * .5), x, tf.zeros([0], I32), tf.ones([]),
                       invariants=[ANY, tf.TensorShape([None]), tf.TensorShape([])])
        return y, z, tf.reduce_sum(y, 0), tf.size(z), w
    return f


def shorter(r):
    limit = float(r.uniform(-1.2, -.2))
    return lambda x: loop(3, lambda i, y: (tf.boolean_mask(y, y[:, 0] > limit + tf.cast(i, F32) * .4),), x)


def until_one(r):
    """Every other element of those that were left, as long as there are several."""
    cut = slice(None, None, int(r.choice([-2, 2, 3])))
    return lambda x: tf.while_loop(lambda y: tf.shape(y)[0] > 1, lambda y: (tf.ensure_shape(y[cut], ANY),), (x,), shape_invariants=(ANY,))[0]


def until_empty(r):
    """Parts of parts, until nothing is left."""
    cut = [slice(1, None), slice(None, -1), slice(1, None, 2), slice(None, 0, -1)][int(r.integers(4))]

    def f(x):
        return tf.while_loop(lambda i, y, s: tf.shape(y)[0] > 0, lambda i, y, s: (i + 1, tf.ensure_shape(y[cut], ANY), s * .5 + tf.reduce_sum(y, 0)),
                             (0, x, tf.zeros(3)), shape_invariants=(tf.TensorShape([]), ANY, tf.TensorShape([3])))
    return f


def doubled(r):
    def f(x):
        return tf.while_loop(lambda y: tf.shape(y)[0] < 9, lambda y: (tf.concat([y, -y], 0),), (x,), shape_invariants=(ANY,))[0]
    return f


def exchanged(r):
    n = int(r.integers(0, 4))
    return lambda x: loop(n, lambda i, y: (tf.transpose(y) * .5,), x, invariants=[tf.TensorShape([None, None])])[0]


def both_axes(r):
    def body(i, y):
        wide = tf.concat([y, y[:, :1] * .5], 1)
        return tf.concat([wide, tf.tanh(wide[-1:])], 0),
    return lambda x: loop(3, body, x, invariants=[tf.TensorShape([None, None])])[0]


def nested(r):
    def body(i, y):
        return loop(i, lambda j, z: (tf.concat([z, z[-1:] * .5], 0),), y)
    return lambda x: loop(3, body, x)


def sometimes(r):
    def body(i, y):
        return tf.ensure_shape(tf.cond(y[-1, 0] > 0, lambda: tf.concat([y, -y[:2]], 0), lambda: y * .5 + .1), ANY),
    return lambda x: loop(4, body, x)


def truths(r):
    return lambda x: loop(3, lambda i, y: (tf.concat([tf.logical_not(y), x[:, 0] > 0], 0),), x[:, 0] > .3, invariants=[tf.TensorShape([None])])


# ---- branches ----

def branches(r):
    return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: (tf.concat([x, x + 1], 0), x[:1]), lambda: (x[:1], x))


def masked(r):
    return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.boolean_mask(x, x[:, 0] > 0), lambda: x * 2)


def cases(r):
    def f(x):
        at = tf.math.floormod(tf.cast(tf.reduce_sum(tf.abs(x)) * 3, I32), 3)
        return tf.switch_case(at, [lambda: tf.concat([x, x, x], 0), lambda: tf.boolean_mask(x, x[:, 1] > 0), lambda: x[1:]])
    return f


# ---- sizes that meet: TensorFlow and the program stop where they differ and none is 1 ----

def squares(r):
    return lambda x: (x + tf.transpose(x), tf.where(x > 0, tf.transpose(x), 0.), tf.reduce_sum(tf.square(x - tf.transpose(x)), 0))


def masks(r):
    return lambda x: tf.boolean_mask(x, x[:, 0] > .2) * tf.boolean_mask(x, x[:, 1] > .2) + 1


def mask_and_input(r):
    return lambda x: tf.maximum(tf.boolean_mask(x, x[:, 0] > -.5), x) * 2


def fixed(r):
    table = tf.constant(r.standard_normal((int(r.integers(2, 5)), 3)).astype('f4'))
    return lambda x: (x - table, tf.clip_by_value(x, tf.reduce_min(table, 0), 9.))


def iterations(r):
    return lambda x: loop(3, lambda i, y: (y * .5 + tf.boolean_mask(x, x[:, 0] > -1),), x)


def two_axes(r):
    def f(x):
        y = tf.boolean_mask(tf.boolean_mask(x, x[:, 0] > -.3), x[0] > -.3, axis=1)
        return y + x
    return f


CHANGED = longer, by_data, several, shorter, until_one, until_empty, doubled, exchanged, both_axes, nested, sometimes, truths, branches, masked, cases
MEETING = squares, masks, mask_and_input, fixed, iterations, two_axes


class Wrong(Exception):
    """A number that is not TensorFlow's, or a run that stops alone."""


def expected(f, x):
    try:
        return [t.numpy() for t in tf.nest.flatten(f(tf.constant(x)))]
    except (tf.errors.InvalidArgumentError, ValueError):
        return None


def compare(how, got, want):
    if want is None or isinstance(got, str):
        if want is not None or not isinstance(got, str):
            raise Wrong(f'{how}: gives {got} instead of {want}')
        if 'an index is out of range' not in got:
            raise Wrong(f'{how}: {got}')
        return
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.shape != w.shape or g.dtype != w.dtype or np.abs(g.astype('f8') - w).max(initial=0) > TOLERANCE * max(np.abs(w).max(initial=0), 1):
            raise Wrong(f'{how}: output {i} is {g}, not {w}')


def run(context, name, x):
    try:
        return list(context.run(**{name: x}).values())
    except ht.InputError as e:
        return str(e)


def try_form(what, f, rows, lowered, xs, folder):
    g = freezing.frozen(f) if lowered else f
    with open(f'{folder}/m.pb', 'wb') as out:
        out.write(g.graph.as_graph_def().SerializeToString())
    model = ht.load(f'{folder}/m.pb', outputs=[t.name.removesuffix(':0') for t in g.outputs])
    if rows is None:
        model = model.with_(shapes={'x': (f'1..{MOST}', 3)})
    program = model.compile(cache='off')
    for threads in 1, 2:
        context = program.context(threads=threads)
        for x in xs:
            compare(f'{what}, {x.shape}, {"TensorFlow 1" if lowered else "functional"}, {threads} threads', run(context, 'x', x), expected(f, x))


def check(make, r, folder):
    f = make(r)
    for rows in None, int(r.integers(2, MOST)):
        try:
            made = tf.function(f, input_signature=[tf.TensorSpec([rows, 3], F32, 'x')], autograph=False).get_concrete_function()
        except ValueError:  # fixed sizes that differ
            continue
        xs = [r.uniform(-1, 1, (rows or n, 3)).astype('f4') for n in (1, 3, MOST, *r.integers(1, MOST, 2))]
        for lowered in (False, True) if rows is None else (False,):
            try_form(make.__name__, made, rows, lowered, xs, folder)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--rounds', type=int, default=20 if package.environment.LONG else 1)
    p.add_argument('name', nargs='*')
    a = p.parse_args()
    print(f'seed {a.seed}', flush=True)
    models = {m.__name__: m for m in (*CHANGED, *MEETING)}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for k in range(a.rounds):
            for name in a.name or models:
                try:
                    check(models[name], np.random.default_rng([a.seed, k, list(models).index(name)]), folder)
                    print('ok', name, flush=True)
                except (Wrong, ht.HalftoneError) as e:
                    failed.append(name)
                    print('FAILED', name, f'round {k}', str(e)[:1500], flush=True)
    if failed:
        sys.exit(f'seed {a.seed}: {failed}')


main()
