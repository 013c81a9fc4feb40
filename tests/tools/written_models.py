"""Models as users write them, with random weights: decoders with loops and caches, sequence layers, detectors, images of open heights and
widths, iterative numerics, control flow.

Each function makes one of a generator of random numbers: a function of tensors, and for each input its shape, in which texts are open sizes,
and dtype.  Sizes of first dimensions have one name in a model, since they are equal in a run."""
import environment
import numpy as np
import tensorflow as tf

keras = environment.keras()
layers = keras.layers
F32, I32, BOOL = tf.float32, tf.int32, tf.bool
MOST = {'n': 4, 'k': 9, 'm': 7, 'h': 20, 'w': 17, 't': 40, 'e': 8}
LEAST = {'h': 8, 'w': 8}


def weights(r, *shape, scale=None):
    return tf.constant((r.standard_normal(shape) * (scale or 1 / np.sqrt(np.prod(shape[:-1]) or 1))).astype('f4'))


def num(r, a, b):
    return int(r.integers(a, b + 1))


# ---- decoders ----

def greedy_decoder(r):
    """Encoder-decoder with additive attention; greedy decode by while_loop into TensorArray, ends early when all rows ended."""
    d, v, most = num(r, 3, 8), num(r, 5, 9), 12
    emb, wx, wh, wa, ua, va, out = weights(r, v, d, scale=1), weights(r, 2 * d, d), weights(r, d, d), weights(r, d, d), weights(r, d, d), weights(r, d), weights(r, d, v, scale=2)

    def f(ids):
        n = tf.shape(ids)[0]
        x = tf.gather(emb, ids)
        states = tf.transpose(tf.scan(lambda h, e: tf.tanh(e @ wh + h @ wa), tf.transpose(x, [1, 0, 2]), tf.zeros([n, d])), [1, 0, 2])
        keys = tf.tensordot(states, ua, 1)

        def body(i, tok, h, done, ta):
            e = tf.gather(emb, tok)
            score = tf.tensordot(tf.tanh(keys + (h @ wa)[:, None]), va, 1)
            a = tf.nn.softmax(score)
            c = tf.reduce_sum(a[..., None] * states, 1)
            h = tf.tanh(tf.concat([e, c], -1) @ wx + h @ wh)
            tok = tf.where(done, 0, tf.argmax(h @ out, -1, output_type=I32))
            return i + 1, tok, h, done | tf.equal(tok, 1), ta.write(i, tok)
        i, tok, h, done, ta = tf.while_loop(lambda i, t, h, done, ta: (i < most) & ~tf.reduce_all(done), body,
                                            (0, tf.zeros([n], I32) + 2, states[:, -1], tf.zeros([n], BOOL),
                                             tf.TensorArray(I32, 0, dynamic_size=True, element_shape=[None])))
        return tf.transpose(ta.stack()), h, i
    return f, {'ids': (('n', 'k'), I32)}


def beam_search(r):
    """Beam search with top_k, gathers of states by parents, fixed number of beams."""
    d, v, b, most = num(r, 3, 8), num(r, 5, 9), num(r, 2, 4), num(r, 3, 6)
    emb, wh, out = weights(r, v, d, scale=1), weights(r, d, d), weights(r, d, v, scale=2)

    def f(x):
        n = tf.shape(x)[0]
        h0 = tf.repeat(tf.tanh(x @ wh), b, 0)
        logp0 = tf.tile(tf.constant([[0.] + [-1e9] * (b - 1)]), [n, 1])

        def body(i, seqs, tok, h, logp):
            h = tf.tanh(tf.gather(emb, tf.reshape(tok, [-1])) + h @ wh)
            lp = tf.nn.log_softmax(h @ out)
            total = logp[:, :, None] + tf.reshape(lp, [n, b, v])
            top, at = tf.math.top_k(tf.reshape(total, [n, b * v]), b)
            parent, tok = at // v, at % v
            h = tf.reshape(tf.gather(tf.reshape(h, [n, b, d]), parent, batch_dims=1), [n * b, d])
            seqs = tf.concat([tf.gather(seqs, parent, batch_dims=1), tok[:, :, None]], -1)
            return i + 1, seqs, tok, h, top
        i, seqs, tok, h, logp = tf.while_loop(
            lambda i, *_: i < most, body, (0, tf.zeros([n, b, 0], I32), tf.zeros([n, b], I32), h0, logp0),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, b, None]), tf.TensorShape([None, b]), tf.TensorShape([None, d]), tf.TensorShape([None, b])))
        return seqs, logp, tf.reduce_max(logp, 1)
    return f, {'x': (('n', d), F32)}


def beam_arrays(r):
    """Beam search with TensorArrays of tokens and parents and a walk back through the parents."""
    d, v, b, most = num(r, 3, 8), num(r, 5, 9), num(r, 2, 4), num(r, 3, 6)
    emb, wh, out = weights(r, v, d, scale=1), weights(r, d, d), weights(r, d, v, scale=2)

    def f(x):
        n = tf.shape(x)[0]
        h0 = tf.repeat(tf.tanh(x @ wh), b, 0)
        logp0 = tf.tile(tf.constant([[0.] + [-1e9] * (b - 1)]), [n, 1])

        def body(i, tok, h, logp, toks, parents):
            h = tf.tanh(tf.gather(emb, tf.reshape(tok, [-1])) + h @ wh)
            total = logp[:, :, None] + tf.reshape(tf.nn.log_softmax(h @ out), [n, b, v])
            top, at = tf.math.top_k(tf.reshape(total, [n, b * v]), b)
            parent, tok = at // v, at % v
            flat = tf.reshape(parent + tf.range(n)[:, None] * b, [-1])
            return i + 1, tok, tf.gather(h, flat), top, toks.write(i, tok), parents.write(i, parent)
        arrays = [tf.TensorArray(I32, most, element_shape=[None, b]) for _ in range(2)]
        _, _, h, logp, toks, parents = tf.while_loop(lambda i, *_: i < most, body, (0, tf.zeros([n, b], I32), h0, logp0, *arrays))

        def back(i, at, seq):
            tok = tf.gather(toks.read(i), at, batch_dims=1)
            return i - 1, tf.gather(parents.read(i), at, batch_dims=1), seq.write(i, tok)
        _, _, seq = tf.while_loop(lambda i, *_: i >= 0, back, (most - 1, tf.tile(tf.range(b)[None], [n, 1]), tf.TensorArray(I32, most, element_shape=[None, b])))
        return tf.transpose(seq.stack(), [1, 2, 0]), logp
    return f, {'x': (('n', d), F32)}


def kv_cache_concat(r):
    """A transformer decoder whose caches of keys and values become longer by concatenation."""
    heads, w, v, most = num(r, 1, 3), num(r, 2, 4), num(r, 5, 9), num(r, 2, 6)
    d = heads * w
    emb, wq, wk, wv, wo, out = weights(r, v, d, scale=1), weights(r, d, d), weights(r, d, d), weights(r, d, d), weights(r, d, d), weights(r, d, v, scale=2)

    def split(t):
        return tf.transpose(tf.reshape(t, [tf.shape(t)[0], -1, heads, w]), [0, 2, 1, 3])

    def f(ids):
        n = tf.shape(ids)[0]
        x = tf.gather(emb, ids)
        k0, v0 = split(tf.tensordot(x, wk, 1)), split(tf.tensordot(x, wv, 1))

        def body(i, tok, k, vv, ta):
            x = tf.gather(emb, tok)[:, None]
            q = split(tf.tensordot(x, wq, 1))
            k = tf.concat([k, split(tf.tensordot(x, wk, 1))], 2)
            vv = tf.concat([vv, split(tf.tensordot(x, wv, 1))], 2)
            a = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / w ** .5)
            y = tf.reshape(tf.transpose(a @ vv, [0, 2, 1, 3]), [n, d])
            logits = tf.tanh(y @ wo + x[:, 0]) @ out
            tok = tf.argmax(logits, -1, output_type=I32)
            return i + 1, tok, k, vv, ta.write(i, logits)
        inv = tf.TensorShape([None, heads, None, w])
        _, tok, k, vv, ta = tf.while_loop(lambda i, *_: i < most, body, (0, ids[:, -1], k0, v0, tf.TensorArray(F32, most, element_shape=[None, v])),
                                          shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), inv, inv, tf.TensorShape(None)))
        return tf.transpose(ta.stack(), [1, 0, 2]), tok, tf.reduce_sum(k, 2), tf.shape(vv)
    return f, {'ids': (('n', 'k'), I32)}


def kv_cache_update(r):
    """A decoder with caches of fixed length, updated in place by tensor_scatter_nd_update; masked attention."""
    heads, w, v, most = num(r, 1, 3), num(r, 2, 4), num(r, 5, 9), num(r, 2, 6)
    d, room = heads * w, 16
    emb, wq, wk, wv, out = weights(r, v, d, scale=1), weights(r, d, d), weights(r, d, d), weights(r, d, d), weights(r, d, v, scale=2)

    def f(ids):
        n, k = tf.shape(ids)[0], tf.shape(ids)[1]
        x = tf.gather(emb, ids)
        kc = tf.pad(tf.tensordot(x, wk, 1), [[0, 0], [0, room - k], [0, 0]])
        vc = tf.pad(tf.tensordot(x, wv, 1), [[0, 0], [0, room - k], [0, 0]])

        def body(i, tok, kc, vc, ta):
            x = tf.gather(emb, tok)
            at = tf.stack([tf.range(n), tf.fill([n], k + i)], -1)
            kc = tf.tensor_scatter_nd_update(kc, at, x @ wk)
            vc = tf.tensor_scatter_nd_update(vc, at, x @ wv)
            s = tf.einsum('nd,nkd->nk', x @ wq, kc)
            s += tf.where(tf.range(room) <= k + i, 0., -1e9)
            y = tf.einsum('nk,nkd->nd', tf.nn.softmax(s), vc)
            logits = tf.tanh(y + x) @ out
            return i + 1, tf.argmax(logits, -1, output_type=I32), kc, vc, ta.write(i, logits)
        _, tok, kc, vc, ta = tf.while_loop(lambda i, *_: i < most, body, (0, ids[:, -1], kc, vc, tf.TensorArray(F32, most, element_shape=[None, v])))
        return tf.transpose(ta.stack(), [1, 0, 2]), tok, kc
    return f, {'ids': (('n', 'k'), I32)}


def ctc_greedy(r):
    """Greedy CTC: argmax, merge repeats, drop blanks; dense by row with a computed longest length."""
    v = num(r, 3, 6)

    def f(x):
        best = tf.argmax(x, -1, output_type=I32)
        before = tf.pad(best[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
        keep = (best != before) & (best != v - 1)
        lengths = tf.reduce_sum(tf.cast(keep, I32), 1)
        longest = tf.reduce_max(lengths)
        order = tf.argsort(tf.cast(~keep, I32), 1, stable=True)
        tokens = tf.gather(best, order, batch_dims=1)
        dense = tf.where(tf.sequence_mask(lengths, tf.shape(x)[1]), tokens, -1)
        return dense[:, :longest], lengths, tf.boolean_mask(best, keep)
    return f, {'x': (('n', 'k', v), F32)}


def ctc_map(r):
    """The same by map_fn and padding each row."""
    v = num(r, 3, 6)

    def f(x):
        k = tf.shape(x)[1]

        def row(e):
            best = tf.argmax(e, -1, output_type=I32)
            before = tf.concat([[-1], best[:-1]], 0)
            kept = tf.boolean_mask(best, (best != before) & (best != v - 1))
            return tf.pad(kept, [[0, k - tf.size(kept)]], constant_values=-1), tf.size(kept)
        return tf.map_fn(row, x, fn_output_signature=(tf.TensorSpec([None], I32), I32))
    return f, {'x': (('n', 'k', v), F32)}


def pointer_network(r):
    """Points at inputs one after the other, masking those that were taken; as many steps as inputs."""
    d = num(r, 3, 8)
    w1, w2, va, wh = weights(r, d, d), weights(r, d, d), weights(r, d, scale=2), weights(r, d, d)

    def f(x):
        n, k = tf.shape(x)[0], tf.shape(x)[1]
        keys = tf.tensordot(x, w1, 1)

        def body(i, h, taken, ta):
            s = tf.tensordot(tf.tanh(keys + (h @ w2)[:, None]), va, 1) - 1e9 * taken
            at = tf.argmax(s, -1, output_type=I32)
            taken = taken + tf.one_hot(at, k)
            h = tf.tanh(h @ wh + tf.gather(x, at, batch_dims=1))
            return i + 1, h, taken, ta.write(i, at)
        _, h, taken, ta = tf.while_loop(lambda i, *_: i < k, body, (0, tf.reduce_mean(x, 1), tf.zeros([n, k]), tf.TensorArray(I32, k, element_shape=[None])))
        return tf.transpose(ta.stack()), h
    return f, {'x': (('n', 'k', d), F32)}


# ---- sequences ----

def tcn(r):
    """Dilated causal convolutions with residuals."""
    c, depth = num(r, 2, 6), num(r, 2, 3)
    ws = [(weights(r, 2, c, c), weights(r, c)) for _ in range(depth)]

    def f(x):
        for i, (w, b) in enumerate(ws):
            d = 2 ** i
            y = tf.pad(x, [[0, 0], [d, 0], [0, 0]])
            x = x + tf.nn.relu(tf.nn.conv1d(y, w, 1, 'VALID', dilations=d) + b)
        return x, x[:, -1], tf.reduce_max(x, 1)
    return f, {'x': (('n', 't', c), F32)}


def tcn_keras(r):
    keras.backend.clear_session()
    c = num(r, 2, 6)
    x = i = keras.Input((None, c))
    for e in range(num(r, 2, 3)):
        y = layers.Conv1D(c, 3, padding='causal', dilation_rate=2 ** e, activation='relu')(x)
        y = layers.SpatialDropout1D(.1)(y)
        x = layers.Add()([x, y])
    y = layers.Dense(3)(layers.GlobalAveragePooling1D()(x))
    m = keras.Model(i, [x, y])
    return lambda x: tuple(m(x)), {'x': (('n', 't', c), F32)}


def space_to_batch(r):
    """SpaceToBatchND and BatchToSpaceND of an open length, padded to a multiple by a computed amount."""
    c, b = num(r, 1, 5), num(r, 2, 3)
    w = weights(r, 2, c, c)

    def f(x):
        t = tf.shape(x)[1]
        over = -t % b
        y = tf.space_to_batch(x, [b], [[b, over]])
        y = tf.nn.conv1d(y, w, 1, 'VALID')
        return (tf.batch_to_space(y, [b], [[0, over]]),)
    return f, {'x': (('n', 't', c), F32)}


def wavenet(r):
    """Gated dilated causal convolutions with skip connections."""
    c, s, depth = num(r, 2, 5), num(r, 2, 5), 3
    ws = [[weights(r, 2, c, c), weights(r, 2, c, c), weights(r, 1, c, c), weights(r, 1, c, s)] for _ in range(depth)]
    o = weights(r, 1, s, 4)

    def f(x):
        skip = 0.
        for i, (a, g, res, sk) in enumerate(ws):
            d = 2 ** i
            p = tf.pad(x, [[0, 0], [d, 0], [0, 0]])
            z = tf.tanh(tf.nn.conv1d(p, a, 1, 'VALID', dilations=d)) * tf.sigmoid(tf.nn.conv1d(p, g, 1, 'VALID', dilations=d))
            skip = skip + tf.nn.conv1d(z, sk, 1, 'SAME')
            x = x + tf.nn.conv1d(z, res, 1, 'SAME')
        return tf.nn.softmax(tf.nn.conv1d(tf.nn.relu(skip), o, 1, 'SAME')), x
    return f, {'x': (('n', 't', c), F32)}


def wavenet_sampler(r):
    """Autoregressive samples: the last steps in a queue that a loop shifts."""
    c, q, most = num(r, 2, 5), num(r, 2, 5), num(r, 2, 7)
    w, o = weights(r, q, c, c), weights(r, c, c)

    def f(x):
        n = tf.shape(x)[0]
        queue = tf.pad(x, [[0, 0], [q, 0], [0, 0]])[:, -q:]

        def body(i, queue, ta):
            y = tf.tanh(tf.einsum('nqc,qcd->nd', queue, w)) @ o
            return i + 1, tf.ensure_shape(tf.concat([queue[:, 1:], y[:, None]], 1), [None, q, c]), ta.write(i, y)
        _, queue, ta = tf.while_loop(lambda i, *_: i < most, body, (0, tf.ensure_shape(queue, [None, q, c]), tf.TensorArray(F32, most, element_shape=[None, c])))
        return tf.transpose(ta.stack(), [1, 0, 2]), queue
    return f, {'x': (('n', 't', c), F32)}


def masked_attention(r):
    keras.backend.clear_session()
    c = num(r, 2, 6)
    i = keras.Input((None, c))
    x = layers.Masking()(keras.ops.where(i[..., :1] > .4, 0., i))
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    y = layers.MultiHeadAttention(2, 3)(x, x)
    z = layers.TimeDistributed(layers.Dense(4, activation='relu'))(y)
    m = keras.Model(i, [z, layers.GlobalMaxPooling1D()(z), layers.Attention()([x, y])])
    return lambda x: tuple(m(x)), {'x': (('n', 'k', c), F32)}


def conv_lstm_stack(r):
    keras.backend.clear_session()
    i = keras.Input((None, 6, 5, 2))
    x = layers.TimeDistributed(layers.Conv2D(3, 3, strides=2, padding='same'))(i)
    x = layers.ConvLSTM2D(3, 3, padding='same', return_sequences=True)(x)
    x = layers.TimeDistributed(layers.BatchNormalization())(x)
    y = layers.ConvLSTM2D(2, 2, padding='same')(x)
    m = keras.Model(i, [layers.Conv3D(1, 3, padding='same')(x), layers.GlobalAveragePooling2D()(y)])
    return lambda x: tuple(m(x)), {'x': (('n', 'm', 6, 5, 2), F32)}


# ---- capsules, clusters, numerics ----

def capsules(r):
    """Routing by agreement between capsules, in a loop."""
    a, b, d, e = num(r, 3, 9), num(r, 2, 4), num(r, 2, 5), num(r, 2, 5)
    w = weights(r, a, b, d, e, scale=.5)

    def squash(s):
        q = tf.reduce_sum(s * s, -1, keepdims=True)
        return q / (1 + q) * s / tf.sqrt(q + 1e-7)

    def f(x):
        n = tf.shape(x)[0]
        u = tf.einsum('nad,abde->nabe', x, w)

        def body(i, logits, v):
            c = tf.nn.softmax(logits, 2)
            v = squash(tf.reduce_sum(c[..., None] * u, 1))
            return i + 1, logits + tf.einsum('nabe,nbe->nab', u, v), v
        _, logits, v = tf.while_loop(lambda i, *_: i < 3, body, (0, tf.zeros([n, a, b]), tf.zeros([n, b, e])))
        return tf.norm(v, axis=-1), logits
    return f, {'x': (('n', a, d), F32)}


def k_means(r):
    """Until the assignment does not change, 20 times at most."""
    d, c = num(r, 1, 4), num(r, 2, 3)

    def f(x):
        k = tf.shape(x)[0]

        def step(i, means, old, changed):
            dist = tf.reduce_sum(tf.math.squared_difference(x[:, None], means[None]), -1)
            at = tf.argmin(dist, 1, output_type=I32)
            total = tf.math.unsorted_segment_sum(x, at, c)
            count = tf.math.unsorted_segment_sum(tf.ones([k]), at, c)
            means = tf.where(count[:, None] > 0, total / tf.maximum(count, 1.)[:, None], means)
            return i + 1, means, at, tf.reduce_any(at != old)
        i, means, at, _ = tf.while_loop(lambda i, m, a, ch: (i < 20) & ch, step,
                                        (0, tf.linspace(-1., 1., c)[:, None] * tf.ones([1, d]), tf.zeros([k], I32) - 1, True))
        return means, at, tf.math.bincount(at, minlength=c, maxlength=c), tf.sort(tf.math.unsorted_segment_max(x[:, 0], at, c))
    return f, {'x': (('t', d), F32)}


def power_iteration(r):
    """The largest eigenvalue, and how much it changed."""
    d = num(r, 2, 6)

    def f(x):
        a = tf.matmul(x, x, transpose_a=True) + tf.eye(d)

        def body(i, v, l, change):
            y = tf.linalg.matvec(a, v)
            m = tf.tensordot(v, y, 1)
            return i + 1, y / tf.norm(y), m, tf.abs(m - l)
        _, v, l, change = tf.while_loop(lambda i, v, l, change: i < 12, body, (0, tf.ones([d]) / d ** .5, 0., 1.))
        return v, l, change
    return f, {'x': (('t', d), F32)}


def newton(r):
    """Square roots by Newton's method until convergence; a loop without a counter in the condition."""
    def f(x):
        y = tf.abs(x) + .1

        def body(z, err):
            w = .5 * (z + y / z)
            return w, tf.reduce_max(tf.abs(w - z))
        z, _ = tf.while_loop(lambda z, err: err > 1e-3, body, (y + 1., 1.))
        return z, tf.reduce_sum(z, 1)
    return f, {'x': (('n', 'k'), F32)}


def conjugate_gradient(r):
    d = num(r, 2, 6)

    def f(a, b):
        m = tf.matmul(a, a, transpose_a=True) + tf.eye(d) * 2

        def body(i, x, res, p, rs):
            ap = tf.linalg.matvec(m, p)
            al = rs / tf.reduce_sum(p * ap)
            x, res = x + al * p, res - al * ap
            new = tf.reduce_sum(res * res)
            return i + 1, x, res, res + new / rs * p, new
        z = tf.zeros([d])
        _, x, *_ = tf.while_loop(lambda i, x, res, p, rs: (i < 3 * d) & (rs > 1e-8), body, (0, z, b, b, tf.reduce_sum(b * b)))
        return (x,)
    return f, {'a': (('k', d), F32), 'b': ((d,), F32)}


def sinkhorn(r):
    """Rows and columns normalised in turn, of two open sizes."""
    def f(x):
        def body(i, p):
            p = p - tf.reduce_logsumexp(p, 1, keepdims=True)
            return i + 1, p - tf.reduce_logsumexp(p, 0, keepdims=True)
        return (tf.exp(tf.while_loop(lambda i, p: i < 8, body, (0, x))[1]),)
    return f, {'x': (('k', 'm'), F32)}


def dtw(r):
    """Distances of two sequences by dynamic programming: a scan in a scan."""
    d = num(r, 1, 3)

    def f(x, y):
        cost = tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)
        big = 1e6

        def row(prev, c):
            shifted = tf.concat([[big], prev[:-1]], 0)
            best = tf.minimum(prev, shifted)

            return tf.scan(lambda left, e: e[0] + tf.minimum(left, e[1]), (c, best), tf.constant(big))
        first = tf.cumsum(cost[0])
        table = tf.scan(row, cost[1:], first)
        return tf.concat([first[None], table], 0), cost
    return f, {'x': (('k', d), F32), 'y': (('k', d), F32)}


def edit_distance_loop(r):
    """Levenshtein distance by two nested loops over TensorArrays."""
    def f(a, b):
        k, m = tf.shape(a)[0], tf.shape(b)[0]

        def row(i, prev):
            def col(j, ta, left):
                sub = prev[j] + tf.cast(a[i] != b[j], I32)
                new = tf.minimum(tf.minimum(left + 1, prev[j + 1] + 1), sub)
                return j + 1, ta.write(j + 1, new), new
            ta = tf.TensorArray(I32, m + 1, element_shape=[]).write(0, i + 1)
            _, ta, _ = tf.while_loop(lambda j, *_: j < m, col, (0, ta, i + 1))
            return i + 1, ta.stack()
        _, last = tf.while_loop(lambda i, p: i < k, row, (0, tf.range(m + 1)), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])))
        return last, last[-1]
    return f, {'a': (('k',), I32), 'b': (('k',), I32)}


def viterbi(r):
    """Viterbi decode of a CRF: scores forward by scan, back pointers backwards."""
    c = num(r, 2, 5)
    trans = weights(r, c, c, scale=1)

    def f(x):
        e = tf.transpose(x, [1, 0, 2])

        def fwd(carry, e):
            s, _ = carry
            t = s[:, :, None] + trans
            return tf.reduce_max(t, 1) + e, tf.argmax(t, 1, output_type=I32)
        s, bp = tf.scan(fwd, e[1:], (e[0], tf.zeros([tf.shape(x)[0], c], I32)))
        last = tf.concat([e[:1], s], 0)[-1]
        end = tf.argmax(last, -1, output_type=I32)
        path = tf.scan(lambda at, b: tf.gather(b, at, batch_dims=1), bp, end, reverse=True)
        return tf.transpose(tf.concat([path, end[None]], 0)), tf.reduce_max(last, 1)
    return f, {'x': (('n', 'k', c), F32)}


def crf_forward(r):
    c = num(r, 2, 5)
    trans = weights(r, c, c, scale=1)

    def f(x, lengths):
        mask = tf.sequence_mask(tf.minimum(lengths, tf.shape(x)[1]), tf.shape(x)[1])

        def step(alpha, em):
            e, m = em
            new = tf.reduce_logsumexp(alpha[:, :, None] + trans, 1) + e
            return tf.where(m[:, None], new, alpha)
        a = tf.foldl(step, (tf.transpose(x, [1, 0, 2])[1:], tf.transpose(mask)[1:]), x[:, 0])
        return tf.reduce_logsumexp(a, 1), mask
    return f, {'x': (('n', 'k', c), F32), 'lengths': (('n',), I32)}


# ---- detectors ----

def decode_boxes(loc, anchors):
    c = anchors[:, :2] + loc[..., :2] * .1
    s = anchors[:, 2:] * tf.exp(tf.clip_by_value(loc[..., 2:] * .2, -1., 1.))
    return tf.concat([c - s / 2, c + s / 2], -1)


def ssd(r):
    """Boxes of each image by NMS inside map_fn, padded to a fixed number."""
    a, c, most = num(r, 6, 20), num(r, 2, 3), 5
    anchors = tf.constant(r.uniform(.1, .9, (a, 4)).astype('f4'))

    def f(loc, conf):
        boxes = decode_boxes(loc, anchors)
        scores = tf.reduce_max(tf.nn.softmax(conf), -1)

        def one(e):
            b, s = e
            at = tf.image.non_max_suppression(b, s, most, .5, .4)
            pad = most - tf.size(at)
            return tf.pad(tf.gather(b, at), [[0, pad], [0, 0]]), tf.pad(tf.gather(s, at), [[0, pad]]), tf.size(at)
        return tf.map_fn(one, (boxes, scores), fn_output_signature=(F32, F32, I32))
    return f, {'loc': (('n', a, 4), F32), 'conf': (('n', a, c), F32)}


def ssd_combined(r):
    a, c = num(r, 6, 20), num(r, 2, 3)
    anchors = tf.constant(r.uniform(.1, .9, (a, 4)).astype('f4'))

    def f(loc, conf):
        boxes = decode_boxes(loc, anchors)
        y = tf.image.combined_non_max_suppression(boxes[:, :, None], tf.nn.softmax(conf), 3, 6, .5, .3)
        return tuple(y)
    return f, {'loc': (('n', a, 4), F32), 'conf': (('n', a, c), F32)}


def yolo(r):
    """Grids of an open image, boxes by class in one NMS with offsets, of one image."""
    c = num(r, 2, 4)
    w = weights(r, 4, 4, 3, 3 * (5 + c))

    def f(x):
        y = tf.nn.conv2d(x, w, 4, 'SAME')
        h, ww = tf.shape(y)[1], tf.shape(y)[2]
        y = tf.reshape(y, [-1, h, ww, 3, 5 + c])
        gy, gx = tf.meshgrid(tf.range(h), tf.range(ww), indexing='ij')
        grid = tf.cast(tf.stack([gx, gy], -1), F32)[None, :, :, None]
        xy = (tf.sigmoid(y[..., :2]) + grid) / tf.cast(tf.stack([ww, h]), F32)
        wh = tf.exp(tf.clip_by_value(y[..., 2:4], -2., 1.)) * .3
        boxes = tf.reshape(tf.concat([xy - wh / 2, xy + wh / 2], -1), [-1, 4])
        scores = tf.reshape(tf.sigmoid(y[..., 4:5]) * tf.nn.softmax(y[..., 5:]), [-1, c])
        cls, best = tf.argmax(scores, -1), tf.reduce_max(scores, -1)
        keep = best > .2
        boxes, cls, best = tf.boolean_mask(boxes, keep), tf.boolean_mask(cls, keep), tf.boolean_mask(best, keep)
        at = tf.image.non_max_suppression(boxes + tf.cast(cls, F32)[:, None] * 4, best, 10, .5)
        return tf.gather(boxes, at), tf.gather(cls, at), tf.gather(best, at), tf.size(at)
    return f, {'x': ((1, 'h', 'w', 3), F32)}


def mask_rcnn(r):
    """Regions of an open image by NMS, crop_and_resize of these, heads of each region."""
    c, p = num(r, 2, 5), 4
    w, hd, mk = weights(r, 3, 3, 3, c), weights(r, p * p * c, 6), weights(r, 3, 3, c, 2)

    def f(x, boxes, scores):
        y = tf.nn.relu(tf.nn.conv2d(x, w, 2, 'SAME'))
        lo, hi = tf.minimum(boxes[:, :2], boxes[:, 2:]), tf.maximum(boxes[:, :2], boxes[:, 2:])
        boxes = tf.concat([lo, hi], 1)
        at = tf.image.non_max_suppression(boxes, scores, 6, .6)
        b = tf.gather(boxes, at)
        crops = tf.image.crop_and_resize(y, b, tf.zeros([tf.size(at)], I32), [p, p])
        return b, tf.reshape(crops, [-1, p * p * c]) @ hd, tf.sigmoid(tf.nn.conv2d(crops, mk, 1, 'SAME'))
    return f, {'a': ((1, 'h', 'w', 3), F32), 'boxes': ((12, 4), F32), 'scores': ((12,), F32)}


def class_loop(r):
    """NMS of each class in a Python loop, then the best of all by top_k."""
    c, a = 3, num(r, 5, 14)

    def f(boxes, scores):
        lo, hi = tf.minimum(boxes[:, :2], boxes[:, 2:]), tf.maximum(boxes[:, :2], boxes[:, 2:])
        boxes = tf.concat([lo, hi], 1)
        bs, ss, cs = [], [], []
        for i in range(c):
            at = tf.image.non_max_suppression(boxes, scores[:, i], 4, .5, .1)
            bs.append(tf.gather(boxes, at)); ss.append(tf.gather(scores[:, i], at)); cs.append(tf.fill([tf.size(at)], i))
        b, s, k = tf.concat(bs, 0), tf.concat(ss, 0), tf.concat(cs, 0)
        n = tf.minimum(tf.size(s), 5)
        top, at = tf.math.top_k(s, n)
        return tf.gather(b, at), top, tf.gather(k, at), n
    return f, {'boxes': ((a, 4), F32), 'scores': ((a, c), F32)}


def roi_pooling(r):
    """Each region's maximum by slices whose bounds data choose, in map_fn."""
    c = num(r, 1, 4)

    def f(x, at):
        h, w = tf.shape(x)[0], tf.shape(x)[1]

        def one(b):
            y0, x0 = b[0] % h, b[1] % w
            y1, x1 = tf.minimum(y0 + 1 + b[2], h), tf.minimum(x0 + 1 + b[3], w)
            return tf.reduce_max(x[y0:y1, x0:x1], [0, 1])
        return (tf.map_fn(one, at, fn_output_signature=F32),)
    return f, {'x': (('h', 'w', c), F32), 'at': (('h', 4), I32)}


# ---- images ----

def pyramid(r):
    """An image resized to halves of its size several times, and back, features joined."""
    c = num(r, 2, 4)
    w = weights(r, 3, 3, 3, c)

    def f(x):
        size = tf.shape(x)[1:3]
        total = 0.
        y = x
        for i in range(3):
            z = tf.nn.relu(tf.nn.conv2d(y, w, 1, 'SAME'))
            total = total + tf.image.resize(z, size)
            y = tf.image.resize(y, tf.maximum(tf.shape(y)[1:3] // 2, 1))
        return total, y
    return f, {'x': (('n', 'h', 'w', 3), F32)}


def nearest(r):
    def f(x):
        size = tf.shape(x)[1:3]
        return tf.image.resize(x, size * 2, 'nearest'), tf.image.resize(x, [7, 5]), tf.image.resize(x, size + 3, 'bicubic')
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def unet(r):
    """Padded to a multiple of 4 by computed amounts, pooled, transposed convolutions, cropped."""
    c = num(r, 2, 4)
    a, b, d, e = weights(r, 3, 3, 2, c), weights(r, 3, 3, c, c), weights(r, 2, 2, c, c), weights(r, 3, 3, 2 * c, 2)

    def f(x):
        n, h, w = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]
        p = tf.pad(x, [[0, 0], [0, -h % 4], [0, -w % 4], [0, 0]])
        y = tf.nn.relu(tf.nn.conv2d(p, a, 1, 'SAME'))
        z = tf.nn.relu(tf.nn.conv2d(tf.nn.max_pool2d(y, 2, 2, 'SAME'), b, 1, 'SAME'))
        s = tf.shape(y)
        u = tf.nn.conv2d_transpose(z, d, [n, s[1], s[2], c], 2, 'SAME')
        o = tf.nn.conv2d(tf.concat([y, u], -1), e, 1, 'SAME')
        return (o[:, :h, :w],)
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def unet_keras(r):
    keras.backend.clear_session()
    i = keras.Input((None, None, 2))
    a = layers.Conv2D(3, 3, padding='same', activation='relu')(i)
    b = layers.Conv2D(4, 3, padding='same', activation='relu')(layers.MaxPooling2D()(a))
    u = layers.UpSampling2D()(b)
    t = layers.Conv2DTranspose(3, 3, strides=2, padding='same')(b)
    o = layers.Conv2D(1, 1, activation='sigmoid')(layers.Concatenate()([u, t]))
    m = keras.Model(i, o)
    return lambda x: (m(x),), {'x': (('n', 'h', 'w', 2), F32)}


def patches(r):
    def f(x):
        y = tf.image.extract_patches(x, [1, 4, 4, 1], [1, 4, 4, 1], [1, 1, 1, 1], 'VALID')
        z = tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], 'SAME')
        return y, tf.reshape(y, [tf.shape(x)[0], -1, 48]), z
    return f, {'x': (('n', 'h', 'w', 3), F32)}


def vit(r):
    """Patches of an open image as tokens, with interpolated positions."""
    d = 8
    w, pos, q, k, v = weights(r, 4, 4, 3, d), weights(r, 1, 3, 3, d), weights(r, d, d), weights(r, d, d), weights(r, d, d)
    cls = weights(r, 1, 1, d)

    def f(x):
        y = tf.nn.conv2d(x, w, 4, 'VALID')
        y = y + tf.image.resize(pos, tf.shape(y)[1:3])
        n = tf.shape(y)[0]
        y = tf.concat([tf.tile(cls, [n, 1, 1]), tf.reshape(y, [n, -1, d])], 1)
        a = tf.nn.softmax(tf.matmul(tf.tensordot(y, q, 1), tf.tensordot(y, k, 1), transpose_b=True) / d ** .5)
        y = y + a @ tf.tensordot(y, v, 1)
        return y[:, 0], tf.reduce_mean(y[:, 1:], 1)
    return f, {'x': (('n', 'h', 'w', 3), F32)}


def swin(r):
    """Windows of an image padded to a multiple, shifted by roll, attention in each."""
    d, s = 4, 4
    q, k = weights(r, d, d), weights(r, d, d)

    def f(x):
        n, h, w = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]
        x = tf.pad(x, [[0, 0], [0, -h % s], [0, -w % s], [0, 0]])
        hh, ww = tf.shape(x)[1], tf.shape(x)[2]
        x = tf.roll(x, [-2, -2], [1, 2])
        t = tf.reshape(tf.transpose(tf.reshape(x, [n, hh // s, s, ww // s, s, d]), [0, 1, 3, 2, 4, 5]), [-1, s * s, d])
        a = tf.nn.softmax(tf.matmul(tf.tensordot(t, q, 1), tf.tensordot(t, k, 1), transpose_b=True))
        t = a @ t
        t = tf.reshape(tf.transpose(tf.reshape(t, [n, hh // s, ww // s, s, s, d]), [0, 1, 3, 2, 4, 5]), [n, hh, ww, d])
        return (tf.roll(t, [2, 2], [1, 2])[:, :h, :w],)
    return f, {'x': (('n', 'h', 'w', d), F32)}


def histogram(r):
    def f(x, ids):
        y, at, count = tf.unique_with_counts(ids)
        return (y, at, count, tf.math.bincount(ids, minlength=10, maxlength=10), tf.histogram_fixed_width(x, [-1., 1.], 7),
                tf.math.unsorted_segment_mean(x, at, tf.size(y)), tf.gather(y, tf.argmax(count)))
    return f, {'x': (('t',), F32), 'ids': (('t',), I32)}


def crop_centre(r):
    """A central crop of computed bounds, flips, and normalisation of each image."""
    def f(x):
        h, w = tf.shape(x)[1], tf.shape(x)[2]
        s = tf.minimum(h, w)
        y = x[:, (h - s) // 2:(h - s) // 2 + s, (w - s) // 2:(w - s) // 2 + s]
        y = tf.image.resize(y, [8, 8])
        return y, tf.image.flip_left_right(y), tf.image.per_image_standardization(x), tf.image.resize_with_crop_or_pad(x, 12, 12)
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def letterbox(r):
    def f(x):
        return (tf.image.resize_with_pad(x, 16, 16), tf.image.central_crop(x, .5))
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def saliency(r):
    """Soft argmax of heatmaps, positions of maxima by reshape, sampling there."""
    c = num(r, 1, 4)

    def f(x):
        n, h, w = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]
        flat = tf.reshape(x, [n, h * w, c])
        at = tf.argmax(flat, 1, output_type=I32)
        p = tf.reshape(tf.nn.softmax(flat, 1), [n, h, w, c])
        ys = tf.reduce_sum(p * tf.cast(tf.range(h), F32)[:, None, None], [1, 2])
        xs = tf.reduce_sum(p * tf.cast(tf.range(w), F32)[:, None], [1, 2])
        top, where = tf.math.top_k(tf.transpose(flat, [0, 2, 1]), 3)
        return at // w, at % w, ys, xs, top, where
    return f, {'x': (('n', 'h', 'w', c), F32)}


def centernet(r):
    """Peaks by max pooling, top k of them over open heights and widths, gathers of offsets."""
    c = num(r, 1, 3)

    def f(heat, off):
        n, h, w = tf.shape(heat)[0], tf.shape(heat)[1], tf.shape(heat)[2]
        peak = tf.nn.max_pool2d(heat, 3, 1, 'SAME')
        s = tf.where(tf.equal(peak, heat), heat, 0.)
        v, at = tf.math.top_k(tf.reshape(s, [n, -1]), 5)
        cls, pos = at % c, at // c
        y, x = pos // w, pos % w
        o = tf.gather(tf.reshape(off, [n, h * w, 2]), pos, batch_dims=1)
        return v, cls, tf.cast(tf.stack([y, x], -1), F32) + o
    return f, {'heat': (('n', 'h', 'w', c), F32), 'off': (('n', 'h', 'w', 2), F32)}


# ---- control flow ----

def map_map(r):
    """map_fn of map_fn over open sizes; the inner one over rows and columns with a list of its own."""
    w = weights(r, 3, 2)

    def f(x):
        return (tf.map_fn(lambda a: tf.map_fn(lambda e: tf.tanh(e @ w), a), x),
                tf.map_fn(lambda a: tf.map_fn(tf.reduce_sum, a), x))
    return f, {'x': (('n', 'k', 4, 3), F32)}


def map_mask(r):
    """map_fn in map_fn: what a mask selects in each row."""
    def f(x):
        def row(a):
            kept = tf.boolean_mask(a, a > 0)
            return tf.reduce_sum(tf.map_fn(lambda e: tf.tanh(e) * 2, kept)), tf.size(kept)
        return tf.map_fn(row, x, fn_output_signature=(F32, I32))
    return f, {'x': (('n', 'k'), F32)}


def scan_lists(r):
    """scan with several carries, forwards and backwards."""
    d = num(r, 1, 4)

    def f(x):
        a, b = tf.scan(lambda c, e: (c[0] * .5 + e, tf.maximum(c[1], e)), x, (tf.zeros([d]), tf.fill([d], -9.)))
        return a, b, tf.scan(lambda c, e: c * .3 + e, x, reverse=True), tf.foldr(lambda c, e: tf.tanh(c + e), x)
    return f, {'x': (('t', d), F32)}


def cond_lists(r):
    """Branches that write one list or another."""
    d = num(r, 1, 4)

    def f(x):
        k = tf.shape(x)[0]

        def body(i, a, b):
            def yes():
                return a.write(i, x[i] * 2), b

            def no():
                return a.write(i, -x[i]), b.write(i, x[i])
            a, b = tf.cond(x[i, 0] > 0, yes, no)
            return i + 1, a, b
        a, b = tf.TensorArray(F32, k, element_shape=[d]), tf.TensorArray(F32, k, element_shape=[d])
        for_b = tf.zeros([k, d])
        b = b.unstack(for_b)
        _, a, b = tf.while_loop(lambda i, *_: i < k, body, (0, a, b))
        return a.stack(), b.stack()
    return f, {'x': (('t', d), F32)}


def switching(r):
    """switch_case and case with results of computed sizes."""
    def f(x, at):
        i = tf.reduce_sum(at) % 3
        a = tf.switch_case(i, [lambda: x * 2, lambda: tf.nn.softmax(x), lambda: tf.cumsum(x, 1)])
        b = tf.case([(tf.reduce_sum(x) > 0, lambda: x[:, :1]), (tf.reduce_max(x) > 1, lambda: x[:, -2:])], default=lambda: x, exclusive=False)
        return a, b, tf.shape(b)
    return f, {'x': (('n', 'k'), F32), 'at': (('n',), I32)}


def vectorized(r):
    w = weights(r, 3, 3)

    def f(x):
        return (tf.vectorized_map(lambda e: tf.nn.softmax(e @ w) * tf.reduce_max(e), x), tf.vectorized_map(lambda e: tf.cumsum(e[:, 0]), x))
    return f, {'x': (('n', 'k', 3), F32)}


def jacobian(r):
    """A row-wise Jacobian by gradients in a pfor."""
    w = weights(r, 3, 2)

    def f(x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.tanh(x @ w)
        return (t.batch_jacobian(y, x),)
    return f, {'x': (('n', 3), F32)}


def ragged_rows(r):
    """Rows of a ragged tensor: means, and as a dense tensor."""
    def f(values, lengths):
        lengths = tf.minimum(lengths, 5)
        total = tf.reduce_sum(lengths)
        k = tf.shape(values)[0]
        rt = tf.RaggedTensor.from_row_lengths(tf.gather(values, tf.range(total) % k), lengths)
        return tf.reduce_sum(rt, 1), rt.to_tensor(), tf.reduce_max(rt.row_lengths())
    return f, {'values': (('n',), F32), 'lengths': (('n',), I32)}


def segments_rows(r):
    """Bags of embeddings: ids with a segment each."""
    d = num(r, 1, 4)
    emb = weights(r, 10, d, scale=1)

    def f(ids, rows):
        rows = tf.sort(rows)
        e = tf.gather(emb, ids)
        return tf.math.segment_mean(e, rows), tf.math.unsorted_segment_sum(e, rows, 12), tf.math.segment_max(e, rows)
    return f, {'ids': (('t',), I32), 'rows': (('t',), I32)}


def collatz(r):
    """Loops of each element, as many iterations as its value needs; a list of the numbers of steps."""
    def f(x):
        def steps(v):
            return tf.while_loop(lambda a, i: a > 1, lambda a, i: (tf.where(a % 2 == 0, a // 2, 3 * a + 1), i + 1), (v + 1, 0))[1]
        return (tf.map_fn(steps, x),)
    return f, {'x': (('t',), I32)}


def grow_list(r):
    """A list without a bound: numbers until a sum is reached."""
    def f(x):
        def body(s, i, ta):
            return s + tf.abs(x[i % tf.shape(x)[0]]) + .1, i + 1, ta.write(i, s)
        s, i, ta = tf.while_loop(lambda s, i, ta: s < 5., body, (0., 0, tf.TensorArray(F32, 0, dynamic_size=True, element_shape=[])))
        return ta.stack(), s, i
    return f, {'x': (('k',), F32)}


def gradient_loop(r):
    """Steps of gradient descent on an input, through a loop."""
    w = weights(r, 4, 3)

    def f(x):
        def body(i, z):
            with tf.GradientTape() as t:
                t.watch(z)
                l = tf.reduce_sum(tf.square(tf.tanh(z @ w) - .3))
            return i + 1, z - .1 * t.gradient(l, z)
        return (tf.while_loop(lambda i, z: i < 4, body, (0, x))[1],)
    return f, {'x': (('n', 4), F32)}


def gradient_through(r):
    """The gradient of a loop by its input."""
    w = weights(r, 4, 4)

    def f(x):
        with tf.GradientTape() as t:
            t.watch(x)
            h = tf.while_loop(lambda i, h: i < tf.shape(x)[1], lambda i, h: (i + 1, tf.tanh(h @ w + x[:, i])), (0, tf.zeros([tf.shape(x)[0], 4])))[1]
            l = tf.reduce_sum(h * h)
        return l, t.gradient(l, x)
    return f, {'x': (('n', 'k', 4), F32)}


def attention_decoder_train(r):
    """Teacher forcing: loss of a decoder over shifted targets, masked by lengths."""
    d, v = num(r, 3, 6), num(r, 4, 8)
    emb, wh, out = weights(r, v, d, scale=1), weights(r, d, d), weights(r, d, v)

    def f(x, y):
        mem = tf.gather(emb, x % v)
        inp = tf.concat([tf.zeros([tf.shape(y)[0], 1], I32), y[:, :-1] % v], 1)
        q = tf.tensordot(tf.gather(emb, inp), wh, 1)
        s = tf.matmul(q, mem, transpose_b=True) + tf.where(x == 0, -1e9, 0.)[:, None]
        o = tf.tensordot(tf.nn.softmax(s) @ mem + q, out, 1)
        mask = tf.cast(y > 0, F32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y % v, o)
        return tf.reduce_sum(loss * mask) / tf.maximum(tf.reduce_sum(mask), 1.), o
    return f, {'x': (('n', 'k'), I32), 'y': (('n', 'k'), I32)}


def stft(r):
    """Frames of a signal by tf.signal.frame, windows, and power by real products (no FFT)."""
    b = weights(r, 8, 10)

    def f(x):
        fr = tf.signal.frame(x, 8, 4)
        fr2 = tf.signal.frame(x, 8, 4, pad_end=True)
        return tf.math.log(tf.square(fr2 @ b) + 1e-3), fr
    return f, {'x': (('n', 't'), F32)}


def overlap_add(r):
    def f(x):
        return (tf.signal.overlap_and_add(x, 2),)
    return f, {'x': (('n', 'k', 4), F32)}


def graph_net(r):
    """Message passing by edges: gathers, segment sums, of open numbers of nodes and edges."""
    d = num(r, 2, 5)
    w, u = weights(r, d, d), weights(r, 2 * d, d)

    def f(x, edges):
        k = tf.shape(x)[0]
        src, dst = edges[:, 0] % k, edges[:, 1] % k

        def body(i, h):
            m = tf.tanh(tf.gather(h, src) @ w)
            agg = tf.math.unsorted_segment_sum(m, dst, k)
            return i + 1, tf.tanh(tf.concat([h, agg], 1) @ u)
        h = tf.while_loop(lambda i, h: i < 3, body, (0, x))[1]
        deg = tf.math.bincount(dst, minlength=k, maxlength=k)
        return h, tf.reduce_mean(h, 0), deg, tf.math.unsorted_segment_mean(tf.gather(x, src), dst, k)
    return f, {'x': (('k', d), F32), 'edges': (('k', 2), I32)}


def relative_attention(r):
    """Relative positions by pad, reshape and slice (the skew of Transformer-XL)."""
    d, m = 4, 9
    table = weights(r, 2 * m - 1, d)

    def f(q):
        n, k = tf.shape(q)[0], tf.shape(q)[1]
        rel = tf.gather(table, tf.range(-k + 1, k) + m - 1)
        s = tf.einsum('nkd,rd->nkr', q, rel)
        p = tf.pad(s, [[0, 0], [0, 0], [0, 1]])
        flat = tf.pad(tf.reshape(p, [n, -1]), [[0, 0], [0, k - 1]])
        y = tf.reshape(flat, [n, k + 1, 2 * k - 1])[:, :k, k - 1:]
        pos = tf.range(k)[None] - tf.range(k)[:, None]
        bias = tf.gather(table, pos + m - 1)
        return y, tf.nn.softmax(y), tf.reduce_sum(bias, -1)
    return f, {'q': (('n', 'k', d), F32)}


def local_attention(r):
    """Blocks of an open length padded to a multiple; each attends to itself and its neighbours."""
    d, b = 4, 3

    def f(x):
        n, k = tf.shape(x)[0], tf.shape(x)[1]
        y = tf.pad(x, [[0, 0], [0, -k % b], [0, 0]])
        y = tf.reshape(y, [n, -1, b, d])
        z = tf.pad(y, [[0, 0], [1, 1], [0, 0], [0, 0]])
        ctx = tf.concat([z[:, :-2], z[:, 1:-1], z[:, 2:]], 2)
        a = tf.nn.softmax(tf.matmul(y, ctx, transpose_b=True))
        return (tf.reshape(a @ ctx, [n, -1, d])[:, :k],)
    return f, {'x': (('n', 't', d), F32)}


def rotary(r):
    d = 6

    def f(x):
        k = tf.shape(x)[1]
        inv = 1. / 100. ** (tf.range(0, d, 2, dtype=F32) / d)
        ang = tf.cast(tf.range(k), F32)[:, None] * inv
        a, b = x[..., ::2], x[..., 1::2]
        y = tf.stack([a * tf.cos(ang) - b * tf.sin(ang), a * tf.sin(ang) + b * tf.cos(ang)], -1)
        y = tf.reshape(y, tf.shape(x))
        causal = tf.linalg.band_part(tf.ones([k, k]), -1, 0)
        s = tf.matmul(y, y, transpose_b=True)
        return tf.nn.softmax(tf.where(causal > 0, s, -1e9)), y
    return f, {'x': (('n', 'k', d), F32)}


def mixture(r):
    """Experts by top-k routing: dispatch by one-hot, and by masks of rows."""
    d, e = num(r, 2, 5), 3
    gate, ws = weights(r, d, e, scale=1), [weights(r, d, d) for _ in range(e)]

    def f(x):
        p = tf.nn.softmax(x @ gate)
        top, at = tf.math.top_k(p, 2)
        y = tf.zeros_like(x)
        for i, w in enumerate(ws):
            rows = tf.where(tf.reduce_any(at == i, -1))[:, 0]
            part = tf.tanh(tf.gather(x, rows) @ w) * tf.gather(p[:, i], rows)[:, None]
            y = tf.tensor_scatter_nd_add(y, rows[:, None], part)
        parts = tf.dynamic_partition(x, at[:, 0], e)
        idx = tf.dynamic_partition(tf.range(tf.shape(x)[0]), at[:, 0], e)
        z = tf.dynamic_stitch(idx, [p @ w for p, w in zip(parts, ws)])
        return y, z, top
    return f, {'x': (('t', d), F32)}


def early_exit(r):
    """Layers until all rows are confident (adaptive computation)."""
    d = num(r, 2, 5)
    w, h = weights(r, d, d), weights(r, d, 1, scale=1)

    def f(x):
        n = tf.shape(x)[0]

        def body(i, x, p, acc):
            x = tf.tanh(x @ w) + x * .5
            halt = tf.sigmoid(x @ h)[:, 0]
            live = tf.cast(p < .9, F32)
            halt = halt * live
            return i + 1, x, p + halt, acc + halt[:, None] * x
        i, x, p, acc = tf.while_loop(lambda i, x, p, a: tf.reduce_any(p < .9) & (i < 30), body, (0, x, tf.zeros([n]), tf.zeros_like(x)))
        return acc, p, i
    return f, {'x': (('n', d), F32)}


def pad_batch(r):
    """Padding to the longest by computed paddings, to a minimum length by tf.cond."""
    def f(x):
        k = tf.shape(x)[1]
        y = tf.cond(k < 6, lambda: tf.pad(x, [[0, 0], [0, 6 - k], [0, 0]]), lambda: x)
        z = tf.pad(x, [[0, 0], [0, tf.maximum(6 - k, 0)], [0, 0]], constant_values=1.)
        return tf.reduce_max(y, 1), y, z
    return f, {'x': (('n', 'k', 2), F32)}


def top_p(r):
    """Nucleus filtering: sort, cumulative sums, masks, scatter back by the inverse permutation."""
    v = num(r, 4, 9)

    def f(x):
        order = tf.argsort(x, -1, direction='DESCENDING', stable=True)
        s = tf.gather(x, order, batch_dims=1)
        c = tf.cumsum(tf.nn.softmax(s), -1, exclusive=True)
        keep = tf.where(c < .7, s, -1e9)
        inverse = tf.argsort(order, -1)
        return tf.nn.softmax(tf.gather(keep, inverse, batch_dims=1)), tf.reduce_sum(tf.cast(c < .7, I32), -1)
    return f, {'x': (('n', v), F32)}


def lstm_dynamic(r):
    """A hand-written LSTM by lengths: steps behind each row's length hold its state; outputs into an array."""
    d, u = num(r, 2, 4), num(r, 2, 4)
    w, b = weights(r, d + u, 4 * u), weights(r, 4 * u)

    def f(x, lengths):
        n, k = tf.shape(x)[0], tf.shape(x)[1]

        def body(t, c, h, ta):
            i, j, fg, o = tf.split(tf.concat([x[:, t], h], 1) @ w + b, 4, 1)
            c2 = tf.sigmoid(fg) * c + tf.sigmoid(i) * tf.tanh(j)
            h2 = tf.sigmoid(o) * tf.tanh(c2)
            live = (t < lengths)[:, None]
            return t + 1, tf.where(live, c2, c), tf.where(live, h2, h), ta.write(t, tf.where(live, h2, 0.))
        t, c, h, ta = tf.while_loop(lambda t, *_: t < tf.minimum(k, tf.reduce_max(lengths)), body,
                                    (0, tf.zeros([n, u]), tf.zeros([n, u]), tf.TensorArray(F32, k, element_shape=[None, u])))
        return c, h, t, ta.stack()
    return f, {'x': (('n', 'k', d), F32), 'lengths': (('n',), I32)}


def tree(r):
    """A recursive reduction: halves of a list until one element is left."""
    d = num(r, 2, 4)
    w = weights(r, 2 * d, d)

    def f(x):
        def body(y):
            k = tf.shape(y)[0]
            even = k // 2 * 2
            pairs = tf.reshape(y[:even], [-1, 2 * d])
            return (tf.concat([tf.tanh(pairs @ w), y[even:]], 0),)
        return tf.while_loop(lambda y: tf.shape(y)[0] > 1, body, (x,), shape_invariants=(tf.TensorShape([None, d]),))[0],
    return f, {'x': (('t', d), F32)}


def stack_machine(r):
    """A stack in a tensor: pushes and pops by operations that the input states."""
    def f(ops, x):
        k = tf.shape(ops)[0]

        def body(i, top, stack):
            push = (ops[i] % 2 == 0) | (top < 2)
            a = x[i]
            s1 = tf.tensor_scatter_nd_update(stack, [[top]], [a])
            two = tf.maximum(top, 2)
            s2 = tf.tensor_scatter_nd_update(stack, [[two - 2]], [stack[two - 2] + stack[two - 1] * .5])
            return i + 1, tf.where(push, top + 1, top - 1), tf.where(push, s1, s2)
        _, top, stack = tf.while_loop(lambda i, *_: i < k, body, (0, 0, tf.zeros([48])))
        return top, stack[:top]
    return f, {'ops': (('t',), I32), 'x': (('t',), F32)}


def sorted_merge(r):
    def f(x, y):
        z = tf.sort(tf.concat([x, y], 0))
        med = z[tf.size(z) // 2]
        q = tf.gather(z, tf.cast(tf.cast(tf.size(z) - 1, F32) * .25, I32))
        return z, med, q, tf.searchsorted(z, x), tf.reduce_mean(tf.boolean_mask(z, z > med))
    return f, {'x': (('k',), F32), 'y': (('k',), F32)}


# ---- axes that a reshape joined of several open ones ----

def joined_places(r):
    """Places of extremes, and of what is selected, along such axes, and elements that are gathered by them."""
    def f(x):
        n = tf.shape(x)[0]
        y, z, a = tf.reshape(x, [n, -1]), tf.reshape(tf.transpose(x, [0, 2, 1]), [n, -1]), tf.reshape(x, [-1])
        best, at = tf.math.top_k(y, 3)
        found = tf.where(a > .5)
        return (tf.argmax(y, 1), tf.argmin(z, 1), tf.argmax(a), best, at, tf.gather(y, at, batch_dims=1), tf.gather(z, at[0], axis=1),
                tf.argsort(y, 1, stable=True), found, tf.gather_nd(a, found), tf.boolean_mask(z[0], z[0] > .1))
    return f, {'x': (('n', 'h', 'w'), F32)}


def joined_order(r):
    """Running sums, parts, elements and concatenations along such axes, which are outputs, too."""
    def f(x):
        y = tf.reshape(x, [tf.shape(x)[0], -1])
        return (y, tf.reshape(tf.transpose(x), [-1]), tf.cumsum(y, 1), tf.cumsum(y, 1, exclusive=True), y[:, -1], y[:, 5], y[:, 1:], y[:, ::3],
                y[:, -4:-1], tf.concat([y, y], 1), y[:, ::-1], tf.pad(y, [[0, 0], [1, tf.shape(x)[1]]]))
    return f, {'x': (('n', 'h', 'w'), F32)}


def joined_fixed(r):
    """A fixed size outside of an open one."""
    def f(x):
        a, b, y = tf.reshape(x, [-1]), tf.reshape(tf.transpose(x), [-1]), tf.reshape(x, [3, -1])
        return (a, b, y, tf.concat([a, [5.]], 0), tf.argmax(a), tf.argmin(b), tf.where(a > .2), tf.cumsum(a), tf.sort(a), a[::-1], a[-1])
    return f, {'x': ((3, 'w', 2), F32)}


def joined_boxes(r):
    """Boxes of each pixel, and distinct numbers."""
    def f(boxes, scores):
        boxes, scores = tf.reshape(boxes, [-1, 4]), tf.reshape(scores, [-1])
        at = tf.image.non_max_suppression(boxes, scores, 6, .3)
        y, place, count = tf.unique_with_counts(tf.reshape(tf.cast(scores * 3, I32), [-1]))
        return at, tf.gather(boxes, at), y, place, count
    return f, {'boxes': (('h', 'w', 3, 4), F32), 'scores': (('h', 'w', 3), F32)}


# ---- one op of images each ----

def mirrored(r):
    """Rolled around the ends, mirrored at the ends, filtered."""
    w = weights(r, 3, 3, 2, 3)

    def f(x):
        y = tf.pad(x, [[0, 0], [2, 1], [1, 3], [0, 0]], 'REFLECT')
        return (y, tf.pad(x, [[0, 0], [2, 1], [4, 3], [0, 0]], 'SYMMETRIC'), tf.nn.conv2d(y, w, 1, 'VALID'),
                tf.roll(x, [-2, 3], [1, 2]), tf.roll(x, 1, 0))
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def resized(r):
    """To multiples, halves, a fixed size, by each rule of where pixels are."""
    v1 = tf.compat.v1.image

    def f(x):
        s = tf.shape(x)[1:3]
        return (tf.image.resize(x, s * 2), tf.image.resize(x, [7, 5]), tf.image.resize(x, s * 2, 'nearest'), tf.image.resize(x, s * 3, 'nearest'),
                v1.resize_bilinear(x, s * 2 + 1, align_corners=True), v1.resize_bilinear(x, s // 2), v1.resize_nearest_neighbor(x, s * 5))
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def transposed(r):
    """Transposed convolutions, whose results are twice as high and wide."""
    same, inside = weights(r, 3, 3, 4, 2), weights(r, 2, 2, 4, 2)

    def f(x):
        s = tf.shape(x)
        shape = [s[0], s[1] * 2, s[2] * 2, 4]
        y = tf.nn.conv2d_transpose(x, same, shape, 2, 'SAME')
        return y, tf.nn.relu(tf.nn.conv2d_transpose(x, inside, shape, 2, 'VALID')) + y
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def counted(r):
    """How often numbers occur."""
    def f(ids):
        return tf.math.bincount(ids, minlength=10, maxlength=10), tf.math.bincount(ids, minlength=3, maxlength=3)
    return f, {'ids': (('t',), I32)}


def uneven(r):
    """Windows with strides and paddings over heights and widths that the run computes: cropped skips, resized images, padded ones."""
    a, b, c = weights(r, 3, 3, 2, 4), weights(r, 3, 3, 8, 3), weights(r, num(r, 2, 5), num(r, 1, 4), 2, 3)
    d, pad, rates = weights(r, 3, 3, 2, 2), str(r.choice(['SAME', 'VALID'])), num(r, 1, 2)

    def f(x):
        y = tf.nn.relu(tf.nn.conv2d(x, a, 1, 'SAME'))
        up = tf.repeat(tf.repeat(tf.nn.max_pool2d(y, 2, 2, 'SAME'), 2, 1), 2, 2)
        joined = tf.concat([y, up[:, :tf.shape(y)[1], :tf.shape(y)[2]]], -1)
        small = tf.image.resize(x, tf.shape(x)[1:3] // 2 + 1)
        even = tf.pad(x, [[0, 0], [0, -tf.shape(x)[1] % 4], [0, -tf.shape(x)[2] % 4], [0, 0]])
        return (tf.nn.conv2d(joined, b, 2, 'SAME') + tf.nn.conv2d(joined, b[1:2, 1:2], 2, 'SAME'), tf.nn.conv2d(small, c, [1, 2, 3, 1], pad),
                tf.nn.max_pool2d(small, 3, 2, 'SAME'), tf.nn.avg_pool2d(small, 3, 2, 'SAME'), tf.nn.avg_pool2d(small, 2, 2, 'VALID'),
                tf.nn.depthwise_conv2d(even, d, [1, 2, 2, 1], pad), tf.nn.conv2d(even, c, 1, 'SAME', dilations=rates),
                tf.image.extract_patches(small, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, rates, 1], pad))
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def undone(r):
    """Transposed convolutions to the size of an image whose convolution with a stride they undo, and blocks of pixels as channels."""
    k, s = num(r, 1, 5), num(r, 2, 3)
    w, v = weights(r, k, 3, 2, 3), weights(r, 3, k, 2, 3)

    def f(x):
        y, z = tf.nn.conv2d(x, w, s, 'SAME'), tf.nn.conv2d(x, v, 2, 'VALID')
        even = x[:, :tf.shape(x)[1] // 2 * 2, :tf.shape(x)[2] // 2 * 2]
        return (tf.nn.conv2d_transpose(y, w, tf.shape(x), s, 'SAME') + x, tf.nn.conv2d_transpose(z, v, tf.shape(x), 2, 'VALID'),
                tf.nn.depth_to_space(tf.concat([x, x * 2], -1), 2),
                tf.nn.space_to_depth(even, 2))
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def regions(r):
    """Boxes of open images, as many as data say, cut out by each method."""
    c, size, outside = num(r, 1, 3), [num(r, 1, 5), num(r, 2, 5)], float(r.choice([0, -1]))
    w = weights(r, 3, 3, 2, c)

    def f(x, boxes):
        y = tf.nn.conv2d(x, w, 2, 'SAME')
        of = tf.range(tf.shape(boxes)[0]) % tf.shape(x)[0]
        best = tf.where(boxes[:, 0] > .2)[:, 0]
        return (tf.image.crop_and_resize(y, boxes, of, size, extrapolation_value=outside),
                tf.image.crop_and_resize(x, tf.gather(boxes, best), tf.gather(of, best), size, 'nearest', outside))
    return f, {'x': (('n', 'h', 'w', 2), F32), 'y': (('n', 4), F32)}


def shifted(r):
    """Scores by relative places that a reshape shifts, as in Transformer-XL; halves of a vector; matrices with other diagonals."""
    d = num(r, 1, 6)
    w = weights(r, d, d)

    def f(x):
        n, k = tf.shape(x)[0], tf.shape(x)[1]
        s = tf.matmul(x @ w, x, transpose_b=True)
        p = tf.reshape(tf.pad(s, [[0, 0], [0, 0], [1, 0]]), [n, k + 1, k])[:, 1:]
        masked = tf.linalg.set_diag(s, tf.fill([n, k], -9.)) + p
        return tf.nn.softmax(masked) @ x, tf.linalg.diag_part(s) + tf.linalg.trace(s)[:, None], tf.eye(k), tf.reshape(x[..., :1], [-1, k, n]), tf.linalg.diag(x[..., 0])
    return f, {'x': (('n', 'e', d), F32)}


def sampled(r):
    """Noise in the shape of an open tensor."""
    seed = [num(r, 0, 99), num(r, 0, 99)]

    def f(x):
        noise = tf.random.stateless_normal(tf.shape(x), seed)
        keep = tf.random.stateless_uniform([tf.shape(x)[0], 3], seed) > .3
        return x + noise, tf.cast(keep, F32), tf.random.stateless_uniform(tf.shape(x)[1:], seed, 0, 9, I32)
    return f, {'x': (('n', 'k', 2), F32)}


def stated_length(r):
    """Arrays as long as data say, written in part and by branches; a loop of Python's form that leaves out steps."""
    d = num(r, 2, 5)
    w = weights(r, d, d)

    def f(x, ids):
        steps = tf.reduce_max(ids) + 1

        def body(i, h, out):
            h = tf.cond(tf.equal(i % 3, 0), lambda: tf.tanh(h @ w + x), lambda: h - x)
            return i + 1, h, tf.cond(i < 3, lambda: out.write(i, h), lambda: out)
        _, h, out = tf.while_loop(lambda i, *_: i < steps, body, (0, tf.zeros_like(x), tf.TensorArray(F32, steps, element_shape=[None, d])))
        return out.stack(), h
    return f, {'x': (('n', d), F32), 'ids': ((3,), I32)}


def walked_back(r):
    """Tokens and parents of beams until all have ended, at most as often as data say, and the walk back through as many steps."""
    d, v, b = num(r, 3, 6), num(r, 4, 7), num(r, 2, 3)
    emb, wh, out = weights(r, v, d, scale=1), weights(r, d, d), weights(r, d, v, scale=2)

    def f(x, ids):
        n, most = tf.shape(x)[0], tf.reduce_max(ids) + 1

        def body(i, tok, h, logp, ended, toks, parents):
            h = tf.tanh(tf.gather(emb, tf.reshape(tok, [-1])) + h @ wh)
            total = logp[:, :, None] + tf.reshape(tf.nn.log_softmax(h @ out), [n, b, v])
            logp, at = tf.math.top_k(tf.reshape(total, [n, b * v]), b)
            parent, tok = at // v, at % v
            flat = tf.reshape(parent + tf.range(n)[:, None] * b, [-1])
            return i + 1, tok, tf.gather(h, flat), logp, ended | tf.equal(tok, 0), toks.write(i, tok), parents.write(i, parent)
        arrays = [tf.TensorArray(I32, 0, dynamic_size=True, element_shape=[None, b]) for _ in range(2)]
        start = tf.tile(tf.constant([[0.] + [-1e9] * (b - 1)]), [n, 1])
        i, _, _, logp, _, toks, parents = tf.while_loop(
            lambda i, t, h, l, ended, *_: (i < most) & ~tf.reduce_all(ended), body,
            (0, tf.ones([n, b], I32), tf.repeat(tf.tanh(x @ wh), b, 0), start, tf.zeros([n, b], BOOL), *arrays))
        toks, parents = toks.stack(), parents.stack()

        def back(j, at, seq):
            return j - 1, tf.gather(parents[j], at, batch_dims=1), seq.write(j, tf.gather(toks[j], at, batch_dims=1))
        seq = tf.TensorArray(I32, i, element_shape=[None, b])
        return tf.while_loop(lambda j, *_: j >= 0, back, (i - 1, tf.tile(tf.range(b)[None], [n, 1]), seq))[2].stack(), logp
    return f, {'x': (('n', d), F32), 'ids': ((3,), I32)}


def mapped_in_branches(r):
    """map_fn over open rows and a loop, each in a branch of a loop."""
    def f(x):
        def body(i, s):
            def often():
                return tf.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, tf.sin(s)), (0, s))[1]

            def rows():
                return tf.map_fn(lambda row: tf.cond(tf.reduce_sum(row) > 0, lambda: row * 2, lambda: -row), s)
            return i + 1, tf.cond(tf.equal(i % 2, 0), often, rows)
        return tf.while_loop(lambda i, s: (i < 6) & (tf.reduce_max(tf.abs(s)) < 50), body, (0, x))
    return f, {'x': (('n', 'k'), F32)}


def no_elements(r):
    """Tensors without elements, reshaped and reduced."""
    def f(x):
        n = tf.shape(x)[0]
        none = tf.reshape(tf.sin(x)[:, :0] * x[:, :1], [n, 2, 0])
        return (tf.reduce_sum(none, 2), tf.reduce_max(tf.reshape(x[:, :0], [n, 0, 2]), 1), tf.concat([none, x[:, :2, None]], 2))
    return f, {'x': (('n', 6), F32)}


def failing_sides(r):
    """Sides of branches that fail whenever they run, for reasons that a compiler sees: a range, a slice, a reshape, an index; alone,
    behind an effect, in a branch, in a loop and in its condition."""
    c, late = tf.constant, num(r, 5, 9)

    def f(x):
        # TensorFlow does not see these numbers in bodies.
        start, rows, most = c(late), c([2, 3]), c(late + 8)
        fits = x[0, :2] * 2

        def of(y):
            return fits + tf.reduce_sum(y)

        def behind():
            with tf.control_dependencies([tf.debugging.assert_less(x, 9., summarize=3)]):
                return of(tf.reshape(x, rows))
        sides = [lambda: fits, lambda: fits - 1,
                 lambda: of(tf.cast(tf.range(start, 2), F32)), lambda: of(tf.slice(x, [0, start], [1, 1])),
                 lambda: of(tf.gather(x, start, axis=0)),
                 lambda: of(tf.raw_ops.StridedSlice(input=x, begin=[start], end=[most], strides=[1], shrink_axis_mask=1)), behind,
                 lambda: tf.cond(x[0, 1] > 0, lambda: of(tf.reshape(x, rows)), lambda: fits),
                 lambda: tf.while_loop(lambda i, y: i < tf.cast(x[0, 1] * 2, I32), lambda i, y: (i + 1, of(tf.reshape(x, rows)) + y), (0, fits))[1],
                 lambda: tf.while_loop(lambda i, y: tf.reduce_sum(tf.reshape(x, rows)) > 0, lambda i, y: (i + 1, y), (0, fits))[1],
                 lambda: tf.cond(x[0, 1] > 0, lambda: tf.cond(x[0, 2] > 0, lambda: of(tf.reshape(x, rows)), lambda: of(tf.reshape(x, rows * 2))), lambda: fits)]
        return tf.switch_case(tf.cast(x[0, 0] * 11, I32), sides), fits
    return f, {'x': ((4, 3), F32)}


def failing_loop(r):
    """Iterations that fail whenever they run, of a loop that need not run; what it carries keeps its shape, or has none that is known."""
    def f(x):
        to = tf.constant([2, 3])
        n = tf.cast(x[0, 0] > .5, I32)
        y, z = tf.while_loop(lambda i, y, z: i < n, lambda i, y, z: (i + 1, y + tf.reshape(x, to)[0], tf.reshape(x, to)[0]), (0, x[1], x[1]),
                             shape_invariants=(tf.TensorShape([]), tf.TensorShape([3]), tf.TensorShape([None])))[1:]
        return y, z * 2
    return f, {'x': ((4, 3), F32)}


def unequal_sides(r):
    """Branches and loops whose results have several extents, where all sizes are fixed."""
    w5, w7 = weights(r, 6, 5), weights(r, 6, 7)

    def f(x):
        taken, again = x[0, 0] > .25, x[1, 1] > .25
        pairs = ((tf.concat([x, x], 0), x), (tf.pad(x, [[1, 1], [0, 0]]), x), (tf.reshape(x, [3, 8]), x), (tf.gather(x, [0, 2]), x), (tf.tile(x, [2, 1]), x),
                 (x @ w5, x @ w7), (tf.ones([2, 3]), tf.ones([4, 3])), (tf.reduce_sum(x, 0, keepdims=True), x), (tf.transpose(x), x), (tf.split(x, 2)[0], x),
                 (tf.zeros([0, 6]), x))
        y = [tf.cond(taken, lambda a=a: tf.identity(a), lambda b=b: tf.identity(b)) for a, b in pairs]
        inside = [tf.cond(taken, lambda: tf.gather(x, [0, 2]) * 2, lambda: x @ w5 @ tf.transpose(w5)), tf.cond(taken, lambda: tf.tile(x, [3, 1]), lambda: x - 1),
                  tf.cond(taken, lambda: tf.cond(again, lambda: x[:2], lambda: tf.reshape(x, [2, 2, 6])[0]), lambda: x),
                  tf.switch_case(tf.cast(taken, I32) + tf.cast(again, I32), [lambda: x, lambda: tf.ones([1, 6]), lambda: tf.reverse(x, [0])[1:]])]
        loops = [tf.while_loop(lambda i, y: i < 3, body, (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 6])))[1]
                 for body in (lambda i, y: (i + 1, tf.concat([y, x], 0)), lambda i, y: (i + 1, y[1:]))]
        return (*y, *inside, *loops, *(tf.reduce_sum(v @ w5, 0) for v in inside + loops))
    return f, {'x': ((4, 6), F32)}


def shrunk_gradient(r):
    """The gradient of a loop that makes a vector shorter: only a run tells the shapes of what is added."""
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.tanh(y[:-1] + y[1:])), (0, tf.pad(x[:, 0], [[0, 3]])),
                              shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])))[1]
            loss = tf.reduce_sum(y * y)
        return loss, tape.gradient(loss, x)
    return f, {'x': (('n', 3), F32)}


def none_meets(r):
    """Tensors without elements that meet ones of computed sizes: these have to have no element, or one that is repeated."""
    def f(x):
        y = tf.boolean_mask(x[:, 0], x[:, 0] > 1.)
        z = tf.boolean_mask(x[:1], x[:1, 0] > 9.)
        return (tf.zeros([0]) + y[:1], tf.zeros([0, 3]) * z, tf.concat([tf.zeros([2, 0]), tf.reshape(x[:, :2], [2, -1])[:, :0]], 1),
                tf.zeros([0]) + tf.boolean_mask(x[:, 1], x[:, 1] > 1.4))
    return f, {'x': (('n', 3), F32)}


def contrastive(r):
    """Losses whose classes are the rows of a batch, or candidates of an open number, and their gradients."""
    d, c = num(r, 2, 5), num(r, 2, 6)
    w, v, u = weights(r, d, c), weights(r, d, c), weights(r, 3, d)

    def f(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            a, b = tf.math.l2_normalize(x @ w, 1), tf.math.l2_normalize(x @ v, 1)
            s = tf.matmul(a, b, transpose_b=True) / .1
            n, k = tf.shape(x)[0], tf.shape(y)[1]
            losses = (tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(n), s), tf.nn.softmax_cross_entropy_with_logits(tf.eye(n), s),
                      tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(n) % k, tf.einsum('nd,nkc,cd->nk', x, y, u)))
            loss = sum(tf.reduce_sum(e) for e in losses)
        return *losses, tape.gradient(loss, x)
    return f, {'x': (('n', d), F32), 'y': (('n', 'k', 3), F32)}


def quantised(r):
    """Numbers on grids, as training that knows of quantisation writes them."""
    most = [num(r, 1, 5) / 2 for _ in range(2)]
    grid = tf.quantization

    def f(x):
        y = grid.fake_quant_with_min_max_vars(x, -1., most[0], narrow_range=True)
        return y, grid.fake_quant_with_min_max_args(x, 0., 1.2), grid.fake_quant_with_min_max_vars_per_channel(x, [-1., -.5], most, 5), tf.reduce_sum(y, 1)
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def filtered(r):
    """A filter of Kalman's: inverses in a loop over steps of an open number, and in the rows that a map takes."""
    d, o = num(r, 2, 3), num(r, 1, 2)
    a, h = tf.eye(d) + weights(r, d, d, scale=.1), weights(r, o, d)

    def f(y):
        n = tf.shape(y)[0]

        def step(state, z):
            m, p = tf.linalg.matvec(a, state[0]), a @ state[1] @ tf.transpose(a) + .1 * tf.eye(d)
            gain = p @ tf.transpose(h) @ tf.linalg.inv(h @ p @ tf.transpose(h) + .2 * tf.eye(o))
            return m + tf.linalg.matvec(gain, z - tf.linalg.matvec(h, m)), (tf.eye(d) - gain @ h) @ p
        m, p = tf.foldl(step, tf.transpose(y, [1, 0, 2]), (tf.zeros([n, d]), tf.eye(d, batch_shape=[n])))
        return m, p, tf.map_fn(lambda q: tf.linalg.solve(q, tf.linalg.cholesky(q)) + tf.linalg.det(q), p)
    return f, {'y': (('n', 'k', o), F32)}


def products_of_rows(r):
    """A product in each row of a batch, which vectorized_map transposes by a condition."""
    d, c = num(r, 2, 5), num(r, 1, 5)
    w = weights(r, c, d)
    return lambda x: tf.vectorized_map(lambda v: (tf.linalg.matvec(w, v), tf.tanh(w @ v[:, None])), x), {'x': (('n', d), F32)}


def levels(r):
    """The best boxes of maps of several sizes, as many as each has, cut out of one of them."""
    w, boxes, scores = weights(r, 3, 3, 2, 4), weights(r, 3, 3, 4, 4), weights(r, 3, 3, 4, 1)

    def f(x):
        n = tf.shape(x)[0]
        y = tf.nn.conv2d(x, w, 2, 'SAME')
        best = []
        for m in (y, tf.nn.max_pool2d(y, 3, 3, 'SAME')):
            b, s = (tf.reshape(tf.nn.conv2d(m, k, 1, 'SAME'), [n, -1, k.shape[-1]]) for k in (boxes, scores))
            _, at = tf.math.top_k(s[..., 0], tf.minimum(3, tf.shape(s)[1]))
            best.append(tf.gather(tf.sigmoid(b), at, batch_dims=1))
        best = tf.concat(best, 1)
        of = tf.repeat(tf.range(n), tf.shape(best)[1])
        return best, tf.image.crop_and_resize(y, tf.reshape(best, [-1, 4]), of, [3, 2])
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def windows(r):
    """Attention within windows of images that are padded to whole windows, with an axis for those of one image."""
    c, w = num(r, 1, 4), num(r, 2, 4)

    def f(x):
        s = tf.shape(x)
        count = (s[1:3] + w - 1) // w
        y = tf.pad(x, [[0, 0], [0, count[0] * w - s[1]], [0, count[1] * w - s[2]], [0, 0]])
        y = tf.transpose(tf.reshape(y, [s[0], count[0], w, count[1], w, c]), [0, 1, 3, 2, 4, 5])
        y = tf.reshape(y, [-1, w * w, c])
        a = tf.reshape(tf.matmul(y, y, transpose_b=True), [-1, count[0] * count[1], w * w, w * w])
        y = tf.nn.softmax(tf.reshape(a + 1, [-1, w * w, w * w])) @ y
        y = tf.transpose(tf.reshape(y, [s[0], count[0], count[1], w, w, c]), [0, 1, 3, 2, 4, 5])
        return tf.reshape(y, [s[0], count[0] * w, count[1] * w, c])[:, :s[1], :s[2]],
    return f, {'x': (('n', 'h', 'w', c), F32)}


MODELS = {n: f for n, f in list(globals().items()) if callable(f) and getattr(f, '__module__', None) == __name__ and n not in ('weights', 'num', 'decode_boxes')}
