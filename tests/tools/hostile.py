#!/usr/bin/env python3
"""Valid graphs that are large in only one respect, to measure the cost of each element.

  hostile.py KIND N FILE      writes a GraphDef, or a SavedModel folder for kind `signatures`
  hostile.py                  prints the kinds

Protobuf's wire format is written by hand, so that only Python is needed.
"""
import os, struct, sys

FLOAT, INT32, HALF = 1, 3, 19


def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, data):
    if isinstance(data, str):
        data = data.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def shape(*dims):
    return b''.join(message(2, number(1, d)) for d in dims)


def tensor(dtype, dims, data):
    return number(1, dtype) + message(2, shape(*dims)) + message(4, data)


# AttrValues
def of_type(t): return number(6, t)
def of_int(i): return number(3, i)
def of_bool(b): return number(5, b)
def of_shape(*dims): return message(7, shape(*dims))
def of_string(s): return message(2, s)
def of_tensor(*a): return message(8, tensor(*a))
def of_function(name): return message(10, message(1, name))
def of_types(t, n): return message(1, message(6, varint(t) * n))
def of_ints(values): return message(1, message(3, b''.join(map(varint, values))))
def of_shapes(dims, n): return message(1, message(7, shape(*dims)) * n)
def of_strings(values): return message(1, b''.join(message(2, v) for v in values))


def attrs(field, values):
    return b''.join(message(field, message(1, k) + message(2, v)) for k, v in values.items())


def node(name, op, inputs=(), **values):
    return message(1, name) + message(2, op) + b''.join(message(3, i) for i in inputs) + attrs(5, values)


T = {'T': of_type(FLOAT)}


def placeholder(name='x', dims=(4, )):
    return node(name, 'Placeholder', dtype=of_type(FLOAT), shape=of_shape(*dims))


def constant(name, values, dims=None):
    data = struct.pack(f'<{len(values)}f', *values)
    return node(name, 'Const', dtype=of_type(FLOAT), value=of_tensor(FLOAT, (len(values), ) if dims is None else dims, data))


def integer(name, *values, dims=None):
    data = struct.pack(f'<{len(values)}i', *values)
    return node(name, 'Const', dtype=of_type(INT32), value=of_tensor(INT32, (len(values), ) if dims is None else dims, data))


def unary(op, name, of):
    return node(name, op, [of], **T)


def graph(nodes, functions=()):
    library = b''.join(message(1, f) for f in functions)
    return b''.join(message(1, n) for n in nodes) + (message(2, library) if library else b'') + message(4, number(1, 1982))


def function(name, op, inner=None):
    """x → op(x); `op` may be a call of the function `inner`."""
    signature = message(1, name) + message(2, message(1, 'x') + number(3, FLOAT)) + message(3, message(1, 'y') + number(3, FLOAT))
    if inner:
        body = node('n', op, ['x'], Tin=of_types(FLOAT, 1), Tout=of_types(FLOAT, 1), f=of_function(inner))
        result = 'n:output:0'
    else:
        body, result = unary(op, 'n', 'x'), 'n:' + ('output' if op == 'Identity' else 'activations' if op == 'Relu' else 'y') + ':0'
    return message(1, signature) + message(3, body) + message(4, message(1, 'y') + message(2, result))


def call(name, of, callee):
    return node(name, 'PartitionedCall', [of], Tin=of_types(FLOAT, 1), Tout=of_types(FLOAT, 1), f=of_function(callee))


# Kinds: n elements each.

def operands(n, op, distinct, tail=(), **more):
    inner = [unary('Tanh', f'a{i}', 'x') for i in range(n)] if distinct else []
    ins = [f'a{i}' if distinct else 'x' for i in range(n)] + list(tail)
    return graph([placeholder()] + [integer('axis', 0, dims=())] * bool(tail) + inner + [node('y', op, ins, **more)])


def addn(n): return operands(n, 'AddN', True, N=of_int(n), **T)
def addn_one(n): return operands(n, 'AddN', False, N=of_int(n), **T)
def concat(n): return operands(n, 'ConcatV2', True, ['axis'], N=of_int(n), Tidx=of_type(INT32), **T)
def concat_one(n): return operands(n, 'ConcatV2', False, ['axis'], N=of_int(n), Tidx=of_type(INT32), **T)
def pack(n): return operands(n, 'Pack', True, N=of_int(n), axis=of_int(0), **T)
def pack_one(n): return operands(n, 'Pack', False, N=of_int(n), axis=of_int(0), **T)
def identities(n): return operands(n, 'IdentityN', True, T=of_types(FLOAT, n))


def concat_constants(n):
    return graph([placeholder(), integer('axis', 0, dims=())] + [constant(f'c{i}', [i]) for i in range(n)] +
                 [node('y', 'ConcatV2', ['x'] + [f'c{i}' for i in range(n)] + ['axis'], N=of_int(n + 1), Tidx=of_type(INT32), **T)])


def concat_nested(n):
    """Concatenations, each of which is both operands of the next one: without elements, so that n is not limited."""
    t = {'T': of_type(HALF)}
    return graph([node('x', 'Placeholder', dtype=of_type(HALF), shape=of_shape(2, 0, 0)), integer('one', 1, dims=()), integer('two', 2, dims=()),
                  node('n0', 'Relu', ['x'], **t)] +
                 [node(f'n{i}', 'ConcatV2', [f'n{i - 1}'] * 2 + [('one', 'two')[i % 2]], N=of_int(2), Tidx=of_type(INT32), **t)
                  for i in range(1, n)] + [node('y', 'Relu', [f'n{n - 1}'], **t)])


def split(n):
    """One node with many results."""
    return graph([placeholder(dims=(n, )), integer('axis', 0, dims=()),
                  node('s', 'Split', ['axis', 'x'], num_split=of_int(n), **T)] + [unary('Tanh', 'y', f's:{n - 1}')])


def unpack(n):
    """Many results, each used."""
    return graph([placeholder(dims=(n, )), node('s', 'Unpack', ['x'], num=of_int(n), axis=of_int(0), **T),
                  node('y', 'Pack', [f's:{i}' for i in range(n)], N=of_int(n), axis=of_int(0), **T)])


def users(n):
    """n users of one node, each an output."""
    return graph([placeholder(), unary('Relu', 'r', 'x')] + [unary('Tanh', f'y{i}', 'r') for i in range(n)])


def alike(n):
    """n users of one node that are one common subexpression."""
    return graph([placeholder()] + [unary('Relu', f'r{i}', 'x') for i in range(n)] + [node('y', 'AddN', [f'r{i}' for i in range(n)], N=of_int(n), **T)])


def identity_users(n):
    """n Identity nodes of one node, which clean-ups remove one by one."""
    return graph([placeholder()] + [unary('Identity', f'i{i}', 'x') for i in range(n)] +
                 [node('y', 'AddN', [f'i{i}' for i in range(n)], N=of_int(n), **T)])


def constant_users(n):
    return graph([placeholder(), constant('w', [1, 2, 3, 4]), unary('Relu', 'r', 'x')] +
                 [node(f'y{i}', 'Mul', ['r', 'w'], **T) for i in range(n)])


def read_users(n):
    """One constant with an Identity, like frozen variables, with many users."""
    return graph([placeholder(), constant('w', [1, 2, 3, 4]), unary('Identity', 'w/read', 'w')] +
                 [node(f'y{i}', 'Mul', ['x', 'w/read'], **T) for i in range(n)])


def control_in(n):
    return graph([placeholder()] + [node(f'c{i}', 'NoOp') for i in range(n)] +
                 [node('y', 'Tanh', ['x'] + [f'^c{i}' for i in range(n)], **T)])


def control_values(n):
    return graph([placeholder()] + [unary('Relu', f'c{i}', 'x') for i in range(n)] +
                 [node('y', 'Tanh', ['x'] + [f'^c{i}' for i in range(n)], **T)])


def control_out(n):
    return graph([placeholder(), node('c', 'NoOp')] + [node(f'y{i}', 'Tanh', ['x', '^c'], **T) for i in range(n)])


def control_through(n):
    """n control edges through one NoOp to n nodes: their number must not become n²."""
    return graph([placeholder()] + [unary('Tanh', f'a{i}', 'x') for i in range(n)] +
                 [node('c', 'NoOp', [f'^a{i}' for i in range(n)])] + [node(f'y{i}', 'Sigmoid', ['x', '^c'], **T) for i in range(n)])


def control_chain(n):
    return graph([placeholder(), node('c0', 'NoOp')] + [node(f'c{i}', 'NoOp', [f'^c{i - 1}']) for i in range(1, n)] +
                 [node('y', 'Tanh', ['x', f'^c{n - 1}'], **T)])


def functions_unused(n):
    return graph([placeholder(), unary('Tanh', 'y', 'x')], [function(f'f{i}', 'Relu') for i in range(n)])


def functions_called(n):
    return graph([placeholder()] + [call(f'y{i}', 'x', f'f{i}') for i in range(n)], [function(f'f{i}', 'Tanh') for i in range(n)])


def one_function(n):
    return graph([placeholder()] + [call(f'y{i}', 'x', 'f') for i in range(n)], [function('f', 'Tanh')])


def functions_nested(n):
    return graph([placeholder(), call('y', 'x', 'f0')],
                 [function(f'f{i}', 'PartitionedCall', f'f{i + 1}') for i in range(n - 1)] + [function(f'f{n - 1}', 'Tanh')])


def attributes(n):
    return graph([placeholder(), node('y', 'Tanh', ['x'], **T, **{f'_a{i}': of_int(i) for i in range(n)})])


def ints(n):
    return graph([placeholder(), node('y', 'Tanh', ['x'], _list=of_ints(range(n)), **T)])


def shapes(n):
    return graph([placeholder(), node('y', 'Tanh', ['x'], _output_shapes=of_shapes((4, ), n), **T)])


def types(n):
    return graph([placeholder(), node('y', 'Tanh', ['x'], _types=of_types(FLOAT, n), **T)])


def strings(n):
    return graph([placeholder(), node('y', 'Tanh', ['x'], _class=of_strings([f'loc:@{i}' for i in range(n)]), **T)])


def dims(n):
    return graph([placeholder(), node('y', 'Tanh', ['x'], _shape=of_shape(*[1] * n), **T)])


def chain(n, *ops):
    ops = ops or ('Tanh', )
    return graph([placeholder()] + [unary(ops[i % len(ops)], f'n{i}', f'n{i - 1}' if i else 'x') for i in range(n)])


def chain_identity(n): return chain(n, 'Identity')
def chain_mixed(n): return chain(n, 'Tanh', 'Relu', 'Neg', 'Identity')


def chain_constants(n):
    return graph([constant('c', [1, 2, 3, 4])] + [unary('Neg', f'n{i}', f'n{i - 1}' if i else 'c') for i in range(n)])


def chain_reshape(n):
    return graph([placeholder(), integer('a', 2, 2), integer('b', 4)] +
                 [node(f'n{i}', 'Reshape', [f'n{i - 1}' if i else 'x', 'ab'[i % 2]], Tshape=of_type(INT32), **T) for i in range(n)])


def chain_transpose(n):
    return graph([placeholder(dims=(2, 3)), integer('p', 1, 0)] +
                 [node(f'n{i}', 'Transpose', [f'n{i - 1}' if i else 'x', 'p'], Tperm=of_type(INT32), **T) for i in range(n)])


def chain_cast(n):
    return graph([placeholder()] +
                 [node(f'n{i}', 'Cast', [f'n{i - 1}' if i else 'x'], SrcT=of_type((FLOAT, 2)[i % 2]), DstT=of_type((2, FLOAT)[i % 2])) for i in range(n)])


def chain_add(n):
    """A sum of n terms by AddV2, each with a constant of its own."""
    return graph([placeholder()] + [constant(f'c{i}', [i + 1.], ()) for i in range(n)] +
                 [node(f'n{i}', 'AddV2', [f'n{i - 1}' if i else 'x', f'c{i}'], **T) for i in range(n)])


def chain_matmul(n):
    """Products and functions in turn, between which policies place casts."""
    return graph([placeholder(dims=(4, 4)), constant('w', range(16), (4, 4))] +
                 [node(f'n{i}', 'MatMul', [f'n{i - 1}' if i else 'x', 'w'], transpose_a=of_bool(False), transpose_b=of_bool(False), **T)
                  if i % 2 == 0 else unary('Exp', f'n{i}', f'n{i - 1}') for i in range(n)])


def matmul_users(n):
    """Products of one tensor that functions use, too."""
    return graph([placeholder(dims=(4, 4)), constant('w', range(16), (4, 4)), unary('Exp', 'e', 'x')] +
                 [node(f'n{i}', 'MatMul', ['e', 'w'], transpose_a=of_bool(bool(i & 1)), transpose_b=of_bool(bool(i & 2)), **T)
                  if i % 2 == 0 else unary('Exp', f'n{i}', f'n{i - 1}') for i in range(n)])


def ladder(n, op='AddV2'):
    """Each node takes the two before it."""
    return graph([placeholder('a'), placeholder('b')] +
                 [node(f'n{i}', op, [f'n{i - 2}' if i > 1 else 'ab'[i], f'n{i - 1}' if i else 'b'], **T) for i in range(n)])


def placeholders(n):
    return graph([placeholder(f'x{i}') for i in range(n)] + [node('y', 'AddN', [f'x{i}' for i in range(n)], N=of_int(n), **T)])


def placeholders_unused(n):
    return graph([placeholder(), unary('Tanh', 'y', 'x')] + [placeholder(f'x{i}') for i in range(n)])


def constants(n):
    return graph([placeholder()] + [constant(f'c{i}', [i] * 4) for i in range(n)] +
                 [node('y', 'AddN', ['x'] + [f'c{i}' for i in range(n)], N=of_int(n + 1), **T)])


FILLED = 250000


def fills(n):
    """A sum of n tensors of one megabyte each, which take a few bytes in the file."""
    return graph([placeholder(dims=(FILLED, )), integer('dims', FILLED)] + [constant(f'c{i}', [i], ()) for i in range(n)] +
                 [node(f'f{i}', 'Fill', ['dims', f'c{i}'], index_type=of_type(INT32), **T) for i in range(n)] +
                 [node('y', 'AddN', ['x'] + [f'f{i}' for i in range(n)], N=of_int(n + 1), **T)])


def turns(n):
    """A constant of one megabyte that is transposed n times; each transpose is used."""
    return graph([placeholder(dims=(1, 1)), constant('t0', range(1 << 18), (1 << 9, 1 << 9)), integer('p', 1, 0), integer('at', 0, 1),
                  integer('one', 1, 1)] +
                 [node(f't{i + 1}', 'Transpose', [f't{i}', 'p'], Tperm=of_type(INT32), **T) for i in range(n)] +
                 [node(f's{i}', 'Slice', [f't{i + 1}', 'at', 'one'], Index=of_type(INT32), **T) for i in range(n)] +
                 [node('y', 'AddN', ['x'] + [f's{i}' for i in range(n)], N=of_int(n + 1), **T)])


def constants_alike(n):
    return graph([placeholder()] + [constant(f'c{i}', [1] * 4) for i in range(n)] +
                 [node(f'y{i}', 'AddV2', ['x', f'c{i}'], **T) for i in range(n)])


def name_length(n):
    return graph([placeholder(), unary('Tanh', 'y' * n, 'x')])


def scope_depth(n):
    return graph([placeholder(), unary('Tanh', 's/' * n + 'y', 'x')])


def scopes(n):
    return graph([placeholder()] + [unary('Tanh', f's{i}/y', 'x') for i in range(n)])


def unknown(n):
    """Each node is refused; the refusal names the kind once."""
    return graph([placeholder()] + [unary('Unheard', f'y{i}', 'x') for i in range(n)])


def unknown_types(n):
    return graph([placeholder()] + [unary(f'Unheard{i}', f'y{i}', 'x') for i in range(n)])


def switches(n):
    return graph([placeholder(), node('p', 'Placeholder', dtype=of_type(10), shape=of_shape())] +
                 [node(f's{i}', 'Switch', [f'm{i - 1}' if i else 'x', 'p'], **T) for i in range(n)] +
                 [node(f'm{i}', 'Merge', [f's{i}', f's{i}:1'], N=of_int(2), **T) for i in range(n)])


def padded(n):
    """Consecutive space-to-batch ops of rank 4, each with shape arithmetic."""
    return graph([placeholder(dims=(-1, 4)), integer('axes', 0)] +
                 [x for i in range(n) for x in (
                     node(f's{i}', 'Shape', [f'r{i - 1}' if i else 'x'], out_type=of_type(INT32), **T),
                     node(f'r{i}', 'Reshape', [f'r{i - 1}' if i else 'x', f's{i}'], Tshape=of_type(INT32), **T))])


def signatures(n):
    """The MetaGraphDef of a SavedModel with n signatures."""
    info = message(1, 'x:0') + number(2, FLOAT) + message(3, shape(4))
    out = message(1, 'y:0') + number(2, FLOAT) + message(3, shape(4))
    one = message(1, message(1, 'x') + message(2, info)) + message(2, message(1, 'y') + message(2, out)) + message(3, 'tensorflow/serving/predict')
    meta = message(1, message(4, 'serve')) + message(2, graph([placeholder(), unary('Tanh', 'y', 'x')]))
    return number(1, 1) + message(2, meta + b''.join(message(5, message(1, f's{i}') + message(2, one)) for i in range(n)))


KINDS = {f.__name__: f for f in (
    addn, addn_one, concat, concat_one, pack, pack_one, identities, concat_constants, concat_nested, split, unpack, users, alike, identity_users,
    constant_users, read_users, control_in, control_values, control_out, control_through, control_chain, functions_unused,
    functions_called, one_function, functions_nested, attributes, ints, shapes, types, strings, dims, chain, chain_identity,
    chain_mixed, chain_constants, chain_reshape, chain_transpose, chain_cast, chain_add, chain_matmul, matmul_users, ladder,
    placeholders, placeholders_unused, constants, constants_alike, name_length, scope_depth, scopes, unknown, unknown_types,
    switches, padded, signatures)}


def write(kind, n, path):
    if kind == 'signatures':
        os.makedirs(path, exist_ok=True)
        path = os.path.join(path, 'saved_model.pb')
    with open(path, 'wb') as f:
        f.write(KINDS[kind](n))


if __name__ == '__main__':
    if len(sys.argv) == 1:
        print('\n'.join(KINDS))
    else:
        write(sys.argv[1], int(sys.argv[2]), sys.argv[3])
