#!/usr/bin/env python3
"""Linear algebra against live TensorFlow: inverses, systems, triangles, determinants and factors of random matrices, in batches, of each
dtype.  A matrix that cannot be inverted stops the run.

Exit code 77: nothing to test with.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
from live import check_stops, close, freeze, np, run, tf  # noqa: E402

TOLERANCE = {np.float32: 2e-4, np.float64: 1e-10}


def algebra(x, y):
    """Matrices that are far from singular, some of which need other pivots than the first element, and what stands at their right."""
    n = x.shape[-1]
    raw, linalg, scaled = tf.raw_ops, tf.linalg, x + n * tf.reverse(tf.eye(n, dtype=x.dtype), [0])
    square = tf.matmul(x, x, transpose_b=True) + tf.eye(n, dtype=x.dtype)
    sign, size = linalg.slogdet(scaled)
    return (*(f(scaled, adjoint=adjoint) for f in (linalg.inv,) for adjoint in (False, True)),
            *(linalg.solve(scaled, y, adjoint=adjoint) for adjoint in (False, True)),
            *(raw.MatrixTriangularSolve(matrix=x + n * tf.eye(n, dtype=x.dtype), rhs=y, lower=lower, adjoint=adjoint)
              for lower in (False, True) for adjoint in (False, True)),
            linalg.cholesky(square), linalg.cholesky_solve(linalg.cholesky(square), y), sign, size, linalg.det(x), linalg.det(scaled),
            linalg.det(x * 0), linalg.slogdet(x[..., :1] * x[..., :1, :] * 0)[1])


def check(r, folder, dtype):
    n, batch = int(r.integers(1, 8)), tuple(int(k) for k in r.integers(1, 4, r.integers(0, 3)))
    x, y = r.standard_normal((*batch, n, n)).astype(dtype), r.standard_normal((*batch, n, int(r.integers(1, 5)))).astype(dtype)
    frozen = freeze(algebra, [tf.TensorSpec(x.shape, dtype, 'x'), tf.TensorSpec(y.shape, dtype, 'y')], f'{folder}/m.pb')
    outputs = [o.name.removesuffix(':0') for o in frozen.outputs]
    got = run(folder, f'{folder}/m.pb', {'x': x, 'y': y}, outputs, '--outputs', ','.join(outputs))
    for o, g, w in zip(outputs, got, tf.nest.flatten(frozen(tf.constant(x), tf.constant(y))), strict=True):
        w, finite = w.numpy(), np.isfinite(w)
        if not np.array_equal(g[~finite], w[~finite]) or not close(np.where(finite, g, 0), np.where(finite, w, 0), TOLERANCE[dtype]):
            sys.exit(f'{dtype.__name__}, {x.shape}, {y.shape}: {o} is {g!r}, not {w!r}')


def check_singular(folder):
    def f(x):
        return tf.linalg.inv(x) * 2
    freeze(f, [tf.TensorSpec((2, 3, 3), tf.float32, 'x')], f'{folder}/m.pb')
    check_stops('a singular matrix', folder, f'{folder}/m.pb', {'x': np.stack([np.eye(3), np.ones((3, 3))]).astype('f4')}, 'is_invertible')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=int.from_bytes(os.urandom(4), 'little'))
    a = p.parse_args()
    print('seed', a.seed, flush=True)
    r = np.random.default_rng(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        for dtype in TOLERANCE:
            check(r, folder, dtype)
        check_singular(folder)


if __name__ == '__main__':
    main()
