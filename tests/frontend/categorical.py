#!/usr/bin/env python3
"""Classes that are drawn from distributions (Multinomial, StatelessMultinomial; tf.random.categorical): the numbers of live TensorFlow, run
for run of a session, for each dtype, with logits that are not finite, in loops, and for open numbers of rows.

Exit code 77: nothing to test with.
"""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../python']
import package  # noqa: E402,F401
import halftone as ht  # noqa: E402
from live import np, tf  # noqa: E402

raw, v1 = tf.raw_ops, tf.compat.v1
SAMPLES = 0, 1, 2, 4, 5
TYPES = tf.float32, tf.float64, tf.float16, tf.bfloat16
RUNS = 3


def seeded(r):
    return {'seed': int(r.integers(1, 99)), 'seed2': int(r.integers(1, 99))}


def drawn(r, logits):
    """Each dtype and number of samples; the seeds are fed to nothing, so each node has a stream of its own."""
    yield raw.Multinomial(logits=logits, num_samples=3, output_dtype=tf.int32, **seeded(r))
    for t in TYPES:
        x, n = tf.cast(logits, t), int(r.choice(SAMPLES))
        yield raw.Multinomial(logits=x, num_samples=n, **seeded(r))
        yield raw.StatelessMultinomial(logits=x, num_samples=n, seed=r.integers(-9, 9, 2), output_dtype=tf.int32)
    for n in SAMPLES:
        yield raw.Multinomial(logits=logits, num_samples=n, **seeded(r))
        yield raw.StatelessMultinomial(logits=logits, num_samples=n, seed=r.integers(0, 9, 2).astype('i4'))


def sampled(r, logits):
    """A loop that draws a class of each row from what the last one leaves, with a stream and with seeds that count."""
    seeds = seeded(r)

    def body(i, x, out):
        a = raw.Multinomial(logits=x, num_samples=1, output_dtype=tf.int32, **seeds)
        b = raw.StatelessMultinomial(logits=x, num_samples=1, seed=tf.stack([i, 7]), output_dtype=tf.int32)
        return i + 1, x - tf.one_hot(a[:, 0], 6) * 2 + tf.one_hot(b[:, 0], 6), out + a * 10 + b
    return v1.while_loop(lambda i, *_: i < 4, body, (0, logits, tf.zeros_like(logits[:, :1], tf.int32)))[1:]


def graph_of(make, r, rows):
    """A graph as users of TensorFlow 1 write it, with its input and outputs."""
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [rows, 6], name='x')
        outputs = [tf.identity(y, name=f'y{i}') for i, y in enumerate(make(r, x))]
    return graph, x, outputs


def logits_of(r, rows):
    x = r.normal(0, 2, [rows, 6]).astype('f4')
    x[0, r.integers(6)] = r.choice([-np.inf, np.inf, np.nan])
    return x


def check(name, make, seed, rows, is_open, folder):
    r = np.random.default_rng(seed)
    v1.disable_control_flow_v2() if r.random() < .5 else v1.enable_control_flow_v2()
    graph, x, outputs = graph_of(make, r, None if is_open else rows)
    with open(f'{folder}/m.pb', 'wb') as f:
        f.write(graph.as_graph_def().SerializeToString())
    names = [y.op.name for y in outputs]
    model = ht.load(f'{folder}/m.pb', outputs=names)
    if is_open:  # a stream goes on by as many numbers as there can be, so these are as many as there are
        model = model.with_(shapes={'x': (f'1..{rows}', 6)})
    context = model.compile(cache='off').context(threads=int(r.integers(1, 3)))
    with v1.Session(graph=graph) as s:
        for run in range(RUNS):
            feed = logits_of(r, rows)
            want = s.run(outputs, {x: feed})
            got = context.run(x=feed)
            for n, w in zip(names, want, strict=True):
                g = got[n]
                same = np.array_equal(g, w) if w.dtype.kind == 'i' else np.allclose(g, w, 1e-5, 1e-5, equal_nan=True)
                if g.dtype != w.dtype or g.shape != w.shape or not same:
                    sys.exit(f'{name}, seed {seed}, {rows} rows, open: {is_open}, run {run}: {n} is {g}, not {w}')


def main():
    seed = int.from_bytes(os.urandom(4), 'little')
    print(f'seed {seed}')
    with tempfile.TemporaryDirectory() as folder:
        for make in drawn, sampled:
            for is_open in False, True:
                for i, rows in enumerate((1, 3)):
                    check(make.__name__, make, [seed, i], rows, is_open, folder)


main()
