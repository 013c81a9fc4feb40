#!/usr/bin/env python3
"""Bad input of graphs with branches, loops, lists and open sizes: loops that never end, lists indexed out of range, bodies whose types
disagree, recursion without end, sizes that meet and differ, sizes below zero or whose product overflows, and sizes out of the stated
range.  Each is one error that names the node, and the loops around it with their iterations; nothing is written.  It is the same on
one thread and on two, in functional form and with the control flow of TensorFlow 1.  A net says the same in a C program.

Exit code 77: nothing to test with.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
from live import fed, np, tf, tool  # noqa: E402
import freezing  # noqa: E402

F32, I32 = tf.float32, tf.int32
raw = tf.raw_ops
OPEN = 'x:1..6,1..5'
USAGE, INPUT, UNSUPPORTED, LIMIT = 2, 3, 4, 6  # exit codes


def graph_of(f, path, shape=(None, None), lowered=False):
    """Writes the graph; the names of its outputs."""
    f = tf.function(f, input_signature=[tf.TensorSpec(shape, F32, 'x')], autograph=False).get_concrete_function()
    if lowered:
        f = freezing.frozen(f)
    with open(path, 'wb') as out:
        out.write(f.graph.as_graph_def().SerializeToString())
    return ','.join(t.name.removesuffix(':0') for t in f.outputs)


def check_said(what, said, words):
    errors = [line for line in said.splitlines() if ' error: ' in line or line.startswith('error: ')]
    if len(errors) != 1 or any(w not in errors[0] for w in words):
        sys.exit(f'{what}: {said!r} is not one error with {words}')


def check_net(what, said, folder, asked, x):
    """The net of a model tells its C program what the tool tells of the same run."""
    sentence = said.split(' error: ')[1].split('\n')[0]
    tool('aot', '-q', f'{folder}/m.pb', '-o', f'{folder}/net', '--name', 'm', *asked)
    subprocess.run(['gcc', '-D_GNU_SOURCE', f'-I{folder}/net', f'{folder}/net/m_main.c', f'{folder}/net/m.o', '-o', f'{folder}/main'], check=True)
    x.astype('f4').tofile(f'{folder}/x.raw')
    r = subprocess.run([f'{folder}/main', *map(str, x.shape), f'{folder}/x.raw'], capture_output=True, text=True)
    if (r.returncode, r.stdout, r.stderr) != (4, '', f'm: {sentence}\n'):
        sys.exit(f'{what}: the net ends with {r.returncode} and says {r.stderr!r}, the tool {sentence!r}')


def stops(what, f, x, *words, stated=OPEN, code=INPUT, options=(), forms=(False, True), net=True):
    """A run ends with one error that has all these words, in each form of the graph, and so does that of its net."""
    for lowered in forms:
        with tempfile.TemporaryDirectory() as folder:
            asked = ['--outputs', graph_of(f, f'{folder}/m.pb', lowered=lowered), *(('--input-shape', stated) if stated else ())]
            for threads in '1', '2':
                said = tool('run', f'{folder}/m.pb', *asked, *fed(folder, {'x': x}), *options, '--threads', threads, '-o', f'{folder}/y.npz',
                            code=code)
                check_said(f'{what}, {"TensorFlow 1" if lowered else "functional"}, {threads} threads', said, words)
                if os.path.exists(f'{folder}/y.npz'):
                    sys.exit(f'{what}: a file was written')
            if net:
                check_net(what, said, folder, [*asked, *options], x)


def refused(what, f, *words, stated=OPEN, code=UNSUPPORTED, shape=(None, None)):
    with tempfile.TemporaryDirectory() as folder:
        outputs = graph_of(f, f'{folder}/m.pb', shape)
        check_said(what, tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', outputs, *(('--input-shape', stated) if stated else ()),
                              code=code), words)
        if os.path.exists(f'{folder}/m.htx'):
            sys.exit(f'{what}: a file was written')


def ones(*shape):
    return np.ones(shape, 'f4')


def times(n, body, *values, invariants=None):
    """The values behind n iterations."""
    return tf.while_loop(lambda i, *v: i < n, lambda i, *v: (i + 1, *body(i, *v)), (0, *values), shape_invariants=invariants, name='outer')[1:]


# ---- loops that never end ----

def endless(x):
    return tf.while_loop(lambda y: tf.reduce_sum(y) > -1., lambda y: (tf.abs(tf.sin(y)),), (x,), name='endless')[0]


def endless_within(x):
    """Its third iteration runs a loop that never ends."""
    def body(i, y):
        return tf.while_loop(lambda j, z: tf.logical_or(j < 3, i > 1), lambda j, z: (j + 1, tf.tanh(z)), (0, y), name='inner')[1],
    return times(5, body, x)[0]


def check_endless():
    limit = ['--max-iterations', '50']
    stops('a loop that never ends', endless, ones(2, 3), "'endless", 'iteration', '50', code=LIMIT, options=limit)
    stops('a loop that never ends in a loop', endless_within, ones(2, 3), 'inner', "'outer", 'iteration 3 of', code=LIMIT, options=limit)
    with tempfile.TemporaryDirectory() as folder:
        outputs = graph_of(endless, f'{folder}/m.pb')
        tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', '--outputs', outputs, '--input-shape', OPEN)
        p = subprocess.Popen([environment.TOOL, 'run', f'{folder}/m.htx', *fed(folder, {'x': ones(2, 3)}), '-o', f'{folder}/y.npz'],
                             stderr=subprocess.DEVNULL)
        time.sleep(.5)
        p.send_signal(signal.SIGINT)
        if p.wait() != -signal.SIGINT or os.path.exists(f'{folder}/y.npz'):
            sys.exit(f'Ctrl-C: ended with {p.returncode}')


# ---- lists indexed out of range ----

def element(list, index, shape=(), t=F32):
    return raw.TensorListGetItem(input_handle=list, index=index, element_shape=tf.constant(shape, I32), element_dtype=t)


def reads(by):
    """Reads elements of a list of as many elements as rows."""
    def f(x):
        a = tf.TensorArray(F32, tf.shape(x)[0], clear_after_read=False).unstack(x)
        return times(4, lambda i, s: (s + a.read(by(i)),), x[0])[0]
    return f


def writes(by):
    def f(x):
        n = tf.shape(x)[0]
        a = tf.TensorArray(F32, n, element_shape=[None])
        return times(4, lambda i, a: (a.write(by(i), x[0]),), a)[0].stack()
    return f


def pops(x):
    """One element more than were pushed."""
    a = raw.EmptyTensorList(element_shape=tf.constant([], I32), max_num_elements=-1, element_dtype=F32)
    a = times(tf.shape(x)[0], lambda i, a: (raw.TensorListPushBack(input_handle=a, tensor=x[i, 0]),), a)[0]

    def pop(i, s, a):
        a, y = raw.TensorListPopBack(input_handle=a, element_shape=tf.constant([], I32), element_dtype=F32)
        return s + tf.ensure_shape(y, []), a
    return times(tf.shape(x)[0] + 1, pop, 0., a)[0]


def pushes(x):
    a = raw.EmptyTensorList(element_shape=tf.constant([], I32), max_num_elements=3, element_dtype=F32)
    a = times(tf.shape(x)[0], lambda i, a: (raw.TensorListPushBack(input_handle=a, tensor=x[i, 0]),), a)[0]
    return element(a, 0)


def nested(x):
    """The list is read in the second iteration of a loop in the third of another."""
    a = tf.TensorArray(F32, 4, clear_after_read=False).unstack(tf.range(4.))

    def body(i, s):
        return tf.while_loop(lambda j, t: j < 3, lambda j, t: (j + 1, t + a.read(i * j + i)), (0, s), name='inner')[1],
    return times(4, body, x[0, 0])[0]


def check_lists():
    out = 'an index is out of range'
    stops('a read behind the end', reads(lambda i: i), ones(2, 3), out, 'iteration 3 of', "'outer")
    stops('a read in front of the begin', reads(lambda i: 1 - i), ones(2, 3), out, 'iteration 3 of', "'outer")
    stops('a write behind the end', writes(lambda i: i), ones(3, 3), out, 'iteration 4 of', "'outer")
    stops('a write in front of the begin', writes(lambda i: i - 1), ones(4, 3), out, 'iteration 1 of', "'outer")
    stops('more is popped than was pushed', pops, ones(3, 2), out, 'iteration 4 of', "outer")
    stops('more is pushed than the list may have', pushes, ones(5, 2), out, 'iteration 4 of', "'outer")
    stops('a list in a loop in a loop', nested, ones(2, 2), out, 'inner', 'iteration 2 of', 'iteration 3 of', "'outer")
    stops('a column that is not there', lambda x: times(4, lambda i, s: (s + x[:, i],), x[:, 0])[0], ones(2, 3), out, 'iteration 4 of', "'outer")
    stops('a row that a branch reads', lambda x: times(3, lambda i, s: (tf.cond(i > 1, lambda: s + x[i + 4], lambda: s),), x[0])[0],
          ones(4, 3), out, 'iteration 3 of', "'outer")


# ---- bodies whose types disagree ----

def functions(proto, words):
    return [f for f in proto.library.function if words in f.signature.name]


def of_type(proto, words, t, of='output_arg'):
    """The last result of the functions of that name gets another type, as its node has it."""
    for f in functions(proto, words):
        arg = getattr(f.signature, of)[-1]
        arg.type = t


def fewer(proto, words):
    for f in functions(proto, words):
        del f.ret[f.signature.output_arg[-1].name]
        del f.signature.output_arg[-1]


def cast_result(proto, words):
    """The last result is cast to integers."""
    for f in functions(proto, words):
        arg = f.signature.output_arg[-1]
        n = f.node_def.add(name='into', op='Cast', input=[f.ret[arg.name]])
        n.attr['SrcT'].type, n.attr['DstT'].type = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum
        f.ret[arg.name], arg.type = 'into:y:0', tf.int32.as_datatype_enum


def check_types():
    """Graphs that TensorFlow would not make."""
    def loop(x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y) + x), (0, x))[1]

    def branch(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x), lambda: x + 1)

    def cases(x):
        return tf.switch_case(tf.cast(x[0, 0], I32), [lambda: tf.tanh(x), lambda: x + 1, lambda: x * 2])
    for what, f, damage, node in (
            ('a body that gives integers', loop, lambda p: cast_result(p, 'while_body'), 'while'),
            ('a body that gives less', loop, lambda p: fewer(p, 'while_body'), 'while'),
            ('a body that takes integers', loop, lambda p: of_type(p, 'while_body', tf.int32.as_datatype_enum, 'input_arg'), 'while'),
            ('a condition that is no truth value', loop, lambda p: cast_result_of_bool(p), 'while'),
            ('a condition that gives nothing', loop, lambda p: fewer(p, 'while_cond'), 'while'),
            ('a branch that gives integers', branch, lambda p: cast_result(p, 'cond_true'), 'cond'),
            ('a branch that gives less', branch, lambda p: fewer(p, 'cond_false'), 'cond'),
            ('a case that gives integers', cases, lambda p: cast_result(p, 'branch1'), 'switch_case'),
            ('a case that gives less', cases, lambda p: fewer(p, 'branch2'), 'switch_case')):
        with tempfile.TemporaryDirectory() as folder:
            outputs = graph_of(f, f'{folder}/m.pb', (2, 3))
            proto = tf.compat.v1.GraphDef()
            with open(f'{folder}/m.pb', 'rb') as file:
                proto.ParseFromString(file.read())
            damage(proto)
            with open(f'{folder}/m.pb', 'wb') as file:
                file.write(proto.SerializeToString())
            r = subprocess.run([environment.TOOL, 'run', f'{folder}/m.pb', '--outputs', outputs, *fed(folder, {'x': ones(2, 3)}), '-o',
                                f'{folder}/y.npz'], capture_output=True, text=True, timeout=300)
            if r.returncode not in (INPUT, UNSUPPORTED) or f"'{node}" not in r.stderr or os.path.exists(f'{folder}/y.npz'):
                sys.exit(f'{what}: {r.returncode}, {r.stderr!r} does not name {node}')


def cast_result_of_bool(proto):
    for f in functions(proto, 'while_cond'):
        arg = f.signature.output_arg[-1]
        n = f.node_def.add(name='into', op='Cast', input=[f.ret[arg.name]])
        n.attr['SrcT'].type, n.attr['DstT'].type = tf.bool.as_datatype_enum, tf.string.as_datatype_enum
        f.ret[arg.name], arg.type = 'into:y:0', tf.string.as_datatype_enum


# ---- recursion without end ----

def check_recursion():
    """A function that calls itself in a branch that is always taken, also from the second iteration of a loop."""
    def make(proto):
        f = functions(proto, '_self_')[0]
        n = next(n for g in functions(proto, 'true') for n in g.node_def if n.name.endswith('again'))
        n.op = 'PartitionedCall'
        del n.input[1:]
        n.attr.clear()
        n.attr['f'].func.name = f.signature.name
        n.attr['Tin'].list.type.append(tf.float32.as_datatype_enum)
        n.attr['Tout'].list.type.append(tf.float32.as_datatype_enum)
        for g in functions(proto, 'true'):
            for result, value in g.ret.items():
                g.ret[result] = value.replace('again:z:0', 'again:output:0')
            for other in g.node_def:
                for i, value in enumerate(other.input):
                    other.input[i] = value.replace('again:z:0', 'again:output:0')

    @tf.function(input_signature=[tf.TensorSpec((2,), F32)], autograph=False)
    def self(y):
        return tf.cond(y[0] < 9., lambda: tf.multiply(y, y, name='again'), lambda: y)

    def direct(x):
        return self(x[0, :2])

    def in_loop(x):
        return times(3, lambda i, y: (tf.cond(i > 0, lambda: self(y), lambda: y * 2.),), x[0, :2])[0]
    for what, f, words in ('a function that calls itself', direct, ['again', 'in more calls']), ('one in a loop', in_loop, ['again', 'in more calls', 'iteration 2 of', "'outer"]):
        with tempfile.TemporaryDirectory() as folder:
            outputs = graph_of(f, f'{folder}/m.pb', (2, 3))
            proto = tf.compat.v1.GraphDef()
            with open(f'{folder}/m.pb', 'rb') as file:
                proto.ParseFromString(file.read())
            make(proto)
            with open(f'{folder}/m.pb', 'wb') as file:
                file.write(proto.SerializeToString())
            check_said(what, tool('run', f'{folder}/m.pb', '--outputs', outputs, *fed(folder, {'x': ones(2, 3)}), code=LIMIT), words)


# ---- sizes ----

def whole(x):
    return tf.cast(tf.reduce_sum(x), I32)


def check_sizes():
    odd = np.float32([[1, 2, 3]])
    stops('sizes that meet in a loop', lambda x: times(3, lambda i, y: (y + tf.transpose(x),), x, invariants=(tf.TensorShape([]), tf.TensorShape([None, None])))[0],
          ones(2, 3), 'an index is out of range', 'iteration 1 of', "'outer")
    stops('sizes that meet in the third iteration', lambda x: times(4, lambda i, s: (s + tf.reduce_sum(x[:, 0] * tf.ones([tf.minimum(i + 2, 5)])),), 0.)[0],
          ones(2, 3), 'an index is out of range', 'iteration 2 of', "'outer", forms=[False])
    stops('computed sizes that meet', lambda x: tf.boolean_mask(x[0], x[0] > 0) + tf.boolean_mask(x[0], x[0] < 3), odd, 'add', 'an index is out of range')
    stops('none and several', lambda x: tf.boolean_mask(x[0], x[0] > 5) + x[0], odd, 'add', 'an index is out of range')
    stops('a computed size and one of an input', lambda x: tf.boolean_mask(x[0], x[0] > 1) + x[0], odd, 'add', 'an index is out of range')
    stops('a size and a fixed one', lambda x: x + tf.constant([1., 2.]), ones(2, 3), 'add', 'an index is out of range')
    stops('a tensor that outgrows its room', lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) > -1., lambda y: (tf.concat([y, x], 0),), (x,),
                                                                     shape_invariants=(tf.TensorShape([None, None]),), name='outer')[0],
          ones(5, 2), 'more than the 1024 elements that there is room for', 'iteration 204 of', "'outer")
    stops('a size below zero', lambda x: tf.fill([tf.minimum(whole(x), 9)], 1.), -ones(2, 3), 'Fill', 'out of range', forms=[False])
    stops('a range of a size below zero', lambda x: tf.range(tf.minimum(whole(x), 9)), -ones(2, 3), 'ange', 'out of range', forms=[False])
    sides = lambda x: tf.reduce_sum(tf.cond(x[0, 0] > 0, lambda: x, lambda: x[0], name='sides'))  # noqa: E731
    deeper = lambda x: tf.reduce_sum(times(whole(x), lambda i, y: (y[None],), x, invariants=(tf.TensorShape([]), tf.TensorShape(None)))[0])  # noqa: E731
    flat = lambda x: tf.reduce_sum(times(whole(x), lambda i, y: (tf.reshape(y, [-1]),), x, invariants=(tf.TensorShape([]), tf.TensorShape(None)))[0])  # noqa: E731
    for stated in OPEN, 'x:2,3':
        refused('sides of several ranks', sides, "'sides", 'number of dimensions depends on the side that runs', stated=stated)
        refused('iterations that change the rank', flat, "'outer", 'number of dimensions its iterations change', stated=stated)
        refused('iterations that may change the rank', deeper, "'outer", 'not known', stated=stated)
    product = lambda x: tf.matmul(x, x, transpose_a=True) + 1  # noqa: E731
    refused('sizes whose product overflows', product, "'x'", 'more elements than fit', stated='x:3000000000,3000000000')
    refused('largest sizes whose product overflows', product, "'x'", 'more bytes than a process can address', stated='x:1..2147483647,1..2147483647')
    refused('a size above all', product, '3000000000', stated='x:1..3000000000,1', code=USAGE)
    refused('a product of repetitions', lambda x: tf.tile(x, [2 ** 20, 2 ** 20]), 'Tile', 'more elements than fit', stated='x:2048,2048')
    stops('more rows than stated', lambda x: times(3, lambda i, y: (y + x,), x)[0], ones(7, 3), '1 to 6', '7', net=False)
    stops('columns below those stated', lambda x: times(3, lambda i, y: (y + x,), x)[0], ones(2, 1), '2 to 5', '1', stated='x:1..6,2..5', net=False)
    stops('no rows', lambda x: times(3, lambda i, y: (y + x,), x)[0], ones(0, 3), '1 to 6', '0', net=False)


def main():
    check_endless()
    check_lists()
    check_types()
    check_recursion()
    check_sizes()
    print('all bad input is refused with its place')


main()
