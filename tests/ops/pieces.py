"""Products of float32 in a loop by constant weights, which a matrix unit of bfloat16 computes in pieces.

Random sizes, a state that is multiplied by weights twice; some weights are zero or have few digits.  The error against float64 is
smaller in pieces than in mode enable_float_32_execution, which has none.  Rows with an infinity, a NaN, large or
small numbers have the infinities and NaN that the formula has.  The seed is printed; --seed takes another.
"""
import json

import cases

SEED, CASES = 20271, 9
PLAIN = {'op_select_implmode': 'enable_float_32_execution', 'optypelist_for_implmode': 'MatMul'}
# Root mean square and largest error of a row of results, relative to the root mean square of the row: in pieces, and plain.
PIECES, SUMS = (4e-7, 3e-6), (1.2e-6, 1e-5)


def random_case(r):
    return {'rows': int(r.choice([16, 17, 31, 32, 33, 48, 70])), 'depth': int(r.choice([64, 77, 96, 100, 256, 300])), 'special': r.random() < .4}


def special_rows(np, r, x):
    """One row for each of some numbers, in a place by chance."""
    for row, number in enumerate([np.inf, -np.inf, np.nan, 3.2e38, -1e-30, 0.]):
        x[row] = 0 if abs(number) < 1 else x[row]
        x[row, int(r.integers(x.shape[1]))] = number


def weights_of(np, r, n):
    w = r.normal(0, n ** -.5, (n, n)).astype('f4')
    w[r.random(w.shape) < .02] = 0
    w[r.random(w.shape) < .02] = .5
    return w


def graph_of(tf, np, r, c):
    """GraphDef, feeds, the exact result."""
    times = 1 if c['special'] else 2
    w = weights_of(np, r, c['depth'])
    x = r.normal(0, 1, (c['rows'], c['depth'])).astype('f4')
    if c['special']:
        special_rows(np, r, x)
    with tf.Graph().as_default() as g:
        s = tf.compat.v1.placeholder(tf.float32, x.shape, 'x')
        _, s = tf.while_loop(lambda i, s: i < times, lambda i, s: (i + 1, tf.matmul(s, tf.constant(w))), (tf.constant(0), s))
        tf.identity(s, 'y')
        proto = g.as_graph_def()
    exact = x.astype('f8')
    with np.errstate(all='ignore'):
        for _ in range(times):
            exact = exact @ w.astype('f8')
    return proto, {'x': x}, exact


def wrong(np, y, exact, bounds):
    with np.errstate(all='ignore'):
        narrow = exact.astype('f4')
    if (np.isnan(y) != np.isnan(narrow)).any() or (np.isinf(y) != np.isinf(narrow)).any():
        return 'other infinities or NaN'
    if (np.sign(y[np.isinf(y)]) != np.sign(narrow[np.isinf(y)])).any():
        return 'infinities of another sign'
    for row, of in zip(y.astype('f8'), exact):
        kept = np.isfinite(row)
        scale = np.sqrt(np.mean(of[kept] ** 2)) if kept.any() else 0
        if scale < 1e-38:
            continue
        error = np.abs(row - of)[kept] / scale
        if np.sqrt(np.mean(error ** 2)) > bounds[0] or error.max() > bounds[1]:
            return f'errors {np.sqrt(np.mean(error ** 2)):.2g} (root mean square), {error.max():.2g} (largest)'
    return None


def divides(target):
    facts, = [t for t in json.loads(cases.tool('targets', '--format', 'json'))['targets'] if t['name'] == target]
    return facts['capabilities']['matrix_bf16'] == 2


def check(tf, r, c, targets, folder):
    import numpy as np
    proto, feeds, exact = graph_of(tf, np, r, c)
    cases.given(folder, proto, feeds, np.float32)
    for target in targets:
        modes = [{}] + [PLAIN] * divides(target)
        for mode in modes:
            divided = len(modes) > 1 and not mode
            methods = cases.methods(folder, '--target', target, *(f'--{k}={v}' for k, v in mode.items()))
            if methods.count('pieces') != divided:
                yield f'{target} {mode}: the methods are {methods}'
            problem = wrong(np, cases.computed(folder, feeds, 'float32', target=target, **mode), exact,
                            PIECES if divided else SUMS)
            if problem:
                yield f'{target} {mode}: {problem}'
