#!/usr/bin/env python3
"""Functions that call themselves, or each other: TensorFlow and the tool run the same graphs, with the calls as
PartitionedCall and as nodes of the function's type; the tool on one thread and two, from an artefact, as a net, and
converted under policies.  Variables keep the values that calls assign.  Recursion that is too deep, or that has
other shapes in each call, ends with an error.

TensorFlow cannot trace such functions, so each is traced with calls of a stub, which is then replaced by the function's
own name.  TensorFlow runs them if the calls are nodes of the function's type, without its optimisers and without
lowering branches.

Exit code 77: nothing to test with.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
from live import POLICIES, TOLERANCE, close, np, run, run_net, tf, tool  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

F32, I32, I64 = tf.float32, tf.int32, tf.int64


def stub(*signature, results=1):
    """A stub for a function of these arguments while it is traced; its results have the types of the first arguments."""
    return tf.function(lambda *x: x[0] if results == 1 else x[:results], input_signature=signature)


# ---- graphs: the function, and the stubs with the functions that replace them, by operands ----

def factorial(r):
    s = tf.TensorSpec([2, 3], F32, 'x'), tf.TensorSpec([], I32, 'n')
    again = stub(*s)
    f = tf.function(lambda x, n: tf.cond(n <= 1, lambda: x + 0.5, lambda: tf.cast(n, F32) * again(x, n - 1)), input_signature=s)
    return f, s, [(again, f)], (r.standard_normal((2, 3)).astype('f4'), np.int32(7))


def fibonacci(r):
    """Two calls in one body, a matrix that every call passes on, and a branch that begins with the calls."""
    s = tf.TensorSpec([4], F32, 'x'), tf.TensorSpec([], I64, 'n'), tf.TensorSpec([4, 4], F32)
    again, w = stub(*s), tf.constant(r.standard_normal((4, 4)).astype('f4') * 0.4)
    f = tf.function(lambda x, n, w: tf.cond(n > 1, lambda: tf.tanh(again(x, n - 1, w) + tf.linalg.matvec(w, again(x * 0.5, n - 2, w))),
                                            lambda: x + tf.cast(n, F32)), input_signature=s)
    return lambda x, n: f(x, n, w), s[:2], [(again, f)], (r.standard_normal(4).astype('f4'), np.int64(8))


def ackermann(r):
    """The result of a call is the operand of another one."""
    s = tf.TensorSpec([5], I32, 'n'), tf.TensorSpec([], I32, 'm')
    again = stub(*s)
    f = tf.function(lambda n, m: tf.cond(
        tf.equal(m, 0), lambda: n + 1,
        lambda: tf.cond(tf.equal(n[0], 0), lambda: again(tf.ones_like(n), m - 1), lambda: again(again(n - 1, m), m - 1))), input_signature=s)
    return f, s, [(again, f)], (np.full(5, 3, 'i4'), np.int32(2))


def parity(r):
    """Two functions that call each other, and a loop that calls one."""
    s = tf.TensorSpec([2, 2], F32, 'x'), tf.TensorSpec([], I32, 'n')
    even_stub, odd_stub = stub(*s, results=2), stub(*s, results=2)
    even = tf.function(lambda x, n: tf.cond(tf.equal(n, 0), lambda: (x, n + 1), lambda: odd_stub(tf.sin(x), n - 1)), input_signature=s)
    odd = tf.function(lambda x, n: tf.cond(tf.equal(n, 0), lambda: (x * 2, n), lambda: even_stub(x + 1, n - 1)), input_signature=s)

    def f(x, n):
        x, even_is = even(x, n)
        return tf.while_loop(lambda i, y, e: i < 3, lambda i, y, e: (i + 1, *odd(y, i)), (0, x, even_is))
    return f, s, [(even_stub, even), (odd_stub, odd)], (r.standard_normal((2, 2)).astype('f4'), np.int32(9))


def choices(r):
    """One of several branches, a loop whose body calls, and another recursion in one of them."""
    s = tf.TensorSpec([3], F32, 'x'), tf.TensorSpec([], I32, 'n')
    again, other = stub(*s), stub(*s)
    inner = tf.function(lambda x, n: tf.cond(n > 0, lambda: other(x * 1.5, n - 2), lambda: x), input_signature=s)
    f = tf.function(lambda x, n: tf.switch_case(tf.minimum(n, 3), [
        lambda: x, lambda: again(x + 1, n - 1) * 0.5, lambda: inner(again(x - 1, n - 1), n),
        lambda: tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, again(y, n - 1) + x), (0, x))[1]]), input_signature=s)
    return f, s, [(again, f), (other, inner)], (r.standard_normal(3).astype('f4'), np.int32(4))


GRAPHS = factorial, fibonacci, ackermann, parity, choices

# ---- replacing stubs by functions ----

def nodes_of(graph):
    yield from graph.node
    for f in graph.library.function:
        yield from f.node_def


def functions_of(node):
    for a in node.attr.values():
        if a.HasField('func'):
            yield a.func
        yield from a.list.func


def tie(graph, stubs):
    """Replaces calls of stubs by calls of their functions."""
    name = {s.get_concrete_function().function_def.signature.name: f.get_concrete_function().function_def.signature.name for s, f in stubs}
    for n in nodes_of(graph):
        n.attr.pop('_lower_using_switch_merge', None)
        for f in functions_of(n):
            f.name = name.get(f.name, f.name)
    kept = [f for f in graph.library.function if f.signature.name not in name]
    del graph.library.function[:]
    graph.library.function.extend(kept)


def name_calls(graph):
    """Replaces calls within functions by nodes of the function's type."""
    library = {f.signature.name: f for f in graph.library.function}
    for body in graph.library.function:
        for n in body.node_def:
            if n.op not in ('PartitionedCall', 'StatefulPartitionedCall'):
                continue
            n.op = n.attr['f'].func.name
            n.attr.clear()
            result = [a.name for a in library[n.op].signature.output_arg]
            for user in body.node_def:
                for i, x in enumerate(user.input):
                    if x.startswith(f'{n.name}:output:'):
                        user.input[i] = f'{n.name}:{result[int(x.rsplit(":", 1)[1])]}:0'
            for k, x in body.ret.items():
                if x.startswith(f'{n.name}:output:'):
                    body.ret[k] = f'{n.name}:{result[int(x.rsplit(":", 1)[1])]}:0'


def config():
    c = tf.compat.v1.ConfigProto()
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    return c


def expected(graph, feeds, outputs):
    named = tf.compat.v1.GraphDef.FromString(graph.SerializeToString())
    name_calls(named)
    with tf.Graph().as_default() as g:
        tf.import_graph_def(named, name='')
    present = {n.name for n in named.node}
    with tf.compat.v1.Session(graph=g, config=config()) as s:
        return named, s.run([f'{o}:0' for o in outputs], {f'{k}:0': v for k, v in feeds.items() if k in present})


def traced(make, r):
    f, signature, stubs, operands = make(r)
    f = tf.function(f, input_signature=signature).get_concrete_function()
    graph = f.graph.as_graph_def()
    tie(graph, stubs)
    return graph, dict(zip(('x' if s.name is None else s.name for s in signature), operands)), [o.op.name for o in f.outputs]


def write(graph, path):
    with open(path, 'wb') as out:
        out.write(graph.SerializeToString())
    return path


def read(path):
    with open(path, 'rb') as f:
        return tf.compat.v1.GraphDef.FromString(f.read())


def check(make, r, folder):
    graph, feeds, outputs = traced(make, r)
    named, want = expected(graph, feeds, outputs)
    model, asked = write(graph, f'{folder}/m.pb'), ('--outputs', ','.join(outputs))

    def agree(how, got, tolerance=TOLERANCE, than=want):
        for o, g, w in zip(outputs, got, than):
            if not close(g, w, tolerance):
                sys.exit(f'{make.__name__}, {how}: {o} is {g}, not {w}')
    got = run(folder, model, feeds, outputs, *asked)
    agree('run', got)
    agree('two threads', run(folder, model, feeds, outputs, *asked, '--threads', '2'), 0, got)
    agree('nodes of the function\'s type', run(folder, write(named, f'{folder}/n.pb'), feeds, outputs, *asked), 0, got)
    tool('compile', '-q', model, '-o', f'{folder}/m.htx', *asked)
    agree('artefact', run(folder, f'{folder}/m.htx', feeds, outputs), 0, got)
    agree('net', run_net(folder, model, feeds, outputs, want))
    for policy, tolerance in POLICIES.items():
        ours = run(folder, model, feeds, outputs, *asked, '--policy', policy)
        agree(policy, ours, tolerance)
        tool('convert', '-q', model, '-o', f'{folder}/c.pb', '--policy', policy, *asked)
        agree(f'converted under {policy}', expected(read(f'{folder}/c.pb'), feeds, outputs)[1], tolerance, ours)
    tool('explain', '-q', model, '--policy', 'optimal')


# ---- variables ----

class Counting(tf.Module):
    """A variable that each call changes, and one that no call changes."""
    def __init__(self, r):
        super().__init__()
        self.calls = tf.Variable(np.zeros(3, 'f4'))
        self.weight = tf.Variable(r.standard_normal(3).astype('f4'))
        signature = tf.TensorSpec([3], F32), tf.TensorSpec([], I32)
        self.stub = tf.function(lambda x, n: self.counted(x) * self.weight, input_signature=signature)
        self.down = tf.function(self.go_down, input_signature=signature)

    def counted(self, x):
        self.calls.assign_add(tf.ones(3))
        return x

    def go_down(self, x, n):
        self.counted(x)
        return tf.cond(n > 0, lambda: self.stub(x * self.weight, n - 1) + 1, lambda: x)

    @tf.function(input_signature=[tf.TensorSpec([3], F32, 'x'), tf.TensorSpec([], I32, 'n')])
    def serve(self, x, n):
        y = self.down(x, n)
        return {'y': y + 0, 'calls': self.calls + 0}


def check_variables(r, folder):
    m, path = Counting(r), f'{folder}/saved'
    tf.saved_model.save(m, path, signatures=m.serve)
    file = f'{path}/saved_model.pb'
    with open(file, 'rb') as f:
        saved = saved_model_pb2.SavedModel.FromString(f.read())
    library = saved.meta_graphs[0].graph_def
    name = next(f.signature.name for f in library.library.function if '_go_down_' in f.signature.name)
    branch = next(f for f in library.library.function if any(
        'PartitionedCall' in n.op for n in f.node_def) and f.signature.name.startswith('cond_true'))
    call = next(n for n in branch.node_def if 'PartitionedCall' in n.op)
    call.attr['f'].func.name = name
    for n in nodes_of(library):
        n.attr.pop('_lower_using_switch_merge', None)
    with open(file, 'wb') as f:
        f.write(saved.SerializeToString())
    x, depth = r.standard_normal(3).astype('f4'), 5
    y, w = x.copy(), m.weight.numpy()
    for _ in range(depth):
        y = y * w
    want = [y + depth, np.full(3, depth + 1, 'f4')]
    for threads in '1', '2':
        said = tool('run', path, '--input', f'x=@{save(folder, x=x)}#x', '--input', f'n=i32[]:{depth}', '-o', f'{folder}/y.npz',
                    '--threads', threads)
        with np.load(f'{folder}/y.npz') as z:
            got = dict(z)
        for w in want:
            if not any(close(g, w, TOLERANCE) for g in got.values()):
                sys.exit(f'variables: {got}, not {want}: {said}')


def save(folder, **values):
    np.savez(f'{folder}/x.npz', **values)
    return f'{folder}/x.npz'


# ---- errors ----

def refuse(words, code, *args):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300)
    if r.returncode != code or not re.search(words, r.stderr) or r.stderr.count('error:') != 1:
        sys.exit(f'{args} ended with {r.returncode}, and not with {code} and "{words}": {r.stderr[:4000]}')


def check_errors(r, folder):
    graph, feeds, outputs = traced(factorial, r)
    model, at = write(graph, f'{folder}/m.pb'), save(folder, x=feeds['x'], deep=np.int32(70))
    fed = '--input', f'x=@{at}#x', '--input', f'n=@{at}#deep'
    refuse(r"node 'cond/PartitionedCall': calls are nested too deeply: there is memory for 64 that recurse, in 'cond', .*"
           r"in more calls or loops$", 6, 'run', model, *fed)
    refuse('there is memory for 68 that', 6, 'run', model, *fed, '--max-depth', '68')
    tool('run', model, *fed, '--max-depth', '69')
    tool('compile', '-q', model, '-o', f'{folder}/m.htx')
    refuse('there is memory for 68 that', 6, 'run', f'{folder}/m.htx', *fed, '--max-depth', '68')
    tool('run', f'{folder}/m.htx', *fed, '--max-depth', '69', '--threads', '2')
    refuse('functions of the program call themselves', 2, 'run', model, *fed, '--guard', 'behind')
    for f in graph.library.function:
        for n in f.node_def:
            if n.op == 'LessEqual':
                n.op = 'Less'
                constant = next(c for c in f.node_def if c.name == n.input[1].split(':')[0])
                constant.attr['value'].tensor.int_val[:] = [-2 ** 31]
    refuse('calls are nested too deeply', 6, 'run', write(graph, f'{folder}/endless.pb'), *fed)
    check_shapes(folder)


def check_shapes(folder):
    """A call with half of the rows: TensorFlow runs it, but no shape holds in all calls."""
    s = [tf.TensorSpec([None, 3], F32, 'x')]
    again = stub(*s)
    f = tf.function(lambda x: tf.cond(tf.shape(x)[0] < 2, lambda: x, lambda: again(x[::2]) + 1), input_signature=s)
    whole = tf.function(f, input_signature=[tf.TensorSpec([8, 3], F32, 'x')]).get_concrete_function()
    graph = whole.graph.as_graph_def()
    tie(graph, [(again, f)])
    refuse('shape that is not known|other shapes', 4, 'compile', '-q', write(graph, f'{folder}/m.pb'), '-o', f'{folder}/m.htx')


def main():
    r = np.random.default_rng(20261)
    with tempfile.TemporaryDirectory() as folder:
        for make in GRAPHS:
            check(make, r, folder)
        check_variables(r, folder)
        check_errors(r, folder)
    print(f'{len(GRAPHS)} graphs with recursion agree with TensorFlow')


main()
