#!/usr/bin/env python3
"""run --dump against TensorFlow's own fetches, node by node, and against runs without a dump.

The outputs have the same bits with and without a dump, under every policy and number of threads, also for batches in
parts.  In float32 each tensor agrees with TensorFlow's tensor of that node; under a policy it does so within a bound
for low precision.
"""
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../models', f'{HERE}/../tools']
import environment

MODELS = 'mobilenetv2', 'efficientnetb0', 'bert', 'densenet121', 'convnext'
PART = 'mobilenetv2',
POLICIES = {'must_keep_origin_dtype': 2e-4, 'allow_mix_precision_bf16': .15, 'force_fp16': .1, 'optimal': .15}
# Policy, error, batch and options of runs by two threads.
THREADED = (('must_keep_origin_dtype', 2e-4, 2, '--threads', '2', '--batch-method', 'parts'),
            ('allow_mix_precision_bf16', .15, 3, '--threads', '2'))
# Nodes of these types keep their type, or become parts of a kernel, if their operands are not
# constant.
STAY = {'Relu', 'Relu6', 'Softmax', 'AvgPool', 'MaxPool'}


def tool(*args):
    done = subprocess.run([environment.TOOL, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{" ".join(args)}: {done.stderr.strip()[:500]}')
    return done.stdout


def plain(name):
    return ''.join(c if c.isascii() and (c.isalnum() or c == '-') else '_' for c in name)


def read_dump(folder):
    import numpy as np
    got = {}
    for f in glob.glob(f'{folder}/*/*/*/1/0/*.npy'):
        part = os.path.basename(f).split('.')
        if part[5] == 'output':
            got[part[1], int(part[6])] = np.load(f)
    return got


class Model:
    def __init__(self, name, folder):
        import oracle
        self.name, self.folder = name, folder
        self.path = f'{environment.MODELS}/frozen/{name}.pb'
        self.graph_def = oracle.read_graphdef(self.path)
        self.nodes = {plain(n.name): n for n in self.graph_def.node}

    def feed(self, batch):
        """The inputs that the tool draws."""
        import numpy as np
        import oracle
        tf = oracle.tensorflow()
        rng = np.random.default_rng(7)
        fed, args = {}, []
        for n in self.graph_def.node:
            if n.op != 'Placeholder':
                continue
            shape = [batch if d.size < 0 and i == 0 else 128 if d.size < 0 else d.size for i, d in enumerate(n.attr['shape'].shape.dim)]
            dtype = tf.as_dtype(n.attr['dtype'].type).as_numpy_dtype
            x = rng.integers(0, 2, shape).astype(dtype) if np.issubdtype(dtype, np.integer) else rng.normal(size=shape).astype(dtype)
            at = f'{self.folder}/{plain(n.name)}-{batch}.npy'
            np.save(at, x)
            fed[n.name + ':0'] = x
            args += ['--input', f'{n.name}=@{at}']
        return fed, args

    def fetch(self, fed, names):
        import oracle
        tf = oracle.tensorflow()
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(self.graph_def, name='')
        with oracle.literal_session(tf, graph) as s:
            return s.run([f'{self.nodes[n].name}:{i}' for n, i in names], fed)


def compare(model, policy, got, fed, allowed):
    import numpy as np
    names = sorted(n for n in got if n[0] in model.nodes and model.nodes[n[0]].op not in ('Placeholder',))
    worst = 0, ''
    for name, want in zip(names, model.fetch(fed, names)):
        mine = got[name]
        if mine.shape != want.shape:
            sys.exit(f'{model.name} {policy}: {name} is {mine.shape}, TensorFlow\'s {want.shape}')
        if not np.issubdtype(want.dtype, np.floating):
            if not np.array_equal(mine, want):
                sys.exit(f'{model.name} {policy}: {name} is another than TensorFlow\'s')
            continue
        top = np.abs(want).max() if want.size else 0
        error = float(np.sqrt(np.mean((mine.astype(np.float64) - want)**2)) / top) if top else float(np.abs(mine).max(initial=0))
        if error > worst[0]:
            worst = error, name[0]
    if not worst[0] <= allowed:
        sys.exit(f'{model.name} {policy}: {worst[1]} has error {worst[0]:.3g}, {allowed} is allowed')
    missing = sorted({k for k, n in model.nodes.items() if n.op in STAY} - {n for n, _ in names})
    if missing:
        sys.exit(f'{model.name} {policy}: {missing[0]} has no tensor')
    print(f'{model.name:16} {policy:26} {len(names):4} tensors, worst {worst[0]:.2g} ({worst[1]})')


def check(model, policy, allowed, batch, *args):
    fed, feeds = model.feed(batch)
    common = ['run', model.path, *feeds, '--policy', policy, '--batch', str(batch), *args]
    with tempfile.TemporaryDirectory() as folder:
        tool(*common, '-o', f'{folder}/plain.npz')
        tool(*common, '-o', f'{folder}/dumped.npz', '--dump', f'{folder}/d')
        with open(f'{folder}/plain.npz', 'rb') as a, open(f'{folder}/dumped.npz', 'rb') as b:
            if a.read() != b.read():
                sys.exit(f'{model.name} {policy} {args}: the outputs change with a dump')
        compare(model, policy, read_dump(f'{folder}/d'), fed, allowed)


def main():
    names = sys.argv[1:] or (MODELS if environment.LONG else PART)
    for name in names:
        environment.obtain(name)
        with tempfile.TemporaryDirectory() as folder:
            model = Model(name, folder)
            for of_model in environment.share([*((p, most, 1) for p, most in POLICIES.items()), *THREADED]):
                check(model, *of_model)


if __name__ == '__main__':
    environment.enter_venv(onednn=False)
    main()
