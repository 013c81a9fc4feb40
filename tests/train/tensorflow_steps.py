#!/usr/bin/env python3
"""halftone train beside TensorFlow: random nets whose variables begin with the values of their initialisers
(TensorFlow's random numbers), trained on the same batches by each optimiser; each restores checkpoints of the other, in
which the parts of a variable are slices of one tensor;
TF1 graphs (MetaGraphDef, variables by reference or by handle, by the seed, and with HALFTONE_LONG both) and a
SavedModel.

Exit code 77: nothing to test with.
"""
import os
import subprocess
import sys
import tempfile

from beside import BATCH, ROWS, batch_rows, compare_values, environment, np, tf, train, v1
import references

STEPS = 6

OPTIMIZERS = {
    'gradient_descent': lambda: v1.train.GradientDescentOptimizer(.1),
    'momentum': lambda: v1.train.MomentumOptimizer(.05, .9),
    'adam': lambda: v1.train.AdamOptimizer(.01),
    'adagrad': lambda: v1.train.AdagradOptimizer(.1),
    'rms_prop': lambda: v1.train.RMSPropOptimizer(.01, momentum=.5),
    'ftrl': lambda: v1.train.FtrlOptimizer(.1, l1_regularization_strength=.01),
}
INITIALIZERS = [
    lambda seed: v1.truncated_normal_initializer(stddev=.2, seed=seed),
    lambda seed: v1.random_normal_initializer(stddev=.2, seed=seed),
    lambda seed: v1.random_uniform_initializer(-.2, .2, seed=seed),
    lambda seed: v1.glorot_uniform_initializer(seed=seed),
    lambda seed: v1.variance_scaling_initializer(seed=seed),
]


class Net:
    """A graph with a training step, TensorFlow's session for it, and its files in a folder."""

    def __init__(self, r, folder, optimizer, resource):
        self.folder = folder
        width, classes = int(r.integers(3, 9)), int(r.integers(2, 6))
        self.x = r.standard_normal((ROWS, 6)).astype('f4')
        self.y = r.integers(0, classes, ROWS).astype('i4')
        np.save(f'{folder}/x.npy', self.x)
        np.save(f'{folder}/y.npy', self.y)
        v1.reset_default_graph()
        v1.set_random_seed(int(r.integers(1000)))
        x = v1.placeholder(tf.float32, [None, 6], 'x')
        y = v1.placeholder(tf.int32, [None], 'y')

        def variable(name, *shape):
            begin = INITIALIZERS[r.integers(len(INITIALIZERS))](int(r.integers(1000)))
            return v1.get_variable(name, shape, initializer=begin, use_resource=resource)
        parts = v1.fixed_size_partitioner(int(r.integers(2, 4)), int(r.integers(2))) if r.random() < .5 else None
        of = parts and (lambda shape, dtype: parts(shape=shape, dtype=dtype) if shape.rank > 1 else [1] * shape.rank)
        with v1.variable_scope('net', partitioner=of):
            h = tf.tanh(tf.matmul(x, tf.convert_to_tensor(variable('first', 6, width))) + v1.get_variable(
                'bias', [width], initializer=v1.zeros_initializer(), use_resource=resource))
            logits = tf.matmul(h, tf.convert_to_tensor(variable('second', width, classes)))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name='loss')
        self.correct = tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y), tf.float32, name='correct')
        self.step = optimizer().minimize(loss, global_step=v1.train.get_or_create_global_step(), name='train')
        self.saver = v1.train.Saver()
        v1.train.export_meta_graph(f'{folder}/net.meta', saver_def=self.saver.saver_def)
        references.update_last(loss.graph, loss.op)
        self.session = v1.Session()
        self.session.run(v1.global_variables_initializer())

    def batch(self, i):
        at = batch_rows(i)
        return {'x:0': self.x[at], 'y:0': self.y[at]}

    def steps(self, first, n):
        return [self.session.run(['loss:0', self.step], self.batch(first + i))[0] for i in range(n)]

    def values(self):
        """The variables, of which some have parts, as TensorFlow's saver names and joins them."""
        return read(self.saver.save(self.session, f'{self.folder}/values', write_meta_graph=False, latest_filename='latest_values'))

    def train(self, model, *more):
        return train(model, self.folder, *more)


def read(prefix):
    r = tf.train.load_checkpoint(prefix)
    return {n: r.get_tensor(n) for n in r.get_variable_to_shape_map() if not n.startswith('_HALFTONE/')}


def compare(what, got, want, tolerance):
    if set(got) != set(want):
        sys.exit(f'{what}: variables {sorted(set(got) ^ set(want))}')
    for n, b in want.items():
        a = got[n]
        if a.dtype != b.dtype or a.shape != b.shape:
            sys.exit(f'{what}: {n} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}')
        compare_values(f'{what}: {n}', a, b, 1e-3, tolerance)


def check(name, optimizer, resource, seed):
    r = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        net, what = Net(r, folder, optimizer, resource), f'{name}, {"handles" if resource else "references"}, seed {seed}'
        ours, meta = f'{folder}/ours', f'{folder}/net.meta'
        net.train(meta, '--steps', '0', '--save', ours)
        begin = net.values()
        compare(f'{what}: first values', read(f'{ours}/ckpt-0'), begin, 1e-6)
        theirs = net.saver.save(net.session, f'{folder}/theirs')

        # The same steps: from the initialisers, and from TensorFlow's checkpoint.
        net.steps(0, STEPS)
        want = net.values()
        net.train(meta, '--steps', str(STEPS), '--save', ours)
        compare(f'{what}: {STEPS} steps', read(f'{ours}/ckpt-{STEPS}'), want, 1e-4)
        net.train(meta, '--steps', str(STEPS), '--restore', theirs, '--save', f'{folder}/restored')
        compare(f'{what}: {STEPS} steps from a checkpoint', read(f'{folder}/restored/ckpt-{STEPS}'), want, 1e-4)

        # TensorFlow continues from Halftone's checkpoint, and Halftone from its own.
        if tf.train.latest_checkpoint(ours) != f'{ours}/ckpt-{STEPS}':
            sys.exit(f'{what}: the latest checkpoint is {tf.train.latest_checkpoint(ours)}')
        net.saver.restore(net.session, f'{ours}/ckpt-{STEPS}')
        compare(f'{what}: restored by TensorFlow', net.values(), read(f'{ours}/ckpt-{STEPS}'), 0)
        net.steps(STEPS, STEPS)
        net.train(meta, '--steps', str(2 * STEPS), '--resume', ours, '--save', ours)
        compare(f'{what}: both go on', read(f'{ours}/ckpt-{2 * STEPS}'), net.values(), 1e-4)

        # Means over all rows, in batches of which the last is smaller.
        net.saver.restore(net.session, f'{ours}/ckpt-{2 * STEPS}')
        accuracy = float(np.mean(net.session.run(net.correct, {'x:0': net.x, 'y:0': net.y})))
        import json
        out = json.loads(net.train(meta, '--steps', str(2 * STEPS), '--resume', ours, '--batch', str(BATCH), '--eval',
                                   f'x=@{folder}/x.npy', '--eval', f'y=@{folder}/y.npy', '--eval-fetch', 'correct', '--format',
                                   'json'))
        if abs(out['evaluation']['correct'] - accuracy) > 1e-6:
            sys.exit(f'{what}: accuracy {out["evaluation"]["correct"]}, not {accuracy}')
        net.session.close()


def check_saved_model():
    """The first checkpoint of a SavedModel whose training continues is its own, with everything that TensorFlow needs."""
    shared = os.path.join(environment.SHARED, 'models/mnist/mnist_conv_model')
    if not os.path.exists(shared):
        return
    r = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f'{folder}/x.npy', r.random((16, 28, 28, 1)).astype('f4'))
        np.save(f'{folder}/y.npy', r.integers(0, 10, 16))
        for steps in '0', '3':
            subprocess.run([environment.TOOL, 'train', shared, '--data', f'Features=@{folder}/x.npy', '--data',
                            f'Label=@{folder}/y.npy', '--batch', '8', '--loss', 'Loss', '--train-op', 'MomentumOp', '--feed',
                            'learning_rate=0.01', '--steps', steps, '--save', folder, '-q'], check=True, stdout=subprocess.DEVNULL)
        compare('a SavedModel', read(f'{folder}/ckpt-0'), read(f'{shared}/variables/variables'), 0)
        with tf.Graph().as_default(), v1.Session() as session:
            v1.saved_model.load(session, ['serve'], shared)
            v1.train.Saver().restore(session, f'{folder}/ckpt-3')
            compare('a SavedModel, restored by TensorFlow', {v.op.name: session.run(v) for v in v1.global_variables()},
                    read(f'{folder}/ckpt-3'), 0)


def check_other_parts(seed):
    """A variable whose checkpoint has it as a whole, or in parts, which are none of its own."""
    r = np.random.default_rng(seed)
    parts = [None, v1.fixed_size_partitioner(3, 0), v1.fixed_size_partitioner(2, 1)]
    with tempfile.TemporaryDirectory() as folder:
        np.save(f'{folder}/x.npy', r.standard_normal((ROWS, 5)).astype('f4'))
        np.save(f'{folder}/y.npy', r.standard_normal(ROWS).astype('f4'))
        want = []
        for i, partitioner in enumerate(parts):
            with tf.Graph().as_default(), v1.Session() as session:
                v = v1.get_variable('v', [5, 3], partitioner=partitioner, initializer=v1.random_normal_initializer(), use_resource=bool(r.integers(2)))
                x, y = v1.placeholder(tf.float32, [None, 5], 'x'), v1.placeholder(tf.float32, [None], 'y')
                loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.matmul(x, tf.convert_to_tensor(v)), 1) - y), name='loss')
                v1.train.GradientDescentOptimizer(.1).minimize(loss, name='train')
                session.run(v1.global_variables_initializer())
                want.append(session.run(tf.convert_to_tensor(v)))
                v1.train.Saver().save(session, f'{folder}/{i}')
        for i in range(len(parts)):
            for k in range(len(parts)):
                train(f'{folder}/{i}.meta', folder, '--train-op', 'train', '--steps', '0', '--restore', f'{folder}/{k}', '--save', f'{folder}/{i}from{k}')
                compare(f'parts {i} from parts {k}', read(f'{folder}/{i}from{k}/ckpt-0'), {'v': want[k]}, 0)


def check_malformed_slices():
    """A malformed shape_and_slice is an error of the RestoreV2 that has it, though a tensor has the variable's name."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f'{folder}/x.npy', np.ones((ROWS, 5), 'f4'))
        np.save(f'{folder}/y.npy', np.ones(ROWS, 'f4'))
        with tf.Graph().as_default(), v1.Session() as session:
            v = v1.get_variable('v', [5, 3])
            x, y = v1.placeholder(tf.float32, [None, 5], 'x'), v1.placeholder(tf.float32, [None], 'y')
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.matmul(x, v), 1) - y), name='loss')
            v1.train.GradientDescentOptimizer(.1).minimize(loss, name='train')
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, f'{folder}/m')
        meta = v1.MetaGraphDef()
        with open(f'{folder}/m.meta', 'rb') as f:
            meta.ParseFromString(f.read())
        specs = next(n for n in meta.graph_def.node if n.name == 'save/RestoreV2/shape_and_slices').attr['value'].tensor
        for spec in '5 3 0,9:-', '5 3 0,2', 'x 3 0,2:-', '5', '5 3 -1,2:-':
            specs.string_val[0] = spec.encode()
            with open(f'{folder}/m.meta', 'wb') as f:
                f.write(meta.SerializeToString())
            r = subprocess.run([environment.TOOL, 'train', f'{folder}/m.meta', '--data', f'x=@{folder}/x.npy', '--data', f'y=@{folder}/y.npy',
                                '--loss', 'loss', '--train-op', 'train', '--batch', str(BATCH), '--steps', '1', '--restore', f'{folder}/m', '-q'],
                               capture_output=True, text=True)
            if r.returncode != 3 or f"m.meta: error: node 'save/RestoreV2': the shape_and_slice of variable 'v' is malformed: '{spec}'" not in r.stderr:
                sys.exit(f'{spec}: exit code {r.returncode}: {r.stderr}')


def check_counting_samplers(seed):
    """Samplers that count the true classes of earlier runs: the same classes as TensorFlow's in every run of a session."""
    r = np.random.default_rng(seed)
    for op in tf.raw_ops.LearnedUnigramCandidateSampler, tf.raw_ops.ThreadUnsafeUnigramCandidateSampler:
        classes, unique = int(r.integers(4, 40)), bool(r.integers(2))
        true = r.integers(0, classes, (7, 2))
        with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default() as g, v1.Session() as session:
            x = v1.placeholder(tf.int64, true.shape, 'x')
            y = [tf.identity(t, f'y{i}') for i, t in enumerate(op(true_classes=x, num_true=2, num_sampled=4, unique=unique, range_max=classes,
                                                                seed=seed + 1, seed2=2))]
            with open(f'{folder}/g.pb', 'wb') as f:
                f.write(g.as_graph_def().SerializeToString())
            np.save(f'{folder}/x.npy', true)
            for runs in range(1, 6):
                want = session.run(y, {x: true})
                subprocess.run([environment.TOOL, 'run', f'{folder}/g.pb', '-q', '--input', f'x=@{folder}/x.npy', '--outputs', 'y0,y1,y2',
                                '--runs', str(runs), '-o', f'{folder}/y.npz'], check=True, stdout=subprocess.DEVNULL)
                with np.load(f'{folder}/y.npz') as z:
                    if not np.array_equal(z['y0'], want[0]):
                        sys.exit(f'{op.__name__}, run {runs}: classes {z["y0"]}, not {want[0]}')
                    for i in 1, 2:
                        compare_values(f'{op.__name__}, run {runs}: y{i}', z[f'y{i}'], want[i], 1e-6, 1e-6)


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else int.from_bytes(os.urandom(3), 'little')
    print('seed', seed)
    optimizers = list(enumerate(OPTIMIZERS.items()))
    for i, (name, optimizer) in optimizers[seed % 3::3] if environment.SANITIZED else optimizers:
        for resource in (False, True) if environment.LONG else ((i + seed) % 2 == 0,):
            check(name, optimizer, resource, seed + 2 * i + resource)
    check_saved_model()
    check_other_parts(seed)
    check_malformed_slices()
    check_counting_samplers(seed)


main()
