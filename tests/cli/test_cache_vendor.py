#!/usr/bin/env python3
"""The vendor's options of its caches: op_compiler_cache_mode and _dir, op_cache.ini, graph_compiler_cache_dir."""
import os, unittest

from cached import MODEL, Cached


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
        self.fails(2, 'none of', 'compile', '-q', self.model, '--op_compiler_cache_mode=on')
        self.fails(2, 'a letter other', 'compile', '-q', self.model, '--op_compiler_cache_dir=/tmp/a b')

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


if __name__ == '__main__':
    unittest.main()
