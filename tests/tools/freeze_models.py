#!/usr/bin/env python3
"""Freezes benchmark models with fixed random weights to GraphDefs.

usage: freeze_models.py DIR [NAME…]

Writes DIR/NAME.pb and DIR/NAME.json: inputs, outputs, shapes (0 = open batch), dtypes and value ranges
of integer inputs.  The weights are random but the activations are realistic: batch statistics are taken
from a batch, layer scales are near 1, and classifiers end in logits, so the outputs depend on every
layer.  The script checks this: two different inputs must give outputs that differ by at least a tenth of
their largest value.
"""
import json
import os
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np

DEPENDS = .1


def example(shapes, dtypes, ranges, batch, seed):
    """Inputs of a frozen model: integers within their ranges; images with coarse and fine structure,
    since noise alone averages out in the pooling layers."""
    r = np.random.default_rng(seed)
    return [(r.integers(*g, [batch] + s[1:]) if g else image(r, batch, *s[1:])).astype(d)
            for s, d, g in zip(shapes, dtypes, ranges)]


def image(r, batch, height, width, channels):
    tile = -(-height // 8), -(-width // 8)
    coarse = r.normal(0, 1, [batch, 8, 8, channels]).repeat(tile[0], 1).repeat(tile[1], 2)
    return (r.normal(0, 1, [batch, 1, 1, channels]) + coarse[:, :height, :width]
            + .25 * r.normal(0, 1, [batch, height, width, channels]))


def freeze(out, name, fn, specs, shapes, ranges):
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    f = tf.function(fn).get_concrete_function(*specs)
    frozen = convert_variables_to_constants_v2(f)
    check_dependence(name, frozen, shapes, ranges)
    graph = frozen.graph.as_graph_def()
    with open(f'{out}/{name}.pb', 'wb') as file:
        file.write(graph.SerializeToString(deterministic=True))
    with open(f'{out}/{name}.json', 'w') as file:
        json.dump({'inputs': [t.name for t in frozen.inputs],
                   'outputs': [t.name for t in frozen.outputs], 'shapes': shapes,
                   'dtypes': [t.dtype.name for t in frozen.inputs], 'ranges': ranges}, file)
    print(name, len(graph.node), 'nodes', os.path.getsize(f'{out}/{name}.pb'), 'bytes', flush=True)


def check_dependence(name, f, shapes, ranges):
    import tensorflow as tf
    dtypes = [t.dtype.name for t in f.inputs]
    a, b = ([y.numpy() for y in f(*map(tf.constant, example(shapes, dtypes, ranges, 1, seed)))]
            for seed in (1, 2))
    for i, (x, y) in enumerate(zip(a, b)):
        d = np.abs(x - y).max() / np.abs(x).max()
        if not d >= DEPENDS:
            sys.exit(f'{name}: output {i} hardly depends on the input: {d:.1e}')


def application(out, name, cls, size):
    import keras
    import tensorflow as tf
    keras.utils.set_random_seed(1)
    model = getattr(keras.applications, cls)(weights=None, classifier_activation=None)
    randomize(model)
    norms = [l for l in model.layers if isinstance(l, keras.layers.BatchNormalization)]
    for l in norms:
        l.momentum = 0.
    images = image(np.random.default_rng(5), 8, size, size, 3).astype('float32')
    if norms:
        model(images, training=True)
    else:
        centre(model, images[:3])
    freeze(out, name, lambda x: model(x, training=False),
           [tf.TensorSpec([None, size, size, 3], tf.float32)], [[0, size, size, 3]], [None])


def randomize(model):
    """Changes scales and shifts of normalisations and layer scales from their trivial initial values."""
    for l in model.layers:
        kind = type(l).__name__
        for w in l.weights:
            n = w.path.rsplit('/', 1)[-1]
            r = np.random.default_rng(len(w.path) * 131 + int(np.prod(w.shape)))
            if kind == 'LayerScale':
                w.assign(r.uniform(.5, 1., w.shape))
            elif n == 'gamma':
                w.assign(r.uniform(.5, 1.5, w.shape))
            elif n in ('beta', 'bias'):
                w.assign(r.normal(0, .1, w.shape))


def centre(model, images):
    """Without batch norm: biases that give every layer's channels mean zero, so that no constant
    dominates the signal."""
    import keras
    contractions = keras.layers.Conv2D, keras.layers.Dense, keras.layers.DepthwiseConv2D
    for l in model.layers:
        if isinstance(l, contractions) and l is not model.layers[-1]:
            y = keras.Model(model.inputs, l.output)(images, training=False).numpy()
            l.bias.assign_sub(y.mean(axis=tuple(range(y.ndim - 1))))


def bert(out, name, layers=12, hidden=768, heads=12, length=128, vocabulary=30522):
    import tensorflow as tf
    g = tf.random.Generator.from_seed(1)

    def weight(*s): return tf.Variable(g.normal(s, stddev=.04))
    def vector(n, mean): return tf.Variable(g.normal([n], mean=mean, stddev=.1))
    def norm(): return vector(hidden, 1.), vector(hidden, 0.)

    words, positions, segments = weight(vocabulary, hidden), weight(512, hidden), weight(2, hidden)
    first = norm()
    blocks = [dict(q=weight(hidden, hidden), k=weight(hidden, hidden), v=weight(hidden, hidden),
                   o=weight(hidden, hidden), up=weight(hidden, 4 * hidden),
                   down=weight(4 * hidden, hidden),
                   bias=[vector(n, 0.) for n in [hidden] * 4 + [4 * hidden, hidden]],
                   n1=norm(), n2=norm()) for _ in range(layers)]
    pool, pool_bias = weight(hidden, hidden), vector(hidden, 0.)

    def layer_norm(x, p):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, p[1], p[0], 1e-12)

    def gelu(x): return .5 * x * (1. + tf.math.erf(x / np.float32(np.sqrt(2.))))
    def dense(x, w, b): return tf.nn.bias_add(tf.matmul(x, w), b)

    def encoder(ids, mask, segment):
        batch = tf.shape(ids)[0]

        def split(x):
            return tf.transpose(tf.reshape(x, [batch, length, heads, hidden // heads]), [0, 2, 1, 3])

        x = layer_norm(tf.gather(words, ids) + tf.gather(segments, segment) + positions[:length],
                       first)
        masked = (1. - tf.cast(mask[:, None, None, :], tf.float32)) * -10000.
        x = tf.reshape(x, [-1, hidden])
        for p in blocks:
            q, k, v = (split(dense(x, p[n], p['bias'][i])) for i, n in enumerate('qkv'))
            scores = tf.matmul(q, k, transpose_b=True) * np.float32((hidden // heads) ** -.5)
            context = tf.matmul(tf.nn.softmax(scores + masked), v)
            context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, hidden])
            x = layer_norm(x + dense(context, p['o'], p['bias'][3]), p['n1'])
            inner = gelu(dense(x, p['up'], p['bias'][4]))
            x = layer_norm(x + dense(inner, p['down'], p['bias'][5]), p['n2'])
        y = tf.reshape(x, [batch, length, hidden])
        return y, tf.tanh(dense(y[:, 0], pool, pool_bias))

    freeze(out, name, encoder, [tf.TensorSpec([None, length], tf.int32)] * 3, [[0, length]] * 3,
           [[0, vocabulary], [0, 2], [0, 2]])


MODELS = {
    'mobilenetv2': (application, 'MobileNetV2', 224),
    'resnet50': (application, 'ResNet50', 224),
    'efficientnetb0': (application, 'EfficientNetB0', 224),
    'inceptionv3': (application, 'InceptionV3', 299),
    'densenet121': (application, 'DenseNet121', 224),
    'convnext': (application, 'ConvNeXtTiny', 224),
    'bert': (bert,),
}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, names = sys.argv[1], sys.argv[2:] or MODELS
    os.makedirs(out, exist_ok=True)
    for n in names:
        if n not in MODELS:
            sys.exit(f"no model '{n}'; there are {', '.join(MODELS)}")
        make, *args = MODELS[n]
        make(out, n, *args)


if __name__ == '__main__':
    main()
