#!/usr/bin/env python3
"""Models in which other dimensions than the first stay open: one artefact runs any lengths, heights, widths and
batches, chosen at random, with the results of live TensorFlow; so do `run`, two threads and a net.  Models that
depend on an open size, and sizes out of bounds, are refused with the reason.

--in-turn: one context runs several sizes, one after the other.  Before each it runs the largest sizes with NaN in all
inputs of floating-point types.  Results must not depend on the NaNs that this leaves in the context's memory.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
sys.path.insert(0, f'{environment.BUILD}/python')
from live import TOLERANCE, freeze, np, run, tf, tool  # noqa: E402
from opened import agree, expected, in_order, make_net, net_refuses, run_in_arena, run_net, weights  # noqa: E402

F32, I32 = tf.float32, tf.int32


def norm(x):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-6)


# ---- models: each returns a function of the inputs, and for each input its shape and type; an
# extent that is a text is open ----

def transformer(r):
    """A block of BERT, with a table of positions that is cut to the length."""
    heads, width, inner = int(r.integers(1, 5)), int(r.integers(1, 9)) * 4, int(r.integers(3, 90))
    depth = heads * width
    table, positions = weights(r, 50, depth), weights(r, 160, depth)
    w = [weights(r, depth, depth) for _ in range(4)]
    up, down = weights(r, depth, inner), weights(r, inner, depth)

    def f(ids, mask):
        batch, n = tf.shape(ids)[0], tf.shape(ids)[1]
        x = tf.gather(table, ids) + positions[:n]

        def apart(t):
            return tf.transpose(tf.reshape(tf.reshape(t, [-1, depth]) @ w[0], [batch, n, heads, width]), [0, 2, 1, 3])
        q, k, v = apart(x), apart(tf.nn.relu(x)), apart(x * 2.)
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(width).astype('f4')
        scores += ((1. - tf.cast(mask, F32)) * -1e4)[:, None, None, :]
        x += tf.reshape(tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3]), [batch, n, depth]) @ w[1]
        x = norm(x)
        x = norm(x + tf.einsum('blm,md->bld', tf.nn.gelu(tf.einsum('bld,dm->blm', x, up)), down))
        return x, tf.tanh(x[:, 0] @ w[2]), tf.reduce_mean(x, 1), tf.reduce_max(x @ w[3], 1)
    return f, {'ids': (('n', 'k'), I32), 'mask': (('n', 'k'), I32)}


def pooled(r):
    """Reductions, an extreme, running sums, a softmax over the length, and values computed from sizes."""
    c = int(r.integers(1, 40))
    w = weights(r, c, c)

    def f(x):
        n, k = tf.shape(x)[0], tf.shape(x)[1]
        y = tf.nn.softmax(x, 1) * tf.cast(tf.range(k), F32)[:, None]
        z = tf.concat([tf.cumsum(x, 1), y, tf.zeros([n, k, c])], -1)
        total = tf.reduce_sum(y, [0, 1])
        return (z, tf.argmax(x, 1), tf.reduce_min(x, 1, keepdims=True), tf.reduce_mean(x, [0, 1]) + total,
                tf.transpose(x @ w, [2, 1, 0]), tf.reduce_all(x < 9., 1))
    return f, {'x': (('n', 'k', c), F32)}


def crossed(r):
    """Two lengths: attention of one sequence to another."""
    d = int(r.integers(1, 30))
    w = weights(r, d, d)

    def f(x, y):
        p = tf.nn.softmax(tf.einsum('qd,bkd->bqk', tf.nn.relu(x[:, 0, :] @ w), y))
        return tf.einsum('bqk,bkd->bqd', p, y), tf.reduce_sum(p, 2), tf.linalg.band_part(p, 1, -1)
    return f, {'x': (('q', 1, d), F32), 'y': ((3, 'k', d), F32)}


def pictures(r):
    """Windows over heights and widths: each padding, strides, dilation, groups; pooling, padding, means over images, also
    over those that nothing else reads."""
    a, d, e, g = weights(r, 3, 3, 3, 16), weights(r, 3, 3, 16, 1), weights(r, 1, 1, 16, 24), weights(r, 3, 3, 24, 24)
    h, one, groups = weights(r, 5, 3, 24, 8), weights(r, 3, 3, 24, 1), weights(r, 3, 3, 8, 24)
    scale, offset = (tf.constant(r.uniform(.5, 2, 16).astype('f4')) for _ in range(2))
    pads = r.permutation(['SAME', 'VALID'])
    around = r.integers(0, 4, 4)

    def f(x):
        y = tf.pad(x, [[0, 0], around[:2], around[2:], [0, 0]])
        y = tf.nn.conv2d(y, a, 2, pads[0])
        y, _, _ = tf.compat.v1.nn.fused_batch_norm(y, scale, offset, offset, scale, is_training=False)
        y = tf.nn.depthwise_conv2d(tf.nn.relu6(y), d, [1, 1, 1, 1], 'SAME') + y
        y = tf.nn.relu(tf.nn.conv2d(y, e, 1, 'VALID'))
        z = tf.nn.conv2d(y, g, 1, 'SAME') + tf.nn.conv2d(y, groups, 1, 'SAME') + y
        small = tf.nn.depthwise_conv2d(y, tf.tile(d, [1, 1, 2, 1])[:, :, :24], [1, 2, 2, 1], pads[0])
        both = tf.concat([tf.nn.max_pool2d(z, 3, 2, pads[1]), tf.nn.avg_pool2d(z, 3, 2, pads[1])], -1)
        far = tf.nn.conv2d(z, h, [2, 1], 'SAME', dilations=1)
        return (both, far, small, tf.nn.conv2d(z, g, 1, 'VALID'), tf.nn.conv2d(z, one, 1, 'SAME', dilations=2), tf.nn.avg_pool2d(y, 2, 1, 'SAME'),
                tf.reduce_mean(z, [1, 2]), tf.reduce_max(far, 2), *(
                    tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(y, g, stride, 'SAME')), [1, 2]) for stride in (1, 2)))
    return f, {'x': (('n', 'h', 'w', 3), F32)}


def residuals(r):
    """Inverted residuals: convolutions of 1 x 1 at strides, depthwise windows of several sizes at strides with either padding."""
    c, windows, strides = int(r.integers(1, 5)) * 8, r.choice([2, 3, 5, 8], 3), r.permutation([1, 1, 2])
    first, pads = weights(r, 3, 3, 3, c), r.choice(['SAME', 'VALID'], 3)
    up, down, short = ([weights(r, 1, 1, *s) for _ in windows] for s in ((c, 3 * c), (3 * c, c), (c, c)))
    deep = [weights(r, k, 2, 3 * c, 1) for k in windows]

    def f(x):
        x = tf.nn.relu6(tf.nn.conv2d(x, first, 1, 'SAME'))
        for u, k, d, s, stride in zip(up, deep, down, short, strides):
            y = tf.nn.relu6(tf.nn.conv2d(x, u, 1, 'SAME'))
            y = tf.nn.relu6(tf.nn.depthwise_conv2d(y, k, [1, stride, stride, 1], 'SAME'))
            x = tf.nn.conv2d(y, d, 1, 'SAME') + (x if stride == 1 else tf.nn.conv2d(x, s, stride, 'SAME'))
        one, two, three = (tf.nn.depthwise_conv2d(x, d[:, :, :c], [1, 1, 1, 1], p) for d, p in zip(deep, pads))
        return x, one, two, three, tf.nn.max_pool2d(x, 5, 1, pads[0]), tf.reduce_mean(x, [1, 2])
    return f, {'x': (('n', 'h', 'w', 3), F32)}


def divided(r):
    """Integer divisions and powers, by sizes and by tensors: elements outside are no divisors, nor exponents."""
    raw, most = tf.raw_ops, int(r.integers(2, 9))

    def f(x):
        n, k = tf.shape(x)[0], tf.shape(x)[1]
        y = x * 5 + tf.range(k)
        d, by = y % most + 1, tf.stack([n, k])[1]
        return (tf.gather(y, y % k, axis=1), y // by, tf.reduce_sum(tf.gather(y[0], y[-1] % k)), raw.Div(x=y, y=d), raw.TruncateDiv(x=y, y=d),
                raw.TruncateMod(x=y, y=d), raw.Mod(x=y, y=d), y // d, y % d, tf.pow(x + 1, d), tf.reduce_sum(raw.Div(x=y, y=d), 1),
                tf.reduce_max(raw.TruncateMod(x=y, y=n), 0))
    return f, {'ids': (('n', 'k'), I32)}


def turned(r):
    """Rows that are mirrored as far as their lengths, from one size or the other on, and axes that are rolled."""
    by, least = int(r.integers(-9, 10)), 1 + int(r.integers(4))

    def f(x, lengths):
        n, k = tf.shape(x)[0], tf.shape(x)[1]
        lengths = lengths * 29 + tf.range(n) * 7
        along = tf.math.floormod(lengths, k + 1)
        columns = tf.reverse_sequence(tf.transpose(x, [2, 1, 0]), tf.minimum(tf.range(k), n), 2, 1)
        return (tf.reverse_sequence(x, along, 1, 0) * 2., tf.reduce_sum(tf.reverse_sequence(x, along, 1, 0)[:, 0], 0), columns,
                tf.roll(x, by, 1), tf.roll(x, [by, tf.reduce_sum(lengths)], [0, 1]), tf.reverse_sequence(x, tf.minimum(lengths, least), 2, 0))
    return f, {'x': (('n', 'k', 5), F32), 'lengths': (('n',), I32)}


def tokens(r):
    """All pixels of all images as one axis: products with their channels, places along it, sums and shares of it, and back to images."""
    c, into, back = int(r.integers(2, 7)), int(r.integers(3, 20)), int(r.integers(2, 9))
    up, down, w = weights(r, c, into), weights(r, into, back), weights(r, 3, 3, back, 4)

    def f(x):
        images = tf.shape(x)
        rows = tf.reshape(x, [-1, c])
        y = tf.tensordot(tf.nn.gelu(tf.tensordot(x, up, 1)), down, [[3], [0]])
        flat = tf.reshape(y, [-1])
        best = tf.argmax(rows, 0)
        return (y, tf.nn.conv2d(y, w, 1, 'SAME'), best, tf.gather(rows, best), tf.reduce_max(flat), tf.reduce_mean(tf.reshape(y, [-1, back]), 0),
                tf.nn.softmax(rows, 0)[:3], tf.where(rows[:, 0] > 0), tf.matmul(rows, rows, transpose_a=True), rows * 2,
                tf.reshape(tf.nn.relu(rows), tf.stack([images[0], images[1] * images[2], c])) + 1)
    return f, {'x': (('n', 'h', 'w', c), F32)}


def joined(r):
    """Concatenations that are outputs, along each axis, with open axes in front of it and behind it."""
    rows = int(r.integers(1, 4))

    def f(x, row):
        columns = tf.transpose(x, [0, 2, 1])
        return (*(tf.concat([tf.tanh(x), x * 2., x], axis) for axis in range(3)), tf.concat([row, tf.tanh(row), row * 3.], 0),
                tf.concat([tf.tanh(row), row * 3.], 1), tf.concat([tf.tanh(columns), columns * .5], 1))
    return f, {'x': (('n', 'k', 5), F32), 'row': ((rows, 'k'), F32)}


def over_images(r):
    """Windows over images of fixed heights and widths, whose results are reduced over an open number of images."""
    c, k = int(r.integers(1, 9)), int(r.integers(1, 20))
    w, deep, back = weights(r, 3, 3, c, k), weights(r, 3, 3, c, 1), weights(r, 2, 2, k, c)

    def f(x):
        y = tf.nn.relu(tf.nn.conv2d(x, w, 1, 'SAME'))
        z = tf.nn.conv2d_transpose(x, back, [tf.shape(x)[0], 12, 10, k], 2, 'SAME')
        windows = tf.nn.depthwise_conv2d(x, deep, [1, 1, 1, 1], 'VALID'), tf.nn.avg_pool2d(x, 2, 1, 'VALID'), tf.nn.conv2d(x, w, 2, 'VALID')
        return tf.reduce_max(y - 1, 0), tf.reduce_sum(z, 0), tf.nn.softmax(tf.nn.conv2d(x, w, 1, 'VALID'), 0), *(tf.reduce_min(y + 2, 0) for y in windows)
    return f, {'x': (('q', 6, 5, c), F32)}


def photographs(r):
    """Images that are resized to a size that the run tells, by each method, and whose colours change."""
    raw, factor, by = tf.raw_ops, float(r.uniform(.2, 3)), float(r.uniform(-1, 1))
    small, cubic = weights(r, 1, 9, 7, 2), {'half_pixel_centers': bool(r.integers(2))}
    wide = [int(n) for n in r.integers(1, 60, 2)]

    def f(x):
        y, size = .1 + .8 * tf.sigmoid(x), tf.shape(x)[1:3]
        hue = tf.image.rgb_to_hsv(y)
        number = tf.where(tf.math.is_nan(x), 0., x)  # test in_turn feeds NaN, with which the run rightly stops
        return (tf.image.resize(small, size, 'nearest'), tf.image.resize(y, wide, 'nearest'), raw.ResizeNearestNeighbor(images=y, size=size * 2 // 3, align_corners=True),
                raw.ResizeBicubic(images=y, size=wide, **cubic), raw.ResizeBicubic(images=small, size=size, **cubic),
                raw.ResizeBicubic(images=y, size=size * 2 // 3 + 1, align_corners=True), tf.image.adjust_contrast(x, factor), tf.image.adjust_saturation(y, factor),
                tf.image.adjust_hue(y, by), tf.image.hsv_to_rgb(hue) + hue[..., 1:2], tf.debugging.check_numerics(number[:, :, 1:], 'no number') * 2)
    return f, {'x': (('n', 'h', 'w', 3), F32)}


def warped(r):
    """Images under projective maps, one for all images or one for each: every mode for places behind the edges, to sizes that the run tells."""
    apply, modes = tf.raw_ops.ImageProjectiveTransformV3, r.permutation(['REFLECT', 'WRAP', 'CONSTANT', 'NEAREST'])
    fixed = [int(n) for n in r.integers(1, 20, 2)]
    maps = (np.array([1, 0, 0, 0, 1, 0, 0, 0]) + r.uniform(-1, 1, (len(modes), 8)) * [.5, .5, 9, .5, .5, 9, .02, .02]).astype('f4')

    def f(x):
        n, size = tf.shape(x)[0], tf.shape(x)[1:3]
        each = maps[0] + .01 * tf.cast(tf.range(n), F32)[:, None] * tf.ones([1, 8])
        ways = [('NEAREST', maps[1:2], size), ('BILINEAR', maps[2:3], size + 3), ('BILINEAR', each, fixed), ('NEAREST', each, size)]
        return (*(apply(images=x, transforms=t, output_shape=s, fill_value=.25, interpolation=how, fill_mode=mode) for (how, t, s), mode in zip(ways, modes)),
                tf.raw_ops.ImageProjectiveTransformV2(images=x, transforms=maps[3:], output_shape=fixed, interpolation='BILINEAR', fill_mode=modes[0]))
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def counted_off(r):
    """Even numbers between ends or in steps, as many as a size says; an axis that is padded to a multiple, which is computed with a fraction; frames of an axis that begin in equal distances; gradients of slices; one size twice in an axis."""
    length, step, c = int(r.integers(1, 9)), int(r.integers(1, 9)), int(r.integers(2, 6))
    multiple, by = int(r.integers(2, 20)), float(r.uniform(.1, 2))
    wide = tf.ones([1, c])

    def f(x):
        k = tf.shape(x)[1]
        ends = tf.linspace(x[0, 0], x[0, -1], k * 2)
        both = x[:, :, None, :] * x[:, None, :, :]
        number = tf.cast(k, F32)
        longer = tf.image.pad_to_bounding_box(x[..., None], 0, 0, tf.cast(tf.math.ceil(number / multiple), I32) * multiple, c)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            parts = tf.reduce_sum(tf.square(x[:, -1])), tf.reduce_sum(tf.square(x[..., None, 1])), tf.reduce_sum(tf.square(x[:, 1:, 1:]))
        return (ends, tf.linspace(0., 1., k + 3) * 2, tf.signal.frame(x[..., 0], length, step, pad_end=True) * 2, tf.reshape(both, [-1, k * k, c]) * wide,
                tf.range(number * by) + 1, tf.range(number, -3., -by), longer * 2., tf.nn.avg_pool2d(longer, 2, 2, 'SAME'), *(tape.gradient(p, x) for p in parts))
    return f, {'x': (('n', 'k', c), F32)}


def trained(r):
    """Gradients of nets whose images are open: by filters, biases and the scales of batch normalisation of training; of pools, resized
    images and a new axis, where the number of images alone is open; a gradient by images."""
    c, groups, steps = int(r.integers(1, 5)), int(r.integers(1, 4)), int(r.integers(1, 4))
    parts = [weights(r, *s) for s in ((3, 3, 2, groups * c), (groups * c,), (3, 2, c, groups * 2), (3, 3, groups * 2, 2), (groups * 4,), (2, 2, groups * 4, 3))]

    def normal(y, scale, **k):
        same = tf.ones_like(scale)
        return tf.raw_ops.FusedBatchNormV3(x=y, scale=scale + 1, offset=scale, mean=same, variance=same, exponential_avg_factor=.7, epsilon=1., **k)

    def f(x, q):
        with tf.GradientTape() as tape:
            tape.watch([*parts, q])
            first, bias, grouped, deep, scale, last = parts
            y = tf.tanh(tf.nn.bias_add(tf.nn.conv2d(x, first, 1, 'SAME'), bias))
            y = tf.nn.conv2d(y, grouped, steps, 'VALID')
            y, mean, variance, *_ = normal(tf.nn.depthwise_conv2d(y, deep, [1, 1, 1, 1], 'SAME'), scale, is_training=True)
            y = tf.nn.conv2d(y, last, 1, 'VALID')
            z = tf.concat([tf.nn.max_pool2d(q, 3, 2, 'SAME'), tf.nn.avg_pool2d(q, 2, 2, 'SAME'), tf.raw_ops.ResizeBilinear(images=q, size=[3, 4])], 3)
            new = tf.reduce_sum(q, [1, 2, 3])[:, None] * tf.reduce_sum(z, [1, 2])
            loss = tf.reduce_mean(y * y) + tf.reduce_mean(z * z) + tf.reduce_mean(new)
        return (*tape.gradient(loss, [q, *parts]), mean, variance, loss)
    return f, {'x': (('n', 'h', 'w', 2), F32), 'q': (('n', 6, 7, 2), F32)}


MODELS = {f.__name__: f for f in (transformer, pooled, crossed, pictures, residuals, divided, turned, over_images, photographs, warped, counted_off,
                                  trained, joined, tokens)}
CHOOSING = {'trained'}  # the largest of rounded elements may rightly be another one, which then gets the gradient
# Bounds of each size, by its name.  Sums of products over k end at the run's size if the upper bound is a multiple of 8, else at the bound:
# MOST_K has one of each.
BOUNDS = {'n': (1, 3), 'q': (1, 20), 'k': (1, 70), 'h': (16, 41), 'w': (15, 38)}
MOST_K = 70, 120


def choose_bounds(r):
    BOUNDS['k'] = 1, int(r.choice(MOST_K))


# ---- the ways to run them ----

def model_of(make, r, folder):
    f, inputs = make(r)
    signature = [tf.TensorSpec([None if isinstance(s, str) else s for s in shape], t, name=n)
                 for n, (shape, t) in inputs.items()]
    frozen = freeze(f, signature, f'{folder}/m.pb')
    return f, inputs, [t.name.split(':')[0] for t in frozen.outputs]


def feeds_of(r, inputs, sizes):
    def draw(shape, t):
        shape = [sizes.get(s, s) for s in shape]
        return r.integers(0, 2, shape, 'i4') if t.is_integer else r.standard_normal(shape).astype('f4')
    return {n: draw(*x) for n, x in inputs.items()}


def stated_size(s):
    return '{}..{}'.format(*BOUNDS[s]) if isinstance(s, str) else str(s)


def stated(inputs):
    return [o for n, (shape, _) in inputs.items()
            for o in ('--input-shape', f'{n}:{",".join(map(stated_size, shape))}')]


def sizes_of(r, inputs, number):
    names = sorted({s for shape, _ in inputs.values() for s in shape if isinstance(s, str)})
    yield {n: BOUNDS[n][0] for n in names}
    yield {n: BOUNDS[n][1] for n in names}
    for _ in range(number):
        yield {n: int(r.integers(BOUNDS[n][0], BOUNDS[n][1] + 1)) for n in names}


def check(name, r, folder):
    choose_bounds(r)
    f, inputs, outputs = model_of(MODELS[name], r, folder)
    asked = ['--outputs', ','.join(outputs), *stated(inputs)]
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *asked)
    for sizes in sizes_of(r, inputs, 5):
        feeds = feeds_of(r, inputs, sizes)
        want = expected(f, feeds)
        got = run(folder, f'{folder}/m.htx', feeds, outputs)
        agree(name, f'artefact, {sizes}', outputs, got, want)
        agree(name, f'two threads, {sizes}', outputs,
              run(folder, f'{folder}/m.htx', feeds, outputs, '--threads', '2'), got, 0)
    for side in 'behind', 'before':
        agree(name, f'guard pages {side}, {sizes}', outputs, run(folder, f'{folder}/m.htx', feeds, outputs, '--guard', side), got, 0)
    agree(name, 'run', outputs, run(folder, f'{folder}/m.pb', feeds, outputs, *asked), got, 0)
    net = make_net(folder, asked)
    for sizes in sizes_of(r, inputs, 2):
        feeds = feeds_of(r, inputs, sizes)
        want = expected(f, feeds)
        got = run_net(net, in_order([s for s, _ in inputs.values()], sizes), feeds, want)
        agree(name, f'net, {sizes}', outputs, got, want)
        agree(name, f'net in less memory, {sizes}', outputs, run_in_arena(net, in_order([s for s, _ in inputs.values()], sizes), feeds, want), got, 0)
    if not net_refuses(net, *(1000 for _ in sizes)):
        sys.exit(f'{name}: a net took sizes of 1000')
    for policy, tolerance in {'force_fp16': 3e-2, 'allow_mix_precision_bf16': 1e-1, 'optimal': 1e-1}.items():
        got = run(folder, f'{folder}/m.pb', feeds, outputs, *asked, '--policy', policy)
        floats = [i for i, w in enumerate(want) if w.dtype.kind == 'f']
        agree(name, policy, [outputs[i] for i in floats], [got[i] for i in floats], [want[i] for i in floats], tolerance)


# ---- several sizes in one context, one after the other ----

def no_numbers(r, inputs):
    largest = feeds_of(r, inputs, {n: most for n, (_, most) in BOUNDS.items()})
    return {n: np.full_like(x, np.nan) if x.dtype.kind == 'f' else x for n, x in largest.items()}


def memory_of(program, feeds):
    return program.memory(shapes={n: x.shape for n, x in feeds.items()})


def check_in_turn(name, r, folder):
    import halftone as ht
    choose_bounds(r)
    f, inputs, outputs = model_of(MODELS[name], r, folder)
    m = ht.load(f'{folder}/m.pb', outputs=outputs,
                shapes={n: tuple(s if isinstance(s, int) else stated_size(s) for s in shape)
                        for n, (shape, _) in inputs.items()})
    policies = {'must_keep_origin_dtype': TOLERANCE, 'allow_mix_precision_bf16': 1e-1}
    for policy, tolerance in list(policies.items())[:1 if name in CHOOSING else 2]:
        program = m.compile(policy)
        contexts = [program.context(threads=n) for n in (1, 2)]
        if memory_of(program, no_numbers(r, inputs)) != program.memory():
            sys.exit(f'{name}: less memory at the largest sizes')
        for sizes in sizes_of(r, inputs, 6):
            feeds = feeds_of(r, inputs, sizes)
            want = expected(f, feeds)
            if not 0 < memory_of(program, feeds) <= program.memory() < program.memory(2):
                sys.exit(f'{name}: {memory_of(program, feeds)} bytes of {program.memory()}')
            kept = [i for i, w in enumerate(want) if policy == 'must_keep_origin_dtype' or w.dtype.kind == 'f']
            for c in contexts:
                c.run(**no_numbers(r, inputs))
                got = list(c.run(**feeds).values())
                agree(name, f'{policy}, {sizes}', [outputs[i] for i in kept],
                      [np.asarray(got[i], want[i].dtype) for i in kept], [want[i] for i in kept], tolerance)


# ---- refused models ----

def refused(name, f, *why, shape=(1, None, 4), asked='x:1,1..8,4', feeds=None, code=4):
    with tempfile.TemporaryDirectory() as folder:
        shapes = shape if isinstance(shape, list) else [shape]
        names = ['x', 'y'][:len(shapes)]
        freeze(f, [tf.TensorSpec(s, F32, name=n) for n, s in zip(names, shapes)], f'{folder}/m.pb')
        more = []
        if feeds:
            np.savez(f'{folder}/x.npz', **feeds)
            more = [o for n in feeds for o in ('--input', f'{n}=@{folder}/x.npz#{n}')]
        said = tool('run', f'{folder}/m.pb', '--input-shape', asked, *more, code=code)
        for w in why:
            if w not in said:
                sys.exit(f'{name}: {said!r} does not say {w!r}')


def zeros(*shape):
    return np.zeros(shape, 'f4')


def check_refusals():
    refused('a size that is fixed', lambda x: x + tf.ones([1, 5, 4]), 'add', 'out of range', feeds={'x': zeros(1, 2, 4)}, code=3)
    refused('an element that is not there', lambda x: x[:, 2], 'out of range', feeds={'x': zeros(1, 2, 4)}, code=3)
    refused('a reshape that divides it', lambda x: tf.reshape(x, [1, 3, -1]), 'Reshape', 'out of range', feeds={'x': zeros(1, 2, 4)}, code=3)
    refused('a table that is too short', lambda x: x + tf.ones([6, 4])[:tf.shape(x)[1]], 'add', 'out of range', feeds={'x': zeros(1, 7, 4)}, code=3)
    refused('sizes that meet', lambda x, y: x + tf.transpose(y, [1, 0, 2]), 'add', 'out of range', shape=[(1, None, 4), (None, 1, 4)],
            asked='x:1,1..8,4;y:1..8,1,4', feeds={'x': zeros(1, 2, 4), 'y': zeros(3, 1, 4)}, code=3)
    refused('sizes that differ', lambda x, y: x + y, 'dimension 1', '3 was given', shape=[(1, None, 4)] * 2,
            asked='x:1,1..8,4;y:1,1..8,4', feeds={'x': zeros(1, 2, 4), 'y': zeros(1, 3, 4)}, code=3)
    refused('a size above the range', lambda x: x + 1, '1 to 8', '9 was given', feeds={'x': zeros(1, 9, 4)}, code=3)
    refused('a size below the range', lambda x: x + 1, '2 to 8', '1 was given', asked='x:1,2..8,4',
            feeds={'x': zeros(1, 1, 4)}, code=3)
    refused('features of an image in a row', lambda x: tf.reshape(x, [1, 2 * 4 * 5]), 'Reshape', 'out of range', shape=(1, None, 4, 5),
            asked='x:1,1..8,4,5', feeds={'x': zeros(1, 3, 4, 5)}, code=3)
    refused('a window that is too large', lambda x: tf.nn.max_pool2d(x, 3, 1, 'VALID'), 'open dimension 1 is at least 3', '3 to 8', '2 was given',
            shape=(1, None, 4, 5), asked='x:1,1..8,4,5', feeds={'x': zeros(1, 2, 4, 5)}, code=3)
    refused('an index far behind joined axes', lambda x: tf.gather(tf.reshape(x, [-1, 4]), tf.shape(x)[:1] * 8388608), 'GatherV2', 'out of range',
            shape=(None, None, 4), asked='x:1..8,1..512,4', feeds={'x': zeros(1, 1, 4)}, code=3)
    refused('a mirrored edge longer than the image', lambda x: tf.pad(x, [[0, 0], [2, 0], [0, 0]], 'REFLECT'), 'MirrorPad', 'out of range',
            feeds={'x': zeros(1, 2, 4)}, code=3)
    refused('numbers below both of two sizes', lambda x, y: tf.math.top_k(tf.gather(y[0], tf.where(tf.range(tf.shape(y)[1]) < tf.shape(x)[0])[:, 0]), 4)[0],
            'out of range', shape=[(None,), (1, None)], asked='x:10..20;y:1,1..40', feeds={'x': zeros(12), 'y': zeros(1, 3)}, code=3)
    refused('a size of the graph that nodes need', lambda x: x + tf.ones([4]), 'add', 'out of range', asked='x:1,1..8,?', feeds={'x': zeros(1, 2, 3)}, code=3)


def check_fields():
    """The report on a program with open sizes."""
    with tempfile.TemporaryDirectory() as folder:
        freeze(lambda x: x + 1, [tf.TensorSpec([None, None], F32, name='x')], f'{folder}/m.pb')
        for args, *wants in (
                (('compile', '--emit', 'plan', '-o', '-'), 'size rows: 0 to 64', 'size dim1: 2 to 9',
                 'x: float32[rows,dim1]', '[sizes]'),
                (('bench', '--batch', '5', '--duration', '0', '--runs', '1'), '[5,9]', 'latency'),
                (('run',), '[1,9]'),
                (('explain',), '')):
            said = tool(args[0], f'{folder}/m.pb', *args[1:], '--input-shape', 'x:?,2..9')
            for w in wants:
                if w not in said:
                    sys.exit(f'{args[0]}: {said!r} does not say {w!r}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--in-turn', action='store_true')
    p.add_argument('name', nargs='*', help=', '.join(MODELS))
    a = p.parse_args()
    print(f'seed {a.seed}')
    for name in a.name or environment.share_of_forms(MODELS, a.seed, a.in_turn, 3):
        with tempfile.TemporaryDirectory() as folder:
            (check_in_turn if a.in_turn else check)(name, np.random.default_rng([a.seed, list(MODELS).index(name)]), folder)
    if not a.name and not a.in_turn:
        check_refusals()
        check_fields()
    print('ok')


main()
