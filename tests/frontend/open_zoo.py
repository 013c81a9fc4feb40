#!/usr/bin/env python3
"""A zoo of small models with control flow and open sizes, as users write them: each frozen with functional control flow and with that of
TensorFlow 1.  One program for any sizes gives the results of live TensorFlow at several ones, on one thread and two, and stops where
TensorFlow stops.

On each day ctest tries a part of the models in one form; HALFTONE_LONG=1 tries all in both forms.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../python']
import package  # noqa: E402
import environment  # noqa: E402
import halftone as ht  # noqa: E402
from live import TOLERANCE, close, np, tf  # noqa: E402
import freezing  # noqa: E402

# TensorFlow's optimiser removes nodes that would stop.
tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})
F32, I32 = tf.float32, tf.int32
FORMS = 'functional', 'tensorflow 1'
BOUNDS = {'n': (1, 4), 't': (1, 9), 'u': (1, 6), 'h': (6, 19), 'w': (6, 15), 'k': (1, 8), 'e': (0, 4), 'z': (0, 2)}
SHARE = 3


class Wrong(Exception):
    """A number that is not TensorFlow's, or a run that does not stop as TensorFlow's does."""


def weights(r, *shape):
    return tf.constant((r.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype('f4'))


# ---- data: functions of a generator, the shape, and the sizes of the run ----

def boxes(r, shape, sizes):
    corner = r.random((shape[0], 2))
    return np.concatenate([corner, corner + r.random((shape[0], 2)) * .5], 1).astype('f4') * 1.4 - .2


def below(least, most):
    return lambda r, shape, sizes: r.integers(least, most, shape).astype('i4')


def within(most):
    return lambda r, shape, sizes: r.uniform(-most, most, shape).astype('f4')


def rows_or(*others):
    """The number of rows, or sometimes another one."""
    return lambda r, shape, sizes: np.int32(r.choice([sizes.get('n', 4), sizes.get('n', 4), *others]))


# ---- models: a function, the shape and dtype of each input, and data of inputs that are not just random ----

def neural_turing_machine(r):
    """Attention over a memory that is written, shifted by Roll while the batch is open."""
    width, control = 4, 8
    into, read, write = weights(r, 5 + width, control), weights(r, control, width + 4), weights(r, control, 3 * width + 4)

    def address(p, w, memory):
        key, shift, sharp = p[:, :width], tf.nn.softmax(p[:, width:width + 3]), 1 + tf.nn.softplus(p[:, width + 3])
        w = .5 * w + .5 * tf.nn.softmax(tf.einsum('nm,nkm->nk', tf.math.l2_normalize(key, -1), tf.math.l2_normalize(memory, -1)))
        w = shift[:, :1] * tf.roll(w, -1, 1) + shift[:, 1:2] * w + shift[:, 2:] * tf.roll(w, 1, 1)
        w = tf.pow(w + 1e-6, sharp[:, None])
        return w / tf.reduce_sum(w, 1, keepdims=True)

    def f(x):
        def step(state, x):
            memory, w, v, seen, _ = state
            c = tf.tanh(tf.concat([x, seen], -1) @ into)
            w, p = address(c @ read, w, memory), c @ write
            v = address(p, v, memory)
            erase, add = tf.sigmoid(p[:, width + 4:2 * width + 4]), p[:, 2 * width + 4:]
            memory = memory * (1 - v[..., None] * erase[:, None]) + v[..., None] * add[:, None]
            return memory, w, v, tf.einsum('nk,nkm->nm', w, memory), c
        n = tf.shape(x)[0]
        even = tf.fill([n, 6], 1 / 6)
        out = tf.scan(step, tf.transpose(x, [1, 0, 2]), (tf.fill([n, 6, width], .1), even, even, tf.zeros([n, width]), tf.zeros([n, control])))
        return tf.transpose(out[4], [1, 0, 2]), out[0][-1]
    return f, {'x': (('n', 't', 5), F32)}


def rolled(r):
    def f(x):
        return tf.roll(x, 2, -1), tf.roll(x, [1, -2], [0, 2]), tf.roll(x, -1, 1)
    return f, {'x': (('n', 't', 6), F32)}


def crops(r):
    """Boxes that are resized to the size of another image, and to sizes that are fed."""
    def f(image, boxes, of, size, like):
        of = of % tf.shape(image)[0]
        a = tf.image.crop_and_resize(image, boxes, of, size, extrapolation_value=2.)
        b = tf.image.crop_and_resize(image, boxes, of, tf.stack([3, size[0]]), 'nearest')
        c = tf.image.crop_and_resize(tf.cast(image * 10, I32), boxes, of, [tf.shape(like)[1], 2])
        d = tf.image.crop_and_resize(image[:1], boxes, tf.zeros_like(of), [1, tf.shape(like)[2] * 2])
        return a, b, c, d, tf.reduce_mean(a, [1, 2])
    return f, {'image': (('n', 'h', 'w', 2), F32), 'boxes': (('k', 4), F32), 'of': (('k',), I32), 'size': ((2,), I32), 'like': (('n', 'h', 'w', 1), F32)}, \
        {'boxes': boxes, 'size': below(1, 6)}


def fed_sizes(r):
    """Images of one size, resized to a size that is fed; it must be positive."""
    def f(image, boxes, size):
        return tf.image.crop_and_resize(image, boxes, [0, 1, 1], size), tf.image.resize(image, size), tf.image.resize(image, size, 'nearest')
    return f, {'image': ((2, 7, 6, 2), F32), 'boxes': ((3, 4), F32), 'size': ((2,), I32)}, {'boxes': boxes, 'size': below(0, 6)}


def stated_rows(r):
    return lambda x, k: tf.reshape(x, [k, 6]) * 2, {'x': (('n', 6), F32), 'k': ((), I32)}, {'k': rows_or(-1, 3)}


def stated_shape(r):
    def f(x, k):
        return tf.reshape(x, tf.stack([k, 6])) * 2, tf.reshape(x, [2, k, 3])
    return f, {'x': ((4, 6), F32), 'k': ((), I32)}, {'k': rows_or(-1, 3)}


def stated_in_loop(r):
    def f(x, k):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(tf.reshape(y, [k, 6]))), [0, x],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 6])])[1]
    return f, {'x': (('n', 6), F32), 'k': ((), I32)}, {'k': rows_or(-1, 3)}


def stated_in_fixed_loop(r):
    def f(x, k):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.ensure_shape(tf.tanh(tf.reshape(y, [k, 6])), [4, 6])), [0, x])[1]
    return f, {'x': ((4, 6), F32), 'k': ((), I32)}, {'k': rows_or(-1, 3)}


def bands(r):
    def f(x, k):
        return tf.linalg.band_part(x, 3, -1), tf.linalg.band_part(x, -1, k)
    return f, {'x': (('n', 't', 'u'), F32), 'k': ((), I32)}, {'k': below(-1, 8)}


def inner_maps(r):
    """Loops over elements that a body selects."""
    def f(x):
        def chosen(v):
            return tf.reduce_sum(tf.map_fn(lambda c: tf.nn.relu(c) * c, tf.boolean_mask(v, v > 0)))
        return tf.map_fn(chosen, x), tf.map_fn(chosen, tf.boolean_mask(x, x[:, 0] > 0))
    return f, {'x': (('k', 't'), F32)}


def edit_distance(r):
    """Levenshtein's distance: each row is a scan, whose list is as long as the second text and one more."""
    def f(a, b):
        def row(i, row):
            better = tf.minimum(row[:-1] + tf.cast(b[0] != a[0, i], I32), row[1:] + 1)
            return i + 1, tf.scan(lambda p, c: tf.minimum(p + 1, c), tf.concat([[i + 1], better], 0))
        return tf.while_loop(lambda i, _: i < tf.shape(a)[1], row, [0, tf.range(tf.shape(b)[1] + 1)])[1]
    return f, {'a': ((1, 't'), I32), 'b': ((1, 't'), I32)}, {'a': below(0, 3), 'b': below(0, 3)}


def gradient_of_branch(r):
    """The gradient of a loop with branches that keep tensors of different shapes.  Products of elements within 1 do not grow: where tanh is
    near 1, rounding changes the gradient much."""
    u = weights(r, 3, 3)

    def f(x, g):
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = tf.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, tf.cond(g[i] > 0, lambda: tf.tanh(h @ u), lambda: h * tf.reduce_mean(h, 0, keepdims=True))),
                              [0, x])[1]
            y = tf.reduce_sum(h**2)
        return tape.gradient(y, x)
    return f, {'x': (('n', 3), F32), 'g': ((4,), F32)}, {'x': within(.9)}


def power_iteration(r):
    """A loop that a condition in its body ends, as `break` does."""
    def f(a):
        def body(i, v, norm, ends):
            u = tf.linalg.matvec(a, tf.linalg.matvec(a, v), transpose_a=True)
            now = tf.norm(u) + 1e-9
            ends = tf.cond(tf.abs(now - norm) < .05 * now, lambda: True, lambda: False)
            return i + 1, tf.cond(ends, lambda: v, lambda: u / now), now, ends
        return tf.while_loop(lambda i, v, norm, ends: (i < 9) & ~ends, body, [0, tf.ones(tf.shape(a)[1:]), 0., False])[:3]
    return f, {'a': (('n', 't'), F32)}


def not_taken(r):
    """A branch that would stop where an axis has no elements, but is taken only where it has some."""
    def f(x, s):
        return tf.cond(tf.reduce_max(x) > 0, lambda: x * tf.cast(tf.argmax(s), F32), lambda: x * .5)
    return f, {'x': (('e', 3), F32), 's': (('e',), I32)}


def rest_of_nothing(r):
    """A shape that leaves an extent to a tensor without elements: TensorFlow counts its zeros only where the shape has none."""
    def f(x, s):
        n, some = tf.shape(x), tf.boolean_mask(x[:, :, 0], tf.reduce_any(x[:, :, 0] > 0, 1))
        times = tf.tile(some, [1, tf.reduce_sum(tf.cast(x[:, :, 1] > 1, I32))])
        return (tf.reshape(x, s), tf.reshape(x, [n[0], -1]), tf.reshape(x, [-1, n[1]]), tf.reshape(x, tf.stack([-1, n[0], n[1]])), tf.reshape(x[:, :, :0], [-1, 0]),
                tf.reshape(tf.zeros([0, 5, 0]), [-1, 2, 0]), tf.reshape(some, [tf.shape(some)[0], -1]), tf.reshape(times, [tf.shape(some)[0], -1]))
    return f, {'x': (('z', 'e', 3), F32), 's': ((3,), I32)}, {'s': lambda r, shape, sizes: r.permutation(np.array([-1, r.integers(3), r.integers(4)], 'i4'))}


def gathered_nothing(r):
    """TensorFlow looks at no index if the result has no elements; if it has some, an axis without elements has no index."""
    def f(x, i):
        return tf.gather(x, i), tf.gather(x, i, axis=1) + 1, tf.gather(x, tf.tile(i[None], [tf.shape(x)[0], 1]), batch_dims=1)
    return f, {'x': (('z', 'e', 'z'), F32), 'i': ((2,), I32)}, {'i': below(0, 3)}


def gathered_from_nothing(r):
    def f(i):
        return tf.gather(tf.zeros([2, 0]), i), tf.gather(tf.zeros([0, 3]), i) + 1
    return f, {'i': (('z',), I32)}, {'i': below(0, 3)}


def scattered_to_nothing(r):
    def f(i, u):
        at = tf.where(u[:, 0] > 1)
        return tf.tensor_scatter_nd_update(tf.zeros([0]), at, tf.gather_nd(u[:, 0], at)), tf.math.unsorted_segment_sum(u, -1 - i, 0), tf.scatter_nd(i[:, None], u, [0, 3])
    return f, {'i': (('z',), I32), 'u': (('z', 3), F32)}, {'i': below(0, 3)}


def joined_ragged(r):
    """TensorFlow asserts that both tensors have as many rows, in a branch of which nothing but an order is needed."""
    def f(x, k):
        rows = tf.RaggedTensor.from_tensor(x, lengths=tf.range(tf.shape(x)[0]) % tf.shape(x)[1])
        some = tf.RaggedTensor.from_tensor(x[:k], lengths=tf.range(tf.shape(x[:k])[0]) % tf.shape(x)[1])
        joined = tf.concat([rows, some * 2], 1)
        return joined.to_tensor(-1.), joined.row_lengths()
    return f, {'x': (('n', 't'), F32), 'k': ((), I32)}, {'k': rows_or(1)}


MODELS = {f.__name__: f for f in (neural_turing_machine, rolled, crops, fed_sizes, stated_rows, stated_shape, stated_in_loop, stated_in_fixed_loop, bands,
                                 inner_maps, edit_distance, gradient_of_branch, power_iteration, not_taken, rest_of_nothing,
                                 gathered_nothing, gathered_from_nothing, scattered_to_nothing, joined_ragged)}


# ---- runs ----

def write(make, r, path, form):
    """The function that TensorFlow runs, inputs with their data, and names of outputs."""
    f, inputs, *data = make(r)
    signature = [tf.TensorSpec([None if isinstance(d, str) else d for d in dims], t, name=n) for n, (dims, t) in inputs.items()]
    f = tf.function(f, input_signature=signature).get_concrete_function()
    frozen = freezing.frozen(f, form != FORMS[0])
    with open(path, 'wb') as out:
        out.write(frozen.graph.as_graph_def().SerializeToString())
    return f, inputs, data[0] if data else {}, [t.name.removesuffix(':0') for t in frozen.outputs]


def sizes_of(r, inputs):
    """The sizes of some runs.  Inputs have one size for all first axes, and so on."""
    names = {}
    for dims, _ in inputs.values():
        for axis, d in enumerate(dims):
            if isinstance(d, str):
                names.setdefault(axis, d)
    bounds = {axis: BOUNDS[d] for axis, d in names.items()}
    runs = [{a: b[1] for a, b in bounds.items()}, {a: b[0] for a, b in bounds.items()}]
    runs += [{a: int(r.integers(b[0], b[1] + 1)) for a, b in bounds.items()} for _ in range(3)]
    return bounds, runs, names


def drawn(r, dims, t, sizes):
    shape = [sizes[axis] if isinstance(d, str) else d for axis, d in enumerate(dims)]
    return r.integers(0, 5, shape).astype(t.as_numpy_dtype) if t.is_integer else r.uniform(-1, 1.5, shape).astype('f4')


def feeds_of(r, inputs, data, sizes, names):
    named = {names[axis]: size for axis, size in sizes.items()}
    feeds = {}
    for n, (dims, t) in inputs.items():
        shape = [sizes[axis] if isinstance(d, str) else d for axis, d in enumerate(dims)]
        feeds[n] = np.asarray(data[n](r, shape, named) if n in data else drawn(r, dims, t, sizes))
    return feeds


def expected(f, feeds):
    try:
        return [y.numpy() for y in tf.nest.flatten(f(*map(tf.constant, feeds.values())))]
    except tf.errors.OpError:
        return None


def compare(contexts, feeds, outputs, want, where):
    got = []
    for c in contexts:
        try:
            got.append(c.run(**feeds))
        except ht.InputError as e:
            got.append(str(e))
    if want is None or isinstance(got[0], str):
        if want is not None or not all(isinstance(g, str) for g in got):
            raise Wrong(f'{where}: {got[0]}; TensorFlow {"stops" if want is None else "does not stop"}')
        return
    for name, w in zip(outputs, want, strict=True):
        if not close(got[0][name], w, TOLERANCE) or not np.array_equal(got[0][name], got[1][name]):
            raise Wrong(f'{where}: {name} is {got[0][name]}, {got[1][name]}, not {w}')


def check(name, form, r, folder):
    f, inputs, data, outputs = write(MODELS[name], r, f'{folder}/m.pb', form)
    bounds, runs, names = sizes_of(r, inputs)
    shapes = {n: tuple('{}..{}'.format(*bounds[axis]) if isinstance(d, str) else d for axis, d in enumerate(dims))
              for n, (dims, _) in inputs.items()}
    program = ht.load(f'{folder}/m.pb', outputs=outputs).with_(shapes=shapes).compile(cache='off')
    contexts = program.context(threads=1), program.context(threads=2)
    for sizes in runs:
        feeds = feeds_of(r, inputs, data, sizes, names)
        compare(contexts, feeds, outputs, expected(f, feeds), f'{name}, {form}, {sizes}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--form', choices=FORMS)
    p.add_argument('name', nargs='*', help=', '.join(MODELS))
    a = p.parse_args()
    print(f'seed {a.seed}', flush=True)
    all_of_it = 'HALFTONE_LONG' in os.environ or a.name
    failed = 0
    for form in [a.form] if a.form else FORMS:
        for name in a.name or (MODELS if all_of_it else environment.share_of_forms(MODELS, a.seed, form != FORMS[0], SHARE)):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(name, form, np.random.default_rng([a.seed, *name.encode()]), folder)
                except (Wrong, ht.HalftoneError) as e:
                    failed += 1
                    print(f'{name}, {form}: {e}', flush=True)
    print('ok' if not failed else f'{failed} failed')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
