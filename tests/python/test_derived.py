#!/usr/bin/env python3
"""Data derived from variables and steady inputs: after steps, assignments and checkpoints an evaluation gives
TensorFlow's results, and it computes exactly the stale buffers again (a step whose kernel did not run took no time)."""
import os, unittest

from package import environment
from case import FolderCase
import halftone as ht
import numpy as np

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
try:
    import tensorflow as tf
except ImportError:
    tf = None

from halftone._library import _api, call, lib

ROWS, IN, HIDDEN, OUT = 16, 160, 192, 128  # so many columns that weights are packed
WEIGHTS = 'first', 'second'


def counts(context):
    """A number for each kernel of the last profiled run of a context: 1 if it ran."""
    got = (_api.ht_step_time * lib.ht_context_steps(context, None, 0))()
    lib.ht_context_steps(context, got, len(got))
    return np.array([s.ns > 0 for s in got], int)


@unittest.skipUnless(tf, 'TensorFlow is not installed')
class Trained(FolderCase):
    """A net of two layers with a step of gradient descent, in Halftone and in TensorFlow."""

    def setUp(self):
        super().setUp()
        v1 = tf.compat.v1
        self.r = np.random.default_rng(3)
        self.enterContext(tf.Graph().as_default())  # to the end of the test, for the saver, too
        x, y = v1.placeholder(tf.float32, [ROWS, IN], 'x'), v1.placeholder(tf.float32, [ROWS, OUT], 'y')
        w = [v1.get_variable(name, shape, initializer=v1.random_normal_initializer(stddev=.1, seed=7), use_resource=True)
             for name, shape in zip(WEIGHTS, ((IN, HIDDEN), (HIDDEN, OUT)))]
        v1.get_variable('scale', [], initializer=v1.ones_initializer(), use_resource=True)
        z = tf.matmul(tf.nn.relu(tf.matmul(x, w[0])), w[1], name='z')
        loss = tf.reduce_mean(tf.square(z - y), name='loss')
        v1.train.GradientDescentOptimizer(.5).minimize(loss, name='train')
        self.saver = v1.train.Saver()
        self.session = v1.Session()
        self.session.run(v1.global_variables_initializer())
        self.prefix = self.saver.save(self.session, os.path.join(self.dir, 'begin'))
        self.weights = w
        self.x, self.y = (self.r.standard_normal(s).astype('f4') for s in ((ROWS, IN), (ROWS, OUT)))

    def tearDown(self):
        self.session.close()
        super().tearDown()

    def ours(self, **more):
        s = ht.load(self.prefix + '.meta').session(train_op='train', loss='loss', **more)
        s.restore(self.prefix)
        return s

    def context(self, s, kind='run'):
        entry = next(e for e in s._entries.values() if e.name.decode().startswith(kind))
        return lib.ht_session_context(s._handle, entry.name)

    def evaluate(self, s, tolerance=1e-5):
        """Checks an evaluation; returns which of its kernels ran (None: it did not profile yet)."""
        z = s.run('z', x=self.x)['z']
        np.testing.assert_allclose(z, self.session.run('z:0', {'x:0': self.x}), tolerance, tolerance)
        context = self.context(s)
        ran = counts(context)
        lib.ht_context_profile(context, 1)
        return ran

    def step(self, s):
        s.step(x=self.x, y=self.y)
        self.session.run('train', {'x:0': self.x, 'y:0': self.y})

    def assign(self, s, i):
        value = self.r.standard_normal(self.weights[i].shape).astype('f4') / 10
        s.assign({WEIGHTS[i]: value})
        self.weights[i].load(value, self.session)

    def test_is_made_when_stale(self):
        for threads in 1, 2:
            with self.subTest(threads=threads):
                self.saver.restore(self.session, self.prefix)
                s = self.ours(threads=threads)
                self.evaluate(s)
                fresh = self.evaluate(s)
                self.step(s)
                stale = self.evaluate(s)
                self.assertEqual(stale.sum(), len(stale))
                made = stale - fresh
                self.assertEqual(made.sum(), 2, 'the packing of each weight')
                for _ in range(3):
                    np.testing.assert_array_equal(self.evaluate(s), fresh)
                of = []
                for i in range(2):
                    self.assign(s, i)
                    of.append(self.evaluate(s) - fresh)
                    np.testing.assert_array_equal(self.evaluate(s), fresh)
                np.testing.assert_array_equal(of[0] + of[1], made)
                self.assertEqual([o.sum() for o in of], [1, 1])
                self.step(s)
                self.step(s)
                np.testing.assert_array_equal(self.evaluate(s), stale)
                s.restore(self.prefix)
                self.saver.restore(self.session, self.prefix)
                np.testing.assert_array_equal(self.evaluate(s), stale)
                np.testing.assert_array_equal(self.evaluate(s), fresh)

    def test_two_evaluations(self):
        """Each entry keeps its own derived data, and notices changes by the others."""
        s = self.ours()
        self.evaluate(s)
        for n in range(3):
            half = s.run('z', x=self.x[:8])['z'] if n else None
            z = self.session.run('z:0', {'x:0': self.x})
            if n:
                np.testing.assert_allclose(half, z[:8], 1e-5, 1e-5)
            self.evaluate(s)
            self.step(s)

    def test_low_precision(self):
        """Weights that are cast and packed; a host that writes to the memory of a variable."""
        s = self.ours(policy='allow_mix_precision_bf16')
        self.evaluate(s, .05)
        fresh = self.evaluate(s, .05)
        self.step(s)
        self.assertGreater((self.evaluate(s, .05) - fresh).sum(), 1)
        np.testing.assert_array_equal(self.evaluate(s, .05), fresh)
        context = self.context(s)
        lib.ht_context_variable(context, 0)  # from now on the host may write to it at any time
        stale = self.evaluate(s, .05)
        self.assertGreater((stale - fresh).sum(), 0)
        np.testing.assert_array_equal(self.evaluate(s, .05), stale)
        call(lib.ht_context_variable_unchanged, context, 0)
        np.testing.assert_array_equal(self.evaluate(s, .05), fresh)
        np.testing.assert_array_equal(self.evaluate(s, .05), stale)


@unittest.skipUnless(tf, 'TensorFlow is not installed')
class Bodies(Trained):
    """Weights with which a loop and both sides of a branch multiply: packed before these, once for each assignment."""

    def setUp(self):
        FolderCase.setUp(self)
        v1 = tf.compat.v1
        self.r = np.random.default_rng(4)
        self.enterContext(tf.Graph().as_default())
        x, n = v1.placeholder(tf.float32, [ROWS, IN], 'x'), v1.placeholder(tf.int32, [], 'n')
        w = [v1.get_variable(name, [IN, IN], initializer=v1.random_normal_initializer(stddev=.1, seed=7), use_resource=True)
             for name in WEIGHTS]
        ones = tf.ones([6])  # a loop that runs more often stops with a fault
        y = v1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w[0])) * tf.gather(ones, i)), (0, x))[1]
        tf.identity(v1.cond(n > 3, lambda: tf.matmul(y, w[1]), lambda: tf.matmul(tf.matmul(y, w[1]), w[0])), name='z')
        tf.reduce_sum(tf.square(w[0]), name='loss')
        tf.group(*(v.assign_sub(.1 * v) for v in w), name='train')
        self.saver = v1.train.Saver()
        self.session = v1.Session()
        self.session.run(v1.global_variables_initializer())
        self.prefix = self.saver.save(self.session, os.path.join(self.dir, 'begin'))
        self.weights = w
        self.x = self.r.standard_normal((ROWS, IN)).astype('f4')

    def evaluate(self, s, n=5):
        z = s.run('z', x=self.x, n=np.int32(n))['z']
        np.testing.assert_allclose(z, self.session.run('z:0', {'x:0': self.x, 'n:0': n}), 1e-5, 1e-5)
        ran = counts(self.context(s))
        lib.ht_context_profile(self.context(s), 1)
        return ran

    def step(self, s):
        s.step()
        self.session.run('train')

    def test_is_made_when_stale(self):
        for threads in 1, 2:
            with self.subTest(threads=threads):
                self.saver.restore(self.session, self.prefix)
                s = self.ours(threads=threads)
                self.evaluate(s)
                fresh = self.evaluate(s)
                of = []
                for i in range(2):
                    self.assign(s, i)
                    of.append(self.evaluate(s) - fresh)
                    np.testing.assert_array_equal(self.evaluate(s), fresh)
                self.assertEqual([o.sum() for o in of], [1, 1], 'the packing of a weight, once for all bodies')
                self.step(s)
                np.testing.assert_array_equal(self.evaluate(s) - fresh, of[0] + of[1])
                np.testing.assert_array_equal(self.evaluate(s), fresh)
                self.assign(s, 1)
                self.evaluate(s, 2)  # the other side of the branch
                s.restore(self.prefix)
                self.saver.restore(self.session, self.prefix)
                np.testing.assert_array_equal(self.evaluate(s) - fresh, of[0] + of[1])
                self.assign(s, 0)
                with self.assertRaisesRegex(ht.InputError, 'iteration 7'):
                    s.run('z', x=self.x, n=np.int32(9))
                np.testing.assert_array_equal(self.evaluate(s), fresh, 'it was made before the run stopped')

    test_two_evaluations = test_low_precision = None


FED = b'''hir 1
entry "" {
  input "x" = %x
  input "w" = %w
  output "z" = %z
}
%x = Placeholder() {dtype=f32, shape=shape[16,64]}
%w = Placeholder() {dtype=f32, shape=shape[64,96]}
%twice = Add(%w, %w) {T=f32}
%z = MatMul(%x, %twice) {T=f32, transpose_a=false, transpose_b=false}
'''


class Fed(FolderCase):
    """Weights as an input."""

    def test_unchanged(self):
        path, artefact = self.path('fed.hir', FED), os.path.join(self.dir, 'fed.htx')
        program = ht.load(path, steady=['w']).compile()
        program.save(artefact)
        for p in program, ht.Program.load(artefact):
            with p.context() as c:
                self.check(c)
        self.assertRaisesRegex(ht.UsageError, "no input 'v'", ht.load, path, steady=['v'])

    def test_parts(self):
        """Any number of rows: the parts of a batch share the buffers."""
        path = self.path('fed.hir', FED.replace(b'shape[16,64]', b'shape[?,64]'))
        program = ht.load(path, steady=['w']).compile()
        r = np.random.default_rng(0)
        w, other = (r.standard_normal((64, 96)).astype('f4') for _ in range(2))
        for threads in 1, 2:
            with program.context(threads=threads) as c:
                c.profile()

                def run(rows, w, unchanged):
                    x = r.standard_normal((rows, 64)).astype('f4')
                    if unchanged:
                        c.unchanged('w')
                    np.testing.assert_allclose(c.run(x=x, w=w)['z'], x @ (w + w), 1e-4, 1e-4)
                    return np.array([ns > 0 for _, ns, _ in c.steps()], int)
                for rows in 1, 7, 70, 200:
                    first = run(rows, w, False)
                    fresh = run(rows, w, True)
                    self.assertEqual((first - fresh).sum(), 2, 'a sum and packing, once for all parts')
                    np.testing.assert_array_equal(run(rows, other, False), first)
                    np.testing.assert_array_equal(run(rows, other, True), fresh)
                run(7, w, False)
                once = run(70, w, True)
                self.assertEqual((run(70, w, False) - once).sum(), 2, 'made for other sizes')

    def check(self, c):
        r = np.random.default_rng(0)
        x, w, other = (r.standard_normal(s).astype('f4') for s in ((16, 64), (64, 96), (64, 96)))
        c.profile()

        def run(w, unchanged):
            if unchanged:
                c.unchanged('w')
            z = c.run(x=x, w=w)['z']
            np.testing.assert_allclose(z, x @ (w + w), 1e-4, 1e-4)
            return np.array([ns > 0 for _, ns, _ in c.steps()], int)

        first = run(w, True)  # no buffer was made before
        fresh = run(w.copy(), True)
        self.assertEqual((first - fresh).sum(), 2, 'a sum and packing')
        for weights in other, w:
            np.testing.assert_array_equal(run(weights, False), first)
        self.assertRaisesRegex(ht.UsageError, "no input 'v'", c.unchanged, 'v')
        c.unchanged('x')  # no data are kept for it
        np.testing.assert_array_equal(run(other, False), first)


if __name__ == '__main__':
    unittest.main()
