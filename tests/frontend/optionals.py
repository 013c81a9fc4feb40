#!/usr/bin/env python3
"""Gradients of branches.  What a branch computed on its way reaches the gradient by optional tensors, in branches within branches and around
loops as well: each graph gives what TensorFlow gives, as one program for all sizes and with stated ones, in functional form and with the
control flow of TensorFlow 1, whichever branch is taken.

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
from live import TOLERANCE, close, np, tf  # noqa: E402
import freezing  # noqa: E402

F32 = tf.float32
MOST = 6  # rows


def gradient(f):
    """Of the sum of squares of f(x, w), by both."""
    def g(x, which):
        w = tf.constant([[1., -.5, .25], [.5, 1., -1.], [.25, .5, 1.5]])
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = f(x, w, which)
            loss = tf.reduce_sum(y * y)
        return (y, *tape.gradient(loss, [x, w]))
    return g


def plain(x, w, which):
    return tf.cond(which > 0, lambda: tf.tanh(x @ w) * tf.sin(x), lambda: tf.exp(x) * x)


def same(x, w, which):
    """Both branches have values of one type."""
    return tf.cond(which > 0, lambda: tf.tanh(x @ w), lambda: tf.sigmoid(x @ w))


def others(x, w, which):
    """The branches have values of other types and ranks in the same places.  No argument of tanh is so large that rounding changes much
    of the gradient."""
    return tf.cond(which > 0, lambda: tf.where(tf.tanh(x) > 0, x @ w, tf.exp(x)), lambda: x * tf.tanh(tf.reduce_sum(tf.exp(w), 0) * .25))


def within(x, w, which):
    def inner():
        return tf.cond(which > 1, lambda: tf.sin(x @ w) * x, lambda: tf.tanh(x) * tf.reduce_max(tf.exp(w)))
    return tf.cond(which > 0, lambda: tf.tanh(inner() * x), lambda: tf.exp(x) @ tf.tanh(w))


def switched(x, w, which):
    return tf.switch_case(which, [lambda: tf.tanh(x @ w), lambda: tf.exp(x) * tf.sin(x), lambda: tf.sigmoid(tf.exp(x) @ w) * tf.tanh(w[:1])])


def around_loop(x, w, which):
    """A loop in a branch: its lists are optional."""
    def looped():
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y @ w)), (0, x), maximum_iterations=3)[1]
    return tf.cond(which > 0, looped, lambda: tf.exp(x) * x)


def selected(x, w, which):
    """The branch has a value whose size depends on data."""
    return tf.cond(which > 0, lambda: x + tf.reduce_sum(tf.tanh(tf.boolean_mask(x, x[:, 0] > 0) @ w), 0), lambda: tf.exp(x) * x)


def asked(x, which):
    """Whether an optional tensor has a value is not known."""
    o = tf.cond(which > 0, lambda: tf.raw_ops.OptionalFromValue(components=[x]), tf.raw_ops.OptionalNone)
    return tf.raw_ops.OptionalHasValue(optional=o), x


def nested(folder, count=20000):
    """Optional tensors within each other, more than anything needs: refused, soon."""
    r = tf.raw_ops
    with tf.Graph().as_default() as g:
        which, x = tf.compat.v1.placeholder(tf.int32, [], 'which'), tf.compat.v1.placeholder(F32, [2, 3], 'x')
        shared = tf.cond(which > 0, lambda: r.OptionalFromValue(components=[tf.exp(x)]), lambda: r.OptionalFromValue(components=[which]))
    definition = g.as_graph_def()
    last = shared.op.name
    for i in range(2 * count):
        n = definition.node.add(name=f'n{i}', op='OptionalGetValue' if i >= count else 'OptionalFromValue', input=[last])
        n.attr['output_types' if i >= count else 'Toutput_types'].list.type.append(tf.variant.as_datatype_enum)
        n.attr['output_shapes'].list.shape.add() if i >= count else None
        last = n.name
    with open(f'{folder}/nested.pb', 'wb') as out:
        out.write(definition.SerializeToString())
    ht.load(f'{folder}/nested.pb', outputs=[last]).compile(cache='off')


GRADIENTS = plain, same, others, within, switched, around_loop, selected


def program(concrete, lowered, rows, path):
    g = freezing.frozen(concrete, lowered)
    with open(path, 'wb') as out:
        out.write(g.graph.as_graph_def().SerializeToString())
    model = ht.load(path, outputs=[t.name.removesuffix(':0') for t in g.outputs])
    return model.with_(shapes={'x': (rows or f'1..{MOST}', 3)}).compile(cache='off')


def check(f, r, folder):
    made = tf.function(f, input_signature=[tf.TensorSpec([None, 3], F32, 'x'), tf.TensorSpec([], tf.int32, 'which')],
                       autograph=False).get_concrete_function()
    for rows in None, int(r.integers(2, MOST)):
        for lowered in (False, True) if rows is None else (False,):
            compiled = program(made, lowered, rows, f'{folder}/m.pb')
            context = compiled.context(threads=1)
            for which in 0, 1, 2:
                x = r.uniform(-1, 1, (rows or int(r.integers(1, MOST + 1)), 3)).astype('f4')
                feeds = {'x': x, 'which': np.int32(which)}
                got = list(context.run(**{i.name: feeds[i.name] for i in compiled.inputs}).values())
                want = [t.numpy() for t in made(tf.constant(x), tf.constant(which))]
                for i, (a, b) in enumerate(zip(got, want, strict=True)):
                    if not close(a, b, TOLERANCE):
                        raise ValueError(f'{rows} rows, lowered {lowered}, {x.shape}, {which}: result {i} is {a}, not {b}')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('name', nargs='*')
    a = p.parse_args()
    print(f'seed {a.seed}', flush=True)
    models, failed = {m.__name__: m for m in GRADIENTS}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in a.name or models:
            try:
                check(gradient(models[name]), np.random.default_rng([a.seed, list(models).index(name)]), folder)
                print('ok', name, flush=True)
            except (ValueError, ht.HalftoneError) as e:
                failed.append(name)
                print('FAILED', name, str(e)[:1500], flush=True)
        for refused in (lambda: check(asked, np.random.default_rng(a.seed), folder)), (lambda: nested(folder)):
            try:
                refused()
                failed.append('asked or nested')
            except ht.UnsupportedError as e:
                assert 'Optional' in str(e), e
    if failed:
        sys.exit(f'seed {a.seed}: {failed}')


main()
