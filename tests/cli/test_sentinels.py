#!/usr/bin/env python3
"""Constants that become infinite in the types of a policy: one warning for each, a few of many, and the option
sentinels."""
import json, math, unittest

from tool import ToolCase

HEAD = b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[1,4]}
'''
MASK = HEAD + b'''%c = Const() {dtype=f32, value=tensor f32[4] {VALUES}}
%y = AddV2(%x, %c) {T=f32}
'''
FP16 = ['--policy=force_fp16']


class Sentinels(ToolCase):
    def warnings(self, *args):
        return [line.split('warning: ')[1] for line in self.tool(*args).err.splitlines() if 'warning: node' in line or 'more constants' in line]

    def mask(self, *v):
        return self.path('mask.hir', MASK.replace(b'VALUES', ', '.join(v).encode()))

    def sum(self, *args, x='0,0,0,0'):
        """The sums, from one output in float16."""
        out = self.path('y.npz')
        self.tool('run', '-q', *args, '--input', 'x=f32[1,4]:' + x, '-o', out)
        return self.outputs(out)['y.npy'][2]

    def test_what_is_too_large(self):
        said = "node 'c' (Const): -1e+09 (2 of 4 elements) goes into float16, where it is infinite; --sentinels clamp keeps it finite"
        for verb in ['explain'], ['run'], ['compile'], ['convert', '-o', self.path('c.hir')], ['bench', '--runs=1', '--duration=0']:
            model = self.mask('-1e9', '1.0', '-65520.0', '65519.0')
            self.assertEqual(self.warnings(*verb, *FP16, model), [said], verb)
            self.assertEqual(self.warnings(*verb, *FP16, '--sentinels=clamp', model), [], verb)
            self.assertEqual(self.warnings(*verb, *FP16, '-q', model), [], verb)
            for policy in [], ['--policy=allow_mix_precision_bf16']:
                self.assertEqual(self.warnings(*verb, *policy, model), [], verb)
        # There is no warning for a value that fits, or is infinite or not a number by itself.
        for v in (('65519.0', '-65519.0', '0.0', '1.0'), ('-inf', 'inf', 'nan', '0.0')):
            self.assertEqual(self.warnings('explain', *FP16, self.mask(*v)), [], v)

    def test_values(self):
        model = self.mask('-1e9', '7e4', '-inf', '2.0')
        kept, clamped = self.sum(*FP16, model), self.sum(*FP16, '--sentinels', 'clamp', model)
        self.assertEqual(kept, [-math.inf, math.inf, -math.inf, 2])
        self.assertEqual(clamped, [-65504, 65504, -math.inf, 2])
        self.assertEqual(self.sum(*FP16, '--sentinels=clamp', '--sentinels=keep', model), kept)
        lowest = self.path('lowest.hir', HEAD + b'''%w = Const() {dtype=f32, value=tensor f32[4,4] {0.5 ...}}
%c = Const() {dtype=f32, value=tensor f32[4] {-3.4028234663852886e38, -3.3e38, 0.0, 0.0}}
%product = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
%y = AddV2(%product, %c) {T=f32}
''')
        self.fails(2, r"sentinels: 'no' is none of keep\|clamp", 'run', '--sentinels=no', model)
        bf16 = ['--policy=allow_mix_precision_bf16']
        self.assertEqual(len(self.warnings('explain', *bf16, lowest)), 1)
        self.assertEqual(self.sum(*bf16, lowest)[0], -math.inf)
        self.assertEqual(self.sum(*bf16, '--sentinels=clamp', lowest)[0], -float.fromhex('0x1.fep127'))

    def test_through_moved_blocks(self):
        """Ops that move blocks of elements pass a large constant on, like reshapes."""
        model = self.path('blocks.hir', HEAD.replace(b'shape[1,4]', b'shape[1,2,2,1]') + b'''%c = Const() {dtype=f32, value=tensor f32[] {-1e9}}
%mask = Mul(%x, %c) {T=f32}
%blocks = SpaceToDepth(%mask) {T=f32, block_size=2, data_format="NHWC"}
%y = AddV2(%blocks, %blocks) {T=f32}
''')
        keep = self.path('keep.cfg', b'mask\nblocks\n')
        self.assertEqual(self.warnings('explain', *FP16, '--keep_dtype=' + keep, model), [
            "node 'c' (Const): -1e+09 goes through 'blocks' into float16, where it is infinite; --sentinels clamp keeps it finite"])

    def test_through_what_is_computed(self):
        """A float32 product of an input goes into a sum in a low type."""
        model = self.path('product.hir', HEAD + b'''%c = Const() {dtype=f32, value=tensor f32[] {-1e9}}
%w = Const() {dtype=f32, value=tensor f32[4,4] {0.5 ...}}
%first = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
%mask = Mul(%x, %c) {T=f32}
%y = AddV2(%first, %mask) {T=f32}
''')
        keep = self.path('keep.cfg', b'mask\n')
        args = [*FP16, '--keep_dtype=' + keep, model]
        self.assertEqual(self.warnings('explain', *args), ["node 'c' (Const): -1e+09 goes through 'mask' into float16, "
                                                           'where it is infinite; --sentinels clamp keeps it finite'])
        self.assertEqual(self.sum(*args, x='1,1,0,-1'), [-math.inf, -math.inf, 0.5, math.inf])
        self.assertTrue(all(map(math.isfinite, self.sum(*args, '--sentinels=clamp', x='1,1,0,-1'))))

    def test_many(self):
        for n in 1, 4, 5, 30:
            lines = ['%%c%d = Const() {dtype=f32, value=tensor f32[] {%d.0}}\n%%y%d = AddV2(%%%s, %%c%d) {T=f32}' % (i, 70000 + i, i, f'y{i - 1}' if i else 'x', i)
                     for i in range(n)]
            model = self.path('many.hir', HEAD.replace(b'= %y\n', b'= %%y%d\n' % (n - 1)) + '\n'.join(lines).encode() + b'\n')
            said = self.warnings('explain', *FP16, '--oo_constant_folding=false', model)
            self.assertEqual(len(said), min(n, 5))
            if n > 4:
                self.assertEqual(said[-1], '%d more constants become infinite in the types of the policy' % (n - 4))

    def test_reports(self):
        model = self.mask('-1e9', '1.0', '2.0', '3.0')
        report = self.tool('explain', '-q', *FP16, '--sentinels=clamp', '--format=json', model).stdout
        self.assertEqual(json.loads(report)['sentinels'], 'clamp')
        self.assertNotIn('sentinels', json.loads(self.tool('explain', '-q', *FP16, '--format=json', model).stdout))
        again = ['--policy=' + self.path('r.json', report)]
        self.assertEqual(self.sum(*again, model)[0], -65504)
        self.assertEqual(self.warnings('explain', *again, model), [])
        wrong = self.path('w.json', report.replace(b'"sentinels": "clamp"', b'"sentinels": 3'))
        self.fails(3, 'sentinels', 'explain', '--policy=' + wrong, model)


if __name__ == '__main__':
    unittest.main()
