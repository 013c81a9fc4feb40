"""Cases of boxes and windows that are cut out of images."""
import numpy as np

from case import Case, tensorflow_op, widen
from values import pick, random

# images, height, width, channels, boxes, height and width of the results
CROPS = [(1, 5, 7, 3, 4, 3, 3), (2, 9, 6, 2, 6, 1, 4), (3, 1, 8, 4, 5, 5, 1), (2, 12, 12, 1, 7, 14, 14), (1, 3, 3, 2, 3, 1, 1), (2, 6, 6, 5, 0, 3, 2)]
# height, width, channels, height and width of the window, strides, rates
PATCHES = [(5, 7, 3, 3, 3, 1, 1), (8, 8, 2, 2, 2, 2, 1), (9, 6, 4, 3, 2, 2, 2), (6, 6, 1, 1, 1, 3, 1), (12, 5, 3, 5, 3, 1, 2), (4, 4, 2, 4, 4, 4, 1)]


def boxes_of(r, n):
    """Boxes within the image, beyond it, mirrored ones, and ones that begin and end at its edges."""
    box = r.uniform(-.3, 1.3, (n, 4))
    edge = r.random((n, 4)) < .3
    return np.where(edge, r.integers(0, 2, (n, 4)), box).astype('f4')


def crop(r, rows):
    for op in rows:
        for tag in op.types['T']:
            cases = crops(r, op.name, tag) if op.name == 'CropAndResize' else patches(r, op.name, tag)
            yield from cases


def crops(r, name, tag):
    for images, h, w, c, n, oh, ow in pick(r, CROPS, 3):
        attrs = {'method': str(r.choice(['bilinear', 'nearest'])), 'extrapolation_value': float(r.choice([0, -2.5]))}
        inputs = [random(r, tag, (images, h, w, c)), boxes_of(r, n), r.integers(0, images, n).astype('i4'), np.array([oh, ow], 'i4')]
        yield Case(name, inputs, attrs, settings=('crop_size',), oracle=cropped)
    inputs[2:3] = [np.full(max(n, 1), images, 'i4')]
    inputs[1] = boxes_of(r, max(n, 1))
    yield Case(name, inputs, attrs, settings=('crop_size',), fails=True, note='a box of no image')


def cropped(inputs, attrs):
    """Its result is float32 whatever the type of the images."""
    return tensorflow_op('CropAndResize', ['image', 'boxes', 'box_ind', 'crop_size'], [widen(inputs[0], 'f32'), *inputs[1:]], attrs)


def patches(r, name, tag):
    for h, w, c, kh, kw, stride, rate in pick(r, PATCHES, 3):
        attrs = {'ksizes': [1, kh, kw, 1], 'strides': [1, stride, stride, 1], 'rates': [1, rate, rate, 1], 'padding': str(r.choice(['SAME', 'VALID']))}
        yield Case(name, [random(r, tag, (2, h, w, c))], attrs)
