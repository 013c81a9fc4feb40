#!/usr/bin/env python3
"""The zoo of recurrent and sequence layers of Keras (tests/tools/recurrent_models.py): each model as SavedModel, frozen with functional
control flow and with that of TensorFlow 1.  One program for any batch and number of steps, as far as the layer leaves them open, gives
the results of live TensorFlow at several sizes; stateful layers do so over several runs.  Under a policy, which is another one for each
form and day, it is no worse than TensorFlow on the graph that `convert` writes.

On each day ctest tries a few models in one form; HALFTONE_LONG=1 tries all, in each form and under every policy.  A model that is
refused has no wrong numbers; how many are is printed, and most must run.

Exit code 77: nothing to test with.
"""
import argparse
import faulthandler
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../python']
import package  # noqa: E402
import halftone as ht  # noqa: E402
import live  # noqa: E402
from live import TOLERANCE, close, np, tf  # noqa: E402
import freezing  # noqa: E402
import recurrent_models  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

ROWS, STEPS = 4, 7  # the largest sizes
FORMS = 'functional', 'tensorflow 1', 'saved'
# What ctest tries, a third of it each day; the whole zoo takes an hour.
SAMPLE = ('LSTM, masked', 'GRU, both, concat', 'ConvLSTM1D, last step', 'SimpleRNN, two', 'LSTM, unrolled', 'Attention', 'GRU that resets before, no biases',
          'LSTM, both, mul', 'GRU, stateful sequences', 'RNN of cells, three', 'RNN of a cell, both, states', 'RNN of a cell, masked with zeros')
SHARE = 3
LEAST_RUN = .8  # of the models; the others are refused with a node's name, and have no wrong numbers
# One rounding of each policy's low dtype: with few elements, Halftone's code and TensorFlow's may round differently by chance.
POLICIES = {'force_fp16': 2**-11, 'allow_mix_precision_bf16': 2**-8, 'allow_mix_precision_fp16': 2**-11, 'cube_fp16in_fp32out': 2**-11,
            'grappler-bf16': 2**-8, 'keras-fp16': 2**-11, 'pytorch-autocast-bf16': 2**-8, 'optimal': 2**-8}


class Wrong(Exception):
    """A number that is not TensorFlow's."""


# ---- forms ----

def saved(case, path):
    """The SavedModel's function and the names of its outputs, in the same order."""
    case.model.export(path, verbose=False)
    loaded = tf.saved_model.load(path)
    f = loaded.signatures['serving_default']
    proto = saved_model_pb2.SavedModel()
    with open(f'{path}/saved_model.pb', 'rb') as file:
        proto.ParseFromString(file.read())
    outputs = proto.meta_graphs[0].signature_def['serving_default'].outputs
    keys = sorted(outputs)

    def call(x):
        y = f(x=x)
        return [y[k].numpy() for k in keys]
    call.keeps = loaded
    return call, [outputs[k].name.removesuffix(':0') for k in keys]


def frozen(case, path, form):
    f = tf.function(lambda x: tf.nest.flatten(case.model(x)), input_signature=[tf.TensorSpec(case.shape, tf.float32, name='x')])
    f = freezing.frozen(f.get_concrete_function(), form != FORMS[0])
    with open(path, 'wb') as out:
        out.write(f.graph.as_graph_def().SerializeToString())
    return lambda x: [y.numpy() for y in tf.nest.flatten(f(x))], [t.name.removesuffix(':0') for t in f.outputs]


def written(case, form, folder):
    path = f'{folder}/saved' if form == 'saved' else f'{folder}/m.pb'
    return (path, *(saved(case, path) if form == 'saved' else frozen(case, path, form)))


# ---- sizes ----

def sizes_of(r, case):
    """The largest sizes, the least, and other ones."""
    def fitted(n, k):
        return (case.shape[0] or n, case.shape[1] or k, *case.shape[2:])
    shapes = [fitted(ROWS, STEPS), fitted(1, 1), fitted(int(r.integers(1, ROWS + 1)), int(r.integers(1, STEPS + 1)))]
    return list(dict.fromkeys(shapes))


def bounds(case):
    return tuple(f'1..{most}' if d is None else d for d, most in zip(case.shape, (ROWS, STEPS))) + case.shape[2:]


def rows_of(r, shape):
    """Random features, some steps of which are zero; the first ones are not, so that each row has a step that counts."""
    x = r.standard_normal(shape).astype('f4')
    off = r.random(shape[:2]) < .3
    off[:, 0] = False
    x[off] = 0
    return x


# ---- checks ----

def named(model):
    (x,) = model.inputs
    return x.name


def results(context, x, outputs):
    got = context.run(x)
    return [got[o] for o in outputs]


def agree(how, got, want, tolerance):
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if not close(g, w, tolerance):
            raise Wrong(f'{how}: output {i} is off by {live.error(g, w) if g.shape == w.shape else g.shape}: {g}, not {w}')


def check_full(r, case, model, call, outputs, threads):
    """One session goes on from run to run, as TensorFlow's function does."""
    program = model.with_(shapes={named(model): bounds(case)}).compile(cache='off')
    context = program.context(threads=threads)
    for shape in sizes_of(r, case):
        for _ in range(2 if program.variables else 1):
            x = rows_of(r, shape)
            agree(f'shape {shape}', results(context, x, outputs), call(tf.constant(x)), TOLERANCE)


def handles(graph):
    return {n.get_attr('shared_name').decode(): n for n in graph.get_operations() if n.type == 'VarHandleOp'}


def values_of(path):
    """The values of the variables of a SavedModel that have one."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as s:
        tf.compat.v1.saved_model.load(s, ['serve'], path)
        of = {n: (v.outputs[0], v.get_attr('dtype')) for n, v in handles(graph).items()}
        known = s.run({n: tf.raw_ops.VarIsInitializedOp(resource=v) for n, (v, _) in of.items()})
        return s.run({n: tf.raw_ops.ReadVariableOp(resource=v, dtype=t) for n, (v, t) in of.items() if known[n]})


def converted(path, name, x, outputs, of):
    """TensorFlow's results of a graph that is converted from `of`.  If its variables are left, as the rules of Grappler leave them, they
    have the values of that SavedModel."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as s:
        tf.import_graph_def(live.imported(path), name='')
        variables = handles(graph)
        values = values_of(of) if variables else {}
        s.run([tf.raw_ops.AssignVariableOp(resource=v.outputs[0], value=values[n]) for n, v in variables.items() if n in values])
        return s.run([o if ':' in o else f'{o}:0' for o in outputs], {f'{name}:0': x})


def check_refused(model, policy):
    try:
        model.compile(policy, cache='off')
    except ht.UnsupportedError:
        return
    raise Wrong(f'{policy}: TensorFlow stops')


def check_low(case, path, model, want, x, outputs, policy, folder):
    """The rules of Grappler change the dtype of a list outside of a loop's body alone, if both are in a function: such a graph stops."""
    opened = model.with_(shapes={named(model): bounds(case)})
    model.with_(shapes={named(model): x.shape}).convert(policy, f'{folder}/low.pb')
    try:
        theirs = converted(f'{folder}/low.pb', named(model), x, outputs, path)
    except tf.errors.InvalidArgumentError as e:
        if 'Invalid data types' not in str(e):
            raise
        return check_refused(opened, policy)
    got = results(opened.compile(policy, cache='off').context(), x, outputs)
    for i, (g, t, w) in enumerate(zip(got, theirs, want)):
        if not live.error(g, w) <= 2 * live.error(t, w) + POLICIES[policy] + TOLERANCE:
            raise Wrong(f'{policy}: output {i} is off by {live.error(g, w)}, TensorFlow by {live.error(t, w)}')


def check(name, form, seed, policies, folder):
    r = np.random.default_rng([seed, recurrent_models.names().index(name)])
    case = recurrent_models.make(r, name)
    path, call, outputs = written(case, form, folder)
    model = ht.load(path, **({} if form == 'saved' else {'outputs': outputs}))
    check_full(r, case, model, call, outputs, int(r.integers(1, 3)))
    if has_state(name):  # the states of the session of TensorFlow went on
        return
    shape = sizes_of(r, case)[-1]
    x = rows_of(r, shape)
    want = call(tf.constant(x))
    for policy in policies:
        check_low(case, path, model, want, x, outputs, policy, folder)


def has_state(name):
    return 'stateful' in name


def forms_of(name, all_forms):
    """All forms, or one in turn; a frozen graph has no states that go on."""
    if has_state(name):
        return ['saved']
    return FORMS if all_forms else [FORMS[package.environment.TURN // SHARE % len(FORMS)]]


def policies_of(i):
    """All, or one of them in turn."""
    every = list(POLICIES)
    return every if package.environment.LONG else [every[(i + package.environment.TURN) % len(every)]]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--part', help='I/N: every N-th model, from the I-th on')
    p.add_argument('name', nargs='*', help='models; --list prints them')
    p.add_argument('--list', action='store_true')
    p.add_argument('--form', choices=FORMS)
    p.add_argument('--policy')
    a = p.parse_args()
    if a.list:
        print(*recurrent_models.names(), sep='\n')
        return
    faulthandler.enable()
    print(f'seed {a.seed}', flush=True)
    wrong = ran = refused = 0
    chosen = a.name or (recurrent_models.names()[int(a.part.split('/')[0])::int(a.part.split('/')[1])] if a.part
                        else recurrent_models.names() if package.environment.LONG else package.environment.in_turn(SAMPLE, SHARE))
    for i, name in enumerate(chosen):
        for k, form in enumerate([a.form] if a.form else forms_of(name, a.name or a.part or package.environment.LONG)):
            folder = tempfile.mkdtemp()
            try:
                check(name, form, a.seed, a.policy.split(',') if a.policy else policies_of(len(FORMS) * i + k), folder)
                ran += 1
            except ht.UnsupportedError as e:
                refused += 1
                print(f'refused: {name}, {form}: {str(e)[:300]}', flush=True)
            except (Wrong, ht.HalftoneError, tf.errors.OpError, ValueError, TypeError, KeyError) as e:
                wrong += 1
                print(f'WRONG {name}, {form}: {type(e).__name__}: {str(e)[:800]}', flush=True)
            finally:
                shutil.rmtree(folder)
    print(f'{ran} models as TensorFlow has them, {refused} refused, {wrong} wrong: seed {a.seed}')
    sys.exit(wrong > 0 or ran < LEAST_RUN * (ran + refused))


main()
