#!/usr/bin/env python3
"""halftone train of a SavedModel of TensorFlow 2 whose training step is a signature: the variables after the same steps are those of
TensorFlow, tf.train.Checkpoint restores the checkpoints of Halftone by their object graph, and Halftone goes on from one that
tf.train.Checkpoint wrote.  So does a model of Keras, whose layers have variables of one name, with a recurrent layer and an optimizer
that has a variable without a name of its own, and two with what few nets have (Parts, Turns).  A signature that changes nothing is refused as a step.

Exit code 77: nothing to test with.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

keras = environment.keras()

ROWS, BATCH, STEPS = 24, 8, 7
BATCHES = [tf.TensorSpec([None, 6], name='x'), tf.TensorSpec([None], tf.int32, name='y')]


class Net(tf.Module):
    """Two layers, trained with momentum; the learning rate falls in a branch."""

    def __init__(self, r):
        super().__init__('net')
        self.layers = [tf.Variable((r.standard_normal(s) * .3).astype('f4'), name=n)
                       for n, s in (('first', (6, 5)), ('bias', (5,)), ('second', (5, 4)))]
        self.slots = [tf.Variable(tf.zeros_like(v), name='slot') for v in self.layers]  # one name, three variables
        self.steps = tf.Variable(0, dtype=tf.int64, name='steps')

    def loss(self, x, y):
        first, bias, second = self.layers
        logits = tf.tanh(x @ first + bias) @ second
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)), logits

    @tf.function(input_signature=BATCHES)
    def train(self, x, y):
        with tf.GradientTape() as tape:
            loss, _ = self.loss(x, y)
        rate = tf.cond(self.steps < 4, lambda: tf.constant(.1), lambda: tf.constant(.05))
        for v, s, g in zip(self.layers, self.slots, tape.gradient(loss, self.layers)):
            tf.raw_ops.ResourceApplyMomentum(var=v.handle, accum=s.handle, lr=rate, grad=g, momentum=.9)
        self.steps.assign_add(1)
        return {'loss': loss}

    @tf.function(input_signature=BATCHES)
    def evaluate(self, x, y):
        loss, logits = self.loss(x, y)
        return {'mean': loss, 'correct': tf.cast(tf.argmax(logits, 1, output_type=tf.int32) == y, tf.float32)}


class Layers(keras.Model):
    """The variables of a subclass of Model have the names of their roles alone."""

    def __init__(self):
        super().__init__()
        self.first, self.cell, self.second = keras.layers.Dense(6, 'tanh'), keras.layers.LSTM(3), keras.layers.Dense(4)

    def call(self, x):
        return self.second(self.cell(tf.reshape(self.first(x), (-1, 3, 2))))


class Parts(keras.Model):
    """Rows of an embedding whose number data decide, a volume, and gradients that TensorFlow writes with ops of their own: of a mirrored
    border, a product, a maximum of segments."""

    def __init__(self):
        super().__init__()
        layers = keras.layers
        self.rows, self.volume, self.pool = layers.Embedding(9, 4), layers.Conv3D(2, 2, activation='relu'), layers.MaxPool3D((1, 2, 2), padding='same')
        self.first, self.second, self.table = layers.Dense(6, 'tanh'), layers.Dense(4), self.add_weight(shape=(7, 3), name='table')

    def call(self, x):
        h = self.first(x)
        mask = tf.where(x[:, :4] > 0)
        rows = tf.nn.embedding_lookup(self.table.value, mask[:, 1])
        rows = tf.math.unsorted_segment_sum(rows, mask[:, 0], tf.shape(x)[0])
        volume = tf.reshape(self.rows(tf.cast(tf.math.floormod(x * 7, 9), tf.int32)), (-1, 2, 3, 4, 1))
        parts = [tf.reshape(self.pool(self.volume(volume)), (-1, 4)), tf.pad(h, [[0, 0], [2, 3]], 'REFLECT'), tf.reduce_prod(1 + .3 * h, 1, keepdims=True),
                 tf.transpose(tf.math.segment_max(tf.transpose(h), tf.constant([0, 0, 1, 1, 1, 2]))), rows]
        return self.second(tf.concat(parts, 1))


class Turns(keras.Model):
    """A list that grows in a loop, of steps of a sequence; a part from a random place; images that are repeated, and mapped; groups of a
    volume; and linear algebra."""

    def __init__(self):
        super().__init__()
        layers = keras.layers
        self.first, self.cell, self.second = layers.Dense(6), layers.Dense(3, 'tanh'), layers.Dense(4)
        self.matrix = self.add_weight(shape=(3, 3), name='matrix')
        self.volume, self.larger = layers.Conv3D(4, 2, groups=2), layers.UpSampling3D((1, 2, 1))
        self.draws = self.add_weight(shape=(), dtype='int32', initializer='zeros', trainable=False, name='draws')

    def turns(self, steps):
        def turn(t, state, made):
            state = self.cell(tf.concat([steps[:, t], state], 1))
            state = tf.cond(tf.reduce_sum(state) > 0, lambda: state * .9, lambda: state)
            return t + 1, state, made.write(t, state)
        start = 0, tf.zeros([tf.shape(steps)[0], 3]), tf.TensorArray(tf.float32, 0, dynamic_size=True)
        _, _, made = tf.while_loop(lambda t, *_: t < tf.shape(steps)[1], turn, start)
        return tf.reduce_mean(made.stack(), 0)

    def call(self, x):
        h = self.first(x)
        self.cell(tf.zeros([1, 5]))  # its variables are made outside of the loop
        at = tf.cast(tf.random.stateless_uniform((), [self.draws.value, 7]) * 4, tf.int32)
        self.draws.assign(self.draws + 1)
        image, volume = tf.reshape(h, (-1, 2, 3, 1)), tf.reshape(tf.concat([x, x * x], 1), (-1, 1, 1, 3, 4))
        maps = tf.constant([[.9, .2, .1, -.1, 1.1, .2, .01, 0]])
        image = tf.raw_ops.ImageProjectiveTransformV3(images=image, transforms=maps, output_shape=[2, 3], fill_value=0., interpolation='BILINEAR', fill_mode='REFLECT')
        square = self.matrix @ tf.transpose(self.matrix) + tf.eye(3)
        root = tf.linalg.cholesky(square)
        solved = tf.transpose(tf.linalg.triangular_solve(root, tf.transpose(h[:, :3]))) @ tf.linalg.inv(square + 1) * tf.linalg.logdet(square)
        return self.second(tf.concat([self.turns(tf.reshape(h, (-1, 3, 2))), h[:, at:at + 2], tf.reshape(image, (-1, 6)),
                                      tf.reshape(self.volume(self.larger(tf.pad(volume, [[0, 0], [1, 0], [0, 0], [0, 0], [0, 0]]))), (-1, 8)), solved], 1))


class KerasNet(tf.Module):
    """A model of Keras, trained by an optimizer of Keras."""

    def __init__(self, r, model=Layers, optimizer=keras.optimizers.Nadam):
        super().__init__('keras')
        keras.utils.set_random_seed(int(r.integers(1 << 30)))
        self.model, self.optimizer = model(), optimizer(.01, epsilon=.01)
        self.model(np.zeros((BATCH, 6), 'f4'))
        self.optimizer.build(self.model.trainable_variables)

    @property
    def variables(self):
        return (*self.model.variables, *self.optimizer.variables)

    def loss(self, x, y):
        logits = self.model(x)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)), logits

    @tf.function(input_signature=BATCHES)
    def train(self, x, y):
        with tf.GradientTape() as tape:
            loss, _ = self.loss(x, y)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {'loss': loss}

    @tf.function(input_signature=BATCHES)
    def evaluate(self, x, y):
        return {'mean': self.loss(x, y)[0]}


def tool(model, folder, *more, code=0):
    done = subprocess.run([environment.TOOL, 'train', model, '--signature', 'train', '--data', f'x=@{folder}/x.npy', '--data', f'y=@{folder}/y.npy',
                           '--batch', str(BATCH), '--no-shuffle', '--policy', 'must_keep_origin_dtype', '--format', 'json', *more],
                          capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(f'{more}: ended with {done.returncode}\n{done.stderr}')
    return done.stderr if code else json.loads(done.stdout)


def compare(what, net, want):
    for i, (v, x) in enumerate(zip(net.variables, want)):
        error = np.max(np.abs(v.numpy() - x))
        if not error <= 1e-5:
            sys.exit(f'{what}: variable {i}, {v.name}: error {error}')


def check(kind, seed, folder):
    r = np.random.default_rng(seed)
    net, x, y = kind(r), r.standard_normal((ROWS, 6)).astype('f4'), r.integers(0, 4, ROWS).astype('i4')
    np.save(f'{folder}/x.npy', x)
    np.save(f'{folder}/y.npy', y)
    model, ours = f'{folder}/model', f'{folder}/ours'
    tf.saved_model.save(net, model, signatures={'train': net.train, 'evaluate': net.evaluate})
    start = tf.train.Checkpoint(net).write(f'{folder}/start')

    def steps(first, n):
        for i in range(first, first + n):
            at = np.arange(i * BATCH, (i + 1) * BATCH) % ROWS
            loss = net.train(x[at], y[at])['loss']
        return float(loss)
    report = tool(model, folder, '--loss', 'loss', '--steps', str(STEPS), '--save', ours)
    loss = steps(0, STEPS)
    if not abs(report['loss'] - loss) <= 1e-5:
        sys.exit(f'the loss is {report["loss"]}, not {loss}')
    want = [v.numpy() for v in net.variables]

    # TensorFlow restores it, by the object graph.
    tf.train.Checkpoint(net).read(start)
    tf.train.Checkpoint(net).read(f'{ours}/ckpt-{STEPS}').assert_existing_objects_matched()
    compare('restored by TensorFlow', net, want)

    # Both go on from there: Halftone from its own checkpoint, and from one that TensorFlow wrote.
    theirs = tf.train.Checkpoint(net).write(f'{folder}/theirs')
    tool(model, folder, '--loss', 'loss', '--steps', str(STEPS + 3), '--resume', ours, '--save', ours)
    tool(model, folder, '--loss', 'loss', '--steps', '2', '--restore', theirs, '--save', f'{folder}/restored')
    steps(STEPS, 3)
    want = [v.numpy() for v in net.variables]
    tf.train.Checkpoint(net).read(f'{ours}/ckpt-{STEPS + 3}').assert_existing_objects_matched()
    compare('both go on', net, want)
    tf.train.Checkpoint(net).read(theirs)
    steps(0, 2)
    want = [v.numpy() for v in net.variables]
    tf.train.Checkpoint(net).read(f'{folder}/restored/ckpt-2').assert_existing_objects_matched()
    compare('from a checkpoint of TensorFlow', net, want)
    return model


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else int.from_bytes(os.urandom(3), 'little')
    print('seed', seed)
    with tempfile.TemporaryDirectory() as folder:
        check(KerasNet, seed, folder)
    with tempfile.TemporaryDirectory() as folder:
        check(lambda r: KerasNet(r, Parts, keras.optimizers.RMSprop), seed, folder)
    with tempfile.TemporaryDirectory() as folder:
        check(lambda r: KerasNet(r, Turns, keras.optimizers.RMSprop), seed, folder)
    with tempfile.TemporaryDirectory() as folder:
        model = check(Net, seed, folder)
        message = tool(model, folder, '--signature', 'evaluate', '--loss', 'mean', '--steps', '1', code=2)
        if 'needs --train-op' not in message:
            sys.exit(f'a signature that changes nothing: {message}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
