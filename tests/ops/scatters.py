"""Cases of slices that are scattered by indices, and of further ops of gradients and sampled losses."""
import numpy as np

from case import DTYPES, LOW, Case, Type, flushed, tensorflow_op, widen
from draws import exact, seed
from optable import FLOATS
from reductions import sums
from values import edges, random

# tensor, indices
TUPLES = [((7,), (4, 1)), ((3, 5), (6, 1)), ((3, 5), (9, 2)), ((4, 3, 70), (5, 1)), ((2, 3, 4), (5, 2)), ((3, 5), (2, 3, 2)),
          ((6, 2), (0, 1)), ((3, 5), (1, 1)), ((2, 2100), (11, 1)), ((4, 5, 3), (2,)), ((1,), (300, 1))]


def settings(r, names, always=()):
    """The names of constant operands: sometimes all, so that the op is folded."""
    return tuple(names) if r.random() < .2 else (*always,)


def tuples(r, shape, index):
    limits = np.array(shape[:index[-1]], int).reshape(-1)
    return (r.random(index) * limits).astype(r.choice([np.int32, np.int64]))


def wide(op, names):
    """Slices of 16 bits are summed in float32; TensorFlow sums one after the other in 16 bits."""
    def oracle(inputs, attrs):
        d = inputs[0 if op != 'ScatterNd' else 1].dtype
        got = tensorflow_op(op, names, [widen(i, 'f32') for i in inputs], attrs)
        return [flushed(g.astype(d)) for g in got]
    return oracle


def scatter(r, rows):
    for op in rows:
        names = [a.name for a in op.args]
        for tag in op.types['T']:
            more = {'oracle': wide(op.name, names)} if tag in LOW else {}
            for shape, index in [TUPLES[i] for i in r.choice(len(TUPLES), 6, replace=False)]:
                at = tuples(r, shape, index)
                by = random(r, tag, (*index[:-1], *shape[index[-1]:]))
                x = random(r, tag, shape)
                given = [at, by, np.array(shape, at.dtype)] if op.name == 'ScatterNd' else [x, at, by]
                yield Case(op.name, given, settings=settings(r, names, ['shape']), **more)
            e = edges(tag)
            at = r.permutation(np.arange(e.size))[:, None].astype(np.int32)
            if op.name == 'ScatterNd':
                yield Case(op.name, [at, e, np.array([e.size], np.int32)], **more)
            elif op.name[-3:] not in ('Min', 'Max'):
                yield Case(op.name, [np.zeros_like(e), at, e], **more)
        x, by = random(r, 'f32', (4, 5)), random(r, 'f32', (2, 5))
        for bad in ([[0], [4]], [[-1], [2]], 'one'):
            if bad == 'one':
                x, bad = x[:1], [[0], [1]]
            at = np.array(bad, np.int32)
            yield Case(op.name, [at, by, np.array(x.shape, np.int32)] if op.name == 'ScatterNd' else [x, at, by], fails=True,
                       note='index out of range')


# data, axes of the ids, segments
SEGMENTS = [((9,), 1, 4), ((5, 3), 1, 7), ((20, 70), 1, 3), ((3, 4, 5), 2, 6), ((2, 3), 2, 1), ((0, 3), 1, 4), ((300, 2), 1, 5),
            ((4,), 0, 2), ((6, 2100), 1, 3)]


def segment(r, rows):
    for op in rows:
        names = [a.name for a in op.args]
        for tag in op.types['T']:
            more = sums(tag) if op.name[-3:] in ('Sum', 'rod') and tag in FLOATS else {}
            for shape, axes, count in [SEGMENTS[i] for i in r.choice(len(SEGMENTS), 5, replace=False)]:
                ids = np.asarray(r.integers(-1, count, shape[:axes])).astype(r.choice([np.int32, np.int64]))
                data = random(r, tag, shape)
                if op.name.endswith('Prod') and tag in FLOATS:
                    data = (data / 4).astype(data.dtype)
                low = {} if tag not in LOW else {'oracle': exact(op.name) if op.name[-3:] in ('Min', 'Max') else wide(op.name, names)}
                yield Case(op.name, [data, ids, np.array(count, np.int32)], settings=settings(r, names, ['num_segments']), **more, **low)
        bad = np.array([0, 3], np.int32)
        yield Case(op.name, [random(r, 'f32', (2, 5)), bad, np.array(3, np.int32)], settings=('num_segments',), fails=True,
                   note='id out of range')


# shape, begin, end, strides, masks
SLICES = [((9,), [2], [7], [2], {}), ((5, 6), [1, 0], [4, 6], [1, 5], {}), ((5, 6), [4, -1], [0, -7], [-2, -1], {}),
          ((3, 4, 5), [1, 0, 2], [2, 4, 3], [1, 1, 1], {'shrink_axis_mask': 5}), ((4, 5), [0, 0], [2, 3], [1, 1], {'begin_mask': 3, 'end_mask': 3}),
          ((4, 5), [0, 1, 0], [0, 3, 0], [1, 1, 1], {'new_axis_mask': 1, 'end_mask': 4, 'begin_mask': 4}),
          ((2, 3, 4, 5), [0, 1], [0, 3], [1, 1], {'ellipsis_mask': 1}), ((7, 3), [5], [2], [1], {}), ((33, 2), [1], [33], [3], {})]


def strided_slice_gradient(r, rows):
    for tag in rows[0].types['T']:
        for shape, begin, end, strides, masks in SLICES:
            d = r.choice([np.int32, np.int64])
            y = tensorflow_op('StridedSlice', ['input', 'begin', 'end', 'strides'],
                              [np.zeros(shape, np.int8), *(np.array(v, d) for v in (begin, end, strides))], masks)[0]
            yield Case('StridedSliceGrad', [np.array(v, d) for v in (shape, begin, end, strides)] + [random(r, tag, y.shape)], masks,
                       settings=('shape', 'begin', 'end', 'strides'))


RESIZES = [((1, 3, 4, 3), (7, 9)), ((2, 8, 8, 1), (3, 5)), ((2, 5, 5, 70), (5, 10)), ((1, 1, 1, 2), (4, 4)), ((3, 6, 4, 5), (1, 1)),
           ((1, 4, 4, 3), (4, 4))]
KINDS = [{}, {'align_corners': True}, {'half_pixel_centers': True}]


def resize_gradient(r, rows):
    """The gradient of resizing: an image and its resized form."""
    for op in rows:
        linear = op.name == 'ResizeBilinearGrad'
        for tag in op.types['T']:
            for shape, to in RESIZES:
                attrs = KINDS[int(r.integers(3))]
                dy = random(r, 'f32' if linear else tag, (shape[0], *to, shape[3]), 0, 3)
                inputs = [dy, random(r, tag, shape)] if linear else [dy, np.array(shape[1:3], np.int32)]
                names, image = [a.name for a in op.args], inputs[1] if linear else dy

                def oracle(inputs, attrs, name=op.name, names=names, d=image.dtype):
                    low = d.itemsize == 2 and d != np.int16
                    given = [i.astype(np.float32) if low and i.dtype == d else i for i in inputs]
                    return [flushed(tensorflow_op(name, names, given, attrs)[0].astype(d))]
                yield Case(op.name, inputs, attrs, oracle=oracle, settings=settings(r, names, ['size']), **sums(tag))


def lrn_gradient(r, rows):
    for tag in rows[0].types['T']:
        for shape in ((1, 2, 3, 7), (2, 3, 3, 40), (1, 1, 1, 1), (2, 4, 4, 16)):
            attrs = {'depth_radius': int(r.integers(1, 6)), 'bias': 1.5, 'alpha': float(np.float32(r.uniform(.1, 1))),
                     'beta': float(np.float32(r.uniform(.3, 1)))}
            x, dy = random(r, tag, shape), random(r, tag, shape)
            y = tensorflow_op('LRN', ['input'], [widen(x, 'f32')], attrs)[0].astype(x.dtype)

            def oracle(inputs, attrs):
                names = ['input_grads', 'input_image', 'output_image']
                return [flushed(tensorflow_op('LRNGrad', names, [widen(i, 'f32') for i in inputs], attrs)[0].astype(inputs[0].dtype))]
            yield Case('LRNGrad', [dy, x, y], attrs, oracle=oracle, ulps=64 if tag == 'f32' else 4, slack=1e-5 if tag == 'f32' else .01)


def in_top_k(r, rows):
    for op in rows:
        for target in op.types['T']:
            d = DTYPES[target]
            for batch, classes in ((1, 1), (5, 7), (40, 3), (3, 2000), (7, 33), (0, 4)):
                x = random(r, 'f32', (batch, classes))
                x = np.round(x) if r.random() < .5 else x
                for i in range(0, batch, 3):
                    x[i, r.integers(classes)] = r.choice([np.nan, np.inf, -np.inf, 3])
                t = r.integers(-1, classes + 1, batch).astype(d)
                k = int(r.integers(1, max(2, classes)))
                if op.name == 'InTopK':
                    yield Case(op.name, [x, t], {'k': k})
                else:
                    yield Case(op.name, [x, t, np.array(k, d)], settings=() if r.random() < .5 else ('k',))


def candidates(r, rows):
    """TensorFlow's numbers; the expected counts use functions of the C library."""
    for op in rows:
        for classes, samples, unique in ((1, 1, False), (10, 10, True), (7, 50, False), (64, 40, True), (2000, 64, True), (5, 5, True),
                                         (2**33 + 5, 20, True), (50000, 512, True)):
            if classes > 2**32 and op.name not in ANY_CLASSES:
                continue
            attrs = sampler(r, op.name, classes, samples, unique)
            true = r.integers(0, classes if 'range_max' in attrs else samples, (int(r.integers(1, 9)), int(r.integers(1, 4))))
            attrs['num_true'] = true.shape[1]
            yield Case(op.name, [true], attrs, oracle=exact(op.name), outputs=(0, 1, 2), ulps=4)
        beyond = true.copy()
        beyond[-1, -1] = r.choice([-1, attrs.get('range_max', attrs['num_sampled'])])
        yield Case(op.name, [beyond], attrs, fails=True)
        if 'range_max' in attrs:
            yield Case(op.name, [true % 8], {**attrs, **weights_of(r, op.name, 8), 'num_sampled': 9, 'range_max': 8, 'unique': True}, fails=True)
        if op.name == 'FixedUnigramCandidateSampler':
            for wrong in {'unigrams': [1.]}, {'unigrams': [], 'vocab_file': 'weights.csv'}, {'num_shards': 4, 'shard': 1}:
                yield Case(op.name, [true], {**attrs, **wrong}, fails=True)


ANY_CLASSES = 'UniformCandidateSampler', 'LogUniformCandidateSampler'


def sampler(r, name, classes, samples, unique):
    attrs = {'num_sampled': samples, 'unique': unique, 'seed': seed(r), 'seed2': seed(r)}
    return attrs if name == 'AllCandidateSampler' else {**attrs, 'range_max': classes, **weights_of(r, name, classes)}


def weights_of(r, name, classes):
    """A weight for each class, of which some are reserved ones with the weight 0, of one of several shards."""
    if name != 'FixedUnigramCandidateSampler':
        return {}
    reserved = int(r.integers(0, 2)) if classes == 7 else 0
    shards = 1 if reserved else int(r.integers(1, 4))
    weights = (r.integers(1, 99, (classes - reserved) * shards)).astype('f4')
    return {'unigrams': [float(w) for w in weights], 'distortion': float(r.choice([1, .75])), 'num_reserved_ids': reserved,
            'num_shards': shards, 'shard': int(r.integers(shards))}


def bins(r, rows):
    for op in rows:
        yield from BINS[op.name](r, op)


def counts(r, op):
    dense = op.name == 'DenseBincount'
    for tag in op.types['T']:
        for shape in ((0,), (7,), (300,), (3, 40), (2, 1)):
            if not dense and len(shape) > 1:
                continue
            for weighted in False, True:
                index = DTYPES[str(r.choice(op.types['Tidx']))] if dense else np.int32
                x, size = r.integers(0, 9, shape).astype(index), int(r.integers(1, 12))
                weights = random(r, tag, shape if weighted else (0,))
                attrs = {'binary_output': bool(r.random() < .3)} if dense else {}
                yield Case(op.name, [x, np.array(size, index), weights], attrs, settings=('size',), **sums(tag))
        yield Case(op.name, [np.array([1, -1], np.int32), np.array(4, np.int32), np.zeros(0, DTYPES[tag])], settings=('size',), fails=True)


def bounds_of_rows(r, op):
    for tag in op.types['T']:
        if tag == 'bool':
            continue
        for rows, n, m in ((1, 1, 1), (2, 9, 40), (3, 100, 5), (1, 0, 3), (2, 4, 0)):
            x = np.sort(random(r, tag, (rows, n)).astype(np.float64), axis=1).astype(DTYPES[tag])
            values = random(r, tag, (rows, m))
            if n and m:
                values[0, 0] = x[0, n // 2]
            yield Case(op.name, [x, values], {'out_type': Type(r.choice(['i32', 'i64']))}, oracle=exact(op.name))
    values = np.array([[np.nan, np.inf, -np.inf, 0, -0.]], 'f4')
    yield Case(op.name, [np.array([[-np.inf, -1, 0, 0, 3, np.inf]], 'f4'), values], {'out_type': Type('i32')}, oracle=exact(op.name))


def buckets(r, op):
    for tag in op.types['T']:
        for at in ([], [0.], [-2.5, -1., .1, .1, 3.], sorted(float(np.float32(v)) for v in r.normal(0, 3, 30))):
            for shape in ((), (33,), (2, 0), (3, 5, 7)):
                yield Case(op.name, [random(r, tag, shape)], {'boundaries': at})
        yield Case(op.name, [edges(tag)], {'boundaries': [-1., 0., 1., 16777216., 3e38]})


BINS = {'Bincount': counts, 'DenseBincount': counts, 'LowerBound': bounds_of_rows, 'UpperBound': bounds_of_rows, 'Bucketize': buckets}
