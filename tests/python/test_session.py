#!/usr/bin/env python3
"""Sessions in Python: steps, evaluations, checkpoints that go on with the same bits, what is refused."""
import os, unittest

from package import environment
from case import FolderCase
import halftone as ht
import numpy as np

MODEL = os.path.join(environment.ROOT, 'tests', 'cli', 'train.hir')
X = np.random.default_rng(0).random((8, 4), np.float32)
Y = X @ np.array([[1.5], [-2], [.5], [3]], np.float32)
RATE = np.float32(.05)


class Sessions(FolderCase):
    def session(self, seed=3, **more):
        return ht.load(MODEL).session(train_op='train', loss='loss', seed=seed, **more)

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

    def test_goes_on_with_the_same_bits(self):
        s = self.session()
        self.losses(s)
        prefix = s.save(self.dir)
        self.assertEqual(prefix, os.path.join(self.dir, 'ckpt-3'))
        for path in self.dir, prefix:
            other = self.session(seed=99)
            other.restore(path)
            self.assertEqual(other.steps, 3)
            with ht.load(MODEL).session(seed=1) as evaluation:  # before it has entries
                evaluation.restore(path)
                self.assertEqual(evaluation.run('error', x=X, y=Y), other.run('error', x=X, y=Y))
            again = self.losses(other)
        self.assertEqual(self.losses(s), again)
        self.assertNotEqual(self.losses(self.session(seed=4)), self.losses(self.session(seed=5)))

    def test_gradients(self):
        m = ht.load(MODEL)
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
        self.assertRaisesRegex(ht.UsageError, 'needs the loss', ht.load(MODEL).session, loss_scale='dynamic')
        self.assertRaisesRegex(ht.UsageError, "loss scale 'x'", self.session, loss_scale='x')

    def test_refused(self):
        s = self.session()
        with self.assertRaisesRegex(ht.UsageError, "'rate' is not fed"):
            s.step(x=X, y=Y)
        with self.assertRaisesRegex(ht.Verdict, r'step 2: the loss .loss. is'):
            for rate in 1e38, 1e38:
                s.step(x=X, y=Y, rate=np.float32(rate))
        self.assertRaises(ht.UsageError, ht.load(MODEL).session().step, x=X)
        self.assertRaises(ht.SystemFailure, s.restore, self.path('none'))
        s.close()
        self.assertRaises(ValueError, s.save, self.dir)


if __name__ == '__main__':
    unittest.main()
