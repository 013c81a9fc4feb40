"""Random graphs of TensorFlow 2 with branches, loops, lists and open sizes, in each other, and with sizes that data decide.

Where TensorFlow compares, counts or casts numbers to integers, they are exact: inputs, what only moves these, and integers.  So
every correct implementation takes the same branches and has the same sizes."""

import tensorflow as tf

from control_forms import FEW, MORE_COMPUTED, MORE_CONTROL, Forms
from control_values import BOOL, F32, I32, I64, U8, Value, graphed, raw

MOST_DEPTH = 3  # control flow in control flow

PLAIN = ('unary', 'binary', 'reduce', 'product', 'transpose', 'flatten', 'end', 'reverse', 'join', 'stack', 'gather', 'running', 'softmax',
         'compare', 'select', 'size', 'count_up', 'cast', 'wider', 'extreme', 'place', 'pieces', 'hot', 'spread')
CONTROL = ('branch', 'switch', 'loop', 'loop', 'for_range', 'for_rows', 'broken', 'autograph_while', 'array', 'array', 'array_read',
           'array_dynamic', 'pushed', 'popped', 'map_rows', 'scan', 'fold', 'map_two', 'changed', 'called', 'joined_array', *MORE_CONTROL)
COMPUTED = ('mask', 'where', 'unique', 'range_of', 'partition', 'repeat_rows', 'part', 'behind', 'meet', 'largest', 'cut_by', 'padded_by', 'paired', 'folded',
            *MORE_COMPUTED)


class Maker(Forms):
    """Each kind of statement is a method that takes values of its scope and returns new ones, or None where it has no operands."""

    # ---- statements ----

    def statements(self, scope, depth, most=4):
        scope = list(scope)
        for _ in range(int(self.r.integers(1, most + 1))):
            for _ in range(8):
                kind = self.kind(depth)
                made = getattr(self, kind)(scope, depth)
                if made is not None:
                    self.made[kind] += 1
                    scope += made if isinstance(made, list) else [made]
                    break
        return scope

    def kind(self, depth):
        roll = self.r.random()
        if depth < MOST_DEPTH and roll < (.45 if depth == 0 else .2):
            return self.one([k for k in CONTROL if k in self.kinds] or PLAIN)
        if roll > .9 and any(k in self.kinds for k in COMPUTED):
            return self.one([k for k in COMPUTED if k in self.kinds])
        return self.one([k for k in FEW if k in self.kinds] if .6 < roll < .75 else PLAIN)

    def unary(self, scope, depth):
        v = self.value(scope, F32)
        f = self.one([tf.tanh, tf.abs, tf.nn.relu, lambda t: -t, lambda t: t * .5 + .1, tf.sin, tf.sigmoid, tf.square])
        return v and Value(tf.clip_by_value(f(v.t), -3, 3), v.dims, False)

    def binary(self, scope, depth):
        v = self.value(scope, F32, I32)
        if v is None:
            return None
        w = self.value(scope, v.t.dtype)
        u = self.fitted(w, v.dims)
        if v.t.dtype == I32:
            return Value(self.squash(self.one([tf.add, tf.multiply, tf.maximum, tf.subtract])(v.t, u)), v.dims, True)
        return Value(self.one([lambda a, b: tf.tanh(a + b), lambda a, b: tf.tanh(a * b), tf.maximum, tf.minimum])(v.t, u), v.dims, False)

    def reduce(self, scope, depth):
        v = self.value(scope, F32, I32, BOOL, rank=1)
        if v is None:
            return None
        axes = sorted(self.r.permutation(len(v.dims))[:int(self.r.integers(1, len(v.dims) + 1))].tolist())
        keep = self.chance(.3)
        dims = tuple(1 if i in axes else d for i, d in enumerate(v.dims) if keep or i not in axes)
        return Value(self.reduced(v, axes, keep), dims, v.t.dtype != F32)

    def product(self, scope, depth):
        v = self.value(scope, F32, rank=2, where=lambda v: isinstance(v.dims[-1], int))
        if v is None:
            w = self.value(scope, F32, rank=2, most=3)
            return w and Value(tf.tanh(tf.matmul(w.t, w.t, transpose_b=True) * .2), (*w.dims[:-1], w.dims[-2]), False)
        c = int(self.r.integers(1, 7))
        y = tf.tensordot(v.t, self.weights(v.dims[-1], c), 1) if len(v.dims) > 2 else v.t @ self.weights(v.dims[-1], c)
        return Value(tf.tanh(y), (*v.dims[:-1], c), False)

    def transpose(self, scope, depth):
        v = self.value(scope, F32, I32, rank=2)
        if v is None:
            return None
        p = self.r.permutation(len(v.dims)).tolist()
        return Value(tf.transpose(v.t, p), tuple(v.dims[i] for i in p), v.exact)

    def flatten(self, scope, depth):
        """There and back again, with something between that needs each row."""
        v = self.value(scope, F32, rank=2)
        if v is None:
            return None
        flat = tf.reshape(v.t, [-1, v.dims[-1]] if isinstance(v.dims[-1], int) else [-1])
        return Value(tf.reshape(tf.tanh(flat + tf.reduce_mean(flat)), self.shape_of(v)), v.dims, False)

    def end(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, where=lambda v: any(not str(d).startswith('d') for d in v.dims))
        if v is None:
            return None
        axis = self.one([i for i, d in enumerate(v.dims) if not str(d).startswith('d')])
        return Value(tf.gather(v.t, self.one([0, tf.shape(v.t)[axis] - 1]), axis=axis) if self.chance(.5)
                     else v.t[tuple([slice(None)] * axis + [self.one([0, -1])])], v.dims[:axis] + v.dims[axis + 1:], v.exact)

    def reverse(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1)
        return v and Value(tf.reverse(v.t, [int(self.r.integers(len(v.dims)))]), v.dims, v.exact)

    def join(self, scope, depth):
        v = self.value(scope, F32, rank=1, where=lambda v: any(isinstance(d, int) for d in v.dims))
        if v is None:
            return None
        axis = self.one([i for i, d in enumerate(v.dims) if isinstance(d, int)])
        w = self.value(scope, F32, where=lambda w: w.dims == v.dims)
        return Value(tf.concat([v.t, tf.tanh(w.t)], axis), (*v.dims[:axis], 2 * v.dims[axis], *v.dims[axis + 1:]), False) \
            if v.dims[axis] < 9 else None

    def stack(self, scope, depth):
        v = self.value(scope, F32, I32, most=2)
        if v is None:
            return None
        w = self.value(scope, v.t.dtype, where=lambda w: w.dims == v.dims)
        axis = int(self.r.integers(len(v.dims) + 1))
        return Value(tf.stack([v.t, w.t], axis), (*v.dims[:axis], 2, *v.dims[axis:]), v.exact and w.exact)

    def gather(self, scope, depth):
        v, at = self.value(scope, F32, I32, rank=1, most=3), self.value(scope, I32, most=1)
        if v is None or at is None or any(str(d).startswith('d') for d in v.dims):
            return None
        axis = int(self.r.integers(len(v.dims)))
        index = tf.math.floormod(at.t, tf.shape(v.t)[axis])
        return Value(tf.gather(v.t, index, axis=axis), (*v.dims[:axis], *at.dims, *v.dims[axis + 1:]), v.exact)

    def running(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1)
        return v and Value(self.squash(tf.cumsum(v.t, int(self.r.integers(len(v.dims))), exclusive=self.chance(.3))), v.dims, v.t.dtype == I32)

    def softmax(self, scope, depth):
        v = self.value(scope, F32, rank=1)
        return v and Value(tf.nn.softmax(v.t, int(self.r.integers(len(v.dims)))), v.dims, False)

    def compare(self, scope, depth):
        v = self.value(scope, F32, I32, where=lambda v: v.exact)
        return v and Value(v.t > (self.number(-.5, 1) if v.t.dtype == F32 else 2), v.dims, True)

    def select(self, scope, depth):
        v, p = self.value(scope, F32, I32), self.value(scope, BOOL)
        if v is None or p is None:
            return None
        w = self.value(scope, v.t.dtype)
        return Value(tf.where(self.fitted(p, v.dims), v.t, self.fitted(w, v.dims)), v.dims, v.exact and v.t.dtype == I32)

    def size(self, scope, depth):
        v = self.value(scope, rank=1)
        if v is None:
            return None
        t = tf.shape(v.t)[int(self.r.integers(len(v.dims)))] if self.chance(.7) else tf.size(v.t)
        return Value(t, (), True)

    def count_up(self, scope, depth):
        v = self.value(scope, rank=1)
        i = int(self.r.integers(len(v.dims))) if v else 0
        return v and Value(tf.range(tf.shape(v.t)[i]), (v.dims[i],), True)

    def cast(self, scope, depth):
        v = self.value(scope, I32, BOOL)
        return v and Value(tf.tanh(tf.cast(v.t, F32) * .25), v.dims, False)

    def wider(self, scope, depth):
        v = self.value(scope, F32, I32, most=3)
        axis = int(self.r.integers(len(v.dims) + 1)) if v else 0
        return v and Value(tf.expand_dims(v.t, axis), (*v.dims[:axis], 1, *v.dims[axis:]), v.exact)

    def extreme(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, where=lambda v: v.exact and not any(str(d).startswith('d') for d in v.dims))
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        return Value(tf.argmax(v.t, axis, output_type=I32), v.dims[:axis] + v.dims[axis + 1:], True)

    def place(self, scope, depth):
        v = self.value(scope, F32, rank=1, most=1)
        if v is None or not isinstance(v.dims[0], int):
            return None
        at = int(self.r.integers(v.dims[0]))
        return Value(tf.tensor_scatter_nd_update(v.t, [[at]], [tf.constant(.25)]), v.dims, False)

    def pieces(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1, where=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] > 1)
        if v is None:
            return None
        at = int(self.r.integers(1, v.dims[-1]))
        return [Value(v.t[..., :at], (*v.dims[:-1], at), v.exact), Value(v.t[..., at:], (*v.dims[:-1], v.dims[-1] - at), v.exact)]

    def hot(self, scope, depth):
        v, c = self.value(scope, I32, most=2), int(self.r.integers(1, 6))
        return v and Value(tf.one_hot(v.t, c), (*v.dims, c), True)

    def spread(self, scope, depth):
        """A tensor of a shape that is computed of another's."""
        v, w = self.value(scope, F32, I32, most=3), self.value(scope, F32)
        if v is None or w is None:
            return None
        s = self.fitted(w, ())
        return Value(self.one([lambda: tf.fill(tf.shape(v.t), s), lambda: tf.broadcast_to(s, tf.shape(v.t)),
                               lambda: tf.ones_like(v.t, F32) * s])(), v.dims, False)

    # ---- control flow ----

    def carried(self, scope, most=3):
        some = [self.value(scope, F32)] + [self.value(scope, F32, I32, BOOL, *self.one([(), (I64, U8)])) for _ in range(int(self.r.integers(most)))]
        return [v for v in some if v is not None]

    def after(self, like, scope, depth):
        """Values like those given, after some statements."""
        scope = self.statements(scope, depth + 1, 3)
        made = [self.blended(v, scope) for v in like]
        if len(made) > 1 and self.chance(.2):  # one is what another was before
            same = [i for i, v in enumerate(like) if i and v.dims == like[0].dims and v.t.dtype == like[0].t.dtype]
            made = [like[0].t if i in same else m for i, m in enumerate(made)]
        for t, v in zip(made, like):
            t.set_shape(self.known(v))
        return made

    def branch(self, scope, depth):
        like = self.carried(scope)
        if not like:
            return None

        def side():
            return self.after(like, scope, depth) if self.chance(.8) else [v.t + 0 if v.t.dtype != BOOL else v.t for v in like]
        made = tf.cond(self.predicate(scope), side, side)
        return [self.of(t, v) for t, v in zip(made, like)]

    def of(self, t, v):
        return Value(t, v.dims, t.dtype != F32)

    def switch(self, scope, depth):
        like = self.carried(scope, 2)
        at = self.value(scope, I32)
        if not like or at is None:
            return None
        index = tf.math.floormod(self.fitted(at, ()), 5) - 1
        made = tf.switch_case(index, [lambda: self.after(like, scope, depth) for _ in range(int(self.r.integers(2, 5)))])
        return [self.of(t, v) for t, v in zip(made, like)]

    def relike(self, ts, like):
        return [self.of(t, v) for t, v in zip(ts, like)]

    def loop(self, scope, depth):
        like, n = self.carried(scope), self.count(scope)
        if not like:
            return None
        whole = [k for k, v in enumerate(like) if v.t.dtype == I32]

        def cond(i, *c):
            if whole and self.chance(.5):
                return tf.logical_and(i < n, tf.reduce_max(c[whole[0]]) < 20)
            return i < n

        def body(i, *c):
            inner = [*scope, Value(i, (), True), *self.relike(c, like)]
            return (i + 1, *self.after(self.relike(c, like), inner, depth))
        made = tf.while_loop(cond, body, [tf.constant(0), *[v.t for v in like]], maximum_iterations=self.one([None, None, 3]),
                             shape_invariants=[tf.TensorShape([]), *[self.known(v) for v in like]])
        return [Value(made[0], (), True), *self.relike(made[1:], like)]

    def known(self, v):
        return tf.TensorShape([d if isinstance(d, int) else None for d in v.dims])

    def for_range(self, scope, depth):
        like, n = self.carried(scope, 2), self.count(scope)
        if not like:
            return None
        maker = self

        def f(ts):
            for i in tf.range(n):
                ts = tuple(maker.after(maker.relike(ts, like), [*scope, Value(i, (), True), *maker.relike(ts, like)], depth))
            return ts
        return self.relike(graphed(f)(tuple(v.t for v in like)), like)

    def for_rows(self, scope, depth):
        like, rows = self.carried(scope, 2), self.value(scope, F32, I32, rank=1)
        if not like or rows is None:
            return None
        maker = self

        def f(ts):
            for row in rows.t:
                ts = tuple(maker.after(maker.relike(ts, like), [*scope, Value(row, rows.dims[1:], rows.exact)], depth))
            return ts
        return self.relike(graphed(f)(tuple(v.t for v in like)), like)

    def broken(self, scope, depth):
        """A loop that ends early, and skips some iterations."""
        like, n = self.carried(scope, 2), self.count(scope)
        at = self.value(scope, I32)
        if not like or at is None:
            return None
        maker, last, skip = self, self.fitted(at, ()), self.chance(.5)

        def f(ts):
            steps = 0
            for i in tf.range(n + 2):
                if tf.equal(i, last):
                    break
                if skip:
                    if tf.equal(i, 1):
                        continue
                steps += 1
                ts = tuple(maker.after(maker.relike(ts, like), [*scope, Value(i, (), True)], depth))
            return ts, steps
        ts, steps = graphed(f)(tuple(v.t for v in like))
        return [Value(steps, (), True), *self.relike(ts, like)]

    def autograph_while(self, scope, depth):
        like, at = self.carried(scope, 2), self.value(scope, I32)
        if not like or at is None:
            return None
        maker, start = self, tf.math.floormod(self.fitted(at, ()), 7)

        def f(ts):
            left = start
            while left > 0:
                left = left // 2 if tf.equal(left % 2, 0) else left - 3
                ts = tuple(maker.after(maker.relike(ts, like), [*scope, Value(left, (), True)], depth))
            return ts, left
        ts, left = graphed(f)(tuple(v.t for v in like))
        return [Value(left, (), True), *self.relike(ts, like)]

    def length(self, scope):
        """(A scalar, its dimension) for an array: a number, or a size."""
        of = self.value(scope, where=lambda v: any(isinstance(d, str) for d in v.dims))
        if of and self.chance(.6):
            axis = self.one([i for i, d in enumerate(of.dims) if isinstance(d, str)])
            return tf.shape(of.t)[axis], of.dims[axis]
        n = int(self.r.integers(1, 5))
        return n, n

    def array(self, scope, depth):
        """An array that a loop fills from its begin or its end, and may read where it was filled."""
        v, (n, dim) = self.value(scope, F32, I32, most=2), self.length(scope)
        if v is None:
            return None
        back, read = self.chance(.3), self.chance(.3)
        a = tf.TensorArray(v.t.dtype, n, element_shape=self.known(v), clear_after_read=False)

        def body(i, y, a):
            at = n - 1 - i if back else i
            y = self.after([self.of(y, v)], [*scope, Value(i, (), True), self.of(y, v)], depth)[0]
            a = a.write(at, y)
            return i + 1, a.read(at) if read else y, a
        i, y, a = tf.while_loop(lambda i, y, a: i < n, body, (0, v.t, a),
                                shape_invariants=(tf.TensorShape([]), self.known(v), tf.TensorShape(None)))
        return [Value(a.stack(), (dim, *v.dims), v.t.dtype != F32), self.of(y, v)]

    def joined_array(self, scope, depth):
        v, n = self.value(scope, F32, rank=1, most=2, where=lambda v: isinstance(v.dims[0], int)), int(self.r.integers(1, 4))
        if v is None:
            return None
        a = tf.TensorArray(F32, n, element_shape=self.known(v))
        a = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, self.after([v], [*scope, Value(i, (), True)], depth)[0])), (0, a))[1]
        return Value(a.concat(), (n * v.dims[0], *v.dims[1:]), False)

    def array_read(self, scope, depth):
        rows, like = self.value(scope, F32, I32, rank=1), self.carried(scope, 2)
        if rows is None or not like:
            return None
        n = tf.shape(rows.t)[0]
        a = tf.TensorArray(rows.t.dtype, n, element_shape=self.known(rows)[1:], clear_after_read=False).unstack(rows.t)

        def body(i, *c):
            row = Value(a.read(i), rows.dims[1:], rows.exact)
            return (i + 1, *self.after(self.relike(c, like), [*scope, Value(i, (), True), row, row], depth))
        made = tf.while_loop(lambda i, *c: i < n, body, [0, *[v.t for v in like]],
                             shape_invariants=[tf.TensorShape([]), *[self.known(v) for v in like]])
        return self.relike(made[1:], like)

    def array_dynamic(self, scope, depth):
        """An array that grows, as often as a number, a size or data say; then a sum of its elements, or all of them."""
        v = self.value(scope, F32, most=2)
        if v is None:
            return None
        fixed = all(isinstance(d, int) for d in v.dims)  # TensorFlow stacks no empty list of elements of unknown shape
        n = int(self.r.integers(not fixed, 5))
        count = n if self.chance(.5) else self.count(scope) + 1

        def body(i, a):
            return i + 1, a.write(a.size(), self.after([v], [*scope, Value(i, (), True)], depth)[0])
        a = tf.TensorArray(F32, 0, dynamic_size=True, element_shape=self.known(v))
        i, a = tf.while_loop(lambda i, a: i < count, body, (0, a))
        size = Value(a.size(), (), True)
        if count is n and n and self.chance(.5):
            return [size, Value(a.stack(), (n, *v.dims), False)]
        return [size, Value(tf.tanh(tf.reduce_sum(a.stack(), 0) * .2), v.dims, False)]

    def pushed(self, scope, depth):
        """A list of unknown length, one element behind the other, read from its begin."""
        v, n = self.value(scope, F32, I32, most=2), int(self.r.integers(1, 5))
        if v is None:
            return None
        shape = tf.constant([d if isinstance(d, int) else -1 for d in v.dims], I32)
        a = raw.EmptyTensorList(element_shape=shape, max_num_elements=self.one([-1, 9]), element_dtype=v.t.dtype)

        def body(i, a):
            return i + 1, raw.TensorListPushBack(input_handle=a, tensor=self.after([v], [*scope, Value(i, (), True)], depth)[0])
        a = tf.while_loop(lambda i, a: i < n, body, (0, a))[1]
        first = raw.TensorListGetItem(input_handle=a, index=0, element_shape=shape, element_dtype=v.t.dtype)
        return [Value(raw.TensorListStack(input_handle=a, element_shape=shape, element_dtype=v.t.dtype, num_elements=n),
                      (n, *v.dims), v.t.dtype != F32), self.of(first, v)]

    def popped(self, scope, depth):
        """What one loop pushes, another pops."""
        v, count = self.value(scope, F32, most=2), self.count(scope)
        if v is None:
            return None
        shape = tf.constant([d if isinstance(d, int) else -1 for d in v.dims], I32)
        a = raw.EmptyTensorList(element_shape=shape, max_num_elements=-1, element_dtype=F32)

        def push(i, y, a):
            return i + 1, self.after([self.of(y, v)], [*scope, self.of(y, v)], depth)[0], raw.TensorListPushBack(input_handle=a, tensor=y)
        i, y, a = tf.while_loop(lambda i, y, a: i < count, push, (0, v.t, a), shape_invariants=(tf.TensorShape([]), self.known(v), tf.TensorShape([])))

        def pop(i, y, a):
            a, x = raw.TensorListPopBack(input_handle=a, element_shape=shape, element_dtype=F32)
            return i - 1, tf.ensure_shape(y * .5 + tf.tanh(x), self.known(v)), a
        _, y, a = tf.while_loop(lambda i, y, a: i > 0, pop, (i, y, a), shape_invariants=(tf.TensorShape([]), self.known(v), tf.TensorShape([])))
        return self.of(y, v)

    def map_rows(self, scope, depth):
        """map_fn over one or two tensors with as many rows, also in each other."""
        rows = self.value(scope, F32, I32, rank=1)
        if rows is None:
            return None
        other = self.value(scope, F32, rank=1, where=lambda v: v.dims[0] == rows.dims[0])
        dims = []

        def f(parts):
            made = self.statements([*scope, *parts, *parts], depth + 1, 3)
            same = [v for v in made if v.t.dtype != BOOL and not any(str(d).startswith('d') for d in v.dims)]
            dims[:] = same[-1].dims
            return same[-1].t

        def g(x):
            row, *more = x if isinstance(x, tuple) else (x,)
            y = f([Value(row, rows.dims[1:], rows.exact), *[Value(t, other.dims[1:], other.exact) for t in more]])
            return y if y.dtype == F32 else tf.cast(y, F32)
        t = tf.map_fn(g, (rows.t, other.t) if other and self.chance(.3) else rows.t, fn_output_signature=F32)
        return Value(tf.clip_by_value(t, -4, 4), (rows.dims[0], *dims), False)

    def map_two(self, scope, depth):
        """map_fn in map_fn."""
        rows = self.value(scope, F32, rank=2)
        if rows is None:
            return None
        inner = [self.number(-1, 1), self.chance(.4)]

        def each(e):
            return tf.tanh(e * inner[0] + (tf.reduce_mean(rows.t) if inner[1] else .1))
        return Value(tf.map_fn(lambda row: tf.map_fn(each, row) + .1, rows.t), rows.dims, False)

    def scan(self, scope, depth):
        rows = self.value(scope, F32, rank=1)
        if rows is None:
            return None
        v = Value(None, rows.dims[1:], False)
        start = self.value(scope, F32, where=lambda w: w.dims == v.dims)
        if start is None:
            return None
        t = tf.scan(lambda a, e: self.after([v._replace(t=a)], [*scope, v._replace(t=e), v._replace(t=a)], depth)[0], rows.t, start.t,
                    reverse=self.chance(.3))
        return Value(t, rows.dims, False)

    def fold(self, scope, depth):
        rows, v = self.value(scope, F32, I32, rank=1), self.value(scope, F32)
        if rows is None or v is None:
            return None
        t = self.one([tf.foldl, tf.foldr])(
            lambda a, e: self.after([self.of(a, v)], [*scope, Value(e, rows.dims[1:], rows.exact)], depth)[0], rows.t, v.t)
        return self.of(t, v)

    def changed(self, scope, depth):
        """A tensor that each iteration makes longer, or transposes: its shape is only bounded by an invariant."""
        v = self.value(scope, F32, rank=1, most=2)
        if v is None:
            return None
        n = int(self.r.integers(0, 4))
        t = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.concat([y, v.t], 0)), (0, v.t),
                          shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, *self.known(v)[1:]])))[1]
        if self.chance(.4):
            return Value(tf.tanh(t), (self.fresh(), *v.dims[1:]), False)
        return Value(tf.tanh(tf.reduce_sum(t, 0) * .2), v.dims[1:], False)

    def called(self, scope, depth):
        """A function that is called twice."""
        v = self.value(scope, F32)
        if v is None:
            return None
        f = tf.function(lambda t: self.after([self.of(t, v)], [*scope[-2:], self.of(t, v)], depth)[0], autograph=False)
        f = f.get_concrete_function(tf.TensorSpec(self.known(v), F32))
        return [self.of(f(v.t), v), self.of(f(v.t * .5), v)]

    # ---- sizes that data decide ----

    def mask(self, scope, depth):
        v = self.value(scope, F32, I32, rank=1)
        p = v and self.value(scope, BOOL, rank=1, most=1, where=lambda p: p.dims[0] == v.dims[0])
        if p is None:
            e = v and self.value(scope, I32, rank=1, most=1, where=lambda p: p.dims[0] == v.dims[0])
            if e is None:
                return None
            p = Value(e.t > 1, e.dims, True)
        return Value(tf.boolean_mask(v.t, tf.ensure_shape(p.t, [p.dims[0] if isinstance(p.dims[0], int) else None])),
                     (self.fresh(), *v.dims[1:]), v.exact)

    def where(self, scope, depth):
        p = self.value(scope, BOOL, rank=1)
        return p and Value(tf.cast(tf.where(p.t), I32), (self.fresh(), len(p.dims)), True)

    def unique(self, scope, depth):
        v = self.value(scope, I32, rank=1, most=1)
        if v is None:
            return None
        y, at = tf.unique(v.t)
        return [Value(y, (self.fresh(),), True), Value(at, v.dims, True)]

    def range_of(self, scope, depth):
        v = self.value(scope, I32)
        return v and Value(tf.range(tf.math.floormod(self.fitted(v, ()), 6)), (self.fresh(),), True)

    def partition(self, scope, depth):
        v = self.value(scope, F32, rank=1)
        e = v and self.value(scope, I32, rank=1, most=1, where=lambda p: p.dims[0] == v.dims[0])
        if e is None:
            return None
        parts = tf.dynamic_partition(v.t, tf.math.floormod(e.t, 2), 2)
        return [Value(t, (self.fresh(), *v.dims[1:]), v.exact) for t in parts]

    def repeat_rows(self, scope, depth):
        """As many rows as data say, from a fill of computed extents."""
        v = self.value(scope, I32)
        c = int(self.r.integers(1, 4))
        return v and Value(tf.fill([tf.math.floormod(self.fitted(v, ()), 5), c], self.number(-1, 1)), (self.fresh(), c), False)

    def part(self, scope, depth):
        """A part of an axis, by constant bounds."""
        v = self.value(scope, F32, I32, rank=1)
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        cut = self.one([slice(1, None), slice(None, -1), slice(-2, None), slice(None, 3), slice(1, -1), slice(None, None, 2), slice(2, None, 3)])
        dim = len(range(v.dims[axis])[cut]) if isinstance(v.dims[axis], int) else self.fresh()
        return dim and Value(v.t[(slice(None),) * axis + (cut,)], (*v.dims[:axis], dim, *v.dims[axis + 1:]), v.exact) or None

    def behind(self, scope, depth):
        """A concatenation along any axis."""
        v = self.value(scope, F32, I32, rank=1)
        if v is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        others = v.dims[:axis] + v.dims[axis + 1:]
        w = self.value(scope, v.t.dtype, rank=len(v.dims), most=len(v.dims), where=lambda w: w.dims[:axis] + w.dims[axis + 1:] == others)
        both = v.dims[axis], w.dims[axis]
        dim = sum(both) if all(isinstance(d, int) for d in both) else self.fresh()
        return Value(tf.concat([v.t, w.t], axis), (*v.dims[:axis], dim, *v.dims[axis + 1:]), v.exact and w.exact)

    def meet(self, scope, depth):
        """Two sizes of one axis: TensorFlow stops where they differ and neither is 1."""
        v = self.value(scope, F32, rank=2, most=3, where=lambda v: any(isinstance(d, str) for d in v.dims[-2:]))
        if v is None:
            return None
        t = tf.tanh(v.t + tf.transpose(v.t, [*range(len(v.dims) - 2), len(v.dims) - 1, len(v.dims) - 2]))
        return Value(tf.tanh(tf.reduce_sum(t) * .1), (), False)

    def small(self, scope, most):
        """A number that data decide, below `most`."""
        v = self.value(scope, I32)
        return v and tf.math.floormod(self.fitted(v, ()), most)

    def largest(self, scope, depth):
        """The largest elements of each row, as many as data say."""
        v, k = self.value(scope, F32, I32, rank=1, where=lambda v: v.exact), self.small(scope, 4)
        if v is None or k is None:
            return None
        values, at = tf.math.top_k(v.t, tf.minimum(k, tf.shape(v.t)[-1]))
        dims = (*v.dims[:-1], self.fresh())
        return [Value(values, dims, True), Value(at, dims, True)]

    def cut_by(self, scope, depth):
        """A part of an axis, by bounds that data decide."""
        v, a, b = self.value(scope, F32, I32, rank=1), self.small(scope, 3), self.small(scope, 5)
        if v is None or a is None or b is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        cut = self.one([slice(a, None), slice(None, b), slice(a, b), slice(-b, None), slice(a, None, 2)])
        return Value(v.t[(slice(None),) * axis + (cut,)], (*v.dims[:axis], self.fresh(), *v.dims[axis + 1:]), v.exact)

    def padded_by(self, scope, depth):
        """Numbers in front of an axis, and behind it, as many as data say."""
        v, a, b = self.value(scope, F32, I32, rank=1, most=3), self.small(scope, 3), self.small(scope, 2)
        if v is None or a is None or b is None:
            return None
        axis = int(self.r.integers(len(v.dims)))
        t = tf.pad(v.t, [[a, b] if i == axis else [0, 0] for i in range(len(v.dims))], constant_values=v.t.dtype.as_numpy_dtype(1))
        return Value(t, (*v.dims[:axis], self.fresh(), *v.dims[axis + 1:]), v.exact)

    def paired(self, scope, depth):
        """Two sizes that are equal in every run, in a product or a pack."""
        v = self.value(scope, F32, rank=2, most=3)
        if v is None:
            return None
        n = tf.minimum(tf.shape(v.t)[-2], 99)
        w = v.t[..., :n, :]
        if self.chance(.5):
            return Value(tf.tanh(tf.matmul(v.t, w, transpose_a=True) * .2), (*v.dims[:-2], v.dims[-1], v.dims[-1]), False)
        return Value(tf.tanh(tf.reduce_sum(tf.stack([w, v.t]), 0) * .4), v.dims, False)

    def folded(self, scope, depth):
        """Pairs of all elements but, where their number is odd, the last."""
        v = self.value(scope, F32, I32, rank=1)
        if v is None:
            return None
        flat = tf.reshape(v.t, [-1])
        return Value(tf.reshape(flat[:tf.size(flat) // 2 * 2], [-1, 2]), (self.fresh(), 2), v.exact)


# ---- whole graphs ----

def shapes_of(r):
    """Shapes of the inputs: all open, the first dimension alone, steps alone, or none."""
    c, d = int(r.integers(1, 6)), int(r.integers(1, 5))
    n = 'n' if r.random() < .75 else int(r.integers(1, 5))
    k = 'k' if r.random() < .6 else int(r.integers(1, 7))
    inputs = {'x': ((n, k, c), F32), 'y': ((n, d), F32), 'm': ((n, k), I32), 's': ((n,), I32)}
    more = {'l': ((n,), I64), 'b': ((n, k), BOOL), 'u': ((n,), U8), 't': ((1, k), F32)}
    return inputs | {name: of for name, of in more.items() if r.random() < .25}


def kinds_of(r):
    """Few kinds of control flow in a graph, so that most graphs have none that is refused."""
    control = r.permutation(sorted(set(CONTROL)))[:int(r.integers(2, 6))].tolist()
    computed = r.permutation(COMPUTED)[:3].tolist() if r.random() < .4 else []
    return set(control) | set(computed) | set(r.permutation(FEW)[:5].tolist())


def graph(r):
    """(concrete function, inputs: name -> (dims, dtype), names of its outputs, what it is made of)"""
    inputs = shapes_of(r)
    m = Maker(r, kinds_of(r))

    def f(*ts):
        values = [Value(t, dims, True) for t, (dims, _) in zip(ts, inputs.values())]
        m.exact_inputs[:] = values[:2]
        start = [values[i] for i in r.permutation(len(values))]
        scope = m.statements(start, 0, 7)
        while not any(m.made[k] for k in (*CONTROL, *COMPUTED)):
            scope = m.statements(scope, 0, 7)
        made = scope[len(values):]
        kept = made[-2:] + [v for v in made[:-2] if r.random() < .25]
        return tuple(tf.identity(v.t, name=f'out{i}') for i, v in enumerate(kept))
    signature = [tf.TensorSpec([d if isinstance(d, int) else None for d in dims], t, name=name) for name, (dims, t) in inputs.items()]
    return tf.function(f, input_signature=signature, autograph=False).get_concrete_function(), inputs, m.made


def feeds_of(r, inputs, sizes):
    def draw(dims, t):
        shape = [sizes.get(d, d) for d in dims]
        return r.uniform(-1, 1.5, shape).astype('f4') if t == F32 else r.integers(0, 2 if t == BOOL else 6, shape).astype(t.as_numpy_dtype)
    return {name: draw(*of) for name, of in inputs.items()}
