#!/usr/bin/env python3
"""Stating the default of an option changes nothing: neither decisions, nor outputs, nor keys of the cache.  Every row
of the table that has a default is tried, by itself and with all others, with several models and policies."""
import hashlib, json, os, re, unittest

from cached import MODEL, Cached
from tool import SMALL, TOP

# A graph in which modes of kernels, fusions, lists and presets have different effects: an
# activation of several ops, pooling, a convolution, a reduction.
RICH = """hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[1,4,4,2]}
%w = Const() {dtype=f32, value=tensor f32[1,1,2,2] {0.5, -1.0, 0.25, 1.5}}
%b = Const() {dtype=f32, value=tensor f32[2] {0.25, -0.5}}
%conv = Conv2D(%x, %w) {T=f32, data_format="NHWC", dilations=[1, 1, 1, 1], explicit_paddings=[], padding="SAME", strides=[1, 1, 1, 1], use_cudnn_on_gpu=true}
%sum = BiasAdd(%conv, %b) {T=f32, data_format="NHWC"}
%gelu = Gelu(%sum) {T=f32, approximate=true}
%pool = AvgPool(%gelu) {T=f32, data_format="NHWC", ksize=[1, 2, 2, 1], padding="VALID", strides=[1, 2, 2, 1]}
%most = MaxPool(%pool) {T=f32, data_format="NHWC", explicit_paddings=[], ksize=[1, 2, 2, 1], padding="SAME", strides=[1, 1, 1, 1]}
%exp = Exp(%most) {T=f32}
%axis = Const() {dtype=i32, value=tensor i32[1] {3}}
%mean = Mean(%exp, %axis) {T=f32, Tidx=i32, keep_dims=true}
%shifted = Sub(%exp, %mean) {T=f32}
%y = Softmax(%shifted) {T=f32}
"""
POLICIES = ((), ('--policy=allow_mix_precision_bf16',), ('--precision_mode=force_fp16',), ('--policy=keras-bf16',), ('--policy=grappler-bf16',),
            ('--policy=optimal',), ('--graph_run_mode=1',))
# These options name the policy: beside another name they are an error, as in the vendor's system.
MODES = ('precision_mode', 'precision_mode_v2')


class Defaults(Cached):
    def setUp(self):
        super().setUp()
        rows = json.loads(self.tool('options', '--format', 'json').stdout)['options']
        self.rows = [r for r in rows if r['default'] and not r['name'].startswith('atc.')]
        self.atc = [r for r in rows if r['default'] and r['name'].startswith('atc.')]
        self.models = [self.model, self.path('rich.hir', RICH.encode())]

    def config(self, rows):
        return '--config=' + self.path('run.json', json.dumps({r['name']: r['default'] for r in rows}).encode())

    def seen(self, model, *args):
        """Decisions, outputs, the artefact and the key."""
        report = json.loads(self.tool('explain', '--format=json', '-q', *args, model).stdout)
        out = os.path.join(self.dir, 'y.npz')
        self.tool('run', '-q', '--seed=7', *args, model, '-o', out)
        artefact = self.compile(*args, model=model)
        key = self.tool('cache', 'key', *args, model).stdout
        return report, self.outputs(out), hashlib.sha256(artefact).hexdigest(), key

    def test_all_at_once(self):
        for model in self.models:
            report = self.path('report.json', self.tool('explain', '--format=json', '-q', *POLICIES[1], model).stdout)
            for policy in (*POLICIES, ('--policy=' + report,)):
                rows = [r for r in self.rows if r['name'] not in MODES]
                with self.subTest(model=model, policy=policy):
                    self.assertEqual(self.seen(model, *policy, self.config(rows)), self.seen(model, *policy, self.config([])))

    def test_each(self):
        self.assertGreater(len(self.rows), 60)
        model = self.models[1]
        for policy in POLICIES[:2]:
            self.compile(*policy, model=model)
            before = self.tool('cache', 'key', *policy, model).stdout
            report = self.tool('explain', '--format=json', '-q', *policy, model).stdout
            for r in self.rows:
                if r['name'] in ('lenient', 'external_weight') or (policy and r['name'] in MODES):  # options of other forms or verbs
                    continue
                with self.subTest(policy=policy, option=r['name']):
                    args = (*policy, f"--{r['name']}={r['default']}", model)
                    stated = self.tool('explain', '--format=json', *args)
                    self.assertEqual(stated.stdout.replace(b'"policy": "origin"', b'"policy": "must_keep_origin_dtype"'), report)
                    self.assertNotIn('has no effect', stated.err)
                    if r['name'] != 'precision_mode_v2':  # keys contain the spelling, too
                        self.assertEqual(self.tool('cache', 'key', *args).stdout, before)

    def test_behind_another_value(self):
        """The last value counts, so a default revokes an earlier value."""
        for name, value in (('oo_level', 'O0'), ('oo_constant_folding', 'false'), ('profile', 'ascend910'), ('op_select_implmode', 'high_precision'),
                            ('grappler_level', 'unsafe_force_all'), ('frontier', 'true')):
            default = next(r['default'] for r in self.rows if r['name'] == name)
            with self.subTest(name):
                self.assertEqual(self.seen(self.models[1], f'--{name}={value}', f'--{name}={default}'), self.seen(self.models[1]))

    def test_atc(self):
        def decided(*args):
            out = os.path.join(self.dir, 'a.hir')
            self.tool('atc', '--framework=3', '--model', self.model, '--output', out, *args)
            return self.read('a.hir')
        plain = decided()
        for r in self.atc:
            name = r['name'][4:]
            with self.subTest(name):
                if name != 'framework':
                    self.assertEqual(decided(f"--{name}={r['default']}"), plain)

    def test_the_default_mode_of_kernels(self):
        rich = self.models[1]

        def modes(*args):
            return {n: (mode, kernel) for n, mode, _, kernel in
                    json.loads(self.tool('explain', '--format=json', '-q', *args, rich).stdout)['implementation']}
        self.assertEqual(modes('--op_select_implmode=high_performance'), {})
        self.assertEqual(modes('--op_select_implmode=high_performance', '--optypelist_for_implmode=Gelu'),
                         {'gelu': ('high_performance', 'shorter polynomials, within 2^-15')})
        self.assertEqual(set(modes('--op_select_implmode=high_performance_for_all')), {'gelu', 'exp', 'mean', 'y', 'conv'})
        # A mode by op or by file still applies beside a stated default.
        self.assertEqual(self.tool('explain', '-q', '--op_select_implmode=high_performance', '--policy=grappler-bf16', rich).stdout,
                         self.tool('explain', '-q', '--policy=grappler-bf16', rich).stdout)
        self.fails(2, 'op_select_implmode must be set too', 'explain', '--optypelist_for_implmode=Gelu', rich)

    def test_names_of_kernels(self):
        """docs/modes.md has the families of the table, and each name acts on the types of its row."""
        with open(os.path.join(TOP, 'precision', 'ascend', 'families.def')) as f:
            families = {n: t.split() for n, t in re.findall(r'FAMILY\("(\w+)",\s*"([^"]*)"\)', f.read())}
        with open(os.path.join(TOP, 'docs', 'modes.md')) as f:
            documented = {n: re.findall(r'`(\w+)`', t) for n, t in re.findall(r'^\| `(\w+)` \| ((?:`\w+` ?)+) \|$', f.read(), re.M)}
        self.assertEqual(documented, families)
        rich = self.models[1]

        def modes(*args):
            return {n: kernel for n, _, _, kernel in json.loads(self.tool('explain', '--format=json', '-q', *args, rich).stdout)['implementation']}
        pooled = modes('--op_select_implmode=high_precision', '--optypelist_for_implmode=Pooling')
        self.assertEqual(pooled, {'pool': 'computes in float64 and rounds once', 'most': ''})
        said = self.tool('explain', '-q', '--op_select_implmode=high_precision', '--optypelist_for_implmode= Pooling , GEMM', rich).stdout.decode()
        self.assertIn("optypelist_for_implmode 'Pooling' acted: high_precision, 2 nodes: 'pool', 'most'\n", said)
        self.assertIn("optypelist_for_implmode 'GEMM' did nothing: the graph has no such op\n", said)
        self.assertNotIn('has no such mode', said)
        ini = self.path('modes.ini', b'[ByOpType]\nPooling=high_precision\nAvgPool=high_performance\nFastGeluV2=super_performance\n')
        self.assertEqual(modes('--op_precision_mode=' + ini), {'pool': '', 'most': '', 'gelu': 'the shortest polynomials, within 2^-9'})
        self.assertEqual(self.seen(self.model, '--op_select_implmode=high_precision', '--optypelist_for_implmode=GEMM')[1],
                         self.seen(self.model, '--op_select_implmode=high_precision', '--optypelist_for_implmode=MatMul')[1])


if __name__ == '__main__':
    unittest.main()
