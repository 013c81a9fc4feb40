#!/usr/bin/env python3
"""TensorFlow loads and runs the graphs that `halftone convert` writes for random graphs
(tests/precision/graphs/generate.py), under a policy that changes from graph to graph.  Every output agrees with the
original graph's in TensorFlow: within the tolerance of float32 if the written graph has no lower type, else within a
bound for that type. The seed is printed; --seed takes another, --only one graph of it.
"""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f'{HERE}/../tools', f'{HERE}/../precision/graphs']
import environment
from converted import Graph
from run import Failed, tool

TOLERANCE = 1e-4  # in float32, relative to the largest value
POLICIES = ['', 'must_keep_origin_dtype', 'allow_mix_precision_bf16', 'allow_mix_precision_fp16', 'force_fp16', 'fp16',
            'cube_fp16in_fp32out', 'grappler-bf16', 'grappler-fp16', 'keras-bf16', 'keras-fp16', 'onnx-fp16', 'openvino-bf16',
            'openvino-fp16', 'optimal', 'pytorch-autocast-bf16', 'pytorch-autocast-fp16', 'tvm-fp16']
# Root mean square of the differences, relative to the largest value, after some twenty ops that each may
# round to 8 bits (bfloat16) or 11 (float16).
LOW_ERROR = {'bfloat16': .15, 'float16': .02}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--seed', type=int, default=31415)
    p.add_argument('--graphs', type=int, default=5 * len(POLICIES))
    p.add_argument('--steps', type=int, default=20)
    p.add_argument('--only', type=int, help='this graph alone')
    p.add_argument('--errors', action='store_true', help='print the error of each graph')
    return p.parse_args()


def low_type(tf, graph):
    """The coarsest type in which the written graph computes; None: none below float32."""
    used = {t.dtype.base_dtype for op in graph.get_operations() for t in op.outputs}
    return next((t for t in (tf.bfloat16, tf.float16) if t in used), None)


def error(got, want):
    import numpy as np
    got, want = got.astype(np.float64), want.astype(np.float64)
    scale = max(np.abs(want).max(initial=0), 1e-3)
    return float(np.abs(got - want).max(initial=0) / scale), float(np.sqrt(np.mean((got - want)**2)) / scale) if got.size else 0.


def differences(name, got, want, low):
    """(error, description of the difference or None)"""
    import numpy as np
    if got.shape != want.shape or got.dtype != want.dtype:
        return 0., f'{name} is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}'
    if low is None:
        e, most = error(got, want)[0], TOLERANCE
    else:
        e, most = error(got, want)[1], LOW_ERROR[low]
    return e, None if e <= most else f'{name} errs by {e:.1e}, more than {most:g}'


def judge(tf, proto, feeds, outputs, policy):
    """(largest error, lower type, list of differences)"""
    import oracle
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, name='')
    with oracle.literal_session(tf, graph) as session:
        want = session.run([oracle.tensor(n) for n in outputs], oracle.feeds(feeds))
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/g.pb', 'wb') as f:
            f.write(proto.SerializeToString())
        try:
            tool('convert', f'{folder}/g.pb', '-o', f'{folder}/c.pb', '--outputs', ','.join(outputs), '-q',
                 *(['--policy', policy] if policy else []))
        except Failed as e:
            return 0., None, [str(e)]
        with Graph(f'{folder}/c.pb') as written:
            low = low_type(tf, written.graph)
            names = {op.name for op in written.graph.get_operations()}
            got = written.run({k: v for k, v in feeds.items() if k in names}, outputs)
    judged = [differences(n, got[n], w, low and low.name) for n, w in zip(outputs, want)]
    return max(e for e, _ in judged), low, [why for _, why in judged if why]


def main():
    a = arguments()
    environment.enter_venv(onednn=False)
    import numpy as np
    import tensorflow as tf
    import generate
    print(f'seed {a.seed}')
    passed = failed = lower = 0
    for i in range(a.graphs) if a.only is None else [a.only]:
        proto, feeds, outputs = generate.graph(tf, np.random.default_rng([a.seed, i]), a.steps)
        policy = POLICIES[i % len(POLICIES)]
        worst, low, wrong = judge(tf, proto, feeds, outputs, policy)
        passed, failed, lower = passed + (not wrong), failed + bool(wrong), lower + (low is not None)
        if a.errors:
            print(f'{i} {policy} {low and low.name} {worst:.1e}', flush=True)
        if wrong:
            print(f'FAIL graph {i} under {policy or "no policy"}: {"; ".join(wrong[:3])}', flush=True)
    print(f'{passed} passed, {failed} failed, {lower} of them with lower types')
    return 1 if failed or not passed or (a.only is None and not lower) else 0


if __name__ == '__main__':
    sys.exit(main())
