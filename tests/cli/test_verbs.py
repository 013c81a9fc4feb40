#!/usr/bin/env python3
"""Verbs of the command line tool: inspect, bench, convert, opt, compile, lists."""
import json, os, re, unittest

from tool import SMALL, ToolCase


class Verbs(ToolCase):
    def test_inspect(self):
        j = json.loads(self.tool('inspect', '--format=json', SMALL).stdout)
        self.assertEqual(j['schema'], 'halftone.inspect/1')
        self.assertEqual(j['inputs'], [{'name': 'x', 'dtype': 'float32', 'shape': [-1, 4]}])
        self.assertEqual(j['outputs'], [{'name': 'y', 'dtype': 'float32', 'shape': [-1, 3]}, {'name': 'top', 'dtype': 'int64', 'shape': [-1]}])
        self.assertEqual(j['ops'], {'ArgMax': 1, 'Const': 2, 'MatMul': 1, 'Placeholder': 1})
        self.assertEqual(j['unsupported'], {})
        self.assertEqual(j['multiply_adds'], 12)
        self.assertEqual(json.loads(self.tool('inspect', '--format=json', '--batch=10', SMALL).stdout)['multiply_adds'], 120)

    def test_inspect_of_an_equation(self):
        def graph(equation):
            return self.path('e.hir', b"""hir 1
entry "" { input "x" = %%x output "y" = %%y }
%%x = Placeholder() {dtype=f32, shape=shape[2,3,5]}
%%y = Einsum(%%x, %%x) {N=2, T=f32, equation="%s"}
""" % equation)
        for equation, count in (b'abc,dbc->ad', 60), (b'...ab,...cb->...ac', 90), (b'abc,abc->abc', 0):
            j = json.loads(self.tool('inspect', '--format=json', graph(equation)).stdout)
            self.assertEqual((j['multiply_adds'], j['unsupported']), (count, {}), equation)
        self.fails(3, r"node 'y' \(Einsum\): equation 'abc,abc' has no '->'", 'run', graph(b'abc,abc'))
        self.fails(4, 'label twice in the result', 'compile', graph(b'abc,abc->aabc'))

    def test_a_constant_too_large_to_expand(self):
        model = self.path('large.pbtxt', b'''
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 8192 } } } } }
node { name: "w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor {
       dtype: DT_FLOAT tensor_shape { dim { size: 8192 } dim { size: 8192 } } float_val: 0.5 } } } }
node { name: "y" op: "Mul" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } } }
''')
        self.fails(4, "node 'w' .*too large to expand", 'run', model)

    def test_inspect_of_what_trains(self):
        model = self.path('train.pbtxt', b'''
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "y" op: "AssignAdd" input: "v" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
''')
        r = self.tool('inspect', model, '--format', 'json')
        j = json.loads(r.stdout)
        self.assertEqual([k['node'] for k in j['refusals'] if 'no checkpoint' in k['why']], ['v'])
        self.assertEqual(j['unsupported'], {'AssignAdd': 1, 'VarHandleOp': 1})  # the pass references has run
        self.assertEqual(j['outputs'], [{'name': 'y', 'dtype': 'float32', 'shape': [2]}])

    def test_bench(self):
        r = self.tool('bench', '--format=json', '--duration=0.01', '--runs=5', '--warmup=1', '--batch=3', '--policy=force_fp16', SMALL)
        j = json.loads(r.stdout)
        self.assertEqual(j['schema'], 'halftone.bench/1')
        self.assertEqual((j['policy'], j['threads'], j['batch'], j['model']), ('force_fp16', 1, 3, SMALL))
        l = j['latency_ms']
        self.assertTrue(0 < l['min'] <= l['median'] <= l['p90'] <= l['p99'])
        self.assertGreaterEqual(l['runs'], 5)
        for key in ('weight_bytes', 'arena_bytes', 'peak_rss_bytes'):
            self.assertIsInstance(j[key], int)
        self.assertIn('code', j['compile_ms'])
        steps = json.loads(self.tool('bench', '--format=json', '--duration=0', '--runs=1', '--steps', SMALL).stdout)['steps_ms']
        self.assertIn(['y', 'matrix-vector'], [[s[0], *s[2:]] for s in steps])
        steps = json.loads(self.tool('bench', '--format=json', '--duration=0', '--runs=1', '--batch=3', '--steps', SMALL).stdout)['steps_ms']
        self.assertIn(['y'], [[s[0], *s[2:]] for s in steps])

    def test_what_run_explain_and_convert_decide_is_one_thing(self):
        pb, back = self.path('c.pb'), self.path('c.hir')
        self.tool('convert', '--policy=force_fp16', '-o', pb, SMALL)
        self.tool('opt', pb, '-o', back)
        with open(back) as f:
            casts = re.findall(r'= Cast\(', f.read())
        j = json.loads(self.tool('explain', '--policy=force_fp16', '--format=json', SMALL).stdout)
        r = json.loads(self.tool('run', '--policy=force_fp16', '--format=json', SMALL).stdout)
        self.assertEqual(r['casts'], len(j['casts']))
        self.assertEqual(len(casts), len([c for c in j['casts'] if c['source'] != 'w']))
        self.assertEqual(r['outputs'], json.loads(self.tool('run', '--format=json', pb, '--outputs', 'y,top').stdout)['outputs'])

    def test_convert_forms(self):
        text, wire, again = self.path('a.pbtxt'), self.path('a.pb'), self.path('b.pb')
        self.tool('convert', SMALL, '-o', text)
        self.tool('convert', text, '-o', wire)
        self.tool('convert', wire, '-o', again)
        with open(wire, 'rb') as f, open(again, 'rb') as g:
            data = f.read()
            self.assertEqual(data, g.read())
        self.assertEqual(self.tool('convert', wire, '-o', '-').stdout, data)

    def test_convert_keeps_the_names_of_all_outputs(self):
        model = self.path('names.hir', b'''hir 1
entry "" {
  input "x" = %x
  output "s:1" = %s:1
  output "n:1" = %n:1
  output "n" = %n
  output "c:2" = %c:2
}

%x = Placeholder() {dtype=f32, shape=shape[2,4]}
%axis = Const() {dtype=i32, value=tensor i32[] {1}}
%s = Split(%axis, %x) {T=f32, num_split=2}
%r = Relu(%x) {T=f32}
%n = IdentityN(%r, %s:1) {T=[f32, f32]}
%k = Const() {dtype=f32, value=tensor f32[3] {1.0, 2.0, 3.0}}
%kaxis = Const() {dtype=i32, value=tensor i32[] {0}}
%c = Split(%kaxis, %k) {T=f32, num_split=3}
''')
        for policy in 'must_keep_origin_dtype', 'force_fp16':
            pb, names = self.path('names.pb'), 's:1,n:1,n,c:2'
            self.tool('convert', '--policy', policy, '-o', pb, model)
            a = json.loads(self.tool('run', '--policy', policy, '--format=json', model).stdout)
            b = json.loads(self.tool('run', '--outputs', names, '--format=json', pb).stdout)
            self.assertEqual(a['outputs'], b['outputs'])

    def test_convert_what_was_stated(self):
        self.tool('convert', '--input-shape', 'x:2,4', '--outputs', 'y', '-o', self.path('o.pb'), SMALL)
        j = json.loads(self.tool('inspect', '--format=json', self.path('o.pb')).stdout)
        self.assertEqual(j['inputs'][0]['shape'], [2, 4])
        self.assertNotIn('ArgMax', j['ops'])

    def test_large_constants_lie_beside_the_text(self):
        large = b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[100]}\n' \
                b'%w = Const() {dtype=f32, value=tensor f32[100] {' + b', '.join(b'%d.5' % i for i in range(100)) + b'}}\n' \
                b'%y = AddV2(%x, %w) {T=f32}\n'
        model, a, b = self.path('large.hir', large), self.path('a.hir'), self.path('b.hir')
        for args in (['opt', '--passes', 'infer'], ['compile', '--emit', 'hir'], ['convert']):
            self.tool(*args, '-o', a, model)
            self.assertLess(os.path.getsize(a), 1000)
            self.tool('opt', '-o', b, a)
            for suffix in '.hir', '.weights':
                with open(a[:-4] + suffix, 'rb') as f, open(b[:-4] + suffix, 'rb') as g:
                    self.assertEqual(f.read(), g.read())
            self.assertEqual(self.tool('run', a).stdout, self.tool('run', model).stdout)
            for n in 'a.hir', 'a.weights', 'b.hir', 'b.weights':
                os.unlink(self.path(n))
            if args[0] != 'convert':
                self.assertIn(b'99.5', self.tool(*args, '-o', '-', model).stdout)
            # Both files are written, or none.
            self.fails(5, 'cannot write', *args, '-o', self.path('nowhere/a.hir'), model)
            os.mkdir(self.path('a.weights'))
            self.fails(5, r'a\.weights: error: cannot write', *args, '-o', a, model)
            self.assertEqual(sorted(os.listdir(self.dir)), ['a.weights', 'large.hir'])
            os.rmdir(self.path('a.weights'))

    def test_opt(self):
        a = self.tool('opt', SMALL, '--passes', 'infer').stdout
        p = self.path('a.hir', a)
        self.assertEqual(self.tool('opt', p).stdout, a)
        self.assertIn(b'y = MatMul', a)
        names = [l.split()[0] for l in self.tool('opt', '--list').stdout.decode().splitlines()]
        self.assertIn('precision', names)
        stopped = self.tool('opt', SMALL, '--passes', 'infer,precision,casts', '--stop-after', 'infer', '--policy=fp16').stdout
        self.assertEqual(stopped, a)

    def test_compile(self):
        self.assertIn('no target stated', self.tool('compile', SMALL).err)
        self.assertIn(b'hir 1', self.tool('compile', SMALL, '--emit', 'hir', '--stop-after', 'cse').stdout)
        self.assertIn(b'define', self.tool('compile', SMALL, '--emit=llvm').stdout)
        self.assertIn(b'.text', self.tool('compile', SMALL, '--emit=asm', '--target=x86-64').stdout)
        o = self.path('k.a')
        self.assertEqual(self.tool('compile', SMALL, '--emit=obj', '-o', o).stdout, b'')
        with open(o, 'rb') as f:
            self.assertEqual(f.read(8), b'!<arch>\n')
        first, second = (self.tool('compile', SMALL, '--emit=obj', '--target=x86-64-v3').stdout for _ in 'ab')
        self.assertEqual(first, second)

    def test_a_bound_on_halves_calls_no_library(self):
        model = self.path('m.hir', b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f16, shape=shape[1]}
%c = Const() {dtype=f16, value=tensor f16[] {-0.0625}}
%ge = GreaterEqual(%x, %c) {T=f16}
%s = SelectV2(%ge, %x, %c) {T=f16}
%y = Cast(%s) {SrcT=f16, DstT=f32, Truncate=false}
''')
        for target in 'x86-64', 'x86-64-v3', 'x86-64-v4', 'x86-64-v4+bf16', 'x86-64-v4+bf16+fp16':
            asm = self.tool('compile', model, '--target', target, '--emit', 'asm', '-o', '-').stdout
            self.assertNotIn(b'fmax', asm)

    def test_what_products_share_is_packed_once(self):
        def weight_bytes(other, transposed='false'):
            model = self.path('m.hir', f'''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[4,64]}}
%w = Const() {{dtype=f32, value=tensor f32[64,64] values 1 {{0.5 ...}}}}
%v = Const() {{dtype=f32, value=tensor f32[64,64] values 1 {{0.25 ...}}}}
%a = MatMul(%x, %w) {{T=f32, transpose_a=false, transpose_b=false}}
%r = Relu(%a) {{T=f32}}
%y = MatMul(%r, {other}) {{T=f32, transpose_a=false, transpose_b={transposed}}}
'''.encode())
            return json.loads(self.tool('bench', '--format=json', '--duration=0', '--runs=1', model).stdout)['weight_bytes']

        matrix = 64 * 64 * 4
        self.assertEqual(weight_bytes('%w'), matrix)
        self.assertEqual(weight_bytes('%v'), 2 * matrix)
        self.assertEqual(weight_bytes('%w', transposed='true'), 2 * matrix)

    def test_large_results_are_written_past_the_caches(self):
        levels = 'x86-64-v3', 'x86-64-v4', 'x86-64-v4+bf16', 'x86-64-v4+bf16+fp16'
        for rows, to, streams, targets in (
                (8192, 'f32', True, ('x86-64', *levels)), (8191, 'f32', False, ('x86-64', *levels)),
                # of 16 bits; in SSE's registers they are half vectors
                (16384, 'bf16', True, levels), (16384, 'f16', True, levels),
                # smaller than the last cache, but reading the operand displaces it
                (10923, 'bf16', True, levels), (10922, 'bf16', False, levels)):
            node = 'Relu(%x) {T=f32}' if to == 'f32' else f'Cast(%x) {{SrcT=f32, DstT={to}, Truncate=false}}'
            model = self.path('m.hir', f'''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[{rows},1024]}}
%y = {node}
'''.encode())
            for target in targets:
                asm = self.tool('compile', model, '--target', target, '--emit', 'asm', '-o', '-').stdout
                self.assertEqual((b'movnt' in asm, b'sfence' in asm), (streams, streams), (rows, to, target))

    def test_what_is_spilled_lies_on_lines(self):
        model = self.path('m.hir', b'''hir 1
entry "" {
  input "x" = %x
  input "w" = %w
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[64,64]}
%w = Placeholder() {dtype=f32, shape=shape[64,96]}
%p = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
%y = Erf(%p) {T=f32}
''')
        for target, register in ('x86-64-v3', b'ymm'), ('x86-64-v4', b'zmm'):
            asm = self.tool('compile', model, '--target', target, '--emit', 'asm', '-o', '-').stdout
            spills = re.findall(rb'(vmov[a-z0-9]+)\s+%' + register + rb'\d+, -?\d*\(%rsp\)', asm)
            self.assertGreater(len(spills), 4, target)
            self.assertFalse([s for s in spills if not s.startswith((b'vmova', b'vmovdqa'))], target)

    def test_lists(self):
        for verb, some in (('ops', 'MatMul'), ('targets', 'x86-64-v3'), ('policies', 'force_fp16')):
            self.assertIn(some, self.tool(verb).stdout.decode())
            j = json.loads(self.tool(verb, '--format=json').stdout)
            self.assertIn(some, [r['name'] for r in j[verb]])

    def test_missing(self):
        self.assertEqual(self.tool('ops', '--missing', SMALL).stdout, b'every op has a kernel\n')
        model = self.path('m.hir', b"""hir 1
entry "" { input "x" = %x output "y" = %y output "step" = %step }
%x = Placeholder() {dtype=f32, shape=shape[2,3]}
%a/first = Lgamma(%x) {T=f32}
%a/second = Lgamma(%a/first) {T=f32}
%odd = Mystery(%x) : f32[2,3]
%sum = AddN(%a/first, %a/second, %odd) {N=3, T=f32}
%y = Relu(%sum) {T=f32}
%v = VariableV2() {dtype=f32, shape=shape[2,3]}
%rate = Const() {dtype=f32, value=tensor f32[] {0.5}}
%step = ApplyGradientDescent(%v, %rate, %x) {T=f32}
""")
        said = self.tool('ops', '--missing', model).stdout.decode()
        self.assertRegex(said, r"(?s)Lgamma has no kernel \(2 nodes in 'a'; 2 behind them.*\)\n  a/first\n  a/second\nMystery .*\n  odd\n")
        self.assertNotIn('Apply', said)  # the variable has no value, which does not matter here
        found = json.loads(self.tool('ops', '--missing', model, '--format=json').stdout)
        self.assertEqual(found['schema'], 'halftone.missing/1')
        self.assertEqual([(r['op'], r['nodes']) for r in found['missing']], [('Lgamma', ['a/first', 'a/second']), ('Mystery', ['odd'])])
        self.assertEqual(json.loads(self.tool('ops', '--missing', model, '--outputs=step', '--format=json').stdout)['missing'], [])
        self.fails(2, 'missing', 'targets', '--missing', model)
        self.fails(5, 'none.pb', 'ops', '--missing', 'none.pb')

    def test_missing_behind_a_pass(self):
        """The error names all nodes of a loop without a functional form when a pass stops at the handle of a variable
        in it."""
        model = self.path('loop.hir', b"""hir 1
entry "" { output "y" = %exit }
%v = VarHandleOp() {dtype=f32, shape=shape[]}
%a/enter = Enter(%v) {T=resource, frame_name="f", is_constant=true}
%one = Const() {dtype=i32, value=tensor i32[] {1}}
%b/enter = Enter(%one) {T=i32, frame_name="f", is_constant=false}
%merge = Merge(%b/enter, %next) {N=2, T=i32}
%value = ReadVariableOp(%a/enter) {dtype=f32}
%limit = Cast(%value) {SrcT=f32, DstT=i32}
%less = Less(%merge, %limit) {T=i32}
%switch = Switch(%merge, %less) {T=i32}
%next = NextIteration(%switch:1) {T=i32}
%exit = Exit(%switch) {T=i32}
""")
        said = self.tool('ops', '--missing', model).stdout.decode()
        self.assertIn(' (2 nodes; 2 behind them cannot be computed either)\n  a/enter\n  b/enter\n', said)
        self.assertNotIn('op Enter', said)



if __name__ == '__main__':
    unittest.main()
