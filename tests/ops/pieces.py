"""Products of float32 in a loop by constant weights, which a matrix unit of bfloat16 computes in pieces in mode high_performance.

Random sizes, a state that is multiplied by weights twice; some weights are zero or have few digits.  The error against float64 is
smaller in pieces than without the mode.  Rows with an infinity, a NaN, large or small numbers have the infinities and NaN that the formula has.
A layer with an open number of rows is in pieces where a run has many rows: the results of runs of few and of many are right.  The seed is
printed; --seed takes another.
"""
import json

import cases

SEED, CASES = 20271, 9
MODE = {'op_select_implmode': 'high_performance', 'optypelist_for_implmode': 'MatMul'}
# Root mean square and largest error of a row of results, relative to the root mean square of the row: in pieces, and plain.
PIECES, SUMS = (4e-7, 3e-6), (1.2e-6, 1e-5)


def random_case(r):
    return {'rows': int(r.choice([16, 17, 31, 32, 33, 48, 70])), 'depth': int(r.choice([64, 77, 96, 100, 256, 300])), 'special': r.random() < .4,
            'open': r.random() < .3}


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


def layer(tf, np, r, units, steps):
    """GraphDef of a recurrent layer for any number of rows, and its formula."""
    of_x, of_state = weights_of(np, r, units), weights_of(np, r, units)
    with tf.Graph().as_default() as g:
        x = tf.transpose(tf.compat.v1.placeholder(tf.float32, [None, steps, units], 'x'), [1, 0, 2])
        _, s = tf.while_loop(lambda i, s: i < steps,
                             lambda i, s: (i + 1, tf.tanh(tf.matmul(tf.gather(x, i), tf.constant(of_x)) + tf.matmul(s, tf.constant(of_state)))),
                             (tf.constant(0), tf.zeros_like(x[0])))
        tf.identity(s, 'y')
        proto = g.as_graph_def()

    def exact(x):
        s = 0 * x[:, 0]
        for i in range(steps):
            s = np.tanh(x[:, i] @ of_x.astype('f8') + s @ of_state.astype('f8'))
        return s
    return proto, exact


def check_open(tf, r, targets, folder):
    import numpy as np
    units, steps, most = int(r.choice([64, 96, 110])), 3, 40
    proto, exact = layer(tf, np, r, units, steps)
    for rows in [1, 7, 8, *(int(n) for n in r.integers(9, most, 2)), most]:
        x = r.normal(0, 1, (rows, steps, units)).astype('f4')
        cases.given(folder, proto, {'x': x}, np.float32)
        y = cases.computed(folder, {'x': x}, 'float32', target=targets[-1], input_shape=f'x:1..{most},{steps},{units}', **MODE)
        problem = wrong(np, y, exact(x.astype('f8')), SUMS)
        if y.shape != (rows, units) or problem:
            yield f'{targets[-1]}: {rows} rows: {y.shape} {problem}'


def divides(target):
    facts, = [t for t in json.loads(cases.tool('targets', '--format', 'json'))['targets'] if t['name'] == target]
    return facts['capabilities']['matrix_bf16'] == 2


def check(tf, r, c, targets, folder):
    import numpy as np
    if c['open']:
        yield from check_open(tf, r, targets, folder)
        return
    proto, feeds, exact = graph_of(tf, np, r, c)
    cases.given(folder, proto, feeds, np.float32)
    for target in targets:
        for mode in {}, MODE:
            divided = bool(mode) and divides(target)
            methods = cases.methods(folder, '--target', target, *(f'--{k}={v}' for k, v in mode.items()))
            if methods.count('pieces') != divided:
                yield f'{target} {mode}: the methods are {methods}'
            problem = wrong(np, cases.computed(folder, feeds, 'float32', target=target, **mode), exact,
                            PIECES if divided else SUMS)
            if problem:
                yield f'{target} {mode}: {problem}'
