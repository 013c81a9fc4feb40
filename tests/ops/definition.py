"""What ops are defined to give in low precision: operands as they are, the formula in float64,
rounded once at the end.  bfloat16 has no subnormals: as operands and as results they are zero."""
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


def where_finite(f, at_minus_infinity):
    """f, whose limit at -inf its formula does not give."""
    return lambda x: np.where(np.isneginf(x), at_minus_infinity, f(np.where(np.isneginf(x), 0, x)))


def attr32(x):
    """An attribute is a float32."""
    return float(np.float32(x))


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
# op → formula in float64
UNARY = {
    'Abs': np.abs, 'Neg': np.negative, 'Sign': np.sign, 'Reciprocal': lambda x: 1 / x,
    'Inv': lambda x: 1 / x, 'Square': np.square, 'Sqrt': np.sqrt, 'Rsqrt': lambda x: 1 / np.sqrt(x),
    'Exp': np.exp, 'Expm1': np.expm1, 'Log': np.log, 'Log1p': np.log1p, 'Sin': np.sin,
    'Cos': np.cos, 'Tan': np.tan, 'Asin': np.arcsin, 'Acos': np.arccos, 'Atan': np.arctan,
    'Sinh': np.sinh, 'Cosh': np.cosh, 'Tanh': np.tanh, 'Asinh': np.arcsinh, 'Acosh': np.arccosh,
    'Atanh': np.arctanh, 'Erf': of_float(erf), 'Erfc': of_float(erfc), 'Sigmoid': sigmoid,
    'Floor': np.floor, 'Ceil': np.ceil, 'Round': np.rint, 'Rint': np.rint,
    'Relu': lambda x: np.maximum(x, 0), 'Relu6': lambda x: np.minimum(np.maximum(x, 0), 6),
    'LeakyRelu': lambda x: np.where(x > 0, x, x * attr32(.2)),
    'Elu': lambda x: np.where(x < 0, np.expm1(x), x),
    'Selu': lambda x: SELU_SCALE * np.where(x < 0, SELU_ALPHA * np.expm1(x), x),
    'Softplus': lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    'Softsign': lambda x: x / (np.abs(x) + 1),
    'Gelu': lambda x: x / 2 * of_float(erfc)(-x / math.sqrt(2)),
    'Silu': lambda x: x * sigmoid(x),
    'HardSwish': lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
}
