#!/usr/bin/env python3
"""Fusions of optimisers against TensorFlow: a graph that trains by elementary ops, and the graph that `convert` makes
from it, leave the same variables after five steps.  Near-misses stay as they are, with the same results.  The seed
is printed."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_v2_behavior()
SEED = int(os.environ.get('HALFTONE_SEED', '20261121'))
STEPS = 5
LR, RATE, B1, B2, EPSILON = .1, .9, .9, .99, 1e-7
# For variables after the steps: roundings, which gradients propagate; if 1 - beta is rounded by
# itself, 6e-8 / (1 - .99) of a moment.
BOUND = {'momentum': 1e-5, 'adam': 2e-5}


class Model:
    """A layer that is trained: its loss, gradient and slots."""

    def __init__(self):
        self.x = tf1.placeholder(tf.float32, [8, 6], 'x')
        self.w = self.variable('w')
        self.g = tf1.gradients(tf.reduce_sum(tf.tanh(self.x @ self.w) ** 2), self.w.handle)[0]
        self.g = tf.ensure_shape(self.g, [6, 3])

    def variable(self, name, shape=(6, 3)):
        return tf1.get_variable(name, shape, use_resource=True)


def both(*ops):
    return tf.group(*ops)


def momentum(m):
    a = m.variable('a')
    value = RATE * a + m.g
    return both(a.assign(value), m.w.assign_sub(LR * value))


def momentum_read(m):
    a = m.variable('a')
    return both(m.w.assign_sub(a.assign(m.g + a * RATE, read_value=True) * LR))


def momentum_assign(m):
    a, rate = m.variable('a'), m.variable('rate', ())
    value = RATE * a + m.g
    return both(a.assign(value), m.w.assign(m.w - rate * value))


def nesterov(m):
    a = m.variable('a')
    value = RATE * a + m.g
    return both(a.assign(value), m.w.assign_sub(LR * (m.g + RATE * value)))


def keras_momentum(m):
    a = m.variable('a')
    value = a * RATE - m.g * LR
    return both(a.assign(value), m.w.assign_add(value))


def keras_nesterov(m):
    a = m.variable('a')
    value = a * RATE - m.g * LR
    return both(a.assign(value), m.w.assign_add(value * RATE - m.g * LR))


def moments(m):
    s, v = m.variable('m'), m.variable('v')
    return s, v, B1 * s + (1 - B1) * m.g, B2 * v + (1 - B2) * tf.square(m.g)


def adam_tf1(m):
    s, v, s1, v1 = moments(m)
    p1, p2 = m.variable('p1', ()), m.variable('p2', ())
    rate = LR * tf.sqrt(1 - p2) / (1 - p1)
    with tf1.control_dependencies([both(s.assign(s1), v.assign(v1), m.w.assign_sub(rate * s1 / (tf.sqrt(v1) + EPSILON)))]):
        return both(p1.assign(p1 * B1), p2.assign(p2 * B2))


def adam_plain(m):
    s, v, s1, v1 = moments(m)
    return both(s.assign(s1), v.assign(v1), m.w.assign(m.w - LR * (s1 / (EPSILON + tf.sqrt(v1)))))


def adam_keras(m):
    s, v, t = m.variable('m'), m.variable('v'), m.variable('p1', ())
    alpha = LR * tf.sqrt(1 - tf.pow(B2, t + 1)) / (1 - tf.pow(B1, t + 1))
    s1 = s.assign_add((m.g - s) * (1 - B1))
    v1 = v.assign_add((m.g * m.g - v) * (1 - B2))
    with tf1.control_dependencies([m.w.assign_sub((s1 * alpha) / (tf.sqrt(v1) + EPSILON), read_value=False)]):
        return t.assign_add(1., read_value=False)


# ---- updates that are not one op ----


def other_rate(m):
    """Nesterov's second use of the momentum has another momentum."""
    a = m.variable('a')
    value = RATE * a + m.g
    return both(a.assign(value), m.w.assign_sub(LR * (m.g + .8 * value)))


def logged(m):
    a = m.variable('a')
    value = RATE * a + m.g
    log = m.variable('log')
    return both(a.assign(value), m.w.assign_sub(LR * value), log.assign(value))


def torn(m):
    """A node between the two writes reads the accumulator, and the rate depends on it."""
    a = m.variable('a')
    value = RATE * a + m.g
    write = a.assign(value, read_value=False)
    with tf1.control_dependencies([write]):
        rate = LR / (1 + tf.reduce_sum(tf.abs(a.read_value())))
    return both(write, m.w.assign_sub(rate * value))


def branch(m):
    """The variable is written only if a branch is taken."""
    a = m.variable('a')
    value = RATE * a + m.g
    positive = tf.reduce_sum(m.x) > 0
    with tf1.control_dependencies([tf.identity(tf.raw_ops.Switch(data=positive, pred=positive).output_true)]):
        write = m.w.assign_sub(tf.identity(LR * value), read_value=False)
    return both(a.assign(value), write)


def other_beta(m):
    s, v = m.variable('m'), m.variable('v')
    s1, v1 = B1 * s + .2 * m.g, B2 * v + (1 - B2) * tf.square(m.g)
    return both(s.assign(s1), v.assign(v1), m.w.assign_sub(LR * s1 / (tf.sqrt(v1) + EPSILON)))


def other_gradient(m):
    s, v = m.variable('m'), m.variable('v')
    s1, v1 = B1 * s + (1 - B1) * m.g, B2 * v + (1 - B2) * tf.square(2 * m.g)
    return both(s.assign(s1), v.assign(v1), m.w.assign_sub(LR * s1 / (tf.sqrt(v1) + EPSILON)))


def adam_w(m):
    """Weight decay beside Adam's step."""
    s, v, s1, v1 = moments(m)
    return both(s.assign(s1), v.assign(v1), m.w.assign_sub(LR * (s1 / (tf.sqrt(v1) + EPSILON) + .1 * m.w)))


def lamb(m):
    """Adam's step, scaled to the norm of the weights."""
    s, v, s1, v1 = moments(m)
    step = s1 / (tf.sqrt(v1) + EPSILON) + .1 * m.w
    return both(s.assign(s1), v.assign(v1), m.w.assign_sub(LR * tf.norm(m.w) / tf.norm(step) * step))


# The fusion, its op and use_nesterov; op None: it must not match.
CASES = {
    momentum: ('momentum', 'ResourceApplyMomentum', False),
    momentum_read: ('momentum', 'ResourceApplyMomentum', False),
    momentum_assign: ('momentum', 'ResourceApplyMomentum', False),
    nesterov: ('momentum', 'ResourceApplyMomentum', True),
    keras_momentum: ('momentum', 'ResourceApplyKerasMomentum', False),
    keras_nesterov: ('momentum', 'ResourceApplyKerasMomentum', True),
    adam_tf1: ('adam', 'ResourceApplyAdam', False),
    adam_plain: ('adam', 'ResourceApplyAdam', False),
    adam_keras: ('adam', 'ResourceApplyAdam', False),
    other_rate: ('momentum', None, False),
    logged: ('momentum', None, False),
    torn: ('momentum', None, False),
    branch: ('momentum', None, False),
    other_beta: ('adam', None, False),
    other_gradient: ('adam', None, False),
    adam_w: ('adam', None, False),
    lamb: ('adam', None, False),
}


class Optimizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        r = np.random.RandomState(SEED)
        cls.x = r.standard_normal((STEPS, 8, 6)).astype(np.float32)
        cls.start = {n: r.uniform(.1, .5, (6, 3)).astype(np.float32) for n in ('w', 'a', 'm', 'v', 'log')}
        cls.start |= {'rate': np.float32(LR), 'p1': np.float32(B1), 'p2': np.float32(B2)}

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def tool(self, *args):
        r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=environment.HANGS)
        self.assertEqual(r.returncode, 0, (args, r.stderr))
        return r.stdout

    def model(self, make):
        with tf.Graph().as_default() as graph:
            train = make(Model())
            with tf1.control_dependencies([train]):
                tf.no_op('train')
        # Initialisers and reads for printing are not part of a step.
        kept = tf1.graph_util.extract_sub_graph(graph.as_graph_def(), ['train'])
        path = self.path(make.__name__ + '.pb')
        with open(path, 'wb') as f:
            f.write(kept.SerializeToString())
        return path

    def variables(self, path):
        """The variables after some steps of a written graph, and its nodes."""
        g = tf1.GraphDef()
        with open(path, 'rb') as f:
            g.ParseFromString(f.read())
        handles = [n.name for n in g.node if n.op == 'VarHandleOp']
        with tf.Graph().as_default() as graph:
            tf1.import_graph_def(g, name='')
            at = {h: graph.get_tensor_by_name(h + ':0') for h in handles}
            init = [tf.raw_ops.AssignVariableOp(resource=t, value=self.start[h]) for h, t in at.items()]
            read = {h: tf.raw_ops.ReadVariableOp(resource=t, dtype=tf.float32) for h, t in at.items()}
            with tf1.Session(graph=graph) as s:
                s.run(init)
                for x in self.x:
                    s.run('train', {'x:0': x})
                return s.run(read), g.node

    def check(self, make):
        name, op, use_nesterov = CASES[make]
        model, out, state = self.model(make), self.path('out.pb'), {}
        want, _ = self.variables(model)
        self.assertTrue(all(np.any(want[v] != self.start[v]) for v in want if v != 'rate'))
        for on in 'on', 'off':
            switch = f'--optimization_switch={name}:{on}'
            self.tool('convert', switch, '--outputs', 'train', model, '-o', out)
            got, nodes = self.variables(out)
            self.assertEqual(got.keys(), want.keys())
            for v in want:
                np.testing.assert_allclose(got[v], want[v], rtol=BOUND[name], atol=BOUND[name], err_msg=f'{on} {v}')
            ops = [n for n in nodes if n.op == op]
            self.assertEqual(len(ops), int(on == 'on' and op is not None), [n.op for n in nodes])
            self.assertFalse(any(n.op.startswith('ResourceApply') for n in nodes if n not in ops))
            self.assertTrue(all(n.attr['use_nesterov'].b == use_nesterov for n in ops))
            if ops:
                self.assertFalse([n.name for n in nodes if n.op.startswith('Assign') and n.input[0] in set('wamv')])
            report = json.loads(self.tool('explain', '--format=json', '--outputs', 'train', switch, model))
            state[on] = {f['name']: f for f in report['fusion_results']}.get(name, {'effects': 0})
        self.assertEqual(state['on']['effects'], int(op is not None))
        self.assertEqual(state['off']['effects'], 0)
        self.assertIn('is off', state['off']['state'])


def add_case(make):
    setattr(Optimizers, 'test_' + make.__name__, lambda self: self.check(make))


for make in CASES:
    add_case(make)

if __name__ == '__main__':
    print(f'seed {SEED}')
    unittest.main()
