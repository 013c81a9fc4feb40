#!/usr/bin/env python3
"""The compile cache through the command line: what was compiled is not compiled again, what differs is;
each option and each class of bytes of a model changed in turn; the verbs; what others leave in the
directory."""
import json, os, re, shutil, subprocess, time, unittest

from test_cli import SMALL, TOOL, Case

MODEL = f"""hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}

%x = Placeholder() {{dtype=f32, shape=shape[2,8]}}
%w = Const() {{dtype=f32, value=tensor f32[8,8] {{{', '.join(str(i % 7 - 3 + 0.5) for i in range(64))}}}}}
%b = Const() {{dtype=f32, value=tensor f32[8] {{0.25, 1.0, 0.5, -0.75, 2.0, 0.125, 1.5, -0.5}}}}
%first = MatMul(%x, %w) {{T=f32, transpose_a=false, transpose_b=false}}
%sum = BiasAdd(%first, %b) {{T=f32, data_format="NHWC"}}
%act = Relu(%sum) {{T=f32}}
%half = Mul(%act, %act) {{T=f32}}
%second = MatMul(%half, %w) {{T=f32, transpose_a=false, transpose_b=false}}
%y = Softmax(%second) {{T=f32}}
"""

W, B = (re.search(f'%{name} = .*\n', MODEL).group() for name in 'wb')

# A value that is not the default, where the table's first other one does not do.
VALUES = {
    'allowlist_add': 'Softmax', 'allowlist_remove': 'MatMul', 'denylist_add': 'Mul', 'denylist_remove': 'Exp',
    'inferlist_add': 'Softmax', 'inferlist_remove': 'Mul', 'clearlist_add': 'Softmax', 'clearlist_remove': 'Relu',
    'budget': 'y:rel<=0.5', 'cost_target': 'x86-64', 'profile': 'ascend910', 'priced_node': 'y', 'samples': '3:7',
    'optimization_switch': 'constant_folding:off', 'optypelist_for_implmode': 'Softmax', 'enable_scope_fusion_passes': 'ScopeLayerNormPass',
    'op_select_implmode': 'high_performance', 'allow_hf32': '11', 'frontier': 'true', 'debug_dir': 'D',
}
FILES = {
    'keep_dtype': 'first\n', 'modify_mixlist': '{"black-list": {"to-add": ["MatMul"]}}',
    'op_precision_mode': '[ByOpType]\nSoftmax=high_precision\n', 'customize_dtypes': 'OpType::MatMul:InputDtype:float16,float16,OutputDtype:float16\n',
    'fusion_switch_file': 'constant_folding:off\n',
}
CACHES = ('op_compiler_cache_mode', 'op_compiler_cache_dir', 'graph_compiler_cache_dir')  # choose a cache: class Vendor
LEAVES_FILES = ('dump_graphs', 'fusion_result', 'export_compile_stat', 'op_debug_level')


class Cached(Case):
    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.dir, 'cache')
        self.model = self.path('m.hir', MODEL.encode())

    def tool(self, *args, env=None, code=0, **more):
        """`code` None: whatever comes."""
        env = {**os.environ, 'HALFTONE_CACHE_MODE': '', 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_TARGET': 'x86-64-v3', **(env or {})}
        if code is not None:
            return super().tool(*args, env=env, code=code, **more)
        return subprocess.run([TOOL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)

    def compile(self, *args, model=None, **more):
        """The artefact's bytes."""
        out = os.path.join(self.dir, 'out.htx')
        if os.path.exists(out):
            os.unlink(out)
        self.last = self.tool('compile', '-q', model or self.model, *args, '-o', out, **more)
        if not os.path.exists(out):
            return None
        with open(out, 'rb') as f:
            return f.read()

    def stats(self):
        return json.loads(self.tool('cache', 'stats', '--format', 'json').stdout)

    def counted(self, what, run):
        before = self.stats()[what]
        run()
        return self.stats()[what] - before


class Hits(Cached):
    def test_a_second_compilation_needs_no_code_generator(self):
        first = self.compile()
        self.assertEqual(self.compile(env={'HALFTONE_BACKEND': '/nonexistent'}), first)
        self.assertEqual(self.compile('--no-cache'), first)
        self.fails(5, 'code generator', 'run', '-q', self.model, env={'HALFTONE_BACKEND': '/nonexistent', 'HALFTONE_CACHE_MODE': 'off'})
        want = self.tool('run', '-q', self.model, '--no-cache').stdout
        self.assertEqual(self.tool('run', '-q', self.model, env={'HALFTONE_BACKEND': '/nonexistent'}).stdout, want)
        self.tool('bench', '-q', self.model, '--runs', '1', '--duration', '0', env={'HALFTONE_BACKEND': '/nonexistent'})

    def test_llvm_is_not_mapped(self):
        """Nor is anything of the process writable and executable."""
        self.compile()
        fifo = os.path.join(self.dir, 'fifo')
        os.mkfifo(fifo)
        for extra, mapped in ([], False), (['--no-cache'], True):
            p = subprocess.Popen([TOOL, 'compile', '-q', self.model, '--target', 'x86-64-v3', '-o', fifo, *extra],
                                 stdout=subprocess.DEVNULL, env={**os.environ, 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_CACHE_MODE': ''})
            # It waits for a reader before it writes what it has compiled.
            for _ in range(600):
                with open(f'/proc/{p.pid}/wchan') as f:
                    waits = 'fifo' in f.read()
                with open(f'/proc/{p.pid}/maps') as f:
                    maps = f.read()
                if waits or ('libLLVM' in maps and mapped):
                    break
                time.sleep(0.05)
            self.assertEqual('libLLVM' in maps, mapped, extra)
            self.assertNotRegex(maps, r' .?wx')
            with open(fifo, 'rb') as f:
                self.assertTrue(f.read())
            self.assertEqual(p.wait(), 0)

    def test_messages_are_said_again(self):
        args = [SMALL]
        out = os.path.join(self.dir, 'o.htx')
        first = self.tool('compile', *args, '-o', out).err
        self.assertIn('counts as 1', first)
        self.assertEqual(self.tool('compile', *args, '-o', out).err, first)
        moved = shutil.copy(SMALL, os.path.join(self.dir, 'moved.hir'))
        self.assertEqual(self.tool('compile', moved, '-o', out).err, first.replace(SMALL, moved))
        self.assertEqual(self.stats()['graph_hits'], 2)

    def test_error_on_a_miss(self):
        self.fails(1, 'no graph', 'compile', '-q', self.model, '--error-on-cache-miss')
        self.compile()
        self.assertTrue(self.compile('--error-on-cache-miss'))
        self.fails(1, "option-oo_level is 'O1'", 'compile', '-q', self.model, '--error-on-cache-miss', '--oo_level', 'O1')


class Mutations(Cached):
    def mutate(self, base, options):
        """Changes one option at a time beside `base`."""
        self.cache = os.path.join(self.dir, 'cache' + ''.join(base).replace('=', '-'))
        baseline = self.compile(*base)
        copy = self.cache + '-copy'
        shutil.copytree(self.cache, copy)
        rows = {o['name']: o for o in json.loads(self.tool('options', '--format', 'json').stdout)['options']}
        kinds = {'refused': 0, 'differs': 0, 'not read': 0, 'read': 0}
        for name in options or rows:
            if name.startswith('atc.') or name in (*LEAVES_FILES, *CACHES, 'external_weight'):  # the last is compile's own
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
                # It was asked for, and might have mattered; no code is generated again, but for trials.
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
        self.mutate(['--policy=optimal'], ['cost_target', 'budget', 'frontier', 'priced_node', 'modify_mixlist'])

    def test_files_count_by_content(self):
        base = ['--policy=allow_mix_precision']
        keep = [*base, '--keep_dtype=' + self.path('k.txt', b'first\n')]
        self.compile(*keep)
        self.assertEqual(self.counted('graph_hits', lambda: self.compile(*base, '--keep_dtype=' + self.path('other.txt', b'first\n'))), 1)
        self.assertEqual(self.counted('graph_hits', lambda: self.compile(*base, '--keep_dtype=' + self.path('k.txt', b'second\n'))), 0)

    def test_spellings_of_one_value(self):
        self.compile('--oo_constant_folding=false')
        for same in ['--oo_constant_folding=0'], ['--oo_constant_folding=false', '--oo_level=O3'], ['--oo-constant-folding=false']:
            self.assertEqual(self.counted('graph_hits', lambda: self.compile(*same)), 1, same)

    def test_every_kind_of_byte_of_the_model(self):
        """An edit compiles what it changed: names of nodes and their order do not enter kernels."""
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

    def test_what_leaves_files_runs_each_time(self):
        self.compile()
        for option in LEAVES_FILES:
            out = os.path.join(self.dir, 'left')
            value = {'dump_graphs': out, 'fusion_result': out}.get(option, '1')
            for _ in range(2):
                left = subprocess.run([TOOL, 'compile', '-q', self.model, f'--{option}={value}'], cwd=self.dir, stdout=subprocess.DEVNULL,
                                      env={**os.environ, 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_CACHE_MODE': ''})
                self.assertEqual(left.returncode, 0, option)
                made = [n for n in os.listdir(self.dir) if n not in ('m.hir', 'cache', 'out.htx')]
                self.assertTrue(made, option)
                for n in made:
                    p = os.path.join(self.dir, n)
                    shutil.rmtree(p) if os.path.isdir(p) else os.unlink(p)


class Verbs(Cached):
    def entries(self, kind):
        top = os.path.join(self.cache, 'v1', kind)
        return [os.path.join(d, n) for d, _, names in os.walk(top) for n in names]

    def test_why_miss_names_the_first_part_that_differs(self):
        self.fails_with_miss('the cache has no graph')
        self.compile()
        self.assertRegex(self.tool('cache', 'why-miss', self.model).stdout.decode(), '^hit: [0-9a-f]{32}\n$')
        self.fails_with_miss("target is 'x86-64', in the nearest entry 'x86-64-v3'", '--target', 'x86-64')
        self.fails_with_miss("option-policy is 'force_fp16'", '--policy', 'force_fp16')
        self.fails_with_miss('^miss: model is ', model=self.path('o.hir', MODEL.replace('2.0', '3.0').encode()))
        r = self.tool('cache', 'why-miss', self.model, '--oo_level', 'O0', '--format', 'json', code=1)
        self.assertEqual(json.loads(r.stdout)['part'], 'option-oo_level')

    def fails_with_miss(self, pattern, *args, model=None):
        r = self.tool('cache', 'why-miss', '-q', model or self.model, *args, code=1)
        self.assertRegex(r.stdout.decode(), pattern)

    def test_key_path_pin(self):
        self.compile()
        key = self.tool('cache', 'key', self.model).stdout.decode().strip()
        path = self.tool('cache', 'path', key[:12]).stdout.decode().strip()
        self.assertEqual(self.entries('graph'), [path])
        self.assertEqual(self.tool('cache', 'path').stdout.decode().strip(), self.cache)
        kernels = self.tool('cache', 'key', '--kernels', self.model).stdout.decode().split()
        self.assertEqual(len(set(kernels)), len(self.entries('kernel')))
        self.tool('cache', 'pin', key)
        self.tool('cache', 'clear')
        self.assertEqual((len(self.entries('graph')), len(self.entries('kernel'))), (1, 0))
        self.tool('cache', 'pin', key, '--unpin')
        self.tool('cache', 'clear')
        self.assertEqual(len(self.entries('graph')), 0)
        self.fails(2, '0 entries', 'cache', 'pin', 'f' * 32)

    def test_verify_finds_damage(self):
        self.compile()
        self.assertIn('0 of 0 bytes', self.tool('cache', 'verify').stdout.decode())
        victim = self.entries('kernel')[0]
        with open(victim, 'r+b') as f:
            f.seek(200)
            byte = f.read(1)
            f.seek(200)
            f.write(bytes([byte[0] ^ 4]))
        r = self.tool('cache', 'verify', code=1)
        self.assertIn('damaged', r.err)
        self.assertFalse(os.path.exists(victim))
        self.tool('cache', 'verify')

    def test_damage_is_a_miss_and_a_warning(self):
        first = self.compile()
        for kind in 'graph', 'reads':
            with open(self.entries(kind)[0], 'r+b') as f:
                f.seek(120)
                f.write(b'\xff\x00\xff')
            out = os.path.join(self.dir, 'o.htx')
            r = self.tool('compile', self.model, '-o', out)
            self.assertIn('damaged', r.err)
            with open(out, 'rb') as f:
                self.assertEqual(f.read(), first)

    def test_export_and_import(self):
        first = self.compile()
        archive = os.path.join(self.dir, 'all')
        self.tool('cache', 'export', archive)
        self.tool('cache', 'clear')
        self.tool('cache', 'import', archive)
        self.assertEqual(self.compile('--error-on-cache-miss'), first)
        again = os.path.join(self.dir, 'again')
        self.tool('cache', 'export', again)
        with open(archive, 'rb') as a, open(again, 'rb') as b:
            data = a.read()
            self.assertEqual(data, b.read())
        bad = self.path('bad', data[:300] + b'\0' + data[301:])
        self.fails(3, 'byte 0', 'cache', 'import', bad)
        self.fails(3, 'no entry', 'cache', 'import', SMALL)

    def test_gc_and_stats(self):
        self.compile()
        self.compile('--policy', 'force_fp16')
        s = self.stats()
        self.assertEqual((s['graphs'], s['graph_misses'], s['graph_hits']), (2, 2, 0))
        self.tool('cache', 'gc', '--max-size', str(s['bytes'] // 2))
        after = self.stats()
        self.assertLessEqual(after['bytes'], s['bytes'] // 2)
        self.assertGreater(after['evicted'], 0)
        self.fails(2, 'max-size', 'cache', 'gc')
        self.tool('cache', 'stats', '--reset')
        self.assertEqual(self.stats()['graph_misses'], 0)

    def test_usage(self):
        self.fails(2, 'did you mean stats', 'cache', 'stat')
        self.fails(2, 'needs MODEL', 'cache', 'why-miss')
        self.fails(2, 'takes no argument', 'cache', 'clear', 'x')
        self.fails(2, 'is not off, ro or rw', 'compile', self.model, '--cache-mode', 'x')
        self.fails(2, 'is off', 'cache', 'stats', '--no-cache')
        self.fails(2, 'is no size', 'compile', self.model, '--max-size', '5Q')


class Others(Cached):
    def test_a_directory_that_others_write_to(self):
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o777)
        self.fails(5, 'others may write', 'compile', '-q', self.model)
        self.assertTrue(self.compile('--cache-shared'))
        self.assertTrue(self.compile('--no-cache'))

    def test_a_place_that_cannot_be_written_to_costs_a_warning(self):
        first = self.compile('--no-cache')
        for place in '/proc/halftone', '/dev/null/halftone':
            r = self.tool('compile', self.model, '-o', os.path.join(self.dir, 'o.htx'), '--cache-dir', place)
            self.assertEqual(r.err.count('the cache cannot write'), 1, r.err)
            with open(os.path.join(self.dir, 'o.htx'), 'rb') as f:
                self.assertEqual(f.read(), first)

    def test_without_a_home(self):
        env = {'HALFTONE_CACHE_DIR': '', 'XDG_CACHE_HOME': '', 'HOME': ''}
        r = self.tool('compile', self.model, env=env)
        self.assertIn('there is no cache', r.err)
        home = os.path.join(self.dir, 'home')
        self.tool('compile', '-q', self.model, env={**env, 'HOME': home})
        self.assertTrue(os.path.isdir(os.path.join(home, '.cache', 'halftone', 'v1', 'graph')))

    def test_many_at_once(self):
        want = {p: self.compile('--no-cache', '--policy', p) for p in ('force_fp32', 'force_fp16', 'allow_mix_precision')}
        runs = []
        for i in range(12):
            policy = list(want)[i % 3]
            out = os.path.join(self.dir, f'{i}.htx')
            runs.append((policy, out, subprocess.Popen(
                [TOOL, 'compile', '-q', self.model, '--target', 'x86-64-v3', '--policy', policy, '-o', out], stdout=subprocess.DEVNULL,
                env={**os.environ, 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_CACHE_MODE': ''})))
        for policy, out, p in runs:
            self.assertEqual(p.wait(), 0)
            with open(out, 'rb') as f:
                self.assertEqual(f.read(), want[policy])
        s = self.stats()
        self.assertEqual(s['graph_hits'] + s['graph_misses'], 12)
        self.assertEqual(s['graphs'], 3)
        self.tool('cache', 'verify')


class Vendor(Cached):
    """op_compiler_cache_mode and _dir, op_cache.ini, graph_compiler_cache_dir."""

    def setUp(self):
        super().setUp()
        self.top = os.path.join(self.dir, 'top')
        self.args = [f'--op_compiler_cache_dir={self.top}', '--op_compiler_cache_mode=enable']
        self.ini = os.path.join(self.top, 'kernel_cache', 'op_cache.ini')

    def graphs(self, profile='cpu'):
        return [n for d, _, names in os.walk(os.path.join(self.top, 'kernel_cache', profile, 'v1', 'graph')) for n in names]

    def age(self):
        """All was used long ago, what is large before the rest."""
        for d, _, names in os.walk(self.top):
            for n in names:
                when = 1000 if os.path.getsize(os.path.join(d, n)) >= 1 << 20 else 2000
                os.utime(os.path.join(d, n), (when, when))

    def test_modes(self):
        self.compile('--op_compiler_cache_mode=disable', *self.args[:1])
        self.assertFalse(os.path.exists(self.top))
        first = self.compile(*self.args)
        self.assertEqual(self.compile(*self.args, env={'HALFTONE_BACKEND': '/nonexistent'}), first)
        self.assertEqual(len(self.graphs()), 1)
        self.compile(*self.args[:1], '--op_compiler_cache_mode=force', '--oo_level=O1')
        self.assertEqual(len(self.graphs()), 1)
        self.compile(self.args[0], '--cache-dir', self.cache)
        self.assertEqual(len(self.graphs()), 1)
        self.fails(2, 'none of', 'compile', '-q', self.model, '--op_compiler_cache_mode=on')
        self.fails(2, 'a letter other', 'compile', '-q', self.model, '--op_compiler_cache_dir=/tmp/a b')

    def test_directory_from_the_environment(self):
        self.compile('--op_compiler_cache_mode=enable', env={'ASCEND_CACHE_PATH': self.top})
        self.assertEqual(len(self.graphs()), 1)
        self.compile('--op_compiler_cache_mode=enable', '--profile=ascend910', env={'ASCEND_CACHE_PATH': self.top})
        self.assertEqual(len(self.graphs('ascend910')), 1)

    def test_another_version_empties_it(self):
        self.compile(*self.args)
        with open(self.ini) as f:
            text = f.read()
        self.assertRegex(text, r'^\[op_compiler_cache\]\nadk_version=(\S+)\nops_version=\1\n$')
        with open(self.ini, 'w') as f:
            f.write(text.replace('ops_version=', 'ops_version=9'))
        self.compile(*self.args, '--oo_level=O1')
        self.assertEqual(len(self.graphs()), 1)
        with open(self.ini) as f:
            self.assertEqual(f.read(), text)

    def sizes(self, text):
        with open(self.ini) as f:
            old = f.read()
        with open(self.ini, 'w') as f:
            f.write(old.replace('[op_compiler_cache]\n', '# sizes\n\n[op_compiler_cache]\n' + text))

    def fill(self, name):
        """More than a megabyte that was used long ago."""
        os.makedirs(os.path.join(self.top, 'kernel_cache', 'cpu', 'v1', 'graph', 'ab'), exist_ok=True)
        with open(os.path.join(self.top, 'kernel_cache', 'cpu', 'v1', 'graph', 'ab', name * 30), 'wb') as f:
            f.write(bytes(1 << 20))

    def test_ageing(self):
        self.compile(*self.args)
        self.sizes('max_op_cache_size = 1\nremain_cache_size_ratio= 50\n')
        self.fill('1')
        self.compile(*self.args)
        self.assertEqual(len(self.graphs()), 2)  # nothing was used longer ago than half an hour
        self.age()
        self.compile(*self.args, '--oo_level=O1')
        self.assertEqual(len(self.graphs()), 2)  # the large one went, which was enough

    def test_wrong_sizes(self):
        self.compile(*self.args)
        r = self.tool('compile', self.model, *self.args, env={'ASCEND_MAX_OP_CACHE_SIZE': '0'})
        self.assertIn("ASCEND_MAX_OP_CACHE_SIZE: '0'", r.err)
        self.sizes('max_op_cache_size=1\n')
        self.fill('2')
        self.age()
        r = self.tool('compile', self.model, *self.args, env={'ASCEND_MAX_OP_CACHE_SIZE': '-1'})
        self.assertIn('op_cache.ini has no effect', r.err)
        self.assertEqual(len(self.graphs()), 2)

    def test_graph_directory(self):
        graphs = os.path.join(self.dir, 'graphs')
        args = [f'--graph_compiler_cache_dir={graphs}']
        self.fails(2, 'graph_compiler_cache_dir.*is no directory', 'compile', '-q', self.model, *args)
        run = self.path('run.json', b'{"graph_run_mode": 0,\n "experimental_config": {"graph_compiler_cache_dir": "/nowhere"}}')
        self.fails(3, 'run.json:2: experimental_config.graph_compiler_cache_dir', 'compile', '-q', self.model, '--config', run)
        os.mkdir(graphs)
        first = self.compile(*args)
        self.assertEqual(self.compile(*args, env={'HALFTONE_BACKEND': '/nonexistent'}), first)
        edited = self.path('m.hir', MODEL.replace('0.125', '4.125').encode())
        self.assertNotEqual(self.compile(*args, model=edited), first)
        self.fails(2, 'has no effect beside', 'compile', '-q', self.model, *args, *self.args)


if __name__ == '__main__':
    unittest.main()
