#!/usr/bin/env python3
"""Tables that runs change: random keys are inserted, removed, imported, looked up, counted and listed by several entries of one
session, as TensorFlow does it, in a session that compiles the model, and by entries of artefacts.  Models whose tables were
saved with them; tables of a run; tables in branches and loops; limits."""
import ctypes, os, subprocess, unittest

from package import environment
from case import FolderCase

import numpy as np
import halftone as ht
from halftone import _api

environment.enter_venv()
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

v1 = tf.compat.v1
# TensorFlow's kernels of mutable tables.
TYPES = [('int32', 'int32'), ('int32', 'float32'), ('int32', 'float64'), ('int64', 'int32'), ('int64', 'int64'),
         ('int64', 'float32'), ('int64', 'float64'), ('int64', 'string'), ('string', 'bool'), ('string', 'int32'),
         ('string', 'int64'), ('string', 'float32'), ('string', 'float64')]
COUNT = 6
EMPTY, DELETED = -100, -101
STRINGS = [b'', b'a', b'a\0', b'\xff\xfe', b'long' * 500, 'ä'.encode(), b'b', b'c', b'dd', b'e']


def draw(r, t, shape):
    if t == 'string':
        n = int(np.prod(shape))
        return np.array([STRINGS[i] if i < len(STRINGS) else r.bytes(5) + b'.' for i in r.integers(0, 14, n)] + [None], object)[:n].reshape(shape)
    if t == 'bool':
        return r.integers(0, 2, shape).astype(bool)
    drawn = r.integers(-9, 30, shape)
    far = r.integers(-2**31, 2**31, shape)
    return np.where(r.random(shape) < .7, drawn, far).astype(t) if t.startswith('int') else (drawn / 7).astype(t)


def table_of(kind, key, value, row):
    if kind == 'scalars':
        return tf.raw_ops.MutableHashTableV2(key_dtype=key, value_dtype=value, shared_name='table')
    if kind == 'tensors':
        return tf.raw_ops.MutableHashTableOfTensorsV2(key_dtype=key, value_dtype=value, value_shape=row, shared_name='table')
    return tf.raw_ops.MutableDenseHashTableV2(empty_key=tf.constant(EMPTY, key), deleted_key=tf.constant(DELETED, key),
                                              value_dtype=value, value_shape=row, shared_name='table')


def graph(kind, key, value, row):
    """One table, and a tensor for each thing that is done with it."""
    with tf.Graph().as_default() as g:
        keys, values = v1.placeholder(key, [COUNT], 'keys'), v1.placeholder(value, [COUNT, *row], 'values')
        one = v1.placeholder(value, row, 'one')
        table = table_of(kind, key, value, row)
        for name, op in (('inserted', tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=keys, values=values, name='insert')),
                         ('imported', tf.raw_ops.LookupTableImportV2(table_handle=table, keys=keys, values=values, name='import')),
                         ('removed', tf.raw_ops.LookupTableRemoveV2(table_handle=table, keys=keys, name='remove'))):
            with tf.control_dependencies([op]):
                tf.raw_ops.LookupTableSizeV2(table_handle=table, name=name)
        tf.raw_ops.LookupTableFindV2(table_handle=table, keys=keys, default_value=one, name='found')
        tf.raw_ops.LookupTableFindV2(table_handle=table, keys=keys, default_value=values, name='found_own')
        tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=key, Tvalues=value, name='listed')
        tf.raw_ops.LookupTableSizeV2(table_handle=table, name='size')
    return g


FEEDS = {'inserted': ['keys', 'values'], 'imported': ['keys', 'values'], 'removed': ['keys'], 'found': ['keys', 'one'],
         'found_own': ['keys', 'values'], 'listed': [], 'size': []}


def fetches_of(name):
    return ['listed', 'listed:1'] if name == 'listed' else [name]


def in_order(keys, values):
    order = sorted(range(len(keys)), key=lambda i: keys[i])
    return [keys[order], values[order]]


class Case(FolderCase):
    def same(self, what, got, want):
        self.assertEqual(len(got), len(want), what)
        for g, w in zip(got, want):
            self.assertEqual(np.shape(g), np.shape(w), what)
            self.assertEqual(np.ravel(g).tolist(), np.ravel(w).tolist(), what)

    def write(self, g):
        return self.path('g.pb', g.as_graph_def().SerializeToString())

    def steps(self, r, g, key, value, row, runners, names):
        """Does random things in TensorFlow and in all runners, each of which has a table of its own."""
        with v1.Session(graph=g) as session:
            for step in range(25):
                name = str(r.choice(['inserted'] * 3 + [n for n in names if n != 'imported' or step % 9 == 8]))
                feeds = {'keys': draw(r, key, (COUNT,)), 'values': draw(r, value, (COUNT, *row)), 'one': draw(r, value, row)}
                feeds = {n: feeds[n] for n in FEEDS[name]}
                want = session.run([f + ':0' if ':' not in f else f for f in fetches_of(name)], {n + ':0': a for n, a in feeds.items()})
                want = in_order(*want) if name == 'listed' else want
                for what, run in runners.items():
                    self.same(f'{what}, step {step}: {name}', run(name, feeds), want)


class Random(Case):
    def check(self, r, kind, key, value, row, names=tuple(FEEDS)):
        g = graph(kind, key, value, row)
        path = self.write(g)
        session = ht.load(path).session(threads=2)
        entries = ht.Entries()
        for name in names:
            ht.load(path, outputs=fetches_of(name)).compile().save(self.path('m.htx'))
            entries.load(self.path('m.htx'), name=name)

        def in_session(name, feeds):
            got = session.run(fetches_of(name), feeds)
            return [got[f] for f in fetches_of(name)]

        def in_entries(name, feeds):
            got = entries.run(name, feeds)
            return [got[f] for f in fetches_of(name)]
        self.steps(r, g, key, value, row, {f'{kind} {key} {value} {row}': in_session, f'artefacts {kind} {key} {value}': in_entries},
                   names)

    def test_types(self):
        for i, (key, value) in enumerate(TYPES):
            r = np.random.default_rng(9100 + i)
            self.check(r, 'scalars', key, value, ())
            if i % 3 == 0 or environment.LONG:
                self.check(r, 'tensors', key, value, (int(r.integers(1, 4)),))

    def test_dense(self):
        for i, (key, value, row) in enumerate((('int64', 'float32', (3,)), ('int64', 'int64', ()), ('int32', 'float64', ()))):
            self.check(np.random.default_rng(9200 + i), 'dense', key, value, row, ('inserted', 'removed', 'found', 'size'))

    def test_many(self):
        """A table that grows to thousands of keys, and shrinks."""
        with tf.Graph().as_default() as g:
            keys = v1.placeholder(tf.int64, [4000], 'keys')
            table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name='t')
            with tf.control_dependencies([tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=keys, values=keys * 3)]):
                tf.raw_ops.LookupTableSizeV2(table_handle=table, name='inserted')
            with tf.control_dependencies([tf.raw_ops.LookupTableRemoveV2(table_handle=table, keys=keys)]):
                tf.raw_ops.LookupTableSizeV2(table_handle=table, name='removed')
            tf.raw_ops.LookupTableFindV2(table_handle=table, keys=keys, default_value=tf.constant(-1, tf.int64), name='found')
        r = np.random.default_rng(9300)
        ours = ht.load(self.write(g)).session(threads=2)
        with v1.Session(graph=g) as session:
            for name in ['inserted'] * 4 + ['found', 'removed', 'found', 'removed', 'removed', 'inserted', 'found']:
                x = r.integers(-20000, 20000, 4000)
                self.same(name, [ours.run(name, keys=x)[name]], [session.run(name + ':0', {'keys:0': x})])


class Checkpoints(Case):
    def test_said(self):
        """Checkpoints do not have tables, and say so."""
        session = ht.load(self.write(graph('scalars', 'int64', 'float32', ()))).session()
        session.run('inserted', keys=np.arange(COUNT), values=np.arange(COUNT, dtype='f4'))
        with self.assertWarnsRegex(ht.HalftoneWarning, "'table'.*does not have the keys and values of this table"):
            session.save(self.path('run'))


class Saved(tf.Module):
    """A model that learns keys and that was saved with those that it knew."""
    def __init__(self):
        super().__init__()
        self.numbers = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        self.numbers.insert(tf.constant(['a', 'b\0', '']), tf.constant([1, 2, 3], tf.int64))
        self.names = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, 'none')
        self.names.insert(tf.constant([1, 5], tf.int64), ['one', ''])
        self.rows = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, [7., 8.], -2, -3)
        self.rows.insert(tf.constant([1, 2], tf.int64), [[1., 2.], [3., 4.]])

    @tf.function(input_signature=[tf.TensorSpec([4], tf.string, name='x')])
    def __call__(self, x):
        before = self.numbers.lookup(x)
        self.numbers.insert(x, before + 10)
        self.names.insert(before, x)
        self.names.remove(tf.constant([1], tf.int64))
        for _ in tf.range(3):
            self.rows.insert(before[:1], self.rows.lookup(before[:1]) + 1)
        if before[0] > 5:
            self.rows.remove(before[:1])
        keys, values = self.numbers.export()
        return {'rows_size': self.rows.size(), 'before': before, 'after': self.numbers.lookup(x), 'names': self.names.lookup(before), 'rows': self.rows.lookup(before),
                'size': self.names.size(), 'sum': tf.reduce_sum(values), 'count': tf.size(keys)}


class Models(Case):
    def test_saved(self):
        """The tables of a SavedModel begin with what was saved, in each context, and after a reset again."""
        path = self.path('saved')
        tf.saved_model.save(Saved(), path)
        program = ht.load(path).compile()
        program.save(self.path('m.htx'))
        runs = [[b'a', b'x', b'', b'a'], [b'x', b'y', b'a', b''], [b'b\0', b'b\0', b'x', b'new']]
        for made in program, ht.Program.load(self.path('m.htx')):
            context = made.context(threads=2)
            for again in range(2):
                model = tf.saved_model.load(path)
                for x in runs:
                    got, want = context.run(x), model.signatures['serving_default'](tf.constant(x))
                    for t, name in zip(program.outputs, sorted(want)):
                        self.same(f'{name} of {x}', [got[t.name]], [want[name].numpy()])
                context.reset()

    def test_restored_by_no_name(self):
        """The names of what the saver restores are integers, which TensorFlow cannot load: the tables are empty."""
        path = self.path('nameless')
        tf.saved_model.save(Saved(), path)
        model = saved_model_pb2.SavedModel()
        with open(f'{path}/saved_model.pb', 'rb') as f:
            model.ParseFromString(f.read())
        graph = model.meta_graphs[0].graph_def
        restores = [(nodes, n) for nodes in [graph.node, *(f.node_def for f in graph.library.function)] for n in nodes if n.op == 'RestoreV2']
        for nodes, n in restores:
            names = next(x for x in nodes if x.name == n.input[1].split(':')[0])
            names.attr['value'].tensor.CopyFrom(tf.make_tensor_proto(np.int64(7)))
            names.attr['dtype'].type = tf.int64.as_datatype_enum
        with open(f'{path}/saved_model.pb', 'wb') as f:
            f.write(model.SerializeToString())
        self.assertTrue(restores)
        program = ht.load(path).compile()
        got = program.context().run([b'a', b'x', b'', b'a'])
        self.assertEqual(got[program.outputs[1].name].tolist(), [-1] * 4)

    def test_long_values(self):
        """A value has fewer than 2^31 - 1 elements."""
        with tf.Graph().as_default() as g:
            table = tf.raw_ops.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.bool, value_shape=[2**31 - 1])
            tf.raw_ops.LookupTableSizeV2(table_handle=table, name='size')
        with self.assertRaisesRegex(ht.UnsupportedError, 'a table whose values have more elements than fit'):
            ht.load(self.write(g), outputs=['size']).compile()

    def test_anonymous(self):
        """A table of a run is empty in each run, also behind one that stopped."""
        with tf.Graph().as_default() as g:
            keys = v1.placeholder(tf.int64, [3], 'keys')
            table = tf.raw_ops.AnonymousMutableDenseHashTable(empty_key=tf.constant(-1, tf.int64), deleted_key=tf.constant(-2, tf.int64),
                                                              value_dtype=tf.float32, value_shape=[])
            with tf.control_dependencies([tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=keys, values=tf.constant([1., 2, 3]), name='insert')]):
                tf.raw_ops.LookupTableSizeV2(table_handle=table, name='size')
        context = ht.load(self.write(g), outputs=['size']).compile().context()
        for x in [1, 2, 3], [4, 5, 4], [1, -1, 2], [7, 7, 7], [2, 3, -2]:
            with v1.Session(graph=g) as session:
                try:
                    want = session.run('size:0', {'keys:0': x})
                except tf.errors.InvalidArgumentError:
                    with self.assertRaisesRegex(ht.InputError, "node 'insert'.*empty or the deleted key"):
                        context.run(keys=np.array(x))
                    continue
            self.same(x, [context.run(keys=np.array(x))['size']], [want])

    def test_refused(self):
        """A program of these tables does not run ahead of time; what is no table of the program is refused."""
        path = self.write(graph('scalars', 'int64', 'float32', ()))
        env = {k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'}
        r = subprocess.run([environment.TOOL, 'aot', path, '--outputs', 'found', '-o', self.path('net')], capture_output=True, text=True, env=env)
        self.assertEqual(r.returncode, 4)
        self.assertIn('its kernel, mutable_find, is a part of the library', r.stderr)
        ht.load(path, outputs=['found']).compile().save(self.path('m.htx'))
        r = subprocess.run([os.path.join(environment.BUILD, 'tests', 'load_static'), self.path('m.htx')], capture_output=True, text=True, env=env)
        self.assertEqual((r.returncode, r.stdout), (0, ''), r.stderr)
        runtime, program, message = ctypes.CDLL(os.path.join(environment.BUILD, 'lib', 'libhalftone-rt.so')), ctypes.c_void_p(), _api.ht_message()
        runtime.ht_diags_new.restype = ctypes.c_void_p
        diags = ctypes.c_void_p(runtime.ht_diags_new())
        self.assertNotEqual(runtime.ht_program_load(self.path('m.htx').encode(), None, diags, ctypes.byref(program)), 0)
        self.assertEqual(runtime.ht_diags_get(diags, ctypes.c_size_t(0), ctypes.byref(message)), 0)
        self.assertIn(b"there is no kernel 'mutable_find' here", message.text)
        runtime.ht_diags_free(diags)
        for name, words in ('listed', 'lists or imports a dense table'), ('imported', 'lists or imports a dense table'), ('found_own', 'a default value for each key'):
            with self.assertRaisesRegex(ht.UnsupportedError, words):
                ht.load(self.write(graph('dense', 'int64', 'float32', ())), outputs=[name]).compile()
        with tf.Graph().as_default() as g:
            table = tf.raw_ops.MutableDenseHashTableV2(empty_key=tf.constant(''), deleted_key=tf.constant('-'), value_dtype=tf.int64, value_shape=[])
            tf.raw_ops.LookupTableSizeV2(table_handle=table, name='size')
        with self.assertRaisesRegex(ht.UnsupportedError, 'MutableDenseHashTableV2 is a table whose empty and deleted keys'):
            ht.load(self.write(g), outputs=['size']).compile()


class Limits(Case):
    def context(self, key, **limits):
        return ht.load(self.write(graph('scalars', key, 'int64', ())), outputs=['inserted']).compile().context(**limits)

    def fill(self, context, key):
        r = np.random.default_rng(9400)
        for i in range(3000):
            x = r.integers(0, 2**60, COUNT) if key == 'int64' else [r.bytes(100) for _ in range(COUNT)]
            context.run(keys=x, values=r.integers(0, 9, COUNT))
        return i

    def test_bytes(self):
        """A table that would grow beyond its limit stops the run; the keys that it has stay."""
        for key in 'int64', 'string':
            context = self.context(key, table_bytes=100000)
            with self.assertRaisesRegex(ht.HalftoneError, "node 'insert': the table has more keys than there is room for"):
                self.fill(context, key)
            context.reset()
            context.run(keys=[1] * 6 if key == 'int64' else ['a'] * 6, values=[1] * 6)
        self.fill(self.context('int64'), 'int64')
        with self.assertRaisesRegex(ht.UsageError, 'table_bytes'):
            self.context('int64', table_bytes=0)

    def test_strings_that_are_gone(self):
        """Strings of keys that were removed take no memory for ever."""
        g = graph('scalars', 'string', 'int64', ())
        with g.as_default():
            keys = g.get_tensor_by_name('keys:0')
            table = g.get_tensor_by_name('MutableHashTableV2:0')
            with tf.control_dependencies([g.get_tensor_by_name('inserted:0')]):
                after = tf.raw_ops.LookupTableRemoveV2(table_handle=table, keys=keys)
            with tf.control_dependencies([after]):
                tf.raw_ops.LookupTableSizeV2(table_handle=table, name='left')
        context = ht.load(self.write(g), outputs=['left']).compile().context(table_bytes=1000000)
        for i in range(3000):
            self.assertEqual(context.run(keys=[b'%d %d' % (i, k) + b'.' * 100 for k in range(COUNT)], values=[0] * COUNT)['left'], 0)

    def test_listed(self):
        """A program lists 65,536 keys at most."""
        with tf.Graph().as_default() as g:
            table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name='t')
            k = v1.placeholder(tf.int64, [40000], 'k')
            with tf.control_dependencies([tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=k, values=k)]):
                tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.int64, name='listed')
        context = ht.load(self.write(g), outputs=['listed']).compile().context()
        self.same('listed', [context.run(k=np.arange(40000)[::-1])['listed']], [np.arange(40000)])
        with self.assertRaisesRegex(ht.HalftoneError, "node 'listed': the table has more keys than there is room for"):
            context.run(k=np.arange(40000, 80000))


unittest.main()
