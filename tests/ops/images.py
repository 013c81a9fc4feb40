"""Cases of convolutions, pooling and resizing."""
import numpy as np

from case import DTYPES, Case, TAGS, flushed, tensorflow_op, widen
from reductions import ACTIVATIONS, sums
from values import pick, random

# height, width, channels, filter height and width, output channels, strides, dilations, padding
CONVOLUTIONS = [(7, 9, 3, 3, 3, 5, 1, 1, 'SAME'), (7, 9, 3, 3, 3, 5, 2, 1, 'SAME'),
                (8, 8, 4, 3, 3, 17, 2, 1, 'VALID'), (5, 5, 16, 1, 1, 16, 1, 1, 'SAME'),
                (6, 7, 5, 1, 1, 3, 2, 1, 'VALID'), (12, 11, 2, 5, 3, 7, 1, 2, 'SAME'),
                (1, 1, 33, 1, 1, 10, 1, 1, 'VALID'), (10, 10, 1, 7, 7, 20, 2, 1, 'SAME'),
                (9, 6, 3, 2, 4, 6, 1, 1, 'SAME'), (6, 21, 3, 3, 3, 1, 1, 1, 'SAME'),
                (14, 14, 8, 3, 3, 8, 1, 1, 'SAME'),
                (6, 6, 3, 3, 3, 4, 1, 1, [1, 0, 2, 1]), (9, 9, 2, 3, 3, 4, 2, 1, [0, 1, 1, 1])]


def spatial(a, b):
    return [1, a, b, 1]


def explicit(padding):
    top, bottom, left, right = padding
    return [0, 0, top, bottom, left, right, 0, 0]


def conv_attrs(stride, dilation, padding):
    attrs = {'strides': spatial(stride, stride), 'dilations': spatial(dilation, dilation)}
    if isinstance(padding, str):
        return attrs | {'padding': padding}
    return attrs | {'padding': 'EXPLICIT', 'explicit_paddings': explicit(padding)}


def nchw(attrs):
    """The attributes for channels first."""
    out = dict(attrs, data_format='NCHW')
    for k in ('strides', 'dilations', 'ksize'):
        if k in attrs:
            out[k] = [attrs[k][0], attrs[k][3], attrs[k][1], attrs[k][2]]
    if 'explicit_paddings' in attrs:
        p = attrs['explicit_paddings']
        out['explicit_paddings'] = p[:2] + p[6:] + p[2:6]
    return out


def through_nhwc(op, names, attrs, image=0, settings=None):
    """An oracle for channels first, since TensorFlow's CPU kernels require them last."""
    def oracle(inputs, _):
        tag = TAGS[inputs[image].dtype]
        wide = [widen(i, 'f32') if tag in ('f16', 'bf16') else i for i in inputs]
        wide[image] = wide[image].transpose(0, 2, 3, 1)
        y = tensorflow_op(op, names, wide, attrs)[0].transpose(0, 3, 1, 2)
        return [flushed(y.astype(DTYPES[tag]))]
    return oracle


def contraction(tag):
    return sums(tag)


def conv2d(r, rows):
    for op in rows:
        if op.name == '_FusedConv2D':
            yield from fused_conv(r, op, 'Conv2D')
            continue
        for tag in op.types['T']:
            for c in pick(r, CONVOLUTIONS, 7 if tag == 'f32' else 4):
                h, w, ci, kh, kw, co, stride, dilation, padding = c
                x, f = random(r, tag, (2, h, w, ci)), random(r, tag, (kh, kw, ci, co))
                attrs = conv_attrs(stride, dilation, padding)
                yield Case('Conv2D', [x, f], attrs, **contraction(tag))
            h, w, ci, kh, kw, co, stride, dilation, padding = CONVOLUTIONS[int(r.integers(10))]
            attrs = conv_attrs(stride, dilation, padding)
            x, f = random(r, tag, (1, ci, h, w)), random(r, tag, (kh, kw, ci, co))
            yield Case('Conv2D', [x, f], nchw(attrs),
                       oracle=through_nhwc('Conv2D', ['input', 'filter'], attrs),
                       **contraction(tag))
            # few channels, and lines of 16 results or more: of matrices of pairs each tile copies its lines
            ci, stride = int(r.integers(3, 8)), int(r.integers(1, 4))
            x, f = random(r, tag, (2, 9, 8 + 16 * stride, ci)), random(r, tag, (5, 7, ci, 20))
            yield Case('Conv2D', [x, f], conv_attrs(stride, 1, 'SAME'), **contraction(tag))
            # all pixels in one block, of which the first reads no padding
            for side, size, stride in (4, 3, 2), (2, 2, 1):
                x, f = random(r, tag, (1, side, side, 16)), random(r, tag, (size, size, 16, 16))
                yield Case('Conv2D', [x, f], conv_attrs(stride, 1, 'SAME'), settings=('filter',),
                           note='constant filter', **contraction(tag))
        x, f = random(r, 'f32', (1, 7, 7, 6)), random(r, 'f32', (3, 3, 2, 9))
        yield Case('Conv2D', [x, f], conv_attrs(1, 1, 'SAME'), note='in groups', slack=2e-6)


def fused_conv(r, op, plain):
    """TF.js' fused convolutions: bias, then an activation; Prelu takes a third operand."""
    def oracle(inputs, attrs):
        x, f, args = inputs
        tag = TAGS[x.dtype]
        wide = [v.astype(np.float64) for v in (x, f)]
        settings = {k: attrs[k] for k in ('strides', 'padding', 'dilations')}
        y = tensorflow_op(plain, ['input', 'filter'], wide, settings)[0]
        y = y + args[0].astype(np.float64)
        act = attrs['fused_ops'][1] if len(attrs['fused_ops']) > 1 else ''
        if act == 'Prelu':
            y = np.where(y > 0, y, y * args[1].astype(np.float64))
        else:
            y = ACTIVATIONS[act](y)
        return [flushed(y.astype(x.dtype))]
    for tag in op.types['T']:
        if tag == 'i8':
            continue  # quantized, with scales for operands
        for act in [*ACTIVATIONS, 'Prelu']:
            h, w, ci, kh, kw, co, stride, dilation, padding = CONVOLUTIONS[int(r.integers(10))]
            if plain != 'Conv2D':
                stride, co = (stride if dilation == 1 else 1), 2
            out = co if plain == 'Conv2D' else ci * co
            small = DTYPES[tag].type(4)
            args = [random(r, tag, (out,))] + ([random(r, tag, (out,))] if act == 'Prelu' else [])
            attrs = conv_attrs(stride, dilation, padding) | {
                'fused_ops': ['BiasAdd'] + [act] * bool(act), 'num_args': len(args),
                'data_format': 'NHWC'}
            inputs = [random(r, tag, (1, h, w, ci)), random(r, tag, (kh, kw, ci, co)) / small, args]
            if act == 'LeakyRelu':
                attrs['leakyrelu_alpha'] = float(np.float32(.2))
            if op.name == '_FusedConv2D':
                inputs.append([])
            case = Case(op.name, inputs, attrs, **(
                sums(tag) if tag in ('f32', 'f64') else dict(ulps=2, slack=2e-2)))
            case.oracle = lambda i, a: oracle(i[:3], a)
            yield case


def depthwise(r, rows):
    for op in rows:
        if op.name == 'FusedDepthwiseConv2dNative':
            yield from fused_conv(r, op, 'DepthwiseConv2dNative')
            continue
        for tag in op.types['T']:
            for k, c in enumerate(pick(r, CONVOLUTIONS, 5)):
                h, w, ci, kh, kw, _, stride, dilation, padding = c
                multiplier = 1 + k % 2
                stride = stride if dilation == 1 else 1
                x, f = random(r, tag, (2, h, w, ci)), random(r, tag, (kh, kw, ci, multiplier))
                yield Case(op.name, [x, f], conv_attrs(stride, dilation, padding),
                           **contraction(tag))
            attrs = conv_attrs(2, 1, 'SAME')
            yield Case(op.name, [random(r, tag, (1, 5, 8, 7)), random(r, tag, (3, 3, 5, 2))],
                       nchw(attrs), oracle=through_nhwc(op.name, ['input', 'filter'], attrs),
                       **contraction(tag))


def as_wide(r):
    """A convolution whose windows are as wide as the image, and sometimes as high."""
    h, w = int(r.integers(2, 20)), int(r.integers(2, 20))
    kh = h if r.random() < .2 else int(r.integers(1, min(h, 5) + 1))
    return h, w, int(r.integers(1, 4)), kh, w, int(r.integers(1, 20)), int(r.integers(1, 3)), 'VALID'


def conv2d_transpose(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for h, w, ci, kh, kw, co, stride, padding in [as_wide(r), as_wide(r), *pick(r, [
                    (8, 8, 3, 3, 3, 5, 2, 'SAME'), (7, 9, 4, 2, 2, 3, 2, 'VALID'),
                    (6, 6, 2, 4, 4, 2, 2, 'SAME'), (5, 7, 3, 3, 3, 16, 1, 'SAME'),
                    (9, 9, 1, 3, 3, 2, 3, 'VALID'), (8, 6, 5, 1, 1, 3, 1, 'SAME'),
                    (8, 6, 5, 1, 1, 3, 2, 'SAME'), (6, 8, 17, 2, 2, 3, 2, 'SAME')], 4)]:
                out = [-(-v // stride) if padding == 'SAME' else -(-(v - k + 1) // stride)
                       for v, k in ((h, kh), (w, kw))]
                for constants in ('input_sizes', 'filter'), ('input_sizes',):
                    yield Case(op.name, [np.array([2, h, w, ci], np.int32),
                                         random(r, tag, (kh, kw, ci, co)),
                                         random(r, tag, (2, *out, co))],
                               conv_attrs(stride, 1, padding), oracle=transposed_oracle,
                               settings=constants, **contraction(tag))
            # groups, also with strides, windows without overlap and one channel
            for stride, size in (1, 3), (2, 3), (2, 2), (3, 1):
                groups, ci, co = (int(v) for v in r.integers(1, [6, 5, 9], 3) + [1, 0, 0])
                h, w = (stride * int(v) for v in r.integers(3, 8, 2))
                yield Case(op.name, [np.array([2, h, w, groups * ci], np.int32), random(r, tag, (size, size, ci, groups * co)),
                                     random(r, tag, (2, h // stride, w // stride, groups * co))],
                           conv_attrs(stride, 1, 'SAME'), oracle=grouped_transposed, settings=('input_sizes',), **contraction(tag))


def grouped_transposed(inputs, attrs):
    """Group by group."""
    sizes, filters, dy = inputs
    groups, tag = sizes[3] // filters.shape[2], TAGS[filters.dtype]
    wide = [widen(i, 'f32') if tag in ('f16', 'bf16') else i for i in (filters, dy)]
    parts = [tensorflow_op('Conv2DBackpropInput', ['input_sizes', 'filter', 'out_backprop'], [np.array([*sizes[:3], filters.shape[2]], np.int32), w, d],
                           attrs)[0] for w, d in zip(*(np.split(x, groups, 3) for x in wide))]
    return [flushed(np.concatenate(parts, 3).astype(DTYPES[tag]))]


def transposed_oracle(inputs, attrs):
    tag = TAGS[inputs[1].dtype]
    wide = [widen(i, 'f32') if tag in ('f16', 'bf16') else i for i in inputs[1:]]
    y = tensorflow_op('Conv2DBackpropInput', ['input_sizes', 'filter', 'out_backprop'],
                      [inputs[0], *wide], attrs)[0]
    return [flushed(y.astype(DTYPES[tag]))]


POOLS = [(7, 9, 3, 2, 2, 2, 'VALID'), (7, 9, 3, 3, 3, 2, 'SAME'), (8, 8, 17, 2, 2, 1, 'SAME'),
         (5, 5, 1, 5, 5, 1, 'VALID'), (6, 4, 16, 3, 2, 1, 'SAME'), (13, 5, 2, 4, 1, 3, 'SAME'),
         (1, 1, 5, 1, 1, 1, 'VALID'), (4, 7, 3, 4, 6, 3, 'SAME'), (9, 8, 5, 2, 2, 3, 'VALID')]


def columns(r, count):
    """Windows of one column, which move along rows alone, of images with few channels."""
    return [(int(r.integers(4, 20)), int(r.integers(2, 40)), int(r.integers(1, 9)), int(r.integers(1, 5)), 1, (int(r.integers(1, 4)), 1),
             ('VALID', 'SAME')[int(r.integers(2))]) for _ in range(count)]


def strides(stride):
    """Of rows and columns; one number: of both."""
    return spatial(*stride) if isinstance(stride, tuple) else spatial(stride, stride)


def pool(r, rows):
    for op in rows:
        name = op.args[0].name
        for tag in op.types['T']:
            more = {} if op.name == 'MaxPool' else contraction(tag)
            for h, w, c, kh, kw, stride, padding in [*pick(r, POOLS, 4), *columns(r, 2)]:
                attrs = {'ksize': spatial(kh, kw), 'strides': strides(stride),
                         'padding': padding}
                yield Case(op.name, [random(r, tag, (2, h, w, c))], attrs, **more)
            if tag in ('f32', 'bf16'):
                yield Case(op.name, [random(r, tag, (1, c, h, w))], nchw(attrs),
                           oracle=through_nhwc(op.name, [name], attrs), **more)


def resize(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for (h, w), (oh, ow) in pick(r, [((4, 5), (8, 10)), ((7, 9), (3, 4)), ((5, 5), (5, 5)),
                                             ((1, 3), (4, 7)), ((6, 6), (1, 1)), ((3, 2), (9, 4))],
                                         3):
                mode = int(r.integers(3))
                attrs = {'align_corners': mode == 1, 'half_pixel_centers': mode == 2}
                # Its result is float32 whatever the operand's type.
                more = (dict(slack=2e-6, oracle=bilinear) if op.name == 'ResizeBilinear' else {})
                yield Case(op.name, [random(r, tag, (2, h, w, 3)), np.array([oh, ow], np.int32)],
                           attrs, **more)


def bilinear(inputs, attrs):
    return tensorflow_op('ResizeBilinear', ['images', 'size'],
                         [widen(inputs[0], 'f32'), inputs[1]], attrs)
