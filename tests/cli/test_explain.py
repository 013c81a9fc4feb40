#!/usr/bin/env python3
"""halftone explain: reports, and the decisions of the optimal policy with reasons."""
import json, os, re, subprocess, unittest

from tool import SMALL, TOOL, TOP, ToolCase


class Explain(ToolCase):
    def test_estimates_are_warned_of(self):
        """Policy optimal decides for a machine without a table of costs."""
        listed = json.loads(self.tool('targets', '--format=json').stdout)['targets']
        host, = [t for t in listed if t['host']]
        data = f'{TOP}/precision/data'
        measured = os.path.exists(f'{data}/{host["name"]}@{host["tuning"]}.costs')
        for args, warned in ((['--no-measure'], not measured), ([], False), (['--cost_table', f'{data}/x86-64-v3@generic.costs'], False),
                             (['--cost_target', 'x86-64-v3'], False), (['--cost_target', 'skylake-avx512'], True),
                             (['--target', 'x86-64-v3'], False), (['--target', 'skylake-avx512'], True),
                             (['--target', 'sapphirerapids'], False)):
            said = self.tool('explain', SMALL, '--policy', 'optimal', *args).err
            self.assertEqual('no costs were measured on' in said, warned, args)
        # Where this machine has no table, a note says that its rates were measured, for every policy.
        plain = self.tool('explain', SMALL).err
        self.assertNotIn('costs' if measured else 'no costs were measured on', plain)

    def test_optimal_shows_why(self):
        report = json.loads(self.tool('explain', '--policy', 'optimal', '--prices', '--format=json', SMALL).stdout)
        c = report['certificate']
        self.assertEqual(c['last_iterate']['cost_ps'], c['last_iterate']['bound_ps'])
        self.assertTrue(all(c['price_ps'] <= a['price_ps'] for a in c['alternatives'] if 'refused' not in a))
        self.assertIn('float32', [a['name'] for a in c['alternatives']])
        self.assertEqual(len(c['prices']), 2 * c['free_nodes'])
        self.assertTrue(all(p[2] is None or p[2] >= 0 for p in c['prices']))
        node = c['prices'][0][0]
        one = self.tool('explain', '--policy', 'optimal', '--node', node, SMALL).stdout.decode()
        self.assertIn(node + ' in ', one)

    def test_attributes_without_effect_are_noted(self):
        """Notes on attributes of the vendor's scripts, one line each, also in bodies; _keep_dtype has an effect and no
        note."""
        model = self.path('a.hir', b"""hir 1
entry "" {
  input "x" = %x
  input "p" = %p
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[2,2], _stage_level=0}
%p = Placeholder() {dtype=b1, shape=shape[], _other=true} : b1[]
%a = Relu(%x) {T=f32, _without_npu_compile=true, _keep_dtype=1}
%b = Tanh(%a) {T=f32, _without_npu_compile=true, _op_max_shape=""}
%c = Relu(%b) {T=f32, _without_npu_compile=true, _is_train_graph=false, _class=["loc:@a"]}
%d = Relu(%c) {T=f32, _without_npu_compile=false}
%y = StatelessIf(%p, %d) {Tcond=b1, Tin=[f32], Tout=[f32], then_branch=@then{}, else_branch=@then{}}
function "then" {
  signature "\\n\\x04then"
  arg "a" = %a
  ret "r" = %relu
  %a = _Arg() {T=f32, index=0} : f32[2,2]
  %relu = Relu(%a) {T=f32, _without_npu_compile=true, _specified_engine_name="DNN"} : f32[2,2]
}
""")
        notes = [model + ': note: attribute ' + s for s in (
            "_specified_engine_name of 1 node ('then/relu') has no effect: it is about the parts of an NPU",
            "_stage_level of 1 node ('x') has no effect: a graph is not cut into stages",
            "_without_npu_compile of 4 nodes ('a', 'b', 'c' and others) has no effect: the whole graph is compiled, or refused")]
        for verb in 'explain', 'compile':
            said = self.tool(verb, model).err
            self.assertEqual([line for line in said.splitlines() if 'attribute' in line], notes, verb)
        report = json.loads(self.tool('explain', '--format=json', '--policy=force_fp16', model).stdout)
        low = {n['node']: n['tensors'] for n in report['nodes']}
        self.assertEqual((low['a'], low['b'], low['c']), (['float32'], ['float16'], ['float16']))
        with open(os.path.join(TOP, 'api', 'vendor_attributes.def')) as f:
            names = re.findall(r'^ATTRIBUTE\("(\w+)"', f.read(), re.M)
        self.assertEqual(names, sorted(set(names)))
        each = 'hir 1\nentry "" {\n  input "x" = %%x\n  output "x" = %%x\n}\n%%x = Placeholder() {dtype=f32, shape=shape[2], %s}\n'
        said = self.tool('inspect', self.path('b.hir', (each % ', '.join(n + '=1' for n in names)).encode())).err
        self.assertEqual(re.findall(r'note: attribute (\w+) of 1 node ', said), names)
        self.tool('convert', self.path('b.hir'), '-o', self.path('b.pb'))  # the attributes stay in the graph
        self.assertEqual(re.findall(r'note: attribute (\w+) of 1 node ', self.tool('inspect', self.path('b.pb')).err), names)

    def test_optimal_obeys_the_lists(self):
        def low(*options):
            text = self.tool('opt', '--passes', 'infer,precision', '--policy', 'optimal', '--target', 'x86-64-v4+bf16', *options, WIDE).stdout.decode()
            return re.findall(r'^%(\S+) = MatMul.*\{T=bf16', text, re.M)
        WIDE = os.path.join(self.dir, 'wide.hir')
        with open(WIDE, 'w') as f:
            f.write('hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                    '%x = Placeholder() {dtype=f32, shape=shape[512,512]}\n'
                    '%a = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=false}\n'
                    '%y = MatMul(%a, %x) {T=f32, transpose_a=false, transpose_b=false}\n')
        self.assertEqual(low(), ['a', 'y/bfloat16'])
        for target, count in ('x86-64', 0), ('x86-64-v4+bf16', 2):  # explain decides for each of them
            report = json.loads(self.tool('explain', '--policy', 'optimal', '--target', target, '--format=json', WIDE).stdout)
            self.assertEqual(len(report['types']), count, target)
        self.fails(2, 'unknown target', 'explain', '--policy', 'optimal', '--target', 'x87', WIDE)
        keep = os.path.join(self.dir, 'keep.cfg')
        with open(keep, 'w') as f:
            f.write('a\n')
        self.assertEqual(low('--keep_dtype', keep), ['y/bfloat16'])
        mix = os.path.join(self.dir, 'mix.json')
        with open(mix, 'w') as f:
            json.dump({'black-list': {'to-add': ['MatMul']}}, f)
        self.assertEqual(low('--modify_mixlist', mix), [])

    def test_optimal_names_what_binds(self):
        model = os.path.join(self.dir, 'bound.hir')
        with open(model, 'w') as f:
            f.write('hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                    '%x = Placeholder() {dtype=f32, shape=shape[512,512]}\n'
                    '%l = Log(%x) {T=f32}\n%r = Relu(%l) {T=f32}\n%t = Tanh(%r) {T=f32}\n'
                    '%y = MatMul(%t, %x) {T=f32, transpose_a=false, transpose_b=false}\n')
        text = self.tool('explain', '--policy', 'optimal', '--target', 'x86-64-v4+bf16', '--node', 't', model).stdout.decode()
        self.assertIn('reads a value that must stay in float32 (gray, list), after r', text)

    def test_cost_tables(self):
        table = os.path.join(self.dir, 't.costs')
        with open(table, 'w') as f:
            f.write('halftone.costs/1\nlaunch f32 1 1\n')
        self.fails(3, ':2: error: a size of 1 or more', 'explain', '--policy', 'optimal', '--cost-table', table, SMALL)
        self.fails(5, 't.missing', 'explain', '--policy', 'optimal', '--cost-table', 't.missing', SMALL)

    def test_explain(self):
        j = json.loads(self.tool('explain', '--policy', 'allow_mix_precision_bf16', '--format=json', SMALL).stdout)
        self.assertEqual(j['types'], {'y': {'T': 'bfloat16'}, 'top': {'T': 'bfloat16'}})
        self.assertEqual([[c['name'], c['source'], c['to']] for c in j['casts']], [['w/bfloat16', 'w', 'bfloat16'], ['x/bfloat16', 'x', 'bfloat16'], ['y', 'y/bfloat16', 'float32']])
        self.assertEqual(json.loads(self.tool('explain', '--format=json', SMALL).stdout)['types'], {})

    def test_explain_compares(self):
        def explain(*options):
            return subprocess.run([TOOL, 'explain', SMALL, '-q', *options], capture_output=True, text=True)
        report = self.path('report.json')
        with open(report, 'w') as f:
            f.write(explain('--policy=allow_mix_precision_bf16', '--format=json').stdout)
        self.assertEqual(explain('--policy', report, '--against', report, '--fail-on=new-cast,lower-precision,cost').returncode, 0)
        same = json.loads(explain('--diff', report, 'allow_mix_precision_bf16', '--format=json').stdout)
        self.assertEqual((same['schema'], same['units'], same['new_casts'], same['gone_casts']), ('halftone.diff/1', [], [], []))
        worse = explain('--policy=force_fp16', '--against', report, '--fail-on=new-cast', '--fail-on=lower-precision,cost+1000000%', '--format=json')
        self.assertEqual(worse.returncode, 1)
        self.assertIn('new-cast: ', worse.stderr)
        self.assertNotIn('cost: ', worse.stderr)
        told = json.loads(worse.stdout)
        self.assertEqual(told['before']['report'], report)
        self.assertEqual({u['node'] for u in told['units']}, {'y', 'top'})
        self.assertTrue(all(c['to'] in ('float16', 'float32') and c['bytes'] is not None for c in told['new_casts']))
        back = explain('--policy=must_keep_origin_dtype', '--against', report, '--fail-on=lower-precision,new-cast')
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertEqual(explain('--policy=allow_mix_precision_bf16', '--against', self.keep_report(), '--fail-on=lower-precision').returncode, 1)
        self.assertRegex(explain('--policy=force_fp16', '--prices').stdout, r'cast .*, \d+ bytes, 0\.\d+ ms\n')
        why = json.loads(explain('--policy=optimal', '--why-not=bf16', '--format=json').stdout)
        self.assertEqual(why['schema'], 'halftone.why_not/1')
        self.assertEqual(sum(why['reasons'].values()), len(why['units']))
        self.assertTrue(any('price_ps' in u for u in why['units']))

    def keep_report(self):
        path = self.path('keep.json')
        with open(path, 'wb') as f:
            f.write(self.tool('explain', '--format=json', SMALL).stdout)
        return path

    def test_explain_refuses_what_it_cannot_compare(self):
        report = self.keep_report()
        for options, message in (
                (['--fail-on=new-cast'], 'needs --against'), (['--against', report], 'needs --fail-on'),
                (['--against', report, '--fail-on=new-cats'], "'new-cats' is no condition"),
                (['--against', report, '--fail-on=cost+-1%'], 'is no condition'),
                (['--against', report, '--fail-on=cost+5'], 'is no condition'),
                (['--against', report, '--fail-on=new-cast,'], "'' is no condition"),
                (['--against', report, '--fail-on=cost+1e999%'], 'is no condition'),
                (['--diff', 'force_fp16'], 'needs two'), (['--diff=force_fp16'], 'needs two'),
                (['--diff', 'force_fp16', 'force_fp61'], "did you mean 'force_fp16'"),
                (['--diff', 'force_fp16', 'fp16', '--policy=fp16'], 'does not go with --diff'),
                (['--diff', 'force_fp16', 'fp16', '--why-not=f16'], 'at a time'),
                (['--diff', 'force_fp16', 'fp16', '--format=dot'], 'for a report alone'),
                (['--diff', 'force_fp16', 'fp16', '--node=y'], '--node has no effect'),
                (['--why-not=f64'], "'f64' is not f32, f16 or bf16"), (['--node=z'], "no node 'z'"),
                (['--why-not=f16', '--node=yy'], "did you mean 'y'"), (['--format=svg'], 'not text, json, dot or node-data'),
                (['--policy', report, '--keep_dtype', SMALL], 'keep_dtype'),
                (['--policy', report, '--allow_hf32=1'], 'does not go with a report')):
            r = subprocess.run([TOOL, 'explain', SMALL, '-q', *options], capture_output=True, text=True)
            self.assertIn(r.returncode, (2, 3), (options, r.stderr))
            self.assertEqual(r.stdout, '', options)
            self.assertIn(message, r.stderr, options)
        with open(report) as f:
            text = f.read()
        for wrong, place in ((text[:len(text) // 2], r':\d+: '), ('{}', r':\d+: '), ('[' * 100000, r':\d+: '), (text.replace('float32', 'float33', 1), r':\d+: ')):
            with open(self.path('wrong.json'), 'w') as f:
                f.write(wrong)
            for options in (['--policy', self.path('wrong.json')], ['--against', self.path('wrong.json'), '--fail-on=cost']):
                r = subprocess.run([TOOL, 'explain', SMALL, '-q', *options], capture_output=True, text=True)
                self.assertEqual(r.returncode, 3, r.stderr)
                self.assertRegex(r.stderr, 'wrong.json' + place)
        r = subprocess.run([TOOL, 'run', SMALL, '-q', '--policy', self.path('absent.json')], capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stdout), (5, ''), r.stderr)

    def test_explain_draws(self):
        dot = self.tool('explain', '--policy=force_fp16', '--format=dot', SMALL).stdout
        self.assertIn(b'fillcolor', dot)
        svg = subprocess.run(['dot', '-Tsvg'], input=dot, capture_output=True, check=True).stdout
        self.assertIn(b'</svg>', svg)
        data = json.loads(self.tool('explain', '--policy=force_fp16', '--format=node-data', SMALL).stdout)
        self.assertEqual(data['results']['y']['value'], 'float16')
        self.assertEqual(data['results']['x']['value'], 'float32')



if __name__ == '__main__':
    unittest.main()
