#!/usr/bin/env python3
"""One training step of real graphs: the tool against TensorFlow, from the same initial values and feeds, with random
ops fixed by seeds.

Each graph is copied to a form that both compute.  It is pruned to the fetched nodes; fed tensors, and ops that
TensorFlow does not register, are replaced by placeholders; variables are read after the step.  In the float64 copy
every float32 tensor is float64, except random numbers, which are drawn as before and cast, and FusedBatchNorm, which
TensorFlow has only in float32 and which is therefore written in elementary ops.  TensorFlow's copy has images with
channels last if its kernels require that.

- In float64 the tool agrees with TensorFlow within 1e-9 of the largest number of each tensor.
- In float32 its error against float64 is at most twice the larger of TensorFlow's two errors (with oneDNN and without),
  tensor by tensor, or
  sixteen roundings of the tensor's largest number.  Convolutions are direct.

The plan keeps to the formula of docs/train-memory.md: no more than variables, slots, gradients, copies and 1.15 times activations.

The loss, the gradients that optimisers take, and the variables after the step are compared; for Adam, which divides by
roots of squares that may be 0, only the gradients.

Without a name: the graphs that take seconds, and with HALFTONE_LONG=1 all.  With `--seeds N` the step is computed from N
starts, and the median of the errors of each tensor counts: a rounding that moves a number across the zero of a Relu, or
chooses another maximum, changes all gradients behind it, of the tool in one start and of TensorFlow in another.
With `--json FILE` it also
measures the error in float32 with Winograd's method instead of direct convolutions, which has no bound, and writes the
results with the machine.  Exit code 77: nothing to test with.
"""
import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')
environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from tensorflow.core.framework import graph_pb2, types_pb2  # noqa: E402
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2  # noqa: E402
from tensorflow.python.framework import op_def_registry  # noqa: E402

v1 = tf.compat.v1
FLOAT, DOUBLE = types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE
EXACT, WORSE, ROUNDINGS = 1e-9, 2, 16 * 2.**-24
LEAST = 1e-6  # relative to the largest gradient: smaller ones count as 0, such as the gradient of a bias before a batch normalisation
MODELS = os.path.join(environment.SHARED, 'models')


@dataclass
class Step:
    name: str
    path: str
    train: str
    loss: str
    feeds: object              # function of random numbers, returns {tensor: array}
    long: bool = False
    sizes: dict = field(default_factory=dict)  # numbers that are fixed in variables and constants of the graph (the batch, and multiples of it) → the numbers that replace them
    metric: str = ''           # another tensor that the copies keep
    optimizer: str = ''        # pattern of nodes whose first operand is a gradient, for an adaptive optimiser that is spelled out in elementary ops


def whole(r, most, *shape):
    return r.integers(0, most, shape)


def unit(r, *shape):
    return r.random(shape).astype('f4')


def bert_batch(r):
    """Two sequences of 128 words, of which 20 are to be predicted."""
    return {'IteratorGetNext:1': whole(r, 2, 2, 128).astype('i4'), 'IteratorGetNext:2': whole(r, 30522, 2, 20).astype('i4'),
            'IteratorGetNext:3': whole(r, 128, 2, 20).astype('i4'), 'IteratorGetNext:4': np.ones((2, 20), 'f4'),
            'IteratorGetNext:5': whole(r, 2, 2, 1).astype('i4'), 'IteratorGetNext:6': whole(r, 2, 2, 128).astype('i4'),
            'IteratorGetNext': whole(r, 30522, 2, 128).astype('i4')}


def word_batch(r, width):
    """Three sentences of up to six words, and the states that two layers of this width begin with."""
    labels = whole(r, 100, 3, 6) + 1
    labels[1, 4:] = labels[2, 2:] = 0
    return {'Input/Input': whole(r, 104, 3, 6).astype('i4'), 'Labels/Labels': labels.astype('i4'),
            **{f'Model/Placeholder{end}': unit(r, 3, width) - np.float32(.5) for end in ('', '_1', '_2', '_3')}}


STEPS = [
    Step('xor', 'train/xor.meta', 'train_op', 'loss',
         lambda r: {'Placeholder': np.array([[1, 0], [1, 1], [0, 0], [0, 1]], 'f4'), 'Placeholder_1': np.array([1, 0, 0, 1], 'i4')}),
    Step('regression', 'train/regression.pb', 'train', None, lambda r: {'x': np.float32(1.7), 'y': np.float32(2.9)}),
    *[Step(f'regression_{form}', f'train/regression_forms/{path}', 'GradientDescent', 'truediv',
           lambda r: {'X': unit(r, 17), 'Y': unit(r, 17)})
      for form, path in (('checkpoint', 'checkpoint/model.meta'), ('saved', 'saved_model'))],
    Step('mnist_lr', 'mnist/mnist_lr_model', 'SGDOptimizer', 'Loss',
         lambda r: {'Features': unit(r, 16, 784), 'Label': np.eye(10, dtype='f4')[whole(r, 10, 16)]}),
    Step('mnist_conv', 'mnist/mnist_conv_model', 'MomentumOp', 'Loss',
         lambda r: {'Features': unit(r, 8, 28, 28, 1), 'Label': whole(r, 10, 8), 'DropoutProb': np.float32(.8),
                    'learning_rate': np.float32(.01)}),
    Step('cifar', 'cifar/cifar_saved_model', 'Adam', 'Mean',
         lambda r: {'Input': unit(r, 8, 32, 32, 3), 'Placeholder': whole(r, 10, 8)}),
    Step('word2vec', 'train/word2vec.meta', 'GradientDescent', 'Mean',
         lambda r: {'Placeholder': whole(r, 5000, 24).astype('i4'), 'Placeholder_1': whole(r, 5000, 24, 1).astype('i4')}),
    Step('char_cnn', 'train/char_cnn_untrained.meta', 'loss/Adam', 'loss/Mean',
         lambda r: {'x': whole(r, 70, 2, 1014).astype('i4'), 'y': whole(r, 14, 2).astype('i4'), 'is_training': np.array(True)}, long=True),
    # Images and labels are variables.
    Step('resnet50', 'resnet/resnet50_fp32_train.pbtxt', 'group_deps_1', 'loss_1/add', lambda r: {}, long=True, sizes={117: 2}),
    Step('resnet18', 'resnet/resnet18_train.meta', 'train_op', 'tower0/cost',
         lambda r: {'QueueInput/input_deque:0': whole(r, 256, 2, 224, 224, 3).astype('u1'),
                    'QueueInput/input_deque:1': whole(r, 1000, 2).astype('i4')}, long=True),
    Step('word_cnn', 'train/word_cnn.meta', 'loss/Adam', 'loss/Mean',
         lambda r: {'x': whole(r, 50000, 4, 100).astype('i4'), 'y': whole(r, 14, 4).astype('i4'), 'is_training': np.array(True)},
         optimizer='update_embeddings/UnsortedSegmentSum$'),
    Step('vd_cnn', 'train/vd_cnn.meta', 'loss/optimizer', 'loss/value',
         lambda r: {'x': whole(r, 70, 2, 1014).astype('i4'), 'y': whole(r, 14, 2).astype('i4'), 'is_training': np.array(True)}, long=True),
    Step('word2vec_nce', 'lm/word2vec.meta', 'Model/Gradient/Apply/GradientDescent', 'Model/truediv_1',
         lambda r: {'Input/Input': whole(r, 71294, 2, 20).astype('i4')}),
    # Words with the label 0 fill up the sentences and do not count.  The second one has layers of the widths of the model's file, 2004.
    Step('word_lm', 'lm/word_lm.meta', 'Model/Gradient/Apply/GradientDescent', 'Model/truediv_1', lambda r: word_batch(r, 24),
         sizes={2004: 24, 2 * 2004: 2 * 24, 4 * 2004: 4 * 24, 10004: 104}),
    Step('word_lm_wide', 'lm/word_lm.meta', 'Model/Gradient/Apply/GradientDescent', 'Model/truediv_1', lambda r: word_batch(r, 2004), long=True),
    Step('rnn', 'train/rnn_dynamic_backprop.meta', 'Gradient/Apply/GradientDescent', None,
         lambda r: {'a': unit(r, 4, 6, 24), 'c_init_state': unit(r, 4, 24), 'h_init_state': unit(r, 4, 24),
                    'out_correct': whole(r, 24, 4, 6).astype('i4')}),
    Step('bert', 'bert/bert_L3_train.meta', 'group_deps_1', 'add_1', bert_batch, long=True, sizes={32: 2, 32 * 128: 2 * 128, 32 * 20: 2 * 20},
         optimizer='^global_norm/(L2Loss|global_norm$)'),
]


# ---- graphs ----

def load(path):
    path = os.path.join(MODELS, path)
    if path.endswith('.pbtxt'):
        with open(path) as f:
            return text_format.Parse(f.read(), graph_pb2.GraphDef())
    kind, file = ((saved_model_pb2.SavedModel, f'{path}/saved_model.pb') if os.path.isdir(path) else
                  (meta_graph_pb2.MetaGraphDef if path.endswith('.meta') else graph_pb2.GraphDef, path))
    proto = kind()
    with open(file, 'rb') as f:
        proto.ParseFromString(f.read())
    return proto.meta_graphs[0].graph_def if kind is saved_model_pb2.SavedModel else \
        proto.graph_def if kind is meta_graph_pb2.MetaGraphDef else proto


def importable(graph):
    """TensorFlow cannot import names that begin with "_", which its own rewriting creates."""
    for n in graph.node:
        n.name = re.sub('^_', 'x_', n.name)
        for i, x in enumerate(n.input):
            n.input[i] = re.sub(r'^(\^?)_', r'\1x_', x)


def plain(name):
    """The tensor that an operand names: result 0 has no number."""
    return name.removesuffix(':0')


def node_of(name):
    return name.lstrip('^').split(':')[0]


def op_def(op):
    return op_def_registry.get(op)


def add(graph, op, name, inputs=(), **attrs):
    n = graph.node.add(op=op, name=name, input=list(inputs))
    for k, v in attrs.items():
        a = n.attr[k]
        if k in ('T', 'dtype', 'SrcT', 'DstT', 'Tidx', 'Tshape', 'Tperm', 'out_type'):
            a.type = v
        elif isinstance(v, bool):
            a.b = v
        else:
            a.CopyFrom(v)
    return n


def constant(graph, name, value):
    n = graph.node.add(op='Const', name=name)
    n.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(value))
    n.attr['dtype'].type = n.attr['value'].tensor.dtype
    return name


def replaced(graph, names):
    """Renames operands."""
    for n in graph.node:
        for i, x in enumerate(n.input):
            if plain(x) in names:
                n.input[i] = names[plain(x)]


def pruned(graph, targets, fed):
    """The nodes that the targets need, with placeholders for fed tensors."""
    out, nodes, seen, todo = graph_pb2.GraphDef(), {n.name: n for n in graph.node}, set(), list(targets)
    out.versions.CopyFrom(graph.versions)
    fed = {plain(k): (k.replace(':', '_').replace('/', '_') if plain(k) not in nodes or nodes[plain(k)].op != 'Placeholder' else k, a)
           for k, a in fed.items()}
    for name, a in fed.values():
        n = add(out, 'Placeholder', name, dtype=tf.as_dtype(a.dtype).as_datatype_enum)
        n.attr['shape'].shape.CopyFrom(tf.TensorShape(a.shape).as_proto())
        seen.add(name)
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        n = out.node.add()
        n.CopyFrom(nodes[name])
        n.attr.pop('_class', None)
        n.attr.pop('_output_shapes', None)
        n.device = ''
        if op_def(n.op) is None:
            raise SystemExit(f'{name}: TensorFlow does not register {n.op}: feed it')
        todo += [node_of(i) for i in n.input if plain(i) not in fed]
    replaced(out, {k: name for k, (name, _) in fed.items()})
    return out, {name: a for name, a in fed.values()}


def resize(graph, sizes):
    """Another batch, or other widths: in the shapes of variables, of constants and of elements of arrays, and in constants that are shapes,
    count the images or are shares of them."""
    for n in graph.node:
        for a in n.attr.values():
            for d in a.shape.dim:
                d.size = sizes.get(d.size, d.size)
        if n.op == 'Const' and n.attr['value'].tensor.dtype != types_pb2.DT_STRING:
            before = t = tf.make_ndarray(n.attr['value'].tensor)
            if t.size < 32:
                for old, new in sizes.items():
                    t = np.where(before == np.float32(1 / old), 1 / new, np.where(before == old, new, t)).astype(before.dtype)
            t = t[tuple(slice(sizes.get(d)) for d in t.shape)]
            if t is not before:
                n.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(t))


def pin(graph):
    """Gives each random op a seed of its own, and makes the largest result of TopK sorted."""
    for n in graph.node:
        if 'sorted' in n.attr:
            n.attr['sorted'].b = True
    for i, n in enumerate(sorted((n for n in graph.node if 'seed2' in n.attr), key=lambda n: n.name)):
        n.attr['seed'].i, n.attr['seed2'].i = 87654321, i + 1


# ---- float64 ----

def fixed_floats(op):
    """The indices of operands and results that are float32 whatever the attributes."""
    d = op_def(op)
    return [i for i, a in enumerate(d.input_arg) if a.type == FLOAT], [i for i, a in enumerate(d.output_arg) if a.type == FLOAT]


def write_batch_norm(graph, n, after):
    """FusedBatchNorm and its gradient, for training or inference, in elementary ops; the results by their names."""
    training = 'is_training' not in n.attr or n.attr['is_training'].b
    channels_last = n.attr['data_format'].s != b'NCHW'
    epsilon = constant(graph, n.name + '/epsilon', np.float64(n.attr['epsilon'].f))
    axes = constant(graph, n.name + '/axes', np.array([0, 1, 2] if channels_last else [0, 2, 3], 'i4'))
    across = constant(graph, n.name + '/across', np.array([1, 1, 1, -1] if channels_last else [1, -1, 1, 1], 'i4'))

    def op(kind, name, *inputs, **attrs):
        add(graph, kind, f'{n.name}/{name}', inputs, T=DOUBLE, **attrs)
        return f'{n.name}/{name}'

    def mean(name, x):
        return op('Mean', name, x, axes, Tidx=types_pb2.DT_INT32)

    def wide(name, x):
        return op('Reshape', name, x, across, Tshape=types_pb2.DT_INT32)
    if n.op.startswith('FusedBatchNormGrad'):
        dy, x, scale, m, variance = list(n.input)[:5]
        way = op('Sub', 'way', x, wide('m', m))
        root = op('Rsqrt', 'root', op('AddV2', 'shifted', variance, epsilon))
        products = op('Mul', 'products', dy, way)
        flat = dy
        if training:
            slope = op('Mul', 'slope', op('Mul', 'square', root, root), mean('product', products))
            flat = op('Sub', 'flat', dy, wide('shift', mean('dy', dy)))
            flat = op('Sub', 'straight', flat, op('Mul', 'along', way, wide('slopes', slope)))
        dx = op('Mul', 'dx', flat, wide('scales', op('Mul', 'scale', root, scale)))
        by_scale = op('Mul', 'by_scale', op('Sum', 'sums', products, axes, Tidx=types_pb2.DT_INT32), root)
        by_offset = op('Sum', 'by_offset', dy, axes, Tidx=types_pb2.DT_INT32)
        results = [dx, by_scale, by_offset]
    else:
        x, scale, offset = list(n.input)[:3]
        m = mean('mean', x) if training else n.input[3]
        way = op('Sub', 'way', x, wide('m', m))
        variance = mean('variance', op('Mul', 'squares', way, way)) if training else n.input[4]
        root = op('Rsqrt', 'root', op('AddV2', 'shifted', variance, epsilon))
        y = op('Mul', 'scaled', way, wide('scales', op('Mul', 'scale', root, scale)))
        y = op('AddV2', 'y', y, wide('offset', offset))
        count = op('Cast', 'count', op('Size', 'size', x), SrcT=types_pb2.DT_INT32, DstT=DOUBLE)
        count = op('RealDiv', 'each', count, op('Cast', 'channels', op('Size', 'channel_count', scale),
                                                SrcT=types_pb2.DT_INT32, DstT=DOUBLE))
        rest = op('Sub', 'rest', count, constant(graph, n.name + '/one', np.float64(1)))
        unbiased = op('Mul', 'unbiased', variance, op('RealDiv', 'more', count, rest))
        results = [y, m, unbiased, m, variance]
    after.update({n.name + (f':{i}' if i else ''): to for i, to in enumerate(results)})


def doubled(graph):
    """The graph in float64."""
    out, after = graph_pb2.GraphDef(), {}
    out.versions.CopyFrom(graph.versions)
    for n in graph.node:
        if n.op.startswith('FusedBatchNorm'):
            write_batch_norm(out, n, after)
            continue
        w = out.node.add()
        w.CopyFrom(n)
        ins, outs = fixed_floats(n.op)
        draws = n.op in ('RandomUniform', 'TruncatedNormal', 'RandomStandardNormal')
        for i in ins:
            add(out, 'Cast', f'{n.name}/single{i}', [w.input[i]], SrcT=DOUBLE, DstT=FLOAT)
            w.input[i] = f'{n.name}/single{i}'
        for i in outs or ([0] if draws else []):
            tensor = n.name + (f':{i}' if i else '')
            add(out, 'Cast', f'{n.name}/double{i}', [tensor], SrcT=FLOAT, DstT=DOUBLE)
            after[tensor] = f'{n.name}/double{i}'
        if not draws:
            widen_attrs(w)
    casts = {n.name for n in out.node if re.search(r'/double\d$', n.name)}
    for n in out.node:
        if n.name not in casts:
            for i, x in enumerate(n.input):
                n.input[i] = '^' + after.get(x[1:], x[1:]) if x.startswith('^') else after.get(plain(x), x)
    return out


def widen_attrs(n):
    for a in n.attr.values():
        if a.type == FLOAT:
            a.type = DOUBLE
        for i, t in enumerate(a.list.type):
            if t == FLOAT:
                a.list.type[i] = DOUBLE
        if a.HasField('tensor') and a.tensor.dtype == FLOAT:
            a.tensor.CopyFrom(tf.make_tensor_proto(tf.make_ndarray(a.tensor).astype('f8')))


# ---- channels last ----

def channels_last(graph):
    """The graph in which ops with channels first stand between transpositions."""
    out, after = graph_pb2.GraphDef(), {}
    out.versions.CopyFrom(graph.versions)
    for n in graph.node:
        w = out.node.add()
        w.CopyFrom(n)
        if n.attr['data_format'].s != b'NCHW':
            continue
        w.attr['data_format'].s = b'NHWC'
        for k in 'strides', 'ksize', 'dilations':
            x = list(n.attr[k].list.i)
            if len(x) == 4:
                del w.attr[k].list.i[:]
                w.attr[k].list.i.extend([x[0], x[2], x[3], x[1]])
        d = op_def(n.op)
        images, sizes = IMAGES[re.sub(r'V\d$', '', n.op)]
        for i, x in enumerate(n.input):
            if i < len(d.input_arg) and i in images:
                w.input[i] = turned(out, f'{n.name}/last{i}', x, [0, 2, 3, 1], n.attr['T'].type)
            if i in sizes:
                at = constant(out, f'{n.name}/places{i}', np.array([0, 2, 3, 1], 'i4'))
                axis = constant(out, f'{n.name}/axis{i}', np.int32(0))
                g = add(out, 'GatherV2', f'{n.name}/size{i}', [x, at, axis])
                for k in 'Tparams', 'Tindices', 'Taxis':
                    g.attr[k].type = types_pb2.DT_INT32
                w.input[i] = g.name
        if n.op not in ('Conv2DBackpropFilter', 'BiasAddGrad'):
            after[n.name] = turned(out, f'{n.name}/first', n.name, [0, 3, 1, 2], n.attr['T'].type)
    for n in out.node:
        if not n.name.endswith('/first'):
            for i, x in enumerate(n.input):
                n.input[i] = after.get(plain(x), x)
    return out


# The operands that are images, and those that are shapes of images.
IMAGES = {'Conv2D': ([0], []), 'Conv2DBackpropInput': ([2], [0]), 'Conv2DBackpropFilter': ([0, 2], []), 'BiasAdd': ([0], []),
          'BiasAddGrad': ([0], []), 'MaxPool': ([0], []), 'AvgPool': ([0], []), 'MaxPoolGrad': ([0, 1, 2], []),
          'AvgPoolGrad': ([1], [0]), 'FusedBatchNorm': ([0], []), 'FusedBatchNormGrad': ([0, 1], [])}


def turned(graph, name, x, perm, dtype):
    add(graph, 'Transpose', name, [x, constant(graph, name + '/perm', np.array(perm, 'i4'))], T=dtype, Tperm=types_pb2.DT_INT32)
    return name


# ---- variables ----

def variables_of(graph):
    return [n for n in graph.node if n.op in ('VariableV2', 'Variable', 'VarHandleOp')]


def variable_name(n):
    return n.attr['shared_name'].s.decode() or n.name


def first_values(graph, step, r):
    """The initial values: from the checkpoint, else from the graph's initialisers, else random."""
    path, out = os.path.join(MODELS, step.path), {}
    checkpoint = f'{path}/variables/variables' if os.path.isdir(path) else path.removesuffix('.meta')
    reader = tf.train.load_checkpoint(checkpoint) if os.path.exists(checkpoint + '.index') else None
    assigned = {}
    for n in graph.node:
        if n.op == 'Assign' and n.name.endswith('/Assign'):
            assigned.setdefault(node_of(n.input[0]), n.input[1])
    for v in variables_of(graph):
        name, shape = variable_name(v), [d.size for d in v.attr['shape'].shape.dim]
        if reader and reader.has_tensor(name):
            out[name] = reader.get_tensor(name)
        elif v.name in assigned:
            out[name] = assigned[v.name]
        else:
            positive = re.search('gamma|variance|rate', name) or not shape
            drawn = r.uniform(.5, 1.5, shape) if positive else r.standard_normal(shape) * (1 if len(shape) and shape[-1] == 3 else .05)
            out[name] = np.asarray(drawn).astype(tf.as_dtype(v.attr['dtype'].type).as_numpy_dtype)
    tensors = {k: x for k, x in out.items() if isinstance(x, str)}
    if tensors:
        part, _ = pruned(graph, {node_of(x) for x in tensors.values()}, {})
        pin(part)
        with session_of(part) as s:
            out.update(s.run({k: x if ':' in x else x + ':0' for k, x in tensors.items()}))
    return out


def session_of(graph):
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    g = tf.Graph()
    with g.as_default():
        tf.import_graph_def(graph, name='')
    return v1.Session(graph=g, config=config)


def begin(graph, start):
    """Adds nodes that set the variables; returns their names and feeds."""
    names, feeds = [], {}
    for i, v in enumerate(variables_of(graph)):
        dtype = v.attr['dtype'].type
        add(graph, 'Placeholder', f'start/{i}', dtype=dtype)
        by_handle = v.op == 'VarHandleOp'
        add(graph, 'AssignVariableOp' if by_handle else 'Assign', f'begin/{i}', [v.name, f'start/{i}'],
            **{'dtype' if by_handle else 'T': dtype})
        names.append(f'begin/{i}')
        feeds[f'start/{i}:0'] = start[variable_name(v)].astype(tf.as_dtype(dtype).as_numpy_dtype)
    return names, feeds


ADAPTIVE = re.compile('ApplyAdam$')


def read_behind(graph, train, adaptive):
    """Adds reads of the variables after the step."""
    names = []
    for i, v in enumerate(variables_of(graph)):
        dtype = v.attr['dtype'].type
        if dtype != FLOAT and dtype != types_pb2.DT_INT32 or adaptive:
            continue
        by_handle = v.op == 'VarHandleOp'
        add(graph, 'ReadVariableOp' if by_handle else 'Identity', f'after/{i}', [v.name, '^' + train],
            **{'dtype' if by_handle else 'T': dtype})
        names.append(f'after/{i}')
    return names


def gradients(graph, optimizer):
    """The gradients that the optimiser takes: the nodes that pass them on, and the tensors."""
    found = {plain(n.input[0]) for n in graph.node if optimizer and re.search(optimizer, n.name)}
    for n in graph.node:
        args = [a.name for a in op_def(n.op).input_arg]
        found.update(plain(n.input[args.index(name)]) for name in ('grad', 'delta') if 'Apply' in n.op and name in args)
    names = {f'gradient/{i}': x for i, x in enumerate(sorted(found))}
    for name, x in names.items():
        add(graph, 'Identity', name, [x], T=FLOAT)
    return names


def update_last(graph, names):
    """Updates wait for all gradients: TensorFlow changes variables by reference in place, while other nodes may still read them."""
    for n in graph.node:
        if 'Apply' in n.op:
            n.input.extend(f'^{name}' for name in names)


# ---- the copies, and their results ----

class Copies:
    def __init__(self, step, folder, seed=0):
        r = np.random.default_rng(sum(map(ord, step.name)) + seed)
        graph = load(step.path)
        importable(graph)
        resize(graph, step.sizes)
        self.step, self.folder = step, f'{folder}/{step.name}{seed}'
        os.makedirs(self.folder)
        self.start = first_values(graph, step, r)
        single, self.feeds = pruned(graph, [x for x in (step.train, step.loss, step.metric) if x], step.feeds(r))
        pin(single)
        adaptive = bool(step.optimizer) or any(ADAPTIVE.search(n.op) for n in single.node)
        self.of = gradients(single, step.optimizer)
        self.outputs = [*([step.loss] if step.loss else []), *self.of, *read_behind(single, step.train, adaptive)]
        self.graph = {'float32': single, 'float64': doubled(single)}
        self.results, self.memory = {}, {}

    def fed(self, dtype):
        return {k: a.astype(dtype) if a.dtype == np.float32 else a for k, a in self.feeds.items()}

    def tensorflow(self, dtype):
        graph = channels_last(self.graph[dtype])
        update_last(graph, self.of)
        names, feeds = begin(graph, self.start)
        with session_of(graph) as s:
            s.run(names, feeds)
            return s.run([plain(n) + ':0' if ':' not in n else n for n in self.outputs], {k + ':0': a for k, a in self.fed(dtype).items()})

    def tool(self, dtype, method='direct'):
        model = f'{self.folder}/{dtype}'
        if not os.path.exists(model):
            self.save(model, dtype)
            np.savez(f'{model}/x.npz', **self.fed(dtype))
        command = [environment.TOOL, 'run', model, '--outputs', ','.join(dict.fromkeys([*self.outputs, self.step.train])), '-o',
                   f'{model}/y.npz', '--policy', 'must_keep_origin_dtype', '--conv-method', method, '--format', 'json']
        for k in self.feeds:
            command += ['--input', f'{k}=@{model}/x.npz#{k}']
        done = subprocess.run(command, capture_output=True, text=True, errors='replace')
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[:1500])
        self.memory[f'{dtype}, {method}'] = json.loads(done.stdout)['memory']
        with np.load(f'{model}/y.npz') as z:
            return [z[n] for n in self.outputs]

    def save(self, model, dtype):
        """Writes a SavedModel with the initial values."""
        os.makedirs(f'{model}/variables')
        meta = saved_model_pb2.SavedModel(saved_model_schema_version=1).meta_graphs.add()
        meta.meta_info_def.tags.append('serve')
        meta.graph_def.CopyFrom(self.graph[dtype])
        tensors = {k: a.astype(dtype) if a.dtype == np.float32 else a for k, a in self.start.items()}
        tensors = {variable_name(v): tensors[variable_name(v)] for v in variables_of(self.graph[dtype])}
        tf.raw_ops.SaveV2(prefix=f'{model}/variables/variables', tensor_names=list(tensors), shape_and_slices=[''] * len(tensors),
                          tensors=list(tensors.values()))
        saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
        saved.meta_graphs.add().CopyFrom(meta)
        with open(f'{model}/saved_model.pb', 'wb') as f:
            f.write(saved.SerializeToString())


def error(got, want, least=0.):
    with np.errstate(all='ignore'):
        a, b = np.asarray(got, 'f8'), np.asarray(want, 'f8')
        if a.shape != b.shape:
            return np.inf
        return np.max(np.abs(a - b), initial=0) / (max(largest(b), least) or 1)


def largest(a):
    return np.max(np.abs(a), initial=0)


class Errors:
    """The errors of one step, tensor by tensor."""

    def __init__(self, c, onednn, with_winograd):
        want = c.tensorflow('float64')
        self.copies, self.names = c, [c.of.get(n, n) for n in c.outputs]
        self.ours = {'float32': c.tool('float32'), 'float64': c.tool('float64')}
        if with_winograd and any(n.op.startswith('Conv2D') for n in c.graph['float32'].node):
            self.ours['winograd'] = c.tool('float32', 'winograd')
        least = LEAST * max((largest(w) for n, w in zip(c.outputs, want) if n in c.of), default=0.)

        def errors(got):
            return np.array([error(g, w, least) for g, w in zip(got, want)])
        self.ours = {k: errors(got) for k, got in self.ours.items()}
        self.theirs = {'plain': errors(c.tensorflow('float32')), 'onednn': errors(onednn)}


def beyond(one, others):
    """How often an error in float32 is more than twice the larger of two others."""
    return int(np.sum(one > np.maximum(WORSE * np.maximum(*others), ROUNDINGS)))


def compare(found):
    """The errors that are too large, and the largest errors of all tensors: in float64; in float32, as a share of TensorFlow's, also with
    Winograd's method.  Of several seeds the median counts, tensor by tensor, and in float64 the largest."""
    first, wrong = found[0], []
    ours = {k: np.array([f.ours[k] for f in found]) for k in first.ours}
    plain, onednn = (np.array([f.theirs[k] for f in found]) for k in ('plain', 'onednn'))
    theirs = np.median(np.maximum(plain, onednn), 0)
    middle = {k: np.max(e, 0) if k == 'float64' else np.median(e, 0) for k, e in ours.items()}
    worst = {k: float(np.max(e if k == 'float64' else e / np.maximum(theirs, ROUNDINGS / WORSE), initial=0)) for k, e in middle.items()}
    for i, name in enumerate(first.names):
        for what in 'float32', 'float64':
            e = middle[what][i]
            if not e <= (EXACT if what == 'float64' else max(WORSE * theirs[i], ROUNDINGS)):
                wrong.append(f'{name} in {what}: error {e:.2g}, TensorFlow\'s in float32 is {theirs[i]:.2g}')
    for f in found:
        wrong += [f'memory in {of}: {m}' for of, m in f.copies.memory.items() if m['peak'] > m['bound']]
    single = ours['float32']
    spread = {'float32': beyond(single, (plain, onednn)), 'tensorflow': beyond(plain, (single, onednn)), 'onednn': beyond(onednn, (single, plain))}
    print(f'{first.copies.step.name}: {len(first.names)} tensors, float64 within {worst["float64"]:.1e}, float32 at most {worst["float32"]:.2f} of '
          'TensorFlow\'s error' + (f', {worst["winograd"]:.2f} with Winograd\'s method' if 'winograd' in worst else '')
          + f'; beyond twice the larger of the other two errors: {spread["float32"]} of the tool\'s, {spread["tensorflow"]} of TensorFlow\'s, '
          f'{spread["onednn"]} of TensorFlow\'s with oneDNN, of {single.size}', flush=True)
    return wrong, {'tensors': len(first.names), 'seeds': len(found), **worst, 'beyond': spread}


def with_onednn(given, names):
    """TensorFlow's results in float32 with oneDNN, by step and seed, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.abspath(__file__), '--onednn', folder, *given, *names], check=True,
                       env={**os.environ, 'TF_ENABLE_ONEDNN_OPTS': '1'}, stderr=subprocess.DEVNULL)
        out = {}
        for file in os.listdir(folder):
            with np.load(f'{folder}/{file}') as z:
                out[file.removesuffix('.npz')] = [z[f'arr_{i}'] for i in range(len(z.files))]
        return out


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--json', metavar='FILE')
    p.add_argument('--seeds', type=int, default=1)
    p.add_argument('--batch', type=int, help='of graphs whose batch is fixed in variables and constants')
    p.add_argument('--onednn', help=argparse.SUPPRESS)
    p.add_argument('names', nargs='*', help=', '.join(s.name for s in STEPS))
    a = p.parse_args()
    given = ['--seeds', str(a.seeds), *(['--batch', str(a.batch)] if a.batch else [])]
    return a, given


def chosen(a):
    steps = [s for s in STEPS if (s.name in a.names if a.names else environment.LONG or not s.long)]
    if a.names and len(steps) < len(set(a.names)):
        sys.exit(f'the steps are {", ".join(s.name for s in STEPS)}')
    for s in steps if a.batch else ():
        least = min(s.sizes.values())
        s.sizes = {k: n // least * a.batch for k, n in s.sizes.items()}
    return steps


def main():
    a, given = arguments()
    if not os.path.isdir(MODELS):
        return environment.SKIPPED
    steps = chosen(a)
    with tempfile.TemporaryDirectory() as work:
        if a.onednn:
            for s, seed in itertools.product(steps, range(a.seeds)):
                np.savez(f'{a.onednn}/{s.name}{seed}.npz', *Copies(s, work, seed).tensorflow('float32'))
            return 0
        onednn, failed, found = with_onednn(given, [s.name for s in steps]), 0, {}
        for s in steps:
            errors = [Errors(Copies(s, work, seed), onednn[f'{s.name}{seed}'], a.json) for seed in range(a.seeds)]
            problems, found[s.name] = compare(errors)
            for problem in problems:
                print(f'FAIL {s.name}: {problem}', flush=True)
            failed += len(problems)
    if a.json:
        sys.path.insert(0, f'{environment.ROOT}/bench')
        import machine
        machine.write_json(a.json, 'halftone.tests.steps/1', {'models': found})
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
