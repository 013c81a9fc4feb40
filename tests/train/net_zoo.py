"""Nets of nets.py: each is a function of a generator of random numbers, and returns an object with variables, inputs and a step."""
import types
from dataclasses import dataclass

import package
from live import np, tf

keras = package.environment.keras()
L = keras.layers
F32, I32 = tf.float32, tf.int32


@dataclass
class Input:
    """An array for each step; a name in its shape is a size that steps choose, `least` and above."""
    shape: tuple
    dtype: object
    draw: object  # a function of a generator and a shape
    least: int = 1

    def sizes(self):
        return [(s, self.least) for s in self.shape if isinstance(s, str)]


def normal(*shape, least=1):
    return Input(shape, F32, lambda r, s: r.standard_normal(s).astype('f4'), least)


def unit(*shape):
    return Input(shape, F32, lambda r, s: r.random(s).astype('f4'))


def below(k, *shape, least=0):
    return Input(shape, I32, lambda r, s: r.integers(least, k, s).astype('i4'))


class Net(tf.Module):
    """Variables `v` by name, of a shape at random or of a first value; a loss of them and of the inputs; a step of momentum."""

    def __init__(self, r, variables, loss, inputs):
        super().__init__('net')
        self.v = {n: tf.Variable((r.standard_normal(s) * .5).astype('f4') if isinstance(s, tuple) else s, name=n) for n, s in variables.items()}
        self.slots = {n: tf.Variable(tf.zeros_like(x), name=f'{n}_slot') for n, x in self.v.items()}
        self.loss, self.inputs = loss, inputs

    def step(self, *x):
        with tf.GradientTape() as tape:
            loss = self.loss(self.v, *x)
        for n, g in tape.gradient(loss, self.v).items():
            tf.raw_ops.ResourceApplyMomentum(var=self.v[n].handle, accum=self.slots[n].handle, lr=.1, grad=tf.convert_to_tensor(g), momentum=.9)
        return {'loss': loss}


class KerasNet(tf.Module):
    """A model of Keras, a loss of it and of the inputs, and an optimizer of Keras."""

    def __init__(self, r, make, loss, inputs, optimizer=None):
        super().__init__('keras')
        keras.utils.set_random_seed(int(r.integers(1 << 30)))
        self.model, self.loss, self.inputs = make(), loss, inputs
        self.optimizer = optimizer or keras.optimizers.SGD(.1, momentum=.9)
        self.optimizer.build(self.model.trainable_variables)

    def step(self, *x):
        with tf.GradientTape() as tape:
            loss = self.loss(self.model, *x)
        weights = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {'loss': loss}


def layers(shape, *made):
    """A function that makes a model of one layer behind the other."""
    return lambda: keras.Sequential([keras.Input(shape), *(make() for make in made)])


def classified(model, x, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))


def of_some(model, x, y):
    """The loss of the rows whose class is not 0."""
    logits, keep = model(x, training=True), y > 0
    logits, y = tf.boolean_mask(logits, keep), tf.boolean_mask(y, keep)
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)) / (1 + tf.cast(tf.size(y), F32))


def squared(model, *x):
    return tf.reduce_mean(tf.square(model(*x, training=True)))


# ---- speech: connectionist temporal classification ----

STEPS, CLASSES, LABELS = 7, 5, 3


def ctc(r):
    def loss(v, x, y, lengths):
        logits = tf.einsum('btc,cd->btd', tf.tanh(tf.einsum('btc,cd->btd', x, v['w'])), v['u'])
        return tf.reduce_mean(tf.nn.ctc_loss(y, logits, lengths, tf.fill([tf.shape(x)[0]], STEPS), logits_time_major=False, blank_index=0))
    return Net(r, {'w': (4, 6), 'u': (6, CLASSES)}, loss,
               {'x': normal('n', STEPS, 4), 'y': below(CLASSES, 'n', LABELS, least=1), 'lengths': below(LABELS + 1, 'n', least=1)})


def ctc_of_keras(r):
    def loss(v, x, y):
        return tf.reduce_mean(keras.losses.CTC()(y, tf.nn.softmax(tf.einsum('btc,cd->btd', x, v['w']))))
    return Net(r, {'w': (4, CLASSES)}, loss, {'x': normal('n', STEPS, 4), 'y': below(CLASSES, 'n', LABELS, least=1)})


# ---- contrastive losses: every row of the batch is a class ----

def contrastive(r):
    """SimCLR's loss of two views."""
    def loss(v, a, b):
        n = tf.shape(a)[0]
        a, b = (tf.nn.l2_normalize(tf.nn.relu(x @ v['w']) @ v['u'], -1) for x in (a, b))
        same, labels = tf.one_hot(tf.range(n), n) * 1e9, tf.one_hot(tf.range(n), n * 2)
        aa, bb = (tf.matmul(x, x, transpose_b=True) / .5 - same for x in (a, b))
        ab = tf.matmul(a, b, transpose_b=True) / .5
        both = tf.concat([ab, aa], 1), tf.concat([tf.transpose(ab), bb], 1)
        return tf.reduce_mean(sum(tf.nn.softmax_cross_entropy_with_logits(labels, x) for x in both))
    return Net(r, {'w': (5, 8), 'u': (8, 4)}, loss, {'a': normal('n', 5), 'b': normal('n', 5)})


def image_and_text(r):
    """CLIP's loss, with a temperature that is trained."""
    def loss(v, a, b):
        a, b = tf.nn.l2_normalize(a @ v['w'], -1), tf.nn.l2_normalize(b @ v['u'], -1)
        logits, y = tf.exp(v['t']) * tf.matmul(a, b, transpose_b=True), tf.range(tf.shape(a)[0])
        one = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        two = keras.losses.sparse_categorical_crossentropy(y, tf.transpose(logits), from_logits=True)
        return tf.reduce_mean(one + two) / 2
    return Net(r, {'w': (5, 8), 'u': (6, 8), 't': np.float32(.3)}, loss, {'a': normal('n', 5), 'b': normal('n', 6)})


# ---- recurrent nets of any batch and length ----

def gru(r):
    return KerasNet(r, layers((None, 3), lambda: L.GRU(4, return_sequences=True), lambda: L.GRU(5, reset_after=False), lambda: L.Dense(4)), classified,
                    {'x': normal('n', 't', 3), 'y': below(4, 'n')})


def lstm(r):
    return KerasNet(r, layers((None, 3), lambda: L.Bidirectional(L.LSTM(4, return_sequences=True)), lambda: L.LSTM(5), lambda: L.Dense(4)), classified,
                    {'x': normal('n', 't', 3), 'y': below(4, 'n')})


def masked(r):
    return KerasNet(r, layers((None,), lambda: L.Embedding(7, 3, mask_zero=True), lambda: L.LSTM(4, return_sequences=True), lambda: L.GRU(5)), squared,
                    {'x': below(7, 'n', 't')})


def stacked(r):
    return KerasNet(r, layers((5, 3), lambda: L.SimpleRNN(4, return_sequences=True), lambda: L.GRU(5)), squared, {'x': normal('n', 5, 3)})


# ---- images and volumes ----

def upsampled(r):
    return KerasNet(r, layers((4, 4, 2), lambda: L.Conv2D(3, 3, padding='same'), lambda: L.UpSampling2D(2), lambda: L.UpSampling2D(2, interpolation='bilinear'),
                              lambda: L.Conv2D(2, 3, dilation_rate=2), lambda: L.GlobalAveragePooling2D(), lambda: L.Dense(4)), classified,
                    {'x': normal('n', 4, 4, 2), 'y': below(4, 'n')})


def dilated(r):
    return KerasNet(r, layers((9, 9, 2), lambda: L.Conv2D(3, 3, dilation_rate=2, padding='same', activation='relu'), lambda: L.Conv2D(3, 3, dilation_rate=(2, 3)),
                              lambda: L.Conv2D(2, 3, strides=2, padding='same'), lambda: L.Flatten(), lambda: L.Dense(4)), of_some,
                    {'x': normal('n', 9, 9, 2), 'y': below(4, 'n')})


def volumes(r):
    return KerasNet(r, layers((4, 5, 5, 2), lambda: L.Conv3D(3, 3, padding='same', activation='relu'), lambda: L.MaxPool3D(2), lambda: L.BatchNormalization(),
                              lambda: L.Conv3D(2, 2), lambda: L.Flatten(), lambda: L.Dense(4)), classified,
                    {'x': normal('n', 4, 5, 5, 2), 'y': below(4, 'n')})


def volumes_of_some(r):
    return KerasNet(r, layers((4, 5, 5, 2), lambda: L.Conv3D(3, 3, padding='same'), lambda: L.AveragePooling3D(2), lambda: L.Conv3DTranspose(2, 2, strides=2),
                              lambda: L.Flatten(), lambda: L.Dense(4)), of_some, {'x': normal('n', 4, 5, 5, 2), 'y': below(4, 'n')})


def normalised_channels(r):
    def loss(v, x):
        return tf.reduce_mean(tf.square(tf.nn.local_response_normalization(tf.nn.conv2d(x, v['w'], 1, 'SAME'), 2, 1., .3, .75)))
    return Net(r, {'w': (3, 3, 2, 6)}, loss, {'x': normal('n', 5, 5, 2)})


def mirrored(r):
    def loss(v, x):
        h = tf.pad(tf.nn.conv2d(x, v['w'], 1, 'SAME'), [[0, 0], [2, 1], [1, 2], [0, 0]], 'REFLECT')
        return tf.reduce_mean(tf.square(tf.pad(tf.nn.conv2d(h, v['u'], 1, 'VALID'), [[0, 0], [1, 1], [1, 1], [0, 0]], 'SYMMETRIC')))
    return Net(r, {'w': (3, 3, 2, 6), 'u': (3, 3, 6, 2)}, loss, {'x': normal('n', 't', 5, 2, least=3) if r.random() < .5 else normal('n', 5, 5, 2)})


# ---- parts and repetitions ----

def repeated(r):
    """Rows, columns, and rows as often as data say."""
    def loss(v, x, k):
        h = tf.tanh(x @ v['w'])
        return (tf.reduce_mean(tf.repeat(h, 3, axis=0) @ v['u']) + tf.reduce_mean(tf.square(tf.repeat(h, 2, axis=1) @ v['z'])) +
                tf.reduce_sum(tf.square(tf.repeat(h, k, axis=0) @ v['u'])))
    return Net(r, {'w': (4, 4), 'u': (4, 3), 'z': (8, 2)}, loss, {'x': normal('n', 4), 'k': below(4, 'n')})


def every_other(r):
    """Elements that are several places apart, in both directions, also of rows that data choose."""
    def loss(v, x, y):
        h = tf.tanh(x @ v['w'])
        some = tf.boolean_mask(h, y > 0)
        return (tf.reduce_sum(tf.square(h[:, ::2] @ v['u'])) + tf.reduce_sum(tf.square(some[::2])) + tf.reduce_sum(tf.square(h[::3, 1::2])) +
                tf.reduce_sum(tf.sin(some[::-2, ::-1])) + tf.reduce_sum(tf.cos(h[::-1])) + tf.reduce_sum(tf.square(some[1:-1:2, None, 4:0:-3])))
    return Net(r, {'w': (4, 6), 'u': (3, 3)}, loss, {'x': normal('n', 4), 'y': below(3, 'n')})


NETS = {n: f for n, f in list(globals().items()) if isinstance(f, types.FunctionType) and f.__module__ == __name__ and f.__code__.co_varnames[:f.__code__.co_argcount] == ('r',)}
