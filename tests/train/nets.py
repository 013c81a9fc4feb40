#!/usr/bin/env python3
"""Nets as researchers write them, trained for three steps by TensorFlow and by one program: losses and all variables agree.  The program is
for any batch, and any length where the net has one, and every step has another one; or for one batch.  So are graphs of TensorFlow 1, of which
the program for any batch is that of a SavedModel, and the other one a session of a MetaGraphDef that begins with a checkpoint.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../python']
import package  # noqa: E402
import halftone as ht  # noqa: E402
import graph_zoo  # noqa: E402
import net_zoo  # noqa: E402
from live import np, tf  # noqa: E402

MOST, STEPS = 6, 3
TOLERANCE = 3e-5


class Wrong(Exception):
    """A number that is not TensorFlow's."""


def program_of(net, folder, shapes):
    """TensorFlow's function of a step, and our program: their results are those of the net, and the variables after the step."""
    specs = [tf.TensorSpec([None if isinstance(s, str) else s for s in x.shape], x.dtype, name=n) for n, x in net.inputs.items()]

    @tf.function(input_signature=specs, autograph=False)
    def train(*x):
        made = net.step(*x)
        return {**made, **{f'variable {i}, {v.name}': v.read_value() for i, v in enumerate(net.variables)}}
    tf.saved_model.save(net, f'{folder}/m', signatures={'train': train.get_concrete_function()})
    return train, ht.load(f'{folder}/m', signature='train').with_(shapes=shapes).compile(cache='off')


def shapes_of(net, named, sizes, is_open):
    """The shapes of the inputs, for sizes that the run chooses, or for these."""
    return {n: tuple((f'{named[s]}..{MOST}' if is_open else sizes[s]) if isinstance(s, str) else s for s in x.shape) for n, x in net.inputs.items()}


def compare(what, got, want):
    for (n, w), g in zip(sorted(want.items()), got, strict=True):
        if g.shape != w.shape or not np.abs(g.astype('f8') - w).max(initial=0) <= TOLERANCE * max(np.abs(w).max(initial=0), 1):
            raise Wrong(f'{what}: {n} is {g.ravel()[:9]}, not {w.ravel()[:9]}')


def steps_of(net, r, is_open):
    """The least of each size that a step chooses, and the sizes of each step."""
    named = {s: least for x in net.inputs.values() for s, least in x.sizes()}
    sizes = [{s: int(r.integers(least, MOST + 1)) for s, least in named.items()} for _ in range(STEPS)]
    return named, sizes if is_open else sizes[:1] * STEPS


def check(make, r, folder, is_open, threads):
    net = make(r)
    named, sizes = steps_of(net, r, is_open)
    train, program = program_of(net, folder, shapes_of(net, named, sizes[0], is_open))
    context = program.context(threads=threads)
    for i, z in enumerate(sizes):
        feeds = {n: x.draw(r, [z.get(s, s) for s in x.shape]) for n, x in net.inputs.items()}
        got = context.run(**feeds).values()
        want = {n: x.numpy() for n, x in train(*map(tf.constant, feeds.values())).items()}
        compare(f'step {i}, {z}', got, want)


def stepper(built, folder, shapes, is_open, threads):
    """A function that makes a step of a graph of TensorFlow 1, and returns its results by name."""
    if is_open:
        model = ht.load(f'{folder}/m', outputs=built.names, inputs=list(built.inputs))
        return model.with_(shapes=shapes).compile(cache='off').context(threads=threads).run
    session = ht.load(f'{folder}/start.meta').session(train_op='train_step', loss=built.names[0], fetches=built.names[1:], threads=threads)
    session.restore(f'{folder}/start')
    return session.step


def check_graph(make, r, folder, is_open, threads):
    built = graph_zoo.Built(make, r, folder, bool(r.integers(2)))
    named, sizes = steps_of(built, r, is_open)
    step = stepper(built, folder, shapes_of(built, named, sizes[0], is_open), is_open, threads)
    for i, z in enumerate(sizes):
        feeds = {n: x.draw(r, [z.get(s, s) for s in x.shape]) for n, x in built.inputs.items()}
        want = built.step(feeds)
        got = step(**feeds)
        compare(f'step {i}, {z}', [got[n] for n in sorted(built.names, key=built.what.get)], {built.what[n]: np.asarray(x) for n, x in want.items()})


# Places of labels in two sequences, their classes, of which 3 is the blank, and how many of five steps the sequences have.
LABELS = [([[0, 0], [0, 1], [1, 0]], [1, 1, 2], [3, 5]), ([[0, 0], [0, 1], [1, 0]], [1, 1, 2], [2, 5]), ([[0, 0], [0, 1], [1, 0]], [1, 3, 2], [4, 5]),
          ([[0, k] for k in range(5)] + [[1, 0]], [0, 1, 2, 1, 0, 1], [5, 5]), ([[0, 0]], [1], [5, 5]), ([[0, 0], [1, 0]], [0, 1], [6, 5]),
          ([[0, 0], [0, 1], [0, 2], [1, 0]], [1, 3, 1, 0], [5, 5]), ([[0, 0], [0, 1], [0, 2], [1, 0]], [1, 2, 1, 0], [2, 5]), ([[0, 0], [1, 0]], [-1, 1], [5, 5])]


def check_labels(r, folder):
    """Labels that TensorFlow's loss of sparse labels takes, among them some without time for them, and those at which it stops."""
    specs = [tf.TensorSpec([5, 2, 4], name='x'), tf.TensorSpec([None, 2], tf.int64, name='i'), tf.TensorSpec([None], tf.int32, name='v'), tf.TensorSpec([2], tf.int32, name='n')]
    f = tf.function(lambda x, i, v, n: tf.raw_ops.CTCLoss(inputs=x, labels_indices=i, labels_values=v, sequence_length=n), input_signature=specs).get_concrete_function()
    with open(f'{folder}/m.pb', 'wb') as out:
        out.write(f.graph.as_graph_def().SerializeToString())
    context = ht.load(f'{folder}/m.pb', outputs=[t.name for t in f.outputs]).with_(shapes={'i': ('1..9', 2), 'v': ('1..9',)}).compile(cache='off').context()
    x = r.standard_normal((5, 2, 4)).astype('f4')
    for i, v, n in LABELS:
        feeds = {'x': x, 'i': np.array(i, 'i8'), 'v': np.array(v, 'i4'), 'n': np.array(n, 'i4')}
        try:
            want = [t.numpy() for t in f(*map(tf.constant, feeds.values()))]
        except tf.errors.InvalidArgumentError:
            want = None
        try:
            got = list(context.run(**feeds).values())
        except ht.HalftoneError:
            got = None
        if (got is None) != (want is None) or any(not np.allclose(g, w, 1e-5, 1e-5) for g, w in zip(got or [], want or [])):
            raise Wrong(f'labels {v} at {i}, lengths {n}: {got}, not {want}')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--form', choices=['open', 'fixed', 'both'], help='a program for any batch, for one, or one of each; otherwise in turn')
    p.add_argument('name', nargs='*')
    a = p.parse_args()
    print(f'seed {a.seed}', flush=True)
    nets, failed = {**net_zoo.NETS, **{f'tf1_{n}': f for n, f in graph_zoo.NETS.items()}}, []
    forms = {'open': [True], 'fixed': [False], 'both': [True, False], None: [(package.environment.TURN + a.seed) % 3 > 0]}[a.form]
    if not a.name:
        with tempfile.TemporaryDirectory() as folder:
            check_labels(np.random.default_rng(a.seed), folder)
    for k, name in enumerate(a.name or package.environment.share([*net_zoo.NETS, *package.environment.in_turn([n for n in nets if n not in net_zoo.NETS], 2)], a.seed)):
        for is_open in forms:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    (check_graph if name.startswith('tf1_') else check)(nets[name], np.random.default_rng([a.seed, list(nets).index(name)]), folder, is_open, 1 + k % 2)
                    print('ok', name, flush=True)
                except (Wrong, ht.HalftoneError) as e:
                    failed.append(name)
                    print('FAILED', name, 'any batch' if is_open else 'one batch', str(e)[:1500], flush=True)
                except Exception:
                    print(f'in {name}:', flush=True)
                    traceback.print_exc()
                    sys.exit(1)
    if failed:
        sys.exit(f'seed {a.seed}: {failed}')


main()
