"""Random typed graphs of many ops, whose values stay moderate so that rounding errors stay small."""
import numpy as np

DIMS = [1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33]
MAX_ELEMENTS = 20000


class Builder:
    """A graph under construction: every value is a float32 tensor of known shape with values near 1."""

    def __init__(self, tf, r):
        self.tf, self.raw, self.r = tf, tf.raw_ops, r
        self.values, self.known, self.used, self.feeds = [], set(), set(), {}

    def pick(self, choices):
        return choices[int(self.r.integers(len(choices)))]

    def chance(self, p):
        return self.r.random() < p

    def shape(self, rank=None):
        rank = int(self.r.integers(1, 5)) if rank is None else rank
        while True:
            s = [self.pick(DIMS) for _ in range(rank)]
            if np.prod(s) <= MAX_ELEMENTS:
                return s

    def normal(self, shape, scale=1.):
        return (self.r.normal(0, 1, shape) * scale).astype(np.float32)

    def constant(self, array, dtype=None):
        return self.tf.constant(np.asarray(array), dtype=dtype)

    def weight(self, shape, fan_in=1):
        """A constant, or sometimes an input."""
        a = self.normal(shape, fan_in ** -.5)
        if self.chance(.7):
            return self.constant(a)
        return self.feed(a)

    def feed(self, array):
        x = self.raw.Placeholder(dtype=self.tf.float32, shape=array.shape)
        self.feeds[x.name.removesuffix(':0')] = array
        return x

    def source(self, shape=None):
        return self.feed(self.normal(self.shape() if shape is None else shape))

    def value(self, rank=None):
        """An existing value, mostly a recent one; of this rank if one is given."""
        fitting = [v for v in self.values if rank is None or len(v.shape) == rank]
        if not fitting:
            return self.source(self.shape(rank))
        i = len(fitting) - 1 - min(int(self.r.exponential(2)), len(fitting) - 1)
        self.used.add(fitting[i].ref())
        return fitting[i]

    def add(self, v):
        assert v.dtype == self.tf.float32 and v.shape.is_fully_defined(), v
        if v.shape.rank and v.shape.num_elements() <= MAX_ELEMENTS and v.ref() not in self.known:
            self.known.add(v.ref())
            self.values.append(v)

    def axis(self, x):
        n = len(x.shape)
        return int(self.r.integers(-n, n))

    def axes(self, x):
        n = len(x.shape)
        k = int(self.r.integers(1, n + 1))
        return sorted(int(a) for a in self.r.choice(n, k, replace=False))


# ---- ops that a step may add; None: no value fitted ----

def unary(b):
    x, raw = b.value(), b.raw
    return b.pick([
        lambda: raw.Relu(features=x), lambda: raw.Relu6(features=x), lambda: raw.Tanh(x=x),
        lambda: raw.Sigmoid(x=x), lambda: raw.Abs(x=x), lambda: raw.Neg(x=x),
        lambda: raw.Square(x=raw.Tanh(x=x)), lambda: raw.Softplus(features=x),
        lambda: raw.Elu(features=x), lambda: raw.Selu(features=x), lambda: raw.Erf(x=x),
        lambda: raw.Exp(x=raw.Tanh(x=x)), lambda: raw.Sin(x=x), lambda: raw.Cos(x=x),
        lambda: raw.Sqrt(x=raw.Abs(x=x)), lambda: raw.LeakyRelu(features=x, alpha=.1),
        lambda: raw.Rsqrt(x=b.above_one(x)), lambda: raw.Log(x=b.above_one(x)),
        lambda: raw.Reciprocal(x=b.above_one(x)), lambda: raw.Softsign(features=x),
        lambda: raw.Identity(input=x), lambda: raw.StopGradient(input=x)])()


def above_one(b, x):
    return b.raw.AddV2(x=b.raw.Abs(x=x), y=b.constant(np.float32(1)))


Builder.above_one = above_one


def partner(b, x):
    """An operand that broadcasts with x."""
    same = [v for v in b.values if v.shape == x.shape]
    if same and b.chance(.5):
        return b.pick(same)
    shape = [1 if b.chance(.3) else d for d in x.shape]
    return b.weight(shape[int(b.r.integers(len(shape) + 1)):])


def binary(b):
    x, raw = b.value(), b.raw
    y = partner(b, x)
    if b.chance(.3):
        x, y = y, x
    op = b.pick([raw.AddV2, raw.Add, raw.Sub, raw.Mul, raw.Maximum, raw.Minimum, raw.SquaredDifference,
                 'div', 'addn'])
    if op == 'div':
        return raw.RealDiv(x=x, y=above_one(b, y))
    if op == 'addn':
        return raw.AddN(inputs=[x, x]) if x.shape != y.shape else raw.AddN(inputs=[x, y, x])
    return bounded(b, op(x=x, y=y))


def bounded(b, x):
    """Keeps values near 1 in magnitude, since products and squares grow."""
    return b.raw.Tanh(x=x) if b.chance(.3) else b.raw.Mul(x=x, y=b.constant(np.float32(.5)))


def select(b):
    x = b.value()
    y, raw = partner(b, x), b.raw
    cond = b.pick([raw.Greater, raw.Less, raw.GreaterEqual, raw.NotEqual])(x=x, y=y)
    if b.chance(.3):
        return raw.Cast(x=cond, DstT=b.tf.float32)
    if b.chance(.3):
        cond = raw.LogicalNot(x=cond)
    return raw.SelectV2(condition=cond, t=x, e=y)


def reduction(b):
    x, raw = b.value(), b.raw
    op = b.pick([raw.Mean, raw.Mean, raw.Max, raw.Min, 'sum'])
    axes, keep = b.constant(b.axes(x), b.tf.int32), bool(b.chance(.5))
    if op != 'sum':
        return op(input=x, axis=axes, keep_dims=keep)
    s = raw.Sum(input=x, axis=axes, keep_dims=keep)
    return raw.Mul(x=s, y=b.constant(np.float32(s.shape.num_elements() / x.shape.num_elements())))


def normalised(b):
    x, raw = b.value(), b.raw
    kind = b.pick(['softmax', 'log_softmax', 'layer_norm', 'l2'])
    if kind == 'softmax':
        return raw.Softmax(logits=x)
    if kind == 'log_softmax':
        return raw.Mul(x=raw.LogSoftmax(logits=x), y=b.constant(np.float32(.3)))
    last = b.constant([-1], b.tf.int32)
    if kind == 'l2':
        s = raw.Sum(input=raw.Square(x=x), axis=last, keep_dims=True)
        return raw.Mul(x=x, y=raw.Rsqrt(x=above_one(b, s)))
    mean = raw.Mean(input=x, axis=last, keep_dims=True)
    variance = raw.Mean(input=raw.SquaredDifference(x=x, y=mean), axis=last, keep_dims=True)
    scale = raw.Rsqrt(x=raw.AddV2(x=variance, y=b.constant(np.float32(.1))))
    y = raw.Mul(x=raw.Sub(x=x, y=mean), y=scale)
    width = x.shape[-1]
    return raw.AddV2(x=raw.Mul(x=y, y=b.weight([width])), y=b.weight([width]))


def factors(b, n):
    """A random shape of n elements."""
    shape = []
    while n > 1 and len(shape) < 3:
        divisors = [d for d in range(1, min(n, 64) + 1) if n % d == 0]
        shape.append(b.pick(divisors))
        n //= shape[-1]
    return shape + [n]


def moved(b):
    x, raw, tf = b.value(), b.raw, b.tf
    n, dims = len(x.shape), [int(d) for d in x.shape]
    kind = b.pick(['reshape', 'transpose', 'expand', 'squeeze', 'slice', 'strided', 'pad', 'mirror', 'tile',
                   'concat', 'split', 'pack', 'unpack', 'gather', 'reverse', 'broadcast', 'cumsum'])
    if kind == 'reshape':
        return raw.Reshape(tensor=x, shape=b.constant(factors(b, x.shape.num_elements()), tf.int32))
    if kind == 'transpose':
        return raw.Transpose(x=x, perm=b.constant(b.r.permutation(n), tf.int32))
    if kind == 'expand' and n < 5:
        return raw.ExpandDims(input=x, axis=b.constant(int(b.r.integers(-n - 1, n + 1)), tf.int32))
    if kind == 'squeeze' and n > 1:
        return raw.Squeeze(input=x, axis=[])
    if kind == 'slice':
        begin = [int(b.r.integers(d)) for d in dims]
        size = [-1 if b.chance(.3) else int(b.r.integers(1, d - s + 1)) for s, d in zip(begin, dims)]
        return raw.Slice(input=x, begin=b.constant(begin, tf.int32), size=b.constant(size, tf.int32))
    if kind == 'strided':
        return strided(b, x)
    if kind == 'pad':
        p = b.r.integers(0, 3, [n, 2])
        return b.pick([lambda: raw.Pad(input=x, paddings=b.constant(p, tf.int32)),
                       lambda: raw.PadV2(input=x, paddings=b.constant(p, tf.int32),
                                         constant_values=b.constant(np.float32(.25)))])()
    if kind == 'mirror':
        p = [[int(b.r.integers(min(d, 3))), int(b.r.integers(min(d, 3)))] for d in dims]
        return raw.MirrorPad(input=x, paddings=b.constant(p, tf.int32), mode=b.pick(['REFLECT', 'SYMMETRIC']))
    if kind == 'tile':
        return raw.Tile(input=x, multiples=b.constant(b.r.integers(1, 3, n), tf.int32))
    if kind == 'concat':
        a = b.axis(x)
        others = [b.weight([int(b.r.integers(1, 9)) if i == a % n else d for i, d in enumerate(dims)])
                  for _ in range(int(b.r.integers(1, 3)))]
        parts = [x] + others
        return raw.ConcatV2(values=[parts[i] for i in b.r.permutation(len(parts))],
                            axis=b.constant(a, tf.int32))
    if kind == 'split':
        a = b.axis(x)
        d = dims[a]
        k = b.pick([k for k in range(1, d + 1) if d % k == 0 and k < 7])
        parts = raw.Split(axis=b.constant(a, tf.int32), value=x, num_split=k)
        for p in parts[1:]:
            b.add(p)
        return parts[0]
    if kind == 'pack' and n < 4:
        return raw.Pack(values=[x, b.weight(dims), x], axis=int(b.r.integers(-n - 1, n + 1)))
    if kind == 'unpack' and n > 1:
        a = b.axis(x)
        parts = raw.Unpack(value=x, num=dims[a], axis=a)
        b.add(parts[-1])
        return b.pick(parts)
    if kind == 'gather':
        a = int(b.r.integers(n))
        index = b.r.integers(0, dims[a], b.shape(int(b.r.integers(0, 2))))
        return raw.GatherV2(params=x, indices=b.constant(index, tf.int32), axis=b.constant(a, tf.int32))
    if kind == 'reverse':
        return raw.ReverseV2(tensor=x, axis=b.constant(b.axes(x), tf.int32))
    if kind == 'broadcast' and n < 4:
        return raw.BroadcastTo(input=x, shape=b.constant([2] + dims, tf.int32))
    if kind == 'cumsum':
        a = b.axis(x)
        s = raw.Cumsum(x=x, axis=b.constant(a, tf.int32), exclusive=bool(b.chance(.5)),
                       reverse=bool(b.chance(.5)))
        return raw.Mul(x=s, y=b.constant(np.float32(dims[a] ** -.5)))
    return None


def strided(b, x):
    index = []
    for d in (int(d) for d in x.shape):
        kind = b.pick(['all', 'range', 'back', 'one', 'new'])
        lo = int(b.r.integers(d))
        step = int(b.r.integers(1, 4))
        index += {'all': [slice(None)], 'range': [slice(lo, None, step)], 'back': [slice(lo, None, -step)],
                  'one': [lo - d if b.chance(.5) else lo], 'new': [b.tf.newaxis, slice(None)]}[kind]
    y = x[tuple(index)]
    return y if 0 < len(y.shape) <= 5 else None


def product(b):
    raw = b.raw
    if b.chance(.4):
        x = b.value(2)
        m, k = (int(d) for d in x.shape)
        ta, tb, n = bool(b.chance(.3)), bool(b.chance(.5)), b.pick(DIMS + [64])
        k = m if ta else k
        y = raw.MatMul(a=x, b=b.weight([n, k] if tb else [k, n], k), transpose_a=ta, transpose_b=tb)
        if b.chance(.6):
            y = raw.BiasAdd(value=y, bias=b.weight([n]))
        return y
    x = b.value(b.pick([3, 4]))
    dims = [int(d) for d in x.shape]
    ax, ay = bool(b.chance(.3)), bool(b.chance(.5))
    k, n = dims[-2] if ax else dims[-1], b.pick(DIMS)
    batch = [1 if b.chance(.2) else d for d in dims[:-2]]
    batch = batch[int(b.r.integers(len(batch) + 1)):]
    y = b.weight(batch + ([n, k] if ay else [k, n]), k)
    return raw.BatchMatMulV2(x=x, y=y, adj_x=ax, adj_y=ay)


def window(b):
    raw = b.raw
    x = b.value(4)
    n, h, w, c = (int(d) for d in x.shape)
    kh, kw = b.pick([1, 1, 2, 3, 3, 5]), b.pick([1, 1, 2, 3, 3, 5])
    stride = b.pick([1, 1, 2, 3])
    strides = [1, stride, b.pick([stride, 1]), 1]
    padding = b.pick(['SAME', 'VALID'])
    if padding == 'VALID' and (kh > h or kw > w):
        padding = 'SAME'
    kind = b.pick(['conv', 'conv', 'conv', 'depthwise', 'max', 'avg', 'batch_norm', 'resize', 'depth', 'back'])
    if kind == 'conv':
        groups = b.pick([g for g in range(1, 5) if c % g == 0])
        f = groups * b.pick([1, 2, 4, 8, 17])
        dilation = b.pick([1, 1, 1, 2]) if strides == [1, 1, 1, 1] else 1
        if padding == 'VALID' and ((kh - 1) * dilation >= h or (kw - 1) * dilation >= w):
            padding = 'SAME'
        y = raw.Conv2D(input=x, filter=b.weight([kh, kw, c // groups, f], kh * kw * c // groups),
                       strides=strides, padding=padding, dilations=[1, dilation, dilation, 1])
        return followed(b, y, f)
    if kind == 'depthwise':
        m = b.pick([1, 1, 2])
        strides = [1, stride, stride, 1]
        y = raw.DepthwiseConv2dNative(input=x, filter=b.weight([kh, kw, c, m], kh * kw), strides=strides,
                                      padding=padding)
        return followed(b, y, c * m)
    if kind in ('max', 'avg'):
        pool = {'ksize': [1, kh, kw, 1], 'strides': strides, 'padding': padding}
        return raw.MaxPool(input=x, **pool) if kind == 'max' else raw.AvgPool(value=x, **pool)
    if kind == 'batch_norm':
        return raw.FusedBatchNormV3(x=x, scale=b.weight([c]), offset=b.weight([c]), mean=b.weight([c]),
                                    variance=b.constant(np.abs(b.normal([c])) + .5), epsilon=1e-3,
                                    is_training=False)[0]
    if kind == 'resize':
        size = b.constant([int(b.r.integers(1, 9)), int(b.r.integers(1, 9))], b.tf.int32)
        how = b.pick([{}, {'half_pixel_centers': True}, {'align_corners': True}])
        op = b.pick([raw.ResizeBilinear, raw.ResizeNearestNeighbor])
        return op(images=x, size=size, **how)
    if kind == 'depth':
        if h % 2 == 0 and w % 2 == 0:
            return raw.SpaceToDepth(input=x, block_size=2)
        return raw.DepthToSpace(input=x, block_size=2) if c % 4 == 0 else None
    f = b.pick([1, 2, 5, 8])
    out = [n, h * stride, w * stride, f]
    if np.prod(out) > MAX_ELEMENTS:
        return None
    return raw.Conv2DBackpropInput(input_sizes=b.constant(out, b.tf.int32),
                                   filter=b.constant(b.normal([kh, kw, f, c], (kh * kw * c) ** -.5)),
                                   out_backprop=x, strides=[1, stride, stride, 1], padding='SAME')


def followed(b, y, channels):
    """The ops that mostly follow a convolution."""
    raw = b.raw
    if b.chance(.5):
        y = raw.BiasAdd(value=y, bias=b.weight([channels]))
    if b.chance(.3):
        y = raw.Mul(x=y, y=b.weight([channels]))
    if b.chance(.3):
        same = [v for v in b.values if v.shape == y.shape]
        if same:
            y = raw.AddV2(x=y, y=b.pick(same))
    if b.chance(.5):
        y = b.pick([lambda: raw.Relu(features=y), lambda: raw.Relu6(features=y),
                    lambda: raw.Mul(x=y, y=raw.Sigmoid(x=y))])()
    return y


STEPS = [unary, unary, binary, binary, binary, select, reduction, normalised, moved, moved, moved, product, window]


def graph(tf, r, steps):
    """(GraphDef, feeds, names of outputs): the outputs are the values that nothing reads, and a few others."""
    g = tf.Graph()
    with g.as_default():
        b = Builder(tf, r)
        b.add(b.source())
        b.add(b.source(b.shape(4)))
        for _ in range(steps):
            v = b.pick(STEPS)(b)
            if v is not None:
                b.add(v)
        fetched = [v for v in b.values if v.ref() not in b.used or b.chance(.1)]
        fetched = [v for v in fetched if v.op.type != 'Placeholder']
    return g.as_graph_def(), b.feeds, [v.name.removesuffix(':0') for v in fetched]
