"""Models of live TensorFlow whose inputs have sizes that may be open, against TensorFlow: with none, some or all elements selected."""
import argparse
import os
import sys
import tempfile

import environment
from live import check_stops, close, freeze, np, run, tf, tool

MOST = {'n': 9, 'm': 7}  # the sizes that texts in shapes stand for


def numbers(*shape):
    return 'f4', shape, None


def whole(*shape, below=9, t='i8'):
    return t, shape, below


def feeds_of(r, inputs, share):
    sizes = {s: int(r.integers(1, most + 1)) for s, most in MOST.items()}
    feeds = {}
    for name, (t, shape, below) in inputs.items():
        real = [sizes.get(s, s) for s in shape]
        if below:
            feeds[name] = r.integers(0, below if share else 1, real).astype(t)
        else:
            feeds[name] = np.where(r.random(real) < share, r.uniform(.6, 2, real), r.uniform(-2, .4, real)).astype(t)
    return feeds


def check(f, inputs, r, folder, is_open):
    feeds = feeds_of(r, inputs, .5)
    shapes = {n: [None if is_open and isinstance(s, str) else k for s, k in zip(inputs[n][1], x.shape)] for n, x in feeds.items()}
    frozen = freeze(f, [tf.TensorSpec(shapes[n], x.dtype, name=n) for n, x in feeds.items()], f'{folder}/m.pb')
    outputs = [t.name.removesuffix(':0') for t in frozen.outputs]
    stated = [o for n, s in shapes.items() if None in s for o in ('--input-shape', f'{n}:{",".join("1..9" if k is None else str(k) for k in s)}')]
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', ','.join(outputs), *stated)
    for share in (.5, 0, 1):
        if share != .5:
            more = feeds_of(r, inputs, share)
            feeds = more if is_open else {n: np.resize(more[n], x.shape) for n, x in feeds.items()}
        try:
            want = [t.numpy() for t in tf.nest.flatten(frozen(*map(tf.constant, feeds.values())))]
        except tf.errors.InvalidArgumentError:
            check_stops(f.__name__, folder, f'{folder}/m.htx', feeds)
            continue
        for o, g, w in zip(outputs, run(folder, f'{folder}/m.htx', feeds, outputs), want, strict=True):
            finite = np.isfinite(w) if w.dtype.kind == 'f' else np.ones(w.shape, bool)
            if g.shape != w.shape or not np.array_equal(g[~finite], w[~finite], equal_nan=True) or \
                    not close(np.where(finite, g, 0).astype(g.dtype), np.where(finite, w, 0).astype(w.dtype), 1e-5):
                sys.exit(f'{f.__name__}, {"open" if is_open else "fixed"}, {share}: {o} is {g!r}, not {w!r}, of {feeds}')


def main(doc, models, others=()):
    """`models`: functions with their inputs, by name; `others` are called with a folder."""
    p = argparse.ArgumentParser(description=doc)
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('name', nargs='*', help=', '.join(f.__name__ for f in models))
    a = p.parse_args()
    print('seed', a.seed, flush=True)
    chosen = [(f, is_open) for f in models for is_open in (False, True) if not a.name or f.__name__ in a.name]
    for f, is_open in chosen if a.name else environment.share(chosen, a.seed):
        with tempfile.TemporaryDirectory() as folder:
            check(f, models[f], np.random.default_rng([a.seed, list(models).index(f), is_open]), folder, is_open)
    for other in () if a.name else others:
        with tempfile.TemporaryDirectory() as folder:
            other(folder)
    print('ok')
