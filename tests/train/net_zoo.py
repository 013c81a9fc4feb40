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


def ctc_of_sparse_labels(r):
    """TensorFlow 1's loss; sequences have several lengths, and the least may be as long as its labels need."""
    def loss(v, x, y, counts, more):
        logits = tf.einsum('btc,cd->btd', tf.tanh(tf.einsum('btc,cd->btd', x, v['w'])), v['u'])
        at = tf.where(tf.sequence_mask(counts, LABELS))
        labels = tf.SparseTensor(at, tf.gather_nd(y, at), tf.cast([tf.shape(x)[0], LABELS], tf.int64))
        return tf.reduce_mean(tf.compat.v1.nn.ctc_loss(labels, logits, tf.minimum(2 * counts + more, STEPS), time_major=False))
    return Net(r, {'w': (4, 6), 'u': (6, CLASSES)}, loss,
               {'x': normal('n', STEPS, 4), 'y': below(CLASSES - 1, 'n', LABELS), 'counts': below(LABELS + 1, 'n', least=1), 'more': below(3, 'n')})


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


def resized(r):
    """By cubic interpolation, in each of TensorFlow's ways."""
    wide = [int(n) for n in r.integers(2, 12, 2)]

    def loss(v, x):
        h = tf.nn.conv2d(x, v['w'], 1, 'SAME')
        ways = [tf.image.resize(h, wide, 'bicubic')] + [tf.compat.v1.image.resize_bicubic(h, wide, align_corners=a) for a in (False, True)]
        return sum(tf.reduce_mean(tf.square(y)) for y in ways)
    return Net(r, {'w': (3, 3, 2, 3)}, loss, {'x': normal('n', 't', 6, 2) if r.random() < .5 else normal('n', 5, 6, 2)})


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


# ---- several nets, and several optimizers ----

class Adversarial(tf.Module):
    """A generator and a critic in turn, each with an optimizer of its own; `penalty`: of the critic's slope between both kinds of images."""

    def __init__(self, r, penalty):
        super().__init__('gan')
        keras.utils.set_random_seed(int(r.integers(1 << 30)))
        self.made = keras.Sequential([keras.Input((3,)), L.Dense(12, 'relu'), L.Reshape((2, 2, 3)), L.Conv2DTranspose(2, 4, 2, 'same'), L.BatchNormalization(), L.Activation('tanh')])
        self.judged = keras.Sequential([keras.Input((4, 4, 2)), L.Conv2D(4, 3, 2, 'same'), L.LeakyReLU(.2), L.Flatten(), L.Dense(1)])
        self.penalty, self.optimizers = penalty, [keras.optimizers.Adam(.01, .5, epsilon=.01), keras.optimizers.RMSprop(.01, epsilon=.01)]
        for o, m in zip(self.optimizers, (self.made, self.judged)):
            o.build(m.trainable_variables)
        self.inputs = {'z': normal('n', 3), 'x': normal('n', 4, 4, 2), 'between': unit('n', 1, 1, 1)}

    def slope(self, x, fake, between):
        with tf.GradientTape() as tape:
            middle = x * between + fake * (1 - between)
            tape.watch(middle)
            y = self.judged(middle, training=True)
        length = tf.sqrt(tf.reduce_sum(tf.square(tape.gradient(y, middle)), [1, 2, 3]) + 1e-6)
        return tf.reduce_mean(tf.square(length - 1))

    def losses(self, z, x, between):
        fake = self.made(z, training=True)
        real, wrong = self.judged(x, training=True), self.judged(fake, training=True)
        if self.penalty:
            return -tf.reduce_mean(wrong), tf.reduce_mean(wrong - real) + 10 * self.slope(x, fake, between)
        cross = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=.1)
        return cross(tf.ones_like(wrong), wrong), cross(tf.ones_like(real), real) + cross(tf.zeros_like(wrong), wrong)

    def step(self, z, x, between):
        with tf.GradientTape() as first, tf.GradientTape() as second:
            losses = self.losses(z, x, between)
        for o, m, tape, loss in zip(self.optimizers, (self.made, self.judged), (first, second), losses):
            o.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        return {'made': losses[0], 'judged': losses[1]}


def adversarial(r):
    return Adversarial(r, False)


def adversarial_with_penalty(r):
    return Adversarial(r, True)


def variational(r):
    """An autoencoder of distributions, whose noise is fed."""
    def loss(v, x, noise):
        h = tf.nn.elu(x @ v['in'])
        mean, log = h @ v['mean'], h @ v['log']
        out = tf.nn.elu((mean + tf.exp(log / 2) * noise) @ v['up']) @ v['out']
        near = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid(x), logits=out), 1)
        return tf.reduce_mean(near - .5 * tf.reduce_sum(1 + log - tf.square(mean) - tf.exp(log), 1))
    return Net(r, {'in': (6, 5), 'mean': (5, 2), 'log': (5, 2), 'up': (2, 5), 'out': (5, 6)}, loss, {'x': normal('n', 6), 'noise': normal('n', 2)})


def distilled(r):
    teacher = r.standard_normal((5, 4)).astype('f4')

    def loss(v, x, y):
        soft, own = tf.nn.softmax(x @ teacher / 3), tf.nn.gelu(x @ v['w']) @ v['u']
        apart = keras.losses.KLDivergence()(soft, tf.nn.softmax(own / 3)) * 9
        return apart + tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, own, from_logits=True))
    return Net(r, {'w': (5, 8), 'u': (8, 4)}, loss, {'x': normal('n', 5), 'y': below(4, 'n')})


class Accumulated(Net):
    """Gradients of two steps are added before they are applied, clipped by the norm of all; a moving average of the weights."""

    def __init__(self, r):
        super().__init__(r, {'w': (5, 8), 'b': (8,), 'u': (8, 1)},
                         lambda v, x, y: tf.reduce_mean(keras.losses.huber(y, tf.nn.swish(x @ v['w'] + v['b']) @ v['u'], 1.)), {'x': normal('n', 5), 'y': normal('n', 1)})
        self.sums = {n: tf.Variable(tf.zeros_like(x), name=f'{n}_sum') for n, x in self.v.items()}
        self.means = {n: tf.Variable(x, name=f'{n}_mean') for n, x in self.v.items()}
        self.steps = tf.Variable(0, dtype=tf.int64, name='steps')

    def apply(self):
        gradients, _ = tf.clip_by_global_norm([self.sums[n] / 2 for n in self.v], .3)
        for (n, v), g in zip(self.v.items(), gradients):
            v.assign_sub(.2 * g)
            self.sums[n].assign(tf.zeros_like(v))
            self.means[n].assign(self.means[n] * .9 + v * .1)
        return tf.constant(True)

    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(self.v, x, y)
        for n, g in tape.gradient(loss, self.v).items():
            self.sums[n].assign_add(g)
        self.steps.assign_add(1)
        return {'loss': loss, 'applied': tf.cond(self.steps % 2 == 0, self.apply, lambda: tf.constant(False))}


def accumulated(r):
    return Accumulated(r)


def with_optimizer(optimizer):
    def net(r):
        return KerasNet(r, layers((5,), lambda: L.Dense(6, 'tanh'), lambda: L.LayerNormalization(), lambda: L.Dense(4)), classified,
                        {'x': normal('n', 5), 'y': below(4, 'n')}, optimizer())
    return net


# ---- losses ----

def focal(r):
    def loss(model, x, y):
        hot = tf.one_hot(y, 4)
        return tf.reduce_mean(keras.losses.CategoricalFocalCrossentropy(from_logits=True, label_smoothing=.1)(hot, model(x, training=True)))
    return KerasNet(r, layers((5,), lambda: L.Dense(6, 'selu'), lambda: L.UnitNormalization(), lambda: L.Dense(4)), loss, {'x': normal('n', 5), 'y': below(4, 'n')})


def triplets(r):
    """For each row the farthest of its class, and the nearest of another one."""
    def loss(v, x, y):
        h = tf.nn.l2_normalize(tf.tanh(x @ v['w']) @ v['u'], 1)
        apart = tf.reduce_sum(tf.square(h[:, None] - h[None]), -1)
        same = y[:, None] == y[None]
        far = tf.reduce_max(tf.where(same, apart, 0.), 1)
        near = tf.reduce_min(tf.where(same, 9., apart), 1)
        return tf.reduce_mean(tf.nn.softplus(far - near + .3))
    return Net(r, {'w': (5, 8), 'u': (8, 3)}, loss, {'x': normal('n', 5), 'y': below(3, 'n')})


def mixture(r):
    """The density of three normal distributions."""
    def loss(v, x, y):
        share, mean, log = tf.split(tf.tanh(x @ v['w']) @ v['u'], 3, 1)
        each = tf.nn.log_softmax(share) - .5 * tf.square((y - mean) / tf.exp(log)) - log - .919
        return -tf.reduce_mean(tf.reduce_logsumexp(each, 1))
    return Net(r, {'w': (3, 8), 'u': (8, 9)}, loss, {'x': normal('n', 3), 'y': normal('n', 1)})


def policy(r):
    """The gradient of a policy: returns that are summed up from the end, an advantage over a value that is learnt, and entropy."""
    def loss(v, x, action, reward):
        h = tf.tanh(tf.einsum('btc,cd->btd', x, v['w']))
        logits, value = tf.einsum('btd,da->bta', h, v['policy']), tf.einsum('btd,d->bt', h, v['value'])
        discount = .9 ** tf.range(tf.cast(tf.shape(x)[1], F32))
        returns = tf.cumsum(reward * discount, axis=1, reverse=True) / discount
        chosen = -tf.nn.sparse_softmax_cross_entropy_with_logits(action, logits)
        entropy = -tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), -1)
        gain = tf.stop_gradient(returns - value)
        gain = (gain - tf.reduce_mean(gain)) / (tf.math.reduce_std(gain) + .1)
        return tf.reduce_mean(-chosen * gain + .5 * tf.square(returns - value) - .01 * entropy)
    return Net(r, {'w': (3, 5), 'policy': (5, 4), 'value': (5,)}, loss, {'x': normal('n', 't', 3), 'action': below(4, 'n', 't'), 'reward': normal('n', 't')})


class Q(Net):
    """Values of actions, against those of a net that follows."""

    def __init__(self, r):
        super().__init__(r, {'w': (4, 6), 'u': (6, 3)}, self.error, {'x': normal('n', 4), 'action': below(3, 'n'), 'reward': normal('n'), 'after': normal('n', 4), 'ends': below(2, 'n')})
        self.old = {n: tf.Variable(v, name=f'{n}_old') for n, v in self.v.items()}

    def error(self, v, x, action, reward, after, ends):
        best = tf.argmax(tf.nn.relu(after @ v['w']) @ v['u'], 1)
        then = tf.gather(tf.nn.relu(after @ self.old['w']) @ self.old['u'], best, batch_dims=1)
        want = tf.stop_gradient(reward + .9 * (1 - tf.cast(ends, F32)) * then)
        return tf.reduce_mean(keras.losses.huber(want[:, None], tf.reduce_sum(tf.one_hot(action, 3) * (tf.nn.relu(x @ v['w']) @ v['u']), 1)[:, None]))

    def step(self, *x):
        made = super().step(*x)
        for n, v in self.v.items():
            self.old[n].assign(self.old[n] * .8 + v * .2)
        return made


def values_of_actions(r):
    return Q(r)


# ---- sequences ----

class Translation(keras.Model):
    """An encoder, a decoder that attends to it, and teacher forcing."""

    def __init__(self):
        super().__init__()
        self.words, self.heard = L.Embedding(9, 4, mask_zero=True), L.Embedding(9, 4, mask_zero=True)
        self.encoder, self.decoder = L.GRU(5, return_sequences=True, return_state=True), L.GRU(5, return_sequences=True)
        self.attention, self.out = L.AdditiveAttention(), L.Dense(9)

    def call(self, both, training=False):
        x, y = both
        seen, state = self.encoder(self.words(x))
        said = self.decoder(self.heard(y), initial_state=state)
        seen = self.attention([said, seen], mask=[None, x > 0])
        return self.out(tf.concat([said, seen], -1))


def translated(r):
    def loss(model, x, y):
        logits = model([x, y[:, :-1]], training=True)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(y[:, 1:], logits)
        mask = tf.cast(y[:, 1:] > 0, F32)
        return tf.reduce_sum(each * mask) / (tf.reduce_sum(mask) + 1e-3)

    def make():
        model = Translation()
        model([np.ones((2, 3), 'i4'), np.ones((2, 4), 'i4')])
        return model
    return KerasNet(r, make, loss, {'x': below(9, 'n', 't', least=1), 'y': below(9, 'n', 5)})


def transformer(r):
    def make():
        x = keras.Input((None,), dtype='int32')
        h = L.Embedding(9, 8)(x)
        a = L.MultiHeadAttention(2, 4)(h, h, use_causal_mask=True)
        h = L.LayerNormalization()(h + a)
        h = L.LayerNormalization()(h + L.Dense(8)(L.Dense(12, 'gelu')(h)))
        return keras.Model(x, L.Dense(9)(h))
    return KerasNet(r, make, lambda m, x: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(x[:, 1:], m(x, training=True)[:, :-1])),
                    {'x': Input(('n', 't'), I32, lambda r, s: r.integers(0, 9, s).astype('i4'), 2)}, keras.optimizers.AdamW(.01, .004, epsilon=.01, global_clipnorm=.5))


def chain(r):
    """A conditional random field: the forward sums of a chain, by a scan."""
    def loss(v, x, y):
        unary = tf.einsum('btc,cd->btd', x, v['w'])
        steps = tf.transpose(unary, [1, 0, 2])
        sums = tf.scan(lambda a, u: tf.reduce_logsumexp(a[:, :, None] + v['t'][None], 1) + u, steps[1:], steps[0])
        whole = tf.reduce_logsumexp(tf.concat([steps[:1], sums], 0)[-1], 1)
        hot = tf.one_hot(y, 3)
        own = tf.reduce_sum(hot * unary, [1, 2]) + tf.reduce_sum(tf.einsum('bti,ij->btj', hot[:, :-1], v['t']) * hot[:, 1:], [1, 2])
        return tf.reduce_mean(whole - own)
    return Net(r, {'w': (4, 3), 't': (3, 3)}, loss, {'x': normal('n', 't', 4, least=2), 'y': Input(('n', 't'), I32, lambda r, s: r.integers(0, 3, s).astype('i4'), 2)})


# ---- augmentation: layers of Keras that change images at random before they are trained on; the states of their seeds are variables ----

class Augmented(KerasNet):
    """A net of images and of classes as shares, both of which a layer mixes or changes."""

    def __init__(self, r, layer, mixes):
        super().__init__(r, layers((6, 6, 3), lambda: L.Conv2D(4, 3, activation='relu'), lambda: L.GlobalAveragePooling2D(), lambda: L.Dense(4)), self.error,
                         {'x': Input(('n', 6, 6, 3), F32, lambda r, s: (255 * r.random(s)).astype('f4'), 2), 'y': Input(('n',), I32, lambda r, s: r.integers(0, 4, s).astype('i4'), 2)})
        self.layer, self.mixes = layer(int(r.integers(1000))), mixes
        self.seeds = [v.value for v in self.layer.variables]

    def error(self, model, x, y):
        shares = tf.one_hot(y, 4)
        if self.mixes:
            both = self.layer({'images': x, 'labels': shares}, training=True)
            x, shares = both['images'], both['labels']
        else:
            x = self.layer(x, training=True)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(shares, model(x / 255, training=True)))


def augmented(layer, mixes=False):
    return lambda r: Augmented(r, layer, mixes)


AUGMENTED = {
    'mix_up': augmented(lambda s: L.MixUp(alpha=.3, seed=s), True), 'cut_mix': augmented(lambda s: L.CutMix(seed=s), True),
    'aug_mix': augmented(lambda s: L.AugMix((0, 255), num_chains=2, chain_depth=2, seed=s)), 'rand_augment': augmented(lambda s: L.RandAugment((0, 255), seed=s)),
}


# ---- others ----

def spectral(r):
    return KerasNet(r, layers((6, 6, 2), lambda: L.SpectralNormalization(L.Conv2D(3, 3)), lambda: L.GroupNormalization(3), lambda: L.Flatten(),
                              lambda: L.SpectralNormalization(L.Dense(4))), classified, {'x': normal('n', 6, 6, 2), 'y': below(4, 'n')})


def joined_levels(r):
    """A U-shaped net: levels of an image, and their concatenations on the way up."""
    def make():
        x = keras.Input((8, 8, 2))
        a = L.Conv2D(3, 3, padding='same', activation='relu')(x)
        b = L.SeparableConv2D(4, 3, padding='same', activation='relu')(L.MaxPool2D()(a))
        c = L.Conv2DTranspose(3, 2, 2)(L.Dropout(0.)(b))
        return keras.Model(x, L.Conv2D(1, 1)(L.Concatenate()([a, c])))

    def loss(model, x, y):
        share = tf.sigmoid(model(x, training=True))
        y = tf.cast(y[..., None], F32)
        both = tf.reduce_sum(share * y, [1, 2, 3])
        return tf.reduce_mean(1 - (2 * both + 1) / (tf.reduce_sum(share + y, [1, 2, 3]) + 1)) + tf.reduce_mean(keras.losses.binary_crossentropy(y, share))
    return KerasNet(r, make, loss, {'x': normal('n', 8, 8, 2), 'y': below(2, 'n', 8, 8)})


def graph_of_rows(r):
    """A net over a graph whose edges are fed, with softmax over the edges of each node."""
    def loss(v, x, ends):
        h = x @ v['w']
        here, there = ends[0] % tf.shape(x)[0], ends[1] % tf.shape(x)[0]
        score = tf.nn.leaky_relu(tf.gather(h @ v['a'], here) + tf.gather(h @ v['b'], there))[:, 0]
        most = tf.math.unsorted_segment_max(score, here, tf.shape(x)[0])
        e = tf.exp(score - tf.gather(most, here))
        share = e / tf.gather(tf.math.unsorted_segment_sum(e, here, tf.shape(x)[0]), here)
        out = tf.math.unsorted_segment_sum(tf.gather(h, there) * share[:, None], here, tf.shape(x)[0])
        return tf.reduce_mean(tf.square(tf.nn.elu(out)))
    return Net(r, {'w': (4, 5), 'a': (5, 1), 'b': (5, 1)}, loss, {'x': normal('n', 4), 'ends': below(60, 2, 't')})


def flow(r):
    """Couplings of two halves of each row, each of which scales and shifts the other."""
    def loss(v, x):
        logs = 0.
        for i in '12':
            a, b = tf.split(x, 2, 1)
            log, shift = tf.split(tf.tanh(a @ v['w' + i]) @ v['u' + i], 2, 1)
            log = tf.tanh(log)
            x, logs = tf.concat([b * tf.exp(log) + shift, a], 1), logs + tf.reduce_sum(log, 1)
        return tf.reduce_mean(.5 * tf.reduce_sum(tf.square(x), 1) - logs)
    return Net(r, {'w1': (2, 5), 'u1': (5, 4), 'w2': (2, 5), 'u2': (5, 4)}, loss, {'x': normal('n', 4)})


def learnt_start(r):
    """A step of gradient descent within the loss: gradients of gradients."""
    def loss(v, x, y, more, then):
        def error(w, u, x, y):
            return tf.reduce_mean(tf.square(tf.tanh(x @ w) @ u - y))
        with tf.GradientTape() as tape:
            first = error(v['w'], v['u'], x, y)
        dw, du = tape.gradient(first, [v['w'], v['u']])
        return error(v['w'] - .2 * dw, v['u'] - .2 * du, more, then)
    return Net(r, {'w': (3, 5), 'u': (5, 1)}, loss, {'x': normal('n', 3), 'y': normal('n', 1), 'more': normal('n', 3), 'then': normal('n', 1)})


def over_time(r):
    """An equation whose right side is learnt, in steps of Runge and Kutta."""
    def loss(v, x):
        def slope(x):
            return tf.tanh(x @ v['w']) @ v['u']

        def body(i, x):
            a = slope(x)
            b = slope(x + .05 * a)
            c = slope(x + .05 * b)
            return i + 1, x + .1 / 6 * (a + 2 * b + 2 * c + slope(x + .1 * c))
        return tf.reduce_mean(tf.square(tf.while_loop(lambda i, _: i < 5, body, (0, x), maximum_iterations=5)[1] - 1))
    return Net(r, {'w': (3, 5), 'u': (5, 3)}, loss, {'x': normal('n', 3)})


NETS = {n: f for n, f in list(globals().items()) if isinstance(f, types.FunctionType) and f.__module__ == __name__ and f.__code__.co_varnames[:f.__code__.co_argcount] == ('r',)}
NETS.update(AUGMENTED)
NETS.update({f'by_{n}': with_optimizer(f) for n, f in {
    'lamb': lambda: keras.optimizers.Lamb(.01, epsilon=.01), 'lion': lambda: keras.optimizers.Lion(.01, weight_decay=.01), 'adafactor': lambda: keras.optimizers.Adafactor(.01, epsilon_1=1e-3),
    'averages': lambda: keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(.01, 9, warmup_target=.02, warmup_steps=2), epsilon=.01, clipnorm=.2, use_ema=True, ema_overwrite_frequency=2),
    'accumulation': lambda: keras.optimizers.SGD(.1, momentum=.9, nesterov=True, gradient_accumulation_steps=2), 'ftrl': lambda: keras.optimizers.Ftrl(.05, l1_regularization_strength=.01),
    'adadelta': lambda: keras.optimizers.Adadelta(.5, epsilon=.01), 'adamax': lambda: keras.optimizers.Adamax(.01, epsilon=.01),
}.items()})
