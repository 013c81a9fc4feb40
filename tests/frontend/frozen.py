#!/usr/bin/env python3
"""SavedModels of $HALFTONE_SHARED with their calls inlined and their variables frozen compute what
TensorFlow computes from the SavedModel itself.

  frozen.py [TOOL]      the tool is build/tests/import_export

Exit code 77: nothing to test with.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

MODELS = {  # model: shape of its inputs where the graph leaves it open
    'kws_ref_model': (2, 49, 10, 1),
    'cifar/cifar_saved_model': (2, 32, 32, 3),
    'mnist/mnist_conv_model': (2, 28, 28, 1),
    'mnist/mnist_lr_model': (2, 784),
    'train/regression_forms/saved_model': (3, ),
    'micro/half_plus_two/half_plus_two/00000123': (3, 1),
    'micro/half_plus_two/half_plus_two_main_op/00000123': (3, 1),
    'micro/half_plus_two/half_plus_two_pbtxt/00000123': (3, 1),
    'micro/half_plus_two/half_plus_two_v2/00000123': (3, 1),
}


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else f'{environment.BUILD}/tests/import_export'
    models = os.path.join(environment.SHARED, 'models')
    if not os.path.isdir(models):
        print(f'skipped: {models} is absent')
        sys.exit(77)
    environment.enter_venv(onednn=False)
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1

    def run_graph(load, feeds, outputs):
        with v1.Session(graph=tf.Graph()) as session:
            load(session)
            return session.run(outputs, feeds)

    class SameNames(tf.Module):
        """Several variables have one name, so names alone do not identify them; an embedding is
        gathered from without being read."""

        def __init__(self):
            self.a = tf.Variable(tf.random.stateless_normal([4, 3], [1, 2]), name='w')
            self.b = tf.Variable(tf.random.stateless_normal([3], [3, 4]), name='w')
            self.c = tf.Variable(tf.random.stateless_normal([3], [5, 6]), name='w')
            self.table = tf.Variable(tf.random.stateless_normal([10, 4], [7, 8]), name='table')

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def __call__(self, x):
            rows = tf.nn.embedding_lookup(self.table, tf.cast(tf.abs(x), tf.int32))
            return {'y': tf.matmul(rows, self.a) * self.b + self.c}

    same_names = tempfile.mkdtemp()
    module = SameNames()
    tf.saved_model.save(module, same_names, signatures=module.__call__.get_concrete_function())
    MODELS[same_names] = (5, )

    failures = 0
    for name, shape in MODELS.items():
        path = os.path.join(models, name)
        with tempfile.TemporaryDirectory() as work:
            frozen = os.path.join(work, 'frozen.pb')
            done = subprocess.run([tool, 'frozen', path, frozen], capture_output=True, text=True)
            lines = [line.split() for line in done.stdout.splitlines()]
            if done.returncode or lines[-1][0] != '0':
                print(f'{name}: {done.stdout}{done.stderr}')
                failures += 1
                continue
            graph = v1.GraphDef()
            with open(frozen, 'rb') as f:
                graph.ParseFromString(f.read())
        inputs = [n for what, n, _ in (x for x in lines if len(x) == 3 and x[0] == 'input')]
        outputs = [(n, t) for what, n, t in (x for x in lines if len(x) == 3 and x[0] == 'output')]
        rng = np.random.default_rng(1)
        feeds = {}
        for node in graph.node:
            if node.name in inputs:
                scalar = node.name == 'DropoutProb'
                feeds[node.name + ':0'] = np.float32(1) if scalar else \
                    rng.standard_normal(shape).astype(np.float32)
        left = {n.op for n in graph.node} & {'VarHandleOp', 'ReadVariableOp', 'VariableV2',
                                             'PartitionedCall', 'StatefulPartitionedCall'}
        want = run_graph(lambda s: v1.saved_model.load(s, ['serve'], path), feeds,
                         [n if ':' in n else n + ':0' for n, _ in outputs])
        got = run_graph(lambda s: tf.import_graph_def(graph, name=''), feeds,
                        [t for _, t in outputs])
        worst = max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(want, got))
        ok = not left and worst <= 1e-6 and len(feeds) == len(inputs)
        print(f'{name}: {len(graph.node)} nodes, largest difference {worst:.1e}'
              f'{"" if ok else " FAILED"} {left or ""}')
        failures += not ok
    shutil.rmtree(same_names)
    print(f'{len(MODELS)} models, {failures} failures')
    sys.exit(failures > 0)


main()
