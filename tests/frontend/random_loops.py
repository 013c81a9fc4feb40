#!/usr/bin/env python3
"""Random graphs with branches, loops, lists and open sizes (tests/tools/control_graphs.py): one program for all sizes, run at some as
TensorFlow runs the graph, in functional form and with the control flow of TensorFlow 1, on one thread and two.  Some also run
with stated sizes, and under a policy, no worse than TensorFlow runs what `convert` writes under it.

A graph that is refused has no wrong numbers, but the error must name a node.  How many are refused, and why, is printed; most must run.
The seed is printed; --seed takes another, --only one graph of it.

Exit code 77: nothing to test with.
"""
import argparse
import collections
import faulthandler
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../python']
import package  # noqa: E402
import halftone as ht  # noqa: E402
from live import ROUNDING, TOLERANCE, close, converted, error, np, tf  # noqa: E402
import freezing  # noqa: E402
import control_graphs  # noqa: E402
from tensorflow.python.autograph.impl.api import ConversionError  # noqa: E402

RANGES = {'n': (1, 5), 'k': (1, 9)}, {'n': (0, 5), 'k': (0, 9)}, {'n': (1, 3), 'k': (1, 40)}, {'n': (0, 21), 'k': (1, 18)}
# TensorFlow's optimisations compute other numbers of tensors without elements: the least of tanh(x) as tanh of the least x, which is 1 and not infinite.
tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})
FORMS = 'functional', 'tensorflow 1'
POLICIES = {'force_fp16': 2e-2, 'allow_mix_precision_bf16': 1e-1, 'pytorch-autocast-fp16': 2e-2}
POLICY_SHARE = .3 if package.environment.LONG else .1
LEAST_RUN = .5  # of the graphs
SLOW = 300  # seconds for one form of a graph
UNTOLD = 'Tried to stack elements of an empty list'  # TensorFlow does not know their shape, which Halftone infers


class Wrong(Exception):
    """A number that is not TensorFlow's, or an error that does not say where."""


def sizes_of(r, ranges):
    """The least sizes, the largest, and two others."""
    yield {s: least for s, (least, _) in ranges.items()}
    yield {s: most for s, (_, most) in ranges.items()}
    for _ in range(2):
        yield some_sizes(r, ranges)


def ranges_of(r, kinds):
    """TensorFlow gives convolutions of nothing other shapes than it says."""
    return RANGES[int(r.integers(len(RANGES)))] if 'convolved' not in kinds else RANGES[0]


def some_sizes(r, ranges):
    return {s: int(r.integers(least, most + 1)) for s, (least, most) in ranges.items()}


def agrees(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind != 'f':
        return np.array_equal(got, want)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return False
    difference = np.abs(got.astype('f8') - want)[finite].max(initial=0)
    return difference <= TOLERANCE * max(np.abs(want[finite]).max(initial=0), 1)


def expected(f, inputs, feeds):
    """What TensorFlow computes; None where it stops."""
    try:
        return [t.numpy() for t in tf.nest.flatten(f(*[tf.constant(feeds[n]) for n in inputs]))]
    except tf.errors.InvalidArgumentError as e:
        return UNTOLD if UNTOLD in str(e) else None


def without_unused(path, outputs, feeds):
    """Likewise in a session, which leaves out what no output needs, also operands that a loop hands on without reading them."""
    graph = tf.Graph()
    with graph.as_default():
        definition = tf.compat.v1.GraphDef()
        definition.ParseFromString(open(path, 'rb').read())
        tf.import_graph_def(definition, name='')
    with tf.compat.v1.Session(graph=graph) as session:
        try:
            return session.run([o + ':0' for o in outputs], {f'{n}:0': x for n, x in feeds.items()})
        except tf.errors.InvalidArgumentError:
            return None


def bounds(inputs, sizes):
    """Shapes in which open sizes are ranges or numbers."""
    stated = {s: '..'.join(map(str, of)) if isinstance(of, tuple) else of for s, of in sizes.items()}
    return {name: tuple(stated[d] if isinstance(d, str) else d for d in dims) for name, (dims, _) in inputs.items()}


def model_of(path, f, inputs, sizes):
    model = ht.load(path, outputs=outputs_of(f))
    return model.with_(shapes={i.name: bounds(inputs, sizes)[i.name] for i in model.inputs})


def outputs_of(f):
    return [t.name.removesuffix(':0') for t in f.outputs]


def compiled(model, policy=None):
    try:
        return model.compile(policy, cache='off')
    except ht.UnsupportedError as e:
        if "node '" not in str(e):
            raise Wrong(f'a refusal that names no node: {e}') from None
        raise


def run(context, program, feeds):
    try:
        return list(context.run(**{i.name: feeds[i.name] for i in program.inputs}).values())
    except ht.InputError as e:
        return str(e)


def written(f, form, path):
    """The graph in a file, and the function whose outputs it names."""
    if form != FORMS[0]:
        f = freezing.frozen(f)
    with open(path, 'wb') as out:
        out.write(f.graph.as_graph_def().SerializeToString())
    return f


def check(r, f, inputs, path, ranges):
    program = compiled(model_of(path, f, inputs, ranges))
    one, two = program.context(threads=1), program.context(threads=2)
    for sizes in sizes_of(r, ranges):
        feeds = control_graphs.feeds_of(r, inputs, sizes)
        want, got, other = expected(f, inputs, feeds), run(one, program, feeds), run(two, program, feeds)
        if want is UNTOLD:
            continue
        if want is None and not isinstance(got, str):
            want = without_unused(path, outputs_of(f), feeds)
        if want is None:  # sizes that meet differ, or there is nothing of what must be something
            if not isinstance(got, str) and min(sizes.values()):
                raise Wrong(f'{sizes}: does not stop')
            continue
        compare(f'{sizes}', got, want)
        for i, (a, b) in enumerate(zip(got, other, strict=True)):
            if not np.array_equal(a, b, equal_nan=a.dtype.kind == 'f'):
                raise Wrong(f'{sizes}: output {i} is {b} on two threads, {a} on one')


def compare(where, got, want):
    if isinstance(got, str):
        raise Wrong(f'{where}: stops: {got}')
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if not agrees(g, w):
            raise Wrong(f"{where}: output {i} is {g.dtype}{list(g.shape)} {g}, not {w.dtype}{list(w.shape)} {w}")


def check_stated(r, f, inputs, path, ranges, folder):
    """One size, which is stated: as it is, and under a policy, where the program for open sizes runs too."""
    sizes = some_sizes(r, {s: (max(least, 1), most) for s, (least, most) in ranges.items()})
    feeds = control_graphs.feeds_of(r, inputs, sizes)
    want, model = expected(f, inputs, feeds), model_of(path, f, inputs, sizes)
    if want is None or want is UNTOLD:
        return
    program = compiled(model)
    compare(f'stated {sizes}', run(program.context(), program, feeds), want)
    policy = list(POLICIES)[int(r.integers(len(POLICIES)))]
    model.convert(policy, f'{folder}/c.pb')
    theirs = converted(f'{folder}/c.pb', feeds, outputs_of(f))
    for how, m in ('stated', model), ('open', model_of(path, f, inputs, ranges)):
        program = compiled(m, policy)
        got = run(program.context(), program, feeds)
        if isinstance(got, str):
            raise Wrong(f'{policy}, {how} {sizes}: stops: {got}')
        for i, (g, t, w) in enumerate(zip(got, theirs, want, strict=True)):
            if not no_worse(g, t, w, policy):
                raise Wrong(f'{policy}, {how} {sizes}: output {i} is {g}, in TensorFlow {t}, without the policy {w}')


def no_worse(got, theirs, want, policy):
    """Whether a result is as close to that without the policy as TensorFlow's is, or close to TensorFlow's."""
    if got.shape == want.shape == theirs.shape and np.isfinite(want).all() and np.isfinite(got).all() and got.dtype.kind == 'f':
        if not np.isfinite(theirs).all() or error(got, want) <= 2 * error(theirs, want) + ROUNDING.get(policy, 2 ** -11) + TOLERANCE:
            return True
    finite = np.isfinite(theirs) if theirs.dtype.kind == 'f' else np.ones(theirs.shape, bool)
    return got.shape == theirs.shape and close(np.where(finite, got, 0).astype(got.dtype), np.where(finite, theirs, 0).astype(theirs.dtype), POLICIES[policy])


def reason(e):
    """What the error says of any graph: without names and numbers."""
    text = str(e).splitlines()[0]
    text = re.sub(r"^.*?: error: |node '[^']*'(, op '[^']*')?", lambda m: re.sub(r"'[^']*'", '', m[0], count=1), text)
    return re.sub(r'\d+', '#', re.sub(r"/tmp/[^:]*:|node ", '', text))[:160]


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--graphs', type=int, default=1000 if package.environment.LONG else 30)
    p.add_argument('--first', type=int, default=0)
    p.add_argument('--only', type=int)
    p.add_argument('--keep', help='a file for the graph of --only')
    p.add_argument('--refused', action='store_true', help='print each graph, and each refusal')
    return p.parse_args()


def main():
    a = arguments()
    faulthandler.enable()
    print(f'seed {a.seed}', flush=True)
    refused, ran, unmade, wrong, made = collections.Counter(), 0, 0, [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.first, a.first + a.graphs) if a.only is None else [a.only]:
            r = np.random.default_rng([a.seed, i])
            if a.refused:
                print('graph', i, flush=True)
            try:
                f, inputs, kinds = control_graphs.graph(r)
            except (ValueError, TypeError, ConversionError) as e:  # TensorFlow makes no such graph
                unmade += 1
                print('not made', i, str(e).splitlines()[0][:100], flush=True)
                continue
            ranges = ranges_of(r, kinds)
            for form in FORMS:
                path = a.keep and f'{a.keep}.{FORMS.index(form)}.pb' or f'{folder}/m.pb'
                faulthandler.dump_traceback_later(SLOW, exit=True)
                form_f = written(f, form, path)
                jobs = [lambda: check(r, form_f, inputs, path, ranges)]
                if r.random() < POLICY_SHARE:
                    jobs.append(lambda: check_stated(r, form_f, inputs, path, ranges, folder))
                for job in jobs:
                    try:
                        job()
                        ran += 1
                        made += kinds
                    except ht.UnsupportedError as e:
                        refused[reason(e)] += 1
                        if a.refused:
                            print('refused', i, form, e, sorted(kinds), flush=True)
                    except (Wrong, ht.HalftoneError) as e:
                        wrong.append(i)
                        print(f'WRONG graph {i}, {form}: {sorted(kinds)}: {type(e).__name__}: {str(e)[:2000]}', flush=True)
        faulthandler.cancel_dump_traceback_later()
    for why, n in refused.most_common():
        print(f'{n} refused: {why}')
    print(f'{ran} run as TensorFlow runs them, {sum(refused.values())} refused, {len(wrong)} wrong: seed {a.seed}, graphs {sorted(set(wrong))}')
    print('made of', dict(made.most_common()))
    sys.exit(bool(wrong) or unmade > .1 * a.graphs or ran < LEAST_RUN * (ran + sum(refused.values())))


main()
