"""Cases of ops that only training uses: gradients, losses, batch normalisation by the moments of a batch."""
import numpy as np

from case import DTYPES, LOW, TAGS, Case, flushed, tensorflow_op, widen
from elementwise import accuracy
from images import POOLS, columns, conv_attrs, nchw, spatial, strides
from optable import FLOATS
from reductions import sums
from values import SHAPES, pair_edges, pick, random

EXACT = {'ReluGrad', 'Relu6Grad', 'LeakyReluGrad'}
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772
# Ops that TensorFlow approximates, or for which it has no kernel of the type.
FUNCTIONS = {
    'EluGrad': lambda dy, y: np.where(y < 0, (y + 1) * dy, dy),
    'SeluGrad': lambda dy, y: np.where(y < 0, (y + SCALE * ALPHA) * dy, SCALE * dy),
    'SoftplusGrad': lambda dy, x: dy / (1 + np.exp(-x)),
    'SoftsignGrad': lambda dy, x: dy / np.square(1 + np.abs(x)),
    'SigmoidGrad': lambda y, dy: dy * y * (1 - y),
    'TanhGrad': lambda y, dy: dy * (1 - y * y),
    'SqrtGrad': lambda y, dy: dy * .5 / y,
    'RsqrtGrad': lambda y, dy: dy * -.5 * y * y * y,
    'ReciprocalGrad': lambda y, dy: -dy * y * y,
    'InvGrad': lambda y, dy: -dy * y * y,
}


def of_function(f):
    def oracle(inputs, attrs):
        with np.errstate(all='ignore'):
            return [flushed(np.asarray(f(*(i.astype(np.float64) for i in inputs))).astype(inputs[0].dtype))]
    return oracle


def gradient(r, rows):
    for op in rows:
        for tag in op.types['T']:
            more = {} if op.name in EXACT else accuracy(op.name, tag) | {
                'oracle': of_function(FUNCTIONS[op.name]), 'absolute': 1e-5 if tag != 'f64' else 1e-13}
            if op.name == 'LeakyReluGrad':
                more['attrs'] = {'alpha': float(np.float32(.3))}
            a, b = pair_edges(tag)
            if op.name in EXACT:
                yield Case(op.name, [a, b], **more)
            for shape in pick(r, SHAPES, 4):
                yield Case(op.name, [random(r, tag, shape), random(r, tag, shape)], **more)
        yield Case(op.name, [random(r, 'f32', (3,)), random(r, 'f32', (4,))], fails=True)


# ---- pooling ----

POOL_NAMES = ['orig_input_shape', 'grad'], ['orig_input', 'orig_output', 'grad']


def pooled(tag, x, attrs):
    """The result of MaxPool, computed in float64, which is exact."""
    return tensorflow_op('MaxPool', ['input'], [x.astype(np.float64)], attrs)[0].astype(DTYPES[tag])


def pool_gradient(r, rows):
    for op in rows:
        is_max = op.name == 'MaxPoolGrad'
        for tag in op.types['T']:
            for h, w, c, kh, kw, stride, padding in [*pick(r, POOLS, 5), *columns(r, 2)]:
                attrs = {'ksize': spatial(kh, kw), 'strides': strides(stride), 'padding': padding}
                x = random(r, tag, (2, h, w, c), -3, 3)
                if is_max and tag in FLOATS:
                    x = np.round(x)  # with ties: the first one counts
                y = pooled(tag, x, attrs)
                dy = random(r, tag, y.shape, 0, 5)
                inputs = [x, y, dy] if is_max else [np.array(x.shape, np.int32), dy]
                yield Case(op.name, inputs, attrs, oracle=pool_oracle(op.name, tag), settings=('orig_input_shape',),
                           **sums(tag))


            h, w, c, kh, kw, stride, padding = POOLS[int(r.integers(len(POOLS)))]
            attrs = {'ksize': spatial(kh, kw), 'strides': spatial(stride, stride), 'padding': padding}
            x = random(r, tag, (2, h, w, c), -3, 3)
            y = pooled(tag, x, attrs)
            turned = [a.transpose(0, 3, 1, 2) for a in (x, y, random(r, tag, y.shape, 0, 5))]
            if tag in FLOATS:
                yield Case(op.name, turned if is_max else [np.array(turned[0].shape, np.int32), turned[2]], nchw(attrs),
                           oracle=nchw_oracle(op.name, POOL_NAMES[is_max], attrs), settings=('orig_input_shape',), **sums(tag))


def pool_oracle(op, tag):
    names = POOL_NAMES[op == 'MaxPoolGrad']

    def oracle(inputs, attrs):
        wide = [widen(i, 'f32') if tag in LOW else i for i in inputs]
        return [flushed(tensorflow_op(op, names, wide, attrs)[0].astype(DTYPES[tag]))]
    return oracle


# ---- convolutions ----

# images, height, width, channels, filter height and width, output channels, stride, dilation, padding
FILTERS = [(2, 7, 9, 3, 3, 3, 5, 1, 1, 'SAME'), (3, 7, 9, 3, 3, 3, 5, 2, 1, 'SAME'), (2, 8, 8, 4, 3, 3, 17, 2, 1, 'VALID'),
           (2, 5, 5, 16, 1, 1, 16, 1, 1, 'SAME'), (1, 6, 7, 5, 1, 1, 3, 2, 1, 'VALID'), (2, 12, 11, 2, 5, 3, 7, 1, 2, 'SAME'),
           (2, 10, 10, 1, 7, 7, 20, 2, 1, 'SAME'), (2, 30, 40, 1, 5, 5, 8, 1, 1, 'SAME'), (6, 56, 56, 4, 3, 3, 70, 1, 1, 'SAME'),
           (2, 150, 150, 3, 3, 3, 64, 1, 1, 'SAME'), (2, 8, 6, 5, 1, 1, 20, 2, 1, 'SAME'), (5, 20, 20, 8, 3, 3, 64, 1, 1, 'SAME'), (1, 60, 60, 40, 3, 3, 64, 1, 1, 'SAME'),
           (2, 12, 14, 320, 3, 3, 128, 2, 1, 'SAME'), (2, 6, 6, 3, 3, 3, 4, 1, 1, [1, 0, 2, 1])]


def as_wide(r):
    """Windows as wide as the image, and sometimes as high: padding in front of and behind rows, none beside columns."""
    h, w, c = int(r.integers(2, 24)), int(r.integers(1, 40)), int(r.integers(1, 4))
    kh = h if r.random() < .2 else int(r.integers(1, min(h, 5) + 1))
    above, below = (0, 0) if kh == h else r.integers(0, kh, 2).tolist()
    return (int(r.integers(1, 4)), h, w, c, kh, w, int(r.integers(1, 70)), int(r.integers(1, 3)), 1, [above, below, 0, 0])


def of_many_channels(r):
    """Several groups of channels read the same shares of the result's gradient."""
    h, w, size = int(r.integers(3, 9)), int(r.integers(3, 9)), int(r.choice([2, 3]))
    padding = 'SAME' if r.random() < .5 else r.integers(0, size, 4).tolist()
    channels = int(r.choice([128, 192, 256])) if r.random() < .5 else int(r.integers(1, 150))
    return (int(r.integers(1, 6)), h, w, 64 * int(r.integers(3, 7)), size, size, channels, int(r.integers(1, 3)), 1, padding)


def of_large_images(r):
    """Lines of one image are several parts of the sum over pixels; the result's gradient is several panels of columns, or one."""
    size, stride, few = int(r.choice([3, 5, 7])), int(r.integers(1, 3)), r.random() < .5
    h, w = (int(r.integers(100, 150)) if few else int(r.integers(50, 65)) for _ in range(2))
    padding = 'SAME' if r.random() < .5 else r.integers(0, size, 4).tolist()
    return (int(r.integers(1, 3)), h, w, int(r.integers(1, 6)) if few else int(r.choice([32, 64])), size, size,
            64 * int(r.integers(1, 4 - few)), stride, 1, padding)


def sizes_of(c):
    n, h, w, ci, kh, kw, co, stride, dilation, padding = c
    span = [(k - 1) * dilation + 1 for k in (kh, kw)]
    if padding == 'SAME':
        return [-(-v // stride) for v in (h, w)]
    more = [padding[0] + padding[1], padding[2] + padding[3]] if isinstance(padding, list) else [0, 0]
    return [(v + m - s) // stride + 1 for v, m, s in zip((h, w), more, span)]


def wide_oracle(op, names, image):
    """In float64, since TensorFlow's float32 sums of many products err more than the tolerance."""
    def oracle(inputs, attrs):
        tag = TAGS[inputs[image].dtype]
        wide = [widen(i, 'f64') if tag != 'f64' else i for i in inputs]
        return [flushed(tensorflow_op(op, names, wide, attrs)[0].astype(DTYPES[tag]))]
    return oracle


def conv2d_filter(r, rows):
    for op in rows:
        depthwise, by_image = 'Depthwise' in op.name, op.name.endswith('Input')
        names = ['input_sizes', 'filter', 'out_backprop'] if by_image else ['input', 'filter_sizes', 'out_backprop']
        for tag in op.types['T']:
            more = {'f32': dict(slack=1e-5), 'f64': dict(slack=1e-13)}.get(tag, sums(tag))
            for c in [*pick(r, FILTERS[:-1] if depthwise else FILTERS, 12 if tag == 'f32' else 4),
                      *(as_wide(r) for _ in range(0 if depthwise else 6 if tag == 'f32' else 2)),
                      *(of_many_channels(r) for _ in range(0 if depthwise or by_image else 4 if tag == 'f32' else 2)),
                      *(of_large_images(r) for _ in range(0 if depthwise or by_image else 2 if tag == 'f32' else 1))]:
                n, h, w, ci, kh, kw, co, stride, dilation, padding = c
                co = ci * (co % 3 + 1) if depthwise else co
                filters = (kh, kw, ci, co // ci if depthwise else co)
                x, dy = random(r, tag, (n, h, w, ci)), random(r, tag, (n, *sizes_of(c), co))
                attrs = conv_attrs(stride, dilation if not depthwise else 1, padding)
                if depthwise and dilation > 1:
                    continue
                inputs = [np.array(x.shape, np.int32), random(r, tag, filters), dy] if by_image else [
                    x, np.array(filters, np.int32), dy]
                yield Case(op.name, inputs, attrs, settings=('input_sizes', 'filter_sizes'),
                           oracle=wide_oracle(op.name, names, 1 if by_image else 0), **more)
        if op.name == 'Conv2DBackpropFilter':
            for tag in 'f32', 'bf16':
                x, dy = random(r, tag, (2, 3, 6, 5)), random(r, tag, (2, 4, 6, 5))
                attrs = conv_attrs(1, 1, 'SAME')
                yield Case(op.name, [x, np.array((3, 3, 3, 4), np.int32), dy], nchw(attrs), settings=('filter_sizes',),
                           oracle=nchw_oracle(op.name, names, attrs), **({'slack': 1e-5} if tag == 'f32' else sums(tag)))
            # groups
            x, dy = random(r, 'f32', (2, 5, 6, 6)), random(r, 'f32', (2, 5, 6, 8))
            yield Case(op.name, [x, np.array((3, 3, 3, 8), np.int32), dy], conv_attrs(1, 1, 'SAME'),
                       oracle=grouped_oracle, settings=('filter_sizes',), slack=1e-5)


def nchw_oracle(op, names, attrs):
    """An oracle for channels first; operands of four axes that are no filters are images, and so are sizes of one."""
    def oracle(inputs, _):
        tag = next(TAGS[i.dtype] for i in inputs if i.ndim == 4)
        wide = [i.astype(np.float64).transpose(0, 2, 3, 1) if i.ndim == 4 else i for i in inputs]
        if names[0].endswith('shape'):
            wide[0] = wide[0][[0, 2, 3, 1]]
        y = tensorflow_op(op, names, wide, attrs)[0]
        return [flushed((y if op == 'Conv2DBackpropFilter' else y.transpose(0, 3, 1, 2)).astype(DTYPES[tag]))]
    return oracle


def grouped_oracle(inputs, attrs):
    x, sizes, dy = inputs
    parts = [tensorflow_op('Conv2DBackpropFilter', ['input', 'filter_sizes', 'out_backprop'],
                           [a, np.array((3, 3, 3, 4), np.int32), b], attrs)[0]
             for a, b in zip(np.split(x, 2, 3), np.split(dy, 2, 3))]
    return [np.concatenate(parts, 3)]


# ---- shapes ----

def gradient_axes(r, rows):
    shapes = [(), (1,), (3,), (1, 3), (2, 3), (2, 1), (4, 2, 3), (4, 1, 1), (1, 1), (1, 2, 3), (0,), (2, 1, 1), (1, 4, 1, 1)]
    for op in rows:
        for tag in op.types['T']:
            for a in shapes:
                for b in shapes:
                    try:
                        np.broadcast_shapes(a, b)
                    except ValueError:
                        continue
                    yield Case(op.name, [np.array(a, DTYPES[tag]), np.array(b, DTYPES[tag])], outputs=(0, 1))


def stitch_order(r, count, repeats):
    """Indices that are all different, or of which the last one occurs twice, so that the last value counts."""
    order = r.permutation(count).astype(np.int32)
    if repeats and count > 1:
        order[-1] = order[0] if order[-1] != max(order) else order[-1]
        if set(order.tolist()) != set(range(max(order.tolist()) + 1)):
            order = r.permutation(count).astype(np.int32)
    return order


def stitch(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shapes, rest in (([(3,), (2,)], ()), ([(2, 2), ()], (3,)), ([(4,)], (2, 5)), ([(1,), (3,), (2,)], (1,))):
                counts = [int(np.prod(s)) for s in shapes]
                order = stitch_order(r, sum(counts), op.name == 'DynamicStitch')
                parts = np.split(order, np.cumsum(counts)[:-1])
                indices = [p.reshape(s) for p, s in zip(parts, shapes)]
                yield Case(op.name, [indices, [random(r, tag, (*s, *rest)) for s in shapes]], settings=('indices',))


# ---- losses and batch normalisation ----

def training(r, rows):
    for op in rows:
        if 'Softmax' in op.name:
            yield from losses(r, op)
        elif op.name == 'BiasAddGrad':
            for tag in op.types['T']:
                for shape, layout in (((5, 7), 'NHWC'), ((2, 3, 5, 17), 'NHWC'), ((2, 6, 3, 4), 'NCHW')):
                    yield Case(op.name, [random(r, tag, shape)], {'data_format': layout},
                               oracle=bias_oracle(layout), **sums(tag))
        elif op.name == 'MirrorPadGrad':
            yield from mirrored(r, op)
        else:
            yield from norm_gradients(r, op)


def mirrored(r, op):
    """Borders as wide as the mode allows, of several axes."""
    for tag in op.types['T']:
        if tag == 'bool':
            continue
        for mode in 'REFLECT', 'SYMMETRIC':
            for rank in 1, 2, 4:
                size = r.integers(2, 6, rank)
                around = [[int(r.integers(0, n + (mode == 'SYMMETRIC'))) for _ in range(2)] for n in size]
                x = random(r, tag, [int(n) + sum(a) for n, a in zip(size, around)])

                def oracle(inputs, attrs):
                    wide = inputs[0].astype(np.float64 if TAGS[inputs[0].dtype] in FLOATS else np.int64)
                    y = tensorflow_op('MirrorPadGrad', ['input', 'paddings'], [wide, inputs[1]], attrs)[0]
                    return [flushed(y.astype(inputs[0].dtype))]
                yield Case(op.name, [x, np.array(around, np.int32)], {'mode': mode}, oracle=oracle, **sums(tag))


def bias_oracle(layout):
    def oracle(inputs, _):
        x = inputs[0]
        axes = tuple(i for i in range(x.ndim) if i != (1 if layout == 'NCHW' and x.ndim > 2 else x.ndim - 1))
        wide = x.astype(np.float64) if TAGS[x.dtype] in FLOATS else x
        return [flushed(wide.sum(axes).astype(x.dtype))]
    return oracle


def losses(r, op):
    sparse = op.name.startswith('Sparse')
    for tag in op.types['T']:
        more = {'f32': dict(slack=2e-6), 'f64': dict(slack=1e-13)}.get(tag, dict(ulps=1, slack=1e-4))
        for rows, classes in ((1, 1), (3, 10), (7, 65), (4, 1001)):
            x = random(r, tag, (rows, classes))
            if sparse:
                labels = [r.integers(0, classes, rows).astype(DTYPES[t]) for t in op.types['Tlabels']]
            else:
                p = np.exp(r.normal(0, 1, (rows, classes)))
                labels = [(p / p.sum(1, keepdims=True)).astype(DTYPES[tag])]
            for label in labels:
                yield Case(op.name, [x, label], outputs=(0, 1), oracle=loss_oracle(sparse), **more)
    if sparse:
        yield Case(op.name, [random(r, 'f32', (3, 5)), np.array([0, 5, 1], np.int32)], outputs=(0, 1), fails=True)


def loss_oracle(sparse):
    def oracle(inputs, _):
        x, label = inputs[0].astype(np.float64), inputs[1]
        label = np.eye(x.shape[1])[label] if sparse else label.astype(np.float64)
        if sparse and (inputs[1] >= x.shape[1]).any():
            from case import Refused
            raise Refused('label out of range')
        e = np.exp(x - x.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        logs = np.log(e.sum(1, keepdims=True)) - (x - x.max(1, keepdims=True))
        return [flushed(y.astype(inputs[0].dtype)) for y in ((label * logs).sum(1), p - label)]
    return oracle


NORMS = (((2, 5, 7, 3), 'NHWC'), ((1, 3, 2, 17), 'NHWC'), ((4, 3, 5, 7), 'NCHW'), ((1, 1, 1, 5), 'NHWC'))
NORMS_OF_VOLUMES = (((2, 3, 2, 5, 4), 'NDHWC'), ((2, 4, 3, 2, 4), 'NCDHW'))


def channels(a, layout):
    return a.reshape(-1, *[1] * (len(layout) - 1 - layout.index('C')))


def norm_gradients(r, op):
    for tag in op.types['T']:
        for shape, layout in NORMS + (NORMS_OF_VOLUMES if op.name.endswith('V3') else ()):
            for is_training in True, False:
                c = shape[layout.index('C')]
                more = dict(slack=2e-5) if tag == 'f32' else dict(ulps=1, slack=1e-3)
                inputs = [random(r, tag, shape), random(r, tag, shape), random(r, 'f32', (c,)),
                          random(r, 'f32', (c,)), np.abs(random(r, 'f32', (c,))) + np.float32(.1)]
                if op.name.endswith('V3'):
                    inputs.append(np.zeros((0,), np.float32))
                yield Case(op.name, inputs, {'epsilon': float(np.float32(1e-3)), 'is_training': is_training,
                                             'data_format': layout}, outputs=(0, 1, 2), oracle=norm_gradient, **more)


def norm_gradient(inputs, attrs):
    layout = attrs['data_format']
    dy, x = (i.astype(np.float64) for i in inputs[:2])
    scale, mean, variance = (i.astype(np.float64) for i in inputs[2:5])
    axes = tuple(i for i, axis in enumerate(layout) if axis != 'C')
    root = 1 / np.sqrt(variance + attrs['epsilon'])
    d = x - channels(mean, layout)
    by_offset, products = dy.sum(axes), (dy * d).sum(axes)
    dx = dy
    if attrs['is_training']:
        count = x.size / mean.size
        dx = dy - channels(by_offset / count, layout) - d * channels(products / count * root * root, layout)
    dx = dx * channels(scale * root, layout)
    return [flushed(dx.astype(inputs[0].dtype)), (products * root).astype(np.float32), by_offset.astype(np.float32)]
