"""The definition of ops in low precision: exact operands, the formula in float64, rounded once at the end.  bfloat16
has no subnormals: operands and results that are subnormal count as zero."""
import math

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {'f16': np.dtype(np.float16), 'bf16': BF16}

erf = np.frompyfunc(math.erf, 1, 1)
erfc = np.frompyfunc(math.erfc, 1, 1)


def of_float(f):
    return lambda x: f(x).astype(np.float64)


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def attr32(x):
    """An attribute is a float32."""
    return float(np.float32(x))


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
# op → formula in float64
UNARY = {
    'Abs': np.abs, 'Neg': np.negative, 'Sign': lambda x: np.where(x == 0, x, np.sign(x)), 'Reciprocal': lambda x: 1 / x,
    'Inv': lambda x: 1 / x, 'Square': np.square, 'Sqrt': np.sqrt, 'Rsqrt': lambda x: 1 / np.sqrt(x),
    'Exp': np.exp, 'Expm1': np.expm1, 'Log': np.log, 'Log1p': np.log1p, 'Sin': np.sin,
    'Cos': np.cos, 'Tan': np.tan, 'Asin': np.arcsin, 'Acos': np.arccos, 'Atan': np.arctan,
    'Sinh': np.sinh, 'Cosh': np.cosh, 'Tanh': np.tanh, 'Asinh': np.arcsinh, 'Acosh': np.arccosh,
    'Atanh': np.arctanh, 'Erf': of_float(erf), 'Erfc': of_float(erfc), 'Sigmoid': sigmoid,
    'Floor': np.floor, 'Ceil': np.ceil, 'Round': np.rint, 'Rint': np.rint,
    'Relu': lambda x: np.where(x < 0, 0, x),
    'Relu6': lambda x: np.where(x < 0, 0, np.where(x > 6, 6, x)),
    'LeakyRelu': lambda x: np.where(x > 0, x, x * attr32(.2)),
    'Elu': lambda x: np.where(x < 0, np.expm1(x), x),
    'Selu': lambda x: SELU_SCALE * np.where(x < 0, SELU_ALPHA * np.expm1(x), x),
    'Softplus': lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    'Softsign': lambda x: x / (np.abs(x) + 1),
    'Gelu': lambda x: x / 2 * of_float(erfc)(-x / math.sqrt(2)),
    'Silu': lambda x: x * sigmoid(x),
    'HardSigmoid': lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6,
    'HardSwish': lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
}


def normal(a):
    """For bfloat16: subnormals become zero."""
    if a.dtype != BF16:
        return a
    bits = a.view(np.uint16)
    return np.where(bits & 0x7f80, bits, bits & 0x8000).astype(np.uint16).view(BF16)


def exactly(a):
    """16-bit numbers as float64."""
    with np.errstate(invalid='ignore'):
        return normal(a).astype(np.float64)


def to_odd(x):
    """float64 as float32 such that rounding it further rounds x only once."""
    with np.errstate(all='ignore'):
        near = x.astype(np.float32)
        back = near.astype(np.float64)
    inexact = (back != x) & ~np.isnan(x)
    bits = near.view(np.int32) - (inexact & (np.abs(back) > np.abs(x)))
    return (bits | inexact).astype(np.int32).view(np.float32)


def rounded(x, tag):
    """float64, rounded once."""
    with np.errstate(all='ignore'):
        if tag == 'f16':
            return x.astype(np.float16)
        f = to_odd(x)
        return np.where(np.abs(f) < 2.0**-126, np.copysign(np.float32(0), f), f).astype(BF16)


def steps(a, b):
    """The distance of two 16-bit numbers in steps; NaN and NaN: 0, NaN and a number: 2^16.  bfloat16's subnormals do
    not count."""
    def place(x):
        magnitude = (x.view(np.uint16) & 0x7fff).astype(np.int32)
        if x.dtype == BF16:
            magnitude = np.maximum(magnitude - 127, 0)
        return np.where(x.view(np.uint16) >> 15, -magnitude, magnitude)

    def is_nan(x):
        return (x.view(np.uint16) & 0x7fff) > (0x7f80 if x.dtype == BF16 else 0x7c00)
    d = np.abs(place(a) - place(b))
    return np.where(is_nan(a) | is_nan(b), np.where(is_nan(a) & is_nan(b), 0, 1 << 16), d)


def no_zero_divide(f, zero):
    """f, but 0 where zero(x, y) is true."""
    return lambda x, y: np.where(zero(x, y), 0, f(x, y))


def floor_mod(x, y):
    r = np.fmod(x, y)
    return np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


def maximum(x, y):
    """The second operand if they are equal, as -0 and 0 are."""
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x, y))


def minimum(x, y):
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x < y, x, y))


BINARY = {
    'Add': np.add, 'AddV2': np.add, 'Sub': np.subtract, 'Mul': np.multiply, 'Div': np.divide,
    'RealDiv': np.divide, 'MulNoNan': no_zero_divide(np.multiply, lambda x, y: y == 0),
    'DivNoNan': no_zero_divide(np.divide, lambda x, y: y == 0), 'Minimum': minimum,
    'Maximum': maximum, 'SquaredDifference': lambda x, y: (x - y)**2, 'Pow': np.power,
    'Atan2': np.arctan2, 'Xdivy': no_zero_divide(np.divide, lambda x, y: x == 0),
    'Xlogy': no_zero_divide(lambda x, y: x * np.log(y), lambda x, y: x == 0),
    'Xlog1py': no_zero_divide(lambda x, y: x * np.log1p(y), lambda x, y: x == 0),
    'Mod': np.fmod, 'TruncateMod': np.fmod, 'FloorMod': floor_mod,
    'TruncateDiv': lambda x, y: np.trunc(x / y), 'FloorDiv': lambda x, y: np.floor(x / y),
}
COMPARE = {
    'Equal': np.equal, 'NotEqual': np.not_equal, 'Less': np.less, 'LessEqual': np.less_equal,
    'Greater': np.greater, 'GreaterEqual': np.greater_equal,
}
