#!/usr/bin/env python3
"""Compares random graphs of some twenty ops each with live TensorFlow.

They test interactions of ops: fusion, views, common subexpressions, layouts and constants folded across ops.  In
float32 every output must agree within 1e-4 of its largest value.  Some graphs also run under a policy of low precision,
which must give the same bits as the graph that `convert` writes under that policy.  Both run without the fusions that
let a product's kernel round once, since an op that TensorFlow lacks is written as several ops between Casts, which
round.  The seed is printed; --seed takes another, --only one graph of it.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f'{HERE}/../../tools']
import environment
import fusion_table

TOLERANCE = 1e-4
POLICIES = ['allow_mix_precision_bf16', 'allow_mix_precision_fp16', 'force_fp16', 'keras-bf16', 'onnx-fp16',
            'openvino-bf16', 'openvino-fp16', 'pytorch-autocast-bf16', 'pytorch-autocast-fp16', 'tvm-fp16']


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--seed', type=int, default=20262)
    p.add_argument('--graphs', type=int, default=100)
    p.add_argument('--steps', type=int, default=20)
    p.add_argument('--only', type=int, help='this graph alone')
    p.add_argument('--keep', metavar='DIR', help='keep the graphs that fail there')
    return p.parse_args()


def expected(tf, proto, feeds, outputs):
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as g:
        tf.import_graph_def(proto, name='')
        with tf.compat.v1.Session(graph=g, config=config) as s:
            return s.run([with_port(n) for n in outputs],
                         {f'{k}:0': v for k, v in feeds.items()})


def with_port(name):
    return name if ':' in name else name + ':0'


class ToolFailed(Exception):
    pass


def tool(*arguments):
    done = subprocess.run([environment.TOOL, *arguments, '-q'], capture_output=True, text=True)
    if done.returncode:
        raise ToolFailed(f'{arguments[0]}: exit {done.returncode}: {done.stderr.strip()[:300]}')


def computed(folder, feeds, outputs, graph='g.pb', policy='must_keep_origin_dtype', closed=()):
    import numpy as np
    fed = [o for k in feeds for o in ('--input', f'{k}=@{folder}/x.npz#{k}')]
    tool('run', f'{folder}/{graph}', '-o', f'{folder}/y.npz', '--policy', policy, '--outputs',
         ','.join(outputs), *fed,
         *(['--optimization-switch', ';'.join(f'{f}:off' for f in closed)] if closed else []))
    with np.load(f'{folder}/y.npz') as z:
        return [z[n] for n in outputs]


def policy_differences(folder, feeds, outputs, policy):
    import numpy as np
    tool('convert', f'{folder}/g.pb', '-o', f'{folder}/c.pb', '--policy', policy, '--outputs',
         ','.join(outputs))
    closed = fusion_table.rounding_once()
    run = computed(folder, feeds, outputs, policy=policy, closed=closed)
    kept = json.loads(subprocess.run([environment.TOOL, 'inspect', f'{folder}/c.pb', '-q', '--format', 'json'], check=True,
                                     stdout=subprocess.PIPE).stdout)['inputs']
    needed = [k for k in feeds if k in {i['name'] for i in kept}]
    converted = computed(folder, needed, outputs, 'c.pb', closed=closed)
    return [f'{n} under {policy} is not what the converted graph gives'
            for n, a, b in zip(outputs, run, converted) if not np.array_equal(a, b, equal_nan=True)]


def difference(name, got, want):
    import numpy as np
    if got.shape != want.shape or got.dtype != want.dtype:
        return f'{name} is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}'
    if not np.isfinite(want).all():
        return f'{name}: TensorFlow itself gives infinities'
    error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-3)
    return None if error <= TOLERANCE else f'{name} errs by {error:.1e}'


def judge(tf, proto, feeds, outputs, policy, keep):
    import numpy as np
    want = expected(tf, proto, feeds, outputs)
    with tempfile.TemporaryDirectory() as d:
        folder = keep or d
        os.makedirs(folder, exist_ok=True)
        with open(f'{folder}/g.pb', 'wb') as f:
            f.write(proto.SerializeToString())
        np.savez(f'{folder}/x.npz', **feeds)
        try:
            got = computed(folder, feeds, outputs)
            wrong = [e for n, g, w in zip(outputs, got, want) if (e := difference(n, g, w))]
            return wrong + (policy_differences(folder, feeds, outputs, policy) if policy else [])
        except ToolFailed as e:
            return [str(e)]


def main():
    a = arguments()
    environment.enter_venv(onednn=False)
    import numpy as np
    import tensorflow as tf
    import generate
    print(f'seed {a.seed}')
    passed = failed = 0
    for i in range(a.graphs) if a.only is None else [a.only]:
        proto, feeds, outputs = generate.graph(tf, np.random.default_rng([a.seed, i]), a.steps)
        policy = POLICIES[i // 3 % len(POLICIES)] if i % 3 == 0 else None
        wrong = judge(tf, proto, feeds, outputs, policy, a.keep and f'{a.keep}/{i}')
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong:
            print(f'FAIL graph {i}: {"; ".join(wrong[:3])}', flush=True)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
