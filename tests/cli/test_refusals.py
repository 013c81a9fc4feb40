#!/usr/bin/env python3
"""Graphs that cannot be compiled: root causes, once each, equally by inspect and by run; suggestions for misspelled
policies."""
import json, re, unittest

from tool import SMALL, ToolCase
from loop_text import while_functions


def hir(*nodes, outputs, inputs=()):
    ports = [f'  input "{i}" = %{i}' for i in inputs] + [f'  output "{o}" = %{o}' for o in outputs]
    return '\n'.join(['hir 1', 'entry "" {', *ports, '}', *nodes, '']).encode()


F32 = '%x = Placeholder() {dtype=f32, shape=shape[4]}'
OPEN = '%x = Placeholder() {dtype=f32, shape=shape[?,?,?,2]}'
CONV = ['%w = Const() {dtype=f32, value=tensor f32[1,1,2,2] {1.0, 2.0, 3.0, 4.0}}',
        '%c = Conv2D(%x, %w) {T=f32, strides=[1,1,1,1], padding="SAME"}', '%y = Relu(%c) {T=f32}']


class Refusals(ToolCase):
    def causes(self, data, code=4):
        """Errors of run as (op, nodes, part, blocked); inspect must report the same."""
        path = self.path('m.hir', data)
        err = self.fails(code, 'error', 'run', path).err
        found = re.findall(r"error: node '[^']*' \((\w+)\): op \w+ .*\((\d+) nodes?(?: in '([^']*)')?(?:; (\d+) behind)?", err)
        self.assertEqual(len(found), err.count('error:'), err)
        j = json.loads(self.tool('inspect', '--format=json', path).stdout)
        self.assertEqual([(r['op'], str(r['nodes']), r['part'], str(r['blocks'] or '')) for r in j['refusals']], found)
        self.assertIn('unsupported:\n', self.tool('inspect', path).stdout.decode())
        return found

    def test_causes_without_consequences(self):
        nodes = [F32, '%m/rnn/a = NoSuch(%x) : ?', '%m/rnn/b = NoSuch(%x) : ?', '%m/c = Relu(%m/rnn/a) {T=f32}',
                 '%m/d = AddV2(%m/c, %m/rnn/b) {T=f32}', '%m/e = Digamma(%m/d) {T=f32}', '%h/y = Relu(%m/e) {T=f32}']
        self.assertEqual(self.causes(hir(*nodes, inputs=['x'], outputs=['h/y'])),
                         [('NoSuch', '2', 'm/rnn', '2'), ('Digamma', '1', 'm', '1')])

    def test_one_cause_of_many(self):
        """The number of later nodes does not matter."""
        for n in 1, 200:
            nodes = [F32, '%a/bad = NoSuch(%x) : ?', '%y0 = Relu(%a/bad) {T=f32}'] + [
                f'%y{i} = AddV2(%y{i - 1}, %x) {{T=f32}}' for i in range(1, n)]
            self.assertEqual(self.causes(hir(*nodes, inputs=['x'], outputs=[f'y{n - 1}'])), [('NoSuch', '1', 'a', str(n))])

    def test_what_a_loop_carries(self):
        """An unknown op in the body of a loop makes the shape of a loop-carried value unknown.  The op is listed as the cause."""
        loop = while_functions('%p/bad = NoSuch(%y) : ?', '%next = Mul(%y, %p/bad) {T=f32}')
        while_loop = '%y = StatelessWhile(%x) {T=[f32], cond=@more{}, body=@step{}}'
        text = hir(F32, while_loop, inputs=['x'], outputs=['y']) + loop.encode()
        (op, nodes, part, blocked), = self.causes(text)
        self.assertEqual((op, nodes, part), ('NoSuch', '1', 'p'))
        self.assertGreater(int(blocked), 1)

    def test_overflow_flag(self):
        """NpuGetFloatStatus is refused if it waits for no floating-point tensor, and if another one reads the same allocation."""
        status = '%flag = NpuAllocFloatStatus() {}'
        get = lambda name, waits: f'%{name} = NpuGetFloatStatus(%flag{waits}) {{}}'
        for nodes, why in (([get('g', '')], 'waits for no tensor of floating point'),
                           ([get('g', ', ^x'), get('h', ', ^x'), '%s = AddV2(%g, %h) {T=f32}', '%u = AddV2(%s, %flag) {T=f32}'],
                            'several nodes get this status')):
            text = hir(F32, status, *nodes, inputs=['x'], outputs=['u' if len(nodes) > 1 else 'g'])
            self.assertIn(why, self.tool('run', self.path('flag.hir', text), code=4).err)

    def test_parts(self):
        for names, part in ((['a/b/c', 'a/b/d'], 'a/b'), (['a/b/c', 'a/bc/d'], 'a'), (['a', 'b'], ''), (['a/b', 'a'], ''),
                            (['ab/c', 'a/c'], ''), (['a/b/c', 'a/b'], 'a')):
            nodes = [F32] + [f'%{n} = NoSuch(%x) : ?' for n in names]
            self.assertEqual(self.causes(hir(*nodes, inputs=['x'], outputs=names)), [('NoSuch', '2', part, '')])

    def test_inputs_and_targets(self):
        text = '%s = Placeholder() {dtype=c64, shape=shape[4]}'
        self.assertEqual(self.causes(hir(text, inputs=['s'], outputs=['s'])), [('Placeholder', '1', '', '')])
        strings = self.path('s.hir', hir(text.replace('c64', 'str'), inputs=['s'], outputs=['s']))
        self.fails(2, 'give them with --input s=@FILE.npy', 'run', strings)
        path = self.path('t.hir', hir(F32, '%y = Relu(%x) {T=f32}', '%n = NoOp()', inputs=['x'], outputs=['y']))
        self.assertEqual(re.findall(rb'^\w+', self.tool('run', '--outputs', 'y,n', path).stdout), [b'y'])  # n is an op without results that runs

    def test_open_shapes(self):
        """An op with a missing size is not unsupported; the error says what to state, and that works."""
        path = self.path('c.hir', hir(OPEN, *CONV, inputs=['x'], outputs=['y']))
        out = self.tool('inspect', path).stdout.decode()
        self.assertIn("open shapes: a run needs --input-shape 'x:1,?,?,2'", out)
        self.assertIn('unsupported: none', out)
        j = json.loads(self.tool('inspect', '--format=json', path).stdout)
        self.assertEqual((j['unsupported'], j['refusals'], j['input_shape']), ({}, [], 'x:1,?,?,2'))
        self.fails(4, "dimension 1 of input 'x' is open", 'run', path)
        stated = ['--input-shape', j['input_shape'].replace('?', '5')]
        self.tool('run', *stated, path)
        j = json.loads(self.tool('inspect', '--format=json', *stated, path).stdout)
        self.assertEqual((j['unsupported'], j['input_shape'], j['multiply_adds']), ({}, None, 100))
        rank = self.path('r.hir', hir('%x = Placeholder() {dtype=f32, shape=shape[*]}', *CONV, inputs=['x'], outputs=['y']))
        self.assertIn("--input-shape 'x:?'", self.tool('inspect', rank).stdout.decode())
        bad = self.path('b.hir', hir(OPEN, *CONV, '%z = NoSuch(%y) : ?', inputs=['x'], outputs=['z']))
        self.assertEqual(json.loads(self.tool('inspect', '--format=json', bad).stdout)['unsupported'], {'NoSuch': 1})

    def test_policies_by_meaning(self):
        for words, meant in (('bf16 bfloat16 BF16 BFloat16 force-bf16', ['mixed_bfloat16', 'allow_fp32_to_bf16']),
                             ('f16 float16 half Half Float16', ['fp16', 'mixed_float16']),
                             ('f32 fp32 float32 float single', ['force_fp32', 'must_keep_origin_dtype']),
                             ('mixed mixed-precision amp', ['mixed_bfloat16', 'mixed_float16']),
                             ('mixed_bf16 amp_bf16', ['mixed_bfloat16']), ('mixed_fp16 mixed_f16', ['mixed_float16']),
                             ('FP16', ['fp16']), ('Mixed-BFloat16 mixed_bflot16', ['mixed_bfloat16']), ('none off', ['must_keep_origin_dtype']),
                             ('keras', ['keras-bf16', 'keras-fp16']), ('auto', ['optimal']), ('force_fp61', ['force_fp16'])):
            for word in words.split():
                err = self.fails(2, f"no policy '{word}'; did you mean '{meant[0]}'", 'run', '--policy', word, SMALL).err
                self.assertEqual(re.findall(r"'([^']*)'", err.split('did you mean')[1].replace("Keras' ", '').replace("TensorFlow's", '')), meant, word)
                for m in meant:
                    self.tool('explain', '--policy', m, SMALL)
        self.fails(2, "no policy 'xyz'; see halftone policies", 'run', '--policy', 'xyz', SMALL)


if __name__ == '__main__':
    unittest.main()
