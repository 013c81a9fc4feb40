#!/usr/bin/env python3
"""Axes that do not exist are refused when the graph is read, with the node's name; existing axes are accepted."""
import unittest

from tool import ToolCase

RANK = 2
X = '%x = Placeholder() {dtype=f32, shape=shape[4,6]}'
# Name, node (%x is float32[4,6], %a the axis, {a} the axis in an attribute), and the difference
# between the rank for which the axis counts and that of %x.
OPERAND = [
    ('Cumsum', '%y = Cumsum(%x, %a) {T=f32, Tidx=i32, exclusive=false, reverse=false}', 0),
    ('Cumprod', '%y = Cumprod(%x, %a) {T=f32, Tidx=i32, exclusive=false, reverse=false}', 0),
    ('ArgMax', '%y = ArgMax(%x, %a) {T=f32, Tidx=i32, output_type=i64}', 0),
    ('ArgMin', '%y = ArgMin(%x, %a) {T=f32, Tidx=i32, output_type=i64}', 0),
    ('ConcatV2', '%y = ConcatV2(%x, %x, %a) {N=2, T=f32, Tidx=i32}', 0),
    ('Concat', '%y = Concat(%a, %x, %x) {N=2, T=f32}', 0),
    ('Split', '%y = Split(%a, %x) {T=f32, num_split=2}', 0),
    ('SplitV', '%s = Const() {dtype=i32, value=tensor i32[2] {2, -1}}\n%y = SplitV(%x, %s, %a) {T=f32, Tlen=i32, num_split=2}', 0),
    ('GatherV2', '%i = Const() {dtype=i32, value=tensor i32[2] {1, 0}}\n'
     '%y = GatherV2(%x, %i, %a) {Tparams=f32, Tindices=i32, Taxis=i32, batch_dims=0}', 0),
    ('ReverseV2', '%y = ReverseV2(%x, %v) {T=f32, Tidx=i32}', 0),
    ('Roll', '%s = Const() {dtype=i32, value=tensor i32[1] {1}}\n%y = Roll(%x, %s, %v) {T=f32, Tshift=i32, Taxis=i32}', 0),
    ('ExpandDims', '%y = ExpandDims(%x, %a) {T=f32, Tdim=i32}', 1),
] + [(op, f'%y = {op}(%x, %v) {{T=f32, Tidx=i32, keep_dims=false}}', 0) for op in ('Sum', 'Mean', 'Max', 'Min', 'Prod')] + [
    ('Any', '%b = Cast(%x) {SrcT=f32, DstT=bool}\n%y = Any(%b, %v) {Tidx=i32, keep_dims=false}', 0),
    ('All', '%b = Cast(%x) {SrcT=f32, DstT=bool}\n%y = All(%b, %v) {Tidx=i32, keep_dims=true}', 0)]
ATTRIBUTE = [
    ('Pack', '%y = Pack(%x, %x) {{N=2, T=f32, axis={a}}}', 1),
    ('Unpack', '%y = Unpack(%x) {{T=f32, num={n}, axis={a}}}', 0),
    ('OneHot', '%i = Cast(%x) {{SrcT=f32, DstT=i32}}\n%d = Const() {{dtype=i32, value=tensor i32[] {{3}}}}\n'
     '%n = Const() {{dtype=f32, value=tensor f32[] {{1.0}}}}\n%f = Const() {{dtype=f32, value=tensor f32[] {{0.0}}}}\n'
     '%y = OneHot(%i, %d, %n, %f) {{T=f32, TI=i32, axis={a}}}', 1),
    ('Squeeze', '%e = Const() {{dtype=i32, value=tensor i32[4] {{1, 4, 6, 1}}}}\n%r = Reshape(%x, %e) {{T=f32, Tshape=i32}}\n'
     '%y = Squeeze(%r) {{T=f32, squeeze_dims=[{a}]}}', 2),
]


class Axes(ToolCase):
    def model(self, node, axis, dtype='i32'):
        text = f'''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
{X}
%a = Const() {{dtype={dtype}, value=tensor {dtype}[] {{{axis}}}}}
%v = Const() {{dtype={dtype}, value=tensor {dtype}[1] {{{axis}}}}}
{node}
'''
        return self.path('m.hir', text.encode())

    def check(self, name, node, more):
        rank = RANK + more
        for axis in range(-rank, rank):
            if name == 'Squeeze' and axis in (-3, -2, 1, 2):
                continue  # no axis of size 1
            self.tool('inspect', self.model(node(axis), axis))
        for axis in (rank, rank + 1, -rank - 1, 2147483647, -2147483648):
            model = self.model(node(axis), axis)
            for verb in ('run',), ('inspect',), ('explain',), ('convert', '--policy=force_fp16', '-o', self.path('o.pb')):
                r = self.fails(3, rf"m\.hir: error: node 'y' \({name}\): .*{axis}", *verb, model)
                self.assertNotIn('assert', r.err)

    def test_operands(self):
        for name, node, more in OPERAND:
            with self.subTest(name):
                self.check(name, lambda axis, node=node: node, more)

    def test_attributes(self):
        for name, node, more in ATTRIBUTE:
            with self.subTest(name):
                self.check(name, lambda axis, node=node: node.format(a=axis, n=(4, 6)[axis % 2]), more)

    def test_twice(self):
        """An axis that is listed twice, by either of its numbers."""
        for name in 'Sum', 'ReverseV2':
            more = ', keep_dims=false' if name == 'Sum' else ''
            for pair in '1, 1', '1, -1':
                node = f'%w = Const() {{dtype=i32, value=tensor i32[2] {{{pair}}}}}\n%y = {name}(%x, %w) {{T=f32, Tidx=i32{more}}}'
                self.fails(3, rf"node 'y' \({name}\)", 'run', self.model(node, 0))


if __name__ == '__main__':
    unittest.main()
