#!/usr/bin/env python3
"""Sessions in Python: steps, evaluations, checkpoints after which runs continue with the same bits, refused input."""
import os, struct, subprocess, sys, unittest

from package import TRAINING, environment, tool
from case import FolderCase
from crc32c import crc32c
import halftone as ht
import numpy as np

X = np.random.default_rng(0).random((8, 4), np.float32)
Y = X @ np.array([[1.5], [-2], [.5], [3]], np.float32)
RATE = np.float32(.05)


class Files(FolderCase):
    def test_events_are_records(self):
        """An event file is a file of records, which are no examples."""
        folder = os.path.join(self.dir, 'deep', 'run')
        with ht.EventFile(folder, first=3) as events:
            events.scalars(4, {'loss': 1.5, 'other': float('nan')})
        with ht.Records(os.path.join(folder, os.listdir(folder)[0])) as records:
            self.assertEqual(len(records), 3)  # version, start, step
            self.assertRaisesRegex(ht.InputError, 'tensorflow.Example', records.feature, 2, 'x')
            self.assertRaisesRegex(ht.UsageError, 'record 3 of 3', records.read, 3, 'x', 'float32', (1,))
        self.assertRaises(ht.SystemFailure, ht.EventFile, '/dev/null/in')
        events.close()
        self.assertRaises(ValueError, events.scalars, 5, {})

    def test_examples(self):
        """A feature of three integers, of one string."""
        def field(number, body):
            return bytes([number << 3 | 2, len(body)]) + body
        def entry(name, feature):
            return field(1, field(1, name) + field(2, feature))
        body = field(1, entry(b'i', field(3, field(1, b'\1\2\3'))) + entry(b's', field(1, field(1, b'\0\0\x80?'))))
        path = self.path('x.tfrecord', frame(body) * 2)
        records = ht.Records(path)
        self.assertEqual((len(records), records.feature(1, 'i')), (2, ht.Feature('int64', 3, 0)))
        self.assertEqual(records.read(1, 'i', 'int16', (3,)).tolist(), [1, 2, 3])
        self.assertEqual(records.read(0, 's', 'float32', ()), 1)
        self.assertRaisesRegex(ht.InputError, 'it has 3 elements, where 4 are read', records.read, 0, 'i', 'int16', (2, 2))
        self.assertRaisesRegex(ht.InputError, 'is wrong', ht.Records, self.path('y.tfrecord', b'1' * 20))


def frame(data):
    n = struct.pack('<Q', len(data))
    return n + crc32c(n) + data + crc32c(data)


# The update could run as soon as the product is computed; the check stands before it.
CHECKED = '''hir 1
entry "" {
  input "x" = %x
  output "loss" = %loss
}
%x = Placeholder() {dtype=f32, shape=shape[4]}
%w = VarHandleOp() {container="", dtype=f32, shape=shape[4], shared_name="w"}
%w/start = Const() {dtype=f32, value=tensor f32[4] {1.0, 2.0, 3.0, 4.0}}
%w/Assign = AssignVariableOp(%w, %w/start) {dtype=f32}
%w/read = ReadVariableOp(%w) {dtype=f32}
%product = Mul(%w/read, %x) {T=f32}
%axes = Const() {dtype=i32, value=tensor i32[1] {0}}
%loss = Sum(%product, %axes) {T=f32, Tidx=i32, keep_dims=false}
%limit = Const() {dtype=f32, value=tensor f32[] {100.0}}
%fine = Less(%loss, %limit) {T=f32}
%check = Assert(%fine, %loss) {T=[f32], summarize=3}
%update = AssignSubVariableOp(%w, %x) {dtype=f32}
%train = NoOp(^update, ^check)
'''


def layers(widths, batch, clips):
    """A step of products and tanh with momentum; where it clips, gradients are divided by the norm of all of them."""
    def const(name, value, dtype='f32', shape=''):
        return f'%{name} = Const() {{dtype={dtype}, value=tensor {dtype}[{shape}] {{{value}}}}}'
    n, text = len(widths) - 1, [const('rate', .01), const('momentum', .5), const('axes', '0, 1', 'i32', '2'), const('seed', 1.0),
                                f'%x = Placeholder() {{dtype=f32, shape=shape[{batch},{widths[0]}]}}']
    for i in range(n):
        shape = f'{widths[i]},{widths[i + 1]}'
        text += [f'%w{i}{part} = VarHandleOp() {{container="", dtype=f32, shape=shape[{shape}], shared_name="w{i}{part}"}}\n'
                 + const(f'w{i}{part}/shape', shape, 'i32', '2') + f'\n%w{i}{part}/start = RandomUniform(%w{i}{part}/shape) {{T=i32, dtype=f32, seed=1, seed2={i}}}\n'
                 + f'%w{i}{part}/Assign = AssignVariableOp(%w{i}{part}, %w{i}{part}/start) {{dtype=f32}}' for part in ('', '/slot')]
        text += [f'%w{i}/read = ReadVariableOp(%w{i}) {{dtype=f32}}',
                 f'%p{i} = MatMul(%{f"a{i - 1}" if i else "x"}, %w{i}/read) {{T=f32, transpose_a=false, transpose_b=false}}', f'%a{i} = Tanh(%p{i}) {{T=f32}}']
    text.append(f'%loss = Mean(%a{n - 1}, %axes) {{T=f32, Tidx=i32, keep_dims=false}}')
    for i in reversed(range(n)):
        by = f'TanhGrad(%a{i}, %{f"b{i + 1}" if i < n - 1 else "ones"})'
        if i == n - 1:
            text += [f'%shape = Shape(%a{i}) {{T=f32, out_type=i32}}', '%ones = Fill(%shape, %seed) {T=f32, index_type=i32}']
        text += [f'%d{i} = {by} {{T=f32}}',
                 f'%g{i} = MatMul(%{f"a{i - 1}" if i else "x"}, %d{i}) {{T=f32, transpose_a=true, transpose_b=false}}']
        if i:
            text.append(f'%b{i} = MatMul(%d{i}, %w{i}/read) {{T=f32, transpose_a=false, transpose_b=true}}')
    if clips:
        text += [f'%s{i} = L2Loss(%g{i}) {{T=f32}}' for i in range(n)]
        text += ['%sum = AddN(' + ', '.join(f'%s{i}' for i in range(n)) + ') {N=' + str(n) + ', T=f32}', '%norm = Sqrt(%sum) {T=f32}']
        text += [f'%c{i} = RealDiv(%g{i}, %norm) {{T=f32}}' for i in range(n)]
    text += [f'%u{i} = ResourceApplyMomentum(%w{i}, %w{i}/slot, %rate, %{"c" if clips else "g"}{i}, %momentum) {{T=f32, use_locking=false, use_nesterov=false}}'
             for i in range(n)]
    return '\n'.join(['hir 1', 'entry "" {', '  input "x" = %x', '  output "loss" = %loss', '}', *text,
                      '%train = NoOp(' + ', '.join(f'^u{i}' for i in range(n)) + ')\n'])


class Sessions(FolderCase):
    def session(self, seed=3, **more):
        return ht.load(TRAINING).session(train_op='train', loss='loss', seed=seed, **more)

    def losses(self, s, n=3):
        return [float(s.step(x=X, y=Y, rate=RATE)['loss']) for _ in range(n)]

    def test_learns(self):
        s = self.session()
        self.losses(s, 200)
        self.assertEqual(s.steps, 200)
        self.assertLess(s.run('error', x=X[:3], y=Y[:3])['error'], .05)
        self.assertEqual(sorted(s.variables()), ['step', 'w', 'w/slot'])
        self.assertEqual(s.variables()['step'], 200)
        self.assertIn('200 steps', repr(s))

    def test_a_check_that_fails_changes_nothing(self):
        s = ht.load(self.path('checked.hir', CHECKED.encode())).session(train_op='train', loss='loss')
        one = np.ones(4, np.float32)
        self.assertEqual(s.step(x=one)['loss'], 10)
        self.assertRaisesRegex(ht.HalftoneError, 'check', s.step, x=100 * one)
        self.assertEqual(s.variables()['w'].tolist(), [0, 1, 2, 3])
        self.assertEqual(s.step(x=one)['loss'], 6)

    def test_memory_of_a_step(self):
        """Variables and slots by their sizes, and a plan that keeps to the formula."""
        s = self.session()
        self.assertIsNone(s.step_memory)
        self.losses(s, 1)
        m = s.step_memory
        self.assertEqual((m.variables, m.slots), (16, 16 + 8))
        self.assertLessEqual(m.gradients, 64)
        self.assertLessEqual(m.peak, m.bound)
        self.assertGreaterEqual(m.peak, m.variables + m.slots + m.arena)
        s.close()
        with self.assertRaises(ValueError):
            s.step_memory

    def test_memory_of_random_steps(self):
        """Layers of random widths: gradients are few at a time, unless a norm of all of them makes each update wait; copies are those of weights in 16 bits."""
        r = np.random.default_rng(int(os.environ.get('HALFTONE_SEED', '1')))
        for clips in False, True:
            widths = r.integers(20, 90, int(r.integers(4, 9))).tolist()
            batch = int(r.integers(30, 80))
            weights = [4 * a * b for a, b in zip(widths, widths[1:])]
            path = self.path('layers.hir', layers(widths, batch, clips).encode())
            for policy in None, 'allow_mix_precision_bf16':
                s = ht.load(path).session(train_op='train', loss='loss', policy=policy)
                s.step(x=np.ones((batch, widths[0]), np.float32))
                m, said = s.step_memory, (widths, batch, clips, policy, s.step_memory)
                self.assertEqual((m.variables, m.slots), (sum(weights), sum(weights)), said)
                self.assertLessEqual(m.peak, m.bound, said)
                self.assertLessEqual(m.gradients, sum(weights) + max(weights) + 64 * len(weights), said)
                if clips:
                    self.assertGreaterEqual(m.gradients, sum(weights) / 2, said)  # in 16 bits at least
                else:
                    self.assertLess(m.gradients, sum(weights), said)
                self.assertGreaterEqual(m.activations, 2 * batch * widths[1], said)

    def test_goes_on_with_the_same_bits(self):
        s = self.session()
        self.losses(s)
        prefix = s.save(self.dir)
        self.assertEqual(prefix, os.path.join(self.dir, 'ckpt-3'))
        for path in self.dir, prefix:
            other = self.session(seed=99)
            other.restore(path)
            self.assertEqual(other.steps, 3)
            with ht.load(TRAINING).session(seed=1) as evaluation:  # before the session has entries
                evaluation.restore(path)
                self.assertEqual(evaluation.run('error', x=X, y=Y), other.run('error', x=X, y=Y))
            again = self.losses(other)
        self.assertEqual(self.losses(s), again)
        self.assertNotEqual(self.losses(self.session(seed=4)), self.losses(self.session(seed=5)))

    def test_gradients(self):
        m = ht.load(TRAINING)
        self.assertEqual(m.gradients('loss'), [])
        self.assertEqual(m.gradients('train'), ['gradient'])
        step = m.session(train_op='train', fetches=['gradient'], seed=1).step(x=X, y=Y, rate=RATE)
        self.assertEqual(step['gradient'].shape, (4, 1))
        self.assertRaises(ht.UsageError, m.gradients, 'none')

    def test_assign(self):
        s = self.session()
        s.step(x=X, y=Y, rate=RATE)
        s.assign({'w': np.zeros((4, 1), np.float32)})
        self.assertAlmostEqual(float(s.run('error', x=X, y=Y)['error']), float((Y ** 2).mean()), 5)
        self.assertRaises(ht.UsageError, s.assign, {'none': 1})
        self.assertRaises(ht.InputError, s.assign, {'w': np.zeros((4, 2), np.float32)})

    def test_loss_scale(self):
        s = self.session(loss_scale='dynamic:64,incr-every=3')
        self.assertEqual(s.loss_scale[:5], (64, 0, 0, 0, 0))
        plain = self.losses(self.session())
        self.assertEqual(self.losses(s, 3), plain)
        self.assertEqual(s.loss_scale[:5], (128, 0, 0, 3, 0))
        before = s.variables()
        s.step(x=X, y=Y, rate=RATE, boost=np.float32(1e38))
        self.assertEqual(s.loss_scale, (128, 0, 1, 4, 1, False, False))
        self.assertTrue(all(np.array_equal(a, before[n]) for n, a in s.variables().items()))
        s.save(self.dir)
        other = self.session(loss_scale='dynamic')
        other.step(x=X, y=Y, rate=RATE)
        other.restore(self.dir)
        self.assertEqual(other.loss_scale[:5], (128, 0, 1, 4, 1))
        with self.assertRaisesRegex(ht.Verdict, 'step 104: gradients overflow at loss scale 1'):
            fixed = self.session(loss_scale='fixed:1')
            fixed.steps = 4
            for _ in range(200):
                fixed.step(x=X, y=Y, rate=RATE, boost=np.float32(np.inf))
        self.assertIsNone(self.session().loss_scale)
        self.assertRaisesRegex(ht.UsageError, 'needs the loss', ht.load(TRAINING).session, loss_scale='dynamic')
        self.assertRaisesRegex(ht.UsageError, "loss scale 'x'", self.session, loss_scale='x')

    # ---- phases ----

    def test_phases(self):
        """Steps of phases equal those of sessions of their policies, which pass their variables on by a checkpoint."""
        s = self.session(accelerate_train_mode='phases=fast1:2,original:3,fast', loss_scale='fixed:8')
        phases, losses = [], []
        for _ in range(7):
            losses += self.losses(s, 1)
            phases.append(s.phase)
        self.assertEqual(phases, ['fast1'] * 2 + ['original'] * 3 + ['fast'] * 2)
        by_hand = []
        for i, (policy, n) in enumerate((('allow_mix_precision_bf16', 2), ('must_keep_origin_dtype', 3), ('allow_mix_precision_fp16', 2))):
            part = self.session(policy=policy, loss_scale='fixed:8')
            if i:
                part.restore(self.dir)
            by_hand += self.losses(part, n)
            part.save(self.dir)
        self.assertEqual(losses, by_hand)

    def test_phases_go_on(self):
        """A session that is restored within a phase continues that phase, by step and by loss."""
        for mode, more in (('fast1|step|0.5', {'steps': 12}), ('fast1|loss|1.1', {'target_loss': .5}), ('phases=fast1:5,original', {})):
            whole = self.session(accelerate_train_mode=mode, **more)
            want = [(float(whole.step(x=X, y=Y, rate=RATE)['loss']), whole.phase) for _ in range(12)]
            part = self.session(accelerate_train_mode=mode, **more)
            self.losses(part, 4)
            part.save(self.dir)
            again = self.session(accelerate_train_mode=mode, **more)
            again.restore(self.dir)
            self.assertEqual([(float(again.step(x=X, y=Y, rate=RATE)['loss']), again.phase) for _ in range(8)], want[4:], mode)
            self.assertEqual({p for _, p in want}, {'fast1', 'original'}, mode)

    def test_counters(self):
        s = self.session(accelerate_train_mode='fast1|step|0.5', steps=20)
        loss = self.losses(s, 3)[-1]
        self.assertEqual(s.counters, ht.Counters(3, 20, loss, 0))
        s.counters = s.counters._replace(step_now=10)
        self.losses(s, 1)
        self.assertEqual((s.phase, s.counters.step_now), ('original', 11))
        by_loss = self.session(accelerate_train_mode='fast1|loss|1.1', target_loss=1e-9)
        self.losses(by_loss, 2)
        self.assertEqual(by_loss.phase, 'fast1')
        by_loss.counters = by_loss.counters._replace(target_loss=loss * 10)
        self.losses(by_loss, 1)
        self.assertEqual(by_loss.phase, 'original')
        with self.assertRaises(ht.UsageError):
            s.counters = s.counters._replace(step_now=-1)

    def test_loops(self):
        """Loops end at multiples of iterations_per_loop, or with the batches; low precision may end within a loop."""
        batch = {'x': X, 'y': Y, 'rate': RATE}
        plain = self.losses(self.session(), 10)
        s = self.session(iterations_per_loop=4)
        batches = iter([batch] * 10)
        loops = [s.loop(batches) for _ in range(4)]
        self.assertEqual([(n.steps, n.loss) for n in loops[:3]], [(4, plain[3]), (4, plain[7]), (2, plain[9])])
        self.assertAlmostEqual(loops[0].mean_loss, sum(plain[:4]) / 4, 6)
        self.assertEqual((loops[3].steps, loops[3].results), (0, {}))
        cut = self.session(iterations_per_loop=4, accelerate_train_mode='phases=fast1:6,original')
        seen = []
        for _ in range(3):
            cut.loop([batch] * 4)
            seen.append((cut.steps, cut.phase))
        self.assertEqual(seen, [(4, 'fast1'), (8, 'original'), (12, 'original')])

    def test_entries_of_an_artefact(self):
        """A step in two precisions and an evaluation, over the same variables; after a checkpoint of them, runs
        continue with the same bits."""
        htx = self.path('m.htx')
        tool('compile', TRAINING, '--entry', 'step=loss,train', '--entry', 'evaluation=error', '--policy',
             'must_keep_origin_dtype,allow_mix_precision_bf16', '--input-shape', 'x:8,4;y:8,1', '-q', '--no-cache', '-o', htx)
        def opened():
            e = ht.Entries(seed=3)
            e.load(htx)
            e.load(htx, entry='step', policy='allow_mix_precision_bf16', name='fast')
            e.load(htx, entry='evaluation')
            return e
        batch = {'x': X, 'y': Y, 'rate': RATE}
        e = opened()
        self.assertEqual({*e.variables()}, {'w', 'w/slot', 'step'})
        first = e.run('evaluation', x=X, y=Y)['error']
        for _ in range(20):
            e.run('fast', batch)
            e.run('step', batch)
        self.assertLess(e.run('evaluation', x=X, y=Y)['error'], first)
        self.assertEqual(e.variables()['step'], 40)
        e.save(self.path('kept'))
        more = [e.run('step', batch)['loss'] for _ in range(3)]
        other = opened()
        other.restore(self.path('kept'))
        self.assertEqual([other.run('step', batch)['loss'] for _ in range(3)], more)
        self.assertRaisesRegex(ht.UsageError, "'none'; there are 'step', 'fast', 'evaluation'", e.run, 'none')
        self.assertRaisesRegex(ht.UsageError, "'step' already", e.load, htx)
        self.assertRaisesRegex(ht.UsageError, 'is of that entry', e.load, htx, entry='none')
        self.assertEqual(ht.Program.load(htx, entry='evaluation').outputs[0].name, 'error')

    def test_phases_refused(self):
        for pattern, more in (('the list is KIND:STEPS', {'accelerate_train_mode': 'phases=fast:'}),
                              ('need steps', {'accelerate_train_mode': 'fast|step'}),
                              ('need a target loss', {'accelerate_train_mode': 'fast|loss'}),
                              ('no effect', {'accelerate_train_mode': 'fast|step', 'steps': 4, 'target_loss': 1.}),
                              ("'force_fp16' was stated", {'accelerate_train_mode': 'fast|step', 'steps': 4, 'policy': 'force_fp16'}),
                              ('by its name', {'accelerate_train_mode': 'fast|step', 'steps': 4, 'policy': ht.Policy('origin')}),
                              ('at least one step', {'iterations_per_loop': 0})):
            with self.assertRaisesRegex(ht.UsageError, pattern):
                self.session(**more)
        with self.assertRaisesRegex(ht.UsageError, 'needs the loss'):
            ht.load(TRAINING).session(train_op='train', accelerate_train_mode='fast1|step', steps=4)

    def test_refused(self):
        s = self.session()
        with self.assertRaisesRegex(ht.UsageError, "'rate' is not fed"):
            s.step(x=X, y=Y)
        with self.assertRaisesRegex(ht.Verdict, r'step 2: the loss .loss. is'):
            for rate in 1e38, 1e38:
                s.step(x=X, y=Y, rate=np.float32(rate))
        self.assertRaises(ht.UsageError, ht.load(TRAINING).session().step, x=X)
        self.assertRaises(ht.SystemFailure, s.restore, self.path('none'))
        s.close()
        self.assertRaises(ValueError, s.save, self.dir)


# A SavedModel of TensorFlow 2, whose checkpoint has a key for each variable that is not its name.
SAVED = '''
import sys
try:
    import tensorflow as tf
except ImportError:
    sys.exit(77)


class Net(tf.Module):
    def __init__(self):
        super().__init__('net')
        self.factor, self.sum = tf.Variable([2., 3.], name='one'), tf.Variable(0., name='other')

    @tf.function(input_signature=[tf.TensorSpec([2], name='x')])
    def train(self, x):
        loss = tf.reduce_sum(self.factor * x)
        self.factor.assign_sub(x)
        self.sum.assign_add(loss)
        return {'loss': loss}


net = Net()
tf.saved_model.save(net, sys.argv[1], signatures={'train': net.train})
'''


class SavedModels(FolderCase):
    def setUp(self):
        super().setUp()
        self.model = os.path.join(self.dir, 'model')
        made = subprocess.run([sys.executable, '-c', SAVED, self.model], capture_output=True, text=True,
                              env={k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'})
        if made.returncode == 77:
            self.skipTest('TensorFlow is not installed')
        self.assertEqual(made.returncode, 0, made.stderr)

    def session(self):
        return ht.load(self.model, signature='train').session(loss='loss')

    def test_values_that_stay(self):
        """Assigned and restored values stay where the model has a checkpoint, and keep its keys."""
        x = np.ones(2, np.float32)
        s = self.session()
        s._entry('step', ['loss'], {'x': x}, s._policy, s._phases.kinds[0])
        s.assign({'one': [5, 7]})
        self.assertEqual(s.step(x=x)['loss'], 12)
        saved = s.save(os.path.join(self.dir, 'saved'))
        with open(saved + '.index', 'rb') as f:
            keys = f.read()
        self.assertIn(b'factor/.ATTRIBUTES/VARIABLE_VALUE', keys)
        self.assertNotIn(b'one', keys)
        s.initialise()  # all have values
        self.assertEqual(s.step(x=x)['loss'], 10)
        again = self.session()
        again.restore(saved)
        self.assertEqual(again.step(train_x=x)['loss'], 10)
        self.assertEqual(again.variables()['other'], 22)
        self.assertEqual(self.session().step(train_x=x)['loss'], 5)


if __name__ == '__main__':
    unittest.main()
