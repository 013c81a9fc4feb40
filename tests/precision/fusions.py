#!/usr/bin/env python3
"""Named fusions against TensorFlow: each graph gives TensorFlow's results with all of them on, and with one of them
off, within its bound; switching it off changes the graph or the number of kernels, the report and
fusion_result.json.  The seed is printed."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
SEED = int(os.environ.get('HALFTONE_SEED', '20261121'))
R = np.random.RandomState(SEED)
EXACT = 0


def const(*shape, low=-1., high=1.):
    return tf.constant(R.uniform(low, high, shape).astype(np.float32))


def gelu_tanh(x):
    return .5 * x * (1 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + .044715 * tf.pow(x, 3))))


def gelu_erf(x):
    return .5 * x * (1 + tf.math.erf(x / np.float32(np.sqrt(2))))


def moments(x):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    return mean, tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)


def layer_norm_rsqrt(x):
    mean, variance = moments(x)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * const(16) + const(16)


def layer_norm_inference(x):
    mean, variance = moments(x)
    k = tf.math.rsqrt(variance + 1e-5) * const(16)
    return x * k + (const(16) - mean * k)


def layer_norm_onnx(x):
    d = x - tf.reduce_mean(x, -1, keepdims=True)
    return d / tf.sqrt(tf.reduce_mean(tf.square(d), -1, keepdims=True) + 1e-5) * const(16) + const(16)


def layer_norm_onnx_mul(x):
    d = x - tf.reduce_mean(x, -1, keepdims=True)
    return d / tf.sqrt(tf.reduce_mean(d * d, -1, keepdims=True) + 1e-5) * const(16) + const(16)


def scope_layer_norm(x):
    with tf1.name_scope('norm'):
        with tf1.name_scope('moments'):
            mean, variance = moments(x)
        return tf.nn.batch_normalization(x, mean, variance, const(16), const(16), 1e-5)


def rms_norm(x):
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-5) * const(16)


def below_max(x):
    return x - tf.reduce_max(x, -1, keepdims=True)


def softmax(x):
    e = tf.exp(below_max(10 * x))
    return e / tf.reduce_sum(e, -1, keepdims=True)


def log_softmax(x):
    d = below_max(10 * x)
    return d - tf.math.log(tf.reduce_sum(tf.exp(d), -1, keepdims=True))


def recurrent(x):
    w, u = const(16, 8), const(8, 8)
    return tf.scan(lambda h, e: tf.tanh(tf.reshape(e, [1, 16]) @ w + h @ u), x, initializer=tf.zeros([1, 8]))


def by_steps(x):
    """A loop over the second axis, whose first one has the rows."""
    rows, u = tf.reshape(x, [3, 4, 16]), const(16, 16)
    return tf.scan(lambda h, e: tf.tanh(e + h @ u), tf.transpose(rows, [1, 0, 2]), initializer=tf.zeros([3, 16]))


def any_rows(x):
    """A loop over steps of an open number of rows."""
    w, u = const(32, 8), const(8, 8)
    steps = tf.stack([tf.tile(x * k, [1, 2]) for k in (1., .5, .25)])
    return tf.scan(lambda h, e: tf.tanh(e @ w + h @ u), steps, initializer=tf.zeros([tf.shape(x)[0], 8]))


def image(x):
    return tf.reshape(x, [1, 4, 3, 16])


def gates(x):
    """A loop with four convolutions of one tensor.  Larger weights would make the state grow, and its elements near zero all rounding."""
    w = [const(3, 3, 16, 16, low=-.1, high=.1) for _ in range(4)]

    def step(i, h):
        a, b, c, d = (tf.nn.conv2d(h, f, 1, 'SAME') for f in w)
        return i + 1, tf.sigmoid(a) * tf.tanh(b) + tf.sigmoid(c) * d
    return tf.while_loop(lambda i, _: i < 3, step, (0, image(x)))[1]


def masked(x):
    """A loop that keeps the state where the mask excludes a step."""
    rows, counts = tf.TensorArray(tf.float32, 12).unstack(x), tf.TensorArray(tf.bool, 12).unstack(x[:, :1] > 0)
    return tf.while_loop(lambda i, _: i < 12, lambda i, h: (i + 1, tf.where(counts.read(i), tf.tanh(h + rows.read(i)), h)),
                         (0, tf.zeros(16)))[1]


def narrow_state(x):
    """A loop whose state each step casts to bfloat16 first and back last."""
    rows = tf.TensorArray(tf.float32, 12).unstack(x)

    def step(i, h):
        return i + 1, tf.cast(tf.maximum(tf.cast(h, tf.bfloat16) * .5, tf.cast(rows.read(i), tf.bfloat16)), tf.float32)
    return tf.while_loop(lambda i, _: i < 12, step, (0, tf.zeros(16)))[1]


def sums(x):
    """A loop that adds up products of its steps' rows, as the gradient of a recurrent layer's weights is."""
    rows = tf.TensorArray(tf.float32, 12).unstack(x)

    def step(i, h, s):
        e = tf.reshape(rows.read(i), [1, 16])
        h = tf.tanh(h + e)
        return i + 1, h, s + tf.matmul(e, h, transpose_a=True)
    return tf.while_loop(lambda i, *_: i < 12, step, (0, tf.zeros([1, 16]), tf.ones([16, 16])))[2]


def tables(x):
    """A loop that multiplies rows of a constant table, which the first numbers of each step's row choose."""
    words = tf.cast(tf.abs(x[:, :5]) * 4, tf.int32)
    rows, w = tf.TensorArray(tf.float32, 12).unstack(tf.gather(const(24, 16), words)), const(16, 16)
    return tf.while_loop(lambda i, _: i < 12, lambda i, h: (i + 1, tf.tanh(h + rows.read(i) @ w)), (0, tf.zeros([5, 16])))[1]


def low_tables(x):
    """The same, with a product of the state that each step adds."""
    words = tf.cast(tf.abs(x[:, :5]) * 4, tf.int32)
    rows, w, u = tf.TensorArray(tf.float32, 12).unstack(tf.gather(const(24, 16), words)), const(16, 16), const(16, 16)
    return tf.while_loop(lambda i, _: i < 12, lambda i, h: (i + 1, tf.tanh(rows.read(i) @ w + h @ u)), (0, tf.zeros([5, 16])))[1]


def terms(x):
    """A loop that adds convolutions of two states: whole, and part by part."""
    u, v = ([const(3, 3, 16, n, low=-.1, high=.1) for n in (48, 32)] for _ in range(2))
    bias = const(16)

    def step(i, h, s):
        p, q = (tf.split(tf.nn.conv2d(y, w[0], 1, 'SAME'), 3, -1) for y, w in ((h, u), (s, v)))
        a, b, c = (tf.nn.bias_add(y, bias) + z for y, z in zip(p, q))
        d = tf.nn.conv2d(s, u[1], 2, 'SAME') + (tf.nn.conv2d(h, v[1], 2, 'SAME') + const(32))
        return i + 1, tf.sigmoid(a) * tf.tanh(b), tf.tanh(c) + tf.reduce_mean(tf.sin(d))
    return tf.while_loop(lambda i, *_: i < 3, step, (0, image(x), image(x) * .5))[2]


def conv(x, padding='SAME'):
    return tf.nn.conv2d(x, const(3, 3, 16, 8), 1, padding)


def depthwise(x, padding='SAME'):
    return tf.nn.depthwise_conv2d(x, const(3, 3, 16, 1), [1, 1, 1, 1], padding)


def conv_batch_norm(x):
    y, _, _ = tf1.nn.fused_batch_norm(conv(image(x)), const(8), const(8), mean=const(8), variance=const(8, low=.5, high=2),
                                      is_training=False)
    return y


def attention(x):
    q, k, v = (tf.transpose(tf.reshape(x @ const(16, 16), [3, 4, 2, 8]), [0, 2, 1, 3]) for _ in range(3))
    scores = tf.matmul(q, k, transpose_b=True) * .3 + const(1, 1, 4, 4)
    return tf.matmul(tf.nn.softmax(scores), v)


def split_concat(x):
    a, b = tf.split(tf.tanh(x), 2, -1)
    return tf.exp(tf.concat([a, b], -1))


def pad(x):
    return tf.pad(image(x), [[0, 0], [1, 1], [2, 1], [0, 0]])


def dilate(x):
    cut = tf.space_to_batch(tf.pad(image(x), [[0, 0], [0, 0], [0, 1], [0, 0]]), [2, 2], [[2, 2], [2, 2]])
    return tf.batch_to_space(conv(cut, 'VALID'), [2, 2], [[0, 0], [0, 0]])


# The graph, its bound relative to the largest of |result| and 1, and the op that it has if the
# fusion is on, or '-OP' if it is off; None: fewer kernels, or fewer nodes.
CASES = {
    'add_bias': (lambda x: x @ const(16, 8) + const(8) + const(8), 1e-6, '-AddV2'),
    'attention': (attention, 1e-6, None),
    'bias_conv': (lambda x: tf.nn.bias_add(conv(image(x)), const(8)), 4e-6, None),
    'bias_matmul': (lambda x: tf.nn.bias_add(x @ const(16, 8), const(8)), 2e-6, None),
    'batch_matmul_elementwise': (lambda x: tf.tanh(tf.matmul(tf.reshape(x, [3, 4, 16]), const(3, 16, 5))), 2e-6, None),
    'casts': (lambda x: tf.cast(tf.cast(tf.cast(tf.cast(x, tf.float16), tf.float32), tf.float64), tf.float32), EXACT, None),
    'concat_nested': (lambda x: tf.concat([x, tf.concat([x, tf.abs(x)], -1)], -1), EXACT, None),
    'conv_batch_norm': (conv_batch_norm, 1e-5, None),
    'conv_elementwise': (lambda x: tf.nn.relu(conv(image(x))), 4e-6, None),
    'depthwise_elementwise': (lambda x: tf.tanh(depthwise(image(x))), 2e-6, None),
    'dilate': (dilate, 4e-6, '-SpaceToBatchND'),
    'elementwise': (lambda x: tf.exp(tf.tanh(x)), 4e-7, None),
    'gelu_erf': (gelu_erf, 4e-7, 'Gelu'),
    'gelu_tanh': (gelu_tanh, 4e-7, 'Gelu'),
    'hard_sigmoid': (lambda x: tf.nn.relu6(9 * x + 3) / 6, 4e-7, 'HardSigmoid'),
    'hard_swish': (lambda x: x * tf.nn.relu6(x + 3) / 6, 4e-7, 'HardSwish'),
    'layer_norm_inference': (layer_norm_inference, 4e-6, 'LayerNorm'),
    'layer_norm_onnx': (layer_norm_onnx, 4e-6, 'LayerNorm'),
    'layer_norm_onnx_mul': (layer_norm_onnx_mul, 4e-6, 'LayerNorm'),
    'layer_norm_rsqrt': (layer_norm_rsqrt, 4e-6, 'LayerNorm'),
    'leaky_relu': (lambda x: tf.maximum(x, .125 * x), EXACT, 'LeakyRelu'),
    'log_softmax': (log_softmax, 4e-7, 'LogSoftmax'),
    'matmul_cast': (lambda x: tf.cast(tf.cast(x, tf.float16) @ tf.cast(const(16, 8), tf.float16), tf.float32), 1e-3, None),
    'matmul_elementwise': (lambda x: tf.tanh(x @ const(16, 8)), 2e-6, None),
    'matmul_scale': (lambda x: tf.matmul(tf.reshape(x, [4, 3, 16]) * .25, const(4, 16, 2)), 1e-6, None),
    'matmul_transpose': (lambda x: tf.matmul(tf.transpose(x), const(12, 5)), 2e-6, '-Transpose'),
    'pad_conv': (lambda x: conv(pad(x), 'VALID'), 4e-6, '-Pad'),
    'pad_depthwise': (lambda x: depthwise(pad(x), 'VALID'), 2e-6, '-Pad'),
    'pad_max_pool': (lambda x: tf.nn.max_pool2d(tf.pad(tf.nn.relu(image(x)), [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, 'VALID'),
                     EXACT, '-Pad'),
    'reduce_elementwise': (lambda x: tf.reduce_sum(tf.tanh(x), -1), 1e-6, None),
    'residual': (lambda x: x @ const(16, 16) + x, 2e-6, None),
    'rms_norm': (rms_norm, 4e-6, 'RmsNorm'),
    'scale_weights': (lambda x: conv(image(x)) * const(8), 4e-6, None),
    'scope_layer_norm': (scope_layer_norm, 4e-6, 'LayerNorm'),
    'softmax': (softmax, 4e-7, 'Softmax'),
    'softmax_elementwise': (lambda x: tf.nn.softmax(tf.tanh(x) * 3), 4e-7, None),
    'split_concat': (split_concat, 4e-7, '-Split'),
    'square': (lambda x: x * x, EXACT, 'Square'),
    'swish': (lambda x: x * tf.sigmoid(x), 4e-7, 'Silu'),
    'recurrent_end': (masked, 1e-6, 'Maximum'),
    'recurrent_gates': (gates, 4e-7, None),
    'recurrent_inputs': (recurrent, 1e-6, 'MatMul'),
    'recurrent_lists': (by_steps, 1e-6, '-Transpose'),
    'recurrent_rows': (any_rows, 1e-6, 'If'),
    'recurrent_states': (narrow_state, EXACT, 'Cast'),
    'recurrent_sums': (sums, 2e-6, 'MatMul'),
    'recurrent_tables': (tables, 1e-6, '-MatMul'),
    'recurrent_terms': (terms, 2e-6, 'ConcatV2'),
    'window_elementwise': (lambda x: tf.tanh(tf.nn.avg_pool2d(image(x), 2, 1, 'VALID')), 4e-7, None),
}
# Fusions that would replace a fusion that is off.
BESIDE = {name: 'scope_layer_norm' for name in CASES if name.startswith('layer_norm')}
BESIDE |= {'scope_layer_norm': 'layer_norm', 'add_bias': 'bias_matmul', 'hard_swish': 'hard_sigmoid'}

# Cases of which the first dimension is open.
OPEN = {'recurrent_rows': ['--input-shape', 'x:1..12,16']}
# Cases whose op is in the body of a loop.
INSIDE = {'recurrent_terms'}

# Fusions of training graphs: optimizers.py tests the first two, since only TensorFlow runs these graphs, and tests/cli/test_overflow.py the last.
ELSEWHERE = {'adam', 'momentum', 'finite'}


class Fusions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.x = R.standard_normal((12, 16)).astype(np.float32)
        np.save(cls.path('x.npy'), cls.x)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def tool(self, *args):
        r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=environment.HANGS)
        self.assertEqual(r.returncode, 0, (args, r.stderr))
        return r

    def model(self, name, make):
        """Writes the graph, and returns TensorFlow's results."""
        graph = tf.Graph()
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [None if name in OPEN else 12, 16], 'x')
            tf.identity(make(x), 'y')
            with tf1.Session(graph=graph) as s:
                want = s.run('y:0', {x: self.x})
        path = self.path(name + '.pb')
        with open(path, 'wb') as f:
            f.write(graph.as_graph_def().SerializeToString())
        return path, want

    def outcome(self, name, model, switches):
        """Outputs, ops, number of kernels, the report of the fusion, and its part of the result log."""
        options = ['--fusion_switch_file', switches, '--outputs', 'y', *OPEN.get(name, [])]
        self.tool('run', *options, '--input', f'x=@{self.path("x.npy")}', '-o', self.path('y.npy'), model)
        log = self.path('result.json')
        steps = json.loads(self.tool('compile', '--format=json', *options, '--fusion-result', log, model).stdout)['steps']
        graph = self.tool('compile', *options, '--emit=hir', '-o', '-', model).stdout
        lines = [line.strip() if name in INSIDE else line for line in graph.split('\n')]
        ops = [line.split(' = ')[1].split('(')[0] for line in lines if line.startswith('%')]
        report = json.loads(self.tool('explain', '--format=json', *options, model).stdout)
        state = next(f for f in report['fusion_results'] if f['name'] == name)
        with open(log) as f:
            logged = json.load(f)['session_and_graph_id_0_0']
        return np.load(self.path('y.npy')), ops, steps, state, {**logged['graph_fusion'], **logged['ub_fusion']}

    def check(self, name, make, bound, op):
        model, want = self.model(name, make)
        lines = [f'{BESIDE[name]}:off'] if name in BESIDE else []
        files = {}
        for state in 'on', 'off':
            files[state] = self.path(f'{name}.{state}')
            with open(files[state], 'w') as f:
                f.write('\n'.join(lines + [f'{name}:{state}']) + '\n')
        on, off = (self.outcome(name, model, files[s]) for s in ('on', 'off'))
        for y, *_ in on, off:
            error = np.max(np.abs(y - want) / np.maximum(1, np.abs(want)))
            self.assertLessEqual(error, bound)
            self.assertEqual(y.shape, want.shape)
        if op is None:
            self.assertTrue(on[2] < off[2] or len(on[1]) < len(off[1]), (on[2], off[2], on[1], off[1]))
        else:
            self.assertEqual(op.lstrip('-') in on[1], not op.startswith('-'), on[1])
            self.assertEqual(op.lstrip('-') in off[1], op.startswith('-'), off[1])
        self.assertEqual(on[3]['state'], 'on')
        self.assertGreater(on[3]['effects'], 0)
        self.assertIn(f"'{name}' is off", off[3]['state'])
        self.assertEqual(off[3]['effects'], 0)
        gone = set(on[4]) - set(off[4])
        self.assertEqual(len(gone), 1, gone)
        self.assertEqual(on[4][gone.pop()]['effect_times'], str(on[3]['effects']))

    def test_products_of_tables_in_16_bits(self):
        """Of the two products that are added, one is rounded, with the fusion and without it."""
        model, want = self.model('low_tables', low_tables)
        for policy in 'allow_mix_precision_bf16', 'allow_mix_precision_fp16':
            with self.subTest(policy):
                results = {}
                for state, products in ('on', 1), ('off', 2):
                    with open(self.path('switch'), 'w') as f:
                        f.write(f'recurrent_tables:{state}\nrecurrent_inputs:off\n')
                    options = ['--policy', policy, '--fusion_switch_file', self.path('switch'), '--outputs', 'y']
                    hir = self.tool('compile', *options, '--emit=hir', '-o', '-', model).stdout
                    self.assertEqual(hir.count(' = MatMul('), products)
                    self.tool('run', *options, '--input', f'x=@{self.path("x.npy")}', '-o', self.path('y.npy'), model)
                    results[state] = np.load(self.path('y.npy'))
                error = {state: np.abs(y - want) for state, y in results.items()}
                self.assertLess(error['on'].max(), .15)
                self.assertLess(error['on'].mean(), 2 * error['off'].mean())

    def test_every_fusion_has_a_case(self):
        listed = json.loads(self.tool('fusions', '--format=json').stdout)['fusions']
        self.assertEqual({f['name'] for f in listed if f['kind'] != 'engine'}, set(CASES) | ELSEWHERE)


def add_case(name, case):
    setattr(Fusions, 'test_' + name, lambda self: self.check(name, *case))


for name, case in CASES.items():
    add_case(name, case)

if __name__ == '__main__':
    print(f'seed {SEED}')
    unittest.main()
