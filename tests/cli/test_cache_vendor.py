#!/usr/bin/env python3
"""The vendor's options of its caches: op_compiler_cache_mode and _dir, op_cache.ini, graph_compiler_cache_dir with graph_key."""
import concurrent.futures, json, os, shutil, subprocess, unittest

from cached import MODEL, Cached
from tool import TOOL


class Vendor(Cached):
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
        shutil.rmtree(self.top)
        self.compile(*self.args, '--op_debug_level=1', '--debug_dir=' + os.path.join(self.dir, 'debug'))
        self.assertFalse(os.path.exists(self.top))
        self.compile(*self.args, '--op_debug_level=0')
        self.assertEqual(len(self.graphs()), 1)
        self.fails(2, 'none of', 'compile', '-q', self.model, '--op_compiler_cache_mode=on')
        self.fails(2, 'a letter other', 'compile', '-q', self.model, '--op_compiler_cache_dir=/tmp/a b')

    def test_many_at_once(self):
        """Looking after the cache is the affair of one, and stops nobody."""
        for mode in 'enable', 'force':
            runs = [subprocess.Popen([TOOL, 'compile', '-q', self.model, self.args[0], f'--op_compiler_cache_mode={mode}', '--target', 'x86-64-v3',
                                      '-o', os.path.join(self.dir, f'{i}.htx')], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     env={**os.environ, 'HALFTONE_CACHE_DIR': '', 'HALFTONE_CACHE_MODE': ''}) for i in range(12)]
            said = [(p.communicate()[1], p.returncode) for p in runs]
            self.assertEqual(said, 12 * [(b'', 0)])

    def test_directory_from_the_environment(self):
        self.compile('--op_compiler_cache_mode=enable', env={'ASCEND_CACHE_PATH': self.top})
        self.assertEqual(len(self.graphs()), 1)
        self.compile('--op_compiler_cache_mode=enable', '--profile=ascend910', env={'ASCEND_CACHE_PATH': self.top})
        self.assertEqual(len(self.graphs('ascend910')), 1)

    def test_directory_in_the_home(self):
        home = os.path.join(self.dir, 'home')
        ours = {'HOME': home, 'ASCEND_CACHE_PATH': '', 'XDG_CACHE_HOME': '', 'HALFTONE_CACHE_DIR': ''}
        self.compile(env=ours)
        self.assertEqual(os.listdir(home), ['.cache'])
        self.compile('--op_compiler_cache_mode=enable', env=ours)
        self.top = os.path.join(home, 'atc_data')
        self.assertEqual(len(self.graphs()), 1)
        self.compile('--op_compiler_cache_mode=enable', env={**ours, 'HALFTONE_CACHE_DIR': self.cache})
        self.assertEqual(len(os.listdir(os.path.join(self.cache, 'v1', 'graph'))), 1)

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

    def test_graphs_without_kernels(self):
        """What switches the cache of kernels off leaves that of graphs, which then has no kernels."""
        graphs = os.path.join(self.dir, 'graphs')
        os.mkdir(graphs)
        kernels = os.path.join(graphs, 'v1', 'kernel')
        args = [f'--graph_compiler_cache_dir={graphs}', '--op_compiler_cache_mode=disable']
        first = self.compile(*args)
        self.assertFalse(os.path.exists(kernels))
        self.assertEqual(self.compile(*args, env={'HALFTONE_BACKEND': '/nonexistent'}), first)
        self.compile(args[0], '--op_debug_level=1', '--debug_dir=' + os.path.join(self.dir, 'debug'))
        self.assertFalse(os.path.exists(kernels))
        self.compile(args[0], '--oo_level=O1')
        self.assertTrue(os.listdir(kernels))
        # Those that are there are not taken either.
        self.fails(5, 'code generator', 'compile', '-q', self.model, *args, '--oo_level=O1', '--graph_key=other', env={'HALFTONE_BACKEND': '/nonexistent'})

    def test_debug_files_without_a_stated_cache(self):
        """Their kernels have to be compiled, not taken from the cache that is always there."""
        self.compile()
        before = self.stats()['kernel_hits']
        self.compile('--op_debug_level=1', '--debug_dir=' + os.path.join(self.dir, 'debug'))
        self.assertEqual(self.stats()['kernel_hits'], before)


class Index(Cached):
    """graph_compiler_cache_dir with graph_key."""
    NO_CODE = {'HALFTONE_BACKEND': '/nonexistent'}  # whatever is compiled fails

    def setUp(self):
        super().setUp()
        self.graphs = os.path.join(self.dir, 'graphs')
        os.mkdir(self.graphs)
        self.args = [f'--graph_compiler_cache_dir={self.graphs}', '--graph_key=net-1_A']
        self.idx = os.path.join(self.graphs, 'net-1_A.idx')

    def items(self):
        with open(self.idx) as f:
            return json.load(f)['cache_file_list']

    def write(self, items):
        with open(self.idx, 'w') as f:
            json.dump({'cache_file_list': items}, f)

    def misses(self, why, *args, **more):
        r = self.tool('compile', self.model, *self.args, '--error-on-cache-miss', *args, code=1, **more)
        self.assertRegex(r.err, why)
        return r.err

    def says(self, **more):
        """What a compilation warns of; it has the bytes that there were before."""
        out = os.path.join(self.dir, 'out.htx')
        with open(out, 'rb') as f:
            first = f.read()
        r = self.tool('compile', self.model, *self.args, '-o', out, **more)
        with open(out, 'rb') as f:
            self.assertEqual(f.read(), first)
        return r.err

    def test_hit(self):
        first = self.compile(*self.args)
        item, = self.items()
        self.assertEqual(item['graph_key'], 'net-1_A')
        self.assertEqual((item['var_desc'], item['var_desc_file_name']), ([], ''))
        self.assertRegex(item['content'], '^[0-9a-f]{64}$')
        self.assertTrue(os.path.isfile(os.path.join(self.graphs, item['cache_file_name'])))
        self.assertEqual(self.compile(*self.args, env=self.NO_CODE), first)
        self.assertEqual(self.items(), [item])
        self.assertRegex(self.tool('cache', 'why-miss', self.model, *self.args).stdout.decode(), '^hit: ')

    def test_only_what_the_index_names(self):
        first = self.compile(*self.args)
        graphs = os.path.join(self.graphs, 'v1', 'graph')
        os.rename(self.idx, self.idx + '.old')
        self.misses("graph_key is 'net-1_A', in the nearest entry")
        other = [self.args[0], '--graph_key=other']
        self.assertEqual(self.compile(*other), first)
        self.assertEqual(sum(len(names) for _, _, names in os.walk(graphs)), 1)  # of both
        self.assertEqual(self.compile(self.args[0], env=self.NO_CODE), first)  # without a key by content
        self.misses("graph_key is 'net-1_A'")
        shutil.copy(os.path.join(self.graphs, 'other.idx'), self.idx)  # of another graph_key
        self.misses("graph_key is 'net-1_A'")
        os.rename(self.idx + '.old', self.idx)
        self.assertEqual(self.compile(*self.args, env=self.NO_CODE), first)

    def test_edits_and_options_are_items_beside(self):
        first = self.compile(*self.args)
        edited = self.path('edited.hir', MODEL.replace('0.125', '4.125').encode())
        second = self.compile(*self.args, model=edited)
        self.assertNotEqual(second, first)
        third = self.compile(*self.args, '--policy', 'force_fp16')
        self.assertEqual(len({(i['content'], i['cache_file_name']) for i in self.items()}), 3)
        self.assertEqual(len({i['content'] for i in self.items()}), 2)
        self.assertEqual(self.compile(*self.args, env=self.NO_CODE), first)
        self.assertEqual(self.compile(*self.args, model=edited, env=self.NO_CODE), second)
        self.assertEqual(self.compile(*self.args, '--policy', 'force_fp16', env=self.NO_CODE), third)

    def test_what_does_not_fit_is_a_miss(self):
        first = self.compile(*self.args)
        item, = self.items()
        for wrong in ({'content': '0' * 64}, {'var_desc': ['v f32[2]']}, {'cache_file_name': 'v1/graph/00/' + '0' * 30},
                      {'cache_file_name': '../../etc/passwd'}, {'graph_key': 'net'}):
            self.write([{**item, **wrong}])
            self.misses('not in the cache')
            self.write([{**item, **wrong}, item])
            self.assertEqual(self.compile(*self.args, env=self.NO_CODE), first)

    def test_damaged(self):
        self.compile(*self.args)
        with open(self.idx, 'rb') as f:
            good = f.read()
        whole = self.items()
        for bad in (b'', b'{', good + b'x', good[:-10], b'[]', b'{"cache_file_list": {}}', b'{"cache_file_list": [7]}', good.replace(b'"content"', b'"c"'),
                    b'[' * 100000, b'\0' * 9, good.replace(b'"options"', b'"options": 1, "o"')):
            with open(self.idx, 'wb') as f:
                f.write(bad)
            self.assertRegex(self.misses('not in the cache'), r'net-1_A\.idx: warning: this index of the cache is damaged')
            self.assertEqual(self.says().count('damaged'), 1)
            self.assertEqual(self.items(), whole)
            self.assertNotIn('damaged', self.says(env=self.NO_CODE))
        os.unlink(self.idx)
        os.mkdir(self.idx)
        self.assertIn('the cache cannot write this index', self.says())

    def test_lost_entry(self):
        first = self.compile(*self.args)
        entry = os.path.join(self.graphs, self.items()[0]['cache_file_name'])
        os.unlink(entry)
        self.assertEqual(self.compile(*self.args), first)
        with open(entry, 'r+b') as f:
            f.seek(-1, os.SEEK_END)
            f.write(b'?')
        self.assertIn('this entry of the cache is damaged', self.says())
        self.assertNotIn('damaged', self.says(env=self.NO_CODE))
        self.assertEqual(len(self.items()), 1)

    def test_together(self):
        """All at the same time: none is lost."""
        models = [self.path(f'm{i}.hir', MODEL.replace('0.125', f'{i}.125').encode()) for i in range(12)]
        run = lambda i: self.tool('compile', '-q', models[i], *self.args, '-o', os.path.join(self.dir, f'{i}.htx'))
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            list(pool.map(run, range(12)))
        self.assertEqual(len({i['content'] for i in self.items()}), 12)
        self.assertEqual([n for n in os.listdir(self.graphs) if n.startswith('.tmp')], [])

    def test_variables(self):
        model = os.path.join(os.environ.get('HALFTONE_SHARED', ''), 'models/mnist/mnist_lr_model')
        if not os.path.isdir(model):
            self.skipTest('no $HALFTONE_SHARED')
        first = self.compile(*self.args, model=model)
        described = self.items()[0]['var_desc']
        self.assertTrue(described)
        for v in described:
            self.assertRegex(v, r'^\S+ [a-z]+[0-9]*(\[.*\])?$')
        self.assertEqual(self.compile(*self.args, model=model, env=self.NO_CODE), first)

    def test_conf(self):
        """cache.conf: cache_debug_mode reads and keeps nothing."""
        conf = os.path.join(self.graphs, 'cache.conf')

        def state(text):
            with open(conf, 'w') as f:
                f.write(text)
        state('{"cache_manual_check": false, "cache_debug_mode": true}')
        first = self.compile(*self.args)
        self.assertEqual(os.listdir(self.graphs), ['cache.conf'])
        state('{"cache_debug_mode": false}')
        self.assertEqual(self.compile(*self.args), first)
        self.assertEqual(len(self.items()), 1)
        state('{"cache_debug_mode": true}')
        self.assertEqual(self.compile(*self.args, env=self.NO_CODE), first)
        self.compile(*self.args, '--oo_level=O1')
        self.assertEqual(len(self.items()), 1)
        self.assertEqual(self.compile(*self.args), first)
        state('{\n"cache_manual_check": true}')
        self.assertRegex(self.says(), r'cache\.conf:2: warning: cache_manual_check has no effect')
        for text, why in (('[]', 'is an array; it has to be an object'), ('{\n\n"x": true}', r"conf:3: error: cache.conf has no member 'x'"),
                          ('{"cache_debug_mode": 1}', r'conf:1: error: cache_debug_mode is a number'), ('{', r'conf:1: error'), ('', 'error')):
            state(text)
            self.fails(3, why, 'compile', '-q', self.model, *self.args)
        os.unlink(conf)
        os.mkdir(conf)
        self.fails(5, 'cache.conf: error: cannot read', 'compile', '-q', self.model, *self.args)

    def test_a_model_without_an_index(self):
        om = os.path.join(self.graphs, 'net-1_A.om')
        with open(om, 'wb') as f:
            f.write(b'IMOD')
        first = self.tool('compile', self.model, *self.args)
        self.assertRegex(first.err, r'net-1_A\.om: warning: this model is not read: graphs are found by net-1_A\.idx')
        self.assertNotIn('not read', self.tool('compile', self.model, *self.args).err)

    def test_legal_keys(self):
        for key in ('a b', 'a/b', '..', 'ä', 'a' * 129):
            self.fails(2, 'graph_key: .* is not 1 to 128 of', 'compile', '-q', self.model, self.args[0], f'--graph_key={key}')
        run = self.path('run.json', json.dumps({'graph_run_mode': 0, 'graph_key': 'a.b',
                                                'experimental_config': {'graph_compiler_cache_dir': self.graphs}}, indent=0).encode())
        self.fails(3, r"run\.json:3: graph_key: 'a\.b' is not", 'compile', '-q', self.model, '--config', run)
        self.compile(self.args[0], '--graph_key=' + 'a' * 128)
        self.assertTrue(os.path.exists(os.path.join(self.graphs, 'a' * 128 + '.idx')))
        self.fails(2, 'graph_key has no effect without', 'compile', '-q', self.model, '--graph_key=a')


if __name__ == '__main__':
    unittest.main()
