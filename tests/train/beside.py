"""Functions that the tests of `halftone train` against TensorFlow share.  Without TensorFlow a test that imports this ends with exit code 77."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
v1.disable_eager_execution()
ROWS, BATCH = 24, 8


def batch_rows(i):
    """The rows of the data that step i takes if they are not shuffled."""
    return np.arange(i * BATCH, (i + 1) * BATCH) % ROWS


def train(model, folder, *more):
    """Trains in float32 on x.npy and y.npy in `folder`, and returns the standard output of `halftone train`."""
    command = [environment.TOOL, 'train', model, '--data', f'x=@{folder}/x.npy', '--data', f'y=@{folder}/y.npy', '--batch', str(BATCH),
               '--no-shuffle', '--loss', 'loss', '--policy', 'must_keep_origin_dtype', *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{command}: ended with {done.returncode}\n{done.stderr}')
    return done.stdout


def compare_values(what, got, want, least, tolerance):
    """Exits with an error if an element differs by more than `tolerance` times the largest |element| of `want`, or times `least` if that is
    larger."""
    error = np.max(np.abs(got.astype('f8') - want), initial=0) / max(np.max(np.abs(want), initial=0), least)
    if not error <= tolerance:
        sys.exit(f'{what}: error {error}')
