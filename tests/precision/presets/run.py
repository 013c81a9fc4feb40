#!/usr/bin/env python3
"""The presets of other systems against those systems, where they can be installed, and else against their
lists as published (published.py), and their rules as written down a second time, here.

run.py onnx      the block list and the clamping of constants of onnxconverter-common
run.py openvino  the type in which OpenVINO's CPU plugin runs each node of random graphs, in bfloat16
run.py rules     the lists of PyTorch and TVM; all of them on random graphs, by the systems' own lists
run.py keras     the types in which Keras' layers compute under mixed_bfloat16 and mixed_float16

Exit code 77: nothing to test with.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools')]
import environment  # noqa: E402
import published  # noqa: E402

SEED = 20260901


def preset(name):
    """{list: [the system's names]} of the file from which the preset is made."""
    lists, current = {}, None
    with open(f'{environment.ROOT}/precision/data/{name}.preset', encoding='utf-8') as f:
        for line in f:
            words = line.split('#')[0].split()
            if not words:
                continue
            if words[0].startswith('['):
                current = lists[words[0][1:]] = []
            elif current is not None:
                current.append(words[0])
    return lists


def tool(*args):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300)
    if r.returncode:
        sys.exit(f'{args}: ended with {r.returncode}\n{r.stderr}')
    return r.stdout


def low_nodes(path, policy):
    """The nodes with an attribute that the policy made 16 bits wide."""
    told = json.loads(tool('explain', path, '--policy', policy, '--format', 'json', '--quiet'))
    return {n for n, types in told['types'].items() if any('16' in t for t in types.values())}


# ---- onnxconverter-common ----

CONSTANTS = [0., 1., -1., 3e-8, -3e-8, 1e-7, 2e-7, 9999., 1e4, 1.5e4, -1.5e4, -1e9, 3e38, float('inf'),
             float('-inf')]


def onnx(folder):
    import numpy as np
    from onnxconverter_common import float16

    lists = preset('onnx')
    theirs = list(float16.DEFAULT_OP_BLOCK_LIST)
    if lists['DEFAULT_OP_BLOCK_LIST'] != theirs:
        yield f'the block list differs: {set(theirs) ^ set(lists["DEFAULT_OP_BLOCK_LIST"])}'
    path = f'{folder}/constants.hir'
    values = ', '.join('inf' if c == float('inf') else '-inf' if c == float('-inf') else repr(float(c))
                       for c in CONSTANTS)
    n = len(CONSTANTS)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'hir 1\nentry "" {{\n  input "x" = %x\n  output "y" = %y\n}}\n'
                f'%x = Placeholder() {{dtype=f32, shape=shape[{n}]}}\n'
                f'%c = Const() {{dtype=f32, value=tensor f32[{n}] {{{values}}}}}\n'
                f'%y = Add(%x, %c) {{T=f32}}\n')
    np.save(f'{folder}/x.npy', np.zeros(n, np.float32))
    tool('run', path, '--policy', 'onnx-fp16', '--input', f'x=@{folder}/x.npy', '-o', f'{folder}/y.npz',
         '--quiet')
    ours = np.load(f'{folder}/y.npz')['y']
    want = float16.convert_np_to_float16(np.array(CONSTANTS, np.float32)).astype(np.float32)
    if not np.array_equal(ours, want):
        yield f'constants {ours.tolist()}, not {want.tolist()}'


# ---- OpenVINO ----

UNARY = 'relu exp tanh sigmoid sqrt abs'.split()  # not negative, since OpenVINO moves a negation into other nodes
BINARY = 'add multiply subtract maximum'.split()
TENSORFLOW = {'relu': 'Relu', 'exp': 'Exp', 'tanh': 'Tanh', 'sigmoid': 'Sigmoid', 'sqrt': 'Sqrt', 'abs': 'Abs', 'add': 'AddV2', 'multiply': 'Mul', 'subtract': 'Sub', 'maximum': 'Maximum',
              'softmax': 'Softmax', 'matmul': 'MatMul', 'transpose': 'Transpose'}
SIZE = 32


def random_graph(rng):
    """[(name, op, operands)] over 32 by 32 matrices; 'x' is the input, 'w' some weights."""
    nodes, values, transposed = [], ['x'], set()
    for i in range(rng.randrange(4, 14)):
        op = rng.choice(['matmul', 'matmul', 'softmax', 'transpose', rng.choice(UNARY), rng.choice(BINARY)])
        a = values[-1 - min(int(rng.expovariate(1)), len(values) - 1)]
        if op == 'transpose' and a in transposed:
            continue  # the two would cancel
        b = rng.choice(values)
        operands = {'matmul': [a, 'w' if rng.random() < .7 else b]}.get(op, [a, b] if op in BINARY else [a])
        nodes.append((f'n{i}', op, operands))
        values.append(f'n{i}')
        transposed |= {f'n{i}'} if op == 'transpose' else set()
    return nodes


def write_hir(path, nodes, outputs):
    with open(path, 'w', encoding='utf-8') as f:
        f.write('hir 1\nentry "" {\n  input "x" = %x\n')
        f.writelines(f'  output "{o}" = %{o}\n' for o in outputs)
        f.write(f'}}\n%x = Placeholder() {{dtype=f32, shape=shape[{SIZE},{SIZE}]}}\n'
                f'%w = Placeholder() {{dtype=f32, shape=shape[{SIZE},{SIZE}]}}\n'
                '%perm = Const() {dtype=i32, value=tensor i32[2] {1, 0}}\n')
        for name, op, operands in nodes:
            args = [f'%{o}' for o in operands] + (['%perm'] if op == 'transpose' else [])
            extra = ', Tperm=i32' if op == 'transpose' else ''
            f.write(f'%{name} = {TENSORFLOW[op]}({", ".join(args)}) {{T=f32{extra}}}\n')


def openvino_types(ov, nodes, outputs):
    """{node: whether it computes in bfloat16, or has a bfloat16 result}, for the nodes whose names the executed nodes
    still contain."""
    import numpy as np
    from openvino import opset13 as o
    x = o.parameter([SIZE, SIZE], np.float32, name='x')
    w = o.parameter([SIZE, SIZE], np.float32, name='w')
    made = {'x': x, 'w': w}
    for name, op, operands in nodes:
        a = [made[i] for i in operands]
        if op == 'matmul':
            made[name] = o.matmul(a[0], a[1], False, False, name=name)
        elif op == 'softmax':
            made[name] = o.softmax(a[0], 1, name=name)
        elif op == 'transpose':
            made[name] = o.transpose(a[0], o.constant([1, 0], np.int32), name=name)
        else:
            made[name] = getattr(o, op)(*a, name=name)
    model = ov.Model([o.result(made[i]) for i in outputs], [x, w])
    running = ov.Core().compile_model(model, 'CPU', {'INFERENCE_PRECISION_HINT': 'bf16'})
    types, fused = {}, {}
    for n in running.get_runtime_model().get_ordered_ops():
        info = n.get_rt_info()
        names = [i for i in info['originalLayersNames'].astype(str).split(',') if i in made]
        for name in names:
            fused[name] = len(names)
            types[name] = 'bf16' in (info['runtimePrecision'].astype(str),
                                     info['outputPrecisions'].astype(str))
    return {n: t for n, t in types.items() if fused[n] == 1}


def openvino(folder):
    import openvino as ov
    if 'BF16' not in ov.Core().get_property('CPU', 'OPTIMIZATION_CAPABILITIES'):
        print('skipped: OpenVINO has no bfloat16 on this machine')
        sys.exit(environment.SKIPPED)
    rng, compared, low = random.Random(SEED), 0, 0
    for i in range(100):
        nodes = random_graph(rng)
        used = {o for _, _, operands in nodes for o in operands}
        outputs = [n for n, _, _ in nodes if n not in used]
        path = f'{folder}/g{i}.hir'
        write_hir(path, nodes, outputs)
        ours, theirs = low_nodes(path, 'openvino-bf16'), openvino_types(ov, nodes, outputs)
        for name, is_low in theirs.items():
            compared += 1
            low += is_low
            if (name in ours) != is_low:
                yield f'graph {i}, {name}: {"bfloat16" if is_low else "float32"} there; {nodes}'
    print(f'{compared} nodes compared, {low} in bfloat16')
    if compared < 200 or not 40 < low < compared - 40:
        yield 'too little was compared'


# ---- the rules, written a second time ----

SUMS = ('Sum', 'Mean')
ONE = 'Relu Exp Tanh Sigmoid Sqrt Rsqrt Abs Softmax Erf Identity Prod Log'.split()
TWO = 'AddV2 Mul Sub RealDiv Maximum Minimum Pow'.split()
EPSILONS = {'tiny': 1e-6, 'edge': 2 ** -14, 'small': 1e-3, 'half': .5}
VECTOR = 'v'


def rule_graph(rng):
    """[(name, op, operands)] of tensors of any shape; constants: those above, scalars, and a vector."""
    nodes, values = [], ['x', 'z']
    for i in range(rng.randrange(4, 24)):
        a = values[-1 - min(int(rng.expovariate(.7)), len(values) - 1)]
        b = rng.choice(values + list(EPSILONS) * 2 + [VECTOR])
        op = rng.choice(['MatMul', 'MatMul', rng.choice(ONE), rng.choice(ONE), rng.choice(TWO), rng.choice(TWO), 'BiasAdd',
                         'Sum', 'Mean'])
        if op == 'MatMul':
            operands = [a, rng.choice(values)]
        elif op in TWO:
            operands = [a, b] if rng.random() < .7 else [b, a]
        elif op == 'BiasAdd':
            operands = [a, VECTOR]
        else:
            operands = [a]
        nodes.append((f'n{i}', op, operands))
        values.append(f'n{i}')
    return nodes


def write_rule_graph(path, nodes, outputs):
    with open(path, 'w', encoding='utf-8') as f:
        f.write('hir 1\nentry "" {\n  input "x" = %x\n  input "z" = %z\n')
        f.writelines(f'  output "{o}" = %{o}\n' for o in outputs)
        f.write('}\n%x = Placeholder() {dtype=f32, shape=shape[*]}\n%z = Placeholder() {dtype=f32, shape=shape[*]}\n'
                '%axis = Placeholder() {dtype=i32, shape=shape[1]}\n'
                f'%{VECTOR} = Const() {{dtype=f32, value=tensor f32[4] {{1.0, 2.0, 3.0, 4.0}}}}\n')
        f.writelines(f'%{n} = Const() {{dtype=f32, value=tensor f32[] {{{v!r}}}}}\n' for n, v in EPSILONS.items())
        for name, op, operands in nodes:
            args, attrs = ', '.join('%' + o for o in operands), 'T=f32'
            if op in ('Sum', 'Mean', 'Prod'):
                args, attrs = args + ', %axis', 'T=f32, Tidx=i32, keep_dims=true'
            f.write(f'%{name} = {op}({args}) {{{attrs}}}\n')


def kept_nodes(types, otherwise, nodes, outputs):
    """The nodes that OpenVINO's two rules keep in float32, in the order in which its passes visit the graph."""
    users = {n: [u for u, _, operands in nodes if n in operands] for n in ['x', 'z'] + [n for n, _, _ in nodes]}
    op_of, args = {n: op for n, op, _ in nodes}, {n: operands for n, _, operands in nodes}

    def has(n, what):
        return n in op_of and types.get(op_of[n], otherwise) == what
    if otherwise == 'tail':
        kept, stack = set(), list(outputs)
        while stack:
            n = stack.pop()
            if has(n, 'tail') and n not in kept:
                kept.add(n)
                stack += args[n]
        return kept
    if not 'spread' in types.values():
        return set()
    summed = set()
    for n, op, _ in reversed(nodes):
        if op in SUMS or has(n, 'spread') and any(u in summed for u in users[n]):
            summed.add(n)
    kept = {n for n, op, _ in nodes if op == 'Exp' and n in summed}

    def guarded(n):
        return op_of.get(n) in ('AddV2', 'Maximum') and any(EPSILONS.get(o, 1) <= 2 ** -14 for o in args[n])

    def negative_power(n):
        return op_of.get(n) == 'Rsqrt' and guarded(args[n][0])
    for n, op, operands in nodes:
        by = operands[-1]
        if op == 'RealDiv' and guarded(args[by][0] if op_of.get(by) == 'Sqrt' else by):
            kept.add(n)
        if op == 'Mul' and any(negative_power(o) for o in operands):
            kept.add(n)
    for n, _, operands in nodes:
        if has(n, 'spread') and any(o in kept for o in operands):
            kept.add(n)
    for n, _, _ in reversed(nodes):
        if has(n, 'spread') and any(u in kept for u in users[n]):
            kept.add(n)
    return kept


def decided(data, nodes, outputs):
    """The nodes that become low."""
    otherwise, types = data
    kept, low = kept_nodes(types, otherwise, nodes, outputs), set()
    constants = set(EPSILONS) | {VECTOR}
    for n, op, operands in nodes:
        what = types.get(op, otherwise)
        tensors = [o for o in operands if o not in EPSILONS] or operands
        if n in kept or what == 'float32':
            continue
        if what == 'follow' and not all(o in low or o in constants or o in 'xz' for o in operands):
            continue
        if what == 'widest' and not all(o in low for o in tensors):
            continue
        if what == 'first' and operands[0] not in low:
            continue
        low.add(n)
    return low


def rules(folder):
    from onnxconverter_common import float16
    rng, lows = random.Random(SEED), {}
    for system, theirs in published.LISTS.items():
        ours = preset(system)
        for name, ops in theirs.items():
            if ours.get(name) != ops:
                yield f'{system}: {name} differs: {sorted(set(ops) ^ set(ours.get(name, [])))}'
    data = published.rules(float16.DEFAULT_OP_BLOCK_LIST, [*ONE, *TWO, *SUMS, 'MatMul', 'BiasAdd'])
    for i in range(150):
        nodes = rule_graph(rng)
        used = {o for _, _, operands in nodes for o in operands}
        outputs = [n for n, _, _ in nodes if n not in used] + rng.sample([n for n, _, _ in nodes], 1)
        outputs = sorted(set(outputs))
        path = f'{folder}/g{i}.hir'
        write_rule_graph(path, nodes, outputs)
        for policy in data:
            text = tool('opt', path, '--passes', 'infer,precision', '--policy', policy, '-o', '-', '--quiet')
            ours = set(re.findall(r'^%(n\d+)(?:/\w+)? = (?!Cast)\w+\(.*\bT=b?f16', text, re.M))
            want = decided(data[policy], nodes, outputs)
            lows[policy] = lows.get(policy, 0) + len(want)
            if ours != want:
                yield f'graph {i}, {policy}: {sorted(ours ^ want)} differ; {nodes}, outputs {outputs}'
    print(', '.join(f'{policy} {n} nodes low' for policy, n in lows.items()))
    if not all(lows.values()):
        yield 'some policy made nothing low'


# ---- Keras ----

def layers(keras):
    """{name: (layer maker, shapes of the inputs)}."""
    k = keras.layers
    image = (2, 8, 8, 4)
    return {
        'dense': (lambda: k.Dense(8, activation='relu'), (2, 16)),
        'dense softmax': (lambda: k.Dense(8, activation='softmax'), (2, 16)),
        'conv': (lambda: k.Conv2D(8, 3, activation='tanh'), image),
        'depthwise': (lambda: k.DepthwiseConv2D(3, activation='relu6'), image),
        'separable': (lambda: k.SeparableConv2D(8, 3), image),
        'transposed': (lambda: k.Conv2DTranspose(8, 3), image),
        'max pool': (lambda: k.MaxPooling2D(2), image),
        'average pool': (lambda: k.AveragePooling2D(2), image),
        'global pool': (lambda: k.GlobalAveragePooling2D(), image),
        'softmax': (lambda: k.Softmax(), (2, 16)),
        'leaky relu': (lambda: k.LeakyReLU(), (2, 16)),
        'elu': (lambda: k.ELU(), (2, 16)),
        'layer norm': (lambda: k.LayerNormalization(), (2, 16)),
        'rescaling': (lambda: k.Rescaling(.5), (2, 16)),
        'padding': (lambda: k.ZeroPadding2D(), image),
        'flatten': (lambda: k.Flatten(), image),
    }


COMPUTING = {'MatMul', 'Conv2D', 'DepthwiseConv2dNative', 'Conv2DBackpropInput', 'BiasAdd', 'AddV2', 'Mul', 'Sub',
             'Relu', 'Relu6', 'Tanh', 'Erf', 'Erfc', 'Softmax', 'MaxPool', 'AvgPool', 'Mean', 'LeakyRelu', 'Elu', 'Pad',
             'Reshape', 'Rsqrt', 'SquaredDifference', 'RealDiv'}


def keras(folder):
    environment.enter_venv()
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as freeze

    keras_module = environment.keras()

    def graph_of(make, shape, policy):
        keras_module.config.set_dtype_policy(policy)
        keras_module.utils.set_random_seed(1)
        layer = make()
        call = tf.function(lambda x: tf.cast(layer(x), tf.float32))
        return freeze(call.get_concrete_function(tf.TensorSpec(shape, tf.float32))).graph.as_graph_def()

    def types(graph):
        found = {}
        for n in graph.node:
            if n.op in COMPUTING and 'T' in n.attr:
                found.setdefault(n.op, set()).add(tf.dtypes.as_dtype(n.attr['T'].type).name)
        return found

    compared = 0
    for name, (make, shape) in layers(keras_module).items():
        for policy, ours_named in (('mixed_bfloat16', 'keras-bf16'), ('mixed_float16', 'keras-fp16')):
            plain = graph_of(make, shape, 'float32')
            with open(f'{folder}/plain.pb', 'wb') as f:
                f.write(plain.SerializeToString())
            tool('convert', f'{folder}/plain.pb', '--policy', ours_named, '-o', f'{folder}/ours.pb', '--quiet')
            written = tf.compat.v1.GraphDef()
            with open(f'{folder}/ours.pb', 'rb') as f:
                written.ParseFromString(f.read())
            ours, theirs = types(written), types(graph_of(make, shape, policy))
            for op in ours.keys() & theirs.keys():
                compared += 1
                if ours[op] != theirs[op]:
                    yield f'{name}, {policy}: {op} is {theirs[op]} there, {ours[op]} here'
    print(f'{compared} ops of layers compared')
    if compared < 40:
        yield 'too little was compared'


def main():
    what = {'rules': rules, 'onnx': onnx, 'openvino': openvino, 'keras': keras}.get(sys.argv[1] if len(sys.argv) > 1 else '')
    if not what:
        sys.exit(__doc__)
    if what in (onnx, openvino, rules):
        environment.enter_venv('presets', 'tests/precision/presets/requirements.txt')
    with tempfile.TemporaryDirectory() as folder:
        wrong = list(what(folder))
    for w in wrong:
        print(w)
    sys.exit(f'{len(wrong)} differences' if wrong else 0)


if __name__ == '__main__':
    main()
