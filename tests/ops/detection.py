"""Cases of the ops at the end of object detectors."""
import numpy as np

from case import Case

# images, boxes, classes, whether each class has its own boxes, the most boxes of a class, the most
# of an image
DETECTIONS = [(1, 6, 1, False, 3, 4), (2, 30, 4, False, 10, 20), (2, 30, 4, True, 10, 20), (3, 50, 7, True, 4, 100), (1, 100, 3, False, 200, 7),
              (2, 0, 3, False, 5, 6), (1, 12, 90, False, 1, 100)]


def boxes_of(r, shape):
    """Clusters of boxes, many of which overlap; corners in any order, some outside of the image."""
    centre = r.integers(0, 5, (*shape, 2)) * .25
    corner = centre + r.uniform(-.2, .05, (*shape, 2))
    other = corner + r.uniform(0, .4, (*shape, 2))
    swapped = r.random((*shape, 1)) < .2
    return np.where(swapped, np.concatenate([other, corner], -1), np.concatenate([corner, other], -1)).astype('f4')


def combined_boxes(r, rows):
    for images, n, classes, own, each, most in DETECTIONS:
        for _ in range(3):
            boxes = boxes_of(r, (images, n, classes if own else 1))
            # Different scores: TensorFlow selects equal ones in an undefined order.
            scores = (r.permutation(images * n * classes).reshape(images, n, classes) / max(images * n * classes, 1)).astype('f4')
            inputs = [boxes, scores, np.int32(each), np.int32(most), np.float32(r.choice([0, .3, .5, 1])), np.float32(r.choice([-1, .2, .7, 2]))]
            attrs = {'pad_per_class': bool(r.integers(2)), 'clip_boxes': bool(r.integers(2))}
            yield Case('CombinedNonMaxSuppression', inputs, attrs, settings=('max_output_size_per_class', 'max_total_size'))
    bad = inputs[:4] + [np.float32(1.5), inputs[5]]
    yield Case('CombinedNonMaxSuppression', bad, settings=('max_output_size_per_class', 'max_total_size'), fails=True, note='threshold above 1')
