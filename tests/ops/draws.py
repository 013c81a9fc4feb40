"""Random ops: with seeds they draw TensorFlow's numbers, bit for bit, without seeds numbers of the right
distribution.

tests/random tests later runs, and whether streams are independent.
"""
import numpy as np

from case import DTYPES, Case, Type, tensorflow_op
from optable import rows as table

LARGE = 211, 97  # several tiles
SHAPES = [(), (1,), (3,), (4,), (5,), (7, 9), (2, 3, 5, 7), (0,), (3, 0, 2), (2050,), LARGE]


def exact(name):
    """TensorFlow's numbers for the same op, which must be equal to the last bit, subnormals included."""
    row = table()[name]
    return lambda inputs, attrs: tensorflow_op(name, [a.name for a in row.args], inputs, attrs)


def seed(r):
    """A seed: small, negative, or of 64 bits."""
    return int(r.choice([r.integers(1, 99), -r.integers(1, 99), r.integers(-2**63, 2**63 - 1)]))


def bounds(r, tag):
    d = DTYPES[tag]
    limits = np.iinfo(d)
    low, high = sorted(r.integers(limits.min, limits.max, 2, endpoint=True).tolist())
    low, high = [(low, high), (-3, 5), (7, 8), (limits.min, limits.max), (0, 2**20 + 7)][int(r.integers(5))]
    return [np.array(low, d), np.array(max(high, low + 1) if low < limits.max else high, d)]


def parameters(r, tag, s):
    """Shape parameters of gamma distributions: below, at and above 1, for the last axes of the result."""
    s = s[int(r.integers(len(s) + 1)):]
    return np.where(r.random(s) < .2, 1, np.exp(r.normal(0, 1.5, s))).astype(DTYPES[tag])


def shape(r, s):
    return np.array(s, r.choice([np.int32, np.int64]))


def random_numbers(r, rows):
    for op in rows:
        integers = op.name == 'RandomUniformInt'
        for tag in op.types['Tout' if integers else 'dtype']:
            for s in SHAPES:
                # TensorFlow's kernels continue their streams, so each case has its own seeds.
                attrs = {'seed': seed(r), 'seed2': seed(r)}
                more = bounds(r, tag) if integers else []
                if not integers:
                    attrs['dtype'] = Type(tag)
                yield Case(op.name, [shape(r, s), *more], attrs, oracle=exact(op.name))
            if integers:
                more = [np.array(-3, DTYPES[tag]), np.array(5, DTYPES[tag])]
                for bad in (more[::-1], more[:1] * 2):
                    yield Case(op.name, [shape(r, (3,)), *bad], {'seed': 1}, fails=True)
            check = {'RandomUniform': uniform, 'RandomStandardNormal': normal, 'TruncatedNormal': truncated,
                     'RandomUniformInt': uniform_int}[op.name]
            yield Case(op.name, [np.array(LARGE, np.int32), *(more if integers else [])],
                       {} if integers else {'dtype': Type(tag)}, oracle=lambda i, a: None, check=check)


def stateless(r, rows):
    for op in rows:
        if op.name.startswith('StatelessRandomGet'):
            yield from keys(r, op)
            continue
        integers, gamma = ('minval' in [a.name for a in op.args], 'alpha' in [a.name for a in op.args])
        for tag in op.types['dtype']:
            if integers and tag.startswith('u'):
                continue  # TensorFlow has no such kernel
            attrs = {} if integers or gamma else {'dtype': Type(tag)}  # or the type of minval or alpha
            for s in SHAPES:
                more = bounds(r, tag) if integers else [parameters(r, tag, s)] if gamma else []
                begin = [np.array([seed(r), seed(r)])] if 'seed' in [a.name for a in op.args] else [
                    r.integers(2**64, size=1, dtype=np.uint64), r.integers(2**64, size=2, dtype=np.uint64),
                    np.array(r.choice([1, 3]), np.int32)]
                if 'seed' in [a.name for a in op.args] and r.random() < .5:
                    begin = [r.integers(-2**31, 2**31, 2).astype(np.int32)]
                # Ops with constant operands are folded; others are computed in the run.
                settings = ('shape', 'seed', 'key', 'counter', 'alg', 'minval', 'maxval', 'alpha')
                yield Case(op.name, [shape(r, s), *begin, *more], attrs, oracle=exact(op.name),
                           settings=settings if r.random() < .3 else ('shape',))
        if integers:
            yield Case(op.name, [shape(r, (3,)), *begin, *more[::-1]], fails=True)
        if gamma:
            yield Case(op.name, [shape(r, (3,)), *begin, np.ones(2, more[0].dtype)], fails=True)
            more = [np.ones(3, more[0].dtype)]
        if len(begin) == 3:
            yield Case(op.name, [shape(r, (3,)), *begin[:2], np.array(2, np.int32), *more], attrs, fails=True)


def keys(r, op):
    outputs = tuple(range(len(op.results)))
    if not op.args:
        yield Case(op.name, [], oracle=exact(op.name))
        return
    for d in np.int32, np.int64:
        for settings in ('seed',), ():
            limits = np.iinfo(d)
            yield Case(op.name, [r.integers(limits.min, limits.max, 2, dtype=d)], outputs=outputs, settings=settings,
                       oracle=exact(op.name))


# ---- distributions ----

def moments(x, mean, deviation, low, high):
    x = x.astype(np.float64)
    if x.shape != (211, 97):
        return f'shape {x.shape}'
    if not (x.min() >= low and x.max() <= high):
        return f'values from {x.min()} to {x.max()}, expected {low} to {high}'
    # Six standard errors of the mean; that of the deviation is smaller.
    if abs(x.mean() - mean) > 6 * deviation / np.sqrt(x.size) + 2**-9:
        return f'mean {x.mean():.4f}, expected {mean}'
    if abs(x.std() - deviation) > .03 * deviation:
        return f'deviation {x.std():.4f}, expected {deviation}'
    neighbours = np.corrcoef(x.ravel()[:-1], x.ravel()[1:])[0, 1]
    rows = np.corrcoef(x[:-1].ravel(), x[1:].ravel())[0, 1]
    if max(abs(neighbours), abs(rows)) > .04:
        return f'neighbours correlate: {neighbours:.3f}, {rows:.3f}'
    return None


def uniform(outputs):
    x = outputs[0].astype(np.float64)
    if x.max() >= 1:
        return f'{x.max()} is not below 1'
    return moments(outputs[0], .5, 12**-.5, 0, 1)


def normal(outputs):
    return moments(outputs[0], 0, 1, -7, 7)


def truncated(outputs):
    return moments(outputs[0], 0, .8796, -2, 2)


def uniform_int(outputs):
    if set(np.unique(outputs[0]).tolist()) != set(range(-3, 5)):
        return f'values {np.unique(outputs[0])}, expected -3 to 4'
    return moments(outputs[0], .5, np.sqrt(63 / 12), -3, 4)
