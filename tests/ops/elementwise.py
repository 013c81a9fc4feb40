"""Cases of elementwise ops, comparisons, casts and selections."""
import numpy as np

from case import DTYPES, Case, Type, flushed, tensorflow_op
from optable import FLOATS, INTEGERS
from values import PAIRS, SHAPES, edges, nonzero, pair_edges, pick, random

EXACT = {'Abs', 'Neg', 'Sign', 'Square', 'Floor', 'Ceil', 'Round', 'Rint', 'IsNan', 'IsInf',
         'IsFinite', 'LogicalNot', 'Invert', 'Relu', 'Relu6', 'LeakyRelu'}
# Correctly rounded; a double result rounds to the same.
ROUNDED = {'Reciprocal', 'Inv', 'Sqrt'}
# Where TensorFlow has no op, errs, or approximates.
FUNCTIONS = {
    'Erf': lambda x: erf(x),
    'Erfc': lambda x: erfc(x),
    'Elu': lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    'Selu': lambda x: np.where(x > 0, SCALE * x, SCALE * ALPHA * np.expm1(np.minimum(x, 0))),
    'Softplus': lambda x: np.logaddexp(x, 0),
    'Gelu': lambda x: .5 * x * (1 + erf(x * np.sqrt(.5))),
    'Silu': lambda x: x / (1 + np.exp(-x)),
    'HardSigmoid': lambda x: np.clip(x + 3, 0, 6) / 6,
    'HardSwish': lambda x: x * np.clip(x + 3, 0, 6) / 6,
}


PRODUCTS = {'Gelu', 'Silu', 'HardSwish'}
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


def erf(x):
    from scipy.special import erf as f
    return f(x)


def erfc(x):
    from scipy.special import erfc as f
    return f(x)


def of_function(f):
    """An oracle from a function on doubles."""
    def oracle(inputs, attrs):
        with np.errstate(all='ignore'):
            y = f(*(i.astype(np.float64) for i in inputs))
            return [flushed(np.asarray(y).astype(inputs[0].dtype))]
    return oracle


def accuracy(op, tag):
    """Allowed units in the last place, and the type that TensorFlow computes in."""
    if op in EXACT or tag not in FLOATS:
        return {}
    if op in ROUNDED:
        return {'exact_in': 'f64'}
    return {'ulps': {'f64': 256, 'f32': 3}.get(tag, 1), 'exact_in': 'f64'}


def unary(r, rows):
    for op in rows:
        for tag in (op.types['T'] if 'T' in op.types else ['bool']):
            more = accuracy(op.name, tag)
            if op.name in FUNCTIONS:
                more['oracle'] = of_function(FUNCTIONS[op.name])
            if op.name in PRODUCTS:
                more['absolute'] = 1e-6 if tag != 'f64' else 1e-14
            if op.name == 'Round' and tag in INTEGERS:  # TensorFlow 2.21 halves them first
                more['oracle'] = lambda i, a: [i[0]]
            if op.name == 'LeakyRelu':
                more['attrs'] = {'alpha': float(np.float32(.3))}
            if tag in INTEGERS and op.name in ('Reciprocal', 'Inv'):
                yield Case(op.name, [nonzero(r, tag, (33,))], **more)
                continue
            e = edges(tag)
            if op.name in PRODUCTS:  # the limit at -inf is no number in their formulas
                e = e[np.abs(e.astype(np.float64)) < 1e4]
            yield Case(op.name, [e], **more)
            if tag in FLOATS:
                yield Case(op.name, [np.tile(e, 3)[:len(e) * 2 + 5]], **more)
            for shape in pick(r, SHAPES, 2):
                yield Case(op.name, [random(r, tag, shape)], **more)


def prelu(r, rows):
    def oracle(inputs, attrs):
        x, alpha = (i.astype(np.float64) for i in inputs)
        return [np.where(x > 0, x, x * alpha).astype(inputs[0].dtype)]
    for tag in rows[0].types['T']:
        for shape, alpha in (((2, 5, 7, 3), (3,)), ((4, 17), (17,)), ((2, 3, 4, 5), (3, 4, 5)),
                             ((1, 9), (1,)), ((3, 3, 5), (1, 1, 5))):
            yield Case('Prelu', [random(r, tag, shape), random(r, tag, alpha)], oracle=oracle)


DIVIDES = {'Div', 'FloorDiv', 'TruncateDiv', 'Mod', 'FloorMod', 'TruncateMod', 'DivNoNan'}
INEXACT = {'Pow': 4, 'Atan2': 4, 'Xdivy': 0, 'Xlogy': 4, 'Xlog1py': 4}


def binary(r, rows):
    for op in rows:
        for tag in op.types['T']:
            more = {}
            if op.name in INEXACT and tag in FLOATS:
                ulps = INEXACT[op.name]
                more = {'ulps': 4096 if ulps and tag == 'f64' else min(ulps, 1) if tag in (
                    'f16', 'bf16') else ulps, 'exact_in': 'f64'}
            yield from binary_cases(r, op.name, tag, more)
        yield from binary_failures(op)


def binary_cases(r, op, tag, more):
    integer = tag in INTEGERS
    divides = op in DIVIDES or (integer and op == 'RealDiv')
    a, b = pair_edges(tag)
    if integer and op == 'Pow':
        a, b = np.tile(edges(tag)[:8], 8), np.repeat(np.arange(8), 8).astype(DTYPES[tag])
        a = np.where(np.abs(a.astype(np.int64)) < 100, a, 1).astype(a.dtype)
    if integer and divides:
        low = np.iinfo(DTYPES[tag]).min
        keep = (b != 0) & ~((a == low) & (b == np.array(-1).astype(b.dtype)) & (low < 0))
        a, b = a[keep], b[keep]
    if tag in FLOATS and op in ('Mod', 'FloorMod', 'TruncateMod', 'FloorDiv'):
        # Quotients beyond the type's integers have no agreed remainder.
        with np.errstate(all='ignore'):
            q = np.abs(a.astype(np.float64) / b.astype(np.float64))
        keep = ~np.isfinite(q) | (q == 0) | ((q < 100) & (q > 1e-30))
        a, b = a[keep], b[keep]
    yield Case(op, [a, b], **more)
    for sa, sb in pick(r, PAIRS, 3):
        x, y = random(r, tag, sa), random(r, tag, sb)
        if integer and divides:
            y = nonzero(r, tag, sb)
        if integer and op == 'Pow':
            x, y = random(r, tag, sa, -4, 4), random(r, tag, sb, 0, 5)
        yield Case(op, [x, y], **more)
        yield Case(op, [y, x] if not (integer and (divides or op == 'Pow')) else [x, y], **more)


def binary_failures(op):
    for tag in ('i32', 'i64'):
        if tag not in op.types['T']:
            continue
        x = np.array([1, 2, 3], DTYPES[tag])
        if op.name in ('FloorDiv', 'FloorMod', 'Div', 'TruncateDiv', 'Mod', 'TruncateMod'):
            yield Case(op.name, [x, np.array([1, 0, 2], DTYPES[tag])], fails=True,
                       note='divides by zero')
        if op.name == 'Pow':
            yield Case(op.name, [x, np.array([1, -1, 2], DTYPES[tag])], fails=True,
                       note='negative exponent')


def compare(r, rows):
    for op in rows:
        for tag in op.types['T']:
            a, b = pair_edges(tag)
            yield Case(op.name, [a, b])
            for sa, sb in pick(r, PAIRS, 2):
                x, y = random(r, tag, sa, -2, 2), random(r, tag, sb, -2, 2)
                if tag in FLOATS:
                    x, y = np.round(x), np.round(y)
                yield Case(op.name, [x, y])
            if op.name in ('Equal', 'NotEqual'):
                yield from lenient(r, op.name, tag)


def lenient(r, op, tag):
    """Shapes that broadcast, and others: one answer for all elements."""
    more = {'attrs': {'incompatible_shape_error': False}}
    for sa, sb in pick(r, PAIRS, 2) + [((3,), (4,)), ((2, 3), (3, 2)), ((5, 2, 1), (3, 7))]:
        yield Case(op, [random(r, tag, sa, -2, 2), random(r, tag, sb, -2, 2)], **more)


def logical(r, rows):
    for op in rows:
        yield Case(op.name, list(pair_edges('bool'))[:len(op.args)])
        for sa, sb in pick(r, PAIRS, 5):
            yield Case(op.name, [random(r, 'bool', s) for s in (sa, sb)][:len(op.args)])


def bitwise(r, rows):
    for op in rows:
        for tag in op.types['T']:
            if len(op.args) == 1:
                yield Case(op.name, [edges(tag)])
                yield Case(op.name, [random(r, tag, (3, 17))])
                continue
            a, b = pair_edges(tag)
            yield Case(op.name, [a, b])
            for sa, sb in pick(r, PAIRS, 2):
                yield Case(op.name, [random(r, tag, sa, -99, 99), random(r, tag, sb)])


def cast(r, rows):
    casts = [o for o in rows if o.name == 'Cast']
    for op in casts:
        for source in op.types['SrcT']:
            for to in op.types['DstT']:
                attrs = {'DstT': Type(to)}
                yield Case('Cast', [castable(edges(source), source, to)], attrs,
                           oracle=cast_oracle)
                yield Case('Cast', [castable(random(r, source, (3, 19)), source, to)], attrs,
                           oracle=cast_oracle)
        # The machine's conversion: the smallest integer for what does not fit.
        for source in ('f32', 'f64'):
            for to in ('i32', 'i64'):
                yield Case('Cast', [edges(source)], {'DstT': Type(to)})
    for op in rows:
        if op.name == 'Bitcast':
            def bits(inputs, attrs):
                return [inputs[0].view(DTYPES[attrs['type']])]
            for a, b in (('f32', 'i32'), ('i32', 'f32'), ('f16', 'u16'), ('u16', 'bf16'),
                         ('f64', 'i64'), ('u8', 'i8'), ('f32', 'u32')):
                x = np.abs(random(r, a, (3, 7)))
                yield Case('Bitcast', [x + x.dtype.type(0x3f80 if b == 'bf16' else 0)],
                           {'type': Type(b)}, oracle=bits)
            yield Case('Bitcast', [random(r, 'f32', (3, 7))], {'type': Type('u8')},
                       oracle=lambda i, a: [i[0].view(np.uint8).reshape(3, 7, 4)])
            yield Case('Bitcast', [random(r, 'i16', (3, 2))], {'type': Type('i32')},
                       oracle=lambda i, a: [i[0].view(np.int32).reshape(3)])
            for tag in op.types['T']:
                if tag != 'bool':
                    yield Case('Bitcast', [random(r, tag, (5,))], {'type': Type(tag)}, oracle=bits)


def castable(x, source, to):
    """What the C language defines a conversion of; edges beyond it have cases of their own."""
    if source not in FLOATS or to not in INTEGERS:
        return x
    i = np.iinfo(DTYPES[to])
    wide = x.astype(np.float64)
    with np.errstate(invalid='ignore'):
        return x[(wide > i.min - 1) & (wide < i.max)]


def cast_oracle(inputs, attrs):
    from case import TAGS
    x, to = inputs[0], attrs['DstT']
    if to in ('f16', 'bf16') and TAGS[x.dtype] in ('f64', *INTEGERS):
        # Rounded once; TensorFlow goes through float32 on the way to bfloat16.
        with np.errstate(over='ignore'):
            return [flushed(x.astype(DTYPES[to]))]
    return [flushed(tensorflow_op('Cast', ['x'], inputs, attrs)[0])]


def bias_add(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for shape in ((3, 17), (2, 5, 7, 3), (1, 4), (2, 3, 5), (0, 5)):
                yield Case(op.name, [random(r, tag, shape), random(r, tag, shape[-1:])],
                           {'data_format': 'NHWC'} if op.name == 'BiasAdd' else {})
            if op.name == 'BiasAdd':
                yield Case('BiasAdd', [random(r, tag, (2, 3, 5, 7)), random(r, tag, (3,))],
                           {'data_format': 'NCHW'})


def select(r, rows):
    for op in rows:
        for tag in op.types['T']:
            same = [((7,),) * 3, ((3, 5),) * 3, ((), (), ()), ((2, 0),) * 3]
            shapes = same + ([((3,), (3, 5), (3, 5)), ((), (3, 5), (3, 5))] if op.name == 'Select'
                             else [((3, 1), (5,), (3, 5)), ((4, 5), (), (5,)), ((), (2, 3), (3,)),
                                   ((1,), (0,), (0,))])
            for c, x, y in pick(r, shapes, 4):
                yield Case(op.name, [random(r, 'bool', c), random(r, tag, x), random(r, tag, y)])
            yield Case(op.name, [random(r, 'bool', edges(tag).shape), edges(tag),
                                 edges(tag)[::-1].copy()])


def clip(r, rows):
    for tag in rows[0].types['T']:
        low, high = (np.array(v).astype(DTYPES[tag]) for v in (1, 5))
        yield Case('ClipByValue', [edges(tag), low, high])
        yield Case('ClipByValue', [random(r, tag, (3, 17)), low, high])
        yield Case('ClipByValue', [random(r, tag, (3, 5)), np.full((3, 5), low), high * np.ones(
            (3, 5), DTYPES[tag])])


def fake_quant(r, rows):
    """Limits around 0, on one side of it, and both 0; few bits and many."""
    limits = [(-6, 6), (-.1, 3.7), (.5, 2), (-9, -1), (-1e-3, 1e-3), (0, 0)]
    x = np.concatenate([edges('f32')[np.isfinite(edges('f32'))], np.linspace(-7, 7, 301, dtype=np.float32)])
    for op in rows:
        for low, high in limits:
            for bits, narrow in ((8, False), (8, True), (2, False), (16, True)):
                attrs = {'num_bits': bits, 'narrow_range': narrow}
                low_, high_ = np.float32(low), np.float32(high)
                step = (high - low) / (2**bits - 1 - narrow)
                # What lies between two points of the grid goes either way in TensorFlow too.
                place = x.astype(np.float64) / step % 1 if step else np.zeros(x.shape)
                y = x[(np.abs(place - .5) > .01) | (np.abs(x) > 20)]
                if op.name.endswith('Args'):
                    if low < high:
                        yield Case(op.name, [y], {**attrs, 'min': float(low_), 'max': float(high_)}, zero_signs=False)
                elif op.name.endswith('Vars'):
                    yield Case(op.name, [y, np.array(low_), np.array(high_)], attrs, zero_signs=False)
                else:
                    lows, highs = (np.array([v, v * 2, v / 3], np.float32) for v in (low, high))
                    yield Case(op.name, [random(r, 'f32', (5, 7, 3)), lows, highs], attrs, zero_signs=False)


def add_n(r, rows):
    for op in rows:
        for tag in op.types['T']:
            for n, shape in ((1, (7,)), (2, (3, 5)), (5, (1, 17)), (3, ()), (2, (0, 3))):
                more = {'attrs': {'shape': tuple(shape)}} if op.name == 'AccumulateNV2' else {}
                # The order of a sum is not said; low types add in float32.
                yield Case(op.name, [[random(r, tag, shape) for _ in range(n)]],
                           slack=1e-6 if tag in ('f32', 'f64') else 0,
                           ulps=1 if tag in FLOATS else 0, **more)


def subnormals(r, rows):
    """Float16 has subnormals; float32 counts them as zero, as TensorFlow does, and keeps them when it is
    told to; bfloat16 flushes them.  NumPy is the reference of what is kept."""
    f = np.float32
    tiny = np.array([1e-40, -1e-40, 1.4e-45, 1.1754944e-38, -2e-39, 0, 1e-38], f)
    cases = {'Neg': (lambda x: -x, 1), 'Abs': (np.abs, 1), 'Relu': (lambda x: np.maximum(x, 0), 1),
             'AddV2': (np.add, 2), 'Sub': (np.subtract, 2), 'Mul': (np.multiply, 2),
             'Maximum': (np.maximum, 2), 'Minimum': (np.minimum, 2),
             'RealDiv': (np.divide, 2)}
    for op, (fn, args) in cases.items():
        def oracle(inputs, attrs, fn=fn):
            with np.errstate(all='ignore'):
                return [fn(*inputs)]
        other = np.array([1, 2, 1e-3, .5, -1, 3, -.25], f)
        yield Case(op, [tiny, other][:args], oracle=oracle, note='subnormal', zero_signs=False)
        half = np.array([6e-8, -1e-6, 6e-5, 2e-5, -6e-8, 0, 1e-7], np.float16)
        yield Case(op, [half, other.astype(np.float16)][:args], oracle=oracle, note='subnormal',
                   zero_signs=False)
    for x, to in ((tiny, 'bf16'), (tiny, 'f16'), (tiny * f(1e30), 'f16')):
        yield Case('Cast', [x], {'DstT': Type(to)}, note='subnormal',
                   oracle=lambda i, a, to=to: [flushed(i[0].astype(DTYPES[to]))])
    half = np.arange(0, 1024, 7, np.uint16).view(np.float16)
    yield Case('Cast', [half], {'DstT': Type('f32')}, note='subnormal',
               oracle=lambda i, a: [i[0].astype(f)])


def flushes(r, rows):
    """Arithmetic on float32 and float64 that counts subnormals as zero, computed when the program runs and
    when it is compiled."""
    def zeroed(x):
        return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, np.copysign(0, x), x).astype(x.dtype)

    for d in np.float32, np.float64:
        least = float(np.finfo(d).smallest_normal)
        x = (r.uniform(-3, 3, 65) * least).astype(d)
        y = r.choice(np.array([1, -2, .5, .25, 3], d), 65)
        for op, fn in {'AddV2': np.add, 'Sub': np.subtract, 'Mul': np.multiply, 'RealDiv': np.divide}.items():
            def oracle(inputs, attrs, fn=fn):
                return [zeroed(fn(zeroed(inputs[0]), zeroed(inputs[1])))]
            other = x[::-1].copy() if op in ('AddV2', 'Sub') else y
            for constant in (), ('x', 'y'):
                yield Case(op, [x, other], oracle=oracle, settings=constant, note='flushed', zero_signs=False)
