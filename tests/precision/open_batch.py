#!/usr/bin/env python3
"""`convert` decides without fixing open dimensions: the graph that it writes runs in TensorFlow at the batches 1,
2 and 7, under every policy, and `run` gives the same bits with it as with the model under the policy.

The models compute shapes in usual ways: Flatten, Reshape to -1, pooling over all pixels, attention with heads, an
initial state of zeros for the batch, Tile, a mean with the number from Shape, clamps and products that clean-ups
recognise.  Sizes are random; the seed is printed.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../models']
import environment
import fusion_table

BATCHES = 1, 2, 7
FULL = 1e-4  # relative to the largest value; LOW if the policy lowers a node
LOW = .1


def convolutional(tf, rng, x):
    channels = int(rng.integers(2, 9)) * 2
    w = rng.standard_normal((3, 3, x.shape[-1], channels)).astype('f')
    x = tf.nn.conv2d(x, w, 2, 'SAME') * .5
    x = tf.minimum(tf.maximum(x, 0.), 6.)
    b = tf.shape(x)[0]
    mean = tf.reduce_mean(x, [1, 2], keepdims=True)
    gate = tf.nn.sigmoid(tf.reshape(tf.reshape(mean, [-1, channels]), [b, 1, 1, channels]))
    x = x * gate
    flat = tf.reshape(x, tf.stack([b, x.shape[1] * x.shape[2] * channels]))
    v = rng.standard_normal((flat.shape[1], 5)).astype('f') / flat.shape[1]
    y = tf.matmul(flat, v)
    return tf.maximum(y, .1 * y) + tf.reshape(mean, [b, -1])[:, :1]


def attention(tf, rng, x):
    heads, depth = 2, int(rng.integers(2, 5)) * 2
    b, h, w, c = tf.shape(x)[0], x.shape[1], x.shape[2], x.shape[3]
    x = tf.reshape(x, [b, h * w, c])

    def split(name):
        y = tf.tensordot(x, rng.standard_normal((c, heads * depth)).astype('f'), 1)
        return tf.transpose(tf.reshape(y, [b, -1, heads, depth]), [0, 2, 1, 3], name=name)
    q, k, v = split('q'), split('k'), split('v')
    p = tf.nn.softmax(tf.matmul(q * .25, k, transpose_b=True))
    y = tf.reshape(tf.transpose(tf.matmul(p, v), [0, 2, 1, 3]), [b, h * w, heads * depth])
    m, s = tf.nn.moments(y, [-1], keepdims=True)
    return (y - m) * tf.math.rsqrt(s + 1e-3)


def recurrent(tf, rng, x):
    b, size = tf.shape(x)[0], int(rng.integers(3, 9))
    rows = tf.unstack(tf.reshape(x, [-1, x.shape[1], x.shape[2] * x.shape[3]]), axis=1)
    w = rng.standard_normal((rows[0].shape[1] + size, size)).astype('f') * .1
    state = tf.fill([b, size], .5)
    for row in rows[:3]:
        state = tf.tanh(tf.matmul(tf.concat([row, state], 1), w))
    start = tf.tile(tf.constant(rng.standard_normal((1, size)).astype('f')), [b, 1])
    return tf.concat([state, tf.squeeze(tf.expand_dims(start, 1), 1)], 1)


def averages(tf, rng, x):
    """Numbers that must not have been computed for a fixed batch."""
    n = tf.cast(tf.shape(x)[0], tf.float32)
    total = tf.reduce_sum(x, 0, keepdims=True) / n
    return tf.maximum(x - total, 0.) + tf.reduce_max(x, 0, keepdims=True)


MODELS = [convolutional, attention, recurrent, averages]
POLICIES = ['', 'must_keep_origin_dtype', 'allow_mix_precision_bf16', 'force_fp16', 'optimal',
            'grappler-bf16', 'keras-fp16', 'onnx-fp16', 'pytorch-autocast-bf16']


def tool(*arguments):
    done = subprocess.run([environment.TOOL, *arguments, '-q'], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f'{" ".join(arguments)}: exit {done.returncode}: {done.stderr[:300]}')
    return done.stdout


def policies():
    if not environment.LONG:
        return POLICIES
    return [''] + [line.split()[0] for line in tool('policies').splitlines() if 'same as' not in line]


def build(tf, make, rng):
    shape = int(rng.integers(4, 9)), int(rng.integers(4, 9)), int(rng.integers(2, 5))
    with tf.Graph().as_default() as g:
        x = tf.compat.v1.placeholder(tf.float32, (None, *shape), 'x')
        tf.identity(make(tf, rng, x), 'y')
    return g.as_graph_def(), [rng.standard_normal((b, *shape)).astype('f') for b in BATCHES]


def evaluated(graph_def, x):
    import oracle
    return oracle.run_graphdef(graph_def, {'x': x}, ['y'])['y']


def ran(folder, graph, x, *more):
    import numpy as np
    np.save(f'{folder}/x.npy', x)
    tool('run', f'{folder}/{graph}', '--input-shape', f'x:{",".join(map(str, x.shape))}', '--input',
         f'x=@{folder}/x.npy', '--outputs', 'y', '-o', f'{folder}/y.npy', *more)
    return np.load(f'{folder}/y.npy')


def check(folder, graph_def, policy, xs, wants):
    import numpy as np
    import oracle
    closed = ['--optimization-switch', ';'.join(f'{f}:off' for f in fusion_table.rounding_once())]
    tool('convert', f'{folder}/g.pb', '--outputs', 'y', '-o', f'{folder}/c.pb',
         *(['--policy', policy, *closed] if policy else []))
    written = oracle.read_graphdef(f'{folder}/c.pb')
    low = any(a.type in (14, 19) for n in written.node for a in n.attr.values())
    runs = oracle.widened(written, oracle.has_kernel) if low else written
    for x, want in zip(xs, wants):
        y = evaluated(runs, x)
        assert y.shape == want.shape and y.dtype == want.dtype, f'{y.dtype}{y.shape}, expected {want.shape}'
        error = oracle.error(y, want)
        assert error <= (LOW if low else FULL), f'errs by {error:.1e} at a batch of {len(x)}'
    # The decisions are those of `run`, for every batch, except for prices, which assume a batch of
    # 1.  The bits are the same, without fusions that round once.
    for x in xs[:1] if policy == 'optimal' else xs[1:]:
        ours, theirs = (ran(folder, g, x, *closed, '--policy', p or 'must_keep_origin_dtype')
                        for g, p in (('g.pb', policy), ('c.pb', '')))
        assert np.array_equal(ours, theirs), f'run gives other bits at a batch of {len(x)}'


def check_stated(folder, tf):
    """A stated batch is written to the graph, which then runs for no other."""
    tool('convert', f'{folder}/g.pb', '--batch', '3', '--policy', 'force_fp16', '-o', f'{folder}/c.pb')
    g = tf.compat.v1.GraphDef()
    with open(f'{folder}/c.pb', 'rb') as f:
        g.ParseFromString(f.read())
    shape, = (n.attr['shape'].shape for n in g.node if n.op == 'Placeholder')
    assert shape.dim[0].size == 3, 'a batch that is stated is not in the graph'
    assert not any(n.op == 'Shape' for n in g.node), 'a stated batch is computed'


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--seed', type=int)
    a = p.parse_args()
    environment.enter_venv(onednn=False)
    import numpy as np
    import oracle
    tf = oracle.tensorflow()
    seed = a.seed if a.seed is not None else int.from_bytes(os.urandom(3), 'little')
    print(f'seed {seed}')
    passed = failed = 0
    for i, make in enumerate(MODELS):
        graph_def, xs = build(tf, make, np.random.default_rng([seed, i]))
        wants = [evaluated(graph_def, x) for x in xs]
        with tempfile.TemporaryDirectory() as folder:
            with open(f'{folder}/g.pb', 'wb') as f:
                f.write(graph_def.SerializeToString())
            for policy in policies():
                try:
                    check(folder, graph_def, policy, xs, wants)
                    passed += 1
                except Exception as e:  # any error of TensorFlow for a bad graph
                    failed += 1
                    print(f'FAIL {make.__name__} {policy or "as imported"}: {type(e).__name__}: {str(e)[:400]}')
            check_stated(folder, tf)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
