"""What the random graphs of control_graphs.py are made of: values, and what every form does with them."""
import collections

import numpy as np
import tensorflow as tf

F32, F16, I32, I64, U8, BOOL = tf.float32, tf.float16, tf.int32, tf.int64, tf.uint8, tf.bool
raw = tf.raw_ops

# dims: numbers; names of open sizes of inputs ('n', 'k'); names of sizes that data decide ('d1', ...).
Value = collections.namedtuple('Value', 't dims exact')


def is_computed(dim):
    return str(dim).startswith('d')


def graphed(f):
    """The function with Python's loops and branches over tensors turned into TensorFlow's."""
    return tf.autograph.to_graph(f, recursive=False)


class Values:
    """Draws values and numbers, and makes values fit each other."""

    def __init__(self, r, kinds):
        self.r, self.kinds = r, kinds
        self.made = collections.Counter()
        self.computed = 0
        self.exact_inputs = []
        self.differentiates = False

    # ---- draws ----

    def chance(self, share):
        return self.r.random() < share

    def one(self, some):
        some = list(some)
        return some[int(self.r.integers(len(some)))] if some else None

    def number(self, low, high):
        return float(np.round(self.r.uniform(low, high), 3))

    def weights(self, *shape):
        return tf.constant((self.r.standard_normal(shape) * .4).astype('f4'))

    def value(self, scope, *types, rank=0, most=9, where=None):
        """The later a value was made, the likelier it is."""
        fits = [v for v in scope if (not types or v.t.dtype in types) and rank <= len(v.dims) <= most and (not where or where(v))]
        return fits[-1 - min(int(self.r.exponential(2.5)), len(fits) - 1)] if fits else None

    def fresh(self):
        self.computed += 1
        return f'd{self.computed}'

    # ---- sizes ----

    def extent(self, scope, dim):
        """A dimension as a scalar; None if no value of the scope tells it."""
        if isinstance(dim, int):
            return tf.constant(dim)
        of = self.value(scope, where=lambda v: dim in v.dims)
        return of and tf.shape(of.t)[of.dims.index(dim)]

    def shape_of(self, v):
        return tf.shape(v.t)

    # ---- combining ----

    def squash(self, t):
        return tf.tanh(t * self.number(.2, .6)) if t.dtype == F32 else tf.math.floormod(t, int(self.r.integers(3, 12)))

    def reduced(self, v, axes, keep=False):
        if not axes:
            return v.t
        if v.t.dtype == BOOL:
            return self.one([tf.reduce_any, tf.reduce_all])(v.t, axes, keep)
        if v.t.dtype != F32:
            return tf.math.floormod(tf.reduce_sum(v.t, axes, keep), 13)
        # Elements that are equal but for a rounding share the gradient of their extreme, or one of them has it.
        how = self.one(['sum', 'mean'] if self.differentiates else ['sum', 'mean', 'max', 'min'])
        if any(str(v.dims[a]).startswith('d') for a in axes):
            how = 'sum'  # of nothing there is no mean
        if how == 'sum':
            return tf.tanh(tf.reduce_sum(v.t, axes, keep) * .3)
        return getattr(tf, f'reduce_{how}')(v.t, axes, keep)

    def fitted(self, v, dims):
        """The value, reduced to what broadcasts to `dims`."""
        lead = len(v.dims) - len(dims)
        drop = [i for i in range(max(lead, 0))]
        t = self.reduced(v, drop)
        own = v.dims[max(lead, 0):]
        odd = [i for i, d in enumerate(own) if d not in (1, dims[len(dims) - len(own) + i])]
        return self.reduced(Value(t, own, v.exact), odd, True)

    def blended(self, old, scope):
        """A value like `old`, of it and of something in the scope."""
        new = self.value(scope, old.t.dtype)
        u = self.fitted(new, old.dims) if new else old.t
        if old.t.dtype == BOOL:
            return tf.not_equal(old.t, u)
        if old.t.dtype != F32:
            return tf.math.floormod(old.t * 3 + u + 1, int(self.r.integers(5, 30)))
        how = self.r.integers(4)
        if how == 0:
            return old.t * .5 + tf.tanh(u) * .5
        if how == 1:
            return tf.maximum(old.t * self.number(.3, .9), u)
        if how == 2:
            return tf.where(self.predicate(scope), tf.tanh(old.t + u), u * .7 - old.t * .2)
        return tf.tanh(old.t * self.number(-.9, .9) + u)

    def predicate(self, scope):
        """A scalar that every correct implementation agrees on."""
        v = self.value(scope, BOOL, I32, where=lambda v: not v.dims or self.chance(.3))
        if v is None or self.chance(.2):
            v = self.value(scope, F32, where=lambda v: v.exact)
            if v is None:
                v = self.value(scope, I32, BOOL) or self.one(self.exact_inputs)
        if v.t.dtype == F32:
            return tf.reduce_max(v.t) > self.number(.1, 1.2)
        if v.t.dtype == BOOL:
            return self.one([tf.reduce_any, tf.reduce_all])(v.t)
        return tf.equal(tf.math.floormod(tf.reduce_sum(v.t), 2), 0)

    def count(self, scope):
        """A number of iterations, 0 to 4 or a size."""
        dim = self.one(['number', 'number', 'size', 'data'])
        if dim == 'size':
            of = self.value(scope, where=lambda v: any(isinstance(d, str) for d in v.dims))
            if of:
                return tf.shape(of.t)[self.one([i for i, d in enumerate(of.dims) if isinstance(d, str)])]
        if dim == 'data':
            of = self.value(scope, I32)
            if of:
                return tf.math.floormod(tf.reduce_sum(of.t), 4)
        return tf.constant(int(self.r.integers(0, 5)))
