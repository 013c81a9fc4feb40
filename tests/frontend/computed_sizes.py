#!/usr/bin/env python3
"""Models with sizes that the run computes from data: the elements that Where finds, masks, and values computed from
these.  The data are random, with none, some or all elements selected.  Results are compared with live TensorFlow's:
by `run`, an artefact, two threads, the cache, Python and under policies.  Nodes that cannot depend on data are
refused with the reason.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402
sys.path.insert(0, f'{environment.BUILD}/python')
from live import TOLERANCE, check_stops, close, freeze, np, run, tf, tool  # noqa: E402
from opened import in_order, make_net, run_in_arena, run_net, weights  # noqa: E402

F32 = tf.float32
ALIGNMENT = 64
POLICIES = {'force_fp16': 2e-2, 'allow_mix_precision_bf16': 1e-1}
NOT_ROUNDED = {'suppressed', 'best_of_each', 'detections', 'shaped', 'decoded'}  # where rounded scores and overlaps rightly select other boxes
NOT_CONVERTED = {'bodies', 'within', 'cut', 'grown'}  # loops take open sizes, so functions of their own are made for them (docs/sizes.md)
SELECT = {'fractions', 'nested', 'counted', 'mean', 'distinct', 'parted', 'joined', 'ranged', 'drawn', 'scattered', 'pieces', 'judged', 'bodies', 'within', 'grown', 'products', 'best', 'beams',
          'sliced', 'sparse', 'shaped'}
# SELECT: models that compare multiples of their inputs or make integers of them, with the same results in 16 bits


# ---- data: a given number of elements is above 0.5 ----

def mask_like(r, shape, share):
    """Numbers of which a share is above 0.5, far enough that no rounding to 16 bits matters."""
    chosen = r.random(shape) < share
    return np.where(chosen, r.uniform(.6, 2, shape), r.uniform(-2, .4, shape)).astype('f4')


def shape_of(r, rank):
    return tuple(int(n) for n in r.integers(1, 9, rank))


# ---- models: each returns a function of its inputs, and for each input its shape, in which extents
# that are texts are open ----

def vector(r):
    n = int(r.integers(1, 300))

    def f(x):
        at = tf.where(x > .5)
        return at, tf.squeeze(at, 1), tf.cast(at, F32) * 2 - 1
    return f, {'x': (n,)}


def any_rank(r):
    shapes = [shape_of(r, k) for k in range(1, 6)]

    def f(a, b, c, d, e):
        return tuple(tf.where(x > .5) for x in (a, b, c, d, e))
    return f, dict(zip('abcde', shapes))


def every_type(r):
    """Finds elements that are not zero, in each type; -0 is zero and NaN is not."""
    n = int(r.integers(4, 40))

    def f(x):
        y = tf.where(x > .5, x, -0. * x)
        y = tf.concat([tf.constant([np.nan, -0., 0., np.inf]), y], 0)
        whole = tf.cast(tf.where(x > .5, x * 40, 0.), tf.int32)
        types = tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int64, tf.bool
        return (tf.where(y), tf.where(tf.cast(y, tf.float64)),
                *(tf.where(tf.cast(whole, t)) for t in types))
    return f, {'x': (n,)}


def masked(r):
    n, k = int(r.integers(2, 60)), int(r.integers(1, 20))
    w, b = weights(r, k, 17), weights(r, 17)

    def f(x, score):
        mask = score > .5
        rows = tf.boolean_mask(x, mask)
        y = tf.nn.relu(rows @ w + b)
        kept = tf.boolean_mask(score, mask)
        return (rows, y, tf.nn.softmax(y) * kept[:, None], tf.reduce_sum(y, 0), tf.reduce_sum(rows * 3),
                tf.reduce_max(tf.nn.sigmoid(rows), 1), tf.boolean_mask(tf.transpose(x), mask, axis=1),
                tf.transpose(y) @ rows, tf.reduce_prod(1 + rows * 1e-3, 0), tf.concat([rows, y], 1))
    return f, {'x': (n, k), 'score': (n,)}


def elements(r):
    """A mask over all axes, its positions, and gathers by these."""
    shape = shape_of(r, 3)
    other = weights(r, *shape, 3)

    def f(x):
        at = tf.where(x > .5)
        return (tf.boolean_mask(x, x > .5), tf.gather_nd(x, at) + 1, tf.gather_nd(other, at),
                tf.gather(other, at[:, 1] % 1), tf.reduce_sum(at, 0), tf.scatter_nd(at, tf.gather_nd(x, at) * 2, shape))
    return f, {'x': shape}


def nested(r):
    """Masks of masked elements, and indices into them."""
    n = int(r.integers(2, 80))
    columns = weights(r, 5, n)

    def f(x):
        first = tf.boolean_mask(x, x > .5)
        second = tf.boolean_mask(first, first > 1.2)
        at = tf.reshape(tf.where(first > 1.2), [-1])
        table = tf.boolean_mask(columns, x > .5, axis=1)
        return first, second, at, tf.gather(first, at) * 2, tf.gather(table, at, axis=1), tf.reduce_sum(tf.square(second))
    return f, {'x': (n,)}


def counted(r):
    """Sizes as numbers, and tensors of such a size."""
    n = int(r.integers(2, 80))

    def f(x):
        kept = tf.boolean_mask(x, x > .5)
        count = tf.size(kept)
        return (count, tf.shape(kept, tf.int64), tf.cast(count, F32) / n, tf.ones_like(kept) * 3, tf.zeros([count, 3]),
                tf.range(count) * 2, tf.reduce_sum(tf.ones([count])), kept / tf.cast(tf.maximum(count, 1), F32),
                tf.reduce_sum(kept) / tf.cast(count + 1, F32), tf.broadcast_to(tf.reduce_sum(x), [count, 2]),
                tf.shape(tf.where(x > 1.)) * 2)
    return f, {'x': (n,)}


def mean(r):
    """The mean of no elements is NaN, as in TensorFlow."""
    n, k = int(r.integers(2, 60)), int(r.integers(1, 20))

    def f(x, score):
        rows = tf.boolean_mask(x, score > .5)
        return tf.reduce_mean(rows, 0), tf.reduce_mean(rows), tf.reduce_max(rows, 0), tf.reduce_any(rows > 1, 0)
    return f, {'x': (n, k), 'score': (n,)}


def open_too(r):
    """Together with open sizes of inputs."""
    k = int(r.integers(1, 9))
    w = weights(r, k, 8)

    def f(x, y):
        rows = tf.boolean_mask(x, x[:, 0] > .5)
        return (rows, tf.where(x > .5), tf.nn.tanh(rows @ w), x * 2, tf.shape(rows)[0] + tf.shape(x)[0], tf.where(y > .5),
                tf.shape(y)[1] * tf.shape(y)[0], tf.reduce_sum(y) / tf.cast(tf.size(y), F32), tf.boolean_mask(y, y[0] > .5, axis=1))
    return f, {'x': ('rows', k), 'y': ('rows', 'length')}


def branches(r):
    """A size decides which branch runs."""
    n = int(r.integers(2, 60))

    def f(x):
        kept = tf.boolean_mask(x, x > .5)
        total = tf.reduce_sum(kept)
        return tf.cond(tf.size(kept) > n // 2, lambda: total * 2, lambda: total - 1), kept
    return f, {'x': (n,)}


def boxes_of(r, n):
    """Boxes that often overlap, at coarse positions so that some overlaps are equal, with their corners in any order."""
    corner, side = r.integers(0, 8, (n, 2)), r.integers(0, 6, (n, 2))
    boxes = np.concatenate([corner, corner + side], 1)[:, r.permutation([0, 1, 2, 3]) if r.random() < .2 else [0, 1, 2, 3]]
    return boxes.astype('f4') / 8


def suppressed(r):
    """Suppression of boxes that overlap better ones; in each version, with fixed boxes and with as many as a mask
    selects."""
    n, most = int(r.integers(1, 60)), int(r.integers(0, 40))
    boxes = tf.constant(boxes_of(r, n))
    overlap, least, sigma = float(r.choice([0, .25, .5, .7, 1])), float(r.choice([-1, .55, 1])), float(r.uniform(.1, .8))
    raw = tf.raw_ops

    def f(x, score):
        moved = boxes + x[:, None] * .05
        v2 = raw.NonMaxSuppressionV2(boxes=moved, scores=score, max_output_size=most, iou_threshold=overlap)
        v3 = tf.image.non_max_suppression(moved, score, most, overlap, least)
        v4, valid = raw.NonMaxSuppressionV4(boxes=boxes, scores=score, max_output_size=most, iou_threshold=overlap, score_threshold=least)
        soft, soft_score = tf.image.non_max_suppression_with_scores(moved, score, most, overlap, least, sigma)
        padded = raw.NonMaxSuppressionV4(boxes=boxes, scores=score, max_output_size=most, iou_threshold=overlap, score_threshold=least,
                                         pad_to_max_output_size=True)
        both = raw.NonMaxSuppressionV5(boxes=boxes, scores=score, max_output_size=most, iou_threshold=overlap, score_threshold=least,
                                       soft_nms_sigma=0., pad_to_max_output_size=True)
        half = raw.NonMaxSuppressionV3(boxes=tf.cast(boxes, tf.float16), scores=tf.cast(score, tf.float16), max_output_size=most,
                                       iou_threshold=tf.constant(overlap, tf.float16), score_threshold=tf.constant(least, tf.float16))
        shares = tf.clip_by_value(tf.matmul(moved, moved, transpose_b=True) / 8, 0, 1)
        by_share = raw.NonMaxSuppressionWithOverlaps(overlaps=shares, scores=score, max_output_size=most, overlap_threshold=overlap,
                                                     score_threshold=least)
        kept = score > .5
        left, left_score = tf.boolean_mask(moved, kept), tf.boolean_mask(score, kept)
        best = tf.image.non_max_suppression(left, left_score, tf.minimum(most, tf.size(left_score)), overlap)
        return (raw.NonMaxSuppression(boxes=boxes, scores=score, max_output_size=most), v2, v3, v4, valid, soft, soft_score, *padded, *both,
                half, by_share, best, tf.gather(left, best) * 2, tf.reduce_sum(tf.gather(left_score, best)), tf.size(v3) + tf.size(soft))
    return f, {'x': (n,), 'score': (n,)}


def distinct(r):
    """Distinct elements and slices, their indices and counts, in each type; of a vector, a matrix, and masked elements."""
    n, k, axis = int(r.integers(1, 40)), int(r.integers(1, 4)), int(r.integers(0, 3))
    raw = tf.raw_ops

    def f(x):
        whole = tf.cast(tf.clip_by_value(x * 3, -4, 4), tf.int32)
        special = tf.concat([tf.constant([np.nan, -0., 0., np.nan, np.inf, -np.inf, np.inf]), tf.round(x * 2)], 0)
        rows = tf.cast(x[:, None] * tf.range(k, dtype=F32) * 2, tf.int32)
        block = tf.transpose(tf.stack([whole, whole // 2, whole // 3, whole // 2]))
        block = tf.transpose(tf.reshape(block, [n, 2, 2]), np.insert([1, 2], axis, 0))
        kept = tf.boolean_mask(whole, x > .5)
        y, which, count = tf.unique_with_counts(kept, tf.int64)
        types = tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int64, tf.float64, tf.float16, tf.bfloat16, tf.bool
        return (*tf.unique(whole), *tf.unique_with_counts(special), *raw.UniqueV2(x=rows, axis=[0]),
                *raw.UniqueWithCountsV2(x=block, axis=[axis - 3], out_idx=tf.int64), *raw.UniqueV2(x=whole, axis=tf.zeros([0], tf.int64)),
                y, which, count, tf.gather(y, which) * 2, tf.reduce_sum(tf.cast(count, F32) * tf.cast(y, F32)),
                *(tf.cast(raw.Unique(x=tf.cast(whole, t))[0], tf.int32) for t in types))
    return f, {'x': (n,)}


def parted(r):
    """Rows that are partitioned by numbers, computed differently in each part, and stitched together again; the parts
    of a list."""
    n, k, parts = int(r.integers(2, 50)), int(r.integers(1, 6)), int(r.integers(1, 4))
    raw = tf.raw_ops

    def f(x, score):
        number = tf.cast(tf.clip_by_value(score * parts, 0, parts - .5), tf.int32)
        rows = tf.dynamic_partition(x, number, parts)
        places = tf.dynamic_partition(tf.range(n), number, parts)
        done = [row * (i + 1) - i for i, row in enumerate(rows)]
        kept = tf.boolean_mask(number, score > .5)
        split = tf.dynamic_partition(tf.boolean_mask(score, score > .5), kept, parts)
        whole = tf.cast(tf.clip_by_value(score * 5, -9, 9), tf.int32)
        left, where = tf.raw_ops.ListDiff(x=whole, y=whole[::3] + 1)
        fewer, _ = tf.raw_ops.ListDiff(x=kept, y=tf.boolean_mask(number, score > 1.), out_idx=tf.int64)
        return (*rows, *places, *split, tf.dynamic_stitch(places, done) + x, raw.ParallelDynamicStitch(indices=places, data=done) * 2,
                tf.dynamic_stitch([places[0], places[-1]], [done[0], done[-1]]), left, where, fewer, tf.gather(x, where))
    return f, {'x': (n, k), 'score': (n,)}


def joined(r):
    """Concatenations of masked elements, before and after fixed ones."""
    n, k = int(r.integers(1, 40)), int(r.integers(1, 6))
    fixed = weights(r, 3, k)

    def f(x, score):
        a, b = tf.boolean_mask(x, score > .5), tf.boolean_mask(x * 2, score < .2)
        rows = tf.concat([fixed, a, b], 0)
        columns = tf.concat([tf.transpose(b), tf.transpose(a)], 1)
        ids = tf.concat([tf.where(score > .5), tf.where(score < .2)], 0)[:, 0]
        return rows, columns, ids, tf.nn.relu(rows) @ tf.transpose(fixed), tf.reduce_sum(columns, 1), tf.gather(x, ids), tf.shape(rows)
    return f, {'x': (n, k), 'score': (n,)}


def ranged(r):
    """Ranges and tensors whose sizes are computed from data, if the graph bounds them."""
    n, first, step = int(r.integers(2, 40)), int(r.integers(-3, 4)), int(r.choice([-2, -1, 1, 2, 3]))

    def f(x):
        count = tf.reduce_sum(tf.cast(x > .5, tf.int32))
        best = tf.argmax(x, output_type=tf.int32)
        steps = tf.range(first, first + count * step, step)
        filled = tf.fill([best + 1, 2], tf.reduce_sum(x))
        lengths = tf.minimum(tf.cast(tf.abs(x) * 9, tf.int32), 12)
        mask = tf.range(tf.reduce_max(lengths))[None] < lengths[:, None]
        return (tf.range(count), steps * 2, filled, tf.range(best, n), tf.zeros([3, count]), tf.gather(x, tf.range(best)),
                tf.cast(mask, F32), tf.reduce_sum(tf.cast(mask, F32), 1), tf.range(tf.cast(best, tf.int64)), tf.reduce_mean(filled))
    return f, {'x': (n,)}


def fractions(r):
    """Numbers in steps with a fraction, as many as data decide; padding up to a multiple, which is computed with a fraction."""
    n, up = int(r.integers(2, 40)), float(2 ** r.integers(1, 5))

    def f(x):
        count = tf.reduce_sum(tf.cast(x > .5, tf.int32))
        some, best = tf.boolean_mask(x, x > .5), tf.cast(tf.argmax(x), tf.float64)
        rest = tf.cast(tf.math.ceil(tf.cast(count, F32) / up) * up, tf.int32) - count
        return (tf.range(tf.cast(count, F32)) * 2., tf.range(best * .5, -1., -.25), tf.range(0., tf.cast(count, F32) * .5, .125)[::-1],
                tf.pad(some, [[0, rest]]), tf.pad(some[:, None], tf.stack([tf.stack([rest, 0]), [1, 1]])) * 2.)
    return f, {'x': (n,)}


def drawn(r):
    """The expected counts of masked classes among candidates, which do not depend on the draws if classes may repeat; candidates that are true classes."""
    n = int(r.integers(2, 40))
    ways, candidates = r.integers(0, 12, (2, n, 2)), r.integers(0, 12, int(r.integers(1, 9)))

    def f(x):
        classes = tf.cast(tf.abs(tf.boolean_mask(x, x > .3)) * 10, tf.int64)[:, None]
        of = dict(true_classes=classes, num_true=1, num_sampled=5, unique=False, range_max=100, seed=1, seed2=2)
        expected = [op(**of)[1] for op in (tf.raw_ops.LogUniformCandidateSampler, tf.raw_ops.UniformCandidateSampler)]
        row, at, weight = tf.raw_ops.ComputeAccidentalHits(true_classes=tf.where(x[:, None] > .5, *ways), sampled_candidates=candidates, num_true=2)
        return (*expected, tf.reduce_sum(tf.math.log(expected[0]), 0), row, at, tf.cast(weight < -1e4, F32))
    return f, {'x': (n,)}


def scattered(r):
    """Rows that are scattered and summed by masked indices, into tensors of fixed and of computed size."""
    n, k = int(r.integers(2, 40)), int(r.integers(1, 5))
    raw = tf.raw_ops

    def f(x, score):
        whole = tf.cast(tf.clip_by_value(score * 5, -9, 9), tf.int32)
        values, which = tf.unique(whole)
        at = tf.where(score > .5)
        rows = tf.gather_nd(x, at)
        return (tf.math.unsorted_segment_sum(x, which, tf.size(values)), tf.math.unsorted_segment_max(x, which, tf.shape(values)[0]),
                tf.math.unsorted_segment_sum(rows, at[:, 0], n), tf.tensor_scatter_nd_update(x, at, rows * 2),
                tf.tensor_scatter_nd_add(tf.zeros([n, k]), at, rows), tf.tensor_scatter_nd_max(x, at, -rows),
                tf.math.unsorted_segment_sum(rows, tf.gather_nd(which, at), tf.size(values)),
                tf.scatter_nd(which[:, None], x, [tf.size(values), k]), raw.TensorScatterSub(tensor=x, indices=at, updates=rows))
    return f, {'x': (n, k), 'score': (n,)}


def pieces(r):
    """Masked rows and fixed classes are looked up together and separated again, as in a sampled loss, with gradients."""
    n, k, samples = (int(r.integers(2, most)) for most in (40, 9, 9))
    table, bias, fixed = weights(r, 9, k), weights(r, 9), r.integers(0, 9, samples).astype('i4')

    def f(x):
        classes = tf.cast(tf.abs(tf.boolean_mask(x, x > .3)) * 3, tf.int32)
        count = tf.shape(classes)[0]
        ids = tf.concat([classes, fixed], 0)
        rows, more, back = tf.gather(table, ids), tf.gather(bias, ids), tf.concat([tf.gather(table, fixed), tf.gather(table, classes)], 0)
        mine, rest = tf.slice(rows, [0, 0], [count, k]), tf.slice(rows, [count, 0], [-1, -1])
        loss = tf.nn.l2_loss(tf.matmul(mine, rest, transpose_b=True) + tf.slice(more, [count], [-1])) + tf.reduce_sum(tf.slice(more, [0], [count]))
        return (mine, rest, tf.slice(back, [0, 0], [samples, -1]), tf.slice(back, [samples, 0], [count, -1]) * 2, loss,
                *tf.gradients(loss, [rows, more]))
    return f, {'x': (n,)}


def judged(r):
    """Losses of rows that a mask selects, by class numbers and by probabilities of classes, with their gradients."""
    n, k, classes = int(r.integers(2, 40)), int(r.integers(1, 9)), int(r.integers(2, 20))
    w = weights(r, k, classes)

    def f(x, score):
        mask = score > .5
        logits = tf.boolean_mask(x, mask) @ w
        labels = tf.minimum(tf.cast(tf.boolean_mask(score, mask) * 5, tf.int32), classes - 1)
        losses = (tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
                  tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, classes), logits))
        return (*losses, *tf.gradients([tf.reduce_sum(loss * loss) for loss in losses], [x, logits]))
    return f, {'x': (n, k), 'score': (n,)}


def bodies(r):
    """Sizes that loops, their conditions, branches and map_fn compute, each time that they run; also of a loop in a loop, of selected
    rows of the program, and fewer than the iteration before."""
    n, k, step = int(r.integers(2, 40)), int(r.integers(1, 6)), .25

    def f(x, score):
        rows = tf.boolean_mask(x, score > .5)

        def above(i):
            return score > tf.cast(i, F32) * step + step

        def add(i, total):
            kept = tf.boolean_mask(x, above(i))
            some = tf.gather(kept, tf.where(kept[:, 0] > .5)[:, 0])
            first, second = tf.dynamic_partition(rows, tf.cast(rows[:, 0] > tf.cast(i, F32) * step, tf.int32), 2)
            inner = tf.while_loop(lambda j, t: j < 2, lambda j, t: (j + 1, t + tf.reduce_sum(tf.boolean_mask(rows, rows[:, 0] > 1.), 0)
                                                                   + tf.cast(tf.size(tf.where(above(j))), F32)), [0, total * 0])[1]
            return i + 1, total + tf.reduce_sum(some, 0) + tf.cast(tf.shape(kept)[0], F32) + tf.reduce_sum(first, 0) - tf.reduce_sum(second, 0) + inner
        total = tf.while_loop(lambda i, t: i < 3, add, [0, tf.zeros([k])])[1]
        fewest = tf.while_loop(lambda i: tf.size(tf.where(above(i))) > 2, lambda i: [i + 1], [0])[0]
        kinds = tf.map_fn(lambda row: tf.size(tf.unique(tf.cast(row * 4, tf.int32))[0]), x, fn_output_signature=tf.int32)
        branch = tf.cond(score[0] > .5, lambda: tf.reduce_sum(tf.boolean_mask(x, score > .5) * 2, 0), lambda: tf.reduce_sum(rows, 0) + 1)
        return total, fewest, kinds, branch, rows * 2
    return f, {'x': (n, k), 'score': (n,)}


def within(r):
    """Parts and concatenations, in a branch and a loop that are within a loop, of what that selects; and in a loop, of the program's."""
    n, k = int(r.integers(2, 40)), int(r.integers(1, 6))

    def f(x, score):
        rows = tf.boolean_mask(x, score > .5)

        def add(i, total):
            kept = tf.boolean_mask(x, score > tf.cast(i, F32) * .25 + .25)
            some = tf.cond(i > 1, lambda: tf.reduce_sum(kept[1:], 0), lambda: tf.reduce_sum(kept, 0))
            twice = tf.while_loop(lambda j, t: j < 2, lambda j, t: (j + 1, t + tf.reduce_sum(tf.concat([kept, kept * 2], 0)[1:-1], 0)), [0, total * 0])[1]
            return i + 1, total + some + twice + tf.reduce_sum(rows[1:] - rows[:-1], 0)
        return tf.while_loop(lambda i, t: i < 3, add, [0, tf.zeros([k])])[1]
    return f, {'x': (n, k), 'score': (n,)}


def best_of_each(r):
    """Boxes of several images, each with as many as are selected of it."""
    n, most, images = int(r.integers(1, 20)), int(r.integers(1, 9)), int(r.integers(1, 4))
    boxes = tf.constant(boxes_of(r, n))

    def f(score):
        def one(s):
            best = tf.image.non_max_suppression(boxes, s, most, .4, .5)
            return tf.scatter_nd(tf.range(tf.size(best))[:, None], tf.gather(boxes, best) * tf.gather(s, best)[:, None], [most, 4])
        return tf.map_fn(one, score), tf.map_fn(lambda s: tf.shape(tf.where(s > .5))[0], score, fn_output_signature=tf.int32)
    return f, {'score': (images, n)}


def grown(r):
    """All elements of arrays that loops extend as often as data say; in map_fn, too."""
    k = int(r.integers(1, 5))

    def gathered(x, count):
        a = tf.TensorArray(F32, 0, dynamic_size=True, element_shape=[k])
        a = tf.while_loop(lambda i, a: i < count, lambda i, a: (i + 1, a.write(i, x * tf.cast(i + 1, F32))), (0, a))[1]
        return a.stack(), a.size()

    def f(x):
        count = tf.reduce_sum(tf.cast(x > .5, tf.int32))
        rows, size = gathered(x[0], count)
        sums = tf.map_fn(lambda row: tf.reduce_sum(gathered(row, tf.reduce_sum(tf.cast(row > .5, tf.int32)))[0], 0), x)
        return rows, size, tf.range(size) * 2, sums, tf.reduce_sum(rows * 2), tf.boolean_mask(rows, rows[:, 0] > 1.)
    return f, {'x': ('rows', k)}


def cut(r):
    """Parts of open axes, some longer than the axis, and concatenations along open axes; of inputs and of selected rows."""
    k, begin, end, step = int(r.integers(1, 5)), int(r.integers(1, 5)), int(r.integers(1, 5)), int(r.integers(2, 4))
    w = weights(r, k, 3)

    def f(x, y):
        kept = tf.boolean_mask(x, x[:, 0] > .5)
        first = tf.ones([tf.shape(y)[0], 1]) * .25
        return (y[:, ::-1], y[:, begin:] - y[:, :-begin], y[..., -end:], y[:, :end], y[begin:-end, ::step], y[:, -begin:-end], y[:, begin:end + 2],
                tf.reduce_sum(y[:, begin:], 1), tf.concat([first, y], 1), tf.concat([y[:, -1:], y, y[:, :1]], 1) * 2, tf.concat([x, x * 2], 0) @ w,
                y[:, ::-step], y[:, -begin::-1], y[:, end::-step], kept[:0:-1], kept[-1:-end:-1], kept[end:begin:-step],
                tf.math.floormod(tf.where(x[:, 0] > .5)[:, 0] - 9, tf.shape(kept, tf.int64)[0]),
                kept[::-1], kept[-1::-1], kept[begin:] - kept[:-begin], kept[-end:] @ w, kept[:, ::-1], tf.concat([kept, x], 0), tf.shape(y[:, begin:])[1],
                tf.scan(lambda a, b: a * .5 + tf.reduce_sum(tf.concat([b[begin:], b[::-1]], 0)), y, tf.constant(0.)))
    return f, {'x': ('rows', k), 'y': ('rows', 'length')}


def products(r):
    """Sizes of different nodes, which are equal in each run, meet in products, sums by labels, concatenations, packs, scatters and
    segments; and one meets a fixed size."""
    # TensorFlow's products of broadcast batches in 16 bits are wrong for one column.
    n, k = int(r.integers(2, 40)), int(r.integers(2, 9))
    w = weights(r, n, 3)
    boxes = tf.constant(boxes_of(r, n))

    def f(x, score):
        mask, same = score > .5, score * 2 > 1.
        a, b, at = tf.boolean_mask(x, mask), tf.boolean_mask(x * 2, same), tf.where(mask)
        whole, low = tf.boolean_mask(x, score > -99.), tf.boolean_mask(x, score < .2)
        labels = tf.minimum(tf.cast(tf.abs(tf.boolean_mask(score, same)) * 2, tf.int32), k - 1)
        best = tf.image.non_max_suppression(tf.boolean_mask(boxes, mask), tf.boolean_mask(score, same), 9)
        return (tf.matmul(a, b, transpose_a=True), tf.einsum('ij,ik->kj', a, b), tf.einsum('ij,ij->i', a, b), tf.concat([a, b, a], 1),
                tf.reduce_sum(tf.stack([a, b]), 0), tf.stack([b, a], 1), tf.matmul(whole, w, transpose_a=True), tf.concat([w, whole], 1),
                tf.matmul(tf.stack([a, a * 3]), b[None], transpose_a=True), tf.tensor_scatter_nd_add(x, at, b), tf.scatter_nd(at, b, [n, k]),
                tf.math.unsorted_segment_sum(b, at[:, 0], n), best, tf.nn.sparse_softmax_cross_entropy_with_logits(labels, a),
                tf.gather(a[:, None] + tf.range(3.)[:, None], labels[:, None] % 3, batch_dims=1), tf.add_n([a, b]),
                tf.compat.v1.where(tf.boolean_mask(score, same) > 1., a, b), tf.nn.softmax(tf.matmul(a, low, transpose_b=True)) @ low)
    return f, {'x': (n, k), 'score': (n,)}


def best(r):
    """The largest elements of rows whose length, or their own number, data decide; sorted rows."""
    n, k = int(r.integers(2, 40)), int(r.integers(2, 9))

    def f(x, score):
        kept, rows = tf.boolean_mask(score, score > .5), tf.boolean_mask(x, score > .5)
        count = tf.size(kept)
        values, at = tf.math.top_k(kept, tf.minimum(count, 5))
        return (values, at, tf.gather(rows, at) * 2, *tf.math.top_k(score, count), *tf.math.top_k(rows, 2), tf.math.top_k(tf.transpose(rows), count)[1],
                tf.sort(kept), tf.argsort(kept, direction='DESCENDING'), tf.math.top_k(tf.concat([kept, score], 0), n)[0],
                tf.math.top_k(tf.cast(kept * 9, tf.int32), tf.minimum(count, 3))[0], tf.size(values))
    return f, {'x': (n, k), 'score': (n,)}


def sliced(r):
    """Slices by computed bounds, and padding by computed amounts, of fixed and of masked rows."""
    n, k = int(r.integers(2, 40)), int(r.integers(2, 9))

    def f(x, score):
        kept = tf.boolean_mask(x, score > .5)
        count = tf.shape(kept)[0]
        half, third = count // 2, count // 3
        return (x[:count], x[count:] * 2, x[third:half + 2], x[-count:], x[half:count:2], kept[half:], kept[third:-1], kept[-third:, 1:], kept[:, :-1][:half],
                tf.slice(x, [0, 0], [count, -1]), tf.slice(x, [count, 1], [-1, k - 1]), tf.slice(kept, [half, 0], [count - half, 2]),
                tf.slice(x, [half, 0], [third, -1]) + tf.slice(kept, [half, 0], [third, -1]), tf.reduce_sum(x[:count] * kept, 0),
                tf.pad(kept, [[0, n - count], [0, 0]]), tf.pad(kept, [[half, 1], [0, 2]]), tf.pad(x, [[0, count], [half, 0]], constant_values=.5),
                tf.pad(score, [[third, half]]), tf.pad(kept, [[1, 1], [1, 0]]), tf.shape(x[:count])[0] * 2)
    return f, {'x': (n, k), 'score': (n,)}


def beams(r):
    """One step of a search along beams, of any number of rows: the best continuations, and the states from which they come."""
    beams, words, k = int(r.integers(1, 5)), int(r.integers(2, 12)), int(r.integers(1, 5))

    def f(score, state):
        values, at = tf.math.top_k(tf.reshape(score, [-1, beams * words]), beams)
        where = at // words
        return values, at % words, tf.gather(state, where, batch_dims=1), tf.gather(score, where, batch_dims=1, axis=1) * 2, tf.sort(score, -1)
    return f, {'score': ('rows', beams, words), 'state': ('rows', beams, k)}


def detections(r):
    """What follows a detector: the best boxes of each class, in order of their scores, padded to a fixed number."""
    n, classes, most = int(r.integers(2, 40)), int(r.integers(1, 4)), int(r.integers(1, 12))
    boxes = tf.constant(boxes_of(r, n))

    def f(score):
        parts = []
        for c in range(classes):
            mask = score[:, c] > .5
            left, own = tf.boolean_mask(boxes, mask), tf.boolean_mask(score[:, c], mask)
            at = tf.image.non_max_suppression(left, own, tf.minimum(4, tf.shape(own)[0]), .4)
            parts.append((tf.gather(left, at), tf.gather(own, at), tf.fill([tf.size(at)], c)))
        found, own, which = (tf.concat(part, 0) for part in zip(*parts))
        own, at = tf.math.top_k(own, tf.minimum(most, tf.size(own)))
        found, which, count = tf.gather(found, at), tf.gather(which, at), tf.size(at)
        return (found, own, which, tf.pad(found, [[0, most - count], [0, 0]]), tf.pad(own, [[0, most - count]]),
                tf.boolean_mask(found, own > 1.) @ tf.ones([4, 2]), found[:tf.minimum(count, 3)])
    return f, {'score': (n, classes)}


def sparse(r):
    """Sparse tensors of masked elements: dense again, in another shape, with a value in each row, and as lists of embeddings."""
    n, k = int(r.integers(1, 12)), int(r.integers(1, 9))
    table = weights(r, 20, 3)

    def f(x):
        some = tf.sparse.from_dense(tf.where(x > .5, x, 0.))
        flat = tf.sparse.reshape(some, [k, -1])
        full, empty = tf.sparse.fill_empty_rows(some, -1.)
        ids = tf.sparse.from_dense(tf.where(x > .5, tf.cast(x * 8, tf.int64), 0))
        return (tf.sparse.to_dense(some), some.dense_shape, tf.sparse.to_dense(tf.sparse.from_dense(tf.where(x > 1., x, 0.)), -1.), flat.indices, flat.dense_shape,
                tf.sparse.to_dense(flat) * 2, full.indices, full.values, empty, tf.nn.safe_embedding_lookup_sparse(table, ids, combiner='mean'),
                tf.nn.embedding_lookup_sparse(table, tf.sparse.fill_empty_rows(ids, 1)[0], None, combiner='sum'))
    return f, {'x': (n, k)}


def shaped(r):
    """Reshapes whose extents follow from computed sizes, repeated rows, one-hot vectors, sums from the end, boxes of several classes."""
    n, k, times = int(r.integers(2, 30)), int(r.integers(1, 5)), int(r.integers(2, 4))
    boxes = tf.constant(boxes_of(r, n))

    def f(x, score):
        kept, rows = tf.boolean_mask(score, score > .5), tf.boolean_mask(x, score > .5)
        half = tf.size(kept) // 2
        even = kept[:half * 2]
        whole = tf.cast(tf.minimum(tf.abs(kept) * 2, 5.), tf.int32)
        # TensorFlow has no order of boxes of equal scores.  These differ, between the classes, too: scores of the first are odd sixteenths.
        own = tf.boolean_mask(score + tf.range(float(n)) / 1024, score > .5)
        left = tf.concat([tf.boolean_mask(boxes, score > .5), own[:, None], own[:, None] * .5], 1)
        return (tf.reshape(even, [-1, 2]), tf.reshape(even, [2, half]) * 2, tf.reshape(tf.concat([rows, rows], 1), [-1]), tf.tile(rows, [times, 1]),
                tf.tile(x, [tf.minimum(half, 3), 1]), tf.repeat(kept, times), tf.one_hot(whole, tf.size(kept)), tf.cumsum(rows, reverse=True),
                tf.math.cumprod(kept, reverse=True, exclusive=True),
                *tf.image.combined_non_max_suppression(left[None, :, None, :4], left[None, :, 4:], 3, 7, .5, .3))
    return f, {'x': (n, k), 'score': (n,)}


def decoded(r):
    """The best class of each step, of sequences of lengths that data decide; experts of rows that a reshape joined; an axis that has to have one element."""
    n, k, classes = int(r.integers(1, 5)), int(r.integers(2, 12)), int(r.integers(2, 5))
    w, blank, experts = weights(r, 1, classes), int(r.integers(-1, classes)), weights(r, 2, 3, 3)

    def f(x, rows):
        steps = tf.transpose(x)[:, :, None] * w
        lengths = tf.reduce_sum(tf.cast(x > .5, tf.int32), 1)
        (plain,), score = tf.nn.ctc_greedy_decoder(steps, lengths, blank_index=blank)
        (again,), _ = tf.nn.ctc_greedy_decoder(steps, lengths, merge_repeated=False)
        joined = tf.reshape(rows, [-1, 3])
        best, out = tf.math.top_k(joined, 2)[1], tf.zeros_like(joined)
        for i in range(2):
            at = tf.where(tf.equal(best, i))
            out = tf.tensor_scatter_nd_add(out, at[:, :1], tf.gather_nd(joined, at[:, :1]) @ experts[i] * tf.gather_nd(joined, at)[:, None])
        first = tf.boolean_mask(x, x[:, 0] > .5)[:1]
        one = tf.cond(tf.equal(tf.shape(first)[0], 1), lambda: tf.squeeze(first, [0]) * 2, lambda: x[0])
        return plain.indices, plain.values, plain.dense_shape, score, again.indices, again.values, again.dense_shape, tf.reshape(out, tf.shape(rows)), one
    return f, {'x': (n, k), 'rows': ('rows', 'length', 3)}


def blocks(r):
    """Blocks of pixels that become rows of a batch, and back, of open and computed extents."""
    k = int(r.integers(2, 5))

    def f(x):
        chosen = tf.boolean_mask(x, x[:, 0, 0, 0] > .5)
        n = tf.shape(chosen)[0]
        return (tf.space_to_batch_nd(x, [2, 2], [[0, -tf.shape(x)[1] % 2], [1, (k + 1) % 2]]),
                tf.space_to_batch_nd(tf.repeat(x, 3, axis=1)[..., 0], [3, 1], [[3, 0], [0, 0]]),
                tf.batch_to_space(tf.repeat(x, 4, axis=0), [2, 2], [[1, 0], [0, 1]]),
                tf.batch_to_space(tf.repeat(chosen, 6, axis=0), [3, 2], [[0, 2], [1, 1]]),
                tf.batch_to_space(tf.ones([4, 2, k, 1]) * x[0, 0, 0, 0], [2, 2], [[0, n % 2], [1, 0]]),
                tf.space_to_batch_nd(tf.transpose(chosen, [1, 0, 2, 3]), [2], [[0, n % 2]]))
    return f, {'x': ('rows', 'length', k, 2)}


MODELS = {f.__name__: f for f in (fractions, vector, any_rank, every_type, masked, elements, nested, counted, mean, open_too, branches, suppressed, distinct, parted, joined,
                                 ranged, drawn, scattered, pieces, judged, bodies, within, best_of_each, grown, cut, products, best, sliced, beams, detections, sparse, shaped, blocks, decoded)}
WITHOUT_NET = 'drawn',  # kernels that draw are parts of the library
SHARES = 0, 1, .5, .1
MOST = {'rows': 6, 'length': 24}


# ---- the ways to run them ----

def agree(name, how, outputs, got, want, tolerance=TOLERANCE):
    for o, g, w in zip(outputs, got, want, strict=True):
        finite = np.isfinite(w) if w.dtype.kind == 'f' else np.ones(w.shape, bool)
        if g.shape != w.shape or not np.array_equal(g[~finite], w[~finite], equal_nan=True) or \
                not close(np.where(finite, g, 0).astype(g.dtype), np.where(finite, w, 0).astype(w.dtype), tolerance):
            sys.exit(f'{name}, {how}: {o} is {g!r}, not {w!r}')


def model_of(f, inputs, path):
    signature = [tf.TensorSpec([None if isinstance(s, str) else s for s in shape], F32, name=n) for n, shape in inputs.items()]
    frozen = freeze(f, signature, path)
    return frozen, [t.name if not t.name.endswith(':0') else t.name[:-2] for t in frozen.outputs]


def odd_sixteenths(x):
    """Numbers near x, still on its side of 0.5, whose small multiples are no integers and are exact in bfloat16."""
    return (2 * np.floor(x * 8) + 1) / 16


def feeds_of(name, r, inputs, share):
    sizes = {s: int(r.integers(1, MOST[s] + 1)) for s in MOST}
    feeds = {n: mask_like(r, [sizes.get(s, s) for s in shape], share) for n, shape in inputs.items()}
    return {n: odd_sixteenths(x).astype('f4') for n, x in feeds.items()} if name in SELECT else feeds


def expected(frozen, feeds):
    return [t.numpy() for t in tf.nest.flatten(frozen(*[tf.constant(x) for x in feeds.values()]))]


def stated(inputs):
    return [o for n, shape in inputs.items() if any(isinstance(s, str) for s in shape)
            for o in ('--input-shape', f'{n}:{",".join(f"1..{MOST[s]}" if isinstance(s, str) else str(s) for s in shape)}')]


def check_python(name, r, folder):
    """One context for several runs, which find the memory of earlier ones; with new outputs and with the caller's."""
    import halftone as ht
    f, inputs = MODELS[name](r)
    frozen, outputs = model_of(f, inputs, f'{folder}/m.pb')
    shapes = {n: tuple(f'1..{MOST[s]}' if isinstance(s, str) else s for s in shape) for n, shape in inputs.items()}
    program = ht.load(f'{folder}/m.pb', outputs=outputs, shapes=shapes).compile()
    context = program.context(threads=2)
    for share in (.3, 1, 0, .7):
        feeds = feeds_of(name, r, inputs, share)
        want = expected(frozen, feeds)
        for how, got in ('run', context.run(**feeds)), ('bound', context.bind(**feeds)()):
            agree(name, f'Python, {how}, {share}', outputs, [got[o] for o in outputs], want)


def run_converted(folder, policy, feeds, outputs, *asked):
    """TensorFlow's results for the graph that is converted under a policy: its sizes depend on data like the model's."""
    tool('convert', '-q', f'{folder}/m.pb', '-o', f'{folder}/c.pb', *asked, '--policy', policy)
    graph = tf.compat.v1.GraphDef()
    with open(f'{folder}/c.pb', 'rb') as f:
        graph.ParseFromString(f.read())
    with tf.Graph().as_default() as g, tf.compat.v1.Session(graph=g) as session:
        tf.import_graph_def(graph, name='')
        return session.run([o if ':' in o else f'{o}:0' for o in outputs], {f'{n}:0': x for n, x in feeds.items()})


def check_net(name, share, net, inputs, feeds, outputs, want):
    """A net writes the bytes of `run`, as many as the run computes."""
    sizes = {s: feeds[n].shape[i] for n, shape in inputs.items() for i, s in enumerate(shape) if isinstance(s, str)}
    sizes = in_order(inputs.values(), sizes)
    agree(name, f'net, {share}', outputs, run_net(net, sizes, feeds, want), want, 0)
    if sizes and share == SHARES[-1]:
        agree(name, f'net in less memory, {share}', outputs, run_in_arena(net, sizes, feeds, want), want, 0)


def check(name, r, folder):
    f, inputs = MODELS[name](r)
    frozen, outputs = model_of(f, inputs, f'{folder}/m.pb')
    asked = ['--outputs', ','.join(outputs), *stated(inputs)]
    tool('compile', '-q', f'{folder}/m.pb', '-o', f'{folder}/m.htx', *asked)
    net = None if name in WITHOUT_NET else make_net(folder, asked, 'host')
    for share in SHARES:
        feeds = feeds_of(name, r, inputs, share)
        want = expected(frozen, feeds)
        got = run(folder, f'{folder}/m.pb', feeds, outputs, *asked)
        if net:
            check_net(name, share, net, inputs, feeds, outputs, got)
        agree(name, f'run, {share}', outputs, got, want)
        agree(name, f'artefact, {share}', outputs, run(folder, f'{folder}/m.htx', feeds, outputs), got, 0)
        agree(name, f'two threads, {share}', outputs, run(folder, f'{folder}/m.htx', feeds, outputs, '--threads', '2'), got, 0)
        agree(name, f'once more, {share}', outputs, run(folder, f'{folder}/m.pb', feeds, outputs, *asked), got, 0)
        for policy, tolerance in POLICIES.items() if name not in NOT_ROUNDED else ():
            agree(name, f'{policy}, {share}', outputs, run(folder, f'{folder}/m.pb', feeds, outputs, *asked, '--policy', policy), want, tolerance)
            if share == SHARES[-1] and name not in NOT_CONVERTED:
                agree(name, f'{policy}, converted', outputs, run_converted(folder, policy, feeds, outputs, *asked), want, tolerance)


# ---- refused models ----

def refused(name, f, *why):
    with tempfile.TemporaryDirectory() as folder:
        freeze(f, [tf.TensorSpec([8], F32, name='x')], f'{folder}/m.pb')
        said = tool('run', f'{folder}/m.pb', code=4)
        for w in why:
            if w not in said:
                sys.exit(f'{name}: {said!r} does not say {w!r}')


def check_refusals():
    def kept(x):
        return tf.boolean_mask(x, x > .5)
    refused('windows that look far', lambda x: tf.image.extract_patches(kept(x)[None, :, None, None], [1, 3, 1, 1], [1, 1, 1, 1], [1, 10**9, 1, 1], 'SAME'),
            'ExtractImagePatches')


def check_empty():
    """If no element is selected, an index into the selection stops the run, as in TensorFlow; otherwise it does not."""
    with tempfile.TemporaryDirectory() as folder:
        def f(x):
            kept = tf.boolean_mask(x, x > .5)
            return tf.gather(kept, [0, 0]), tf.gather(kept, tf.where(kept > 9)[:, 0])

        def parts(x):
            return tf.dynamic_partition(x, tf.cast(x, tf.int32) // 7, 1)

        def pooled(x):
            return tf.nn.avg_pool(tf.boolean_mask(x, x > .5)[None, :, None, None], [3, 1], [2, 1], 'VALID')

        def backwards(x):
            return tf.range(tf.minimum(tf.cast(tf.reduce_sum(x), tf.int32), 9))
        inputs = {'x': (8,)}
        frozen, outputs = model_of(f, inputs, f'{folder}/m.pb')
        x = np.arange(8, dtype='f4')
        agree('empty', 'something', outputs, run(folder, f'{folder}/m.pb', {'x': x}, outputs, '--outputs', ','.join(outputs)),
              expected(frozen, {'x': x}))
        check_stops('an index into nothing', folder, f'{folder}/m.pb', {'x': -x}, 'Gather', 'index is out of range')
        frozen, outputs = model_of(pooled, inputs, f'{folder}/m.pb')
        for kept in 0, 1, 2, 3, 8:  # windows that need one element more, or more of them, have no results
            feeds = {'x': np.where(np.arange(8) < kept, x + 1, 0).astype('f4')}
            agree('empty', f'windows over {kept}', outputs, run(folder, f'{folder}/m.pb', feeds, outputs, '--outputs', ','.join(outputs)),
                  expected(frozen, feeds))
        for wrong in parts, backwards:
            model_of(wrong, inputs, f'{folder}/m.pb')
            check_stops(wrong.__name__, folder, f'{folder}/m.pb', {'x': -x}, 'index is out of range')


def check_differing():
    """Sizes that have to be equal and are not, rows that are too short, and bounds that leave a tensor stop the run, as in TensorFlow."""
    def kept(x, least):
        return tf.boolean_mask(tf.stack([x, x * 2], 1), x > least)

    def count(x):
        return tf.size(tf.where(x > .5))
    graphs = {'a product': lambda x: tf.matmul(kept(x, .5), kept(x, 1.5), transpose_a=True),
              'a product of nothing': lambda x: tf.matmul(kept(x, 9.), kept(x, 1.5), transpose_a=True),
              'labels': lambda x: tf.einsum('ij,ik->jk', kept(x, .5), kept(x, 1.5)),
              'a concatenation': lambda x: tf.concat([kept(x, .5), kept(x, 1.5)], 1),
              'a fixed size': lambda x: tf.concat([kept(x, .5), tf.ones([4, 1])], 1),
              'a pack': lambda x: tf.stack([kept(x, .5), kept(x, 1.5)]),
              'a scatter': lambda x: tf.scatter_nd(tf.where(x > .5), kept(x, 1.5), [8, 2]),
              'segments': lambda x: tf.math.unsorted_segment_sum(kept(x, 1.5), tf.where(x > .5)[:, 0], 8),
              'boxes': lambda x: tf.image.non_max_suppression(tf.concat([kept(x, .5)] * 2, 1), kept(x, 1.5)[:, 0], 3),
              'short rows': lambda x: tf.math.top_k(kept(x, .5)[:, 0], 8),
              'a long k': lambda x: tf.math.top_k(kept(x, 1.5)[:, 0], count(x)),
              'a long slice': lambda x: tf.slice(kept(x, 1.5), [0, 0], [count(x), 2]),
              'a slice of more than all': lambda x: tf.slice(x, [0], [count(x) + 4]),
              'a late begin': lambda x: tf.slice(kept(x, 1.5), [count(x), 0], [-1, 2]),
              'a reshape': lambda x: tf.reshape(kept(x, .5)[:, 0], [2, -1]),
              'the place of an extreme': lambda x: tf.argmax(kept(x, 9.)),
              'negative padding': lambda x: tf.pad(x, [[0, 4 - count(x)]])}
    x = np.arange(8, dtype='f4')
    with tempfile.TemporaryDirectory() as folder:
        for name, f in graphs.items():
            frozen, _ = model_of(f, {'x': (8,)}, f'{folder}/m.pb')
            try:
                expected(frozen, {'x': x})
                sys.exit(f'{name}: TensorFlow does not stop')
            except tf.errors.InvalidArgumentError:
                check_stops(name, folder, f'{folder}/m.pb', {'x': x}, "node '", 'index is out of range')


def check_plan():
    with tempfile.TemporaryDirectory() as folder:
        freeze(lambda x: tf.where(x > .5), [tf.TensorSpec([7], F32, name='x')], f'{folder}/m.pb')
        said = tool('compile', f'{folder}/m.pb', '--emit', 'plan', '-o', '-')
        for w in 'size Where: 0 to 7, computed', 'size to 0 (', 'int64[Where,1]':
            if w not in said:
                sys.exit(f'the plan {said!r} does not say {w!r}')
        said = tool('bench', f'{folder}/m.pb', '--duration', '0', '--runs', '2')
        if 'latency' not in said:
            sys.exit(f'bench says {said!r}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    p.add_argument('--python', action='store_true', help='through the Python package')
    p.add_argument('name', nargs='*', help=', '.join(MODELS))
    a = p.parse_args()
    print(f'seed {a.seed}')
    for name in a.name or environment.share_of_forms(MODELS, a.seed, a.python):
        with tempfile.TemporaryDirectory() as folder:
            (check_python if a.python else check)(name, np.random.default_rng([a.seed, list(MODELS).index(name)]), folder)
    if not a.name and not a.python:
        check_refusals()
        check_empty()
        check_differing()
        check_plan()
    print('ok')


main()
