#!/usr/bin/env python3
"""The peers of bench/: they get the right model, and IREE and TVM are called with the right options."""
import argparse
import json
import os
import stat
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../../bench']
import environment

if __name__ == '__main__':
    environment.enter_venv()
import numpy as np
import peer_compilers
import peers_frozen
import tensorflow as tf


def program(path, text):
    """A script in place of a compiler."""
    with open(path, 'w') as f:
        f.write(f'#!{sys.executable}\nimport json, sys\n{text}\n')
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


def model_with_functions():
    """Erfc in float32, in a function that is called twice."""
    @tf.function(autograph=False)
    def gelu(x):
        return .5 * x * tf.raw_ops.Erfc(x=-.70710678 * x)

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2, 9], 'x')
        tf.identity(gelu(gelu(x) + 1.), 'y')
    return graph.as_graph_def()


def compute(graph_def, x):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(graph_def, name='')
        return session.run('y:0', {'x:0': x})


class Plain(unittest.TestCase):
    def test_same_results_without_functions_and_erfc(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(peers_frozen, 'FOLDER', f'{folder}/peers'), \
                mock.patch.object(environment, 'MODELS', folder):
            os.makedirs(f'{folder}/frozen')
            os.makedirs(f'{folder}/peers')
            before, after = model_with_functions(), tf.compat.v1.GraphDef()
            with open(peers_frozen.source('convnext'), 'wb') as f:
                f.write(before.SerializeToString())
            for stale in 'convnext.onnx', 'convnext.onnx.failed', 'convnext-1.vmfb', 'convnext-16.so.failed':
                open(f'{folder}/peers/{stale}', 'w').close()
            peers_frozen.write_plain('convnext')
            self.assertEqual(os.listdir(f'{folder}/peers'), ['convnext.pb'], 'what was made of another graph')
            with open(peers_frozen.graph('convnext'), 'rb') as f:
                after.ParseFromString(f.read())
        self.assertTrue(before.library.function)
        self.assertFalse(after.library.function)
        ops = [n.op for n in after.node]
        self.assertEqual((ops.count('Erf'), ops.count('Erfc')), (2, 0), ops)
        x = np.linspace(-6, 6, 18, dtype=np.float32).reshape(2, 9)
        np.testing.assert_allclose(compute(after, x), compute(before, x), atol=2e-6)

    def test_other_models_are_read_as_they_are(self):
        self.assertEqual(peers_frozen.graph('bert'), peers_frozen.source('bert'))


class CompiledOnce(unittest.TestCase):
    """Calls compile_for with a program in place of the compiler that writes its arguments."""

    def compile(self, folder, batch=1):
        open(f'{folder}/m.onnx', 'w').close()
        with mock.patch.object(peers_frozen, 'python_of', lambda _: f'{folder}/python'):
            return peers_frozen.compile_for('iree', {'onnx': f'{folder}/m.onnx', 'batch': batch, 'folder': folder})

    def test_command(self):
        with tempfile.TemporaryDirectory() as folder:
            program(f'{folder}/python', 'json.dump(sys.argv[1:], open(sys.argv[-1], "w"))')
            path = self.compile(folder, 4)
            self.assertEqual(path, f'{folder}/m-4.vmfb')
            with open(path) as f:
                script, engine, request, out = json.load(f)
            self.assertTrue(os.path.samefile(script, peer_compilers.__file__))
            self.assertEqual((engine, out, json.loads(request)['batch']), ('iree', path, 4))
            program(f'{folder}/python', 'sys.exit("compiled again")')
            self.assertEqual(self.compile(folder, 4), path)

    def test_why_it_failed_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            program(f'{folder}/python', 'sys.exit("error: several\\nTypeError: no such op\\nWarning: not ended")')
            with self.assertRaisesRegex(RuntimeError, '^TypeError: no such op$'):
                self.compile(folder)
            program(f'{folder}/python', 'sys.exit("compiled again")')
            with self.assertRaisesRegex(RuntimeError, '^TypeError: no such op$'):
                self.compile(folder)

    def test_without_the_onnx_form(self):
        with tempfile.TemporaryDirectory() as folder:
            q = {'onnx': f'{folder}/m.onnx', 'batch': 1, 'folder': folder}
            with self.assertRaisesRegex(RuntimeError, 'there is no .*m.onnx'):
                peers_frozen.compile_for('iree', q)
            self.assertEqual(os.listdir(folder), [], 'what may be there next time is not kept as a failure')


class CommandLines(unittest.TestCase):
    def setUp(self):
        self.dims = [types.SimpleNamespace(dim_param='N', dim_value=0), types.SimpleNamespace(dim_param='', dim_value=8)]
        shape = types.SimpleNamespace(dim=self.dims)
        value = types.SimpleNamespace(name='x', type=types.SimpleNamespace(tensor_type=types.SimpleNamespace(shape=shape)))
        self.model = types.SimpleNamespace(graph=types.SimpleNamespace(input=[value], output=[], value_info=[1]))
        self.onnx = types.SimpleNamespace(load=lambda path: self.model,
                                          save=lambda model, path: open(path, 'w').close())

    def iree(self, folder, said='', code=0):
        """The commands that compile_iree runs."""
        log = f'{folder}/log'
        for name in 'iree-import-onnx', 'iree-compile':
            program(f'{folder}/{name}', f'open({log!r}, "a").write(json.dumps(sys.argv) + "\\n")\n'
                                        f'sys.stderr.write({said!r}); sys.exit({code})')
        with mock.patch.dict(sys.modules, {'onnx': self.onnx}), \
                mock.patch.object(sys, 'executable', f'{folder}/python'):
            peer_compilers.compile_iree({'onnx': 'm.onnx', 'batch': 3, 'folder': folder}, f'{folder}/m.vmfb')
        with open(log) as f:
            return [json.loads(line) for line in f]

    def test_batch_is_fixed(self):
        with mock.patch.dict(sys.modules, {'onnx': self.onnx}):
            peer_compilers.fixed({'onnx': 'm.onnx', 'batch': 3})
        self.assertEqual([d.dim_value for d in self.dims], [3, 8])
        self.assertFalse(self.model.graph.value_info)

    def test_iree(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = self.iree(folder)
            self.assertEqual(first[1:], [f'{folder}/m.onnx', '-o', f'{folder}/m.mlir'])
            self.assertEqual(second[1], f'{folder}/m.mlir')
            self.assertEqual(second[-2:], ['-o', f'{folder}/m.vmfb'])
            # With a generic processor, or without optimisation, IREE would not run at its best.
            for option in ('--iree-llvmcpu-target-cpu=host', '--iree-opt-level=O3', '--iree-hal-target-backends=llvm-cpu'):
                self.assertIn(option, second)

    def test_iree_fails(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(SystemExit) as e:
            self.iree(folder, 'note: here\nm.mlir:4: error: no such op\n', 1)
        self.assertEqual(e.exception.code, 'm.mlir:4: error: no such op')

    def test_tvm(self):
        asked = {}
        module = argparse.Namespace(export_library=lambda path: asked.update(path=path))
        relax = types.ModuleType('tvm.relax')
        relax.build = lambda m, target: asked.update(model=m, target=target) or module
        frontend = types.ModuleType('tvm.relax.frontend.onnx')
        frontend.from_onnx = lambda m, shape_dict, keep_params_in_input: (m, shape_dict, keep_params_in_input)
        tvm = types.ModuleType('tvm')
        tvm.relax = relax
        tvm.target = types.SimpleNamespace(Target=lambda d: d, codegen=types.SimpleNamespace(
            llvm_get_system_cpu=lambda: 'znver4'))
        with mock.patch.dict(sys.modules, {'onnx': self.onnx, 'tvm': tvm, 'tvm.relax': relax,
                                           'tvm.relax.frontend': types.ModuleType('tvm.relax.frontend'),
                                           'tvm.relax.frontend.onnx': frontend}):
            peer_compilers.compile_tvm({'onnx': 'm.onnx', 'batch': 3, 'folder': ''}, 'm.so')
        self.assertEqual(asked, {'path': 'm.so', 'target': {'kind': 'llvm', 'mcpu': 'znver4'},
                                 'model': (self.model, {'x': [3, 8]}, False)})


if __name__ == '__main__':
    unittest.main()
