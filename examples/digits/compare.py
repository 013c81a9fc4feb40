#!/usr/bin/env python3
"""Compiles the digit classifier under several precision policies and prints what they come to.

usage: compare.py HALFTONE

Uses the command line tool and Python's standard library only.
"""
import array
import ast
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODEL, SAMPLES = os.path.join(FOLDER, 'model.pb'), os.path.join(FOLDER, 'samples.npz')
POLICIES = {'float32': 'must_keep_origin_dtype', 'bfloat16 mixed': 'allow_mix_precision_bf16',
            'float16 mixed': 'allow_mix_precision_fp16', 'all float16': 'force_fp16'}
TYPES = {'<f4': 'f', '<i8': 'q'}


def tool(halftone, *arguments):
    done = subprocess.run([halftone, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'halftone {" ".join(arguments)} ended with {done.returncode}:\n{done.stderr}')
    return done.stdout


def npz_member(path, name):
    """A one- or two-dimensional array as (columns, array.array)."""
    with zipfile.ZipFile(path) as archive:
        data = io.BytesIO(archive.read(f'{name}.npy'))
    major = data.read(8)[6]
    size, = struct.unpack('<H' if major == 1 else '<I', data.read(2 if major == 1 else 4))
    header = ast.literal_eval(data.read(size).decode('latin1'))
    return header['shape'][-1], array.array(TYPES[header['descr']], data.read())


def rows(columns, values):
    return [values[i:i + columns] for i in range(0, len(values), columns)]


def measure(halftone, policy, folder):
    """What a policy decides, what it costs, and the logits of all samples."""
    out = os.path.join(folder, f'{policy}.npz')
    count = len(npz_member(SAMPLES, 'label')[1])
    tool(halftone, 'run', MODEL, '--policy', policy, '--input-shape', f'image:{count},28,28,1',
         '--input', f'image=@{SAMPLES}#image', '-o', out)
    decided = json.loads(tool(halftone, 'explain', MODEL, '--policy', policy, '--format', 'json'))
    timed = json.loads(tool(halftone, 'bench', MODEL, '--policy', policy, '--format', 'json'))
    return decided, timed, rows(*npz_member(out, 'digit_logits'))


def accuracy(logits, labels):
    return sum(max(range(len(l)), key=l.__getitem__) == label for l, label in zip(logits, labels)) / len(labels)


def error(logits, reference):
    """Largest difference over the largest value."""
    largest = max(abs(x) for row in reference for x in row)
    return max(abs(x - y) for a, b in zip(logits, reference) for x, y in zip(a, b)) / largest


def main():
    halftone = os.path.abspath(sys.argv[1])
    _, labels = npz_member(SAMPLES, 'label')
    reference = None
    print(f'\n{"policy":<15}{"low / float nodes":>18}{"casts":>7}{"weight bytes":>14}{"latency":>12}{"error":>10}{"accuracy":>10}')
    with tempfile.TemporaryDirectory() as folder:
        for name, policy in POLICIES.items():
            decided, timed, logits = measure(halftone, policy, folder)
            reference = reference or logits
            print(f'{name:<15}{decided["low_nodes"]:>10} / {decided["float_nodes"]:<5}{len(decided["casts"]):>7}'
                  f'{timed["weight_bytes"]:>14}{timed["latency_ms"]["median"] * 1e3:>9.1f} us'
                  f'{error(logits, reference):>10.2g}{accuracy(logits, labels):>9.2%}', flush=True)
    print('\nLatency: one digit, one thread, median. Error: largest difference of a logit from float32, relative to the '
          'largest logit.\nAccuracy: on 1,000 MNIST test digits. Try: build/halftone explain examples/digits/model.pb '
          '--policy allow_mix_precision_bf16')


if __name__ == '__main__':
    main()
