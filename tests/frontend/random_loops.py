#!/usr/bin/env python3
"""Random graphs with branches, loops, lists and open sizes (tests/tools/control_graphs.py): one program for all sizes, run at some as
TensorFlow runs the graph, in functional form and with the control flow of TensorFlow 1, on one thread and two.

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
from live import TOLERANCE, np, tf  # noqa: E402
import control_graphs  # noqa: E402
from tensorflow.python.autograph.impl.api import ConversionError  # noqa: E402
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2  # noqa: E402

MOST = {'n': 5, 'k': 9}
FORMS = 'functional', 'tensorflow 1'
LEAST_RUN = .5  # of the graphs


class Wrong(Exception):
    """A number that is not TensorFlow's, or an error that does not say where."""


def sizes_of(r):
    """The least sizes, the largest, and two others."""
    yield {s: 1 for s in MOST}
    yield dict(MOST)
    for _ in range(2):
        yield {s: int(r.integers(1, most + 1)) for s, most in MOST.items()}


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
    except tf.errors.InvalidArgumentError:
        return None


def bounds(inputs):
    return {name: tuple(f'1..{MOST[d]}' if isinstance(d, str) else d for d in dims) for name, (dims, _) in inputs.items()}


def compiled(path, f, inputs):
    try:
        model = ht.load(path, outputs=[t.name.removesuffix(':0') for t in f.outputs])
        shapes = {i.name: bounds(inputs)[i.name] for i in model.inputs}
        return model.with_(shapes=shapes).compile(cache='off')
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
        f = convert_variables_to_constants_v2(f, lower_control_flow=True)
    with open(path, 'wb') as out:
        out.write(f.graph.as_graph_def().SerializeToString())
    return f


def check(r, f, inputs, form, path, threads):
    program = compiled(path, written(f, form, path), inputs)
    context = program.context(threads=threads)
    for sizes in sizes_of(r):
        feeds = control_graphs.feeds_of(r, inputs, sizes)
        want, got = expected(f, inputs, feeds), run(context, program, feeds)
        if want is None:  # sizes that meet differ
            if not isinstance(got, str):
                raise Wrong(f'{form}, {sizes}, {threads} threads: does not stop')
            continue
        if isinstance(got, str):
            raise Wrong(f'{form}, {sizes}, {threads} threads: stops: {got}')
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            if not agrees(g, w):
                raise Wrong(f'{form}, {sizes}, {threads} threads: output {i} is {g}, not {w}')


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
    p.add_argument('--refused', action='store_true', help='print each refusal')
    return p.parse_args()


def main():
    a = arguments()
    faulthandler.enable()
    print(f'seed {a.seed}', flush=True)
    refused, ran, unmade, wrong, made = collections.Counter(), 0, 0, [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.first, a.first + a.graphs) if a.only is None else [a.only]:
            r = np.random.default_rng([a.seed, i])
            try:
                f, inputs, kinds = control_graphs.graph(r)
            except (ValueError, TypeError, ConversionError) as e:  # TensorFlow makes no such graph
                unmade += 1
                print('not made', i, str(e).splitlines()[0][:100], flush=True)
                continue
            for form in FORMS:
                path = a.keep and f'{a.keep}.{FORMS.index(form)}.pb' or f'{folder}/m.pb'
                try:
                    check(r, f, inputs, form, path, 1 + i % 2)
                    ran += 1
                    made += kinds
                except ht.UnsupportedError as e:
                    refused[reason(e)] += 1
                    if a.refused:
                        print('refused', i, form, e, sorted(kinds), flush=True)
                except (Wrong, ht.HalftoneError) as e:
                    wrong.append(i)
                    print(f'WRONG graph {i}: {sorted(kinds)}: {type(e).__name__}: {str(e)[:2000]}', flush=True)
    for why, n in refused.most_common():
        print(f'{n} refused: {why}')
    print(f'{ran} run as TensorFlow runs them, {sum(refused.values())} refused, {len(wrong)} wrong: seed {a.seed}, graphs {sorted(set(wrong))}')
    print('made of', dict(made.most_common()))
    sys.exit(bool(wrong) or unmade > .1 * a.graphs or ran < LEAST_RUN * (ran + sum(refused.values())))


main()
