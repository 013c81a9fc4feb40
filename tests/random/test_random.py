#!/usr/bin/env python3
"""Random ops over several runs, contexts and threads: ops with seeds against a session of TensorFlow, ops without by
statistics; and a seed repeats the numbers of the latter, through the model, an artefact and the compile cache.

The bounds are six standard deviations or more, and all seeds are fixed, so a failure is a defect.
"""
import json
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

import ml_dtypes
import numpy as np
import tensorflow as tf

from tool import ToolCase

DRAW = f'{environment.BUILD}/tests/random_draw'
SEED = 20261123
RAW = tf.raw_ops


class Random(ToolCase):
    def graph(self, build, name='g.pb'):
        """Writes a graph whose outputs build() returns by name; returns its path and the graph."""
        graph = tf.Graph()
        with graph.as_default():
            outputs = {n: tf.identity(t, name=n) for n, t in build().items()}
        return self.path(name, graph.as_graph_def().SerializeToString()), graph, outputs

    def hir(self, text, name='g.hir'):
        return self.path(name, text.encode())

    def draw(self, path, outputs, contexts=1, threads=1, guard=0, runs=1, seeds='-', options=(), failed=''):
        """[context][run] → the outputs by name, for a model without other outputs."""
        r = subprocess.run([DRAW, path, *map(str, (contexts, threads, guard, runs)), seeds, *options],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((r.returncode, r.stderr.decode()), (0, failed))
        at, result = 0, []
        for _ in range(contexts):
            result.append([])
            for _ in range(runs * (seeds.count(',') + 1)):
                one = {}
                for n, t in outputs.items():
                    d, shape = np.dtype(t.dtype.as_numpy_dtype), t.shape.as_list()
                    one[n] = np.frombuffer(r.stdout, d, int(np.prod(shape)), at).reshape(shape)
                    at += one[n].nbytes
                result[-1].append(one)
        self.assertEqual(at, len(r.stdout))
        return result

    def artefact(self, path, outputs):
        """The same graph as an artefact, for which the order of the outputs is stated."""
        self.tool('compile', path, '--outputs', ','.join(outputs), '-o', self.path('a.htx'))
        return self.path('a.htx')

    def same(self, a, b):
        self.assertEqual(list(a), list(b))
        for n in a:
            self.assertEqual(a[n].tobytes(), b[n].tobytes(), n)


# ---- with seeds ----

def seeded(r):
    """Ops of every kind, some with the same seeds."""
    result = {}
    seeds = [(int(r.integers(1, 99)), int(r.integers(-99, 99))) for _ in range(4)] + [
        (int(r.integers(2**62)), -int(r.integers(2**62)))]
    for i in range(14):
        seed, seed2 = seeds[int(r.integers(len(seeds)))]
        shape = r.integers(1, 60, int(r.integers(0, 4)), dtype=np.int32)
        op = [RAW.RandomUniform, RAW.RandomStandardNormal, RAW.TruncatedNormal, RAW.RandomUniformInt][i % 4]
        if i % 4 == 3:
            d = [np.int32, np.int64][int(r.integers(2))]
            low = int(r.integers(-99, 99))
            result[f'y{i}'] = op(shape=shape, minval=np.array(low, d), seed=seed, seed2=seed2,
                                 maxval=np.array(low + int(r.integers(1, 999)), d))
        else:
            d = [tf.float32, tf.float16, tf.bfloat16, tf.float64][int(r.integers(4))]
            result[f'y{i}'] = op(shape=shape, dtype=d, seed=seed, seed2=seed2)
    return result


class Seeded(Random):
    def test_three_runs_of_a_session(self):
        for seed in range(3):
            path, graph, outputs = self.graph(lambda: seeded(np.random.default_rng([SEED, seed])))
            artefact = self.artefact(path, outputs)
            with tf.compat.v1.Session(graph=graph) as session:
                want = [session.run(outputs) for _ in range(3)]
            for more in ({}, {'threads': 3}, {'guard': 1}, {'guard': 2}):
                got = self.draw(artefact, outputs, contexts=2, runs=3, **more)
                for context in got:
                    for a, b in zip(context, want):
                        self.same(a, b)

    def test_setting_a_seed_begins_again(self):
        path, graph, outputs = self.graph(lambda: seeded(np.random.default_rng(SEED)))
        got = self.draw(self.artefact(path, outputs), outputs, runs=2, seeds='-,7')[0]
        self.same(got[0], got[2])
        self.same(got[1], got[3])

    def test_a_run_that_fails_moves_on(self):
        """After a failure, each op that had drawn before it continues its stream."""
        path, graph, outputs = self.graph(lambda: {
            'a': RAW.RandomUniform(shape=[100], dtype=tf.float32, seed=1),
            # a minval of 1 in 2 of the runs is an error
            'b': RAW.RandomUniformInt(shape=[3], maxval=1, seed=3,
                                      minval=RAW.RandomUniformInt(shape=np.zeros(0, np.int32), minval=0, maxval=2, seed=5))})
        with tf.compat.v1.Session(graph=graph) as session:
            want = [session.run(outputs['a']) for _ in range(6)]
        artefact = self.artefact(path, outputs)
        r = subprocess.run([DRAW, artefact, '1', '2', '0', '6', '-'], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        failed = int(re.search(r'(\d+) runs failed', r.stderr.decode()).group(1))
        self.assertTrue(0 < failed < 6)
        whole = np.frombuffer(r.stdout, np.uint8).reshape(6, -1)
        for got, a in zip(whole, want):
            if got[:400].any():
                self.assertEqual(got[:400].tobytes(), a.tobytes())


    def test_loops_and_branches(self):
        for functional in (True, False):
            with self.subTest(functional=functional):
                self.draws_as_taken(functional)

    def draws_as_taken(self, functional):
        """Each iteration draws other numbers, and the branch that is not taken draws none."""
        if not functional:  # Switch, Merge and frames
            tf.compat.v1.disable_control_flow_v2()
            self.addCleanup(tf.compat.v1.enable_control_flow_v2)
        def build():
            def body(i, x):
                x += RAW.RandomStandardNormal(shape=[6], dtype=tf.float32, seed=3, seed2=4)
                return i + 1, tf.cond(x[0] > 0, lambda: x - RAW.RandomUniform(shape=[6], dtype=tf.float32, seed=5),
                                      lambda: x + RAW.RandomUniform(shape=[6], dtype=tf.float32, seed=6))
            return {'y': tf.while_loop(lambda i, x: i < 7, body, (0, tf.zeros([6])), parallel_iterations=1)[1]}
        path, graph, outputs = self.graph(build)
        kinds = {n.type for n in graph.get_operations()}
        self.assertTrue(kinds & ({'While', 'StatelessWhile'} if functional else {'Switch'}))
        with tf.compat.v1.Session(graph=graph) as session:
            want = [session.run(outputs) for _ in range(4)]
        for more in ({}, {'threads': 2}, {'guard': 1}):
            for a, b in zip(self.draw(self.artefact(path, outputs), outputs, runs=4, **more)[0], want):
                np.testing.assert_allclose(a['y'], b['y'], rtol=1e-6, atol=1e-6)

    def test_loops_without_seeds(self):
        """Two loops with one body have separate streams."""
        def build():
            def loop():
                return tf.while_loop(lambda i, x: i < 50, lambda i, x: (
                    i + 1, tf.concat([x[1:], RAW.RandomUniform(shape=[1], dtype=tf.float64)], 0)),
                                     (0, tf.zeros([50], tf.float64)))[1]
            return {'a': loop(), 'b': loop()}
        path, graph, outputs = self.graph(build)
        drawn, = self.draw(self.artefact(path, outputs), outputs, runs=2)
        numbers = np.concatenate([run[n] for run in drawn for n in outputs])
        self.assertEqual(len(set(numbers.tolist())), 200)


# ---- without seeds ----

OPS, RUNS, CONTEXTS, LENGTH = 6, 4, 3, 8192


def unseeded():
    return {f'u{i}': RAW.RandomUniform(shape=[LENGTH], dtype=tf.float32) for i in range(OPS)}


class Unseeded(Random):
    def streams(self):
        path, graph, outputs = self.graph(unseeded)
        got = self.draw(self.artefact(path, outputs), outputs, contexts=CONTEXTS, threads=2, runs=RUNS,
                        seeds=str(SEED))
        return [run[n] for context in got for run in context for n in outputs]

    def test_streams_are_independent(self):
        x = np.array(self.streams(), np.float64)
        self.assertEqual(len(x), OPS * RUNS * CONTEXTS)
        z = (x - .5) * np.sqrt(12)
        # For each pair, at several distances; the mean product has the standard deviation 1 /
        # sqrt(LENGTH).
        for lag in 0, 1, 2, 3, 4, 8, 256, 1024:
            c = z[:, :LENGTH - lag] @ z[:, lag:].T / np.sqrt(LENGTH - lag)
            if lag == 0:
                np.fill_diagonal(c, 0)
            self.assertLess(np.abs(c).max(), 6.5, lag)
        # The signs of differences, and the distribution of pairs over a grid of 8 by 8: chi squared
        # with 63 degrees of freedom.
        for i in range(len(x)):
            pairs = np.histogram2d(x[i], x[i - 1], bins=8, range=[[0, 1]] * 2)[0]
            self.chi(pairs, LENGTH / 64)

    def chi(self, counts, expected):
        statistic = ((counts - expected)**2 / expected).sum()
        n = counts.size - 1
        self.assertLess(abs(statistic - n) / np.sqrt(2 * n), 8)

    def test_each_is_uniform(self):
        x = self.streams()
        for s in x:
            self.chi(np.histogram(s, bins=64, range=(0, 1))[0], LENGTH / 64)
        everything = np.sort(np.concatenate(x).astype(np.float64))
        n = everything.size
        d = np.abs(everything - (np.arange(n) + .5) / n).max()
        self.assertLess(d * np.sqrt(n), 4)  # Kolmogorov-Smirnov: probability 10^-13

    def test_streams_do_not_overlap(self):
        """No four consecutive numbers of a stream occur in another, at any distance."""
        x = self.streams()
        blocks = {}
        for i, s in enumerate(x):
            for k in range(0, LENGTH, 4):
                self.assertNotIn(s[k:k + 4].tobytes(), blocks)
                blocks[s[k:k + 4].tobytes()] = i
        for s in x:
            windows = sum(s[k:k + 4].tobytes() in blocks for k in range(LENGTH - 3))
            self.assertEqual(windows, LENGTH // 4)

    def test_two_normals_differ(self):
        path, graph, outputs = self.graph(lambda: {'d': tf.abs(
            RAW.RandomStandardNormal(shape=[LENGTH], dtype=tf.float32) -
            RAW.RandomStandardNormal(shape=[LENGTH], dtype=tf.float32))})
        d = self.draw(path, outputs, seeds='3', options=['oo_level=O3'])[0][0]['d'].astype(np.float64)
        mean = 2 / np.sqrt(np.pi)
        self.assertLess(abs(d.mean() - mean), 6 * np.sqrt((2 - mean**2) / LENGTH))

    def test_calls_of_a_function_are_ops_of_their_own(self):
        @tf.function
        def noise():
            return RAW.RandomUniform(shape=[50], dtype=tf.float32)

        path, graph, outputs = self.graph(lambda: {'a': noise(), 'b': noise()})
        self.assertEqual(len(graph.as_graph_def().library.function), 1)
        got = self.draw(path, outputs, seeds='3')[0][0]
        self.assertFalse((got['a'] == got['b']).any())

    def test_a_seed_repeats_them(self):
        path, graph, outputs = self.graph(unseeded)
        artefact = self.artefact(path, outputs)
        a = self.draw(artefact, outputs, contexts=2, runs=2, seeds='5,5,6')
        self.same(a[0][0], a[0][2])
        self.same(a[0][1], a[0][3])
        self.same(a[0][4], a[1][0])  # 6, as 5 + 1
        for more in ({'threads': 1}, {'threads': 4}, {'guard': 1}, {'guard': 2}):
            for k, run in enumerate(self.draw(artefact, outputs, runs=2, seeds='5', **more)[0]):
                self.same(run, a[0][k])
        first, second = self.draw(artefact, outputs, contexts=2)
        self.assertFalse((first[0]['u0'] == second[0]['u0']).any())


# ---- the tool ----

class Tool(Random):
    def both(self):
        return self.graph(lambda: {
            'u': RAW.RandomUniform(shape=[9, 11], dtype=tf.float32),
            'n': RAW.RandomStandardNormal(shape=[5], dtype=tf.float64),
            's': RAW.TruncatedNormal(shape=[5], dtype=tf.float32, seed=4)})[0]

    def run_once(self, *args, **more):
        out = self.path('y.npz')
        r = self.tool('run', *args, '-o', out, **more)
        with np.load(out) as z:
            return {n: z[n] for n in z.files}, r.err

    def test_the_seed_is_told_once_and_repeats(self):
        g = self.both()
        notes = set()
        for _ in range(3):
            y, err = self.run_once(g)
            told = re.findall(r'note: 2 random ops without a seed draw by seed (\d+)\n', err)
            self.assertEqual((len(told), err.count('seed ')), (1, 2))
            again, err = self.run_once(g, '--seed', told[0])
            self.assertIn(f'seed {told[0]}\n', err)
            self.same(y, again)
            notes.add(told[0])
            self.assertLess(int(told[0]), 2**53)
        self.assertEqual(len(notes), 3)
        j = json.loads(self.tool('run', g, '--seed', '12', '--format', 'json').stdout)
        self.assertEqual(j['seed'], 12)
        j = json.loads(self.tool('bench', g, '--seed', '12', '--runs', '1', '--duration', '0', '--format',
                                 'json').stdout)
        self.assertEqual(j['seed'], 12)

    def test_nothing_is_told_where_the_seed_does_not_matter(self):
        g = self.graph(lambda: {'s': RAW.TruncatedNormal(shape=[5], dtype=tf.float32, seed2=4)})[0]
        y, err = self.run_once(g)
        self.assertNotIn('seed', err)
        again, err = self.run_once(g, '--seed', '3')
        self.same(y, again)
        self.assertNotIn('seed', json.loads(self.tool('run', g, '--format', 'json').stdout))

    def test_model_artefact_and_cache_draw_the_same(self):
        g, a, b = self.both(), self.path('a.htx'), self.path('b.htx')
        want, _ = self.run_once(g, '--seed', '8', '--no-cache')
        for path in a, b:
            self.tool('compile', g, '-o', path, '--no-cache')
        self.assertEqual(self.read('a.htx'), self.read('b.htx'))
        folder = {'HALFTONE_CACHE_DIR': self.path('cache'), 'HALFTONE_CACHE_MODE': 'rw'}
        for args, env in (((a,), None), ((g,), folder), ((g, '--error-on-cache-miss'), folder),
                          ((g, '--threads', '4'), None)):
            y, _ = self.run_once(*args, '--seed', '8', env=env)
            self.same(want, y)

    def test_policies_do_not_change_what_is_drawn(self):
        g = self.graph(lambda: {
            'u': RAW.RandomUniform(shape=[99], dtype=tf.float32),
            'v': tf.random.stateless_normal([99], [1, 2]),
            'w': tf.random.stateless_uniform([99], [1, 2]),
            'x': tf.random.stateless_truncated_normal([99], [1, 2])})[0]
        want, _ = self.run_once(g, '--seed', '8')
        for policy in ('force_fp16', 'allow_mix_precision_bf16', 'cube_fp16in_fp32out', 'optimal', 'grappler-fp16',
                       'onnx-fp16', 'keras-bf16', 'openvino-bf16', 'pytorch-autocast-bf16', 'tvm-fp16'):
            y, _ = self.run_once(g, '--seed', '8', '--policy', policy)
            self.same(want, y)

    def test_operands_that_are_parts_of_one_tensor(self):
        def build():
            x = tf.compat.v1.placeholder(tf.int64, [4], name='x')
            c = tf.cast(x, tf.uint64)
            return {'i': RAW.RandomUniformInt(shape=[99], minval=x[0], maxval=x[1], seed=3),
                    'j': RAW.StatelessRandomUniformInt(shape=[99], seed=x[:2], minval=x[0], maxval=x[3]),
                    'v': RAW.StatelessRandomUniformV2(shape=[99], key=c[:1], counter=c[:2], alg=1)}

        g, graph, outputs = self.graph(build)
        x = np.array([3, 9, 77, 5])
        with tf.compat.v1.Session(graph=graph) as session:
            want = session.run(outputs, {'x:0': x})
        y, _ = self.run_once(g, '--input', 'x=i64[4]:3,9,77,5')
        self.same(want, {n: y[n] for n in want})
        g = self.graph(lambda: {'i': RAW.RandomUniformInt(shape=[9], **dict.fromkeys(
            ['minval', 'maxval'], tf.compat.v1.placeholder(tf.int64, [], name='x')))})[0]
        self.fails(3, 'minval is not below maxval', 'run', g, '--input', 'x=i64[]:3')

    def test_dropout(self):
        def build():
            x = tf.compat.v1.placeholder(tf.float32, [64, 100], name='x')
            k = tf.constant(np.random.default_rng(1).standard_normal((100, 32)), tf.float32)
            return {'y': tf.nn.dropout(x, rate=.25), 'z': tf.matmul(tf.nn.dropout(x, rate=.5), k)}

        g, graph, _ = self.graph(build)
        self.assertIn('RandomUniform', [n.op for n in graph.as_graph_def().node])
        for policy in 'must_keep_origin_dtype', 'force_fp16', 'allow_mix_precision_bf16':
            y, _ = self.run_once(g, '--input', 'x=f32[64,100]:3', '--seed', '4', '--policy', policy)
            kept = y['y'] != 0
            self.assertTrue(np.all(np.isclose(y['y'].astype(np.float32)[kept], 4, rtol=2**-7)))
            self.assertLess(abs(kept.mean() - .75), 6 * np.sqrt(.75 * .25 / kept.size))

    def test_budgets_compare_equal_draws(self):
        """With other draws the error would be as large as the results."""
        def build():
            x = tf.compat.v1.placeholder(tf.float32, [64, 100], name='x')
            k = tf.constant(np.random.default_rng(1).standard_normal((100, 32)), tf.float32)
            return {'z': tf.matmul(tf.nn.dropout(x, rate=.5), k)}

        text = self.tool('explain', self.graph(build)[0], '--policy', 'optimal', '--budget=rel<=2e-2',
                         '--samples', '3', '--target', 'x86-64-v4+bf16').stdout.decode()
        self.assertIn('low precision is cheapest', text)
        self.assertNotIn('by the error budget', text)

    def test_the_graphs_seed_of_a_run_configuration(self):
        g = self.both()
        seeds = {}
        for n in 0, 1, 2, 2**62:
            y, err = self.run_once(g, f'--tf_random_seed={n}')
            self.assertNotIn('seed', err)
            again, _ = self.run_once(g, f'--tf_random_seed={n}', '--seed', '9')
            self.same(y, again)
            seeds[n] = y
        for n in seeds:
            plain, _ = self.run_once(g, '--seed', str(n))
            self.same(plain, seeds[n])
            others = [seeds[k] for k in seeds if k != n]
            self.assertFalse(any((o['u'] == seeds[n]['u']).any() for o in others))
        config = self.path('c.json', b'{"tf_random_seed": 2, "graph_run_mode": 0, "precision_mode": "must_keep_origin_dtype"}')
        y, _ = self.run_once(g, '--config', config)
        self.same(y, seeds[2])
        self.tool('compile', g, '--tf_random_seed=2', '-o', self.path('a.htx'))
        y, _ = self.run_once(self.path('a.htx'))
        self.same(y, seeds[2])
        folder = {'HALFTONE_CACHE_DIR': self.path('cache'), 'HALFTONE_CACHE_MODE': 'rw'}
        for n in 1, 2, 1:
            y, _ = self.run_once(g, f'--tf_random_seed={n}', env=folder)
            self.same(y, seeds[n])


class Bad(Random):
    def test_seeds(self):
        g = self.graph(lambda: {'u': RAW.RandomUniform(shape=[3], dtype=tf.float32)})[0]
        for bad in '-1', '1.5', 'x', '', ' 3', '0x3', '1e3', '3,4', '9223372036854775808', '-9223372036854775809':
            for verb in 'run', 'bench':
                self.fails(2, r'--seed', verb, g, f'--seed={bad}')
            self.fails(2, r'tf_random_seed', 'run', g, f'--tf_random_seed={bad}')

    def test_shapes(self):
        def text(elements, dims):
            return ('hir 1\nentry "" {\n  output "y" = %y\n}\n'
                    f'%s = Const() {{dtype=i64, value=tensor i64[{dims}] {{{elements}}}}}\n'
                    '%y = RandomUniform(%s) {T=i64, dtype=f32}\n')
        for elements, dims, code, words in (
                ('-1', 1, 3, 'no shape'), ('2, -5', 2, 3, 'no shape'),
                ('4611686018427387904, 4611686018427387904', 2, 4, 'more elements than fit'),
                ('9223372036854775807', 1, 4, 'more elements than fit'),
                ('17592186044416', 1, 6, r"'y'.*: it takes \d+ tiles of work, and a kernel can have 2147483647"),
                ('70368744177664', 1, 4, 'more bytes than a process can address'), ('1, 2, 3, 4', '2,2', 3, 'RandomUniform')):
            self.fails(code, words, 'run', self.hir(text(elements, dims)))

    def test_more_memory_than_a_process_has(self):
        """Six tensors at once, each with as many elements as a kernel's tiles can have."""
        def reversed_less_its_mean(name):
            return (f'%r{name} = RandomUniform(%s) {{T=i64, dtype=f32}}\n'
                    f'%v{name} = ReverseV2(%r{name}, %axis) {{T=f32}}\n'
                    f'%m{name} = Mean(%v{name}, %axis) {{T=f32, keep_dims=true}}\n'
                    f'%d{name} = Sub(%v{name}, %m{name}) {{T=f32}}\n')
        g = ('hir 1\nentry "" {\n  output "y" = %y\n}\n'
             '%s = Const() {dtype=i64, value=tensor i64[1] {8796093018112}}\n'
             '%axis = Const() {dtype=i32, value=tensor i32[1] {0}}\n'
             + ''.join(reversed_less_its_mean(name) for name in 'abcdef') +
             '%sum = AddN(%da, %db, %dc, %dd, %de, %df) {T=f32, N=6}\n%y = Max(%sum, %axis) {T=f32}\n')
        self.fails(6, 'more than a process can address', 'compile', self.hir(g), '-o', self.path('x.htx'))

    def test_bounds(self):
        for low, high in ((5, 5), (6, 5), (2**31 - 1, -2**31)):
            g = self.graph(lambda: {'u': RAW.RandomUniformInt(shape=[3], minval=low, maxval=high)})[0]
            self.fails(3, 'minval is not below maxval', 'run', g)
        # TensorFlow checks them also if nothing is drawn, but not for stateless ops.
        g = self.graph(lambda: {'u': RAW.RandomUniformInt(shape=[0], minval=5, maxval=5)})[0]
        self.fails(3, 'minval is not below maxval', 'run', g)
        g = self.graph(lambda: {'u': RAW.StatelessRandomUniformInt(shape=[0], seed=[1, 2], minval=5, maxval=5)})[0]
        self.tool('run', g)

    def test_operands_of_stateless_ops(self):
        def text(op, operands, more=''):
            head = ''.join(f'%{n} = Const() {{dtype={t}, value=tensor {t}[{d}] {{{v}}}}}\n'
                           for n, t, d, v in operands)
            names = ', '.join('%' + n for n, *_ in operands)
            return f'hir 1\nentry "" {{\n  output "y" = %y\n}}\n{head}%y = {op}({names}) {{dtype=f32{more}}}\n'
        shape = ('s', 'i32', '1', '3')
        for seed in ('3', '1, 2, 3'), ('1', '1'), ('', '1'), ('2,1', '1, 2'):
            self.fails(3, 'seed has shape', 'run', self.hir(text(
                'StatelessRandomUniform', [shape, ('d', 'i64', *seed)], ', T=i32, Tseed=i64')))
        key, counter, alg = ('k', 'u64', '1', '1'), ('c', 'u64', '2', '1, 2'), ('a', 'i32', '', '1')
        for bad, words in (([('k', 'u64', '2', '1, 2'), counter, alg], 'key has shape'),
                           ([key, ('c', 'u64', '1', '1'), alg], 'counter has shape'),
                           ([key, counter, ('a', 'i32', '1', '1')], 'StatelessRandomUniformV2'),
                           ([key, counter, ('a', 'i32', '', '2')], 'neither Philox'),
                           ([key, counter, ('a', 'i32', '', '-1')], 'neither Philox')):
            self.fails(3, words, 'run', self.hir(text('StatelessRandomUniformV2', [shape, *bad], ', Tshape=i32')))

    def test_what_has_no_kernel_is_named(self):
        g = self.graph(lambda: {'s': RAW.RandomShuffle(value=np.arange(4))})[0]
        self.fails(4, 'op RandomShuffle has no kernel', 'run', g)
        g = self.graph(lambda: {'u': RAW.RandomUniform(shape=[3], dtype=tf.float32)})[0]
        self.fails(4, 'random_uniform, is a part of the library', 'aot', g, '-o', self.path('net'))


if __name__ == '__main__':
    unittest.main()
