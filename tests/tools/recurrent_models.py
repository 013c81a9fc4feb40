"""A zoo of models with the recurrent and sequence layers of tf.keras.layers: each kind of layer, alone and in stacks, in both directions, with
masks, with states that it takes, returns and keeps, unrolled and not.  Batch and number of steps are open where the layer lets them be."""
import collections

import environment

keras = environment.keras()
layers = keras.layers
FEATURES, PIXELS = 3, 5

# make(r, kind, x) → results, as a list.  `fixed` are the sizes that such a layer needs to know: 'n' of the batch, 'k' of the steps.
Form = collections.namedtuple('Form', 'make fixed images', defaults=('', True))
Case = collections.namedtuple('Case', 'name model shape')  # model: a keras.Model; shape: of its one input, None where it is open


def units(r):
    return int(r.integers(2, 7))


# ---- kinds of layers: each makes one with random numbers of units ----

def plain(layer, **own):
    return lambda r, **options: layer(units(r), **own, **options)


def images(layer, **own):
    return lambda r, **options: layer(units(r), 3, padding='same', **own, **options)


def of_cells(*cells):
    return lambda r, **options: layers.RNN([c(units(r)) for c in cells] if len(cells) > 1 else cells[0](units(r)), **options)


KINDS = {
    'LSTM': plain(layers.LSTM), 'GRU': plain(layers.GRU), 'GRU that resets before': plain(layers.GRU, reset_after=False),
    'SimpleRNN': plain(layers.SimpleRNN), 'RNN of a cell': of_cells(layers.LSTMCell),
    'RNN of cells': of_cells(layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell),
}
IMAGES = {'ConvLSTM1D': images(layers.ConvLSTM1D), 'ConvLSTM2D': images(layers.ConvLSTM2D), 'ConvLSTM3D': images(layers.ConvLSTM3D)}
AXES = {'ConvLSTM1D': 1, 'ConvLSTM2D': 2, 'ConvLSTM3D': 3}


# ---- forms of models of one kind ----

def flat(y):
    return keras.tree.flatten(y)


def alone(**options):
    return lambda r, kind, x: flat(kind(r, **options)(x))


def stack(depth, **options):
    def make(r, kind, x):
        for _ in range(depth - 1):
            x = kind(r, return_sequences=True, **options)(x)
        return [kind(r, **options)(x)]
    return make


def masked(make):
    """Steps whose features are all zero do not count."""
    def with_mask(r, kind, x):
        kept = keras.ops.where(x[..., :1] > .4, 0., x) if len(x.shape) == 3 else x * keras.ops.cast(
            keras.ops.sum(x, axis=list(range(2, len(x.shape))), keepdims=True) > 0, 'float32')
        return make(r, kind, layers.Masking()(kept))
    return with_mask


def both(merge, depth=1, **options):
    def make(r, kind, x):
        for i in range(depth):
            last = i + 1 == depth
            x = layers.Bidirectional(kind(r, **{**options, **({} if last else {'return_sequences': True})}), merge_mode=merge if last else 'concat')(x)
        return flat(x)
    return make


def embedded(r, kind, x):
    words = keras.ops.cast(keras.ops.abs(x[:, :, 0] * 3), 'int32')
    return flat(kind(r, return_sequences=True)(layers.Embedding(12, 4, mask_zero=True)(words)))


def translator(r, kind, x):
    """The states of one layer are those that another begins with."""
    layer = kind(r, return_state=True)
    _, *states = layer(x)
    config = layer.get_config()
    config.update(name=f'{layer.name}_decoder', return_sequences=True, return_state=False)
    return [layers.Dense(3)(layer.__class__.from_config(config)(x * .5, initial_state=states))]


def residual(r, kind, x):
    y = layers.Dense(4, activation='relu')(x)
    layer = kind(r, return_sequences=True)(y)
    return [layers.LayerNormalization()(layers.Dense(4)(layer) + y)]


FORMS = {
    'last step': Form(alone()),
    'sequences and states': Form(alone(return_sequences=True, return_state=True)),
    'backwards': Form(alone(go_backwards=True, return_sequences=True)),
    'no biases': Form(alone(use_bias=False)),
    'two': Form(stack(2)), 'three': Form(stack(3)),
    'masked': Form(masked(alone())),
    'masked sequences': Form(masked(alone(return_sequences=True, return_state=True))),
    'masked with zeros': Form(masked(alone(return_sequences=True, zero_output_for_mask=True))),
    'masked backwards': Form(masked(alone(return_sequences=True, go_backwards=True))),
    'two masked': Form(masked(stack(2))),
    'both, concat': Form(both('concat')), 'both, sum': Form(both('sum', return_sequences=True)), 'both, mul': Form(both('mul')),
    'both, ave': Form(both('ave', return_sequences=True)), 'both, apart': Form(both(None, return_sequences=True)),
    'both, masked': Form(masked(both('concat', return_sequences=True))), 'both, two': Form(both('concat', 2)),
    'both, states': Form(both('concat', return_state=True)),
    'embedded': Form(embedded, images=False), 'translator': Form(translator), 'residual': Form(residual, images=False),
    'stateful': Form(alone(stateful=True), 'n'), 'stateful sequences': Form(masked(alone(stateful=True, return_sequences=True)), 'n'),
    'stateful, both': Form(both('concat', stateful=True), 'n'),
    'unrolled': Form(alone(unroll=True), 'k', False), 'unrolled sequences': Form(alone(unroll=True, return_sequences=True, return_state=True), 'k', False),
    'unrolled, masked': Form(masked(alone(unroll=True, return_sequences=True)), 'k', False),
    'unrolled, both': Form(both('concat', unroll=True), 'k', False), 'unrolled, two': Form(stack(2, unroll=True), 'k', False),
    'unrolled, stateful': Form(alone(unroll=True, stateful=True), 'nk', False),
}
# Options that not every kind has.
LACK = {'RNN of a cell': ('no biases',), 'RNN of cells': ('no biases', 'translator')}


# ---- other layers of sequences ----

def attention(layer, **options):
    def make(r, x):
        y = layers.Masking()(keras.ops.where(x[..., :1] > .6, 0., x))
        return [layer([y, layers.Dense(FEATURES)(y)], **options)]
    return make


def heads(**options):
    return lambda r, x: [layers.MultiHeadAttention(2, 4)(x, layers.Dense(5)(x), **options)]


def masked_heads(r, x):
    words = keras.ops.cast(keras.ops.abs(x[:, :, 0] * 3), 'int32')
    y = layers.Embedding(12, 6, mask_zero=True)(words)
    return [layers.GlobalAveragePooling1D()(layers.MultiHeadAttention(2, 3)(y, y))]


def one(make):
    return lambda r, x: [make(r)(x)]


SEQUENCES = {
    'Conv1D, causal': one(lambda r: layers.Conv1D(units(r), 3, padding='causal')),
    'Conv1D, strides': one(lambda r: layers.Conv1D(units(r), 3, strides=2, padding='same', activation='relu')),
    'SeparableConv1D': one(lambda r: layers.SeparableConv1D(units(r), 3, padding='same')),
    'DepthwiseConv1D': one(lambda r: layers.DepthwiseConv1D(3, padding='same')),
    'MaxPooling1D': one(lambda r: layers.MaxPooling1D(2, padding='same')),
    'AveragePooling1D': one(lambda r: layers.AveragePooling1D(2, padding='same')),
    'GlobalMaxPooling1D': one(lambda r: layers.GlobalMaxPooling1D()),
    'GlobalAveragePooling1D': lambda r, x: [layers.GlobalAveragePooling1D()(layers.Masking()(keras.ops.where(x[..., :1] > .4, 0., x)))],
    'Attention': attention(layers.Attention()), 'Attention, causal': attention(layers.Attention(use_scale=True), use_causal_mask=True),
    'Attention, concat': attention(layers.Attention(score_mode='concat')), 'AdditiveAttention': attention(layers.AdditiveAttention()),
    'MultiHeadAttention': heads(), 'MultiHeadAttention, causal': lambda r, x: [layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)],
    'MultiHeadAttention, masked': masked_heads,
    'GroupQueryAttention': lambda r, x: [layers.GroupQueryAttention(4, 4, 2)(x, x)],
    'TimeDistributed': one(lambda r: layers.TimeDistributed(layers.Dense(units(r), activation='tanh'))),
    'ZeroPadding1D': lambda r, x: [layers.LSTM(units(r))(layers.ZeroPadding1D((1, 2))(x))],
    'Cropping1D': lambda r, x: [layers.GRU(units(r))(layers.Cropping1D((1, 0))(layers.ZeroPadding1D((1, 1))(x)))],
    'UpSampling1D': one(lambda r: layers.UpSampling1D(2)),
    'RepeatVector': lambda r, x: [layers.LSTM(units(r), return_sequences=True)(layers.RepeatVector(4)(layers.GRU(units(r))(x)))],
    'convolutions in front': lambda r, x: [layers.Dense(3)(layers.Bidirectional(layers.GRU(units(r)))(layers.Conv1D(6, 3, padding='same', activation='relu')(x)))],
}


# ---- the zoo ----

def names():
    """All names of cases, in a fixed order, neighbours as unlike as possible."""
    made = [f'{kind}, {form}' for form in FORMS for kind in KINDS if form not in LACK.get(kind, ())]
    made += [f'{kind}, {form}' for form in FORMS for kind in IMAGES if FORMS[form].images]
    return made + list(SEQUENCES)


def parts_of(name):
    for kind in (*KINDS, *IMAGES):
        if name.startswith(f'{kind}, ') and name[len(kind) + 2:] in FORMS:
            return kind, FORMS[name[len(kind) + 2:]]
    return None, None


def make(r, name, rows=3, steps=4):
    """The model, with random weights; `rows` and `steps` are its sizes where it must know them."""
    keras.backend.clear_session()
    kind, form = parts_of(name)
    fixed = form.fixed if form else ''
    shape = (rows if 'n' in fixed else None, steps if 'k' in fixed else None, *[PIXELS] * AXES.get(kind, 0), FEATURES)
    x = keras.Input(shape[1:], batch_size=shape[0], name='x')
    y = form.make(r, {**KINDS, **IMAGES}[kind], x) if form else SEQUENCES[name](r, x)
    model = keras.Model(x, y)
    for w in model.trainable_weights:
        w.assign((r.standard_normal(w.shape) * .4).astype('f4'))
    return Case(name, model, shape)
