#!/usr/bin/env python3
"""Steps of optimisers: TensorFlow and the tool train small nets with variables by reference and by handle from the same
start and batches; the tool changes the session's variables in place.  Steps also run in a branch, by a flag, and in a loop of the graph.  AdamW and LAMB, which graphs spell out in
elementary ops, are also tested with fed gradients, so that both use the same ones: against TensorFlow, and against
their definition in float64.

Exit code 77: nothing to test with.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
import references  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.saved_model import loader_impl  # noqa: E402

v1 = tf.compat.v1
v1.disable_eager_execution()
RUNS = 4
TOLERANCE = {'float32': 2e-5, 'float64': 1e-11}


# An optimiser is a function of (gradient, variable) pairs that returns the op of a step.

def slots_of(variables, name, value, resource=True):
    """A variable for each of these, outside of the branches and loops that the step is in."""
    with tf.init_scope():
        return [v1.get_variable(f'{name}{i}', use_resource=resource, trainable=False, initializer=tf.fill(v.shape, tf.constant(value, v.dtype.base_dtype)))
                for i, v in enumerate(variables)]


def keras_momentum(nesterov):
    """tf.raw_ops has the step, but TensorFlow 1 has no optimiser for it."""
    def apply(pairs):
        return tf.group(*(tf.raw_ops.ResourceApplyKerasMomentum(
            var=v.handle, accum=s.handle, lr=tf.constant(.05, v.dtype.base_dtype), grad=g,
            momentum=tf.constant(.9, v.dtype.base_dtype), use_nesterov=nesterov)
            for (g, v), s in zip(pairs, slots_of([v for _, v in pairs], 'slot', 0.))))
    return apply


def adagrad_v2(pairs):
    return tf.group(*(tf.raw_ops.ResourceApplyAdagradV2(
        var=v.handle, accum=s.handle, lr=tf.constant(.05, v.dtype.base_dtype), epsilon=tf.constant(.01, v.dtype.base_dtype),
        grad=g) for (g, v), s in zip(pairs, slots_of([v for _, v in pairs], 'slot', 1.))))


def proximal_adagrad(pairs):
    """TensorFlow's own has a rate of float32 alone."""
    return tf.group(*(tf.raw_ops.ResourceApplyProximalAdagrad(
        var=v.handle, accum=s.handle, grad=g, **{k: tf.constant(x, v.dtype.base_dtype) for k, x in {'lr': .1, 'l1': .01, 'l2': .02}.items()})
            for (g, v), s in zip(pairs, slots_of([v for _, v in pairs], 'slot', .1))))


def adamax(pairs):
    variables = [v for _, v in pairs]
    slots = zip(*(slots_of(variables, k, 0.) for k in 'mv'))
    return tf.group(*(tf.raw_ops.ResourceApplyAdaMax(
        var=v.handle, m=m.handle, v=n.handle, grad=g,
        **{k: tf.constant(x, v.dtype.base_dtype) for k, x in {'beta1_power': .9, 'lr': .01, 'beta1': .9, 'beta2': .99, 'epsilon': .01}.items()})
            for (g, v), (m, n) in zip(pairs, slots)))


def by_op(name, slots, gradient='grad', **scalars):
    """An op of tf.raw_ops that changes a variable, by handle or by reference, and these slots, of which each begins with a value.
    `gradient` is what the op calls its gradient."""
    def apply(pairs):
        variables = [v for _, v in pairs]
        resource = hasattr(variables[0], 'handle')
        made = {s: slots_of(variables, s, x, resource) for s, x in slots.items()}
        op = getattr(tf.raw_ops, f'{"Resource" if resource else ""}Apply{name}')
        get = (lambda v: v.handle) if resource else (lambda v: v._ref())  # pylint: disable=protected-access
        return tf.group(*(op(
            var=get(v), **{gradient: g}, **{s: get(x[i]) for s, x in made.items()},
            **{k: x if isinstance(x, (bool, tf.Tensor)) else tf.constant(x, v.dtype.base_dtype) for k, x in scalars.items()}) for i, (g, v) in enumerate(pairs)))
    return apply


# ---- AdamW and LAMB: their definition, with the functions of TensorFlow or of NumPy ----

RATE, B1, B2, EPSILON, DECAY = .01, .9, .999, 1e-6, .05


def moments(g, m, v):
    return m * B1 + g * (1 - B1), v * B2 + g * g * (1 - B2)


def direction(lib, w, m, v, t):
    """Adam's step, from moments with corrected bias, and the decay of the weights."""
    return m / (1 - B1 ** t) / (lib.sqrt(v / (1 - B2 ** t)) + EPSILON) + DECAY * w


def adam_w(lib, w, g, m, v, t):
    m, v = moments(g, m, v)
    return w - RATE * direction(lib, w, m, v, t), m, v


def lamb(lib, w, g, m, v, t):
    """The step has the norm of the weights, unless one of the two norms is zero."""
    m, v = moments(g, m, v)
    u = direction(lib, w, m, v, t)
    length, step = (lib.sqrt(lib.sum(x * x)) for x in (w, u))
    trust = lib.where(length > 0, lib.where(step > 0, length / step, lib.ones_like(step)), lib.ones_like(step))
    return w - RATE * trust * u, m, v


class OfTensorFlow:
    sqrt, sum, where, ones_like = tf.sqrt, tf.reduce_sum, tf.where, tf.ones_like


RULES = {'adam_w': adam_w, 'lamb': lamb}


def spelled(rule, pairs, resource):
    """Ops that change variables, moments and the number of steps."""
    variables = [v for _, v in pairs]
    with tf.init_scope():
        t = v1.get_variable('steps', initializer=tf.ones([], variables[0].dtype.base_dtype), use_resource=resource, trainable=False)
    slots = list(zip(*(slots_of(variables, k, 0., resource) for k in 'mv')))
    now, after = t.read_value(), []
    for (g, w), of in zip(pairs, slots):
        after.append(rule(OfTensorFlow, w.read_value(), g, *(s.read_value() for s in of), now))
    with tf.control_dependencies(sum(after, ())):  # references change in place
        writes = [x.assign(a) for w, s, of in zip(variables, slots, after) for x, a in zip((w, *s), of)]
    with tf.control_dependencies(writes):
        return t.assign_add(1).op


def by_rule(rule, resource):
    return lambda pairs: spelled(rule, pairs, resource)


def by(optimizer):
    def apply(pairs):
        with tf.init_scope():
            steps = v1.train.get_or_create_global_step()
        return optimizer().apply_gradients(pairs, global_step=steps)
    return apply


def pairs_of(loss):
    variables = v1.trainable_variables()
    return list(zip(v1.gradients(loss, variables), variables))


BOTH = {
    'gradient_descent': by(lambda: v1.train.GradientDescentOptimizer(.1)),
    'momentum': by(lambda: v1.train.MomentumOptimizer(.05, .9)),
    'nesterov': by(lambda: v1.train.MomentumOptimizer(.05, .9, use_nesterov=True)),
    'adam': by(lambda: v1.train.AdamOptimizer(.01)),
    'adagrad': by(lambda: v1.train.AdagradOptimizer(.1)),
    'rms_prop': by(lambda: v1.train.RMSPropOptimizer(.01, momentum=.5)),
    'centered': by(lambda: v1.train.RMSPropOptimizer(.01, momentum=.5, centered=True)),
    'ftrl': by(lambda: v1.train.FtrlOptimizer(.1, l1_regularization_strength=.01, l2_regularization_strength=.02)),
    'adadelta': by(lambda: v1.train.AdadeltaOptimizer(.5, rho=.8, epsilon=.01)),
    'proximal': by_op('ProximalGradientDescent', {}, 'delta', alpha=.1, l1=.01, l2=.02),
    'ftrl_with_shrinkage': by(lambda: v1.train.FtrlOptimizer(.1, l1_regularization_strength=.01, l2_shrinkage_regularization_strength=.02)),
    'ftrl_times_rate': by_op('FtrlV2', {'accum': .1, 'linear': 0.}, lr=.1, l1=.01, l2=.02, l2_shrinkage=.03, lr_power=-.4, multiply_linear_by_lr=True),
    'adagrad_da': lambda pairs: by_op('AdagradDA', {'gradient_accumulator': 0., 'gradient_squared_accumulator': .1}, lr=.1, l1=.01, l2=.02,
                                      global_step=tf.constant(3, tf.int64))(pairs),
    'add_sign': by_op('AddSign', {'m': 0.}, lr=.01, alpha=1., sign_decay=.9, beta=.9),
    'power_sign': by_op('PowerSign', {'m': 0.}, lr=.01, logbase=1., sign_decay=.9, beta=.9),
}
BY_HANDLE = {'keras_momentum': keras_momentum(False), 'keras_nesterov': keras_momentum(True), 'adagrad_v2': adagrad_v2,
             'adamax': adamax, 'proximal_adagrad': proximal_adagrad,
             'amsgrad': by_op('AdamWithAmsgrad', {'m': 0., 'v': 0., 'vhat': 0.}, beta1_power=.9, beta2_power=.99, lr=.01, beta1=.9, beta2=.99, epsilon=.01)}


def net(r, dtype, resource, x, y):
    """A convolution, batch norm by moments, pooling and a dense layer; the loss against classes."""
    def variable(name, *shape):
        start = (r.standard_normal(shape) * .3).astype(dtype)
        return v1.get_variable(name, initializer=tf.constant(start), use_resource=resource)
    h = tf.nn.conv2d(x, variable('filter', 3, 3, 3, 5), 1, 'SAME')
    if dtype == 'float64':  # TensorFlow's batch norm is in float32
        h = tf.nn.elu(tf.nn.bias_add(h, variable('bias', 5)))
    else:
        h = tf.nn.relu(v1.nn.fused_batch_norm(h, variable('scale', 5), variable('offset', 5))[0])
    h = tf.reshape(tf.nn.max_pool2d(h, 2, 2, 'VALID'), [4, -1])
    logits = tf.matmul(h, variable('weights', 80, 7)) + variable('shift', 7)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    return loss + tf.nn.l2_loss(v1.trainable_variables()[0]) * .01


def small_net(r, dtype, resource, x, y):
    """One layer of each row of the images; the loss against classes."""
    start = (r.standard_normal((24, 7)) * .3).astype(dtype)
    weights = v1.get_variable('weights', initializer=tf.constant(start), use_resource=resource)
    logits = tf.reduce_mean(tf.tanh(tf.reshape(tf.matmul(tf.reshape(x, [32, 24]), weights), [4, 8, 7])), 1)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def needed(loss, pairs):
    """What reads the variables before any of them changes: TensorFlow changes references in place, while other gradients may still read them."""
    return [loss, *(g for g, _ in pairs)]


def alone(loss_of, apply):
    """The loss, and the op of a step."""
    loss = loss_of()
    pairs = pairs_of(loss)
    with tf.control_dependencies(needed(loss, pairs)):
        return loss, apply(pairs)


def in_branch(loss_of, apply):
    """A step that trains in the first two runs only, by a flag."""
    loss = loss_of()
    pairs = pairs_of(loss)
    runs = v1.get_variable('runs', initializer=0, use_resource=True, trainable=False)
    with tf.control_dependencies(needed(loss, pairs)):
        training = tf.less(runs.read_value(), 2)
        trained = v1.cond(training, lambda: apply(pairs), tf.no_op)
    with tf.control_dependencies([trained]):
        return loss, runs.assign_add(1).op


def in_loop(loss_of, apply):
    """Three steps in a loop of the graph; the loss is that of the last one."""
    first = loss_of()

    def body(i, _):
        loss = loss_of()
        pairs = pairs_of(loss)
        with tf.control_dependencies(needed(loss, pairs)), tf.control_dependencies([apply(pairs)]):
            return i + 1, tf.identity(loss)
    loss = v1.while_loop(lambda i, _: i < 3, body, [tf.constant(0), first])[1]
    return loss, loss.op


def build(r, folder, apply, dtype, resource, make=net, how=alone):
    """TensorFlow's results for each run of a SavedModel in `folder` with the initial values; its outputs and feeds."""
    with tf.Graph().as_default() as g, v1.Session() as session:
        inputs = {'x': v1.placeholder(dtype, [4, 8, 8, 3], 'x'), 'y': v1.placeholder(tf.int32, [4], 'y')}

        def loss_of():
            with v1.variable_scope('net', reuse=v1.AUTO_REUSE):
                return make(r, dtype, resource, *inputs.values())
        loss, train = how(loss_of, apply)
        loss = tf.identity(loss, 'loss')
        with tf.control_dependencies([train]):
            after = [tf.identity(v.read_value(), f'after{i}') for i, v in enumerate(v1.global_variables())]
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, inputs, {'loss': loss})
        feeds = {'x': r.standard_normal((4, 8, 8, 3)).astype(dtype), 'y': r.integers(0, 7, 4).astype('i4')}
        names = ['loss'] + [a.op.name for a in after]
        fetched = [session.run([n + ':0' for n in names], {n + ':0': a for n, a in feeds.items()}) for _ in range(RUNS)]
        return names, feeds, fetched


def run(folder, names, feeds, runs, *more):
    np.savez(f'{folder}/feeds.npz', **feeds)
    command = [environment.TOOL, 'run', folder + '/model', '--outputs', ','.join(names), '-o', f'{folder}/out.npz', '--runs',
               str(runs), '--policy', 'must_keep_origin_dtype', *more]
    for n in feeds:
        command += ['--input', f'{n}=@{folder}/feeds.npz#{n}']
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f'{command}: ended with {done.returncode}\n{done.stderr}')
    with np.load(f'{folder}/out.npz') as z:
        return [z[n] for n in names]


def check(name, apply, dtype, resource, seed, make=net, how=alone):
    r = np.random.default_rng(seed)
    what = f'{name} {how.__name__} {dtype} {"handles" if resource else "references"}'
    with tempfile.TemporaryDirectory() as folder:
        names, feeds, fetched = build(r, folder + '/model', apply, dtype, resource, make, how)
        for runs, threads in (1, 1), (RUNS, 2):
            got = run(folder, names, feeds, runs, '--threads', str(threads))
            for n, a, b in zip(names, got, fetched[runs - 1]):
                error = np.max(np.abs(a.astype('f8') - b) / max(np.max(np.abs(b)), 1e-3))
                if a.shape != np.shape(b) or not error <= TOLERANCE[dtype] * runs:
                    sys.exit(f'{what}: {n} after {runs} runs: error {error}')


def check_inside(number, name, apply, resources):
    """The optimiser in a branch and in a loop, which both exist in the form of TensorFlow 1 and of TensorFlow 2; one of the four in turn."""
    for how, newer in environment.in_turn([(h, n) for h in (in_branch, in_loop) for n in (False, True)], 4, number):
        (v1.enable_control_flow_v2 if newer else v1.disable_control_flow_v2)()
        by_handle = newer or how is in_loop or resources == (True,) or number % 2 == 0
        check(f'{name}, {"new" if newer else "old"} form,', apply(by_handle), 'float32', by_handle, number, small_net, how)


# ---- the update rule, with the same gradients ----

def fed_gradients(r, shapes, dtype):
    """Gradients of all magnitudes; in each tensor some elements are 0, in the last one all."""
    made = [r.standard_normal(s) * 10. ** r.uniform(-6, 2, s) * (r.random(s) < .9) for s in shapes]
    return [g.astype(dtype) * (i + 1 < len(shapes)) for i, g in enumerate(made)]


def after_steps(rule, start, gradients):
    """Weights and moments after RUNS steps, in float64."""
    out = []
    for w, g in zip(start, gradients):
        w, g, m, v = w.astype('f8'), g.astype('f8'), 0., 0.
        for t in range(1, RUNS + 1):
            w, m, v = rule(np, w, g, m, v, t)
        out += [w, m, v]
    return out


def check_rule(name, dtype, resource, seed):
    r = np.random.default_rng(seed)
    shapes = (7, 5), (33,), (), (3, 2, 4)
    start = [(r.standard_normal(s) * (i > 0)).astype(dtype) for i, s in enumerate(shapes)]  # the first one begins with norm zero
    gradients = fed_gradients(r, shapes, dtype)
    with tf.Graph().as_default() as g, v1.Session() as session, tempfile.TemporaryDirectory() as folder:
        fed = [v1.placeholder(dtype, s, f'g{i}') for i, s in enumerate(shapes)]
        variables = [v1.get_variable(f'w{i}', initializer=tf.constant(w), use_resource=resource) for i, w in enumerate(start)]
        train = spelled(RULES[name], list(zip(fed, variables)), resource)
        with tf.control_dependencies([train]):
            after = [tf.identity(g.get_tensor_by_name(f'{k}{i}:0') if not resource else v.read_value(), f'after_{k}{i}')
                     for i in range(len(shapes)) for k in 'wmv' for v in v1.global_variables() if v.op.name == f'{k}{i}']
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, f'{folder}/model', {f.op.name: f for f in fed}, {a.op.name: a for a in after})
        feeds = {f.op.name: x for f, x in zip(fed, gradients)}
        names = [a.op.name for a in after]
        theirs = [session.run([n + ':0' for n in names], {n + ':0': x for n, x in feeds.items()}) for _ in range(RUNS)][-1]
        ours = run(folder, names, feeds, RUNS)
    for n, a, b, exact in zip(names, ours, theirs, after_steps(RULES[name], start, gradients)):
        most, unit = np.max(np.abs(exact)), np.finfo(dtype).eps
        error, other = (np.max(np.abs(x - exact)) / (most or 1) for x in (a, b))
        if a.shape != exact.shape or not error <= max(2 * other, 8 * unit):
            sys.exit(f'{name} {dtype} {"handles" if resource else "references"}: {n}: error {error}, TensorFlow\'s is {other}')


# Models with a checkpoint that includes slots: image and label, fed scalars, loss, train op.
MODELS = {
    'mnist/mnist_conv_model': (('Features', 28, 1), 'Label', {'DropoutProb': 1, 'learning_rate': .01}, 'Loss', 'MomentumOp'),
    'cifar/cifar_saved_model': (('Input', 32, 3), 'Placeholder', {}, 'Mean', 'Adam'),
}


def check_model(path, image, label, scalars, loss, train):
    """The loss in several steps of a model whose training continues from its checkpoint; the train op is a node without
    results."""
    r = np.random.default_rng(7)
    feeds = {image[0]: r.random((16, image[1], image[1], image[2])).astype('f4'), label: r.integers(0, 10, 16),
             **{n: np.float32(x) for n, x in scalars.items()}}
    with tf.Graph().as_default(), v1.Session() as session, tempfile.TemporaryDirectory() as folder:
        loader = loader_impl.SavedModelLoader(path)
        saver, _ = loader.load_graph(session.graph, ['serve'])
        references.update_last(session.graph, session.graph.get_tensor_by_name(loss + ':0').op)
        loader.restore_variables(session, saver)
        want = [session.run([loss + ':0', train], {n + ':0': a for n, a in feeds.items()})[0] for _ in range(RUNS)]
        os.symlink(path, folder + '/model')
        for runs in (RUNS,) if environment.SANITIZED else range(1, RUNS + 1):
            got, = run(folder, [loss], feeds, runs, '--outputs', f'{loss},{train}')
            if not abs(got - want[runs - 1]) <= 1e-4 * abs(want[runs - 1]):
                sys.exit(f'{path}: loss {got} in run {runs}, TensorFlow has {want[runs - 1]}')


def forms_of(resources, seed):
    """Variables by reference or by handle, and their dtype: one of these in turn."""
    forms = [(resource, dtype) for resource in resources for dtype in TOLERANCE]
    return environment.in_turn(forms, len(forms), seed)


def main():
    count = 0
    for name, parts in MODELS.items():
        path = os.path.join(environment.SHARED, 'models', name)
        if os.path.isdir(path):
            check_model(path, *parts)
            count += 1
    for seed, (name, apply) in environment.share(enumerate({**BOTH, **BY_HANDLE}.items())):
        resources = (False, True) if name in BOTH else (True,)
        for resource, dtype in forms_of(resources, seed):
            check(name, apply, dtype, resource, seed)
            count += 1
        check_inside(seed, name, lambda resource, of=apply: of, resources)
        count += 1
    for seed, (name, rule) in enumerate(RULES.items()):
        for resource, dtype in forms_of((False, True), seed):
            check(name, by_rule(rule, resource), dtype, resource, seed)
            check_rule(name, dtype, resource, seed)
            count += 2
        check_inside(seed, name, lambda resource, of=rule: by_rule(of, resource), (False, True))
        count += 1
    print(f'{count} trainings agree with TensorFlow')


if __name__ == '__main__':
    main()
