#!/usr/bin/env python3
"""Number formats: the rounding of kernels, bit for bit against ml_dtypes; policies with formats against NumPy.

With HALFTONE_LONG=1 all 2^32 numbers of float32 in each format, else those around every place where rounding changes."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'python'))
from package import environment  # noqa: E402

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import halftone as ht  # noqa: E402

# Formats by Halftone's names: those of ml_dtypes, and float16.
FORMATS = {name: getattr(ml_dtypes, dtype) for name, dtype in (
    ('bf16', 'bfloat16'), ('e5m2', 'float8_e5m2'), ('e4m3', 'float8_e4m3'), ('e3m4', 'float8_e3m4'),
    ('e4m3fn', 'float8_e4m3fn'), ('e4m3fnuz', 'float8_e4m3fnuz'), ('e4m3b11fnuz', 'float8_e4m3b11fnuz'),
    ('e5m2fnuz', 'float8_e5m2fnuz'), ('e3m2fn', 'float6_e3m2fn'), ('e2m3fn', 'float6_e2m3fn'),
    ('e2m1fn', 'float4_e2m1fn'), ('e8m0fnu', 'float8_e8m0fnu'))} | {'f16': np.float16}
PIECE = 1 << 21


def rounded(x, dtype):
    with np.errstate(all='ignore'):
        return x.astype(dtype).astype(np.float32)


def bits(x):
    """A NaN of float16 keeps its payload in NumPy and in instructions; other formats have one NaN for each sign."""
    return np.where(np.isnan(x), np.copysign(np.float32('nan'), x), x).view(np.uint32)


def graph(formats):
    """A graph with one op for each format, all with one input."""
    lines = ['hir 1', 'entry "" {', '  input "x" = %x']
    lines += [f'  output "{f}" = %r{i}' for i, f in enumerate(formats)]
    lines += ['}', f'%x = Placeholder() {{dtype=f32, shape=shape[{PIECE}]}}']
    lines += [f'%r{i} = _Rounded(%x) {{T=f32, format="{f}"}}' for i, f in enumerate(formats)]
    return '\n'.join(lines) + '\n'


def compiled(text, **options):
    with tempfile.NamedTemporaryFile('w', suffix='.hir') as f:
        f.write(text)
        f.flush()
        return ht.load(f.name).compile(**options)


def samples():
    """Every sign, exponent and six further bits, with numbers around ties; including subnormals, infinities and NaN."""
    high = np.arange(1 << 15, dtype=np.uint32) << 17
    low = np.array([0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x10000, 0x10001, 0x1ffff], np.uint32)
    drawn = np.random.default_rng().integers(0, 1 << 32, 1 << 20, np.uint32)
    return np.concatenate([(high[:, None] | low).ravel(), drawn])


class Rounding(unittest.TestCase):
    def check(self, program, u):
        x = np.zeros(PIECE, np.float32)
        x[:len(u)] = u.view(np.float32)
        got = program(x=x)
        for name, dtype in FORMATS.items():
            expected, have = bits(rounded(x, dtype)), bits(got[name])
            wrong = np.flatnonzero(expected != have)
            if len(wrong):
                i = wrong[0]
                self.fail(f'{name}: {len(wrong)} differ, such as {x.view(np.uint32)[i]:#010x}: {have[i]:#010x}, '
                          f'ml_dtypes {expected[i]:#010x}')

    def test_as_ml_dtypes(self):
        program = compiled(graph(FORMATS))
        self.check(program, samples())
        for first in range(0, 1 << 32 if environment.LONG else 0, PIECE):
            self.check(program, np.arange(first, first + PIECE, dtype=np.uint64).astype(np.uint32))


# Two dense layers whose products and sums are exact in float32, so that the order of sums does not
# matter.
ROWS, DEPTH, HIDDEN, RESULTS = 8, 80, 48, 5
MODEL = """hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[{rows},{depth}]}}
%w = Const() {{dtype=f32, value=tensor f32[{depth},{hidden}] {{{w}}}}}
%b = Const() {{dtype=f32, value=tensor f32[{hidden}] {{{b}}}}}
%v = Const() {{dtype=f32, value=tensor f32[{hidden},{results}] {{{v}}}}}
%m = MatMul(%x, %w) {{T=f32, transpose_a=false, transpose_b=false}}
%a = BiasAdd(%m, %b) {{T=f32}}
%h = Relu(%a) {{T=f32}}
%y = MatMul(%h, %v) {{T=f32, transpose_a=false, transpose_b=false}}
"""


def eighths(rng, *shape):
    return (rng.integers(-11, 12, shape) / 8).astype(np.float32)


def blocks(x, dtype, largest, axis):
    """By the OCP microscaling specification: blocks of 32 with a factor that is a power of two."""
    x = np.moveaxis(x, axis, -1)
    out = np.empty_like(x)
    top = np.floor(np.log2(largest))
    for at in range(0, x.shape[-1], 32):
        part = x[..., at:at + 32]
        most = np.abs(part).max(-1, keepdims=True)
        factor = np.exp2(np.floor(np.log2(np.maximum(most, 2.0**-126))) - top).astype(np.float32)
        out[..., at:at + 32] = rounded(np.clip(part / factor, -largest, largest), dtype) * factor
    return np.moveaxis(out, -1, axis)


class Policies(unittest.TestCase):
    def setUp(self):
        self.enterContext(np.errstate(all='ignore'))
        rng = np.random.default_rng()
        self.x, self.w, self.b, self.v = (eighths(rng, *s) for s in (
            (ROWS, DEPTH), (DEPTH, HIDDEN), (HIDDEN,), (HIDDEN, RESULTS)))
        self.text = MODEL.format(rows=ROWS, depth=DEPTH, hidden=HIDDEN, results=RESULTS,
                                 **{n: ', '.join(f'{float(e)!r}' for e in getattr(self, n).ravel()) for n in 'wbv'})

    def run_under(self, policy, **options):
        return compiled(self.text, policy=policy, **options)(x=self.x)['y']

    def test_each_tensor_is_rounded(self):
        """A kernel of a product rounds once, after its bias and activation."""
        for name in 'e4m3fn', 'e5m2', 'e3m4', 'e4m3b11fnuz':
            def r(x, dtype=FORMATS[name]):
                return rounded(x, dtype)
            hidden = r(np.maximum(r(self.x) @ r(self.w) + r(self.b), 0))
            np.testing.assert_array_equal(self.run_under(f'mixed_bfloat16:{name}'), r(hidden @ r(self.v)), name)

    def test_roles(self):
        def r(x, name):
            return rounded(x, FORMATS[name])
        hidden = np.maximum(r(self.x, 'e5m2') @ r(self.w, 'e4m3fn') + self.b, 0)
        expected = r(hidden, 'e5m2') @ r(self.v, 'e4m3fn')
        got = self.run_under('cube_fp16in_fp32out:weights=e4m3fn/activations=e5m2')
        np.testing.assert_array_equal(got, expected)

    def test_own_format(self):
        """A format that is written by its properties equals the named format with these properties, except for
        saturation."""
        a = self.run_under('mixed_bfloat16:float:e=4,m=3,bias=7,inf=no,saturate=yes')
        np.testing.assert_array_equal(a, self.run_under('mixed_bfloat16:e4m3fn:saturate=yes'))

    def test_native(self):
        np.testing.assert_array_equal(self.run_under('mixed_float16:bf16'), self.run_under('mixed_bfloat16'))

    def test_blocks(self):
        """Blocks along the summed axis, of which the last is shorter: in the operands of both products, and nowhere
        else."""
        for name, dtype, largest in (('mxfp8_e4m3', 'float8_e4m3fn', 448), ('mxfp4_e2m1', 'float4_e2m1fn', 6),
                                     ('mxfp6_e3m2', 'float6_e3m2fn', 28)):
            def r(x, axis, dtype=getattr(ml_dtypes, dtype), largest=largest):
                return blocks(x, dtype, largest, axis)
            hidden = np.maximum(r(self.x, 1) @ r(self.w, 0) + self.b, 0)
            expected = r(hidden, 1) @ r(self.v, 0)
            np.testing.assert_allclose(self.run_under(f'cube_fp16in_fp32out:{name}'), expected, rtol=1e-6, atol=1e-6)

    def test_stochastic(self):
        """Equal seeds give equal numbers, and another seed other ones; each is one of the two neighbours."""
        one, again, other = (self.run_under(f'cube_fp16in_fp32out:activations=e4m3fn:round=stochastic,seed={s}') for s in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        self.assertFalse(np.array_equal(one, other))

    def test_numerics(self):
        self.x[0, :4] = 1000, 2.0**-9, 2.0**-12, -2000
        with tempfile.NamedTemporaryFile('w', suffix='.hir') as f:
            f.write(self.text)
            f.flush()
            program = ht.load(f.name).compile(policy='mixed_bfloat16:e4m3fn', numerics=True)
        context = program.context()
        context.run(x=self.x)
        found = {n['tensor']: n for n in context.numerics()}
        x = found['x/rounded']
        self.assertEqual([x[k] for k in ('dtype', 'emulated', 'overflow', 'underflow', 'subnormal', 'elements')],
                         ['e4m3fn', True, 2, 1, 1, ROWS * DEPTH])

    def test_reports(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f'{folder}/m.hir', 'w') as f:
                f.write(self.text)
            model = ht.load(f'{folder}/m.hir')
            report = model.explain('mixed_bfloat16:forward=e4m3fn/gradients=e5m2')
            self.assertEqual(report.to_dict()['emulation'], [
                {'in_place_of': 'bfloat16', 'format': 'activations=e4m3fn/weights=e4m3fn/gradients=e5m2', 'emulated': True}])
            report.save(f'{folder}/p.json')
            np.testing.assert_array_equal(model.compile(policy=f'{folder}/p.json')(x=self.x)['y'], self.run_under('mixed_bfloat16:e4m3fn'))


if __name__ == '__main__':
    unittest.main(verbosity=2)
