"""Cases of convolutions and pooling over three spatial axes, and of their gradients."""
import numpy as np

from case import DTYPES, LOW, Case, flushed, tensorflow_op, widen
from gradients import wide_oracle
from reductions import sums
from values import random

NAMES = {'Conv3D': ['input', 'filter'], 'Conv3DBackpropInputV2': ['input_sizes', 'filter', 'out_backprop'],
         'Conv3DBackpropFilterV2': ['input', 'filter_sizes', 'out_backprop'], 'MaxPool3D': ['input'], 'AvgPool3D': ['input'],
         'MaxPool3DGrad': ['orig_input', 'orig_output', 'grad'], 'AvgPool3DGrad': ['orig_input_shape', 'grad']}
LAST, FIRST = (0, 2, 3, 4, 1), (0, 4, 1, 2, 3)


def window(r, most):
    """Extents of a volume, a window that fits into it, strides, padding, results."""
    size = r.integers(2, most, 3)
    window = np.minimum(size, r.integers(1, 4, 3))
    padding = str(r.choice(['SAME', 'VALID']))
    # TensorFlow's kernels differ in where they put larger strides with padding, by the machine
    stride = np.minimum(r.integers(1, 4, 3), window if padding == 'SAME' else 4)
    out = -(-size // stride) if padding == 'SAME' else (size - window) // stride + 1
    return [x.tolist() for x in (size, window, stride)] + [padding, out.tolist()]


def volume_oracle(op, tag, back):
    """Channels last, in a type that TensorFlow has kernels of; `back`: the result has channels first."""
    def oracle(inputs, attrs):
        wide = [widen(i, 'f32') if tag in LOW and i.dtype != np.int32 else i for i in inputs]
        if attrs.get('data_format') == 'NCDHW':
            wide = [x.transpose(LAST) if x.ndim == 5 else x[list(LAST)] if x.ndim == 1 else x for x in wide]
            attrs = {k: [v[i] for i in LAST] if isinstance(v, list) else v for k, v in attrs.items() if k != 'data_format'}
        y = tensorflow_op(op, NAMES[op], wide, attrs)[0]
        return [flushed((y.transpose(FIRST) if back else y).astype(DTYPES[tag]))]
    return oracle


def turned(attrs, arrays):
    """Likewise attributes and operands with channels first."""
    lists = {k: [v[i] for i in FIRST] if isinstance(v, list) else v for k, v in attrs.items()}
    return {**lists, 'data_format': 'NCDHW'}, [a.transpose(FIRST) if a.ndim == 5 else a[list(FIRST)] for a in arrays]


def convolution(r, op, tag):
    size, filters, stride, padding, out = window(r, 9)
    n, ci, co = (int(v) for v in r.integers(1, 6, 3))
    groups = int(r.choice([1, 1, 2, 3]))
    x, w, dy = (n, *size, ci * groups), (*filters, ci, co * groups), (n, *out, co * groups)
    attrs = {'strides': [1, *stride, 1], 'padding': padding}
    if op == 'Conv3D':
        inputs = [random(r, tag, x), random(r, tag, w)]
    elif op == 'Conv3DBackpropInputV2':
        inputs = [np.array(x, np.int32), random(r, tag, w), random(r, tag, dy)]
    else:
        inputs = [random(r, tag, x), np.array(w, np.int32), random(r, tag, dy)]
    more = {'f32': dict(slack=1e-5), 'f64': dict(slack=1e-13)}.get(tag, sums(tag))
    by_groups = groups > 1 and op == 'Conv3DBackpropInputV2'  # TensorFlow has no groups there
    return Case(op, inputs, attrs, settings=('input_sizes', 'filter_sizes'),
                oracle=grouped_input if by_groups else wide_oracle(op, NAMES[op], 1 if op == 'Conv3DBackpropInputV2' else 0), **more)


def grouped_input(inputs, attrs):
    sizes, w, dy = inputs
    groups, part = sizes[4] // w.shape[3], np.array([*sizes[:4], w.shape[3]], np.int32)
    op = wide_oracle('Conv3DBackpropInputV2', NAMES['Conv3DBackpropInputV2'], 1)
    return [np.concatenate([op([part, *of], attrs)[0] for of in zip(np.split(w, groups, 4), np.split(dy, groups, 4))], 4)]


def dilated(r):
    """TensorFlow has gradients of dilated convolutions on few machines, so NumPy spreads the filter."""
    x, w = random(r, 'f32', (2, 8, 9, 7, 3)), random(r, 'f32', (2, 3, 2, 3, 4))
    rate = [3, 2, 1]

    def oracle(inputs, _):
        spread = np.zeros((4, 5, 2, 3, 4), np.float64)
        spread[::3, ::2] = inputs[1]
        return [tensorflow_op('Conv3D', NAMES['Conv3D'], [inputs[0].astype(np.float64), spread],
                              {'strides': [1] * 5, 'padding': 'SAME'})[0].astype(np.float32)]
    return Case('Conv3D', [x, w], {'strides': [1] * 5, 'padding': 'SAME', 'dilations': [1, *rate, 1]}, oracle=oracle, slack=1e-5)


def pooling(r, op, tag):
    size, over, stride, padding, out = window(r, 9)
    n, c = (int(v) for v in r.integers(1, 6, 2))
    attrs = {'ksize': [1, *over, 1], 'strides': [1, *stride, 1], 'padding': padding}
    x = random(r, tag, (n, *size, c), -3, 3)
    if op.startswith('Max'):
        x = np.round(x) + np.zeros((), x.dtype)  # with ties: all count in the gradient
    inputs = [x]
    if op.endswith('Grad'):
        dy = random(r, tag, (n, *out, c), 0, 5)
        y = tensorflow_op('MaxPool3D', ['input'], [x.astype(np.float32)], attrs)[0].astype(DTYPES[tag])
        inputs = [x, y, dy] if op.startswith('Max') else [np.array(x.shape, np.int32), dy]
    first = r.random() < .3
    if first:
        attrs, inputs = turned(attrs, inputs)
    more = {} if op == 'MaxPool3D' else {'f32': dict(slack=1e-6), 'f64': dict(slack=1e-14)}.get(tag, sums(tag))
    return Case(op, inputs, attrs, settings=('orig_input_shape',), oracle=volume_oracle(op, tag, first), **more)


def volumes(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for _ in range(12 if tag == 'f32' else 4):
                yield (convolution if op.name.startswith('Conv') else pooling)(r, op.name, tag)
        if op.name == 'Conv3D':
            yield dilated(r)
            x, w = random(r, 'f32', (2, 4, 5, 6, 3)), random(r, 'f32', (2, 3, 2, 3, 4))
            attrs, [first] = turned({'strides': [1, 1, 2, 1, 1], 'padding': 'SAME'}, [x])
            yield Case(op.name, [first, w], attrs, slack=1e-5, oracle=lambda i, _: [tensorflow_op(
                'Conv3D', NAMES['Conv3D'], [i[0].transpose(LAST), i[1]], {'strides': [1, 1, 2, 1, 1], 'padding': 'SAME'})[0].transpose(FIRST)])
        if op.name == 'Conv3DBackpropInputV2':
            # A stride far above the depth has few phases.
            yield Case(op.name, [np.array([2, 3, 4, 4, 3], np.int32), random(r, 'f32', (2, 2, 2, 3, 4)), random(r, 'f32', (2, 1, 3, 3, 4))],
                       {'strides': [1, 1 << 28, 1, 1, 1], 'padding': 'VALID'}, settings=('input_sizes',), slack=1e-5)
