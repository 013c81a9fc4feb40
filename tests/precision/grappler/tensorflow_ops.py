#!/usr/bin/env python3
"""Prints precision/data/tensorflow.ops: the facts about each op that TensorFlow's own passes use.

Run it with the environment of tests/precision/grappler/requirements.txt, whose TensorFlow is built for CUDA: a
build without CUDA has no kernels for the GPU.  With --check it compares the file with that TensorFlow.
"""
import os
import sys

ROOT = os.path.abspath(f'{os.path.dirname(os.path.abspath(__file__))}/../../..')
DATA = f'{ROOT}/precision/data/tensorflow.ops'
HEAD = '''\
# TensorFlow {version}'s ops as its graph passes see them, made by tests/precision/grappler/tensorflow_ops.py.
#
# NAME FLAGS: operands -> results; type attributes; kernels
#   FLAGS      s: has state; f: names functions
#   operand    a type attribute or a dtype; N*TYPE: as many as attribute N says, N=0*TYPE: none without
#              it; TYPE...: one for each element of a list attribute; & behind it: a reference
#   result     NAME:TYPE
#   attribute  NAME, ... behind it: a list; {{f16 bf16}} the low types that it may take; =default
#   kernel     DEVICE(ATTRIBUTE:TYPE|TYPE,…): needs this of the node's attributes; only kernels that take
#              a low type somewhere; device any stands in for one that has no kernel
'''
LOW = 'f16', 'bf16'


def load():
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    os.environ['CUDA_VISIBLE_DEVICES'] = ''
    import tensorflow as tf
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.framework import kernels
    if not tf.sysconfig.get_build_info().get('is_cuda_build'):
        sys.exit('this TensorFlow is not built for CUDA: its kernels are not those of a GPU')
    ops = op_def_pb2.OpList()
    buffer = pywrap_tf_session.TF_GetAllOpList()
    ops.ParseFromString(pywrap_tf_session.TF_GetBuffer(buffer))
    return tf.__version__, ops.op, kernels.get_all_registered_kernels().kernel


def dtype(number):
    """The type's name as in enum ht_dtype, in lower case."""
    from tensorflow.core.framework import types_pb2
    if number > 100:
        return dtype(number - 100) + '&'
    name = types_pb2.DataType.Name(number)[3:].lower()
    for long, short in (('bfloat', 'bf'), ('float', 'f'), ('double', 'f64'), ('half', 'f16'),
                        ('quint', 'qu'), ('qint', 'qi'), ('uint', 'u'), ('int', 'i')):
        if name.startswith(long):
            name = short + name[len(long):]
            break
    return {'f': 'f32', 'complex64': 'c64', 'complex128': 'c128'}.get(name, name).replace('_', '')


def type_of(op, arg):
    if arg.type_list_attr:
        return arg.type_list_attr + '...'
    text = arg.type_attr or dtype(arg.type)
    if arg.number_attr:
        number = next(a for a in op.attr if a.name == arg.number_attr)
        default = f'={number.default_value.i}' if number.HasField('default_value') else ''
        text = f'{arg.number_attr}{default}*{text}'
    return text + '&' * arg.is_ref


def type_attrs(op):
    return [a for a in op.attr if a.type in ('type', 'list(type)')]


def attribute(a):
    allowed = [dtype(t) for t in a.allowed_values.list.type]
    low = [t for t in LOW if not allowed or t in allowed]
    text = a.name + '...' * (a.type == 'list(type)') + '{' + ' '.join(low) + '}'
    return text + (f'={dtype(a.default_value.type)}' if a.default_value.type else '')


def constraints(kernel, names):
    """The constraints of one kernel: {attribute: set of dtypes or strings}, without those that always hold."""
    out = {}
    for c in kernel.constraint:
        values = c.allowed_values.list
        if c.name in names:
            out[c.name] = frozenset(dtype(t) for t in values.type)
        elif '' not in (s.decode() for s in values.s):
            out[c.name] = frozenset(s.decode() for s in values.s)
    return out


def takes_low(kernel, op):
    return any(t in kernel.get(a.name, LOW) for a in type_attrs(op) for t in LOW)


def merged(kernels):
    """Merges kernels that differ in only one attribute."""
    rows = {tuple(sorted(k.items())) for k in kernels}
    for name in sorted({a for r in rows for a, _ in r}):
        by_rest = {}
        for r in sorted(rows, key=lambda r: [(a, sorted(v)) for a, v in r]):
            rest = tuple((a, v) for a, v in r if a != name)
            by_rest.setdefault(rest, set()).add(dict(r).get(name))
        rows = set()
        for rest, values in by_rest.items():
            if None in values:
                rows.add(rest)
            values.discard(None)
            if values:
                rows.add(tuple(sorted(rest + ((name, frozenset().union(*values)),))))
    return [dict(r) for r in rows]


def kernel_texts(op, kernels):
    names = {a.name for a in type_attrs(op)}
    for device, word in ('CPU', 'cpu'), ('GPU', 'gpu'), ('DEFAULT', 'any'):
        mine = [constraints(k, names) for k in kernels if k.device_type == device and not k.label]
        texts = []
        for k in merged([k for k in mine if takes_low(k, op)]):
            texts.append(word + '(' + ','.join(f'{a}:{"|".join(sorted(k[a]))}' for a in sorted(k)) + ')')
        yield from sorted(texts)


def line(op, kernels):
    flags = 's' * op.is_stateful + 'f' * any(a.type in ('func', 'list(func)') for a in op.attr)
    parts = [' '.join(type_of(op, a) for a in op.input_arg) + ' -> ' +
             ' '.join(f'{a.name}:{type_of(op, a)}' for a in op.output_arg),
             ' '.join(map(attribute, type_attrs(op))), ' '.join(kernel_texts(op, kernels))]
    text = f'{op.name}{" " * bool(flags)}{flags}: ' + '; '.join(p.strip() for p in parts)
    return text.rstrip('; ') if not parts[1] and not parts[2] else text.rstrip()


def text():
    version, ops, kernels = load()
    by_op = {}
    for k in kernels:
        by_op.setdefault(k.op, []).append(k)
    # Later graph passes add these; no model has them.
    known = [o for o in ops if not o.name.startswith(('_Mkl', '__Mkl', '_Itex'))]
    return HEAD.format(version=version) + ''.join(
        line(o, by_op.get(o.name, [])) + '\n' for o in sorted(known, key=lambda o: o.name))


def main():
    if sys.argv[1:] == ['--check']:
        with open(DATA, encoding='utf-8') as f:
            if f.read() != text():
                sys.exit(f'{DATA} is not what this TensorFlow says')
    else:
        sys.stdout.write(text())


if __name__ == '__main__':
    main()
