"""Further models as users write them, in the form of written_models.py: points, graphs, assignments, targets of detectors, decoders, flow,
sampling, sparse features."""
import numpy as np
import tensorflow as tf
from written_models import BOOL, F32, I32, num, weights


def point_net(r):
    """PointNet++: farthest points in a loop, balls of the nearest points, a shared net, a maximum."""
    s, k, d = num(r, 2, 3), num(r, 1, 2), num(r, 3, 6)
    w, u = weights(r, 3, d), weights(r, d, d)

    def f(x):
        n, m = tf.shape(x)[0], tf.shape(x)[1]

        def body(i, at, dist, picks):
            c = tf.gather(x, at, batch_dims=1)
            dist = tf.minimum(dist, tf.reduce_sum((x - c[:, None])**2, -1))
            return i + 1, tf.argmax(dist, 1, output_type=I32), dist, picks.write(i, at)
        _, _, _, picks = tf.while_loop(lambda i, *_: i < s, body, (0, tf.zeros([n], I32), tf.fill([n, m], 1e9), tf.TensorArray(I32, s, element_shape=[None])))
        at = tf.transpose(picks.stack())
        c = tf.gather(x, at, batch_dims=1)
        d2 = tf.reduce_sum(c**2, -1)[..., None] - 2 * tf.matmul(c, x, transpose_b=True) + tf.reduce_sum(x**2, -1)[:, None]
        _, near = tf.math.top_k(-d2, tf.minimum(k, m))
        g = tf.gather(x, near, batch_dims=1) - c[:, :, None]
        y = tf.nn.relu(tf.tensordot(tf.nn.relu(tf.tensordot(g, w, 1)), u, 1))
        return at, tf.reduce_max(y, 2), tf.reduce_max(y, [1, 2])
    return f, {'x': (('n', 'k', 3), F32)}


def edge_conv(r):
    """DGCNN: neighbours of each layer's own features, through an index of batch and row."""
    k, c = 2, num(r, 2, 4)
    ws = [weights(r, 6, c), weights(r, 2 * c, c)]

    def f(x):
        for w in ws:
            n, m = tf.shape(x)[0], tf.shape(x)[1]
            inner = tf.matmul(x, x, transpose_b=True)
            sq = tf.reduce_sum(x * x, -1, keepdims=True)
            adj = sq - 2 * inner + tf.transpose(sq, [0, 2, 1])
            at = tf.math.top_k(-adj, tf.minimum(k, m)).indices
            flat = tf.reshape(x, [-1, x.shape[-1]])
            nb = tf.gather(flat, at + tf.reshape(tf.range(n) * m, [-1, 1, 1]))
            mid = tf.tile(tf.expand_dims(x, 2), [1, 1, tf.shape(at)[2], 1])
            x = tf.reduce_max(tf.nn.leaky_relu(tf.tensordot(tf.concat([mid, nb - mid], -1), w, 1)), 2)
        return x, tf.reduce_max(x, 1)
    return f, {'x': (('n', 'k', 3), F32)}


def multiclass_nms(r):
    """tf.models' batch_multiclass_non_max_suppression: map_fn over images, a loop over classes, padded to a fixed number."""
    classes, most = num(r, 2, 3), num(r, 3, 6)

    def one(args):
        boxes, scores = args
        found = []
        for c in range(classes):
            at = tf.image.non_max_suppression(boxes, scores[:, c], most, .5, .2)
            found.append((tf.gather(boxes, at), tf.gather(scores[:, c], at), tf.fill([tf.size(at)], c)))
        b, s, c = (tf.concat(v, 0) for v in zip(*found))
        top, at = tf.math.top_k(s, tf.minimum(most, tf.size(s)))
        b, c = tf.gather(b, at), tf.gather(c, at)
        pad = most - tf.size(top)
        return (tf.ensure_shape(tf.pad(b, [[0, pad], [0, 0]]), [most, 4]), tf.ensure_shape(tf.pad(top, [[0, pad]]), [most]), tf.ensure_shape(tf.pad(c, [[0, pad]], constant_values=-1), [most]),
                tf.size(top))

    def f(boxes, scores):
        boxes = tf.concat([boxes[..., :2], boxes[..., :2] + tf.abs(boxes[..., 2:])], -1)
        return tf.map_fn(one, (boxes, tf.sigmoid(scores)), fn_output_signature=(F32, F32, I32, I32))
    return f, {'boxes': (('n', 'k', 4), F32), 'scores': (('n', 'k', classes), F32)}


def padded_nms(r):
    """Suppression of batches: tf.image.non_max_suppression_padded, in both ways."""
    most = num(r, 3, 6)

    def f(boxes, scores):
        boxes = tf.concat([boxes[..., :2], boxes[..., :2] + tf.abs(boxes[..., 2:])], -1)
        at, valid = tf.image.non_max_suppression_padded(boxes, scores, most, .5, .1, pad_to_max_output_size=True, sorted_input=False, canonicalized_coordinates=True)
        one = tf.map_fn(lambda a: tf.image.non_max_suppression_padded(a[0], a[1], most, .5, .1, pad_to_max_output_size=True), (boxes, scores), fn_output_signature=(I32, I32))
        return at, valid, *one
    return f, {'boxes': (('n', 'k', 4), F32), 'scores': (('n', 'k'), F32)}


def soft_nms(r):
    """Soft suppression in a loop: the best box left is taken, scores of those it overlaps decay."""
    def f(boxes, scores):
        lo, hi = boxes[:, :2], boxes[:, :2] + tf.abs(boxes[:, 2:])
        area = tf.reduce_prod(hi - lo, 1)

        def body(s, picks, values):
            at = tf.argmax(s, output_type=I32)
            inter = tf.reduce_prod(tf.nn.relu(tf.minimum(hi, hi[at]) - tf.maximum(lo, lo[at])), 1)
            iou = inter / (area + area[at] - inter + 1e-6)
            i = picks.size()
            picks, values = picks.write(i, at), values.write(i, s[at])
            s = s * tf.exp(-iou**2 / .5)
            return tf.tensor_scatter_nd_update(s, [[at]], [-1.]), picks, values
        _, picks, values = tf.while_loop(lambda s, *_: tf.reduce_any(s > .3), body,
                                         (tf.sigmoid(scores), tf.TensorArray(I32, 0, True, element_shape=[]), tf.TensorArray(F32, 0, True, element_shape=[])))
        at = picks.stack()
        return at, values.stack(), tf.gather(boxes, at)
    return f, {'boxes': (('k', 4), F32), 'scores': (('k',), F32)}


def target_assigner(r):
    """Anchors are matched with true boxes for each image; a scatter forces a match for each box."""
    d = num(r, 4, 7)
    anchors = tf.constant(np.sort(r.random((d, 2, 2)), 1).reshape(d, 4).astype('f4'))

    def f(boxes, count):
        def one(args):
            b, c = args
            b = b[:tf.minimum(c, tf.shape(b)[0])]
            b = tf.concat([b[:, :2], b[:, :2] + tf.abs(b[:, 2:]) + .1], 1)
            lo, hi = tf.maximum(b[:, None, :2], anchors[None, :, :2]), tf.minimum(b[:, None, 2:], anchors[None, :, 2:])
            inter = tf.reduce_prod(tf.nn.relu(hi - lo), -1)
            area = tf.reduce_prod(b[:, 2:] - b[:, :2], -1)[:, None] + tf.reduce_prod(anchors[:, 2:] - anchors[:, :2], -1)[None]
            iou = inter / (area - inter + 1e-5)

            def some():
                best, value = tf.argmax(iou, 0, output_type=I32), tf.reduce_max(iou, 0)
                match = tf.where(value > .3, best, -1)
                force = tf.one_hot(tf.argmax(iou, 1, output_type=I32), d, dtype=I32)
                forced = tf.reduce_max(force, 0) > 0
                match = tf.where(forced, tf.argmax(force, 0, output_type=I32), match)
                t = tf.gather(b, tf.maximum(match, 0))
                return match, tf.where((match >= 0)[:, None], t - anchors, 0.)
            return tf.cond(tf.shape(b)[0] > 0, some, lambda: (tf.fill([d], -1), tf.zeros([d, 4])))
        return tf.map_fn(one, (boxes, count), fn_output_signature=(I32, F32))
    return f, {'boxes': (('n', 'k', 4), F32), 'count': (('n',), I32)}


def detection_targets(r):
    """Mask R-CNN's training targets: positive and negative rois in each image, masks cut out, zeros behind them."""
    most = 6

    def f(rois, boxes, masks):
        def one(args):
            p, b, m = args
            p, b = (tf.concat([v[:, :2], v[:, :2] + tf.abs(v[:, 2:]) + .05], 1) for v in (p, b))
            keep = tf.where(tf.reduce_sum(tf.abs(b), 1) > .6)[:, 0]
            b, m = tf.gather(b, keep), tf.gather(m, keep, axis=2)
            lo, hi = tf.maximum(p[:, None, :2], b[None, :, :2]), tf.minimum(p[:, None, 2:], b[None, :, 2:])
            inter = tf.reduce_prod(tf.nn.relu(hi - lo), -1)
            iou = inter / (tf.reduce_prod(p[:, 2:] - p[:, :2], -1)[:, None] + tf.reduce_prod(b[:, 2:] - b[:, :2], -1)[None] - inter)
            best = tf.reduce_max(iou, 1)
            pos, neg = tf.where(best >= .2)[:, 0], tf.where(best < .2)[:, 0]
            pos = pos[:most // 2]
            neg = neg[:tf.cast(1.5 * tf.cast(tf.shape(pos)[0], F32), I32) + 1]
            pr = tf.gather(p, pos)
            of = tf.cond(tf.shape(b)[0] > 0, lambda: tf.argmax(tf.gather(iou, pos), 1), lambda: tf.cast(tf.constant([]), tf.int64))
            mm = tf.gather(tf.expand_dims(tf.transpose(m, [2, 0, 1]), -1), of)
            mm = tf.round(tf.image.crop_and_resize(mm, pr, tf.range(tf.shape(mm)[0]), [3, 3])[..., 0])
            out = tf.concat([pr, tf.gather(p, neg)], 0)[:most]
            pad = most - tf.shape(out)[0]
            return tf.ensure_shape(tf.pad(out, [(0, pad), (0, 0)]), [most, 4]), tf.pad(mm, [[0, most - tf.shape(mm)[0]], (0, 0), (0, 0)]), tf.shape(neg)[0]
        return tf.map_fn(one, (rois, boxes, masks), fn_output_signature=(F32, F32, I32))
    return f, {'rois': (('n', 'k', 4), F32), 'boxes': (('n', 'm', 4), F32), 'masks': (('n', 8, 7, 'm'), F32)}


def deep_fm(r):
    """Sparse features: embeddings of ids with weights, products of pairs, a sparse matrix by a dense one."""
    v, d = num(r, 5, 9), num(r, 2, 5)
    emb, lin, w = weights(r, v, d, scale=1), weights(r, v, 1), weights(r, d, 1)

    def f(x, values):
        ids = tf.sparse.from_dense(x)
        ids = tf.SparseTensor(ids.indices, ids.values % v, ids.dense_shape)
        ws = tf.SparseTensor(ids.indices, tf.gather_nd(values, ids.indices), ids.dense_shape)
        one = tf.nn.safe_embedding_lookup_sparse(emb, ids, ws, 'sum')
        sq = tf.nn.safe_embedding_lookup_sparse(emb**2, ids, None, 'mean')
        first = tf.nn.safe_embedding_lookup_sparse(lin, ids, None, 'sqrtn')
        s = tf.sparse.from_dense(tf.where(values > .5, values, 0.))
        dense = tf.sparse.sparse_dense_matmul(s, tf.tile(lin, [tf.shape(values)[1], 1])[:tf.shape(values)[1]])
        return tf.sigmoid(first + (.5 * (one**2 - sq)) @ w), dense, tf.sparse.to_dense(tf.sparse.softmax(s))
    return f, {'x': (('n', 'k'), I32), 'values': (('n', 'k'), F32)}


def crf_decode(r):
    """tfa's crf_decode and crf_log_norm: a cell over reversed sequences of given lengths, walked back."""
    c = num(r, 2, 5)
    trans = weights(r, c, c)

    def f(x, lengths):
        n, t = tf.shape(x)[0], tf.shape(x)[1]
        lengths = 1 + lengths % t
        first = x[:, 0]

        def multi():
            inputs = tf.transpose(x[:, 1:], [1, 0, 2])

            def step(i, score, back):
                s = score[:, :, None] + trans
                best = tf.reduce_max(s, 1) + inputs[i]
                valid = (i + 1 < lengths)[:, None]
                b = tf.where(valid, tf.argmax(s, 1, output_type=I32), tf.tile(tf.range(c)[None], [n, 1]))
                return i + 1, tf.where(valid, best, score), back.write(i, b)
            _, score, back = tf.while_loop(lambda i, *_: i < t - 1, step, (0, first, tf.TensorArray(I32, t - 1, element_shape=[None, c])))
            b = tf.reverse_sequence(tf.transpose(back.stack(), [1, 0, 2]), lengths - 1, 1)
            last = tf.argmax(score, 1, output_type=I32)
            tags = tf.scan(lambda s, q: tf.gather(q, s, batch_dims=1), tf.transpose(b, [1, 0, 2]), last)
            tags = tf.concat([last[:, None], tf.transpose(tags)], 1)
            return tf.reverse_sequence(tags, lengths, 1), tf.reduce_max(score, 1)

        def single():
            return tf.argmax(first, 1, output_type=I32)[:, None], tf.reduce_max(first, 1)
        tags, best = tf.cond(t > 1, multi, single)

        def forward(a, e):
            return tf.reduce_logsumexp(a[0][:, :, None] + trans, 1) * 1. + e, a[1] + 1
        alphas = tf.scan(forward, tf.transpose(x[:, 1:], [1, 0, 2]), (first, 0))[0]
        alphas = tf.concat([first[None], alphas], 0)
        norm = tf.reduce_logsumexp(tf.gather_nd(alphas, tf.stack([lengths - 1, tf.range(n)], 1)), 1)
        return tags, best, norm
    return f, {'x': (('n', 'k', c), F32), 'lengths': (('n',), I32)}


def moe(r):
    """A switch transformer's experts: capacity computed of the number of tokens, places by cumsum."""
    d, e = num(r, 2, 5), num(r, 2, 4)
    gate, wi, wo = weights(r, d, e), weights(r, e, d, 2 * d), weights(r, e, 2 * d, d)

    def f(x):
        n, t = tf.shape(x)[0], tf.shape(x)[1]
        tokens = tf.reshape(x, [-1, d])
        cap = tf.cast(tf.math.ceil(tf.cast(n * t, F32) * 1.25 / e), I32)
        p = tf.nn.softmax(tokens @ gate)
        top, at = tf.reduce_max(p, 1), tf.argmax(p, 1)
        mask = tf.one_hot(at, e)
        place = tf.cumsum(mask, 0, exclusive=True) * mask
        mask *= tf.cast(place < tf.cast(cap, F32), F32)
        at_place = tf.cast(tf.reduce_sum(place * mask, 1), I32)
        disp = mask[:, :, None] * tf.one_hot(at_place, cap)[:, None]
        inp = tf.einsum('tec,td->ecd', disp, tokens)
        out = tf.einsum('ech,ehd->ecd', tf.nn.relu(tf.einsum('ecd,edh->ech', inp, wi)), wo)
        y = tf.einsum('tec,ecd->td', disp * top[:, None, None], out)
        return tf.reshape(y, [n, t, d]), cap, tf.reduce_sum(mask, 0)
    return f, {'x': (('n', 'k', d), F32)}


def moe_loop(r):
    """Experts in a loop, each on the tokens that chose it, added back by scatter."""
    d, e = num(r, 2, 5), num(r, 2, 4)
    gate, w = weights(r, d, e), weights(r, e, d, d)

    def f(x):
        tokens = tf.reshape(x, [-1, d])
        top, at = tf.math.top_k(tf.nn.softmax(tokens @ gate), 2)
        top /= tf.reduce_sum(top, -1, keepdims=True)

        def body(i, y):
            here = tf.where(tf.equal(at, i))
            rows = here[:, 0]
            part = tf.nn.gelu(tf.gather(tokens, rows) @ w[i]) * tf.gather_nd(top, here)[:, None]
            return i + 1, tf.tensor_scatter_nd_add(y, rows[:, None], part)
        y = tf.while_loop(lambda i, y: i < e, body, (0, tf.zeros_like(tokens)))[1]
        return (tf.reshape(y, tf.shape(x)),)
    return f, {'x': (('n', 'k', d), F32)}


def halting(r):
    """Adaptive computation time: a loop until all positions have halted (universal transformer)."""
    d = num(r, 2, 5)
    w, p = weights(r, d, d), weights(r, d, 1)

    def f(x):
        s = tf.shape(x)[:2]

        def body(state, step, halt, rem, updates, prev):
            q = tf.sigmoid(tf.tensordot(state, p, 1)[..., 0] + 1)
            running = tf.cast(halt < 1., F32)
            new = tf.cast(halt + q * running > .9, F32) * running
            running = tf.cast(halt + q * running <= .9, F32) * running
            halt += q * running
            rem += new * (1 - halt)
            halt += new * rem
            updates += running + new
            u = (q * running + new * rem)[..., None]
            state = tf.tanh(tf.tensordot(state, w, 1) + tf.sin(step))
            return state, step + 1, halt, rem, updates, state * u + prev * (1 - u)
        z = tf.zeros(s)
        out = tf.while_loop(lambda a, step, halt, rem, u, b: tf.reduce_any((halt < .9) & (u < 8.)), body, (x, 0., z, z, z, tf.zeros_like(x)))
        return out[5], out[3], out[4], out[1]
    return f, {'x': (('n', 'k', d), F32)}


def spatial_transformer(r):
    """Bilinear sampling of a grid that a net computes, by gather_nd, over images of any size."""
    w = weights(r, 2, 6, scale=.2)

    def f(x):
        n, h, v = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]
        theta = tf.reshape(tf.reduce_mean(x, [1, 2]) @ w + [1, 0, 0, 0, 1, 0], [n, 2, 3])
        gx, gy = tf.meshgrid(tf.linspace(-1., 1., v), tf.linspace(-1., 1., h))
        grid = tf.stack([tf.reshape(gx, [-1]), tf.reshape(gy, [-1]), tf.ones([h * v])])
        g = theta @ tf.tile(grid[None], [n, 1, 1])
        px, py = ((g[:, a] + 1) * tf.cast(m - 1, F32) / 2 for a, m in ((0, v), (1, h)))
        x0, y0 = tf.floor(px), tf.floor(py)

        def pick(yy, xx):
            yi, xi = tf.clip_by_value(tf.cast(yy, I32), 0, h - 1), tf.clip_by_value(tf.cast(xx, I32), 0, v - 1)
            b = tf.tile(tf.range(n)[:, None], [1, h * v])
            return tf.gather_nd(x, tf.stack([b, yi, xi], -1))
        a, b = (px - x0)[..., None], (py - y0)[..., None]
        y = pick(y0, x0) * (1 - a) * (1 - b) + pick(y0, x0 + 1) * a * (1 - b) + pick(y0 + 1, x0) * (1 - a) * b + pick(y0 + 1, x0 + 1) * a * b
        return (tf.reshape(y, [n, h, v, 2]),)
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def optical_flow(r):
    """RAFT: all pairs of pixels, looked up around a flow that a loop refines; a cost volume of shifts."""
    c, rad = num(r, 2, 3), 1
    wf = weights(r, 3, 3, c, c)
    wu = weights(r, 3, 3, (2 * rad + 1)**2 + 2, 2, scale=.1)

    def f(a, b):
        fa, fb = tf.nn.conv2d(a, wf, 2, 'SAME'), tf.nn.conv2d(b, wf, 2, 'SAME')
        n, h, w = tf.shape(fa)[0], tf.shape(fa)[1], tf.shape(fa)[2]
        corr = tf.reshape(tf.matmul(tf.reshape(fa, [n, h * w, c]), tf.reshape(fb, [n, h * w, c]), transpose_b=True), [n * h * w, h, w, 1])
        ys, xs = tf.meshgrid(tf.range(h), tf.range(w), indexing='ij')
        base = tf.cast(tf.stack([ys, xs], -1), F32)[None]
        d = tf.cast(tf.reshape(tf.stack(tf.meshgrid(tf.range(-rad, rad + 1), tf.range(-rad, rad + 1), indexing='ij'), -1), [1, -1, 2]), F32)

        def body(i, flow):
            at = tf.reshape(base + flow, [-1, 1, 2]) + d
            q = tf.cast(tf.round(at), I32)
            inside = tf.reduce_all((q >= 0) & (q < tf.stack([h, w])), -1)
            q = tf.clip_by_value(q, 0, tf.stack([h, w]) - 1)
            v = tf.gather_nd(corr[..., 0], q, batch_dims=1) * tf.cast(inside, F32)
            v = tf.concat([tf.reshape(v, [n, h, w, (2 * rad + 1)**2]), flow], -1)
            return i + 1, flow + tf.tanh(tf.nn.conv2d(v, wu, 1, 'SAME'))
        flow = tf.while_loop(lambda i, _: i < 3, body, (0, tf.zeros([n, h, w, 2])))[1]
        p = tf.pad(fb, [[0, 0], [1, 1], [1, 1], [0, 0]])
        vol = tf.concat([tf.reduce_mean(fa * p[:, i:i + h, j:j + w], -1, keepdims=True) for i in range(3) for j in range(3)], -1)
        return flow, tf.nn.leaky_relu(vol), tf.image.resize(flow, tf.shape(a)[1:3]) * 2
    return f, {'a': (('n', 'h', 'w', c), F32), 'b': (('n', 'h', 'w', c), F32)}


def connected(r):
    """Labels of connected regions: maxima of neighbours until nothing changes, then boxes of the labels."""
    def f(x):
        mask = tf.cast(x[..., :1] > .4, F32)
        n, h, w = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]
        labels = tf.reshape(tf.range(1, n * h * w + 1, dtype=I32), [n, h, w, 1])
        start = tf.cast(labels, F32) * mask

        def body(a, _):
            b = tf.nn.max_pool2d(a, 3, 1, 'SAME') * mask
            return b, tf.reduce_any(tf.not_equal(a, b))
        out, _ = tf.while_loop(lambda a, more: more, body, (start, True))
        names, ids, count = tf.unique_with_counts(tf.reshape(tf.cast(out, I32), [-1]))
        ys = tf.reshape(tf.tile(tf.range(h)[None, :, None], [n, 1, w]), [-1])
        lo, hi = tf.math.unsorted_segment_min(ys, ids, tf.size(names)), tf.math.unsorted_segment_max(ys, ids, tf.size(names))
        some = names > 0
        return tf.boolean_mask(names, some), tf.boolean_mask(count, some), tf.boolean_mask(tf.stack([lo, hi], 1), some)
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def mcmc(r):
    """Hamiltonian steps with gradients in a loop within a loop; accepted where a number says so."""
    d = num(r, 2, 4)
    a = weights(r, d, d)

    def f(x, u):
        def energy(q):
            return .5 * tf.reduce_sum(tf.matmul(q, a)**2, -1) + .5 * tf.reduce_sum(q**2, -1)

        def grad(q):
            with tf.GradientTape() as t:
                t.watch(q)
                e = tf.reduce_sum(energy(q))
            return t.gradient(e, q)

        def step(i, q, accepted):
            p = tf.sin(q * 3 + tf.cast(i, F32))
            e0 = energy(q) + .5 * tf.reduce_sum(p**2, -1)

            def leap(j, q, p):
                p = p - .05 * grad(q)
                q = q + .1 * p
                return j + 1, q, p - .05 * grad(q)
            _, q1, p1 = tf.while_loop(lambda j, *_: j < 4, leap, (0, q, p))
            e1 = energy(q1) + .5 * tf.reduce_sum(p1**2, -1)
            ok = tf.math.log(tf.abs(u[:, i]) + 1e-3) < e0 - e1
            return i + 1, tf.where(ok[:, None], q1, q), accepted.write(i, ok)
        _, q, ok = tf.while_loop(lambda i, *_: i < tf.shape(u)[1], step, (0, x, tf.TensorArray(BOOL, tf.shape(u)[1], element_shape=[None])))
        return q, tf.transpose(ok.stack())
    return f, {'x': (('n', d), F32), 'u': (('n', 'k'), F32)}


def neural_ode(r):
    """Runge-Kutta with steps that the error chooses, until the end of time; times and states in arrays."""
    d = num(r, 2, 4)
    w = weights(r, d, d)

    def f(x):
        g = lambda t, y: tf.tanh(y @ w) - .1 * y * tf.sin(t)

        def body(t, y, h, ys, i):
            k1 = g(t, y)
            k2 = g(t + h / 2, y + h / 2 * k1)
            k3 = g(t + h * .75, y + .75 * h * k2)
            new = y + h / 9 * (2 * k1 + 3 * k2 + 4 * k3)
            k4 = g(t + h, new)
            err = tf.reduce_max(tf.abs(h * (-5 / 72 * k1 + k2 / 12 + k3 / 9 - k4 / 8)))
            ok = err < 1e-3
            grown = tf.clip_by_value(h * .9 * (1e-3 / (err + 1e-9))**(1 / 3), h * .2, h * 3)
            ys = tf.cond(ok, lambda: ys.write(i, new), lambda: ys)
            return tf.where(ok, t + h, t), tf.where(ok, new, y), tf.minimum(grown, 1.001 - t), ys, tf.where(ok, i + 1, i)
        t, y, h, ys, i = tf.while_loop(lambda t, *_: t < 1., body, (0., x, .3, tf.TensorArray(F32, 0, True, element_shape=[None, d]), 0), maximum_iterations=60)
        return y, i, ys.stack()[-1]
    return f, {'x': (('n', d), F32)}


def boosted_trees(r):
    """Trees as tables of features, thresholds and children: a loop until all rows are in leaves."""
    trees, nodes, feats = num(r, 2, 4), 15, num(r, 2, 5)
    feat = tf.constant(r.integers(0, feats, (trees, nodes)).astype('i4'))
    thr, leaf = weights(r, trees, nodes, scale=.5), weights(r, trees, nodes)
    i = np.arange(nodes)
    left = tf.constant(np.tile(np.where(2 * i + 1 < nodes, 2 * i + 1, -1), (trees, 1)).astype('i4'))

    def f(x):
        n = tf.shape(x)[0]
        tr = tf.tile(tf.range(trees)[None], [n, 1])

        def body(at):
            ix = tf.stack([tr, at], -1)
            v = tf.gather(x, tf.gather_nd(feat, ix), batch_dims=1)
            lc = tf.gather_nd(left, ix)
            return (tf.where(lc < 0, at, tf.where(v < tf.gather_nd(thr, ix), lc, lc + 1)),)
        at, = tf.while_loop(lambda at: tf.reduce_any(tf.gather_nd(left, tf.stack([tr, at], -1)) >= 0), body, (tf.zeros([n, trees], I32),))
        return at, tf.reduce_sum(tf.gather_nd(leaf, tf.stack([tr, at], -1)), 1)
    return f, {'x': (('n', feats), F32)}


def graph_attention(r):
    """GAT: softmax over the edges of each node, several heads, pooled by the graph of each node."""
    d, heads = num(r, 2, 4), 2
    w, a, b = weights(r, d, heads * d), weights(r, heads, d), weights(r, heads, d)

    def f(x, edges, graph):
        k = tf.shape(x)[0]
        src, dst = edges[:, 0] % k, edges[:, 1] % k
        h = tf.reshape(x @ w, [-1, heads, d])
        e = tf.nn.leaky_relu(tf.gather(tf.reduce_sum(h * a, -1), src) + tf.gather(tf.reduce_sum(h * b, -1), dst))
        e = tf.exp(e - tf.gather(tf.math.unsorted_segment_max(e, dst, k), dst))
        e = e / (tf.gather(tf.math.unsorted_segment_sum(e, dst, k), dst) + 1e-9)
        y = tf.math.unsorted_segment_sum(e[..., None] * tf.gather(h, src), dst, k)
        y = tf.nn.elu(tf.reshape(y, [-1, heads * d]))
        g = tf.sort(graph)
        return y, tf.math.segment_mean(y, g), tf.math.segment_max(y, g), tf.math.unsorted_segment_mean(y, graph, tf.reduce_max(graph) + 1)
    return f, {'x': (('k', d), F32), 'edges': (('e', 2), I32), 'graph': (('k',), I32)}


def lsh_attention(r):
    """Reformer: hashes by random rotations, a stable sort by bucket, attention in chunks, sorted back."""
    d, chunk = num(r, 2, 4) * 2, 3
    rot = weights(r, d, 2)

    def f(x):
        n, t = tf.shape(x)[0], tf.shape(x)[1]
        pad = -t % chunk
        y = tf.pad(x, [[0, 0], [0, pad], [0, 0]])
        u = t + pad
        hr = tf.tensordot(y, rot, 1)
        bucket = tf.argmax(tf.concat([hr, -hr], -1), -1, output_type=I32)
        order = tf.argsort(bucket * u + tf.range(u)[None], axis=-1)
        undo = tf.argsort(order, axis=-1)
        s = tf.reshape(tf.gather(y, order, batch_dims=1), [n, -1, chunk, d])
        prev = tf.concat([s[:, -1:], s[:, :-1]], 1)
        kv = tf.concat([s, prev], 2)
        p = tf.nn.softmax(tf.matmul(s, tf.math.l2_normalize(kv, -1), transpose_b=True))
        o = tf.reshape(p @ kv, [n, u, d])
        return tf.gather(o, undo, batch_dims=1)[:, :t], order
    return f, {'x': (('n', 'k', d), F32)}


def glimpses(r):
    """Recurrent attention: glimpses whose places the state chooses, by slices of padded images."""
    g, d = 4, num(r, 3, 6)
    wg, wh, wl = weights(r, g * g * 2, d), weights(r, d, d), weights(r, d, 2)

    def f(x):
        n, h, w = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]

        def cut(a):
            im, at = a
            return tf.slice(im, [at[0], at[1], 0], [g, g, 2])

        def body(i, s, loc, seen):
            at = tf.cast(tf.round((loc + 1) / 2 * tf.cast(tf.stack([h - g, w - g]), F32)), I32)
            p = tf.map_fn(cut, (x, at), fn_output_signature=F32)
            s = tf.tanh(tf.reshape(p, [n, g * g * 2]) @ wg + s @ wh)
            return i + 1, s, tf.tanh(s @ wl), seen.write(i, at)
        _, s, _, seen = tf.while_loop(lambda i, *_: i < 3, body, (0, tf.zeros([n, d]), tf.zeros([n, 2]), tf.TensorArray(I32, 3, element_shape=[None, 2])))
        return s, seen.stack()
    return f, {'x': (('n', 'h', 'w', 2), F32)}



def vocoder(r):
    """Frames that a loop computes are added where they overlap."""
    fl, fs = 6, 3
    w = weights(r, fl, fl)

    def f(x):
        n = tf.shape(x)[0]
        fr = tf.signal.frame(x, fl, fs, pad_end=True)

        def body(i, fr):
            return i + 1, tf.tanh(tf.tensordot(fr, w, 1))
        _, fr = tf.while_loop(lambda i, _: i < 2, body, (0, fr))
        return (tf.signal.overlap_and_add(fr, fs),)
    return f, {'x': (('n', 't'), F32)}



def basic_decoder(r):
    """tf.contrib.seq2seq's dynamic_decode: arrays of outputs, finished rows copied through, lengths, attention with a mask."""
    d, v, most = num(r, 3, 6), num(r, 4, 7), num(r, 3, 7)
    emb, k, b = weights(r, v, d, scale=1), weights(r, 3 * d, 4 * d), weights(r, 4 * d)
    out, wm = weights(r, d, v, scale=2), weights(r, d, d)

    def f(mem, lengths):
        n, t = tf.shape(mem)[0], tf.shape(mem)[1]
        mask = tf.sequence_mask(1 + lengths % t, t)
        keys = tf.tensordot(tf.where(mask[..., None], mem, 0.), wm, 1)

        def cond(time, outs, ids, c, h, att, inp, done, lens):
            return ~tf.reduce_all(done)

        def body(time, outs, ids, c, h, att, inp, done, lens):
            z = tf.concat([inp, att, h], 1) @ k + b
            i, j, g, o = tf.split(z, 4, 1)
            nc = c * tf.sigmoid(g + 1) + tf.sigmoid(i) * tf.tanh(j)
            nh = tf.tanh(nc) * tf.sigmoid(o)
            score = tf.squeeze(tf.matmul(nh[:, None], keys, transpose_b=True), [1])
            al = tf.nn.softmax(tf.where(mask, score, tf.fill(tf.shape(score), -1e9)))
            na = tf.squeeze(al[:, None] @ mem, [1])
            logits = nh @ out
            tok = tf.argmax(logits, -1, output_type=I32)
            nd = tf.equal(tok, 1) | (time + 1 >= most)
            nd = nd | done
            keep = lambda a, b: tf.where(tf.expand_dims(done, 1), b, a)
            outs = outs.write(time, tf.where(done[:, None], tf.zeros_like(logits), logits))
            ids = ids.write(time, tf.where(done, tf.zeros_like(tok), tok))
            lens = tf.where(~done & nd, tf.fill(tf.shape(lens), time + 1), lens)
            return time + 1, outs, ids, keep(nc, c), keep(nh, h), keep(na, att), tf.gather(emb, tok), nd, lens
        z = tf.zeros([n, d])
        time, outs, ids, c, h, att, inp, done, lens = tf.while_loop(
            cond, body, (0, tf.TensorArray(F32, 0, True, element_shape=[None, v]), tf.TensorArray(I32, 0, True, element_shape=[None]), z, z, z,
                         tf.tile(emb[:1], [n, 1]), tf.zeros([n], BOOL), tf.zeros([n], I32)))
        return tf.transpose(outs.stack(), [1, 0, 2]), tf.transpose(ids.stack()), lens, h
    return f, {'mem': (('n', 'k', d), F32), 'lengths': (('n',), I32)}


def wavenet_queue(r):
    """Fast generation: a queue of states for each dilation, shifted by concatenation, in a loop."""
    d = num(r, 2, 4)
    dil = (1, 2, 4)
    ws = [weights(r, 2, d, d) for _ in dil]
    out, inn = weights(r, d, 1), weights(r, 1, d)

    def f(x, steps):
        n, k = tf.shape(x)[0], steps[0] % 7 + 1

        def body(i, s, qs, ys):
            h = s @ inn
            new = []
            for q, w in zip(qs, ws):
                new.append(tf.concat([q[:, 1:], h[:, None]], 1))
                h = h + tf.tanh(q[:, 0] @ w[0] + h @ w[1])
            y = tf.tanh(h @ out)
            return i + 1, y, tuple(new), ys.write(i, y)
        qs = tuple(tf.zeros([n, e, d]) for e in dil)
        _, _, qs, ys = tf.while_loop(lambda i, *_: i < k, body, (0, x[:, :1], qs, tf.TensorArray(F32, k, element_shape=[None, 1])))
        return tf.transpose(ys.stack(), [1, 0, 2]), qs[2]
    return f, {'x': (('n', 'k'), F32), 'steps': ((1,), I32)}


def keypoints(r):
    """Peaks of heat maps: parts grouped to the nearest centre, through a mask of the found ones."""
    parts, k = num(r, 2, 3), 3
    w = weights(r, 3, 3, 2, parts + 1)

    def f(x):
        n, h, v = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]
        m = tf.sigmoid(tf.nn.conv2d(x, w, 1, 'SAME'))
        m = m * tf.cast(tf.equal(m, tf.nn.max_pool2d(m, 3, 1, 'SAME')), F32)
        s, at = tf.math.top_k(tf.transpose(tf.reshape(m, [n, h * v, parts + 1]), [0, 2, 1]), k)
        yx = tf.cast(tf.stack([at // v, at % v], -1), F32)
        centre, found = yx[:, 0], s[:, :1]
        dist = tf.norm(yx[:, 1:, None] - centre[:, None, :, None] + 1e-3, axis=-1)
        near = tf.argmin(tf.where(s[:, 1:, None] > .5, dist, 1e6), -1, output_type=I32)
        kp = tf.gather(yx[:, 1:], near, batch_dims=2)
        who = tf.where(found[:, 0] > .5)
        return s, kp, who, tf.gather_nd(tf.transpose(kp, [0, 2, 1, 3]), who)
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def matching(r):
    """DETR: greedy assignment of queries to targets in a loop that removes rows and columns."""
    d = num(r, 2, 4)

    def f(q, t):
        cost = tf.reduce_sum(tf.abs(q[:, :, None] - t[:, None]), -1)
        n, a, b = tf.shape(cost)[0], tf.shape(cost)[1], tf.shape(cost)[2]

        def body(i, c, pairs):
            at = tf.argmin(tf.reshape(c, [n, -1]), 1, output_type=I32)
            y, x = at // b, at % b
            gone = tf.cast(tf.equal(tf.range(a)[None, :, None], y[:, None, None]) | tf.equal(tf.range(b)[None, None], x[:, None, None]), F32)
            return i + 1, c + gone * 1e6, tf.concat([pairs, tf.stack([y, x], 1)[:, None]], 1)
        pairs = tf.while_loop(lambda i, *_: i < tf.minimum(a, b), body, (0, cost, tf.zeros([n, 0, 2], I32)),
                              shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None, None]), tf.TensorShape([None, None, 2])))[2]
        loss = tf.reduce_mean(tf.abs(tf.gather(q, pairs[..., 0], batch_dims=1) - tf.gather(t, pairs[..., 1], batch_dims=1)))
        return pairs, loss
    return f, {'q': (('n', 'k', d), F32), 't': (('n', 'm', d), F32)}


def gaussian_process(r):
    """A kernel matrix of an open number of points, Cholesky's factor, solutions and variances."""
    d = num(r, 1, 3)

    def f(x, y, z):
        def kern(a, b):
            return tf.exp(-.5 * tf.reduce_sum((a[:, None] - b[None])**2, -1))
        l = tf.linalg.cholesky(kern(x, x) + .3 * tf.eye(tf.shape(x)[0]))
        al = tf.linalg.cholesky_solve(l, y)
        ks = kern(x, z)
        v = tf.linalg.triangular_solve(l, ks)
        return tf.transpose(ks) @ al, 1 - tf.reduce_sum(v**2, 0), 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(l)))
    return f, {'x': (('k', d), F32), 'y': (('k', 1), F32), 'z': (('m', d), F32)}


def hidden_markov(r):
    """Forward and backward messages by scans in both directions, posteriors, expected transitions."""
    s = num(r, 2, 4)
    tr = tf.nn.log_softmax(weights(r, s, s))

    def f(x):
        e = tf.transpose(tf.nn.log_softmax(x), [1, 0, 2])
        al = tf.scan(lambda a, o: tf.reduce_logsumexp(a[:, :, None] + tr, 1) + o, e[1:], e[0])
        al = tf.concat([e[:1], al], 0)
        be = tf.scan(lambda b, o: tf.reduce_logsumexp(tr[None] + (b + o)[:, None], 2), e[1:], tf.zeros_like(e[0]), reverse=True)
        be = tf.concat([be, tf.zeros_like(e[:1])], 0)
        post = tf.nn.softmax(al + be)
        xi = tf.reduce_sum(tf.nn.softmax(tf.reshape(al[:-1, :, :, None] + tr + (e + be)[1:, :, None], [tf.shape(e)[0] - 1, tf.shape(e)[1], s * s])), 0)
        return tf.transpose(post, [1, 0, 2]), xi, tf.reduce_logsumexp(al[-1], -1)
    return f, {'x': (('n', 'k', s), F32)}


def ragged_text(r):
    """Tokens of ragged rows: n-grams, means of embeddings, attention over a dense form, rows of a map."""
    v, d = num(r, 5, 9), num(r, 2, 4)
    emb = weights(r, v, d, scale=1)

    def f(ids, lengths):
        t = tf.shape(ids)[1]
        rows = tf.RaggedTensor.from_tensor(ids % v, lengths=lengths % (t + 1))
        e = tf.gather(emb, rows)
        mean = tf.reduce_sum(e, 1) / tf.cast(tf.maximum(rows.row_lengths(), 1), F32)[:, None]
        dense = e.to_tensor()
        mask = tf.sequence_mask(rows.row_lengths(), tf.shape(dense)[1])
        a = tf.nn.softmax(tf.where(mask, tf.einsum('nd,ntd->nt', mean, dense), -1e9))
        tail = rows[:, 1:]
        big = tf.ragged.boolean_mask(rows, rows > 1)
        return mean, tf.einsum('nt,ntd->nd', a, dense), tail.to_tensor(-1), big.row_lengths(), tf.reduce_max(rows + 1, 1), tf.concat([rows, rows * 2], 1).to_tensor()
    return f, {'ids': (('n', 'k'), I32), 'lengths': (('n',), I32)}


def joined_pixels(r):
    """Pixels of all rows as one axis: repeated, as a diagonal, as neighbours of each other."""
    w = weights(r, 3, 2, 4)

    def f(x):
        n, p = tf.shape(x)[0], tf.shape(x)[1] * tf.shape(x)[2]
        y = tf.reshape(x, [n, p, 2])
        a = tf.matmul(y, y, transpose_b=True)
        return (tf.broadcast_to(tf.range(n)[:, None], [n, p]), tf.broadcast_to(y[:, :1], [n, p, 2]) + y, tf.tile(tf.range(n)[:, None], [1, p]),
                tf.linalg.diag_part(a), tf.nn.conv1d(y, w, 1, 'SAME'), tf.nn.max_pool1d(y, 2, 2, 'SAME'))
    return f, {'x': (('n', 'h', 'w', 2), F32)}


def translator(r):
    """A transformer whose source and target have lengths of their own, with masks of padding and of what comes later."""
    v, heads, w = num(r, 5, 9), num(r, 1, 3), 2 * num(r, 1, 2)
    d = heads * w
    emb, out = weights(r, v, d, scale=1), weights(r, d, v)
    ws = [[weights(r, d, d) for _ in range(4)] for _ in range(3)]
    ff = [(weights(r, d, 2 * d), weights(r, 2 * d, d)) for _ in range(2)]

    def split(x):
        return tf.transpose(tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], heads, w]), [0, 2, 1, 3])

    def attend(q, m, ws, mask):
        a, b, c = (split(tf.tensordot(x, y, 1)) for x, y in zip((q, m, m), ws))
        p = tf.nn.softmax(tf.matmul(a, b, transpose_b=True) / w**.5 + (1 - mask) * -1e9)
        return tf.tensordot(tf.reshape(tf.transpose(p @ c, [0, 2, 1, 3]), tf.shape(q)), ws[3], 1)

    def norm(x):
        m, s = tf.nn.moments(x, [-1], keepdims=True)
        return (x - m) / tf.sqrt(s + 1e-3)

    def placed(ids):
        at = tf.cast(tf.range(tf.shape(ids)[1]), F32)[:, None] / tf.pow(100., tf.range(0, d, 2, dtype=F32) / d)
        return tf.gather(emb, ids) + tf.concat([tf.sin(at), tf.cos(at)], -1)

    def fed(x, ws):
        return norm(x + tf.tensordot(tf.nn.relu(tf.tensordot(x, ws[0], 1)), ws[1], 1))

    def f(source, target):
        there = tf.cast(source > 0, F32)[:, None, None]
        later = tf.linalg.band_part(tf.ones([tf.shape(target)[1]] * 2), -1, 0)
        x, y = placed(source % v), placed(target % v)
        x = fed(norm(x + attend(x, x, ws[0], there)), ff[0])
        y = norm(y + attend(y, y, ws[1], later))
        y = fed(norm(y + attend(y, x, ws[2], there)), ff[1])
        return tf.tensordot(y, out, 1), tf.reduce_mean(x, 1)
    return f, {'source': (('n', 'k'), I32), 'target': (('n', 'm'), I32)}


def alignment(r):
    """Attention of an encoder's steps for each step of a decoder in a loop, and the gradient by both."""
    d = num(r, 2, 4)
    w = weights(r, 2 * d, d)

    def f(x, y):
        def step(h, z):
            a = tf.nn.softmax(tf.einsum('nd,ntd->nt', h, x))
            return tf.tanh(tf.concat([tf.einsum('nt,ntd->nd', a, x), z], -1) @ w)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            h = tf.transpose(tf.scan(step, tf.transpose(y, [1, 0, 2]), tf.zeros_like(y[:, 0])), [1, 0, 2])
            loss = tf.reduce_sum(h**2)
        return h, *tape.gradient(loss, [x, y])
    return f, {'x': (('n', 'k', d), F32), 'y': (('n', 'm', d), F32)}


def clouds(r):
    """Two clouds of points: the nearest point of the other one, and pairs by index."""
    d = num(r, 1, 3)

    def f(x, y, pairs):
        c = tf.reduce_sum((x[:, None] - y[None])**2, -1)
        at = tf.stack([pairs[:, 0] % tf.shape(x)[0], pairs[:, 1] % tf.shape(y)[0]], 1)
        near = tf.argmin(c, 1, output_type=I32)
        return (tf.reduce_mean(tf.reduce_min(c, 1)) + tf.reduce_mean(tf.reduce_min(c, 0)), tf.gather(y, near), tf.gather_nd(c, at),
                tf.math.unsorted_segment_sum(x, near, tf.shape(y)[0]), tf.concat([x, y], 0))
    return f, {'x': (('k', d), F32), 'y': (('m', d), F32), 'pairs': (('e', 2), I32)}


def shrunk_rows(r):
    """The gradient by a matrix and a row that a loop broadcasts to fewer rows each time."""
    def f(x, b):
        with tf.GradientTape() as tape:
            tape.watch([x, b])
            h = tf.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, tf.tanh(h[1:] * b + x[:1])), [0, tf.concat([x, x, x], 0)],
                              shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])])[1]
            y = tf.reduce_sum(h**2)
        return y, *tape.gradient(y, [x, b])
    return f, {'x': (('n', 'k'), F32), 'b': ((1, 'k'), F32)}


def ranked(r):
    """Whether the class of each row is among the best of as many as there are; other numbers of rows stop both."""
    def f(scores, classes, rows, k):
        odd, all = tf.where(scores > 1.4, np.float32(np.inf), scores), tf.shape(scores)[1]
        return (tf.math.in_top_k(classes % all, scores, 2), tf.raw_ops.InTopKV2(predictions=scores, targets=classes, k=k[0]),
                tf.math.in_top_k(classes, tf.round(scores * 2), 1), tf.math.in_top_k(classes - 1, odd, 3),
                tf.math.in_top_k(tf.cast(rows, tf.int64), scores, 2))
    return f, {'scores': (('n', 'k'), F32), 'classes': (('n',), I32), 'rows': (('e',), I32), 'k': ((1,), I32)}


MODELS = {n: f for n, f in list(globals().items()) if callable(f) and getattr(f, '__module__', None) == __name__}
