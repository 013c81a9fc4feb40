#!/usr/bin/env python3
"""Prints the polynomial coefficients of kernel/math_*.c: minimax by Remez's exchange (needs mpmath).

Each line has the approximated function, its interval, the largest error relative to the function, and the coefficients
from the lowest.  Coefficients for float32 are rounded one after the other; the others are fitted again each time.
"""
import struct
from mpmath import mp, mpf, matrix, lu_solve, exp, log, sin, cos, atan, erf, erfc, sqrt, pi, chop, expm1, log1p

mp.dps = 60


def remez(g, w, powers, lo, hi, rounds=12):
    """Coefficients c of sum c[j] * x**powers[j] that minimise the largest |w * (sum - g)|."""
    n = len(powers)
    nodes = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + mpf(1) / 2) / (n + 1)) for i in range(n + 1)]
    for _ in range(rounds):
        m = matrix(n + 1, n + 1)
        v = matrix(n + 1, 1)
        for i, x in enumerate(nodes):
            for j, p in enumerate(powers):
                m[i, j] = x**p
            m[i, n] = (-1)**i / w(x)
            v[i] = g(x)
        c = lu_solve(m, v)
        err = lambda x: w(x) * (sum(c[j] * x**p for j, p in enumerate(powers)) - g(x))
        # The point of the largest error between each two sign changes, on a grid.
        points = [lo + (hi - lo) * mpf(i) / 1500 for i in range(1501)]
        best, runs = None, []
        for x in points:
            e = err(x)
            if best is not None and (e > 0) == (best[0] > 0):
                if abs(e) > abs(best[0]):
                    best = (e, x)
            else:
                if best is not None:
                    runs.append(best)
                best = (e, x)
        runs.append(best)
        while len(runs) > n + 1:
            runs.pop(0 if abs(runs[0][0]) < abs(runs[-1][0]) else -1)
        if len(runs) < n + 1:
            break
        nodes = [x for _, x in runs]
        if max(abs(e) for e, _ in runs) < min(abs(e) for e, _ in runs) * mpf(1.001):
            break
    return [c[j] for j in range(n)], max(abs(err(x)) for x in points)


def f32(x):
    return mpf(struct.unpack('f', struct.pack('f', float(x)))[0])


def rounded(g, w, powers, lo, hi, fmt=f32):
    """As remez, but rounds the coefficients to a format, one after the other."""
    done, rest, h = [], list(powers), g
    while rest:
        c, _ = remez(h, w, rest, lo, hi)
        r = fmt(c[0])
        done.append(r)
        p = rest.pop(0)
        h = (lambda old, r, p: lambda x: old(x) - r * x**p)(h, r, p)
    worst = max(abs(w(x) * h(x)) for x in [lo + (hi - lo) * mpf(i) / 1500 for i in range(1501)])
    return done, worst


def show(name, lo, hi, result, single):
    c, e = result
    print(f'{name} on [{float(lo):.4g}, {float(hi):.4g}], error {float(e):.2e}')
    for x in c:
        x = f32(x) if single else x
        print('   ', float(x).hex() + (f'f  /* {float(x)!r} */' if single else ''))


half = log(2) / 2 * mpf('1.002')
tiny = mpf(10)**-8


def at(f, x0):
    """f, with its limit in place of the value at 0."""
    return lambda x: f(x if abs(x) > mpf(10)**-12 else mpf(10)**-12)


show('float32 (e^r - 1 - r) / r^2', -half, half,
     rounded(at(lambda r: (exp(r) - 1 - r) / r**2, 0), lambda r: r**2 / exp(r) + mpf(10)**-15, range(5), -half, half), True)
m0, m1 = sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1
show('float32 (log(1+f) - f + f^2/2) / f^3', m0, m1,
     rounded(at(lambda f: (log1p(f) - f + f * f / 2) / f**3, 0), at(lambda f: abs(f**3 / log1p(f)) + mpf(10)**-12, 0), range(9), m0, m1), True)
top = mpf('0.9277') ** 2
root = at(lambda s: (erf(sqrt(s)) / sqrt(s) - 1), 0)
show('float32 erf(x)/x - 1 in x^2', 0, top, rounded(root, lambda s: mpf(1), range(7), mpf(0), top), True)
lo, hi = mpf('0.9277'), mpf(4)
show('float32 -log(erfc(t)) / t - 1 in t', lo, hi,
     rounded(lambda t: -log(erfc(t)) / t - 1, lambda t: t * erfc(t) / erf(t), range(7), lo, hi), True)
q = (pi / 4 * mpf('1.0001')) ** 2
show('float64 (sin(r)/r - 1)/r^2 in r^2', 0, q, remez(at(lambda s: (sin(sqrt(s)) / sqrt(s) - 1) / s, 0), lambda s: s + mpf(10)**-12, range(5), mpf(0), q), False)
show('float64 (cos(r) - 1)/r^2 in r^2', 0, q, remez(at(lambda s: (cos(sqrt(s)) - 1) / s, 0), lambda s: s / cos(sqrt(s)) + mpf(10)**-12, range(6), mpf(0), q), False)
t = mpf('0.41422') ** 2
show('float64 atan(z)/z in z^2, short', 0, t, remez(at(lambda s: atan(sqrt(s)) / sqrt(s), 0), lambda s: mpf(1), range(9), mpf(0), t), False)
show('float64 (e^r - 1 - r) / r^2, short', -half, half, remez(at(lambda r: (exp(r) - 1 - r) / r**2, 0), lambda r: r**2 / abs(expm1(r) if r else 1) + mpf(10)**-13, range(8), -half, half), False)
show('float64 (e^r - 1 - r) / r^2, long', -half, half, remez(at(lambda r: (exp(r) - 1 - r) / r**2, 0), lambda r: r**2 / abs(expm1(r) if r else 1) + mpf(10)**-13, range(11), -half, half), False)
u = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1) * mpf('1.0001')) ** 2
atanh = at(lambda s: (mp.atanh(sqrt(s)) / sqrt(s) - 1) / s, 0)
show('float64 (atanh(s)/s - 1)/s^2 in s^2, short', 0, u, remez(atanh, lambda s: s + mpf(10)**-12, range(6), mpf(0), u), False)
show('float64 (atanh(s)/s - 1)/s^2 in s^2, long', 0, u, remez(atanh, lambda s: s + mpf(10)**-12, range(9), mpf(0), u), False)
top = mpf('0.6') ** 2
show('float32 (tanh(x)/x - 1)/x^2 in x^2', 0, top,
     rounded(at(lambda s: (mp.tanh(sqrt(s)) / sqrt(s) - 1) / s, 0), lambda s: s + mpf(10)**-10, range(5), mpf(0), top), True)
show('float64 (atan(z)/z - 1)/z^2 in z^2, long', 0, t, remez(at(lambda s: (atan(sqrt(s)) / sqrt(s) - 1) / s, 0), lambda s: s + mpf(10)**-12, range(12), mpf(0), t), False)
show('float64 (sin(r)/r - 1)/r^2 in r^2, long', 0, q, remez(at(lambda s: (sin(sqrt(s)) / sqrt(s) - 1) / s, 0), lambda s: s + mpf(10)**-12, range(6), mpf(0), q), False)
show('float64 (cos(r) - 1 + r^2/2)/r^4 in r^2, long', 0, q, remez(at(lambda s: (cos(sqrt(s)) - 1 + s / 2) / s**2, 0), lambda s: s**2 / cos(sqrt(s)) + mpf(10)**-12, range(6), mpf(0), q), False)
top = mpf('0.75') ** 2
near = lambda s: erf(sqrt(s or mpf(10)**-30)) / sqrt(s or mpf(10)**-30) - 1
show('float64 erf(x)/x - 1 in x^2', 0, top, remez(near, lambda s: mpf(1), range(11), mpf(0), top), False)
erfcx = lambda z: (lambda a: (1 + 2 * a) * exp(a * a) * erfc(a))(4 * (1 + z) / (1 - z))
lo, hi = (mpf('0.75') - 4) / (mpf('0.75') + 4), (mpf(28) - 4) / (mpf(28) + 4)
show('float64 (1 + 2a) e^(a^2) erfc(a) in (a-4)/(a+4)', lo, hi, remez(erfcx, lambda z: 1 / erfcx(z), range(21), lo, hi), False)
show('float64 (sinh(x)/x - 1)/x^2 in x^2', 0, 1, remez(at(lambda s: (mp.sinh(sqrt(s)) / sqrt(s) - 1) / s, 0), lambda s: s + mpf(10)**-12, range(7), mpf(0), mpf(1)), False)


# lower/map_gelu.c: Phi(-a) = 2^-P(a)
def least_squares(g, w, powers, points):
    """Coefficients c of sum c[j] * x**powers[j] with the least sum of w(x) (sum - g(x))^2."""
    rows = [[x**p for p in powers] for x in points]
    weights, values = [w(x) for x in points], [g(x) for x in points]
    m, v = matrix(len(powers), len(powers)), matrix(len(powers), 1)
    for i in range(len(powers)):
        for j in range(len(powers)):
            m[i, j] = mp.fsum(a * r[i] * r[j] for r, a in zip(rows, weights))
        v[i] = mp.fsum(a * r[i] * b for r, a, b in zip(rows, weights, values))
    c = lu_solve(m, v)
    worst = max(abs(mp.fsum(c[j] * r[j] for j in range(len(powers))) - b) for r, b in zip(rows, values))
    return [f32(c[j]) for j in range(len(powers))], worst


def bf16s(lo, hi):
    """The numbers of bfloat16 in the interval."""
    return [mpf(2)**e * (1 + mpf(m) / 128) for e in range(-9, 4) for m in range(128) if lo < mpf(2)**e * (1 + mpf(m) / 128) < hi]


phi = lambda a: erfc(a / sqrt(mpf(2))) / 2
exponent = lambda a: -log(phi(a)) / log(2)
show('float32 2^r', -0.5, 0.5, remez(lambda r: mpf(2)**r, lambda r: mpf(2)**-r, range(7), -mpf(1) / 2, mpf(1) / 2), True)
show('bfloat16 2^r', -0.5, 0.5, remez(lambda r: mpf(2)**r, lambda r: mpf(2)**-r, range(5), -mpf(1) / 2, mpf(1) / 2), True)
lo, hi = mpf(10)**-9, mpf('5.5')
show('float32 -log2(Phi(-a)) - 1', lo, hi,
     remez(lambda a: exponent(a) - 1, lambda a: phi(a) / (1 - phi(a)) * log(2), range(1, 10), lo, hi), True)
# The result 1/2 is exact only if P begins with this number.  The weight of each number is the
# mantissa of its result.
begin = mpf(float.fromhex('0x1.ffffdep-1'))
mantissa = lambda x: x / mpf(2)**mp.floor(log(x, 2))
show('bfloat16 -log2(Phi(-a)) less its first coefficient', mpf(2)**-9, mpf('13.22'),
     least_squares(lambda a: exponent(a) - begin, lambda a: mantissa(a * phi(a)), range(1, 10), bf16s(mpf(2)**-9, mpf('13.22'))), True)
