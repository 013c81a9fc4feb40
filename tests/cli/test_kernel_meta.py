#!/usr/bin/env python3
"""The files of kernels that op_debug_level and op_debug_config leave in kernel_meta."""
import json, os, re, shutil, subprocess, unittest

from test_announce import MODEL
from tool import ToolCase

TYPES = {1: {'.o', '.json', '.tile', '_loc.json'}, 3: {'.o', '.json'}, 4: {'.o', '.json', '.tile', '_compute.json'}}
TYPES[2] = TYPES[1]


class KernelMeta(ToolCase):
    def setUp(self):
        super().setUp()
        self.model = self.path('m.hir', MODEL.encode())
        self.at = os.path.join(self.dir, 'debug')
        self.run_args = ['run', self.model, '-o', os.path.join(self.dir, 'y.npz'), '--debug_dir', self.at]

    def left(self, *args):
        """{kernel: {ending: content}}"""
        shutil.rmtree(self.at, ignore_errors=True)
        self.tool(*self.run_args, *args)
        found = {}
        for n in os.listdir(os.path.join(self.at, 'kernel_meta')):
            kernel, ending = re.fullmatch(r'(\w+_[0-9a-f]{16})((?:_loc|_compute)?\.\w+)', n).groups()
            with open(os.path.join(self.at, 'kernel_meta', n), 'rb') as f:
                found.setdefault(kernel, {})[ending] = f.read()
        return found

    def config(self, text):
        return '--op_debug_config=' + self.path('debug.cfg', text.encode())

    def test_levels(self):
        plain = self.tool('run', self.model, '-o', os.path.join(self.dir, 'plain.npz')) and self.outputs(os.path.join(self.dir, 'plain.npz'))
        texts = self.tool('compile', self.model, '--emit', 'kernels', '-o', '-', '--target=host').stdout.decode()
        code = {}
        for level, types in TYPES.items():
            found = self.left(f'--op_debug_level={level}')
            self.assertEqual(len(found), 3)
            self.assertEqual(self.outputs(os.path.join(self.dir, 'y.npz')), plain)  # without optimisation, too
            for kernel, files in found.items():
                self.assertEqual(set(files), types, level)
                about = json.loads(files['.json'])
                self.assertEqual((about['schema'], about['kernel'], about['op']), ('halftone.kernel/1', kernel, kernel.split('_')[0]))
                self.assertEqual(about['optimized'], level != 2)
                self.assertGreater(about['code_bytes'], 0)
                self.assertEqual([b['kind'] for b in about['buffers'] if b['kind'] != 'local'].count('out'), 1)
                code.setdefault(tuple(about['nodes']), {})[level] = about['code_bytes']
                self.assertEqual(files['.o'][:4], b'\x7fELF')
                self.assertIn(kernel.encode(), files['.o'])
                self.assertEqual(b'.debug_line' in files['.o'], level <= 2)
                if '.tile' in types:
                    self.assertIn(files['.tile'].decode(), texts)
                if '_loc.json' in types:
                    at = json.loads(files['_loc.json'])
                    self.assertEqual(at['source'], kernel + '.tile')
                    lines = files['.tile'].decode().count('\n')
                    self.assertTrue(all(0 <= l['line'] <= lines and l['code'] <= about['code_bytes'] for l in at['locations']))
                    self.assertGreater(len({l['line'] for l in at['locations']}), 3)
                if '_compute.json' in types:
                    stages = json.loads(files['_compute.json'])['stages']
                    self.assertEqual(len(stages), len(re.findall(r'^  (?:start )?(?:loop|contract) \{', files['.tile'].decode(), re.M)))
        self.assertEqual(set(code), {('net/dense/a',), ('net/last/c', 'net/last/d'), ('net/last/y',)})
        for sizes in code.values():
            self.assertEqual(sizes[1], sizes[3])
            self.assertGreater(sizes[2], sizes[1])
        shutil.rmtree(self.at)
        self.tool(*self.run_args, '--op_debug_level=0')
        self.assertFalse(os.path.exists(self.at))

    def test_config(self):
        found = self.left(self.config('# a comment\n\nop_debug_config = dump_cce\n'))
        self.assertEqual([set(f) for f in found.values()], [{'.o', '.json', '.tile'}] * 3)
        # Lists by the vendor's type and by node; only listed kernels are compiled without
        # optimisation.
        found = self.left(self.config('op_debug_config=dump_loc,ccec_O0\nop_debug_list=net/dense/a,OpType::SoftmaxV2\n'), '--profile=ascend910')
        self.assertEqual(sorted(k.split('_')[0] for k in found), ['MatMul', 'Softmax'])
        for files in found.values():
            self.assertEqual(set(files), {'.o', '.json', '.tile', '_loc.json'})
            self.assertFalse(json.loads(files['.json'])['optimized'])
        shutil.rmtree(self.at)
        self.tool(*self.run_args, self.config('op_debug_config=ccec_O0\n'))
        self.assertFalse(os.path.exists(self.at))
        said = self.tool(*self.run_args, self.config('op_debug_config=oom,check_flag\n')).err
        self.assertIn('--guard', said)
        self.assertIn('check_flag has no effect', said)

    def test_default_folder(self):
        from tool import TOOL
        subprocess.run([TOOL, 'compile', self.model, '-o', 'm.htx', '-q', '--op_debug_level=3'], cwd=self.dir, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.assertEqual(len(os.listdir(os.path.join(self.dir, 'kernel_meta'))), 6)

    def test_refusals(self):
        for text, why in (('dump_cce\n', r':1: error: .* without .=.'), ('\nop_debug_config=\n', r':2: error: .*without a value'),
                          ('op_debug_config=dump_all\n', "'dump_all' is none of oom"), ('op_debug=dump_cce\n', 'neither op_debug_config nor'),
                          ('op_debug_config=dump_cce,\n', 'nothing between two commas'), ('op_debug_config=,oom\n', 'nothing between two commas'),
                          ('op_debug_config=dump_cce\nop_debug_list=OpType::\n', 'without a type')):
            self.fails(3, why, 'run', self.model, self.config(text))
        self.fails(2, 'cannot be given at the same time', *self.run_args, '--op_debug_level=2', self.config('op_debug_config=oom\n'))
        self.fails(5, 'cannot make this folder', 'run', self.model, '--op_debug_level=1', '--debug_dir', self.path('nowhere') + '/a/b')
        self.fails(5, 'cannot make this folder', 'run', self.model, '--op_debug_level=1', '--debug_dir', self.path('file', b'x'))


if __name__ == '__main__':
    unittest.main()
