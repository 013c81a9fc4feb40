#!/usr/bin/env python3
"""Compares the accuracies that trainings end with, in float32, with TensorFlow's: from several seeds, each of which orders the rows, on the same
data, from the same values.

The mean of the tool's accuracies on the test set must lie in the 95% interval of the mean of TensorFlow's (Student's t over the seeds), or
differ from TensorFlow's mean by no more than one row of the test set.  Data: as in envelope.py.  Test train.accuracy runs a short form; the long one is
run by hand.  Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', HERE]
import environment  # noqa: E402
import trainings  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402


def batches_of(made, count, seed):
    """`count` rows: epoch after epoch, each in another order."""
    r, rows = np.random.default_rng(seed), len(made[0])
    order = np.concatenate([r.permutation(rows) for _ in range(-(-count // rows))])[:count]
    return tuple(a[order] for a in made)


def half_width(x):
    return stats.t.ppf(.975, len(x) - 1) * np.std(x, ddof=1) / len(x) ** .5 if len(x) > 1 else 0.


def compare(name, a):
    """Whether the tool's mean is where it must be."""
    with tempfile.TemporaryDirectory() as folder:
        m, found = trainings.Model(name, a.batch, folder), []
        made, tests = m.about.rows('train', a.rows), m.about.rows('test', a.tests // a.batch * a.batch)
        tests = tuple(t[:len(t) // a.batch * a.batch] for t in tests)
        for seed in range(a.seeds):
            rows = batches_of(made, a.steps * a.batch, seed)
            (ours, got), (theirs, want) = m.ours(rows, tests), m.theirs(m.start(), rows, tests)
            found.append((want, got))
            print(f'{name}, seed {seed}: TensorFlow {100 * want:.2f}%, the tool {100 * got:.2f}%; losses of the last step {theirs[-1]:.4g}, {ours[-1]:.4g}',
                  flush=True)
    theirs, ours = np.array(found).T
    width, paired = half_width(theirs), half_width(ours - theirs)
    apart = ours.mean() - theirs.mean()
    within = abs(apart) <= max(width, 1 / len(tests[0])) + 1e-6  # the means of batches are float32
    print(f'{name}: {a.steps} steps of {a.batch}, {a.seeds} seeds, {len(tests[0])} rows to test with: TensorFlow {100 * theirs.mean():.2f} ± {100 * width:.2f}%, '
          f'the tool {100 * ours.mean():.2f}%, difference {100 * apart:+.3f} ± {100 * paired:.3f}% of pairs: {"within" if within else "OUTSIDE"}', flush=True)
    return within


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--steps', type=int, default=1000)
    p.add_argument('--batch', type=int, default=50)
    p.add_argument('--seeds', type=int, default=5)
    p.add_argument('--rows', type=int, default=20000, help='to train on, at most')
    p.add_argument('--tests', type=int, default=10000, help='rows to test with, at most')
    p.add_argument('models', nargs='*', help=', '.join(trainings.MODELS))
    a = p.parse_args()
    if not trainings.obtain():
        return environment.SKIPPED
    return 1 - all([compare(m, a) for m in a.models or [m for m in trainings.MODELS if m != 'char_cnn']])


if __name__ == '__main__':
    sys.exit(main())
