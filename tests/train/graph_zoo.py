"""Training graphs of TensorFlow 1 for nets.py: each is a function of a generator of random numbers, which builds one in the default graph and
returns a Graph.  Variables are by reference or by handle, and branches and loops in the form of TensorFlow 1 or of TensorFlow 2, as build() says.
"""
import types
from dataclasses import dataclass

from live import np, tf
from net_zoo import F32, I32, below, normal

v1 = tf.compat.v1
nn = v1.nn
train = v1.train


@dataclass
class Graph:
    """What is fed, the losses by name, and the op of a step."""
    inputs: dict
    losses: dict
    op: object


class Built:
    """A graph with a session that has its first values, saved as a SavedModel `m`, and as a MetaGraphDef and a checkpoint `start`, in a folder.
    `names` are the losses and the variables after the step."""

    def __init__(self, make, r, folder, newer):
        (v1.enable_resource_variables if newer else v1.disable_resource_variables)()
        (v1.enable_control_flow_v2 if newer else v1.disable_control_flow_v2)()
        with tf.Graph().as_default() as self.graph:
            v1.set_random_seed(int(r.integers(1000)))
            with v1.variable_scope(v1.get_variable_scope(), use_resource=newer):
                net = make(r)
            self.inputs, variables = net.inputs, v1.global_variables() + v1.local_variables()
            losses = {n: tf.identity(x, f'loss_{n}') for n, x in net.losses.items()}
            with tf.control_dependencies([tf.group(net.op, name='train_step'), *(x.op for x in losses.values())]):
                after = [tf.identity(v.read_value(), f'after_{i}') for i, v in enumerate(variables)]
            self.names = [x.op.name for x in (*losses.values(), *after)]
            self.what = dict(zip(self.names, [*self.names[:len(losses)], *(f'variable {i}, {v.name}' for i, v in enumerate(variables))]))
            self.session = v1.Session()
            self.session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
            saver = v1.train.Saver(variables)
            saver.save(self.session, f'{folder}/start')
            builder = v1.saved_model.Builder(f'{folder}/m')
            signature = v1.saved_model.predict_signature_def({n: self.graph.get_tensor_by_name(f'{n}:0') for n in net.inputs}, losses)
            builder.add_meta_graph_and_variables(self.session, ['serve'], {'serving_default': signature}, main_op=v1.tables_initializer(), saver=saver)
            builder.save()

    def step(self, given):
        """The results of a step, by name."""
        return dict(zip(self.names, self.session.run([n + ':0' for n in self.names], {f'{n}:0': x for n, x in given.items()})))


def feeds(inputs):
    """A placeholder for each input, of any size where its shape has a name."""
    return [v1.placeholder(x.dtype, [None if isinstance(s, str) else s for s in x.shape], n) for n, x in inputs.items()]


# ---- layers, as tf.layers and slim write them ----

def weights(name, *shape, **more):
    return v1.get_variable(name, shape, F32, v1.truncated_normal_initializer(stddev=.4), **more)


def zeros(name, *shape, **more):
    return v1.get_variable(name, shape, F32, v1.zeros_initializer(), **more)


def dense(x, units, name, activation=None, **more):
    with v1.variable_scope(name, **more):
        y = nn.bias_add(tf.matmul(x, weights('kernel', x.shape[-1], units)), zeros('bias', units))
        return activation(y) if activation else y


def conv(x, filters, size, name, stride=1, activation=None, bias=True):
    with v1.variable_scope(name):
        y = nn.conv2d(x, weights('kernel', size, size, x.shape[-1], filters), [1, stride, stride, 1], 'SAME')
        y = nn.bias_add(y, zeros('bias', filters)) if bias else y
        return activation(y) if activation else y


def normalised(x, is_training, name='bn', momentum=.9):
    """Batch norm whose averages move by ops of the collection UPDATE_OPS; `is_training`: Python's or a fed Boolean."""
    with v1.variable_scope(name):
        n = x.shape[-1]
        gamma, beta = v1.get_variable('gamma', [n], initializer=v1.ones_initializer()), zeros('beta', n)
        mean = zeros('moving_mean', n, trainable=False)
        variance = v1.get_variable('moving_variance', [n], initializer=v1.ones_initializer(), trainable=False)

        def in_training():
            return nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3)

        def in_use():
            return nn.fused_batch_norm(x, gamma, beta, mean, variance, 1e-3, is_training=False)
        if isinstance(is_training, bool):
            y, m, v = in_training() if is_training else in_use()
            keep = momentum
        else:
            y, m, v = v1.cond(is_training, in_training, in_use)
            keep = v1.cond(is_training, lambda: momentum, lambda: 1.)
        for old, new in (mean, m), (variance, v):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(old, (old - new) * (1 - keep)))
        return y


def cross(y, logits):
    return tf.reduce_mean(nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def classes(*shape, k=4):
    return {'x': normal('n', *shape), 'y': below(k, 'n')}


def minimised(loss, optimizer, step=None):
    """The op that minimises a loss after the updates of batch norm."""
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        return optimizer.minimize(loss, global_step=step)


# ---- rates that fall, averages of variables, clipping ----

def falling(rate):
    """A net whose learning rate is a function of the global step."""
    def net(r):
        inputs = classes(5)
        x, y = feeds(inputs)
        step = train.get_or_create_global_step()
        loss = cross(y, dense(dense(x, 6, 'a', tf.tanh), 4, 'b'))
        return Graph(inputs, {'loss': loss}, train.MomentumOptimizer(rate(step), .9, use_nesterov=True).minimize(loss, step))
    return net


RATES = {
    'exponentially': lambda s: train.exponential_decay(.2, s, 2, .5, staircase=True) + train.natural_exp_decay(.1, s, 3, .4),
    'polynomially': lambda s: train.polynomial_decay(.2, s, 2, .01, power=.7, cycle=True),
    'by_cosine': lambda s: train.cosine_decay_restarts(.2, s, 2) + train.linear_cosine_decay(.1, s, 5) + train.cosine_decay(.1, s, 2, .1),
    'by_pieces': lambda s: train.piecewise_constant(s, [0, 1], [.3, .2, .1]) + train.inverse_time_decay(.1, s, 1, .5),
    'after_warmup': lambda s: v1.cond(s < 2, lambda: .1 * tf.cast(s + 1, F32) / 2, lambda: train.polynomial_decay(.1, s, 9, 0.)),
}


def averaged(r):
    """Moving averages of the variables and of the loss, L2 losses of a collection, gradients clipped by their norm."""
    inputs = classes(5)
    x, y = feeds(inputs)
    step = train.get_or_create_global_step()
    with v1.variable_scope('net', regularizer=lambda w: .01 * nn.l2_loss(w)):
        logits = dense(dense(x, 6, 'a', nn.relu6), 4, 'b')
    v1.losses.sparse_softmax_cross_entropy(y, logits, weights=tf.cast(y > 0, F32), reduction=v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS)
    loss = v1.losses.get_total_loss()
    means = train.ExponentialMovingAverage(.9, step)
    of_losses = means.apply(v1.losses.get_losses() + [loss])
    optimizer = train.AdamOptimizer(.01, epsilon=.01)
    with tf.control_dependencies([of_losses]):
        pairs = optimizer.compute_gradients(loss)
    clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], .5)
    applied = optimizer.apply_gradients(zip(clipped, [v for _, v in pairs]), step)
    with tf.control_dependencies([applied]):
        op = means.apply(v1.trainable_variables())
    return Graph(inputs, {'loss': loss, 'norm': norm}, op)


def measured(r):
    """Metrics that count over steps beside the step, and an evaluation of several heads."""
    inputs = {**classes(5), 'z': normal('n', 2)}
    x, y, z = feeds(inputs)
    h = dense(x, 6, 'a', nn.elu)
    logits, value = dense(h, 4, 'classes'), dense(h, 2, 'values', nn.softplus)
    loss = cross(y, logits) + .5 * v1.losses.huber_loss(z, value) + v1.losses.log_loss(tf.sigmoid(z), tf.sigmoid(value))
    guess = tf.argmax(logits, 1)
    op = train.RMSPropOptimizer(.01, momentum=.5, centered=True, epsilon=.01).minimize(loss, train.get_or_create_global_step())
    with tf.control_dependencies([op]):
        made = {'accuracy': v1.metrics.accuracy(y, guess), 'error': v1.metrics.mean_squared_error(z, value), 'recall': v1.metrics.recall(y > 1, guess > 1),
                'mean': v1.metrics.mean(loss), 'auc': v1.metrics.auc(y > 1, nn.softmax(logits)[:, 2], num_thresholds=11), 'iou': v1.metrics.mean_iou(y, guess, 4),
                'top': v1.metrics.recall_at_k(tf.cast(y, tf.int64)[:, None], logits, 2)}
    return Graph(inputs, {'loss': loss, **{n: u for n, (_, u) in made.items()}}, tf.group(op, *(u for _, u in made.values())))


# ---- optimizers ----

def under(optimizer):
    def net(r):
        inputs = {'x': below(9, 'n', 3), 'y': below(4, 'n')}
        x, y = feeds(inputs)
        with v1.variable_scope('tower'):
            h = tf.reduce_mean(nn.embedding_lookup(weights('table', 9, 5), x), 1)
            loss = cross(y, dense(dense(h, 6, 'a', nn.selu), 4, 'b'))
        with v1.name_scope('optimise'):
            step = train.get_or_create_global_step()
            return Graph(inputs, {'loss': loss}, optimizer(step).minimize(loss, step))
    return net


OPTIMIZERS = {
    'adadelta': lambda s: train.AdadeltaOptimizer(1., epsilon=.01), 'adagrad': lambda s: train.AdagradOptimizer(.1), 'adagrad_da': lambda s: train.AdagradDAOptimizer(.1, s, l1_regularization_strength=.01),
    'ftrl': lambda s: train.FtrlOptimizer(.1, l1_regularization_strength=.01, l2_shrinkage_regularization_strength=.01), 'proximal_adagrad': lambda s: train.ProximalAdagradOptimizer(.1, l1_regularization_strength=.01),
    'proximal_descent': lambda s: train.ProximalGradientDescentOptimizer(.1, l2_regularization_strength=.01), 'rms': lambda s: train.RMSPropOptimizer(.01, centered=True, epsilon=.01),
    'adam': lambda s: train.AdamOptimizer(.01, epsilon=.01), 'momentum': lambda s: train.MomentumOptimizer(.1, .9),
}


def own_rules(r):
    """LARS, LAMB, gradients without their means, Lookahead and averages of weights, as graphs spell them."""
    inputs = classes(5)
    x, y = feeds(inputs)
    step = train.get_or_create_global_step()
    loss = cross(y, dense(dense(x, 6, 'a', tf.tanh), 4, 'b'))
    every = v1.trainable_variables()
    ops = []
    n = v1.assign_add(step, 1)
    for i, (v, g) in enumerate(zip(every, tf.tuple(tf.gradients(loss, every)))):  # no variable changes before all gradients are known
        m, w = (v1.get_variable(v.op.name + part, initializer=tf.zeros(v.shape), trainable=False) for part in ('/m', '/v'))
        slow = v1.get_variable(v.op.name + '/slow', initializer=tf.ones(v.shape) * .1, trainable=False)
        if v.shape.rank > 1:
            g -= tf.reduce_mean(g, list(range(v.shape.rank - 1)), keepdims=True)
        size, slope = tf.norm(v), tf.norm(g)
        if i % 2:
            rate = tf.where(size > 0, tf.where(slope > 0, .1 * size / (slope + .01 * size + 1e-6), 1.), 1.)
            new_m, new_w = .9 * m + .05 * rate * (g + .01 * v), w
            new = v - new_m
        else:
            new_m, new_w = .9 * m + .1 * g, .99 * w + .01 * tf.square(g)
            update = new_m / (1 - tf.pow(.9, tf.cast(n, F32))) / (tf.sqrt(new_w / (1 - tf.pow(.99, tf.cast(n, F32)))) + .01) + .01 * v
            length = tf.norm(update)
            new = v - .01 * tf.where((size > 0) & (length > 0), size / length, 1.) * update
        ops += [v1.assign(m, new_m), v1.assign(w, new_w)]
        with tf.control_dependencies([new, new_m, new_w]):
            stored = v1.assign(v, new)
        with tf.control_dependencies([stored]):
            middle = slow.read_value() + .5 * (v.read_value() - slow.read_value())
            with tf.control_dependencies([middle]):
                ops.append(v1.cond(tf.equal(n % 2, 0), lambda: tf.group(v1.assign(v, middle), v1.assign(slow, middle)), tf.no_op))
    return Graph(inputs, {'loss': loss}, tf.group(*ops))


def every_second(r):
    """Gradients that variables collect, and that a branch applies in every second step."""
    inputs = classes(5)
    x, y = feeds(inputs)
    step = train.get_or_create_global_step()
    loss = cross(y, dense(dense(x, 6, 'a', tf.tanh), 4, 'b'))
    optimizer = train.AdamOptimizer(.01, epsilon=.01)
    pairs = optimizer.compute_gradients(loss)
    sums = [v1.get_variable(v.op.name + '/sum', initializer=tf.zeros(v.shape), trainable=False) for _, v in pairs]
    added = [v1.assign_add(s, g) for s, (g, _) in zip(sums, pairs)]

    def apply():
        done = optimizer.apply_gradients([(s / 2, v) for s, (_, v) in zip(sums, pairs)])
        with tf.control_dependencies([done]):
            return tf.group(*(v1.assign(s, tf.zeros_like(s)) for s in sums))
    with tf.control_dependencies(added + [v1.assign_add(step, 1)]):
        op = v1.cond(tf.equal(step % 2, 0), apply, tf.no_op)
    return Graph(inputs, {'loss': loss}, op)


def partitioned(r):
    """Variables in parts: an embedding, a kernel, and the slots of each part."""
    inputs = {'x': below(9, 'n', 3), 'y': below(4, 'n')}
    x, y = feeds(inputs)
    step = train.get_or_create_global_step()
    with v1.variable_scope('net', partitioner=v1.fixed_size_partitioner(3)):
        table = v1.get_variable('table', [9, 4], initializer=v1.random_normal_initializer())
        h = tf.reduce_mean(nn.embedding_lookup(table, x, partition_strategy='div' if r.random() < .5 else 'mod'), 1)
        kernel = v1.get_variable('kernel', [4, 4], initializer=v1.random_normal_initializer(), partitioner=v1.fixed_size_partitioner(2, 1))
        loss = cross(y, tf.matmul(h, tf.convert_to_tensor(kernel)))
    return Graph(inputs, {'loss': loss}, train.AdagradOptimizer(.1).minimize(loss, step))


# ---- images ----

def batch_normalised(r):
    """Residual blocks with groups of channels and with gates, and batch norm by a fed Boolean."""
    inputs = {'x': normal('n', 6, 6, 4), 'y': below(4, 'n')}
    x, y = feeds(inputs)
    flag = v1.placeholder_with_default(True, [], 'is_training')
    h = nn.relu(normalised(conv(x, 8, 3, 'c1', bias=False), flag, 'bn1'))
    parts = [conv(p, 2, 3, f'group{i}', bias=False) for i, p in enumerate(tf.split(h, 4, 3))]
    g = nn.relu(normalised(tf.concat(parts, 3), flag, 'bn2'))
    squeeze = tf.reduce_mean(g, [1, 2])
    gate = tf.sigmoid(dense(dense(squeeze, 2, 'down', nn.relu), 8, 'up'))
    h = nn.relu(h + g * gate[:, None, None, :])
    h = nn.max_pool2d(h, 3, 2, 'SAME')
    loss = cross(y, dense(tf.reduce_mean(h, [1, 2]), 4, 'out'))
    loss += .01 * tf.add_n([nn.l2_loss(v) for v in v1.trainable_variables() if 'kernel' in v.name])
    return Graph(inputs, {'loss': loss}, minimised(loss, train.MomentumOptimizer(.05, .9), train.get_or_create_global_step()))


def separable(r):
    inputs = {'x': normal('n', 6, 6, 3), 'y': below(4, 'n')}
    x, y = feeds(inputs)
    h = nn.relu6(normalised(conv(x, 4, 3, 'stem', 2, bias=False), True, 'bn0'))
    with v1.variable_scope('block'):
        wide = nn.relu6(normalised(conv(h, 8, 1, 'expand', bias=False), True, 'bn1'))
        wide = nn.depthwise_conv2d(wide, weights('depthwise', 3, 3, 8, 1), [1, 1, 1, 1], 'SAME')
        h += normalised(conv(nn.relu6(normalised(wide, True, 'bn2')), 4, 1, 'project', bias=False), True, 'bn3')
    h = nn.separable_conv2d(h, weights('dw', 3, 3, 4, 2), weights('pw', 1, 1, 8, 4), [1, 1, 1, 1], 'VALID')
    loss = cross(y, dense(tf.reshape(h, [-1, 4]), 4, 'out'))
    return Graph(inputs, {'loss': loss}, minimised(loss, train.RMSPropOptimizer(.01, momentum=.9, epsilon=1.)))


def segmented(r):
    """A U-shaped net with transposed convolutions, and Dice's and the focal loss."""
    inputs = {'x': normal('n', 8, 8, 2), 'y': below(2, 'n', 8, 8)}
    x, y = feeds(inputs)
    a = conv(x, 4, 3, 'a', activation=nn.leaky_relu)
    b = conv(nn.max_pool2d(a, 2, 2, 'VALID'), 6, 3, 'b', activation=nn.elu)
    c = nn.conv2d(b, weights('c', 3, 3, 6, 6), 1, 'SAME', dilations=[1, 2, 2, 1])
    up = nn.conv2d_transpose(c, weights('up', 2, 2, 4, 6), [tf.shape(x)[0], 8, 8, 4], [1, 2, 2, 1], 'SAME')
    up += v1.image.resize_bilinear(conv(c, 4, 1, 'side'), [8, 8], align_corners=True) + v1.image.resize_nearest_neighbor(conv(c, 4, 1, 'near'), tf.shape(x)[1:3])
    logits = conv(tf.concat([a, up], 3), 1, 1, 'out')[..., 0]
    share, y = tf.sigmoid(logits), tf.cast(y, F32)
    dice = 1 - (2 * tf.reduce_sum(share * y) + 1) / (tf.reduce_sum(share + y) + 1)
    p = tf.where(y > .5, share, 1 - share)
    focal = -tf.reduce_mean(tf.pow(1 - p, 2.) * tf.math.log(tf.clip_by_value(p, 1e-6, 1.)))
    return Graph(inputs, {'dice': dice, 'focal': focal}, train.AdamOptimizer(.01, epsilon=.01).minimize(dice + focal, train.get_or_create_global_step()))


def centred(r):
    """The loss of centres: scatters move the centres of classes."""
    inputs = classes(5)
    x, y = feeds(inputs)
    h = dense(x, 3, 'a', tf.tanh)
    centres = zeros('centres', 4, 3, trainable=False)
    mine = tf.gather(centres, y)
    unique, at, count = tf.unique_with_counts(y)
    move = (mine - h) / tf.cast(1 + tf.gather(count, at), F32)[:, None] * .5
    loss = cross(y, dense(h, 4, 'b')) + .1 * nn.l2_loss(h - mine)
    with tf.control_dependencies([loss]):
        moved = v1.scatter_sub(centres, y, move)
    return Graph(inputs, {'loss': loss}, tf.group(moved, train.GradientDescentOptimizer(.1).minimize(loss)))


# ---- two nets, pairs, distributions ----

def in_turn(r):
    """A generator and a critic: two train ops, the second behind the first; weights of the critic are clipped."""
    inputs = {'z': normal('n', 3), 'x': normal('n', 4)}
    z, x = feeds(inputs)
    with v1.variable_scope('made'):
        made = dense(normalised(dense(z, 6, 'a')[:, None, None], True, 'bn')[:, 0, 0], 4, 'b', tf.tanh)

    def judge(x):
        with v1.variable_scope('judge', reuse=v1.AUTO_REUSE):
            return dense(dense(x, 6, 'a', nn.leaky_relu), 1, 'b')
    real, wrong = judge(x), judge(made)
    one = tf.reduce_mean(nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(real), logits=real) + nn.sigmoid_cross_entropy_with_logits(labels=tf.zeros_like(wrong), logits=wrong))
    two = tf.reduce_mean(nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(wrong), logits=wrong))
    mine, other = (v1.trainable_variables(s) for s in ('judge', 'made'))
    pairs = tf.gradients(two, other)
    with tf.control_dependencies(pairs):
        first = train.RMSPropOptimizer(.01, epsilon=.01).minimize(one, var_list=mine)
    with tf.control_dependencies([first]):
        clipped = [v1.assign(v, tf.clip_by_value(v.read_value(), -.5, .5)) for v in mine]
    with tf.control_dependencies([first, *v1.get_collection(v1.GraphKeys.UPDATE_OPS)]):
        second = train.AdamOptimizer(.01, .5, epsilon=.01).apply_gradients(zip(pairs, other))
    return Graph(inputs, {'judge': one, 'made': two}, tf.group(second, *clipped))


def siamese(r):
    inputs = {'a': normal('n', 5), 'b': normal('n', 5), 'same': below(2, 'n')}
    a, b, same = feeds(inputs)

    def branch(x, reuse):
        with v1.variable_scope('branch', reuse=reuse):
            return nn.l2_normalize(dense(dense(x, 6, 'a', nn.crelu), 3, 'b'), 1)
    apart = tf.sqrt(tf.reduce_sum(v1.squared_difference(branch(a, False), branch(b, True)), 1) + 1e-6)
    same = tf.cast(same, F32)
    loss = tf.reduce_mean(same * tf.square(apart) + (1 - same) * tf.square(tf.maximum(1. - apart, 0)))
    loss += .01 * tf.reduce_mean(v1.losses.cosine_distance(nn.l2_normalize(a, 1), nn.l2_normalize(b, 1), axis=1))
    return Graph(inputs, {'loss': loss}, train.MomentumOptimizer(.1, .9).minimize(loss))


# ---- sequences ----

def tagged(r):
    """A recurrent net of both directions, with lengths, by loops."""
    inputs = {'x': normal('n', 't', 3, least=2), 'y': below(3, 'n', 't'), 'k': below(3, 'n', least=1)}
    inputs['y'].least = 2
    x, y, lengths = feeds(inputs)

    def cell(part, state, name):
        with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
            c, h = state
            i, j, f, o = tf.split(nn.bias_add(tf.matmul(tf.concat([part, h], 1), weights('kernel', 7, 16)), zeros('bias', 16)), 4, 1)
            c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
            return c, tf.tanh(c) * tf.sigmoid(o)

    def run(x, name):
        n, steps = tf.shape(x)[0], tf.shape(x)[1]
        source = tf.TensorArray(F32, steps).unstack(tf.transpose(x, [1, 0, 2]))

        def body(t, c, h, made):
            live = (t < lengths)[:, None]
            new_c, new_h = cell(source.read(t), (c, h), name)
            return t + 1, tf.where(tf.tile(live, [1, 4]), new_c, c), tf.where(tf.tile(live, [1, 4]), new_h, h), made.write(t, tf.where(tf.tile(live, [1, 4]), new_h, tf.zeros_like(h)))
        made = v1.while_loop(lambda t, *_: t < steps, body, (0, tf.zeros([n, 4]), tf.zeros([n, 4]), tf.TensorArray(F32, steps)), parallel_iterations=32, swap_memory=True)[3]
        made = made.stack()
        made.set_shape([None, None, 4])
        return tf.transpose(made, [1, 0, 2])
    both = tf.concat([run(x, 'fw'), tf.reverse_sequence(run(tf.reverse_sequence(x, lengths, 1), 'bw'), lengths, 1)], 2)
    unary = tf.reshape(dense(tf.reshape(both, [-1, 8]), 3, 'tags'), [tf.shape(x)[0], tf.shape(x)[1], 3])
    mask = tf.sequence_mask(lengths, tf.shape(x)[1], F32)
    loss = tf.reduce_sum(mask * nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=unary)) / tf.reduce_sum(mask)
    optimizer = train.AdamOptimizer(.01, epsilon=.01)
    gradients = [(tf.clip_by_value(g, -1, 1), v) for g, v in optimizer.compute_gradients(loss)]
    return Graph(inputs, {'loss': loss}, optimizer.apply_gradients(gradients, train.get_or_create_global_step()))


def sampled(r):
    """NCE and sampled softmax, of classes that are drawn."""
    inputs = {'x': below(9, 5), 'y': below(9, 5)}
    x, y = feeds(inputs)
    h = nn.embedding_lookup(weights('in', 9, 5), x)
    out, bias, y = weights('out', 9, 5), zeros('bias', 9), tf.cast(y, tf.int64)[:, None]
    some = nn.log_uniform_candidate_sampler(y, 1, 4, True, 9, seed=3)
    some = tuple(tf.stop_gradient(s) for s in some)
    loss = tf.reduce_mean(nn.nce_loss(out, bias, y, h, 4, 9, sampled_values=some)) + tf.reduce_mean(
        nn.sampled_softmax_loss(out, bias, y, h, 4, 9, sampled_values=some, remove_accidental_hits=False))
    return Graph(inputs, {'loss': loss}, train.GradientDescentOptimizer(.1).minimize(loss))


def drawn(loss, true=1, **more):
    """NCE or sampled softmax of any batch, with `true` labels a row, over weights in parts or whole."""
    def net(r):
        inputs = {'x': below(12, 'n'), 'y': below(12, 'n', true)}
        x, y = feeds(inputs)
        y = tf.cast(y, tf.int64)
        h = nn.embedding_lookup(weights('in', 12, 5), x)
        parts = v1.fixed_size_partitioner(3) if more.get('partition_strategy') == 'div' else None
        out, bias = weights('out', 12, 5, partitioner=parts), zeros('bias', 12)
        given = {k: f(y, true) if k == 'sampled_values' else f for k, f in more.items()}
        each = loss(out if parts is None else list(out), bias, y, h, 4, 12, num_true=true, **given)
        total = tf.reduce_mean(each)
        return Graph(inputs, {'loss': total, 'each': each}, train.AdagradOptimizer(.1).minimize(total, train.get_or_create_global_step()))
    return net


DRAWN = {
    'nce': drawn(nn.nce_loss), 'nce_of_two': drawn(nn.nce_loss, 2, partition_strategy='div'), 'nce_without_hits': drawn(nn.nce_loss, 2, remove_accidental_hits=True),
    'nce_uniform': drawn(nn.nce_loss, sampled_values=lambda y, k: nn.uniform_candidate_sampler(y, k, 4, False, 12, seed=5)),
    'nce_by_weights': drawn(nn.nce_loss, 2, sampled_values=lambda y, k: nn.fixed_unigram_candidate_sampler(y, k, 4, True, 12, distortion=.75, unigrams=list(range(1, 13)), seed=5)),
    'softmax': drawn(nn.sampled_softmax_loss), 'softmax_of_two': drawn(nn.sampled_softmax_loss, 2, partition_strategy='div'), 'softmax_with_hits': drawn(nn.sampled_softmax_loss, 2, remove_accidental_hits=False),
    'softmax_by_counts': drawn(nn.sampled_softmax_loss, sampled_values=lambda y, k: nn.learned_unigram_candidate_sampler(y, k, 4, True, 12, seed=5)),
}


def attentive(r):
    """Sequence to sequence, with attention and teacher forcing."""
    inputs = {'x': below(9, 'n', 't'), 'y': below(9, 'n', 4), 'k': below(2, 'n', least=1)}
    x, y, lengths = feeds(inputs)
    table = weights('table', 9, 4)

    def gru(part, h, name, width):
        with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
            r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([part, h], 1), weights('gates', width, 10)) + 1), 2, 1)
            c = tf.tanh(tf.matmul(tf.concat([part, r * h], 1), weights('candidate', width, 5)))
            return u * h + (1 - u) * c
    words, heard, n = tf.transpose(nn.embedding_lookup(table, x), [1, 0, 2]), nn.embedding_lookup(table, y), tf.shape(x)[0]
    seen = tf.scan(lambda h, part: gru(part, h, 'encoder', 9), words, tf.zeros([n, 5]))
    memory = tf.transpose(seen, [1, 0, 2])
    keys = tf.tensordot(memory, weights('memory', 5, 5), 1)
    mask = tf.sequence_mask(lengths, tf.shape(x)[1])
    source = tf.TensorArray(F32, 3).unstack(tf.transpose(heard[:, :-1], [1, 0, 2]))

    def body(t, h, context, made):
        h = gru(tf.concat([source.read(t), context], 1), h, 'decoder', 14)
        score = tf.reduce_sum(weights('v', 5) * tf.tanh(keys + dense(h, 5, 'query')[:, None]), 2)
        share = nn.softmax(tf.where(mask, score, tf.fill(tf.shape(score), -1e9)))
        context = tf.reduce_sum(share[..., None] * memory, 1)
        return t + 1, h, context, made.write(t, dense(tf.concat([h, context], 1), 9, 'out'))
    with v1.variable_scope('decode', reuse=v1.AUTO_REUSE):
        made = v1.while_loop(lambda t, *_: t < 3, body, (0, seen[-1], tf.zeros([n, 5]), tf.TensorArray(F32, 3)))[3].stack()
    each = nn.sparse_softmax_cross_entropy_with_logits(labels=tf.transpose(y[:, 1:]), logits=made)
    loss = tf.reduce_sum(each * tf.cast(tf.transpose(y[:, 1:]) > 0, F32)) / tf.cast(n, F32)
    every = v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, every), 1.)
    return Graph(inputs, {'loss': loss}, train.GradientDescentOptimizer(.2).apply_gradients(zip(gradients, every), train.get_or_create_global_step()))


def mixed(r):
    """TensorFlow's rewrite for mixed precision: an optimizer that scales the loss and skips steps."""
    inputs = classes(5)
    x, y = feeds(inputs)
    loss = cross(y, dense(dense(x, 6, 'a', nn.relu), 4, 'b'))
    scale = v1.mixed_precision.DynamicLossScale(2.**20, 2, 2.)
    optimizer = v1.mixed_precision.MixedPrecisionLossScaleOptimizer(train.AdamOptimizer(.01, epsilon=.01), scale)
    return Graph(inputs, {'loss': loss}, optimizer.minimize(loss, train.get_or_create_global_step()))


def recommended(r):
    """Fields of sparse features: a wide and a deep part, and factors of pairs; each part has an optimizer of its own."""
    inputs = {'x': below(20, 'n', 4), 'k': below(5, 'n'), 'y': below(2, 'n')}
    x, k, y = feeds(inputs)
    at = tf.where(tf.sequence_mask(k, 4))
    sparse = tf.SparseTensor(at, tf.gather_nd(x, at), tf.cast(tf.stack([tf.shape(x)[0], 4]), tf.int64))
    step = train.get_or_create_global_step()
    with v1.variable_scope('wide'):
        wide = nn.safe_embedding_lookup_sparse([weights('w', 20, 1)], sparse, combiner='sum')
    with v1.variable_scope('deep'):
        v = nn.embedding_lookup(weights('v', 20, 3), x)
        pairs = .5 * tf.reduce_sum(tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1), 1, keepdims=True)
        deep = dense(dense(tf.concat([tf.reshape(v, [-1, 12]), nn.embedding_lookup_sparse(weights('u', 20, 3), tf.sparse.fill_empty_rows(sparse, 0)[0], None, combiner='sqrtn')], 1), 6, 'a', nn.relu), 1, 'b')
    logits = (wide + pairs + deep)[:, 0]
    loss = tf.reduce_mean(nn.weighted_cross_entropy_with_logits(labels=tf.cast(y, F32), logits=logits, pos_weight=2.))
    ops = [train.FtrlOptimizer(.1, l1_regularization_strength=.01).minimize(loss, var_list=v1.trainable_variables('wide')),
           train.AdagradOptimizer(.1).minimize(loss, var_list=v1.trainable_variables('deep'))]
    with tf.control_dependencies(ops):
        return Graph(inputs, {'loss': loss}, v1.assign_add(step, 1))


def columns():
    """Columns of features as estimators take them, what is fed for them, and how features are made of it."""
    c = tf.feature_column
    numbers, ids, few = c.numeric_column('numbers', (2,)), c.categorical_column_with_identity('ids', 11), c.categorical_column_with_vocabulary_list('few', [3, 5, 7, 9], tf.int64, default_value=2)
    buckets = c.bucketized_column(c.numeric_column('one'), [-1., 0., .5])
    inputs = {'numbers': normal('n', 2), 'one': normal('n', 1), 'ids': below(11, 'n', 1), 'few': below(11, 'n', 1), 'y': below(4, 'n')}
    return c, numbers, ids, few, buckets, inputs


def features(inputs):
    *x, y = feeds(inputs)
    x = dict(zip(inputs, x))
    return {**x, 'ids': tf.cast(x['ids'], tf.int64), 'few': tf.cast(x['few'], tf.int64)}, y


def head(logits, y):
    """The loss, metrics and summaries of a canned classifier."""
    each = nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    loss = v1.losses.compute_weighted_loss(each[:, None], 1., reduction=v1.losses.Reduction.SUM)
    v1.summary.scalar('loss', loss)
    v1.summary.histogram('logits', logits)
    v1.summary.scalar('fraction_of_zero_values', nn.zero_fraction(logits))
    guess = tf.argmax(logits, 1)
    accuracy = v1.metrics.accuracy(y, guess)
    train.Scaffold(saver=train.Saver(sharded=True), summary_op=v1.summary.merge_all())
    return loss, accuracy


def linear_classifier(r):
    c, numbers, ids, few, buckets, inputs = columns()
    x, y = features(inputs)
    step = train.get_or_create_global_step()
    with v1.variable_scope('linear', partitioner=v1.fixed_size_partitioner(2)):
        logits = v1.feature_column.linear_model(x, [numbers, ids, few, buckets], units=4, sparse_combiner='sum')
    loss, (accuracy, counted) = head(logits, y)
    with tf.control_dependencies([counted]):
        return Graph(inputs, {'loss': loss}, tf.group(train.FtrlOptimizer(.2, l1_regularization_strength=.01).minimize(loss, step)))


def deep_classifier(r):
    c, numbers, ids, few, buckets, inputs = columns()
    x, y = features(inputs)
    step = train.get_or_create_global_step()
    with v1.variable_scope('dnn', partitioner=v1.min_max_variable_partitioner(2, min_slice_size=64)):
        h = v1.feature_column.input_layer(x, [numbers, buckets, c.embedding_column(ids, 3, combiner='mean'), c.indicator_column(few)])
        for i, units in enumerate((6, 5)):
            h = dense(h, units, f'hiddenlayer_{i}', nn.relu)
        logits = dense(h, 4, 'logits')
    loss, (accuracy, counted) = head(logits, y)
    return Graph(inputs, {'loss': loss}, tf.group(counted, train.AdagradOptimizer(.05).minimize(loss, step)))


def wide_and_deep(r):
    c, numbers, ids, few, buckets, inputs = columns()
    x, y = features(inputs)
    step = train.get_or_create_global_step()
    with v1.variable_scope('dnn'):
        h = v1.feature_column.input_layer(x, [numbers, c.embedding_column(ids, 3, combiner='sqrtn', max_norm=1.)])
        deep = dense(dense(h, 6, 'hiddenlayer_0', nn.relu), 4, 'logits')
    with v1.variable_scope('linear'):
        wide = v1.feature_column.linear_model(x, [few, buckets, c.weighted_categorical_column(ids, 'one')], units=4)
    loss, (accuracy, counted) = head(deep + wide, y)
    loss += v1.losses.get_regularization_loss()
    ops = [train.AdagradOptimizer(.05).minimize(loss, var_list=v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, 'dnn')),
           train.FtrlOptimizer(.1).minimize(loss, var_list=v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, 'linear'))]
    with tf.control_dependencies([tf.group(*ops, counted)]):
        return Graph(inputs, {'loss': loss}, v1.assign_add(step, 1).op)


def optimised(r):
    """A step as tf.contrib.layers.optimize_loss and slim's create_train_op write it: gradients that are multiplied, clipped and summarised, a loss that is checked."""
    inputs = {'x': normal('n', 6, 6, 2), 'y': below(4, 'n')}
    x, y = feeds(inputs)
    step = train.get_or_create_global_step()
    h = nn.relu(normalised(conv(x, 4, 3, 'Conv', bias=False), True, 'BatchNorm'))
    h = nn.dropout(nn.avg_pool2d(h, 2, 2, 'VALID'), rate=0.)
    logits = tf.squeeze(conv(nn.avg_pool2d(h, 3, 1, 'VALID'), 4, 1, 'logits'), [1, 2])
    v1.losses.softmax_cross_entropy(tf.one_hot(y, 4), logits, label_smoothing=.1)
    v1.losses.add_loss(.001 * tf.add_n([nn.l2_loss(v) for v in v1.trainable_variables()]))
    loss = v1.losses.get_total_loss()
    v1.summary.scalar('loss', loss)
    rate = train.exponential_decay(.1, step, 2, .7)
    optimizer = train.MomentumOptimizer(rate, .9)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        checked = tf.identity(loss)
    pairs = [(2. * g if 'bias' in v.name else g, v) for g, v in optimizer.compute_gradients(checked) if g is not None]
    gradients, variables = zip(*pairs)
    gradients, norm = tf.clip_by_global_norm(gradients, 5.)
    v1.summary.scalar('norm', norm)
    for g, v in zip(gradients, variables):
        v1.summary.histogram(v.op.name, g)
        v1.summary.scalar(v.op.name + '_norm', v1.global_norm([g]))
    updates = optimizer.apply_gradients(zip(gradients, variables), step)
    with v1.name_scope('train_op'):
        total = v1.check_numerics(checked, 'LossTensor is inf or nan')
        with tf.control_dependencies([updates]):
            op = tf.identity(total)
    return Graph(inputs, {'loss': loss, 'norm': norm}, op)


def grouped(r):
    """ResNeXt's block, whose convolution has groups, with weights that are normalised, under LARS with momentum."""
    inputs = {'x': normal('n', 6, 6, 3), 'y': below(4, 'n')}
    x, y = feeds(inputs)
    h = nn.relu(normalised(conv(x, 8, 3, 'stem', bias=False), True, 'bn0'))
    with v1.variable_scope('block'):
        inner = nn.relu(normalised(conv(h, 8, 1, 'in', bias=False), True, 'bn1'))
        direction, size = weights('v', 3, 3, 2, 8), v1.get_variable('g', [8], initializer=v1.ones_initializer())
        inner = nn.conv2d(inner, size * nn.l2_normalize(direction, [0, 1, 2]), [1, 2, 2, 1], 'SAME')  # four groups
        inner = conv(nn.relu(normalised(inner, True, 'bn2')), 8, 1, 'out', bias=False)
        h = nn.relu(normalised(inner, True, 'bn3') + nn.avg_pool2d(h, 2, 2, 'SAME'))
    loss = cross(y, dense(tf.reduce_mean(h, [1, 2]), 4, 'logits'))
    every = v1.trainable_variables()
    pairs = []
    for v, g in zip(every, tf.tuple(tf.gradients(loss, every))):
        length, slope = tf.norm(v), tf.norm(g)
        rate = tf.where((length > 0) & (slope > 0), .1 * length / (slope + .001 * length), 1.) if v.shape.rank > 1 else 1.
        pairs.append((rate * (g + .001 * v), v))
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS) + [g for g, _ in pairs]):
        return Graph(inputs, {'loss': loss}, train.MomentumOptimizer(.1, .9, use_nesterov=True).apply_gradients(pairs, train.get_or_create_global_step()))


def encoded(r):
    """An encoder of sentences as BERT's code writes it: positions, a mask, dropout that keeps everything, and the loss of masked words, whose weights are the table's."""
    inputs = {'x': below(11, 'n', 5, least=1), 'at': below(5, 'n', 2), 'y': below(11, 'n', 2), 'k': below(6, 'n', least=1)}
    x, at, y, lengths = feeds(inputs)
    table, n, steps = weights('words', 11, 8), tf.shape(x)[0], 5

    def layer_norm(h, name):
        with v1.variable_scope(name):
            mean, variance = nn.moments(h, [-1], keepdims=True)
            return nn.batch_normalization(h, mean, variance, zeros('beta', 8), v1.get_variable('gamma', [8], initializer=v1.ones_initializer()), 1e-6)
    h = nn.embedding_lookup(table, tf.reshape(x, [-1]))
    h += tf.reshape(tf.tile(tf.slice(weights('positions', 9, 8), [0, 0], [steps, -1])[None], [n, 1, 1]), [-1, 8])
    h = layer_norm(h, 'embedded')
    mask = tf.cast(tf.sequence_mask(lengths, steps), F32)
    mask = (1. - tf.ones([n, steps, 1]) * mask[:, None]) * -1e4
    for i in range(2):
        with v1.variable_scope(f'layer_{i}'):
            q, k, v = (tf.transpose(tf.reshape(dense(h, 8, part), [n, steps, 2, 4]), [0, 2, 1, 3]) for part in ('query', 'key', 'value'))
            share = nn.softmax(tf.matmul(q, k, transpose_b=True) * .5 + mask[:, None])
            seen = tf.reshape(tf.transpose(tf.matmul(nn.dropout(share, rate=0.), v), [0, 2, 1, 3]), [-1, 8])
            h = layer_norm(h + dense(seen, 8, 'output'), 'attended')
            wide = dense(h, 12, 'wide')
            h = layer_norm(h + dense(wide * .5 * (1. + tf.math.erf(wide / np.sqrt(2.))), 8, 'narrow'), 'left')
    places = tf.reshape(at + (tf.range(n) * steps)[:, None], [-1])
    logits = tf.matmul(layer_norm(dense(tf.gather(h, places), 8, 'transform', tf.tanh), 'transformed'), table, transpose_b=True) + zeros('output_bias', 11)
    logs = nn.log_softmax(logits)
    each = -tf.reduce_sum(logs * tf.one_hot(tf.reshape(y, [-1]), 11), 1)
    used = tf.reshape(tf.cast(y > 0, F32), [-1])
    loss = tf.reduce_sum(used * each) / (tf.reduce_sum(used) + 1e-5)
    step = train.get_or_create_global_step()
    rate = train.polynomial_decay(.01, step, 9, 0.)
    warm = tf.cast(step < 2, F32)
    rate = (1. - warm) * rate + warm * .01 * tf.cast(step, F32) / 2.
    every = v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, every), 1.)
    ops = []
    for g, v in zip(tf.tuple(gradients), every):
        m, w = (v1.get_variable(v.op.name + part, v.shape, trainable=False, initializer=v1.zeros_initializer()) for part in ('/adam_m', '/adam_v'))
        new_m, new_w = .9 * m + .1 * g, .999 * w + .001 * tf.square(g)
        update = new_m / (tf.sqrt(new_w) + .01)
        if 'beta' not in v.name and 'bias' not in v.name:
            update += .01 * v
        ops += [v1.assign(v, v - rate * update), v1.assign(m, new_m), v1.assign(w, new_w)]
    with tf.control_dependencies([tf.group(*ops)]):
        return Graph(inputs, {'loss': loss}, v1.assign(step, step + 1))


def remembered(r):
    """States of rows, which are set behind the step.  Only constants of what sets them wait for the step."""
    inputs = {'x': normal(3, 4), 'y': normal(3, 2)}
    x, y = feeds(inputs)
    state, last = (v1.get_variable(name, [3, 5], trainable=False, initializer=v1.zeros_initializer()) for name in ('state', 'last'))
    h = dense(tf.concat([x, state.read_value()], 1), 5, 'cell', tf.tanh)
    loss = tf.reduce_mean(tf.square(dense(h, 2, 'output') - y))
    step = train.AdagradOptimizer(.1).minimize(loss)
    with tf.control_dependencies([step]):
        ops = [v1.scatter_update(state, tf.range(3), h), v1.assign(last, tf.tile(h, tf.constant([1, 1])))]
    return Graph(inputs, {'loss': loss}, tf.group(*ops))


NETS = {n: f for n, f in list(globals().items()) if isinstance(f, types.FunctionType) and f.__module__ == __name__ and f.__code__.co_varnames[:f.__code__.co_argcount] == ('r',)}
NETS.update({f'falling_{n}': falling(f) for n, f in RATES.items()})
NETS.update({f'under_{n}': under(f) for n, f in OPTIMIZERS.items()})
NETS.update({f'drawn_{n}': f for n, f in DRAWN.items()})
