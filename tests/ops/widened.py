"""Products of 16-bit numbers: in float32, with weights and rows that tiles widen, or in short runs of float16.

Random products with so many weights that these stay in 16 bits in memory: of matrices, of a batch of matrices, 1 x 1
and 3 x 3 convolutions, also in groups; their rows are inputs, or results of another kernel.  Products of float16 are
also made in mode high_performance, which sums short runs of them in float16 on machines with instructions for that, and
mode keep_fp16 gives the same bits.  One thread and two must give the same bits, on every target that this machine runs
and with its own description, within their errors of TensorFlow in float64.
"""
import cases

SEED, CASES = 20265, 12

ROUNDINGS = 1.1
SHORT_RUN_ROUNDINGS = 3  # docs/contraction-numerics.md
SHORT_RUNS = {'op_select_implmode': 'high_performance', 'optypelist_for_implmode': 'MatMul,BatchMatMulV2,Conv2D'}
KEPT = '[ByOpType]\nMatMul = keep_fp16\nBatchMatMulV2 = keep_fp16\nConv2D = keep_fp16\n'
MOST_KEPT = 131072  # up to so many weights are widened when they are packed


def random_case(r):
    kind = ['matmul', 'batch', 'conv', 'groups'][int(r.integers(4))]
    size = int(r.choice([1, 1, 3])) if kind in ('conv', 'groups') else 1
    depth = int(r.choice([130, 257, 512, 1030])) // size
    least = MOST_KEPT // (depth * size * size) + 1
    return {'kind': kind, 'size': size, 'depth': depth, 'columns': int(least + r.integers(0, 80)),
            'rows': int(r.choice([3, 31, 32, 49, 100, 300])), 'stride': int(r.choice([1, 1, 2])),
            'before': bool(r.integers(2)), 'dtype': ['bfloat16', 'float16'][int(r.integers(2))]}


def shapes(c):
    """The shapes of the operand and of the weights."""
    if c['kind'] == 'matmul':
        return [c['rows'], c['depth']], [c['depth'], c['columns']]
    if c['kind'] == 'batch':
        return [2, c['rows'], c['depth']], [2, c['depth'], c['columns']]
    side, groups = int(c['rows'] ** .5) + 2, 2 if c['kind'] == 'groups' else 1
    return [1, side, side + 1, c['depth'] * groups], [c['size'], c['size'], c['depth'], c['columns'] * groups]


def product(tf, c, x, w):
    if c['kind'] in ('conv', 'groups'):
        return tf.nn.conv2d(x, w, c['stride'], 'SAME')
    return x @ w


def exact_product(tf, c, x, w):
    if c['kind'] != 'groups':
        return product(tf, c, x, w)
    return tf.concat([tf.nn.conv2d(a, b, c['stride'], 'SAME')
                      for a, b in zip(tf.split(x, 2, 3), tf.split(w, 2, 3))], 3)


def check(tf, r, c, targets, folder):
    dtype = tf.as_dtype(c['dtype'])
    x, w = (cases.rounded(r.normal(0, 1, s), dtype) for s in shapes(c))
    w = cases.rounded(w / (c['depth'] ** .5 * c['size']), dtype)
    bias = cases.rounded(r.normal(0, 1, w.shape[-1]), dtype)

    def build(make, x, t):
        if c['before']:
            x = tf.nn.relu(x - tf.constant(.5, t))
        return tf.nn.relu(make(tf, c, x, tf.constant(w, t)) + tf.constant(bias, t))
    with tf.Graph().as_default() as g:
        tf.identity(build(product, tf.compat.v1.placeholder(dtype, x.shape, 'x'), dtype), 'y')
        proto = g.as_graph_def()
    cases.given(folder, proto, {'x': x}, dtype.as_numpy_dtype)
    with open(f'{folder}/kept.ini', 'w') as f:
        f.write(KEPT)
    before = cases.rounded(x - .5, dtype) + .5 if c['before'] else x  # rounded as the graph rounds it
    exact = build(exact_product, tf.constant(before, tf.float64), tf.float64).numpy()
    for target in [*targets, 'host']:
        for mode, roundings in ({}, ROUNDINGS), (SHORT_RUNS, SHORT_RUN_ROUNDINGS):
            if mode and c['dtype'] != 'float16':
                continue
            one, two = (cases.computed(folder, {'x': x}, c['dtype'], target=target, threads=n, **mode) for n in (1, 2))
            problem = cases.error_of_block(one, exact, c['dtype'], roundings)
            if problem:
                yield f'{target}: {problem} {mode}'
            if cases.stored(one).tobytes() != cases.stored(two).tobytes():
                yield f'{target}: other bits by two threads {mode}'
            if mode and cases.stored(one).tobytes() != cases.stored(cases.computed(
                    folder, {'x': x}, c['dtype'], target=target, op_precision_mode=f'{folder}/kept.ini')).tobytes():
                yield f'{target}: other bits by keep_fp16'
