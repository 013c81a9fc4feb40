"""Forms of statements that models have now and then; a random graph (control_graphs.py) has a few of them, so that one that is
refused does not keep all others from being compared."""
import tensorflow as tf

from control_values import BOOL, F16, F32, I32, I64, U8, Value, Values, graphed, is_computed

FEW = ('narrowed', 'integers', 'shape_math', 'merged', 'attention', 'batched', 'backward', 'sequences', 'outer', 'top_one', 'ordered',
       'long_extreme', 'at_places', 'row_gather', 'scattered', 'added_at', 'segments', 'lengths', 'band', 'rolled', 'normed', 'over_all', 'convolved',
       'pooled', 'tiled', 'repeated', 'unpacked', 'embedded', 'grid', 'halves', 'opened', 'one_more', 'mixed', 'counted_true', 'running_product', 'cut')
MORE_CONTROL = ('read_back', 'branch_list', 'written_some', 'shrinking', 'halves_loop', 'greedy', 'gradient', 'gradient_loop', 'scattered_array',
                'zero_loop', 'masked_loop', 'nested_lists', 'unequal', 'swapped', 'parts_loop')
MORE_COMPUTED = ('backward_part', 'repeat_by', 'counted', 'without', 'sorted_segments', 'mask_all', 'found', 'put_back', 'stitched', 'split_by',
                 'tiled_by', 'hot_by', 'nothing', 'strided', 'pooled_parts', 'size_range')


def open_or_fixed(v):
    return not any(is_computed(d) for d in v.dims)


class Forms(Values):
    # ---- elementwise, of several dtypes ----

    def narrowed(self, scope, depth):
        v = self.value(scope, I32, I64, U8, BOOL)
        return v and Value(tf.cast(v.t if v.t.dtype == BOOL else tf.math.floormod(v.t, 9), self.one([I32, I64, U8])), v.dims, True)

    def integers(self, scope, depth):
        """Quotients and remainders, of negative numbers as well."""
        v = self.value(scope, I32, I64)
        if v is None:
            return None
        w = self.fitted(self.value(scope, v.t.dtype), v.dims)
        divisor = (tf.math.floormod(w, 3) + 1) * self.one([1, -1])
        f = self.one([tf.math.floordiv, tf.math.floormod, tf.truncatediv, tf.truncatemod])
        return Value(self.squash(f(v.t - 3, divisor) + 2), v.dims, True)

    def shape_math(self, scope, depth):
        """A number computed of sizes, or all sizes of a tensor."""
        v, w = self.value(scope, rank=1), self.value(scope, rank=1)
        a, b = tf.shape(v.t)[0], tf.shape(w.t)[-1]
        how = self.r.integers(4)
        if how == 0:
            return Value(tf.reduce_prod(tf.shape(v.t)), (), True)
        if how == 1:
            return Value(a * 3 // 2 + tf.math.floormod(b, 3), (), True)
        if how == 2:
            return Value(tf.shape(v.t, out_type=I64), (len(v.dims),), True)
        return Value(tf.cast(tf.math.ceil(tf.cast(a + b, F32) / 2), I32), (), True)

    def halves(self, scope, depth):
        v, w = self.value(scope, F32, where=lambda v: v.exact), self.value(scope, F32, where=lambda v: v.exact)
        if v is None:
            return None
        t = self.one([F16, tf.bfloat16])
        return Value(tf.cast(tf.maximum(tf.cast(v.t, t) * .5, tf.cast(self.fitted_exact(w, v.dims), t)), F32), v.dims, False)

    def fitted_exact(self, v, dims):
        """As fitted(), by extremes alone."""
        lead = max(len(v.dims) - len(dims), 0)
        own = v.dims[lead:]
        odd = [lead + i for i, d in enumerate(own) if d not in (1, dims[len(dims) - len(own) + i])]
        if any(is_computed(v.dims[a]) for a in [*range(lead), *odd]):
            return tf.zeros([], v.t.dtype)
        t = tf.reduce_max(v.t, odd, True) if odd else v.t
        return tf.reduce_min(t, list(range(lead))) if lead else t

    def mixed(self, scope, depth):
        """Conditions of integers of any dtype."""
        v = self.value(scope, I32, I64, U8)
        w = v and self.fitted(self.value(scope, v.t.dtype), v.dims)
        return v and Value(tf.math.logical_xor(tf.greater_equal(v.t, w), tf.equal(tf.math.floormod(v.t, 3), 1)), v.dims, True)

    # ---- moving elements ----

    def merged(self, scope, depth):
        """Two neighbouring axes become one."""
        v = self.value(scope, F32, I32, rank=2)
        if v is None:
            return None
        at = int(self.r.integers(len(v.dims) - 1))
        a, b = v.dims[at:at + 2]
        shape = tf.concat([tf.shape(v.t)[:at], [-1], tf.shape(v.t)[at + 2:]], 0) if all(not is_computed(d) for d in v.dims) else \
            tf.concat([tf.shape(v.t)[:at], [tf.shape(v.t)[at] * tf.shape(v.t)[at + 1]], tf.shape(v.t)[at + 2:]], 0)
        dim = a * b if isinstance(a, int) and isinstance(b, int) else b if a == 1 else a if b == 1 else self.fresh()
        return Value(tf.reshape(v.t, shape), (*v.dims[:at], dim, *v.dims[at + 2:]), v.exact)

    def backward(self, scope, depth):
        v = self.value(scope, F32, I32, I64, rank=1)
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        cut, dim = slice(None, None, -1), v.dims[axis]
        if isinstance(dim, int):
            cut = self.one([cut, slice(None, None, -2), slice(2, None, -1), slice(-1, None, -3)])
            dim = len(range(dim)[cut])
        return Value(v.t[(slice(None),) * axis + (cut,)], (*v.dims[:axis], dim, *v.dims[axis + 1:]), v.exact)

    def sequences(self, scope, depth):
        """ReverseSequence, with lengths that data decide."""
        v = self.value(scope, F32, I32, rank=2)
        if v is None:
            return None
        batch, seq = self.r.permutation(len(v.dims))[:2].tolist()
        n = self.value(scope, I32, rank=1, most=1, where=lambda w: w.dims[0] == v.dims[batch])
        if n is None:
            return None
        lengths = tf.math.floormod(n.t, tf.shape(v.t)[seq] + 1)
        return Value(tf.reverse_sequence(v.t, tf.cast(lengths, self.one([I32, I64])), seq, batch), v.dims, v.exact)

    def outer(self, scope, depth):
        """Open axes against 1, on both sides."""
        v, w = self.value(scope, F32, most=2), self.value(scope, F32, most=1)
        if v is None or w is None:
            return None
        t = v.t[(..., *[tf.newaxis] * len(w.dims))]
        return Value(tf.tanh(self.one([tf.add, tf.multiply, tf.maximum])(t, w.t)), (*v.dims, *w.dims), False)

    def opened(self, scope, depth):
        """There and back again by axes of one element."""
        v = self.value(scope, F32, I32, rank=1)
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        t = tf.expand_dims(v.t, axis)
        return Value(tf.squeeze(tf.concat([t, t], axis)[(slice(None),) * axis + (slice(1, 2),)], axis), v.dims, v.exact)

    def rolled(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, where=open_or_fixed)
        if v is None:
            return None
        by = self.small(scope, 3) if self.chance(.3) else int(self.r.integers(-2, 3))
        return None if by is None else Value(tf.roll(v.t, by, int(self.r.integers(len(v.dims)))), v.dims, v.exact)

    def tiled(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, most=3, where=lambda v: any(isinstance(d, int) for d in v.dims))
        if v is None:
            return None
        axis = self.one([i for i, d in enumerate(v.dims) if isinstance(d, int)])
        return Value(tf.tile(v.t, [2 if i == axis else 1 for i in range(len(v.dims))]), (*v.dims[:axis], 2 * v.dims[axis], *v.dims[axis + 1:]), v.exact) \
            if v.dims[axis] < 9 else None

    def repeated(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, most=3)
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        dim = 2 * v.dims[axis] if isinstance(v.dims[axis], int) else self.fresh()
        return Value(tf.repeat(v.t, 2, axis), (*v.dims[:axis], dim, *v.dims[axis + 1:]), v.exact)

    def unpacked(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, where=lambda v: any(isinstance(d, int) for d in v.dims))
        if v is None:
            return None
        axis = self.one([i for i, d in enumerate(v.dims) if isinstance(d, int)])
        others = v.dims[:axis] + v.dims[axis + 1:]
        if v.dims[axis] % 2 == 0 and self.chance(.5):
            return [Value(t, (*v.dims[:axis], v.dims[axis] // 2, *v.dims[axis + 1:]), v.exact) for t in tf.split(v.t, 2, axis)]
        return [Value(t, others, v.exact) for t in tf.unstack(v.t, axis=axis)[:3]]

    def one_more(self, scope, depth):
        """One element around an axis of constant extent, or all axes padded with none."""
        v = self.value(scope, F32, I32, rank=1, most=3, where=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] > 1)
        if v is None:
            return None
        mode = self.one(['CONSTANT', 'REFLECT', 'SYMMETRIC'])
        t = tf.pad(v.t, [[0, 0]] * (len(v.dims) - 1) + [[1, 0]], mode)
        return Value(t, (*v.dims[:-1], v.dims[-1] + 1), v.exact)

    def cut(self, scope, depth):
        """One element that data choose, of an axis that has it."""
        v, at = self.value(scope, F32, I32, rank=1, where=open_or_fixed), self.small(scope, 4)
        if v is None or at is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        at = tf.minimum(at, tf.shape(v.t)[axis] - 1)
        t = v.t[(slice(None),) * axis + (at,)] if self.chance(.5) else \
            tf.squeeze(tf.slice(v.t, [at if i == axis else 0 for i in range(len(v.dims))], [1 if i == axis else -1 for i in range(len(v.dims))]), axis)
        return Value(t, v.dims[:axis] + v.dims[axis + 1:], v.exact)

    # ---- gathers and scatters ----

    def at_places(self, scope, depth):
        v, at = self.value(scope, F32, I32, rank=2, most=3, where=open_or_fixed), self.value(scope, I32, most=1)
        if v is None or at is None:
            return None
        s = tf.shape(v.t)
        return Value(tf.gather_nd(v.t, tf.stack([tf.math.floormod(at.t, s[0]), tf.math.floormod(at.t * 2 + 1, s[1])], -1)), (*at.dims, *v.dims[2:]), v.exact)

    def row_gather(self, scope, depth):
        """Each row has its own index, or several."""
        v = self.value(scope, F32, I32, rank=2, most=3, where=open_or_fixed)
        at = v and self.value(scope, I32, rank=1, most=2, where=lambda w: w.dims[0] == v.dims[0])
        if at is None:
            return None
        return Value(tf.gather(v.t, tf.math.floormod(at.t, tf.shape(v.t)[1]), batch_dims=1), (*at.dims, *v.dims[2:]), v.exact)

    def scattered(self, scope, depth):
        v = self.value(scope, F32, rank=1, most=2)
        at = v and self.value(scope, I32, rank=1, most=1, where=lambda w: w.dims[0] == v.dims[0])
        if at is None:
            return None
        of = self.value(scope, rank=1, where=open_or_fixed)
        axis = int(self.r.integers(len(of.dims))) if of else 0
        n = tf.shape(of.t)[axis] if of else 4
        t = tf.scatter_nd(tf.math.floormod(at.t, n)[:, None], v.t, tf.concat([[n], tf.shape(v.t)[1:]], 0))
        return Value(tf.tanh(t * .5), (of.dims[axis] if of else 4, *v.dims[1:]), False)

    def added_at(self, scope, depth):
        v = self.value(scope, F32, rank=1, most=2, where=open_or_fixed)
        u = v and self.value(scope, F32, rank=len(v.dims), most=len(v.dims), where=lambda w: w.dims[1:] == v.dims[1:])
        at = u and self.value(scope, I32, rank=1, most=1, where=lambda w: w.dims[0] == u.dims[0])
        if at is None:
            return None
        f = self.one([tf.tensor_scatter_nd_add, tf.tensor_scatter_nd_max, tf.tensor_scatter_nd_sub])
        return Value(tf.tanh(f(v.t, tf.math.floormod(at.t, tf.shape(v.t)[0])[:, None], u.t)), v.dims, False)

    def segments(self, scope, depth):
        v = self.value(scope, F32, rank=1, most=3)
        at = v and self.value(scope, I32, rank=1, most=1, where=lambda w: w.dims[0] == v.dims[0])
        if at is None:
            return None
        f = self.one([tf.math.unsorted_segment_sum, tf.math.unsorted_segment_max, tf.math.unsorted_segment_mean, tf.math.unsorted_segment_min])
        return Value(tf.clip_by_value(f(v.t, tf.math.floormod(at.t, 5) - 1, 4), -3, 3), (4, *v.dims[1:]), False)

    def embedded(self, scope, depth):
        v, rows, c = self.value(scope, I32, I64, U8, most=2), int(self.r.integers(1, 12)), int(self.r.integers(1, 6))
        return v and Value(tf.gather(self.weights(rows, c), tf.math.floormod(tf.cast(v.t, I32), rows)), (*v.dims, c), False)

    # ---- rows, heads and steps ----

    def batched(self, scope, depth):
        """Products of matrices with several axes of matrices, some of which have one element."""
        v = self.value(scope, F32, rank=3, most=4)
        if v is None:
            return None
        w = self.value(scope, F32, rank=2, most=4, where=lambda w: w.dims[-2] == v.dims[-1] and len(w.dims) <= len(v.dims)
                       and all(a in (1, b) for a, b in zip(w.dims[:-2][::-1], v.dims[:-2][::-1])))
        if w is not None:
            return Value(tf.tanh(tf.matmul(v.t, w.t) * .3), (*v.dims[:-1], w.dims[-1]), False)
        if self.chance(.5):
            return Value(tf.tanh(tf.einsum('...ij,...ik->...jk', v.t, v.t) * .2), (*v.dims[:-2], v.dims[-1], v.dims[-1]), False)
        return Value(tf.tanh(tf.matmul(v.t, tf.reduce_max(v.t, 0, True) if open_or_fixed(v) else v.t, transpose_b=True) * .2), (*v.dims[:-1], v.dims[-2]), False)

    def attention(self, scope, depth):
        """Heads, a mask by lengths, and as many weights as there are pairs of steps."""
        x = self.value(scope, F32, rank=3, most=3, where=lambda v: isinstance(v.dims[-1], int) and open_or_fixed(v))
        if x is None:
            return None
        s, c = tf.shape(x.t), x.dims[-1]

        def heads():
            y = tf.tensordot(x.t, self.weights(c, 4), 1)
            return tf.transpose(tf.reshape(y, [s[0], s[1], 2, 2] if self.chance(.5) else [-1, s[1], 2, 2]), [0, 2, 1, 3])
        scores = tf.matmul(heads(), heads(), transpose_b=True) * .7
        n = self.value(scope, I32, rank=1, most=1, where=lambda w: w.dims[0] == x.dims[0])
        if n is not None and self.chance(.6):
            keep = tf.sequence_mask(tf.maximum(tf.math.floormod(n.t, s[1] + 1), 1), s[1])
            scores += (1 - tf.cast(keep, F32))[:, None, None, :] * -1e9
        elif self.chance(.5):
            scores = tf.where(tf.linalg.band_part(tf.ones([s[1], s[1]], BOOL), -1, 0), scores, -1e9)
        y = tf.transpose(tf.nn.softmax(scores) @ heads(), [0, 2, 1, 3])
        return Value(tf.tanh(tf.reshape(y, [s[0], s[1], 4])), (*x.dims[:2], 4), False)

    def convolved(self, scope, depth):
        """A convolution over steps; a step of 2 halves them."""
        v = self.value(scope, F32, rank=3, most=3, where=lambda v: isinstance(v.dims[-1], int) and open_or_fixed(v))
        if v is None:
            return None
        taps, f, step = int(self.r.integers(1, 4)), int(self.r.integers(1, 5)), 2 if self.chance(.25) else 1
        w = self.weights(taps, v.dims[-1], f)
        if self.chance(.4):
            t = tf.nn.conv1d(tf.pad(v.t, [[0, 0], [taps - 1, 0], [0, 0]]), w, step, 'VALID')
        else:
            t = tf.nn.conv1d(v.t, w, step, 'SAME')
        dim = v.dims[1] if step == 1 else -(-v.dims[1] // 2) if isinstance(v.dims[1], int) else self.fresh()
        return Value(tf.tanh(t), (v.dims[0], dim, f), False)

    def pooled(self, scope, depth):
        v = self.value(scope, F32, rank=3, most=3, where=open_or_fixed)
        if v is None or not isinstance(v.dims[-1], int):
            return None
        f = self.one([tf.nn.max_pool1d, tf.nn.avg_pool1d])
        return Value(f(v.t, int(self.r.integers(1, 4)), 1, 'SAME'), v.dims, False)

    def normed(self, scope, depth):
        v = self.value(scope, F32, rank=1)
        if v is None:
            return None
        axis = self.one([i for i, d in enumerate(v.dims) if not is_computed(d)])
        if axis is None:
            return None
        if self.chance(.3):
            return Value(tf.math.l2_normalize(v.t, axis, epsilon=1e-2), v.dims, False)
        mean, variance = tf.nn.moments(v.t, [axis], keepdims=True)
        return Value((v.t - mean) * tf.math.rsqrt(variance + .1) * .5, v.dims, False)

    # ---- along an axis ----

    def top_one(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, where=lambda v: v.exact and open_or_fixed(v))
        if v is None:
            return None
        k = 1 if not isinstance(v.dims[-1], int) else int(self.r.integers(1, v.dims[-1] + 1))
        values, at = tf.math.top_k(v.t, k)
        return [Value(values, (*v.dims[:-1], k), True), Value(at, (*v.dims[:-1], k), True)]

    def ordered(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, where=lambda v: v.exact)
        if v is None:
            return None
        f = self.one([tf.sort, tf.argsort])
        t = f(v.t, int(self.r.integers(len(v.dims))), self.one(['ASCENDING', 'DESCENDING']), **({'stable': True} if f is tf.argsort else {}))
        return Value(t, v.dims, True)

    def long_extreme(self, scope, depth):
        v = self.value(scope, F32, I32, I64, rank=1, where=lambda v: v.exact and open_or_fixed(v))
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        return Value(self.one([tf.argmax, tf.argmin])(v.t, axis), v.dims[:axis] + v.dims[axis + 1:], True)

    def lengths(self, scope, depth):
        """Which steps each row has."""
        v, of = self.value(scope, I32, I64, most=2), self.value(scope, rank=1, where=open_or_fixed)
        if v is None or of is None:
            return None
        axis = int(self.r.integers(len(of.dims)))
        return Value(tf.sequence_mask(v.t, tf.shape(of.t)[axis]), (*v.dims, of.dims[axis]), True)

    def band(self, scope, depth):
        v = self.value(scope, F32, I32, rank=2)
        return v and Value(tf.linalg.band_part(v.t, *self.one([(-1, 0), (0, -1), (0, 0), (1, 1)])), v.dims, v.exact)

    def over_all(self, scope, depth):
        """Reductions that models have seldom; of nothing as well."""
        v = self.value(scope, F32, rank=1)
        if v is None:
            return None
        axes = sorted(self.r.permutation(len(v.dims))[:int(self.r.integers(1, len(v.dims) + 1))].tolist())
        dims = tuple(d for i, d in enumerate(v.dims) if i not in axes)
        some = [tf.reduce_logsumexp, tf.norm, *([] if self.differentiates else [tf.reduce_max, tf.reduce_min])]
        if not any(is_computed(v.dims[a]) for a in axes):
            some += [tf.math.reduce_variance]
        f = self.one(some)
        t = f(v.t, axis=axes[0] if f is tf.norm else axes)
        return Value(tf.clip_by_value(t, -3, 3), dims if f is not tf.norm else v.dims[:axes[0]] + v.dims[axes[0] + 1:], False)

    def counted_true(self, scope, depth):
        v = self.value(scope, BOOL, I32, rank=1)
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        return Value(tf.math.count_nonzero(v.t, axis, dtype=self.one([I32, I64])), v.dims[:axis] + v.dims[axis + 1:], True)

    def running_product(self, scope, depth):
        v = self.value(scope, F32, rank=1)
        return v and Value(tf.math.cumprod(tf.tanh(v.t), int(self.r.integers(len(v.dims))), reverse=self.chance(.4)), v.dims, False)

    def grid(self, scope, depth):
        v, w = self.value(scope, rank=1), self.value(scope, rank=1)
        a, b = int(self.r.integers(len(v.dims))), int(self.r.integers(len(w.dims)))
        ts = tf.meshgrid(tf.range(tf.shape(v.t)[a]), tf.range(tf.shape(w.t)[b]), indexing='ij')
        return [Value(t, (v.dims[a], w.dims[b]), True) for t in ts]

    # ---- sizes that data decide ----

    def backward_part(self, scope, depth):
        """A part of an axis, from its end to its begin."""
        v = self.value(scope, F32, I32, rank=1)
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        cut = self.one([slice(None, None, -2), slice(-2, None, -1), slice(2, None, -1), slice(None, 0, -1), slice(-1, -3, -1)])
        dim = len(range(v.dims[axis])[cut]) if isinstance(v.dims[axis], int) else self.fresh()
        return Value(v.t[(slice(None),) * axis + (cut,)], (*v.dims[:axis], dim, *v.dims[axis + 1:]), v.exact) if dim else None

    def strided(self, scope, depth):
        """Several axes at once: new ones, an element, an ellipsis, parts."""
        v = self.value(scope, F32, I32, rank=2)
        if v is None or is_computed(v.dims[-1]):
            return None
        t = v.t[1:, ..., 0, tf.newaxis]
        return Value(t, (self.fresh() if not isinstance(v.dims[0], int) else v.dims[0] - 1, *v.dims[1:-1], 1), v.exact) if v.dims[0] != 1 else None

    def repeat_by(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, most=2)
        n = v and self.value(scope, I32, rank=1, most=1, where=lambda w: w.dims[0] == v.dims[0])
        return n and Value(tf.repeat(v.t, tf.math.floormod(n.t, 3), 0), (self.fresh(), *v.dims[1:]), v.exact)

    def counted(self, scope, depth):
        v = self.value(scope, I32, rank=1, most=1)
        if v is None:
            return None
        y, at, n = tf.unique_with_counts(v.t)
        dim = self.fresh()
        return [Value(y, (dim,), True), Value(at, v.dims, True), Value(n, (dim,), True)]

    def without(self, scope, depth):
        v, w = self.value(scope, I32, rank=1, most=1), self.value(scope, I32, rank=1, most=1)
        return v and Value(tf.raw_ops.ListDiff(x=v.t, y=w.t)[0], (self.fresh(),), True)

    def sorted_segments(self, scope, depth):
        v = self.value(scope, F32, rank=1, most=2)
        at = v and self.value(scope, I32, rank=1, most=1, where=lambda w: w.dims[0] == v.dims[0])
        if at is None:
            return None
        f = self.one([tf.math.segment_sum, tf.math.segment_max, tf.math.segment_mean])
        return Value(tf.tanh(f(v.t, tf.sort(tf.math.floormod(at.t, 4)))), (self.fresh(), *v.dims[1:]), False)

    def mask_all(self, scope, depth):
        """A mask of two axes."""
        v = self.value(scope, F32, I32, rank=2)
        p = v and self.value(scope, BOOL, rank=2, most=2, where=lambda p: p.dims == v.dims[:2])
        if p is None:
            return None
        return Value(tf.boolean_mask(v.t, p.t), (self.fresh(), *v.dims[2:]), v.exact)

    def found(self, scope, depth):
        v = self.value(scope, I32, F32, rank=1, where=lambda v: v.exact)
        return v and Value(tf.gather_nd(v.t, tf.where(v.t > v.t.dtype.as_numpy_dtype(1))), (self.fresh(),), True)

    def put_back(self, scope, depth):
        """Elements that were selected, changed and put back."""
        v = self.value(scope, F32, rank=1, where=lambda v: v.exact)
        if v is None:
            return None
        at = tf.where(v.t > .2)
        return Value(tf.scatter_nd(at, tf.tanh(tf.gather_nd(v.t, at)), tf.shape(v.t, out_type=I64)), v.dims, False)

    def stitched(self, scope, depth):
        v = self.value(scope, F32, rank=1, most=2)
        e = v and self.value(scope, I32, rank=1, most=1, where=lambda p: p.dims[0] == v.dims[0])
        if e is None:
            return None
        which = tf.math.floormod(e.t, 2)
        at = tf.dynamic_partition(tf.range(tf.shape(v.t)[0]), which, 2)
        a, b = tf.dynamic_partition(v.t, which, 2)
        return Value(tf.dynamic_stitch(at, [tf.tanh(a), b * .5]), v.dims, False)

    def split_by(self, scope, depth):
        """An axis in two, where data say."""
        v, a = self.value(scope, F32, I32, rank=1), self.small(scope, 3)
        if v is None or a is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        n = tf.shape(v.t)[axis]
        a = tf.minimum(a, n)
        return [Value(t, (*v.dims[:axis], self.fresh(), *v.dims[axis + 1:]), v.exact) for t in tf.split(v.t, tf.stack([a, n - a]), axis, num=2)]

    def tiled_by(self, scope, depth):
        v, n = self.value(scope, F32, I32, rank=1, most=2), self.small(scope, 4)
        if v is None or n is None:
            return None
        return Value(tf.tile(v.t, tf.stack([n, *[1] * (len(v.dims) - 1)])), (self.fresh(), *v.dims[1:]), v.exact)

    def hot_by(self, scope, depth):
        v, n = self.value(scope, I32, most=1), self.small(scope, 5)
        return None if v is None or n is None else Value(tf.one_hot(v.t, n), (*v.dims, self.fresh()), True)

    def nothing(self, scope, depth):
        """Whether there is anything, and how much."""
        v = self.value(scope, rank=1, where=lambda v: any(is_computed(d) for d in v.dims))
        return v and [Value(tf.equal(tf.size(v.t), 0), (), True), Value(tf.size(v.t, out_type=I64), (), True)]

    def pooled_parts(self, scope, depth):
        """The mean of some rows, or zero where there are none."""
        v = self.value(scope, F32, rank=1, where=lambda v: is_computed(v.dims[0]))
        return v and Value(tf.tanh(tf.math.divide_no_nan(tf.reduce_sum(v.t, 0), tf.cast(tf.shape(v.t)[0], F32))), v.dims[1:], False)

    def size_range(self, scope, depth):
        v, a = self.value(scope, rank=1), self.small(scope, 3)
        return None if a is None else Value(tf.range(a, tf.shape(v.t)[0] + a + 1, int(self.r.integers(1, 4))), (self.fresh(),), True)

    # ---- loops, branches and lists ----

    def of_size(self, v):
        return tf.TensorShape([]), self.known(v), tf.TensorShape(None)

    def read_back(self, scope, depth):
        """What one loop fills, another reads from the end on."""
        v, (n, dim) = self.value(scope, F32, I32, most=2), self.length(scope)
        if v is None:
            return None
        a = tf.TensorArray(v.t.dtype, n, element_shape=self.known(v), clear_after_read=False)

        def fill(i, y, a):
            y = self.after([self.of(y, v)], [*scope, Value(i, (), True), self.of(y, v)], depth)[0]
            return i + 1, y, a.write(i, y)
        i, y, a = tf.while_loop(lambda i, y, a: i < n, fill, (0, v.t, a), shape_invariants=self.of_size(v))

        def read(i, y, b):
            y = self.after([self.of(y, v)], [*scope, self.of(a.read(i - 1), v)], depth)[0]
            return i - 1, y, b.write(n - i, y)
        b = tf.TensorArray(v.t.dtype, n, element_shape=self.known(v))
        _, y, b = tf.while_loop(lambda i, y, b: i > 0, read, (i, y, b), shape_invariants=self.of_size(v))
        return [self.of(y, v), Value(b.stack(), (dim, *v.dims), v.t.dtype != F32)]

    def branch_list(self, scope, depth):
        """A branch hands on a list, in which either side has put something else."""
        v, n = self.value(scope, F32, most=2), int(self.r.integers(2, 4))
        if v is None:
            return None
        a = tf.TensorArray(F32, n, element_shape=self.known(v), clear_after_read=False)
        for i in range(n):
            a = a.write(i, v.t * self.number(-1, 1))

        def side():
            b = a
            for _ in range(int(self.r.integers(3))):
                b = b.write(int(self.r.integers(n)), self.after([v], scope, depth)[0])
            return b
        a = tf.cond(self.predicate(scope), side, side)
        return [Value(a.stack(), (n, *v.dims), False), self.of(a.read(int(self.r.integers(n))), v)]

    def written_some(self, scope, depth):
        """A loop that writes some elements of a list, as data say, and each several times."""
        v, n = self.value(scope, F32, most=2, where=lambda v: all(isinstance(d, int) for d in v.dims)), int(self.r.integers(1, 4))
        at = self.value(scope, I32)
        if v is None or at is None:
            return None
        maker, place = self, self.fitted(at, ())

        def f(t):
            a = tf.TensorArray(F32, n, element_shape=v.dims, clear_after_read=False)
            for i in tf.range(n + 1):
                t = maker.after([v._replace(t=t)], [*scope, Value(i, (), True)], depth)[0]
                if tf.equal(tf.math.floormod(i + place, 3), 0):
                    a = a.write(tf.math.floormod(i * 2 + place, n), t)
            return a.stack(), t
        t, y = graphed(f)(v.t)
        return [Value(t, (n, *v.dims), False), self.of(y, v)]

    def scattered_array(self, scope, depth):
        rows = self.value(scope, F32, rank=1, where=lambda v: isinstance(v.dims[0], int))
        if rows is None:
            return None
        n = rows.dims[0]
        a = tf.TensorArray(F32, n, element_shape=self.known(rows)[1:], clear_after_read=False)
        a = a.scatter(self.r.permutation(n).astype('i4'), rows.t)
        some = self.r.integers(0, n, int(self.r.integers(1, 4))).astype('i4')
        return [Value(a.gather(some), (len(some), *rows.dims[1:]), rows.exact), Value(a.stack(), rows.dims, rows.exact)]

    def nested_lists(self, scope, depth):
        """A loop whose iterations fill a list of their own and read it backwards."""
        v, n, m = self.value(scope, F32, most=1), self.count(scope), self.count(scope)
        if v is None:
            return None

        def outer(i, y):
            a = tf.TensorArray(F32, m, element_shape=self.known(v), clear_after_read=False)
            a = tf.while_loop(lambda j, a: j < m, lambda j, a: (j + 1, a.write(j, tf.tanh(y * (tf.cast(i + j, F32) * .3 - 1)))), (0, a))[1]
            y = tf.while_loop(lambda j, y: j > 0, lambda j, y: (j - 1, tf.ensure_shape(y * .5 + a.read(j - 1), self.known(v))), (m, y),
                              shape_invariants=self.of_size(v)[:2])[1]
            return i + 1, self.after([self.of(y, v)], scope, depth)[0]
        y = tf.while_loop(lambda i, y: i < n, outer, (0, v.t), shape_invariants=self.of_size(v)[:2])[1]
        return self.of(y, v)

    def unequal(self, scope, depth):
        """Elements of several lengths, one behind the other."""
        v = self.value(scope, F32, rank=1, most=2)
        n = int(self.r.integers(1, 4))
        if v is None:
            return None
        a = tf.TensorArray(F32, n, infer_shape=False, element_shape=tf.TensorShape([None, *self.known(v)[1:]]))
        a = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, tf.tanh(v.t[:i + 1] + tf.cast(i, F32)))), (0, a))[1]
        return Value(tf.ensure_shape(a.concat(), [None, *self.known(v)[1:]]), (self.fresh(), *v.dims[1:]), False)

    def shrinking(self, scope, depth):
        """A tensor that each iteration makes shorter, until nothing is left or as often as a number says."""
        v, like = self.value(scope, F32, I32, rank=1, where=lambda v: v.exact), self.value(scope, F32)
        if v is None or like is None:
            return None
        most, masked, dim = int(self.r.integers(0, 6)), self.chance(.4), self.fresh()
        short = Value(None, (dim, *v.dims[1:]), v.exact)

        def body(i, y, s):
            s = self.after([self.of(s, like)], [*scope, short._replace(t=y)], depth)[0]
            flat = tf.reduce_max(y, list(range(1, len(v.dims)))) if len(v.dims) > 1 and all(d != 0 and not is_computed(d) for d in v.dims[1:]) else y
            if masked and len(flat.shape) == 1:
                y = tf.boolean_mask(y, flat > y.dtype.as_numpy_dtype(self.number(0, 1)))[1:]
            else:
                y = self.one([lambda: y[1:], lambda: y[:-1], lambda: y[::2][1:]])()
            return i + 1, tf.ensure_shape(y, [None, *self.known(v)[1:]]), s
        i, y, s = tf.while_loop(lambda i, y, s: tf.logical_and(tf.shape(y)[0] > 0, i < most), body, (0, v.t, like.t),
                                shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, *self.known(v)[1:]]), self.known(like)))
        return [Value(i, (), True), short._replace(t=y), self.of(s, like)]

    def parts_loop(self, scope, depth):
        """Each iteration takes a part of a tensor by bounds of its own, as ragged rows lie."""
        v, like = self.value(scope, F32, rank=1, most=2, where=open_or_fixed), self.value(scope, F32)
        if v is None or like is None:
            return None
        size, dim = tf.shape(v.t)[0], self.fresh()

        def body(i, s):
            part = v.t[i:tf.minimum(i * 2 + 1, size)]
            return i + 1, self.after([self.of(s, like)], [*scope, Value(part, (dim, *v.dims[1:]), v.exact)], depth)[0]
        s = tf.while_loop(lambda i, s: i < tf.minimum(size, 4), body, (0, like.t), shape_invariants=(tf.TensorShape([]), self.known(like)))[1]
        return self.of(s, like)

    def masked_loop(self, scope, depth):
        """Each iteration selects rows, by numbers of its own."""
        v = self.value(scope, F32, rank=1)
        e = v and self.value(scope, I32, rank=1, most=1, where=lambda p: p.dims[0] == v.dims[0])
        if e is None:
            return None
        n, dim = self.count(scope), self.fresh()
        total = Value(None, v.dims[1:], False)

        def body(i, s):
            some = tf.boolean_mask(v.t, tf.ensure_shape(tf.equal(tf.math.floormod(e.t, 3), i), self.known(e)))
            s = self.after([total._replace(t=s)], [*scope, Value(some, (dim, *v.dims[1:]), v.exact)], depth)[0]
            return i + 1, tf.ensure_shape(tf.tanh(s + tf.reduce_sum(some, 0)), self.known(total))
        s = tf.while_loop(lambda i, s: i < n, body, (0, tf.reduce_sum(v.t, 0) * 0), shape_invariants=self.of_size(total)[:2])[1]
        return self.of(s, total)

    def halves_loop(self, scope, depth):
        """A loop that carries 16-bit floats and 64-bit and 8-bit integers."""
        v, e = self.value(scope, F32, where=lambda v: v.exact), self.value(scope, I32)
        if v is None or e is None:
            return None
        n, t = self.count(scope), self.one([F16, tf.bfloat16])

        def body(i, y, a, b):
            return i + 1, tf.maximum(y * .5, tf.cast(v.t, t) * self.one([.25, 2.])), a * 3 + tf.cast(i, I64), b + tf.cast(tf.math.floormod(a, 9), U8)
        _, y, a, b = tf.while_loop(lambda i, *_: i < n, body, (0, tf.cast(v.t, t), tf.cast(e.t, I64), tf.cast(tf.math.floormod(e.t, 7), U8)),
                                   shape_invariants=(tf.TensorShape([]), self.known(v), self.known(e), self.known(e)))
        return [Value(tf.cast(y, F32), v.dims, False), Value(a, e.dims, True), Value(b, e.dims, True)]

    def swapped(self, scope, depth):
        """Carried values that change their places, and one that only the condition reads."""
        v = self.value(scope, F32, I32)
        if v is None:
            return None
        n, w = self.count(scope), self.blended(v, scope)
        made = tf.while_loop(lambda i, left, a, b, c: left > 0, lambda i, left, a, b, c: (i + 1, left - 1, b, self.blended(self.of(c, v), scope), a),
                             (0, n, v.t, w, v.t), shape_invariants=(tf.TensorShape([]), tf.TensorShape([]), *[self.known(v)] * 3))
        return [self.of(t, v) for t in made[2:4]]

    def greedy(self, scope, depth):
        """Decoding: the likeliest next symbol of each row, until all rows have ended."""
        table = self.value(scope, F32, rank=2, most=2, where=lambda v: v.exact and open_or_fixed(v))
        first = self.value(scope, I32, rank=1, most=1)
        if table is None or first is None:
            return None
        rows, n = tf.shape(table.t)[0], int(self.r.integers(1, 5))
        a = tf.TensorArray(I32, 0 if self.chance(.5) else n, dynamic_size=True, element_shape=self.known(first))

        def body(i, symbol, ended, a):
            symbol = tf.argmax(tf.gather(table.t, tf.math.floormod(symbol + i, rows)), -1, output_type=I32)
            ended = tf.logical_or(ended, tf.equal(symbol, 0))
            return i + 1, tf.where(ended, 0, symbol), ended, a.write(i, symbol)
        shapes = tf.TensorShape([]), self.known(first), self.known(first), tf.TensorShape(None)
        i, symbol, ended, a = tf.while_loop(lambda i, s, ended, a: tf.logical_and(i < n, tf.logical_or(i < 1, tf.logical_not(tf.reduce_all(ended)))), body,
                                            (0, first.t, tf.zeros_like(first.t, BOOL), a), shape_invariants=shapes)
        return [Value(i, (), True), self.of(symbol, first), self.of(ended, first), Value(tf.reduce_sum(tf.transpose(a.stack()), -1), first.dims, True)]

    def zero_loop(self, scope, depth):
        """A loop that has no iteration at some sizes, or at none."""
        like, of = self.value(scope, F32, I32), self.value(scope, rank=1, where=open_or_fixed)
        if like is None or of is None:
            return None
        size = tf.shape(of.t)[0]
        n = self.one([size - 1, size // 2, tf.minimum(size - 2, 3), size - size])
        a = tf.TensorArray(like.t.dtype, tf.maximum(n, 0), element_shape=self.known(like))

        def body(i, y, a):
            y = self.after([self.of(y, like)], scope, depth)[0]
            return i + 1, y, a.write(i, y)
        i, y, a = tf.while_loop(lambda i, y, a: i < n, body, (0, like.t, a), shape_invariants=self.of_size(like))
        made = [Value(i, (), True), self.of(y, like)]
        return made if not all(isinstance(d, int) for d in like.dims) else [*made, Value(a.stack(), (self.fresh(), *like.dims), like.t.dtype != F32)]

    def gradient(self, scope, depth):
        """The gradient of some statements."""
        v = self.value(scope, F32)
        if v is None:
            return None
        outer, self.differentiates = self.differentiates, True
        with tf.GradientTape() as tape:
            tape.watch(v.t)
            y = tf.reduce_sum(tf.square(self.after([v], [*scope[-3:], v, v], depth)[0]))
        self.differentiates = outer
        t = tape.gradient(y, v.t)
        return t is not None and Value(tf.tanh(tf.ensure_shape(t, self.known(v))), v.dims, False) or None

    def gradient_loop(self, scope, depth):
        """The gradient of a loop, which hands all values of its iterations on in lists."""
        v, n, w = self.value(scope, F32, rank=1), self.count(scope), self.number(-1, 1)
        if v is None:
            return None
        with tf.GradientTape() as tape:
            tape.watch(v.t)
            y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.ensure_shape(tf.tanh(y * w + v.t) + tf.reduce_mean(y) * .1, self.known(v))
                                                                if open_or_fixed(v) else tf.ensure_shape(tf.tanh(y * w + v.t), self.known(v))),
                              (0, v.t), shape_invariants=self.of_size(v)[:2])[1]
            y = tf.reduce_sum(y)
        return Value(tf.tanh(tf.ensure_shape(tape.gradient(y, v.t), self.known(v))), v.dims, False)
