#!/usr/bin/env python3
"""The keys of the compile cache: each option and each class of bytes of a model is changed in turn; if the result
differs, it is compiled again, otherwise not."""
import json, os, re, shutil, subprocess, unittest

from cached import MODEL, Cached
from test_methods import block, convolution
from tool import HERE, TOOL

W, B = (re.search(f'%{name} = .*\n', MODEL).group() for name in 'wb')

# Other values than the default, for options for which the first other value in the table does not
# serve.
VALUES = {
    'allowlist_add': 'Softmax', 'allowlist_remove': 'MatMul', 'denylist_add': 'Mul', 'denylist_remove': 'Exp',
    'inferlist_add': 'Softmax', 'inferlist_remove': 'Mul', 'clearlist_add': 'Softmax', 'clearlist_remove': 'Relu',
    'budget': 'y:rel<=0.5', 'cost_target': 'x86-64', 'profile': 'ascend910', 'priced_node': 'y', 'samples': '3:7',
    'optimization_switch': 'constant_folding:off', 'optypelist_for_implmode': 'Softmax', 'enable_scope_fusion_passes': 'ScopeLayerNormPass',
    'activation_memory': '1M', 'op_select_implmode': 'high_precision', 'allow_hf32': '11', 'frontier': 'true', 'debug_dir': 'D',
}
FILES = {
    'keep_dtype': 'first\n', 'modify_mixlist': '{"black-list": {"to-add": ["MatMul"]}}',
    'op_precision_mode': '[ByOpType]\nSoftmax=high_precision\n', 'customize_dtypes': 'OpType::MatMul:InputDtype:float16,float16,OutputDtype:float16\n',
    'fusion_switch_file': 'bias_matmul:off\n', 'rates': 'halftone.rates/1\nlevel x86-64-v3\nl3 8\nend\n',
}
CACHES = ('op_compiler_cache_mode', 'op_compiler_cache_dir', 'graph_compiler_cache_dir', 'graph_key')  # they select a cache: class Vendor
LEAVES_FILES = ('dump_graphs', 'fusion_result', 'export_compile_stat', 'op_debug_level', 'op_debug_config')


class Mutations(Cached):
    def mutate(self, base, options):
        """Changes one option at a time, in addition to `base`."""
        self.cache = os.path.join(self.dir, 'cache' + ''.join(base).replace('=', '-'))
        baseline = self.compile(*base)
        copy = self.cache + '-copy'
        shutil.copytree(self.cache, copy)
        rows = {o['name']: o for o in json.loads(self.tool('options', '--format', 'json').stdout)['options']}
        kinds = {'refused': 0, 'differs': 0, 'not read': 0, 'read': 0}
        for name in options or rows:
            if name.startswith('atc.') or name in (*LEAVES_FILES, *CACHES, 'external_weight'):  # the last one is an option of compile itself
                continue
            value = self.value_of(rows[name])
            args = [*base, f'--{name}={value}']
            cold = subprocess.run([TOOL, 'compile', '-q', self.model, *args, '--no-cache', '--target', 'x86-64-v3', '-o',
                                   os.path.join(self.dir, 'cold.htx')], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if cold.returncode:
                kinds['refused'] += 1
                why = self.tool('cache', 'why-miss', '-q', self.model, *args, '--cache-mode', 'ro', code=None)
                self.assertNotEqual(why.returncode, 0, args)
                continue
            with open(os.path.join(self.dir, 'cold.htx'), 'rb') as f:
                same = f.read() == baseline
            why = self.tool('cache', 'why-miss', '-q', self.model, *args, '--cache-mode', 'ro', '--format', 'json', code=None)
            self.assertIn(why.returncode, (0, 1), (args, why.stderr))
            hit = json.loads(why.stdout)['hit']
            if not same:
                self.assertFalse(hit, ('the output differs, the key does not', args))
                kinds['differs'] += 1
            elif hit:
                kinds['not read'] += 1
            else:
                # The option was read and might have mattered; no code is generated again, except
                # for trials.
                self.assertEqual(json.loads(why.stdout)['part'], 'option-' + ('policy' if name.startswith('precision_mode') else name), args)
                self.cache, kept = copy, self.cache
                generated = self.counted('kernel_misses', lambda: self.compile(*args))
                self.assertTrue(generated == 0 or name in ('budget', 'frontier'), args)
                self.cache = kept
                kinds['read'] += 1
        return kinds

    def value_of(self, row):
        name, values = row['name'], row['values']
        if name in VALUES:
            return VALUES[name]
        if name in FILES:
            return self.path('f.txt', FILES[name].encode())
        if name == 'ops_info':
            os.makedirs(os.path.join(self.dir, 'info'), exist_ok=True)
            self.path('info/a.json', b'{"MatMulV2": {"precision_reduce": {"flag": "false"}}}')
            return os.path.join(self.dir, 'info')
        if name == 'cost_table':
            return self.path('no.costs', b'nothing\n')
        if '..' in values:
            low = int(values.split('..')[0])
            return str(low + 1 if str(low) == row['default'] else low)
        if '|' in values:
            return next(v for v in values.split('|') if v != row['default'] and not (row['default'] in ('true', 'false') and v == row['default']))
        return 'text'

    def test_every_option(self):
        kinds = self.mutate([], None)
        self.assertGreater(kinds['not read'], 60, kinds)
        self.assertGreater(kinds['differs'], 3, kinds)
        self.assertLess(kinds['read'], 16, kinds)

    def test_options_of_the_other_policies(self):
        lists = [f'{l}list_{w}' for l in ('allow', 'deny', 'infer', 'clear') for w in ('add', 'remove')]
        kinds = self.mutate(['--policy=grappler-fp16-cpu'], [*lists, 'grappler_level', 'oo_level', 'cost_target'])
        self.assertGreater(kinds['differs'], 1, kinds)
        kinds = self.mutate(['--policy=allow_mix_precision'], ['modify_mixlist', 'keep_dtype', 'ops_info', 'op_precision_mode', 'profile', 'allow_hf32'])
        self.assertGreater(kinds['differs'], 1, kinds)
        self.mutate(['--policy=optimal'], ['activation_memory', 'cost_target', 'budget', 'frontier', 'priced_node', 'modify_mixlist'])

    def test_options_of_the_tool(self):
        """The options that are not a policy's."""
        window = self.path('window.hir', convolution(32, 16, 16).encode())
        narrow = self.path('narrow.hir', block(32).encode())
        for model, args, matters in ((self.model, ['--threads=2'], False), (self.model, ['--outputs=act'], True), (self.model, ['--target=x86-64'], True),
                                     (window, ['--conv-method=direct'], True), (window, ['--conv-method=winograd'], True),
                                     (window, ['--conv-method=auto'], False), (narrow, ['--block-method=kernels'], True),
                                     (self.model, ['--conv-method=direct', '--block-method=kernels'], False)):
            self.cache = os.path.join(self.dir, 'cache' + os.path.basename(model) + ''.join(args))
            base, cold = self.compile(model=model), self.compile('--no-cache', *args, model=model)
            got = []
            hits = self.counted('graph_hits', lambda: got.append(self.compile(*args, model=model)))
            self.assertEqual(got, [cold], args)
            self.assertEqual((cold != base, hits), (matters, 0 if matters else 1), args)

    def test_files_count_by_content(self):
        base = ['--policy=allow_mix_precision']
        keep = [*base, '--keep_dtype=' + self.path('k.txt', b'first\n')]
        self.compile(*keep)
        self.assertEqual(self.counted('graph_hits', lambda: self.compile(*base, '--keep_dtype=' + self.path('other.txt', b'first\n'))), 1)
        self.assertEqual(self.counted('graph_hits', lambda: self.compile(*base, '--keep_dtype=' + self.path('k.txt', b'second\n'))), 0)

    def test_loss_scale(self):
        """The scale of the first step is in the key of the policy that asks how far gradients are lifted, and of no other."""
        def compile(policy, scale, *more):
            return self.compile('--entry', 'step=loss,train', '--input-shape', 'x:8,4;y:8,1', '--loss', 'loss', '--policy', policy, '--loss-scale', scale,
                                *more, model=os.path.join(HERE, 'train.hir'))
        for policy, reads in ('must_keep_origin_dtype', False), ('allow_mix_precision_fp16', False), ('optimal', True):
            for scale, anew in ('fixed:64', True), ('fixed:64', False), ('fixed:1024', reads), ('dynamic', reads), ('none', True):
                got = []
                misses = self.counted('graph_misses', lambda: got.append(compile(policy, scale)))
                self.assertEqual(bool(misses), anew, (policy, scale))
                self.assertEqual(got, [compile(policy, scale, '--no-cache')], (policy, scale))

    def test_spellings_of_one_value(self):
        self.compile('--oo_constant_folding=false')
        for same in ['--oo_constant_folding=0'], ['--oo_constant_folding=false', '--oo_level=O3'], ['--oo-constant-folding=false']:
            self.assertEqual(self.counted('graph_hits', lambda: self.compile(*same)), 1, same)

    def test_a_batch_of_one(self):
        """One batch has one program and one key, in whatever way it is stated; so have sizes that stay open."""
        model = self.path('open.hir', MODEL.replace('shape[2,8]', 'shape[?,8]').encode())
        for policy in [], ['--policy=grappler-fp16-cpu']:
            want = self.compile(*policy, '--batch=1', '--no-cache', model=model)
            for how in ['--batch=1'], ['--input-shape=x:1,8']:
                self.assertEqual(self.compile(*policy, *how, '--no-cache', model=model), want)
                hits = self.counted('graph_hits', lambda: self.compile(*policy, *how, model=model))
                self.assertEqual(hits, how != ['--batch=1'], (policy, how))
                self.assertEqual(self.read('out.htx'), want)
            self.assertNotEqual(self.compile(*policy, model=model), want)
            self.assertEqual(self.counted('graph_hits', lambda: self.compile(*policy, '--input-shape=x:?,8', model=model)), 1)
            self.assertEqual(self.counted('graph_hits', lambda: self.compile(*policy, '--batch=2', model=model)), 0)

    def test_every_kind_of_byte_of_the_model(self):
        """After an edit, only the changed kernels are compiled: names of nodes and their order are not in the keys of
        kernels."""
        self.compile()
        for what, a, b, generates in (
                ('a comment', 'hir 1\n', 'hir 1\n# a comment\n', False),
                ("a node's name", '%act', '%renamed', False),
                ('the order of nodes', W + B, B + W, False),
                ("a constant's value", '0.25, 1.0', '0.25, 1.5', False),
                ('a dead node', '%y = ', '%dead = Relu(%x) {T=f32}\n%y = ', False),
                ('an op', 'Relu(%sum)', 'Tanh(%sum)', True),
                ('a shape', 'shape[2,8]', 'shape[3,8]', True),
                ('an operand', 'Mul(%act, %act)', 'Mul(%act, %sum)', True)):
            text = MODEL.replace(a, b)
            edited = self.path('edited.hir', text.encode())
            self.assertNotEqual(text, MODEL, what)
            self.tool('cache', 'why-miss', '-q', edited, code=1)
            before = self.stats()
            got = self.compile(model=edited)
            after = self.stats()
            self.assertEqual(got, self.compile('--no-cache', model=edited), what)
            self.assertEqual(after['kernel_misses'] > before['kernel_misses'], generates, what)
        renamed = shutil.copy(self.model, os.path.join(self.dir, 'renamed.hir'))
        self.assertEqual(self.counted('graph_hits', lambda: self.compile(model=renamed)), 1)

    def debug_config(self):
        path = os.path.join(self.dir, 'debug.cfg')
        with open(path, 'w') as f:
            f.write('op_debug_config=dump_cce\n')
        return path

    def test_what_leaves_files_runs_each_time(self):
        self.compile()
        for option in LEAVES_FILES:
            out = os.path.join(self.dir, 'left')
            value = {'dump_graphs': out, 'fusion_result': out, 'op_debug_config': self.debug_config()}.get(option, '1')
            for _ in range(2):
                left = subprocess.run([TOOL, 'compile', '-q', self.model, f'--{option}={value}'], cwd=self.dir, stdout=subprocess.DEVNULL,
                                      env={**os.environ, 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_CACHE_MODE': ''})
                self.assertEqual(left.returncode, 0, option)
                made = [n for n in os.listdir(self.dir) if n not in ('m.hir', 'cache', 'out.htx', 'debug.cfg')]
                self.assertTrue(made, option)
                for n in made:
                    p = os.path.join(self.dir, n)
                    shutil.rmtree(p) if os.path.isdir(p) else os.unlink(p)


if __name__ == '__main__':
    unittest.main()
