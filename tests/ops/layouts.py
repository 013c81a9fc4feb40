"""Cases of ops that move values, make them, or give shapes; random numbers."""
import numpy as np

from case import DTYPES, Case, Type
from optable import FLOATS
from values import SHAPES, edges, pick, random


def i32(*v):
    return np.array(v, np.int32)


def scalar(v, dtype=np.int32):
    return np.array(v, dtype)


def layout(r, rows):
    for op in rows:
        if op.name == 'InvertPermutation':
            for d in (np.int32, np.int64):
                yield Case(op.name, [r.permutation(7).astype(d)])
                yield Case(op.name, [np.array([], d)])
            continue
        for tag in op.types['T']:
            for case in pick(r, LAYOUTS[op.name], 3):
                yield case_of(r, op.name, tag, *case)


def case_of(r, op, tag, shape, operand=None, attrs=None):
    operands = [random(r, tag, shape)] + ([] if operand is None else [np.asarray(operand)])
    return Case(op, operands, dict(attrs or {}))


LAYOUTS = {
    'Reshape': [((2, 6), i32(3, 4)), ((2, 6), i32(-1)), ((4,), i32(2, -1, 1)), ((0, 3), i32(3, 0)),
                ((1, 1), np.array([], np.int32)), ((5, 7), np.array([7, -1], np.int64))],
    'Squeeze': [((1, 3, 1), None, {'squeeze_dims': [0]}), ((1, 3, 1), None, {'squeeze_dims': [-1]}),
                ((1, 1), None, {}), ((2, 1, 5, 1), None, {'squeeze_dims': [1, 3]})],
    'ExpandDims': [((3, 5), scalar(0)), ((3, 5), scalar(-1)), ((), scalar(0)),
                   ((7,), scalar(1, np.int64))],
    'Transpose': [((3, 5), i32(1, 0)), ((2, 3, 4, 5), i32(0, 3, 1, 2)), ((5, 7, 3), i32(2, 0, 1)),
                  ((2, 3, 2, 3, 2), i32(4, 2, 0, 1, 3)), ((2, 0, 3), i32(2, 1, 0)),
                  ((33, 17), i32(1, 0)), ((2, 3, 4, 5), i32(0, 2, 3, 1)), ((1,), i32(0))],
}


def concat(r, rows):
    for op in rows:
        if op.name == 'ConcatOffset':
            for d in op.types['shape_type']:
                shapes = [np.array(s).astype(DTYPES[d]) for s in ([2, 3, 5], [2, 7, 5], [2, 1, 5])]
                yield Case(op.name, [scalar(1), shapes], outputs=(0, 1, 2),
                           settings=('concat_dim', 'shape'))
            continue
        for tag in op.types['T']:
            for axis, shapes in pick(r, [(0, [(3,), (5,)]), (1, [(2, 3), (2, 1), (2, 17)]),
                                         (-1, [(2, 3, 4), (2, 3, 1)]), (0, [(0, 3), (2, 3)]),
                                         (2, [(1, 2, 5)] * 4), (1, [(3, 7)])], 3):
                x = [random(r, tag, s) for s in shapes]
                axis = scalar(axis)
                yield Case(op.name, [axis, x] if op.name == 'Concat' else [x, axis])


def pack(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape, axis, n in pick(r, [((3,), 0, 2), ((2, 5), 1, 3), ((2, 5), -1, 2),
                                           ((), 0, 4), ((0, 3), 1, 2), ((7,), 1, 1)], 3):
                if op.name == 'Pack':
                    yield Case('Pack', [[random(r, tag, shape) for _ in range(n)]], {'axis': axis})
                else:
                    where = axis if axis >= 0 else len(shape)
                    x = random(r, tag, shape[:where] + (n,) + shape[where:])
                    yield Case('Unpack', [x], {'axis': axis, 'num': n}, outputs=tuple(range(n)))


def split(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape, axis, n in pick(r, [((6,), 0, 3), ((2, 9), 1, 3), ((4, 3, 2), 0, 2),
                                           ((2, 34), -1, 2), ((5, 1), 1, 1)], 3):
                x, outputs = random(r, tag, shape), tuple(range(n))
                if op.name == 'Split':
                    yield Case('Split', [scalar(axis), x], {'num_split': n}, outputs=outputs)
                else:
                    total = shape[axis]
                    sizes = [1] * (n - 1) + [-1 if r.integers(2) else total - n + 1]
                    yield Case('SplitV', [x, np.array(sizes, np.int64), scalar(axis)],
                               {'num_split': n}, outputs=outputs)


def slice_(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape, begin, size in pick(r, [((7,), [2], [3]), ((3, 5), [0, 1], [3, -1]),
                                               ((2, 3, 4), [1, 0, 2], [1, 3, 0]),
                                               ((33, 17), [5, 3], [20, 14]), ((), [], [])], 3):
                d = r.choice([np.int32, np.int64])
                yield Case('Slice', [random(r, tag, shape), np.array(begin, d), np.array(size, d)])
        yield Case('Slice', [random(r, 'f32', (1, 3)), np.array([1, 0]), np.array([1, 3])], settings=('size',), fails=True, note='begin out of range')


# shape, begin, end, strides, masks
STRIDED = [((7,), [1], [6], [2], {}), ((7,), [-1], [-8], [-1], {}),
           ((3, 5), [0, 1], [3, 4], [1, 1], {}),
           ((3, 5), [1, 0], [2, 5], [1, 2], {'shrink_axis_mask': 1}),
           ((2, 3, 4), [0, 0], [0, 0], [1, -1], {'begin_mask': 3, 'end_mask': 3,
                                                 'ellipsis_mask': 1}),
           ((4, 5), [0, 0, 1], [0, 0, 3], [1, 1, 1], {'new_axis_mask': 1, 'end_mask': 2}),
           ((9,), [20], [-20], [-3], {}), ((5, 4), [3, 0], [1, 4], [1, 1], {}),
           ((2, 3, 4, 5), [0, 1, 0, -1], [2, 3, 4, 0], [1, 1, 2, -2], {'end_mask': 8}),
           ((6,), [4], [5], [1], {'shrink_axis_mask': 1}), ((3, 5), [1], [3], [1], {})]


def strided_slice(r, rows):
    for tag in rows[0].types['T']:
        for shape, begin, end, strides, masks in pick(r, STRIDED, 5):
            d = r.choice([np.int32, np.int64])
            yield Case('StridedSlice', [random(r, tag, shape)] + [
                np.array(v, d) for v in (begin, end, strides)], dict(masks))
    yield Case('StridedSlice', [random(r, 'f32', (1, 3))] + [np.array([v]) for v in (1, 2, 1)], {'shrink_axis_mask': 1},
               settings=('end', 'strides'), fails=True, note='index out of range')


def pad(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape, pads in pick(r, [((7,), [[2, 3]]), ((3, 5), [[1, 0], [2, 2]]),
                                        ((3, 4, 5), [[0, 0], [1, 2], [0, 1]]),
                                        ((2, 3, 4, 5), [[0, 0], [1, 1], [1, 1], [0, 0]]),
                                        ((4, 17), [[0, 0], [0, 0]]), ((3,), [[0, 2]])], 3):
                p, x = np.array(pads, r.choice([np.int32, np.int64])), random(r, tag, shape)
                if op.name == 'Pad':
                    yield Case('Pad', [x, p])
                elif op.name == 'PadV2':
                    yield Case('PadV2', [x, p, random(r, tag, ())])
                else:
                    if p.max() >= 3:
                        p = np.minimum(p, 2)
                    yield Case('MirrorPad', [x, p], {'mode': str(r.choice(['REFLECT',
                                                                           'SYMMETRIC']))})


def tile(r, rows):
    for op in rows:
        for tag in op.types['T']:
            if op.name == 'Tile':
                for shape, n in pick(r, [((3,), [2]), ((2, 5), [3, 1]), ((1, 3, 1), [2, 1, 7]),
                                         ((2, 3), [0, 2]), ((), [])], 3):
                    yield Case('Tile', [random(r, tag, shape), np.array(n, np.int32)])
            else:
                for shape, to in pick(r, [((5,), [3, 5]), ((3, 1), [3, 17]), ((), [2, 3]),
                                          ((1, 4), [0, 4]), ((2, 3), [2, 3])], 3):
                    yield Case('BroadcastTo', [random(r, tag, shape), np.array(to, np.int32)])


def gather(r, rows):
    for op in rows:
        tags = op.types['Tparams']
        for tag in tags:
            if op.name == 'GatherNd':
                for shape, index in pick(r, [((7,), (4, 1)), ((3, 5), (2, 2)), ((3, 5), (4, 1)),
                                             ((2, 3, 4), (5, 2)), ((3, 5), (2, 3, 2))], 3):
                    limits = np.array(shape[:index[-1]])
                    yield Case('GatherNd', [random(r, tag, shape), (r.random(index) * limits).astype(
                        r.choice([np.int32, np.int64]))])
                continue
            for shape, index, axis in pick(r, [((7,), (4,), 0), ((5, 3), (), 0), ((5, 3), (2, 2), 0),
                                               ((2, 9, 3), (4,), 1), ((3, 4), (3,), -1),
                                               ((6, 2), (0,), 0)], 3):
                if op.name == 'Gather':
                    axis = 0
                at = r.integers(0, shape[axis], index).astype(r.choice([np.int32, np.int64]))
                x = random(r, tag, shape)
                yield Case(op.name, [x, np.asarray(at)] + (
                    [scalar(axis)] if op.name == 'GatherV2' else []))
        x = random(r, 'f32', (4, 5, 3))
        if op.name == 'GatherV2':
            at = r.integers(0, 5, (4, 2)).astype(np.int32)
            yield Case(op.name, [x, at, scalar(1)], {'batch_dims': 1})
        bad = np.array([[5], [0]], np.int32) if op.name == 'GatherNd' else np.array([1, 9], np.int32)
        for of in (x, x[:1], x[:1, :1, :1]):
            for index in (bad, -bad - 1):
                yield Case(op.name, [of, index] + ([scalar(0)] if op.name == 'GatherV2' else []),
                           fails=True, note=f'index out of range, of {list(of.shape)}')


def rolls(r, tag):
    for shape, shift, axis in pick(r, [((7,), 3, 0), ((3, 5), -4, 1), ((2, 3, 4), [1, -1], [0, -1]), ((4, 6), [5, 9], [1, 1]),
                                       ((33, 2), [-40], [0])], 3):
        yield Case('Roll', [random(r, tag, shape), np.array(shift, np.int32), np.array(axis, np.int64)],
                   settings=('shift', 'axis'))


def sequences(r, tag):
    for shape, along, row in pick(r, [((5, 3), 0, 1), ((3, 17), 1, 0), ((4, 2, 6), 2, 0), ((2, 3, 5, 7), 1, 2)], 2):
        lengths = r.integers(0, shape[along] + 1, shape[row]).astype(r.choice([np.int32, np.int64]))
        yield Case('ReverseSequence', [random(r, tag, shape), lengths], {'seq_dim': along, 'batch_dim': row})
    for length in (-1, 6) if tag == 'f32' else ():
        yield Case('ReverseSequence', [random(r, tag, (5, 2)), np.array([3, length])], {'seq_dim': 0, 'batch_dim': 1},
                   fails=True, note='length out of range')


def reverse(r, rows):
    for op in rows:
        if op.name in ('Roll', 'ReverseSequence'):
            for tag in op.types['T']:
                yield from (rolls if op.name == 'Roll' else sequences)(r, tag)
            continue
        for tag in op.types['T']:
            for shape, axes in pick(r, [((7,), [0]), ((3, 5), [1]), ((2, 3, 4), [0, 2]),
                                        ((2, 3, 4), []), ((33, 2), [0, 1])], 3):
                if op.name == 'Reverse':
                    dims = np.array([k in axes for k in range(len(shape))])
                    yield Case('Reverse', [random(r, tag, shape), dims])
                else:
                    signed = [a - len(shape) if r.integers(2) else a for a in axes]
                    yield Case('ReverseV2', [random(r, tag, shape), np.array(signed, np.int32)])


def space(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for case in SPACES[op.name]:
                shape, operands, attrs = case
                yield Case(op.name, [random(r, tag, shape), *map(np.asarray, operands)], attrs)
        if op.name in ('DepthToSpace', 'SpaceToDepth'):
            shape = (1, 12, 3, 5) if op.name == 'DepthToSpace' else (1, 3, 4, 6)
            attrs = {'block_size': 2, 'data_format': 'NCHW'}

            def oracle(inputs, attrs, name=op.name):
                from case import tensorflow_op
                y = tensorflow_op(name, ['input'], [inputs[0].transpose(0, 2, 3, 1)],
                                  {'block_size': 2})[0]
                return [y.transpose(0, 3, 1, 2)]
            yield Case(op.name, [random(r, 'f32', shape)], attrs, oracle=oracle)


SPACES = {
    'DepthToSpace': [((2, 3, 5, 12), [], {'block_size': 2}), ((1, 1, 1, 9), [], {'block_size': 3})],
    'SpaceToDepth': [((2, 4, 6, 3), [], {'block_size': 2}), ((1, 3, 3, 1), [], {'block_size': 3})],
    'SpaceToBatch': [((1, 4, 4, 3), [i32([0, 0], [0, 0])], {'block_size': 2}),
                     ((2, 3, 5, 1), [i32([1, 0], [0, 1])], {'block_size': 2})],
    'SpaceToBatchND': [((1, 4, 4, 3), [i32(2, 2), i32([0, 0], [0, 0])], {}),
                       ((2, 5, 3), [i32(3), i32([1, 0])], {})],
    'BatchToSpace': [((4, 2, 3, 1), [i32([0, 0], [0, 0])], {'block_size': 2}),
                     ((8, 2, 2, 3), [i32([0, 1], [1, 0])], {'block_size': 2})],
    'BatchToSpaceND': [((4, 2, 3, 2), [i32(2, 2), i32([0, 0], [0, 1])], {}),
                       ((6, 4), [i32(3), i32([1, 2])], {})],
}


def fill(r, rows):
    for op in rows:
        tags = op.types['T']
        for tag in tags:
            if op.name == 'Fill':
                for shape in pick(r, SHAPES, 3):
                    yield Case('Fill', [np.array(shape, np.int32), random(r, tag, ())])
            else:
                yield Case(op.name, [edges(tag)])
                for shape in pick(r, SHAPES, 2):
                    yield Case(op.name, [random(r, tag, shape)])


def range_(r, rows):
    for op in rows:
        if op.name == 'LinSpace':
            for tag in op.types['T']:
                d = DTYPES[tag]
                for a, b, n in ((0, 1, 5), (2.5, -3, 17), (4, 4, 1), (-1, 1, 2)):
                    yield Case('LinSpace', [np.array(a).astype(d), np.array(b).astype(d), scalar(n)],
                               ulps=1, slack=3e-7 if tag == 'f32' else 0)
            continue
        for tag in op.types['Tidx']:
            d = DTYPES[tag]
            spans = [(0, 7, 1), (2, 20, 3), (5, 5, 1)] + (
                [] if tag[0] == 'u' else [(9, -4, -2)]) + ([(0, 1, .25)] if tag in FLOATS else [])
            for span in spans:
                yield Case('Range', [np.array(v).astype(d) for v in span])


def one_hot(r, rows):
    for tag in rows[0].types['T']:
        for index in rows[0].types['TI']:
            shape, axis = [((7,), -1), ((2, 3), 0), ((), -1), ((3, 5), 1)][int(r.integers(4))]
            at = r.integers(0 if index[0] == 'u' else -1, 7, shape).astype(DTYPES[index])
            on, off = np.array(1).astype(DTYPES[tag]), np.array(0).astype(DTYPES[tag])
            yield Case('OneHot', [np.asarray(at), scalar(5), on, off], {'axis': axis})


def sparse_to_dense(r, rows):
    for tag in rows[0].types['T']:
        for index in (np.int32, np.int64):
            off = random(r, tag, ())
            for shape, at, values in (((7,), [[1], [4], [6]], (3,)), ((3, 5), [[0, 2], [2, 1]], ()),
                                      ((4,), [0, 2, 3], (3,))):
                yield Case('SparseToDense', [np.array(at, index), np.array(shape, index),
                                             random(r, tag, values), off],
                           {'validate_indices': True},
                           settings=('sparse_indices', 'output_shape'))


def shape(r, rows):
    for op in rows:
        if op.name == 'BroadcastArgs':
            for d in (np.int32, np.int64):
                yield Case(op.name, [np.array([3, 1, 5], d), np.array([4, 5], d)])
            continue
        for tag in op.types['T']:
            for s in pick(r, SHAPES, 2):
                attrs = {'out_type': Type(r.choice(['i32', 'i64']))} if op.name != 'Rank' else {}
                if op.name == 'ShapeN':
                    yield Case(op.name, [[random(r, tag, s), random(r, tag, (3, 5))]], attrs,
                               outputs=(0, 1))
                else:
                    yield Case(op.name, [random(r, tag, s)], attrs)
