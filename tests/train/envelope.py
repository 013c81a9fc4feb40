#!/usr/bin/env python3
"""Compares the drift of a training with that of TensorFlow's own trainings: the losses of 100 steps from one start on
the same batches.

The centre is TensorFlow's training without oneDNN.  Its envelope is the largest difference from the centre, up to each
step, of trainings whose initial weights are moved by one unit in the last place, up or down at random: 20 with oneDNN
and 20 without, and of the training with oneDNN that begins with the centre's weights.  The tool's difference from the
centre must be at most twice the envelope, or a rounding of the loss.  Data: MNIST, for cifar its digits in random
colours on random coloured backgrounds, for char_cnn documentation of Python packages.

To be run by hand: it takes minutes; char_cnn, of which TensorFlow computes a step of 64 rows in a minute, only runs if it is named.
Exit code 77: nothing to test with.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', HERE]
import environment  # noqa: E402
import trainings  # noqa: E402
import numpy as np  # noqa: E402

WIDEST = 2


# ---- TensorFlow's trainings, in a process of its own for each setting of oneDNN ----

def theirs(model, steps, batch, runs, out):
    """Losses by run and step; the first run begins with the original weights."""
    with tempfile.TemporaryDirectory() as folder:
        m, r, losses = trainings.Model(model, batch, folder), np.random.default_rng(7), []
        rows = m.about.rows('train', steps * batch)
        for run in range(runs + 1):
            losses.append(m.theirs(m.start(r if run else None), rows)[0])
            np.save(out, losses)


def all_theirs(model, steps, batch, runs, folder):
    """Both settings at the same time: what they compute does not depend on it."""
    command = [sys.executable, os.path.abspath(__file__), '--steps', str(steps), '--batch', str(batch), '--runs', str(runs)]
    out = [f'{folder}/onednn{onednn}.npy' for onednn in '01']
    running = [subprocess.Popen([*command, '--theirs', o, model], env={**os.environ, 'TF_ENABLE_ONEDNN_OPTS': onednn}, stderr=subprocess.DEVNULL)
               for onednn, o in zip('01', out)]
    if any([r.wait() for r in running]):
        sys.exit(f'{model}: TensorFlow\'s trainings fail')
    return [np.load(o) for o in out]


def compare(model, steps, batch, runs):
    """Prints some steps; returns the largest ratio of the tool's difference to the envelope."""
    with tempfile.TemporaryDirectory() as folder:
        without, with_onednn = all_theirs(model, steps, batch, runs, folder)
        m = trainings.Model(model, batch, folder)
        mine = m.ours(m.about.rows('train', steps * batch))[0]
    centre = without[0]
    rounding = np.spacing(centre.astype('f4')).astype('f8')
    strayed = np.abs(np.concatenate([without[1:], with_onednn]) - centre).max(0)
    envelope = np.maximum(np.maximum.accumulate(strayed), rounding)
    own = np.abs(mine - centre)
    print('| step | loss | TensorFlow\'s envelope | difference |\n| ---: | ---: | ---: | ---: |')
    for s in sorted({0, 9, 24, 49, steps - 1} & set(range(steps))):
        print(f'| {s + 1} | {centre[s]:.6g} | {envelope[s]:.2g} | {own[s]:.2g} |')
    at = int(np.argmax(own / envelope))
    print(f'{model}: at most {own[at] / envelope[at]:.2f} of the envelope, in step {at + 1}', flush=True)
    return own[at] / envelope[at]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--steps', type=int, default=100)
    p.add_argument('--batch', type=int, default=64)
    p.add_argument('--runs', type=int, default=20, help='with moved weights, for each setting of oneDNN')
    p.add_argument('--theirs', help=argparse.SUPPRESS)
    p.add_argument('models', nargs='*', help=', '.join(trainings.MODELS))
    a = p.parse_args()
    if a.theirs:
        theirs(a.models[0], a.steps, a.batch, a.runs, a.theirs)
        return 0
    if not trainings.obtain():
        return environment.SKIPPED
    models = a.models or [m for m in trainings.MODELS if m != 'char_cnn']
    return int(max([compare(m, a.steps, a.batch, a.runs) for m in models]) > WIDEST)


if __name__ == '__main__':
    sys.exit(main())
