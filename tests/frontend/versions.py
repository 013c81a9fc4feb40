#!/usr/bin/env python3
"""Older versions of ops, and rare ones, against live TensorFlow: TensorArrays and stacks of the first versions, in
loops and outside of them, with their gradients; lists that are split, scattered and joined.

Exit code 77: nothing to test with.
"""
import argparse
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import check_stops, close, freeze, np, run, tf, tool  # noqa: E402

v1 = tf.compat.v1
raw = tf.raw_ops
PRODUCER = {1: 15, 2: 25}  # producer versions of graphs that may have these versions of ops


# ---- graphs of the third version, from which those of other versions are made ----

def array(size, *more):
    return raw.TensorArrayV3(size=size, dtype=tf.float32, element_shape=more, clear_after_read=False)


def plain(x, r):
    """Elements that are written, scattered and split, read, gathered and joined; a stack."""
    n = x.shape[0]
    a = array(n, 4)
    flow = raw.TensorArrayScatterV3(handle=a.handle, indices=list(range(n)), value=x, flow_in=a.flow)
    some = raw.TensorArrayGatherV3(handle=a.handle, indices=[n - 1, 0], flow_in=flow, dtype=tf.float32, element_shape=[4])
    first = raw.TensorArrayReadV3(handle=a.handle, index=0, flow_in=flow, dtype=tf.float32)
    b = array(2, n, 2)
    parts = raw.TensorArraySplitV3(handle=b.handle, value=tf.reshape(x, [2 * n, 2]), lengths=np.array([n, n], 'i8'), flow_in=b.flow)
    joined = raw.TensorArrayConcatV3(handle=b.handle, flow_in=parts, dtype=tf.float32)
    size = raw.TensorArraySizeV3(handle=b.handle, flow_in=parts)
    stack = raw.StackV2(max_size=-1, elem_type=tf.float32)
    pushed = raw.StackPushV2(handle=stack, elem=tf.tanh(x))
    with tf.control_dependencies([pushed]):
        pushed = raw.StackPushV2(handle=stack, elem=x * 2)
    with tf.control_dependencies([pushed]):
        top = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    with tf.control_dependencies([top]):
        below = raw.StackPopV2(handle=stack, elem_type=tf.float32)
    return [some, first, joined.value, joined.lengths, size, top - below * .5]


def looped(x, r):
    """A loop that reads an array and writes another one."""
    n = x.shape[0]
    rows = v1.TensorArray(tf.float32, n, clear_after_read=False).unstack(x)

    def body(i, y, parts):
        y = tf.tanh(y + rows.read(i) * .7)
        return i + 1, y, parts.write(i, y[None])
    _, y, parts = v1.while_loop(lambda i, *_: i < n, body, (0, x[0], v1.TensorArray(tf.float32, n)))
    return [y, parts.concat()]


def gradient(x, r):
    """Loops push values for their gradients on stacks, and keep arrays of gradients beside arrays that are read."""
    return v1.gradients(tf.reduce_sum(looped(x, r)[0] ** 2), x)


def scattered(x, r):
    at = np.array([[2], [0], [2]], 'i4')
    return [raw.ScatterNdNonAliasingAdd(input=x, indices=at, updates=x[:3] * 2)]


def reshaped_gradients(x, r):
    """An array of gradients whose elements have an axis more than the array's."""
    a = array(2, 4)
    flow = raw.TensorArrayScatterV3(handle=a.handle, indices=[0, 1], value=x[:2], flow_in=a.flow)
    g = raw.TensorArrayGradWithShape(handle=a.handle, flow_in=flow, shape_to_prepend=[3], source='g')
    y = raw.TensorArrayWriteV3(handle=g.grad_handle, index=1, value=tf.stack([x[0], x[1], x[2]]), flow_in=g.flow_out)
    y = raw.TensorArrayWriteV3(handle=g.grad_handle, index=1, value=tf.stack([x[1], x[2], x[0]]), flow_in=y)
    return [raw.TensorArrayReadV3(handle=g.grad_handle, index=1, flow_in=y, dtype=tf.float32),
            raw.TensorArrayReadV3(handle=a.handle, index=1, flow_in=flow, dtype=tf.float32)]


GRAPHS = plain, looped, gradient, scattered


# ---- the same graphs in the form of older versions ----

def older(proto, version):
    """Handles are strings, in version 1 by reference; the op that makes an array has no result for the flow."""
    arrays = {n.name for n in proto.node if n.op in ('TensorArrayV3', 'TensorArrayGradV3')}
    stacks = {n.name for n in proto.node if n.op == 'StackV2'} if version == 1 else set()
    handles = arrays | stacks
    flows = {}
    for n in list(proto.node):
        if n.op == 'TensorArrayGradV3':  # the gradient's flow is replaced by its operand
            flow = proto.node.add(name=f'{n.name}/flow', op='Identity', input=[n.input[1], f'^{n.name}'])
            flow.attr['T'].type = tf.float32.as_datatype_enum
            flows[f'{n.name}:1'] = flow.name
        elif n.op == 'TensorArrayV3':
            flow = proto.node.add(name=f'{n.name}/flow', op='Const')
            flow.attr['dtype'].type = tf.float32.as_datatype_enum
            flow.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(0, tf.float32, []))
            flows[f'{n.name}:1'] = flow.name
    for n in proto.node:
        for i, name in enumerate(n.input):
            n.input[i] = flows.get(name, name)
        if n.op == 'Enter' and n.input[0].partition(':')[0] in handles:
            n.op = 'RefEnter' if version == 1 else n.op
            n.attr['T'].type = 7
            handles.add(n.name)
        if re.fullmatch(r'TensorArray\w+V3|TensorArrayV3', n.op):
            n.op = n.op[:-2] + ('V2' if version == 2 else '')
            for attr in ['identical_element_shapes'] + ['element_shape'] * (n.op == 'TensorArray'):
                n.attr.pop(attr, None)
        elif version == 1 and re.match('Stack.*V2$', n.op):
            n.op = n.op[:-2]
            if n.op == 'Stack':
                del n.input[0]
    proto.versions.producer = PRODUCER[version]
    proto.versions.min_consumer = 0
    return proto


def packed(proto):
    """In version 1 only, scattering and gathering of all elements are separate ops."""
    for n in proto.node:
        if n.op == 'TensorArrayScatter':
            n.op = 'TensorArrayUnpack'
            del n.input[1]
        elif n.op == 'TensorArrayGather' and n.attr['dtype'].type and 'Stack/' in n.name:
            n.op = 'TensorArrayPack'
            del n.input[1]
    return proto


def session_run(proto, feeds, outputs):
    with tf.Graph().as_default() as g, v1.Session(graph=g) as s:
        tf.import_graph_def(proto, name='')
        return s.run([f'{o}:0' for o in outputs], {f'{n}:0': x for n, x in feeds.items()})


def check_versions(r, folder, make):
    x = r.standard_normal((int(r.integers(3, 7)), 4)).astype('f4')
    with tf.Graph().as_default() as g:
        v1.disable_control_flow_v2()
        fed = v1.placeholder(tf.float32, x.shape, name='x')
        outputs = [tf.identity(y, f'y{i}').op.name for i, y in enumerate(make(fed, r))]
    proto = g.as_graph_def()
    want = session_run(proto, {'x': x}, outputs)
    changes = (3, lambda p: p), (2, lambda p: older(p, 2)), (1, lambda p: older(p, 1)), (1, lambda p: packed(older(p, 1)))
    for version, change in changes[:1] if make is reshaped_gradients else changes:
        copy = v1.GraphDef()
        copy.CopyFrom(proto)
        copy = change(copy)
        theirs = session_run(copy, {'x': x}, outputs)
        with open(f'{folder}/m.pb', 'wb') as f:
            f.write(copy.SerializeToString())
        ours = run(folder, f'{folder}/m.pb', {'x': x}, outputs, '--outputs', ','.join(outputs))
        for o, g, t, w in zip(outputs, ours, theirs, want, strict=True):
            if not close(t, w, 1e-5):
                sys.exit(f'{make.__name__}, version {version}: the test is wrong: {o} is {t!r} in TensorFlow, not {w!r}')
            if not close(g, w, 1e-5):
                sys.exit(f'{make.__name__}, version {version}: {o} is {g!r}, not {w!r}')


# ---- lists ----

def lists(x, at):
    """Lists that are split, scattered into and joined, with constant indices and fed ones."""
    n = x.shape[0]
    split = raw.TensorListSplit(tensor=x, element_shape=[n // 2, 4], lengths=np.array([n // 2] * 2, 'i8'))
    some = raw.TensorListScatter(tensor=x[:2], indices=[3, 1], element_shape=[4])
    more = raw.TensorListScatterV2(tensor=x[:2], indices=[0, 2], element_shape=[4], num_elements=5)
    fed = raw.TensorListScatterV2(tensor=x[:2], indices=at, element_shape=[4], num_elements=6)
    rows = raw.TensorListFromTensor(tensor=x, element_shape=[4])
    both = raw.TensorListConcatLists(input_a=rows, input_b=more, element_dtype=tf.float32)
    joined = raw.TensorListConcat(input_handle=split, element_dtype=tf.float32, element_shape=[n // 2, 4])

    def stack(list, shape):
        return raw.TensorListStack(input_handle=list, element_shape=shape, element_dtype=tf.float32)
    empty = raw.EmptyTensorList(element_shape=[4], max_num_elements=-1, element_dtype=tf.float32)
    first = raw.TensorListPushBack(input_handle=empty, tensor=x[0])
    three = raw.Pack(values=[empty, first, empty])
    for part in x[:3], x[-3:] * 2:
        three = raw.TensorListPushBackBatch(input_handles=three, tensor=part)
    lists = [*raw.Unpack(value=three, num=3), raw.TensorListPushBack(input_handle=three[-2], tensor=x[1]),
             raw.GatherV2(params=raw.TensorListPushBackBatch(input_handles=raw.Tile(input=tf.reshape(first, [1]), multiples=[2]), tensor=x[:2]),
                          indices=1, axis=0)]
    return (*(stack(l, [4]) for l in lists), stack(split, [n // 2, 4]), stack(some, [4]), stack(more, [4]), stack(fed, [4]), stack(both, [4]),
            raw.TensorListLength(input_handle=both), joined.tensor, joined.lengths)


def agree(name, folder, f, feeds, tolerance):
    frozen = freeze(f, [tf.TensorSpec(x.shape, x.dtype, name=n) for n, x in feeds.items()], f'{folder}/m.pb')
    outputs = [y.name.removesuffix(':0') for y in frozen.outputs]
    want = tf.nest.flatten(frozen(*map(tf.constant, feeds.values())))
    got = run(folder, f'{folder}/m.pb', feeds, outputs, '--outputs', ','.join(outputs))
    for o, g, w in zip(outputs, got, want, strict=True):
        finite = np.isfinite(w) if w.dtype.is_floating else np.ones(w.shape, bool)
        if not np.array_equal(g[~finite], w.numpy()[~finite]) or not close(np.where(finite, g, 0).astype(g.dtype), np.where(finite, w, 0).astype(g.dtype), tolerance):
            sys.exit(f'{name}: {o} is {g!r}, not {w!r}, of {feeds}')


def check_lists(r, folder):
    x, at = r.standard_normal((2 * int(r.integers(2, 5)), 4)).astype('f4'), r.permutation(6)[:2].astype('i4')
    agree('lists', folder, lists, {'x': x, 'at': at}, 0)
    check_stops('an element behind the list', folder, f'{folder}/m.pb', {'x': x, 'at': np.array([6, 0], 'i4')}, 'TensorListScatterV2')


def check_parts(r, folder):
    """Parts of several lengths."""
    def f(x):
        list = raw.TensorListSplit(tensor=x, element_shape=[-1, 4], lengths=np.array([1, 3], 'i8'))
        return [raw.TensorListGetItem(input_handle=list, index=i, element_shape=[-1, 4], element_dtype=tf.float32) for i in (0, 1)]
    agree('parts', folder, f, {'x': r.standard_normal((4, 4)).astype('f4')}, 0)


def check_running_sums(r, folder):
    def f(x):
        return [tf.math.cumulative_logsumexp(x, axis, exclusive, reverse) for axis in range(-len(x.shape), len(x.shape))
                for exclusive in (False, True) for reverse in (False, True)]
    for t, tolerance in (('f4', 1e-6), ('f8', 1e-12), ('f2', 1e-2)):
        x = (r.standard_normal(r.integers(1, 6, int(r.integers(1, 4)))) * 20).astype(t)
        agree(f'running sums, {t}', folder, f, {'x': x}, tolerance)


def check_empty(r, folder):
    """A tensor that nobody set, whose elements are zeros."""
    def f(x):
        return [raw.Empty(shape=tf.shape(x), dtype=t, init=True) for t in (tf.float32, tf.int64)] + [x]
    agree('empty', folder, f, {'x': r.standard_normal((2, 3)).astype('f4')}, 0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    a = p.parse_args()
    print('seed', a.seed, flush=True)
    r = np.random.default_rng(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        check_lists(r, folder)
        check_parts(r, folder)
        check_running_sums(r, folder)
        check_empty(r, folder)
        for make in GRAPHS:
            check_versions(r, folder, make)


if __name__ == '__main__':
    main()
