#!/usr/bin/env python3
"""Assert and CheckNumerics against TensorFlow: nodes that pass give their results, nodes that fail stop the run with
their name and TensorFlow's message; in functions, behind control edges, from artefacts and caches."""
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../cli', f'{HERE}/../tools']
import environment

if __name__ == '__main__':
    environment.enter_venv()

import numpy as np
import tensorflow as tf

from tool import TOOL, ToolCase

RAW = tf.raw_ops
TF1 = tf.compat.v1
FAILED = re.compile(r'assertion failed: (.*?)(?:\n|\s+\[Op:|\s+\[\[\{\{|$)', re.S)


class Checks(ToolCase):
    def graph(self, build, shape=(2, 3), dtype=tf.float32):
        graph = tf.Graph()
        with graph.as_default():
            tf.identity(build(TF1.placeholder(dtype, shape, 'x')), name='out')
        return graph

    def save(self, graph, name='g.pb'):
        return self.path(name, graph.as_graph_def().SerializeToString())

    def tensorflow(self, graph, x):
        """The result, or the message of its error."""
        with TF1.Session(graph=graph) as s:
            try:
                return s.run('out:0', {'x:0': x})
            except tf.errors.InvalidArgumentError as e:
                return e.message

    def ours(self, path, x, *options):
        """The result of Halftone, or the message of its error."""
        np.save(self.path('x.npy'), x)
        out = self.path('out.npz')
        args = ['run', '-q', '--input', 'x=@' + self.path('x.npy'), '-o', out, *options, path]
        if not path.endswith('.htx'):
            args[1:1] = ['--outputs', 'out']
        if os.path.exists(out):
            os.unlink(out)
        r = subprocess.run([TOOL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env={**os.environ, 'HALFTONE_POLICY': ''})
        if r.returncode:
            self.assertEqual((r.returncode, r.stdout), (3, b''), r.stderr)
            self.assertFalse(os.path.exists(out))
            return r.stderr.decode()
        with np.load(out) as z:
            return z['out']

    def ways(self, path):
        """Runs the program from memory, from an artefact, and twice with a cache, the second time from its entries."""
        artefact, cache = self.path('a.htx'), self.path('cache')
        self.tool('compile', path, '--outputs', 'out', '-o', artefact)
        for threads in '1', '2':
            yield path, '--threads', threads
            yield artefact, '--threads', threads
            yield path, '--threads', threads, '--cache-dir', cache

    def same(self, graph, good, bad, node):
        path = self.save(graph)
        want = self.tensorflow(graph, good)
        message = self.tensorflow(graph, bad)
        self.assertIsInstance(message, str)
        words = FAILED.search(message).group(1).strip()
        for way, *options in self.ways(path):
            np.testing.assert_allclose(self.ours(way, good, *options), want, rtol=1e-6)
            got = self.ours(way, bad, *options)
            self.assertIn(f"node '{node}': assertion failed: {words}\n", got)
        return words


GOOD = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
BAD = GOOD - 3


class Assertions(Checks):
    def test_message_and_values(self):
        """x passes unchanged if nothing fails."""
        def build(x):
            a = RAW.Assert(condition=tf.reduce_all(x >= 0), name='scope/check', data=[
                'x >= 0', x, tf.shape(x), tf.reduce_sum(x) / 3, x < 0, tf.cast(x, tf.int8), 'end "1"\n'])
            with tf.control_dependencies([a]):
                return x * 2
        words = self.same(self.graph(build), GOOD, BAD, 'scope/check')
        self.assertIn('[[-2 -1 0]...]', words)

    def test_summarize(self):
        r = np.random.default_rng(14)
        for shape in (), (7,), (2, 3), (2, 2, 3), (1, 1), (3, 1, 2):
            for summarize in -1, 1, 2, 3, 4, 5, 100:
                def build(x):
                    a = RAW.Assert(condition=tf.reduce_all(x >= 0), data=[x, ['a', 'b', 'c', 'd']],
                                   summarize=summarize, name='check')
                    with tf.control_dependencies([a]):
                        return tf.identity(x)
                graph = self.graph(build, shape)
                bad = -1 - np.asarray(r.random(shape), np.float32) * 10.0 ** r.integers(-20, 20)
                bad = np.asarray(bad, np.float32)
                words = FAILED.search(self.tensorflow(graph, bad)).group(1).strip()
                self.assertIn(f'assertion failed: {words}\n', self.ours(self.save(graph), bad), (shape, summarize))

    def test_types(self):
        for tag in 'float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool'.split():
            def build(x):
                d = tf.cast(x, tag)
                a = RAW.Assert(condition=tf.reduce_all(x > 0), data=[d, tf.reshape(d, (-1,))], summarize=9,
                               name='check')
                with tf.control_dependencies([a]):
                    return tf.identity(x)
            graph = self.graph(build)
            bad = np.array([[0, 1.1, 2.7], [100.3, 77, 3]], np.float32)
            words = FAILED.search(self.tensorflow(graph, bad)).group(1).strip()
            self.assertIn(f'assertion failed: {words}\n', self.ours(self.save(graph), bad), tag)

    def test_behind_nothing_but_control_edges(self):
        """A chain of NoOps; a check on which no output depends does not run."""
        def build(x):
            a = RAW.Assert(condition=tf.reduce_all(x >= 0), data=['asked'], name='asked')
            RAW.Assert(condition=tf.reduce_all(x >= 100), data=['idle'], name='idle')
            with tf.control_dependencies([tf.group(a)]):
                first = tf.no_op()
            with tf.control_dependencies([first]):
                c = tf.constant(2.0)
            return x * c
        self.same(self.graph(build), GOOD, BAD, 'asked')

    def test_loops(self):
        """In each step of a loop, also in a branch of it.  TensorFlow puts a branch around the check, of which nothing but a constant may be left to wait."""
        def checked(h):
            with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(h < 30), [h])]):
                return h * 2

        def build(x):
            return tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, checked(h)), (0, x))[1]

        def in_branch(x):
            return tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.cond(i > 1, lambda: checked(h), lambda: h * 2)), (0, x))[1]
        self.addCleanup(TF1.enable_control_flow_v2 if TF1.control_flow_v2_enabled() else TF1.disable_control_flow_v2)
        for kind in TF1.disable_control_flow_v2, TF1.enable_control_flow_v2:
            kind()
            for make in build, in_branch:
                graph = self.graph(make)
                path = self.save(graph)
                self.assertIn('assertion failed: [[8 16 24]', self.tensorflow(graph, 2 * GOOD))
                np.testing.assert_allclose(self.ours(path, GOOD), self.tensorflow(graph, GOOD))
                self.assertRegex(self.ours(path, 2 * GOOD), r"Assert': assertion failed: \[\[8 16 24\].*, in iteration 3 of 'while'")

    def test_constant_conditions(self):
        def build(condition):
            def with_condition(x):
                a = RAW.Assert(condition=condition, data=['never', [1, 2]], name='check')
                with tf.control_dependencies([a]):
                    return tf.identity(x)
            return with_condition
        np.testing.assert_array_equal(self.ours(self.save(self.graph(build(True))), GOOD), GOOD)
        for way, *options in self.ways(self.save(self.graph(build(False)))):
            self.assertIn("node 'check': assertion failed: [never] [1 2]\n", self.ours(way, GOOD, *options))

    def test_functions(self):
        """Inlined functions: messages have the names of the calls."""
        @tf.function(input_signature=[tf.TensorSpec((2, 3))])
        def inner(x):
            tf.debugging.Assert(tf.reduce_all(x >= 0), ['in a function', tf.shape(x)])
            return x + 1

        def build(x):
            return inner(inner(x) * 2)
        graph = self.graph(build)
        path = self.save(graph)
        want, message = self.tensorflow(graph, GOOD), self.tensorflow(graph, BAD)
        self.assertIn('assertion failed: [in a function] [2 3]', message)
        for way, *options in self.ways(path):
            np.testing.assert_allclose(self.ours(way, GOOD, *options), want)
            self.assertRegex(self.ours(way, BAD, *options),
                             r"node '[^']*Assert[^']*': assertion failed: \[in a function\] \[2 3\]\n")

    def test_refused(self):
        def condition(x):
            a = RAW.Assert(condition=x >= 0, data=['many'], name='check')
            with tf.control_dependencies([a]):
                return tf.identity(x)

        def text(x):
            a = RAW.Assert(condition=tf.reduce_all(x >= 0), data=[tf.strings.as_string(x)], name='check')
            with tf.control_dependencies([a]):
                return tf.identity(x)
        for build, why in (condition, "'check' .*not one truth value"), (text, 'AsString'):
            self.fails(4, why, 'run', '--outputs', 'out', '--input', 'x=f32[2,3]:1', self.save(self.graph(build)))

    def test_ahead_of_time(self):
        def build(x):
            a = RAW.Assert(condition=tf.reduce_all(x >= 0), data=['x', x * 1.5], name='scope/check')
            with tf.control_dependencies([a]):
                return tf.identity(x)
        net = self.path('net')
        self.tool('aot', '-q', '--outputs', 'out', self.save(self.graph(build)), '--name', 'm', '-o', net)
        subprocess.run(['gcc', '-D_GNU_SOURCE', f'-I{net}', f'{net}/m_main.c', f'{net}/m.o', '-o', f'{net}/main'], check=True)
        for x, code, said in (1, 0, b''), (-1, 4, b"m: node 'scope/check': assertion failed: [x] [[-1.5 -1.5 -1.5]...]\n"):
            data = np.full((2, 3), x, 'f4').tobytes()
            r = subprocess.run([f'{net}/main', self.path('x.raw', data)], capture_output=True)
            self.assertEqual((r.returncode, r.stdout, r.stderr), (code, b'' if code else data, said))


class Numerics(Checks):
    def check(self, build, bad, node, words, shape=(2, 3), *options):
        graph = self.graph(build, shape)
        path = self.save(graph)
        good = np.minimum(np.abs(np.nan_to_num(bad)), 3) + 1
        want = self.tensorflow(graph, good)
        self.assertIsInstance(self.tensorflow(graph, bad), str)
        for way, *more in self.ways(path):
            np.testing.assert_allclose(self.ours(way, good, *more), want, rtol=1e-5, atol=1e-6)
            self.assertIn(f"node '{node}': the tensor has {words}\n", self.ours(way, bad, *more))

    def test_kinds(self):
        for op in RAW.CheckNumerics, RAW.CheckNumericsV2:
            for value, what in (np.nan, 'NaN'), (np.inf, '+Inf'), (-np.inf, '-Inf'):
                for at in 0, 36, 76:
                    bad = np.ones((7, 11), np.float32)
                    bad.flat[at] = value
                    self.check(lambda x: op(tensor=x, message='odd: "%s"', name='cn'), bad, 'cn',
                               f'{what}: odd: "%s"', (7, 11))

    def test_types(self):
        for tag, limit in ('float16', 1e5), ('bfloat16', 3.4e38), ('float64', np.inf):
            def build(x):
                y = RAW.CheckNumerics(tensor=tf.cast(x, tag) * 2, message='m', name='cn')
                return tf.cast(y, tf.float32)
            bad = np.ones((2, 3), np.float32)
            bad[1, 1] = limit
            self.check(build, bad, 'cn', '+Inf: m')

    def test_all_elements_are_looked_at(self):
        """Elements that nothing else reads are checked, too; the padding of an operand is not."""
        bad = np.ones((4, 4), np.float32)
        bad[3, 3] = 0

        def sliced(x):
            return RAW.CheckNumerics(tensor=tf.math.log(x), message='log', name='cn')[:2, :2]
        self.check(sliced, bad, 'cn', '-Inf: log', (4, 4))

        def padded(x):
            return tf.pad(RAW.CheckNumerics(tensor=1 / x, message='1/x', name='cn'), [[1, 2], [3, 1]])
        self.check(padded, bad, 'cn', '+Inf: 1/x', (4, 4))

        def unused(x):
            with tf.control_dependencies([RAW.CheckNumerics(tensor=1 / x, message='1/x', name='cn')]):
                return tf.identity(x)
        self.check(unused, bad, 'cn', '+Inf: 1/x', (4, 4))

    def test_behind_products(self):
        """Checks in the kernel of a product, a reduction, a Softmax, a convolution, and a block."""
        r = np.random.default_rng(3)
        w = r.standard_normal((16, 24)).astype(np.float32)
        bad = r.random((5, 16)).astype(np.float32)
        bad[4, 15] = np.inf
        for make in (lambda x: tf.nn.relu(tf.matmul(x, np.abs(w)) + 1),
                     lambda x: tf.reduce_sum(x, axis=1), lambda x: tf.reduce_max(x, axis=0)):
            def build(x):
                return RAW.CheckNumerics(tensor=make(x), message='p', name='cn') * 2
            self.check(build, bad, 'cn', '+Inf: p', (5, 16))
        image = np.ones((1, 9, 9, 4), np.float32)
        image[0, 8, 8, 3] = np.inf

        def block(x):
            y = tf.nn.relu6(tf.nn.conv2d(x, np.full((1, 1, 4, 8), 0.1, np.float32), 1, 'SAME'))
            y = RAW.CheckNumerics(tensor=tf.nn.depthwise_conv2d(
                y + x[..., :1], np.full((3, 3, 8, 1), 0.1, np.float32), [1, 1, 1, 1], 'SAME'), message='b', name='cn')
            return tf.nn.conv2d(y, np.full((1, 1, 8, 4), 0.1, np.float32), 1, 'SAME')
        image[0, 8, 8, 0] = np.inf
        self.check(block, image, 'cn', '+Inf: b', (1, 9, 9, 4))

    def test_policies(self):
        """A product that exceeds float16 is infinite under a policy that computes it in float16."""
        def build(x):
            y = RAW.CheckNumerics(tensor=tf.matmul(x, np.full((16, 8), 100, np.float32)), message='p', name='cn')
            return tf.matmul(y, np.full((8, 4), 1e-3, np.float32))
        path = self.save(self.graph(build, (2, 16)))
        x = np.full((2, 16), 100, np.float32)
        for policy, fails in ('must_keep_origin_dtype', False), ('force_fp16', True):
            got = self.ours(path, x, '--policy', policy)
            self.assertEqual(isinstance(got, str) and "'cn': the tensor has +Inf: p" in got, fails, got)


if __name__ == '__main__':
    unittest.main()
