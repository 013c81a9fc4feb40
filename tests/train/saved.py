#!/usr/bin/env python3
"""The saved activations of training steps: a mix of 16 bits stores them once, in 16 bits where the policy says so, in at most 0.6 of
float32's bytes.

Exit code 77: nothing to test with.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f'{HERE}/../tools')
import environment  # noqa: E402
from saved_activations import saved  # noqa: E402

MODELS = f'{environment.SHARED}/models'
# Path, shapes of the feeds, loss and train op.
STEPS = [(f'{MODELS}/mnist/mnist_conv_model', 'Features:64,28,28,1;Label:64;DropoutProb:;learning_rate:', 'Loss,MomentumOp'),
         (f'{MODELS}/cifar/cifar_saved_model', 'Input:64,32,32,3;Placeholder:64', 'Mean,Adam')]
MOST = .6


def bytes_of(path, shapes, outputs, policy):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([environment.TOOL, 'compile', path, '--policy', policy, '--input-shape', shapes, '--outputs', outputs,
                        '--emit', 'plan', '-o', f'{folder}/plan', '-q'], check=True)
        with open(f'{folder}/plan') as f:
            return saved(f.read())


def main():
    wrong = 0
    if not os.path.isdir(MODELS):
        return environment.SKIPPED
    for path, shapes, outputs in STEPS:
        whole = bytes_of(path, shapes, outputs, 'must_keep_origin_dtype')
        for policy in 'allow_mix_precision_bf16', 'allow_mix_precision_fp16':
            low = bytes_of(path, shapes, outputs, policy)
            print(f'{os.path.basename(path)}, {policy}: {low} bytes, {low / whole:.2f} of those in float32')
            wrong += not 0 < low <= MOST * whole
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
