"""Batches in parts.

Random graphs of layers whose results keep the batch's rows, sometimes with a layer that mixes them.  Without such a
layer, the parts of a batch must give the bits of a program for one of them, with one, two and three threads; with one,
the batch must stay whole. In both cases the result must be within its errors of TensorFlow in float64, on every target
that this machine runs.
"""
import json
import tempfile

import cases

SEED, CASES = 20265, 6

ERROR = 2e-5  # relative to the largest result, for up to eight layers in float32; measured 2e-6
MIXING = ['reversed', 'mean', 'rows of another', 'constant rows', 'gram', 'turned', 'shifted', 'picked']


def random_case(r):
    layers = [str(i) for i in r.choice(['conv', 'depthwise', 'pool', 'pad', 'resize', 'slice', 'split', 'join', 'blocks',
                                        'relu', 'bias', 'softmax', 'residual', 'scale', 'batch norm', 'merge'],
                                       int(r.integers(1, 6)))]
    if r.random() < .4:
        layers.insert(int(r.integers(len(layers) + 1)), str(r.choice(MIXING)))
    return {'batch': int(r.choice([2, 3, 4, 5, 6])), 'side': int(r.choice([5, 8, 9])), 'channels': int(r.choice([1, 3, 16, 20])),
            'layers': layers, 'head': ['none', 'dense', 'attention', 'squeeze', 'first'][int(r.integers(5))]}


class Layers:
    """The layers of a case, with weights of their own, on a batch of n."""
    def __init__(self, tf, r, case):
        self.tf, self.case, self.seed = tf, case, int(r.integers(1 << 30))

    def constant(self, *shape):
        import numpy as np
        return self.tf.constant(self.r.normal(0, max(1, np.prod(shape[:-1])) ** -.5, shape).astype('float32'), self.type)

    def layer(self, kind, y):
        tf, n, (h, w, c) = self.tf, self.n, y.shape[1:]
        match kind:
            case 'conv':
                return tf.nn.conv2d(y, self.constant(3, 3, c, 24), 1 + h % 2, 'SAME')
            case 'depthwise':
                return tf.nn.depthwise_conv2d(y, self.constant(3, 3, c, 1), [1, 1, 1, 1], 'SAME')
            case 'pool':
                return tf.nn.max_pool2d(y, 2, 1, 'SAME')
            case 'pad':
                return tf.pad(y, [[0, 0], [1, 0], [0, 1], [0, 0]])
            case 'resize':
                return tf.cast(tf.image.resize(y, [2 * h, w]), self.type)
            case 'slice':
                return y[:, h > 1:, ::1, :]
            case 'split':
                return tf.split(y, [1, h - 1], 1)[1] if h > 1 else y
            case 'join':
                return tf.concat([y, tf.nn.relu(y)], -1)
            case 'blocks':
                return tf.nn.space_to_depth(y, 2) if h % 2 == w % 2 == 0 else y
            case 'relu':
                return tf.nn.relu(y)
            case 'bias':
                return tf.nn.bias_add(y, self.constant(c))
            case 'softmax':
                return tf.nn.softmax(y)
            case 'residual':
                return y + tf.nn.relu(y)
            case 'scale':
                return y * tf.reduce_mean(y, [1, 2], keepdims=True)
            case 'batch norm':
                return y * self.constant(1, 1, 1, c) + self.constant(c)
            case 'merge':
                m = tf.matmul(tf.reshape(y, [n * h * w, c]), self.constant(c, 20))
                return tf.reshape(m, [n, h, w, 20])
        return self.mix(kind, y)

    def mix(self, kind, y):
        """A layer that needs other rows than its own, or other constants."""
        tf, n, (h, w, c) = self.tf, self.n, y.shape[1:]
        match kind:
            case 'reversed':
                return y + tf.reverse(y, [0])
            case 'mean':
                return y - tf.reduce_mean(y, 0, keepdims=True)
            case 'rows of another':
                return tf.concat([y[1:], y[:1]], 0)
            case 'constant rows':
                return y + self.constant(n, 1, 1, c)
            case 'gram':
                flat = tf.reshape(y, [n, h * w * c])
                g = tf.matmul(flat, flat, transpose_b=True) / float(h * w * c)
                return tf.reshape(tf.matmul(g, flat), [n, h, w, c])
            case 'turned':
                return tf.reshape(tf.transpose(y, [1, 0, 2, 3]), [n, h, w, c])
            case 'shifted':
                return tf.pad(y, [[1, 0], [0, 0], [0, 0], [0, 0]])[:-1]
            case 'picked':
                return tf.gather(y, [n - 1, *range(n - 1)])

    def head(self, y):
        tf, n, (h, w, c) = self.tf, self.n, y.shape[1:]
        match self.case['head']:
            case 'dense':
                return tf.matmul(tf.reshape(y, [n, h * w * c]), self.constant(h * w * c, 10))
            case 'attention':
                q = tf.transpose(tf.reshape(y, [n, h * w, c, 1]), [0, 2, 1, 3])
                return tf.matmul(tf.nn.softmax(tf.matmul(q, q, transpose_b=True)), q)
            case 'squeeze':
                return tf.argmax(tf.reduce_max(y, [1, 2]), 1) if c > 1 else tf.squeeze(y, 3)
            case 'first':
                return y[:, 0, 0]
        return y

    def __call__(self, x, n, dtype):
        import numpy as np
        self.n, self.type, self.r = n, dtype, np.random.default_rng(self.seed)
        for kind in self.case['layers']:
            x = self.layer(kind, x)
        return self.head(x)


def graph(tf, layers, x, n):
    with tf.Graph().as_default() as g:
        y = layers(tf.compat.v1.placeholder(tf.float32, [n, *x.shape[1:]], 'x'), n, tf.float32)
        tf.identity(y, 'y')
        return g.as_graph_def()


def parts_of(folder, *forced):
    text = cases.tool('bench', f'{folder}/g.pb', *forced, '--format', 'json', '--runs', '1', '--duration', '0', '--warmup', '0')
    return json.loads(text)['parts']


def one_by_one(tf, layers, x, target):
    """The bits of each part by itself."""
    with tempfile.TemporaryDirectory() as folder:
        bits = b''
        for i in range(len(x)):
            cases.given(folder, graph(tf, layers, x, 1), {'x': x[i:i + 1]}, 'float32')
            bits += cases.computed(folder, {'x': x}, 'float32', target=target).tobytes()
    return bits


def check(tf, r, c, targets, folder):
    import numpy as np
    layers, mixes = Layers(tf, r, c), bool(set(c['layers']) & set(MIXING))
    x = r.normal(0, 1, [c['batch'], c['side'], c['side'], c['channels']]).astype('float32').astype('float64')
    exact = layers(tf.constant(x, tf.float64), c['batch'], tf.float64).numpy()
    cases.given(folder, graph(tf, layers, x, c['batch']), {'x': x}, 'float32')
    parts = parts_of(folder, '--batch-method', 'parts')
    if parts != (1 if mixes else c['batch']):
        yield f'{parts} parts'
    for target in targets:
        single = None if mixes else one_by_one(tf, layers, x, target)
        for method, threads in ('whole', 1), ('parts', 1), ('parts', 2), ('parts', 3), ('parts', 7):
            y = cases.computed(folder, {'x': x}, 'float32', target=target, batch_method=method, threads=threads)
            if y.dtype.kind == 'f' and np.abs(y - exact).max(initial=0) > ERROR * max(np.abs(exact).max(initial=0), 1e-3):
                yield f'{target}: {method}, {threads} threads: off by {np.abs(y - exact).max():.2g}'
            if method == 'parts' and not mixes and y.tobytes() != single:
                yield f'{target}: {threads} threads: other bits than one part alone'
