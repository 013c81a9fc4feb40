#!/usr/bin/env python3
"""The presets of other systems against those systems, where they can be installed.

run.py onnx      the block list and the clamping of constants of onnxconverter-common
run.py openvino  the type in which OpenVINO's CPU plugin runs each node of random graphs, in bfloat16
run.py keras     the types in which Keras' layers compute under mixed_bfloat16 and mixed_float16

Exit code 77: nothing to test with.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools')]
import environment  # noqa: E402

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
SEED = 20260901


def preset(name):
    """(class of all others, {TensorFlow's type: (class, their name)}, {list: [their names]})."""
    otherwise, types, lists, current = None, {}, {}, None
    with open(f'{environment.ROOT}/passes/precision/data/{name}.preset', encoding='utf-8') as f:
        for line in f:
            words = line.split('#')[0].split()
            if not words:
                continue
            if words[0] == 'otherwise':
                otherwise = words[1]
            elif words[0].startswith('['):
                current = words[0][1:], words[1]
                lists[current[0]] = []
            elif current:
                lists[current[0]].append(words[0])
                types.update((t, (current[1], words[0])) for t in words[1:])
    return otherwise, types, lists


def tool(*args):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300)
    if r.returncode:
        sys.exit(f'{args}: ended with {r.returncode}\n{r.stderr}')
    return r.stdout


def low_nodes(path, policy):
    """Nodes with an attribute that the policy made 16 bits wide."""
    told = json.loads(tool('explain', path, '--policy', policy, '--format', 'json', '--quiet'))
    return {n for n, types in told['types'].items() if any('16' in t for t in types.values())}


# ---- onnxconverter-common ----

CONSTANTS = [0., 1., -1., 3e-8, -3e-8, 1e-7, 2e-7, 9999., 1e4, 1.5e4, -1.5e4, -1e9, 3e38, float('inf'),
             float('-inf')]


def onnx(folder):
    import numpy as np
    from onnxconverter_common import float16

    _, _, lists = preset('onnx')
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

UNARY = 'relu exp tanh sigmoid sqrt abs'.split()  # not negative, which it moves into other nodes
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
            continue  # the two would go away
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
    """{node: it computes in bfloat16, or gives it}, as far as the nodes that run still name them."""
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
    import keras as keras_module
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as freeze

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
    what = {'onnx': onnx, 'openvino': openvino, 'keras': keras}.get(sys.argv[1] if len(sys.argv) > 1 else '')
    if not what:
        sys.exit(__doc__)
    if what is not keras:
        environment.enter_venv('presets', 'tests/presets/requirements.txt')
    with tempfile.TemporaryDirectory() as folder:
        wrong = list(what(folder))
    for w in wrong:
        print(w)
    sys.exit(f'{len(wrong)} differences' if wrong else 0)


if __name__ == '__main__':
    main()
