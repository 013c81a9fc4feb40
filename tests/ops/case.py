"""Cases: one instance of an op with its inputs, the rule by which its outputs are judged, and graphs of
many cases."""
import sys
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from optable import NAMES

DTYPES = {tag: np.dtype(ml_dtypes.bfloat16 if tag == 'bf16' else name)
          for tag, name in NAMES.items() if tag != 'string'}
TAGS = {d: t for t, d in DTYPES.items()}
LOW = 'f16', 'bf16'

# Operands that are parameters and not data; they are constants in all graphs.
SETTINGS = {'axis', 'dim', 'perm', 'shape', 'size', 'paddings', 'multiples', 'begin', 'end',
            'strides', 'reduction_indices', 'dimension', 'split_dim', 'size_splits', 'concat_dim',
            'dims', 'k', 'block_shape', 'crops', 'depth', 'start', 'limit', 'delta', 'num', 'stop',
            'input_sizes', 's0', 's1', 'filter_sizes'}


class Type(str):
    """An attribute's value that is a dtype, as a tag."""


@dataclass
class Case:
    op: str
    inputs: list                 # one array for each operand; a list of arrays for an operand of N tensors
    attrs: dict = field(default_factory=dict)
    ulps: float = 0              # tolerance in units in the last place of the expected value
    slack: float = 0             # tolerance relative to the largest value of the output
    absolute: float = 0          # absolute tolerance
    oracle: object = None        # inputs, attrs → outputs; None: TensorFlow
    exact_in: str = None         # TensorFlow computes in this type, the result is rounded
    settings: tuple = None       # names of constant operands; None: those in SETTINGS
    outputs: tuple = (0,)        # results that are compared
    check: object = None         # outputs → description of an error or None; replaces the comparison
    fails: bool = False          # TensorFlow refuses it, and so must Halftone
    zero_signs: bool = True      # -0 is not equal to 0
    build: object = None         # graph, name, case: adds the nodes; None: the op itself
    note: str = ''

    def dtype(self):
        flat = [a for i in self.inputs for a in (i if isinstance(i, list) else [i])]
        return TAGS[flat[0].dtype] if flat else ''

    def tag(self):
        """The type in which the op computes."""
        if 'dtype' in self.attrs:
            return str(self.attrs['dtype'])
        return TAGS[self.inputs[1].dtype] if self.op == 'Conv2DBackpropInput' else self.dtype()

    def describe(self):
        def shape(a):
            return f'{TAGS[a.dtype]}{list(a.shape)}'
        parts = [f'({", ".join(map(shape, i))})' if isinstance(i, list) else shape(i)
                 for i in self.inputs]
        attrs = ''.join(f' {k}={v}' for k, v in self.attrs.items())
        return f'{self.op}({", ".join(parts)}){attrs}{" " + self.note if self.note else ""}'


def type_attrs(case, row):
    """The type, number and list attributes that the operands imply."""
    out = {}
    for arg, value in zip(row.args, case.inputs):
        arrays = value if isinstance(value, list) else [value]
        if arg.number:
            out[arg.number] = len(arrays)
        if arg.list:
            out[arg.type] = [Type(TAGS[a.dtype]) for a in arrays]
        elif arg.type in row.types and arrays:
            out[arg.type] = Type(TAGS[arrays[0].dtype])
    for attr in row.types:
        if attr not in out and attr in row.default and attr not in case.attrs:
            out[attr] = Type(row.default[attr])
    return {**out, **case.attrs}


def settings(case):
    return SETTINGS if case.settings is None else case.settings


class Graph:
    """Independent cases in one GraphDef: case i is node "c<i>", its operands "c<i>_<k>"."""

    def __init__(self, cases, rows):
        from tensorflow.core.framework import graph_pb2
        self.cases, self.proto, self.feeds = cases, graph_pb2.GraphDef(), {}
        self.proto.versions.producer = 1882
        for i, c in enumerate(cases):
            if c.build:
                c.build(self, f'c{i}', c)
            else:
                self.add(f'c{i}', c, rows[c.op])

    def add(self, name, case, row):
        names = []
        for arg, value in zip(row.args, case.inputs):
            constant = arg.name in settings(case)
            for a in value if isinstance(value, list) else [value]:
                names.append(self.operand(f'{name}_{len(names)}', a, constant))
        node = self.proto.node.add(name=name, op=case.op, input=names)
        for k, v in type_attrs(case, row).items():
            set_attr(node.attr[k], v)

    def operand(self, name, array, constant):
        node = self.proto.node.add(name=name, op='Const' if constant else 'Placeholder')
        set_attr(node.attr['dtype'], Type(TAGS[array.dtype]))
        if constant:
            t = node.attr['value'].tensor
            t.dtype = enum(TAGS[array.dtype])
            for d in array.shape:
                t.tensor_shape.dim.add(size=d)
            t.tensor_content = array.tobytes()
        else:
            node.attr['shape'].shape.SetInParent()
            for d in array.shape:
                node.attr['shape'].shape.dim.add(size=d)
            self.feeds[name] = array
        return name

    def output_names(self):
        return [f'c{i}:{k}' if k else f'c{i}' for i, c in enumerate(self.cases) for k in c.outputs]


def enum(tag):
    from tensorflow.core.framework import types_pb2
    special = {'f16': 'HALF', 'f32': 'FLOAT', 'f64': 'DOUBLE'}
    return types_pb2.DataType.Value('DT_' + special.get(tag, NAMES[tag].upper()))


def set_attr(attr, v):
    if isinstance(v, Type):
        attr.type = enum(v)
    elif isinstance(v, bool):
        attr.b = v
    elif isinstance(v, int):
        attr.i = v
    elif isinstance(v, float):
        attr.f = v
    elif isinstance(v, str):
        attr.s = v.encode()
    elif isinstance(v, tuple):  # a shape
        attr.shape.SetInParent()
        for d in v:
            attr.shape.dim.add(size=d)
    else:
        attr.list.SetInParent()
        for x in v:
            if isinstance(x, Type):
                attr.list.type.append(enum(x))
            elif isinstance(x, str):
                attr.list.s.append(x.encode())
            elif isinstance(x, float):
                attr.list.f.append(x)
            else:
                attr.list.i.append(x)


# ---- expected results ----

class NoKernel(Exception):
    pass


class Refused(Exception):
    pass


# Names of arguments that differ between Python and the op's definition.
RENAMED = {'squeeze_dims': 'axis', 'reduction_indices': 'axis', 'dim': 'axis',
           'split_dim': 'axis'}


def python_name(op, name):
    if op == 'Select':
        return {'t': 'x', 'e': 'y'}.get(name, name)
    return RENAMED.get(name, name)


def tensorflow_op(op, names, inputs, attrs):
    """One op, computed by TensorFlow; a list of arrays."""
    import tensorflow as tf
    call = getattr(tf.raw_ops, op, None)
    if call is None:
        raise NoKernel(op)
    words = {python_name(op, n): [tf.constant(a) for a in i] if isinstance(i, list) else tf.constant(i)
             for n, i in zip(names, inputs)}
    for k, v in attrs.items():
        words[python_name(op, k)] = tf.dtypes.as_dtype(NAMES[v]) if isinstance(v, Type) else v
    try:
        out = call(**words)
    except (tf.errors.NotFoundError, tf.errors.UnimplementedError) as e:
        raise NoKernel(str(e)[:200]) from None
    except tf.errors.OpError as e:
        if 'could not be found' in str(e) or 'No OpKernel' in str(e):
            raise NoKernel(str(e)[:200]) from None
        raise Refused(str(e)[:200]) from None
    flat = []
    for t in out if isinstance(out, (list, tuple)) else [out]:
        flat += t if isinstance(t, list) else [t]
    return [t.numpy() for t in flat]


def widen(value, tag):
    if isinstance(value, list):
        return [widen(v, tag) for v in value]
    return value.astype(DTYPES[tag]) if TAGS[value.dtype] in ('f16', 'bf16', 'f32') else value


def expected(case, row):
    """Outputs by TensorFlow's kernels.  Low types are computed in float32 and rounded once, which is their
    definition here, since some of TensorFlow's own kernels sum or approximate in the low type."""
    if case.oracle:
        return case.oracle(case.inputs, case.attrs)
    names = [a.name for a in row.args]
    call = lambda inputs: tensorflow_op(case.op, names, inputs, tf_attrs(case, row))
    tag = case.dtype()
    wide = case.exact_in if case.exact_in and tag in ('f32', *LOW) else 'f32' if tag in LOW else None
    if not wide:
        return call(case.inputs)
    with np.errstate(all='ignore'):
        results = call([widen(i, wide) for i in case.inputs])
        return [flushed(r.astype(DTYPES[tag])) if r.dtype == DTYPES[wide] else r for r in results]


def tf_attrs(case, row):
    return {k: v for k, v in case.attrs.items() if k not in ('T', 'N')}


def flushed(a):
    """bfloat16 subnormals count as zero."""
    if TAGS[a.dtype] != 'bf16':
        return a
    bits = a.view(np.uint16)
    return np.where(bits & 0x7f80, bits, bits & 0x8000).astype(np.uint16).view(a.dtype)


# ---- comparison ----

MANTISSA = {'f16': 10, 'bf16': 7, 'f32': 23, 'f64': 52}
LEAST = {'f16': -24, 'bf16': -133, 'f32': -149, 'f64': -1074}


def ulp(a, tag):
    """The distance between neighbours at the size of each value."""
    _, e = np.frexp(np.abs(a))
    return np.ldexp(1., np.maximum(e - 1 - MANTISSA[tag], LEAST[tag]))


def difference(got, want, case):
    """The error of one output, or None."""
    if got.dtype != want.dtype and not (TAGS[want.dtype] == 'bf16' and got.dtype == np.uint16):
        return f'dtype {got.dtype}, expected {want.dtype}'
    if got.shape != want.shape:
        return f'shape {got.shape}, expected {want.shape}'
    if got.dtype != want.dtype:
        got = got.view(want.dtype)
    tag = TAGS[want.dtype]
    if tag not in MANTISSA:
        wrong = got != want
    else:
        wrong = float_difference(got.astype(np.float64), want.astype(np.float64), tag, case)
    if not wrong.any():
        return None
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    values = [i[at] for i in case.inputs if not isinstance(i, list) and i.shape == want.shape]
    of = f' of {", ".join(map(repr, map(float, values)))}' if values else ''
    return (f'{int(wrong.sum())} of {wrong.size} wrong, first at {list(at)}: {got[at]!r}, '
            f'expected {want[at]!r}{of}')


def float_difference(a, b, tag, case):
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(all='ignore'):
        size = np.abs(b[np.isfinite(b)])
        allowed = case.ulps * ulp(np.where(finite, b, 0), tag) + case.slack * (
            size.max() if size.size else 0) + case.absolute
        if case.note not in ('subnormal', 'flushed'):  # both sides flush subnormals, but in different steps
            least = float(ml_dtypes.finfo(DTYPES['f32' if tag == 'bf16' else tag]).smallest_normal)
            allowed = np.where(np.abs(b) <= least, np.maximum(allowed, least), allowed)
        same = np.where(finite, np.abs(a - b) <= allowed, (a == b) | (np.isnan(a) & np.isnan(b)))
    # At the end of the range, a rounding error changes the largest value to infinity.
    if case.ulps or case.slack:
        top = float(ml_dtypes.finfo(DTYPES[tag]).max) * (1 - 2.**-6)
        same |= (np.abs(a) >= top) & (np.abs(b) >= top) & (np.sign(a) == np.sign(b))
    if case.zero_signs and not case.ulps and not case.slack:
        same &= (b != 0) | (a != 0) | (np.signbit(a) == np.signbit(b))
    return ~same
