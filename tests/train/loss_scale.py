#!/usr/bin/env python3
"""Loss scales beside TensorFlow: random nets whose gradients overflow in some steps.

Two kinds of graphs are trained.  The first kind scales its loss itself, as the vendor's NPULossScaleOptimizer writes such graphs: with the
ops of its overflow flag and with a FixedLossScaleManager or an ExponentialUpdateLossScaleManager.  TensorFlow trains a copy that computes
the flag from the gradients.  The second kind has no scale of its own, and Halftone trains it with --loss-scale.  Variables, scales and
counters must agree with TensorFlow's after 24 steps, and in the second kind after 1 and 7 steps as well.

Exit code 77: nothing to test with.
"""
import json
import subprocess
import sys
import tempfile

from beside import ROWS, batch_rows, compare_values, environment, np, tf, train, v1

STEPS = 24
VENDOR = {'float_status/alloc': 'NpuAllocFloatStatus', 'float_status/get': 'NpuGetFloatStatus', 'float_status/clear': 'NpuClearFloatStatus'}
OPTIMIZERS = [lambda: v1.train.GradientDescentOptimizer(.1), lambda: v1.train.MomentumOptimizer(.05, .9), lambda: v1.train.AdamOptimizer(.01),
              lambda: v1.train.RMSPropOptimizer(.01), lambda: v1.train.AdagradOptimizer(.1)]


# ---- the vendor's managers and optimizer, in TensorFlow's ops ----

class Fixed:
    def __init__(self, scale):
        self.scale, self.text = tf.constant(scale, tf.float32), f'fixed:{scale}'

    def update(self, finite):
        return tf.no_op()


class Exponential:
    def __init__(self, scale, incr_every, decr_every, incr_ratio, decr_ratio):
        self.text = (f'dynamic:{scale},incr-every={incr_every},decr-every={decr_every},incr-ratio={incr_ratio},'
                     f'decr-ratio={decr_ratio}')
        self.every, self.ratio = (incr_every, decr_every), (incr_ratio, decr_ratio)
        with v1.variable_scope('manager', use_resource=v1.control_flow_v2_enabled()):
            self.variable = v1.get_variable('scale', [], initializer=v1.constant_initializer(scale), trainable=False)
            self.good = v1.get_variable('good', [], tf.int32, initializer=v1.zeros_initializer(), trainable=False)
            self.bad = v1.get_variable('bad', [], tf.int32, initializer=v1.zeros_initializer(), trainable=False)
        self.scale = self.variable.read_value() if hasattr(self.variable, 'read_value') else self.variable

    def reset(self, scale):
        return tf.group(v1.assign(self.variable, scale), v1.assign(self.good, 0), v1.assign(self.bad, 0))

    def update(self, finite):
        def grow():
            def larger():
                more = self.variable * self.ratio[0]
                return self.reset(tf.where(tf.math.is_finite(more), more, self.variable))
            return v1.cond(self.good + 1 >= self.every[0], larger, lambda: tf.group(v1.assign_add(self.good, 1)))

        def shrink():
            return v1.cond(self.bad + 1 >= self.every[1], lambda: self.reset(tf.maximum(1., self.variable * self.ratio[1])),
                           lambda: tf.group(v1.assign_add(self.bad, 1), v1.assign(self.good, 0)))
        return v1.cond(finite, grow, shrink)


def scaled_step(optimizer, manager, loss, boost, oracle):
    """A training step as compute_gradients() and apply_gradients() of the vendor's optimizer make it.  With `oracle` the overflow flag is
    computed from the gradients, else from nodes that Net.export() replaces by the vendor's ops."""
    global_step = v1.train.get_or_create_global_step()
    with v1.name_scope('float_status'):
        alloc = tf.constant(np.zeros(8, 'f4'), name='alloc')
    pairs = [(g * boost, v) for g, v in optimizer.compute_gradients(loss * manager.scale)]
    pairs = [(g * tf.math.reciprocal(manager.scale), v) for g, v in pairs]
    grads = [g for g, _ in pairs]
    with v1.name_scope('float_status/'), tf.control_dependencies([tf.group(*grads[1:]), grads[0]]):
        if oracle:
            finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in grads])
            get = tf.fill([8], 1 - tf.cast(finite, tf.float32))
            clear, alloc = tf.zeros([8]), get
        else:
            get = tf.identity(alloc, name='get')
            clear = tf.identity(get, name='clear')
    is_finite = tf.reduce_all(tf.equal(alloc, clear))

    def apply():
        return optimizer.apply_gradients(pairs, global_step)
    updated = v1.cond(is_finite, apply, tf.no_op)
    with tf.control_dependencies([updated]):
        return tf.group(updated, manager.update(is_finite), name='train')


def plain_step(optimizer, loss, boost):
    pairs = [(g * boost, v) for g, v in optimizer.compute_gradients(loss)]
    return tf.group(optimizer.apply_gradients(pairs, v1.train.get_or_create_global_step()), name='train')


# ---- nets ----

class Net:
    def __init__(self, seed, make, vendor):
        """make: makes the loss scale manager; None: the graph does not scale its loss.  vendor: the graph has the vendor's ops."""
        r = np.random.default_rng(seed)
        self.x, self.y = r.standard_normal((ROWS, 6)).astype('f4'), r.integers(0, 4, ROWS).astype('i4')
        self.boost = np.where(r.random(STEPS) < .3, r.choice([np.inf, np.nan, -np.inf], STEPS), 1).astype('f4')
        self.graph = tf.Graph()
        with self.graph.as_default():
            v1.set_random_seed(seed)
            x, y = v1.placeholder(tf.float32, [None, 6], 'x'), v1.placeholder(tf.int32, [None], 'y')
            boost = v1.placeholder(tf.float32, [], 'boost')
            use = {'use_resource': bool(r.integers(2))}
            if r.integers(2) and use['use_resource']:
                v1.enable_control_flow_v2()  # conditions are If nodes, else Switch and Merge
            else:
                v1.disable_control_flow_v2()
            h = x
            for i in range(int(r.integers(1, 3))):
                w = v1.get_variable(f'w{i}', [h.shape[1], 5], initializer=v1.glorot_uniform_initializer(seed=i), **use)
                b = v1.get_variable(f'b{i}', [5], initializer=v1.zeros_initializer(), **use)
                h = [tf.nn.relu, tf.tanh, tf.sigmoid, tf.nn.elu][r.integers(4)](tf.nn.bias_add(tf.matmul(h, w), b))
            w = v1.get_variable('last', [5, 4], initializer=v1.glorot_uniform_initializer(seed=9), **use)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(h, w)))
            loss = tf.identity(loss + .01 * tf.nn.l2_loss(w), name='loss')
            optimizer = OPTIMIZERS[r.integers(len(OPTIMIZERS))]()
            self.manager = make() if make else None
            step = scaled_step(optimizer, self.manager, loss, boost, not vendor) if make else plain_step(optimizer, loss, boost)
            self.fetches = [loss, step]
            self.saver = v1.train.Saver(max_to_keep=0)
            self.init = v1.global_variables_initializer()
            self.meta = v1.train.export_meta_graph(saver_def=self.saver.saver_def)
        self.variables = self.graph.get_collection('variables')

    def export(self, path):
        for n in self.meta.graph_def.node:
            if n.name in VENDOR:
                n.op = VENDOR[n.name]
                n.attr.clear()
        with open(path, 'wb') as f:
            f.write(self.meta.SerializeToString())

    def train(self, steps, prefix):
        """Initialises variables, saves them as the checkpoint `prefix`, trains, and returns the values of the variables after each number of
        steps in `steps`."""
        out = []
        with v1.Session(graph=self.graph) as s:
            s.run(self.init)
            self.saver.save(s, prefix, write_meta_graph=False)
            for i in range(max(steps)):
                at = batch_rows(i)
                s.run(self.fetches, {'x:0': self.x[at], 'y:0': self.y[at], 'boost:0': self.boost[i]})
                if i + 1 in steps:
                    out.append({v.op.name: s.run(v) for v in self.variables})
        return out


MANAGERS = [lambda: Fixed(1024.), lambda: Exponential(4096., 3, 2, 2., .5), lambda: Exponential(2. ** 40, 2, 1, 4., .8),
            lambda: Exponential(1., 100, 2, 2., .8)]


def tool(folder, model, steps, *more):
    return json.loads(train(model, folder, '--feed', f'boost=@{folder}/boost.npy', '--train-op', 'train', '--steps', str(steps), '--format',
                            'json', '--no-cache', *more))


def compare(what, prefix, want):
    r = tf.train.load_checkpoint(prefix)
    for n, b in want.items():
        compare_values(f'{what}: {n}', r.get_tensor(n), b, 1e-2, 2e-5)


def check(seed, make):
    stretches = [1, 7, STEPS]
    with tempfile.TemporaryDirectory() as folder:
        oracle, start = Net(seed, make, False), f'{folder}/start'
        what = f'seed {seed}, {oracle.manager.text}'
        want = oracle.train(stretches, start)
        for name in 'x', 'y', 'boost':
            np.save(f'{folder}/{name}.npy', getattr(oracle, name))
        Net(seed, make, True).export(f'{folder}/vendor.meta')
        Net(seed, None, False).export(f'{folder}/plain.meta')
        # convert writes a graph for the vendor's own compiler, so it must keep the vendor's ops.
        subprocess.run([environment.TOOL, 'convert', f'{folder}/vendor.meta', '--outputs', 'loss,train', '--policy', 'allow_mix_precision_fp16',
                        '-q', '-o', f'{folder}/vendor.pb'], check=True)
        graph = v1.GraphDef.FromString(open(f'{folder}/vendor.pb', 'rb').read())
        if sorted(n.op for n in graph.node if n.op.startswith('Npu')) != sorted(VENDOR.values()):
            sys.exit(f'{what}: convert lost ops of the vendor')
        # The graph that scales its loss itself, with the vendor's flag: all steps in one training.
        tool(folder, f'{folder}/vendor.meta', STEPS, '--restore', start, '--save', f'{folder}/vendor')
        compare(f'{what}, the vendor\'s graph', f'{folder}/vendor/ckpt-{STEPS}', want[-1])
        # The plain graph with --loss-scale, as trainings that each resume from the checkpoint of the one before.
        begin = ['--restore', start]
        for steps, values in zip(stretches, want):
            report = tool(folder, f'{folder}/plain.meta', steps, *begin, '--save', f'{folder}/plain', '--loss-scale',
                          oracle.manager.text)
            nets = {n.removeprefix('cond/'): v for n, v in values.items() if not n.startswith('manager/')}
            compare(f'{what}, ours behind {steps} steps', f'{folder}/plain/ckpt-{steps}', nets)
            skipped, got = int(np.sum(~np.isfinite(oracle.boost[:steps]))), report['loss_scale']
            expected = {'skipped': skipped, 'steps': steps}
            if isinstance(oracle.manager, Exponential):
                expected.update({k: values[f'manager/{k}'].item() for k in ('scale', 'good', 'bad')})
            for k, x in expected.items():
                if got[k] != x:
                    sys.exit(f'{what}, behind {steps} steps: {k} is {got[k]}, not {x}')
            begin = ['--resume', f'{folder}/plain']


def main():
    seeds = [int(a) for a in sys.argv[1:]] or range(24 if environment.LONG else 8)
    for seed in seeds:
        check(seed, MANAGERS[seed % len(MANAGERS)])
    print(f'{len(seeds)} nets agree')
    return 0


if __name__ == '__main__':
    sys.exit(main())
