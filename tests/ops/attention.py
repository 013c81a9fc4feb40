"""Attention in one kernel, and with separate kernels for both products and the Softmax.

Random graphs: products of queries and keys, transposed in each way, scaled, masked, their Softmax, its product with
the values; in each type, or with the Softmax in float32.  Both methods must give the same bits, with one thread and
with two, on every target that this machine runs, within their errors of TensorFlow in float64.
"""
import cases

SEED, CASES = 20265, 20

# Relative to the largest result: two sums, an exponential function and a division; measured 7e-7.
# Scores up to about 5 are rounded before the exponential function, the quotients after it.
ERROR, ROUNDINGS = 3e-6, 8
LEAST_ROWS = 8
ADDENDS = 18  # after each of the three: more operands than a kernel takes


def random_case(r):
    c = random_attention(r)
    if r.random() < .15: # 16-bit types would be rounded too often for the bound
        c |= {'addends': ADDENDS, 'dtype': 'float32'}
    return c


def random_attention(r):
    return {'lead': [[], [int(r.integers(1, 14))], [int(i) for i in r.integers(1, 5, 2)]][int(r.integers(3))],
            'rows': int(r.choice([1, 7, 8, 9, 16, 33, 70, 128])), 'columns': int(r.choice([1, 5, 16, 33, 128, 700])),
            'depth': int(r.choice([1, 8, 15, 64])), 'width': int(r.choice([1, 16, 24, 64, 65])),
            'heads': bool(r.random() < .5), 'transposed': bool(r.random() < .8),
            'mask': ['none', 'columns', 'whole'][int(r.integers(3))], 'wide': bool(r.random() < .3),
            'behind': bool(r.random() < .3), 'taken': bool(r.random() < .1),
            'addends': 0,
            'dtype': ['float32', 'float32', 'bfloat16', 'bfloat16', 'float16'][int(r.integers(5))]}


def layers(tf, r, c):
    """The graph as a function of its inputs and type, and the inputs' shapes."""
    lead, dtype = c['lead'], tf.as_dtype(c['dtype'])
    masks = {'none': [1], 'columns': [1] * len(lead) + [1, c['columns']],
             'whole': [*lead, c['rows'], c['columns']]}
    keys = [c['columns'], c['depth']] if c['transposed'] else [c['depth'], c['columns']]
    order = [*range(len(lead) - 1), len(lead), len(lead) - 1, len(lead) + 1]

    def shape(of):
        """Heads lie side by side in each row, as projections produce them."""
        return [[*lead, *of][i] for i in order] if c['heads'] and lead else [*lead, *of]
    shapes = {'q': shape([c['rows'], c['depth']]), 'k': shape(keys), 'v': shape([c['columns'], c['width']]),
              'm': masks[c['mask']]}
    rows = {'s': c['columns'], 'p': c['columns'], 'y': c['width']}
    shapes |= {f'{of}{i}': [n] for of, n in rows.items() for i in range(c['addends'])}

    def more(x, of, y):
        for i in range(c['addends']):
            y += x[f'{of}{i}']
        return y

    def build(x, as_type):
        q, k, v = (tf.transpose(x[i], order) if c['heads'] and lead else x[i] for i in 'qkv')
        s = tf.matmul(q, k, transpose_b=c['transposed']) * tf.constant(c['depth'] ** -.5, as_type) + x['m']
        s = more(x, 's', s)
        wide = tf.float32 if c['wide'] and as_type.size < 4 else as_type
        p = more(x, 'p', tf.cast(tf.nn.softmax(tf.cast(s, wide)), as_type))
        y = more(x, 'y', tf.matmul(p, v))
        y = tf.nn.relu(y) + tf.constant(1, as_type) if c['behind'] else y
        return y + tf.reduce_sum(p) if c['taken'] else y
    feeds = {i: cases.rounded(r.normal(0, 1, s), dtype) for i, s in shapes.items()}
    return build, feeds


def graph_of(tf, r, c):
    """GraphDef, feeds, and the exact result."""
    build, feeds = layers(tf, r, c)
    dtype = tf.as_dtype(c['dtype'])
    with tf.Graph().as_default() as g:
        y = build({i: tf.compat.v1.placeholder(dtype, x.shape, i) for i, x in feeds.items()}, dtype)
        tf.identity(y, 'y')
        proto = g.as_graph_def()
    return proto, feeds, build({i: tf.constant(x, tf.float64) for i, x in feeds.items()}, tf.float64).numpy()


def wrong(y, exact, dtype):
    import numpy as np
    error = np.abs(y.astype(np.float64) - exact).max() / np.abs(exact).max()
    if not error <= ERROR + ROUNDINGS * cases.ROUNDING[dtype]:
        return f'error {error:.2g}'
    return None


def check(tf, r, c, targets, folder):
    proto, feeds, exact = graph_of(tf, r, c)
    cases.given(folder, proto, feeds, tf.as_dtype(c['dtype']).as_numpy_dtype)
    one = c['rows'] >= LEAST_ROWS and not c['taken'] and not c['addends']
    methods = [m for m in cases.methods(folder, '--block-method', 'rows') if m == 'attention']
    if methods != ['attention'] * one:
        yield f'the methods are {methods}'
    yield from cases.problems_of_blocks(folder, feeds, c['dtype'], targets, lambda y: wrong(y, exact, c['dtype']))
