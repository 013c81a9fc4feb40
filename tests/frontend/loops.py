#!/usr/bin/env python3
"""Branches and loops in functional form: graphs of TensorFlow, frozen and with variables, give TensorFlow's results: by
the tool on one thread and two, from an artefact, and as a net.  Graphs that are converted under policies give in
TensorFlow the results of the tool.  Unsupported graphs are refused with the node's name.

Exit code 77: nothing to test with.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
from live import TOLERANCE, check, close, freeze, np, run, tf, tool  # noqa: E402

# ---- graphs: name, function, shapes of its float32 operands ----

def weights(r, *shape):
    return (r.standard_normal(shape) * 0.3).astype('f4')


def counted(r, rows, columns):
    """A counter, a carried tensor, and two that no iteration changes."""
    w, n = weights(r, columns, columns), int(r.integers(0, 12))
    return lambda x: tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y @ w) + x), (0, x))


def until(r, rows, columns):
    """A condition on the data, results in another order, and one result that is a constant."""
    limit = float(r.uniform(5, 50))

    def f(x, y):
        a, b, c = tf.while_loop(lambda a, b, c: tf.reduce_sum(tf.abs(a)) < limit,
                                lambda a, b, c: (a * 1.5 + 0.1, a, c), (x, y, tf.constant([1., 2.])))
        return b, c, a
    return f


def branch(r, rows, columns):
    w, at = weights(r, columns, columns), float(r.uniform(-1, 1))
    return lambda x: tf.cond(tf.reduce_mean(x) > at, lambda: (tf.nn.softmax(x @ w), tf.constant(1)),
                             lambda: (tf.nn.relu(x) - at, tf.constant(0)))


def nested(r, rows, columns):
    """A loop and a branch in a loop, and a function that both call."""
    w = weights(r, columns, columns)

    @tf.function
    def mixed(x):
        return tf.tanh(x @ w)

    def body(i, y):
        z = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * 0.5 + mixed(y)), (0, y))[1]
        return i + 1, tf.cond(tf.reduce_max(z) > 0.5, lambda: z * 0.1, lambda: mixed(z) + y)
    return lambda x: tf.while_loop(lambda i, y: i < 5, body, (0, x))


def choices(r, rows, columns):
    """One of several branches, also by a number that selects none, and a single branch."""
    w, n = weights(r, columns, columns), int(r.integers(2, 9))

    def arms(y):
        return [lambda k=k: tf.tanh(y * (k + 1) @ w) if k % 2 else y - k for k in range(n)]

    def body(i, y):
        y = tf.switch_case(i, arms(y))
        return i + 1, tf.switch_case(i, [lambda: (y + 1, tf.constant(2))])[0]
    fixed = int(r.integers(n))
    return lambda x: (tf.while_loop(lambda i, y: i < n + 2, body, (-2, x))[1],
                      tf.switch_case(tf.constant(fixed), arms(x)))


def images(r, rows, columns):
    """A convolution in a body, whose weights are constants there, and whose layout is chosen."""
    w = weights(r, 3, 3, 8, 8)

    def f(x):
        x = tf.reshape(x, [1, rows, columns, 1]) * tf.ones([8])
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (
            i + 1, tf.nn.relu(tf.nn.conv2d(y, w, 1, 'SAME') + y)), (0, x))[1]
    return f


def weighted(r, rows, columns):
    """Weights that are computed in front of a loop in a loop, each of which may have no iteration."""
    outer, inner = (int(n) for n in r.integers(0, 4, 2))

    def f(x, y):
        w = tf.tile(tf.matmul(y, y, transpose_a=True) * 0.1, [1, 64])

        def step(i, z):
            return i + 1, tf.reduce_mean(tf.reshape(tf.tanh(z @ w), [rows, 64, columns]), 1) + x
        return tf.while_loop(lambda i, z: i < outer, lambda i, z: (i + 1, tf.while_loop(lambda j, z: j < inner, step, (0, z))[1] * 0.5), (0, x))
    return f


def integers(r, rows, columns):
    def f(x):
        n = tf.cast(tf.abs(x * 10), tf.int64)
        return tf.while_loop(lambda n, s, d: tf.reduce_any(n > 1), lambda n, s, d: (
            tf.where(n % 2 == 0, n // 2, n - 1), s + tf.cast(n > 1, tf.int32), d * 0.5),
            (n, tf.zeros([rows, columns], tf.int32), tf.cast(x, tf.float64)))
    return f


GRAPHS = (counted, 1), (until, 2), (branch, 1), (nested, 1), (choices, 1), (images, 1), (weighted, 2), (weighted, 2), (integers, 1)


class Loop(tf.Module):
    def __init__(self, r, variables):
        super().__init__()
        self.v = [tf.Variable(weights(r, 3) + 0.5) for _ in range(variables)]

    @tf.function
    def add(self, x, v):
        return x + tf.abs(v)

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name='x')])
    def serve(self, x):
        while tf.reduce_sum(x) < 100:
            for v in self.v:
                x = self.add(x, v)
        return {'y': x}


class Branch(Loop):
    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name='x')])
    def serve(self, x):
        if tf.reduce_sum(x) < 1:
            y = x + tf.add_n(self.v)
        else:
            y = x * self.v[0]
        return {'y': y}


def check_frozen(r, folder, make, operands):
    rows, columns = (int(n) for n in r.integers(1, 9, 2))
    f = freeze(make(r, rows, columns), [tf.TensorSpec((rows, columns), tf.float32)] * operands, f'{folder}/m.pb')
    feeds = {i.op.name: r.standard_normal((rows, columns)).astype('f4') for i in f.inputs}
    want = f(*map(tf.constant, feeds.values()))
    check(make.__name__, folder, f'{folder}/m.pb', feeds, [o.op.name for o in f.outputs], [w.numpy() for w in want])


def check_variables(r, folder, kind, variables):
    m, path = kind(r, variables), f'{folder}/saved'
    tf.saved_model.save(m, path, signatures=m.serve)
    x = r.standard_normal(3).astype('f4')
    (got,) = run(folder, path, {'x': x}, ['StatefulPartitionedCall'])
    if not close(got, m.serve(tf.constant(x))['y'].numpy(), TOLERANCE):
        sys.exit(f'{kind.__name__} of {variables} variables: {got}')
    tool('explain', '-q', path, '--policy', 'allow_mix_precision_bf16')


# ---- refused graphs ----

def refuse(folder, f, words, code=4):
    f = tf.function(f, input_signature=[tf.TensorSpec((2, 3), tf.float32)]).get_concrete_function()
    with open(f'{folder}/bad.pb', 'wb') as out:
        out.write(f.graph.as_graph_def().SerializeToString())
    said = tool('run', f'{folder}/bad.pb', code=code)
    if words not in said or said.count('error:') != 1:
        sys.exit(f'expected "{words}", not: {said}')


def check_refusals(folder):
    def ranks(x):
        return tf.while_loop(lambda y: tf.rank(y) < 5, lambda y: [y[None]], [x], shape_invariants=[tf.TensorShape(None)])
    refuse(folder, ranks, 'shape that is not known')
    f = tf.function(lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + x), (0, x)),
                    input_signature=[tf.TensorSpec((2, 3), tf.float32)]).get_concrete_function()
    for damage, words, code in (
            (lambda p: p.library.function[0].node_def.clear(), '', None),
            (lambda p: next(n for n in p.node if 'While' in n.op).attr['body'].func.__setattr__('name', 'gone'),
             'runs a function that the model does not have', 4),
            (recursive, 'calls are nested too deeply', 6)):
        refuse_damaged(folder, f, damage, words, code)
    f = tf.function(lambda x: tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x + 1, lambda: x - 1, lambda: x * x]),
                    input_signature=[tf.TensorSpec((2, 3), tf.float32)]).get_concrete_function()
    for damage, words, code in (
            (lambda p: case_of(p).attr['branches'].list.func.__delitem__(slice(None)), "'branches' names no function", 3),
            (lambda p: case_of(p).attr['branches'].list.func[2].__setattr__('name', 'gone'),
             'a function that the model does not have', 4),
            (lambda p: case_of(p).attr.__delitem__('Tin'), 'Tin', 3),
            (vector_index, 'shape is [1], must fit []', 3)):
        refuse_damaged(folder, f, damage, words, code)


def case_of(proto):
    return next(n for n in proto.node if 'Case' in n.op)


def vector_index(proto):
    shape = next(n for n in proto.node if n.op == 'StridedSlice')
    shape.attr['shrink_axis_mask'].i = 1


def refuse_damaged(folder, f, damage, words, code):
    proto = f.graph.as_graph_def()
    damage(proto)
    with open(f'{folder}/bad.pb', 'wb') as out:
        out.write(proto.SerializeToString())
    r = subprocess.run([environment.TOOL, 'run', f'{folder}/bad.pb'], capture_output=True, text=True, timeout=300)
    if words not in r.stderr or (r.returncode != code if code else r.returncode not in (3, 4)):
        sys.exit(f'expected "{words}", not {r.returncode}: {r.stderr}')


def recursive(proto):
    """Makes the body run the loop itself."""
    loop = next(n for n in proto.node if 'While' in n.op)
    body = next(f for f in proto.library.function if f.signature.name == loop.attr['body'].func.name)
    copy = body.node_def.add()
    copy.CopyFrom(loop)
    copy.name = 'again'
    del copy.input[:]
    copy.input.extend(a.name for a in body.signature.input_arg)
    last = body.signature.output_arg[0].name
    body.ret[last] = 'again:output:0'


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=20264)
    p.add_argument('--rounds', type=int, default=20 if environment.LONG else 1)
    a = p.parse_args()
    r = np.random.default_rng(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            for make, operands in GRAPHS:
                check_frozen(r, folder, make, operands)
            for kind in Loop, Branch:
                check_variables(r, folder, kind, int(r.integers(1, 6)))
        check_refusals(folder)
    print(f'{a.rounds * (len(GRAPHS) + 2)} graphs with branches and loops agree with TensorFlow')


main()
