#!/usr/bin/env python3
"""SavedModels of TensorFlow with loops and branches that read variables: the loop is what is not
supported, which is said once, however many variables it reads.

Exit code 77: nothing to test with.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
environment.enter_venv()
import tensorflow as tf  # noqa: E402


class Loop(tf.Module):
    def __init__(self, variables):
        super().__init__()
        self.v = [tf.Variable(tf.ones([3]) * i) for i in range(variables)]

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name='x')])
    def serve(self, x):
        while tf.reduce_sum(x) < 100:
            for v in self.v:
                x = x + v
        return {'y': x}


class Branch(Loop):
    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name='x')])
    def serve(self, x):
        if tf.reduce_sum(x) < 100:
            y = x + tf.add_n(self.v)
        else:
            y = x * self.v[0]
        return {'y': y}


def tool(*args, code=0):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300,
                       env={**os.environ, 'HALFTONE_POLICY': ''})
    if r.returncode != code:
        sys.exit(f'{args}: ended with {r.returncode}\n{r.stderr}')
    return r


def main():
    with tempfile.TemporaryDirectory() as folder:
        for kind, op in (Loop, 'While'), (Branch, 'If'):
            for variables in 1, 5:
                m, path = kind(variables), os.path.join(folder, f'{op}{variables}')
                tf.saved_model.save(m, path, signatures=m.serve)
                err = tool('run', path, code=4).stderr
                inspected = json.loads(tool('inspect', '--format=json', path).stdout)
                if err.count('error:') != 1 or 'loops and branches are not supported' not in err or 'changed' in err:
                    sys.exit(f'{path}: {err}')
                refused = [k.removeprefix('Stateless') for k in inspected['unsupported']]
                if refused != [op]:
                    sys.exit(f'{path}: {inspected["unsupported"]}')
    print('loops and branches are named')


main()
