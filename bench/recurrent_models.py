"""The recurrent models that bench/recurrent measures: frozen layers of Keras, and equal ONNX models with its ops LSTM
and GRU."""
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import numpy as np
import onnx
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

layers = tf.keras.layers
STEPS, FEATURES = 128, 64
VALID = 90  # number of steps of the masked model, of 100, that are not padding


class Onnx:
    """An ONNX graph under construction."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, value):
        name = f'c{len(self.constants)}'
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, op, *inputs, outputs=1, **attributes):
        names = [f'n{len(self.nodes)}_{i}' for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names if outputs > 1 else names[0]

    def write(self, path, x, result, rank):
        kind = TensorProto.FLOAT if x.dtype == np.float32 else TensorProto.INT32
        self.nodes.append(helper.make_node('Identity', [result], ['Identity:0']))
        graph = helper.make_graph(
            self.nodes, 'recurrent', [helper.make_tensor_value_info('x:0', kind, x.shape)],
            [helper.make_tensor_value_info('Identity:0', TensorProto.FLOAT, [None] * rank)], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), path)


def in_order(w, order):
    """A kernel of Keras in ONNX's form: rows are the gates' units; `order` lists Keras' gates in ONNX's order."""
    parts = np.split(w, len(order), -1)
    return np.concatenate([parts[i].T for i in order])


def lstm(g, x, layer, lengths=''):
    w, r, b = layer.get_weights()
    order = (0, 3, 1, 2)
    bias = np.concatenate([in_order(b[None], order)[:, 0], np.zeros(b.shape, 'f4')])
    return g.op('LSTM', x, *(g.constant(a[None]) for a in (in_order(w, order), in_order(r, order), bias)), lengths,
                outputs=3, hidden_size=layer.units)


def gru_both(g, x, layer):
    w, r, b = [], [], []
    for one in layer.forward_layer, layer.backward_layer:
        kernel, recurrent, bias = one.get_weights()
        w.append(in_order(kernel, (0, 1, 2)))
        r.append(in_order(recurrent, (0, 1, 2)))
        b.append(bias.reshape(-1))
    return g.op('GRU', x, *(g.constant(np.stack(a)) for a in (w, r, b)), outputs=2,
                hidden_size=one.units, direction='bidirectional', linear_before_reset=1)[0]


def stacked(g, model):
    first, second = (l for l in model.layers if isinstance(l, layers.LSTM))
    y = g.op('Squeeze', lstm(g, g.op('Transpose', 'x:0', perm=[1, 0, 2]), first)[0], g.constant(np.array([1])))
    return g.op('Squeeze', lstm(g, y, second)[1], g.constant(np.array([0])))


def both_ways(g, model):
    y = gru_both(g, g.op('Transpose', 'x:0', perm=[1, 0, 2]), model.layers[-1])
    y = g.op('Transpose', y, perm=[2, 0, 1, 3])
    return g.op('Reshape', y, g.constant(np.array([0, 0, -1])))


def masked(g, model):
    embedding, layer = model.layers[-2:]
    kept = g.op('Cast', g.op('Greater', 'x:0', g.constant(np.array(0, 'i4'))), to=TensorProto.INT32)
    lengths = g.op('ReduceSum', kept, g.constant(np.array([1])), keepdims=0)
    y = g.op('Gather', g.constant(embedding.get_weights()[0]), 'x:0')
    return g.op('Squeeze', lstm(g, g.op('Transpose', y, perm=[1, 0, 2]), layer, lengths)[1], g.constant(np.array([0])))


def padded(r, batch):
    words = r.integers(1, 1000, (batch, 100)).astype('i4')
    words[:, VALID:] = 0
    return words


def sequence(*shape):
    return lambda r, batch: r.standard_normal((batch, *shape)).astype('f4')


# By name: the layers, the input, the ONNX model (None: ONNX has no such op), the result's rank.
MODELS = {
    'lstm': (lambda x: layers.LSTM(256)(layers.LSTM(256, return_sequences=True)(x)),
             sequence(STEPS, FEATURES), stacked, 2),
    'gru': (lambda x: layers.Bidirectional(layers.GRU(192, return_sequences=True))(x), sequence(STEPS, FEATURES), both_ways, 3),
    'convlstm': (lambda x: layers.ConvLSTM2D(16, 3, padding='same')(x), sequence(12, 16, 16, 16), None, 4),
    'masked': (lambda x: layers.LSTM(128)(layers.Embedding(1000, 64, mask_zero=True)(x)), padded, masked, 2),
}


def model_of(build, shape, dtype):
    """Layers for inputs of this shape, whose extents may be None.  Equal layers get equal weights."""
    tf.keras.utils.set_random_seed(1)
    given = tf.keras.Input(shape[1:], batch_size=shape[0], dtype=dtype.name)
    return tf.keras.Model(given, build(given))


def freeze(model, shape, dtype, path):
    f = tf.function(lambda x: model(x), input_signature=[tf.TensorSpec(shape, dtype, 'x')])
    frozen = convert_variables_to_constants_v2(f.get_concrete_function(), lower_control_flow=False)
    with open(path, 'wb') as out:
        out.write(frozen.graph.as_graph_def().SerializeToString())
    return frozen


def make(name, batch, folder):
    """Writes NAME.pb, NAME.open.pb with any batch and number of steps, NAME.onnx if there is one, and x.npz; returns the request
    for peer.py."""
    build, feed, onnx_of, rank = MODELS[name]
    x = feed(np.random.default_rng(batch), batch)
    model = model_of(build, x.shape, x.dtype)
    frozen = freeze(model, x.shape, x.dtype, f'{folder}/{name}.pb')
    any_size = (None, None, *x.shape[2:])
    freeze(model_of(build, any_size, x.dtype), any_size, x.dtype, f'{folder}/{name}.open.pb')
    np.savez(f'{folder}/x.npz', x=x)
    if onnx_of:
        g = Onnx()
        g.write(f'{folder}/{name}.onnx', x, onnx_of(g, model), rank)
    return {'graph': f'{folder}/{name}.pb', 'onnx': f'{folder}/{name}.onnx' if onnx_of else '', 'inputs': ['x:0'],
            'outputs': [frozen.outputs[0].name], 'folder': folder, 'open': f'{folder}/{name}.open.pb', 'shape': x.shape}
