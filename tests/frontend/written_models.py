#!/usr/bin/env python3
"""Models as users write them (tests/tools/written_models.py and written_nets.py), with open batches, lengths, heights and widths: one program for all sizes
gives the results of live TensorFlow at the least sizes, the largest and random ones.  Models are functional graphs, graphs with the control
flow of TensorFlow 1, and SavedModels.

On each day ctest tries a few models, each in one form; HALFTONE_LONG=1 tries all, in each form.  A model that is refused has no wrong
numbers; how many are is printed, and of SAMPLE none may be.

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
from live import close, np, tf  # noqa: E402
import freezing  # noqa: E402
import written_models  # noqa: E402
import written_nets  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

FORMS = 'functional', 'tensorflow 1', 'saved'
TOLERANCE = 3e-4  # some models iterate until numbers hardly change
SHARE = 8
LEAST_RUN = .7  # of all models
MOST_MEMORY = 1 << 30  # bytes of a run of one of these small models
SAMPLE = ('joined_places', 'greedy_decoder', 'resized', 'beam_search', 'joined_order', 'kv_cache_update', 'tcn', 'transposed', 'pointer_network',
          'mirrored', 'viterbi', 'joined_fixed', 'capsules', 'yolo', 'lstm_dynamic', 'joined_boxes', 'saliency', 'wavenet', 'centernet', 'tree',
          'counted', 'relative_attention', 'class_loop', 'mixture', 'uneven', 'undone', 'regions', 'shifted', 'sampled', 'mask_rcnn',
          'stated_length', 'walked_back', 'no_elements', 'failing_sides', 'unequal_sides', 'failing_loop', 'shrunk_gradient', 'none_meets',
          'quantised', 'levels', 'products_of_rows', 'windows', 'filtered', 'contrastive', *written_nets.MODELS)


MODELS = {**written_models.MODELS, **written_nets.MODELS}


class Wrong(Exception):
    """A number that is not TensorFlow's, or a run that stops where TensorFlow does not."""


# ---- forms ----

def saved(f, signature, folder):
    module = tf.Module()
    module.f = tf.function(lambda **x: {f'y{i}': y for i, y in enumerate(f(*(x[s.name] for s in signature)))}, autograph=False)
    traced = module.f.get_concrete_function(**{s.name: s for s in signature})
    module.kept = list(traced.variables)  # those of layers of Keras
    tf.saved_model.save(module, folder, signatures={'serving_default': traced})
    proto = saved_model_pb2.SavedModel()
    with open(f'{folder}/saved_model.pb', 'rb') as file:
        proto.ParseFromString(file.read())
    signed = proto.meta_graphs[0].signature_def['serving_default']
    return ({s.name: signed.inputs[s.name].name.removesuffix(':0') for s in signature},
            [signed.outputs[f'y{i}'].name.removesuffix(':0') for i in range(len(signed.outputs))])


def frozen(f, signature, path, lower):
    traced = tf.function(f, input_signature=signature, autograph=False).get_concrete_function()
    traced = freezing.frozen(traced, lower)
    with open(path, 'wb') as out:
        out.write(traced.graph.as_graph_def().SerializeToString())
    return {s.name: s.name for s in signature}, [t.name.removesuffix(':0') for t in traced.outputs]


def written(f, inputs, form, folder):
    """Where the model is, options to load it, and the names of its inputs, by ours, and of its outputs."""
    signature = [tf.TensorSpec([None if isinstance(d, str) else d for d in dims], t, name=n) for n, (dims, t) in inputs.items()]
    if form == 'saved':
        return f'{folder}/saved', {}, *saved(f, signature, f'{folder}/saved')
    names, outputs = frozen(f, signature, f'{folder}/m.pb', form != FORMS[0])
    return f'{folder}/m.pb', {'outputs': outputs}, names, outputs


# ---- sizes ----

def sizes_of(r, inputs):
    """The largest sizes, the least, and two others."""
    names = sorted({d for dims, _ in inputs.values() for d in dims if isinstance(d, str)})
    least, most = ({n: of.get(n, 1) for n in names} for of in (written_models.LEAST, written_models.MOST))
    yield most
    yield least
    for _ in range(2):
        yield {n: int(r.integers(least[n], most[n] + 1)) for n in names}


def are_apart(inputs):
    """Whether dimensions of one number have several sizes."""
    names = {}
    for dims, _ in inputs.values():
        for axis, d in enumerate(dims):
            names.setdefault(axis, set()).update({d} if isinstance(d, str) else ())
    return any(len(of) > 1 for of in names.values())


def bounds(dims, apart):
    """What is stated of the dimensions of an input: sizes have names if they are `apart`."""
    return tuple(f'{d}=' * apart + f'{written_models.LEAST.get(d, 1)}..{written_models.MOST[d]}' if isinstance(d, str) else d for d in dims)


def feeds_of(r, inputs, sizes):
    def draw(dims, t):
        shape = [sizes.get(d, d) for d in dims]
        return r.integers(0, 5, shape, 'i4') if t == tf.int32 else r.uniform(-1, 1.5, shape).astype('f4')
    return {n: draw(*of) for n, of in inputs.items()}


# ---- checks ----

def agrees(got, want):
    if want.dtype.kind != 'f' or got.shape != want.shape:
        return close(got, want, 0)
    finite = np.isfinite(want)
    return np.array_equal(got[~finite], want[~finite], equal_nan=True) and close(got[finite], want[finite], TOLERANCE)


def expected(f, feeds):
    """What TensorFlow computes; None where it stops.  Outside of a graph it cannot stack an array of which some elements are not written and
    whose shape is known in part alone."""
    fed = [tf.constant(x) for x in feeds.values()]
    try:
        try:
            made = f(*fed)
        except ValueError as e:
            if 'partially known' not in str(e):
                raise
            made = tf.function(f, autograph=False)(*fed)
        return [y.numpy() for y in made]
    except tf.errors.OpError:
        return None


def check(name, form, seed, folder):
    r = np.random.default_rng([seed, *name.encode()])
    f, inputs = MODELS[name](r)
    path, options, names, outputs = written(f, inputs, form, folder)
    model = ht.load(path, **options)
    shapes = {names[n]: bounds(dims, are_apart(inputs)) for n, (dims, _) in inputs.items() if names[n] in {i.name for i in model.inputs}}
    program = model.with_(shapes=shapes).compile(cache='off')
    if program.memory() > MOST_MEMORY:
        raise Wrong(f'a run takes {program.memory()} bytes')
    context = program.context(threads=int(r.integers(1, 3)))
    for sizes in sizes_of(r, inputs):
        feeds = feeds_of(r, inputs, sizes)
        want = expected(f, feeds)
        try:
            got = context.run(**{names[n]: x for n, x in feeds.items() if names[n] in shapes})
        except ht.InputError as e:
            if want is not None:
                raise Wrong(f'{sizes}: stops: {e}') from None
            continue
        if want is None:
            raise Wrong(f'{sizes}: does not stop')
        for i, (o, w) in enumerate(zip(outputs, want, strict=True)):
            if not agrees(got[o], w):
                raise Wrong(f'{sizes}: output {i} is {got[o]}, not {w}')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--form', choices=FORMS)
    p.add_argument('name', nargs='*', help='models')
    a = p.parse_args()
    faulthandler.enable()
    print(f'seed {a.seed}', flush=True)
    count = {'ran': 0, 'refused': 0, 'wrong': 0}
    long = package.environment.LONG
    for i, name in enumerate(a.name or (list(MODELS) if long else package.environment.in_turn(SAMPLE, SHARE))):
        for form in [a.form] if a.form else FORMS if long else [FORMS[(i + package.environment.TURN // SHARE) % len(FORMS)]]:
            folder = tempfile.mkdtemp()
            try:
                check(name, form, a.seed, folder)
                how, said = 'ran', ''
            except ht.UnsupportedError as e:
                how, said = 'wrong' if name in SAMPLE else 'refused', str(e)[:300]
            except (Wrong, ht.HalftoneError, tf.errors.OpError, ValueError, TypeError, KeyError) as e:
                how, said = 'wrong', f'{type(e).__name__}: {str(e)[:800]}'
            finally:
                shutil.rmtree(folder)
            count[how] += 1
            print(f'{how}: {name}, {form} {said}', flush=True)
    print(f'{count}: seed {a.seed}')
    sys.exit(count['wrong'] > 0 or count['ran'] < LEAST_RUN * (count['ran'] + count['refused']))


main()
