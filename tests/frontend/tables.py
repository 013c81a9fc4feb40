#!/usr/bin/env python3
"""Tables that a model fills with constants, or a run with its inputs: SavedModels and frozen graphs that look keys up,
against TensorFlow: by the tool on one thread and two, between guard pages, from an artefact, for open batches, and
in branches and loops. Unsupported graphs are refused with the node's name.

Exit code 77: nothing to test with.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
# The types for which TensorFlow has kernels of tables of numbers.
TYPES = [('int32', 'int32'), ('int32', 'float32'), ('int32', 'float64'),
         ('int64', 'int32'), ('int64', 'int64'), ('int64', 'float32'), ('int64', 'float64')]
SHAPES = [(), (5,), (2, 3), (0,), (3, 5000)]
INPUT = 'serving_default_x'


def tool(*args, code=0):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300,
                       env={**os.environ, 'HALFTONE_POLICY': ''})
    if r.returncode != code:
        sys.exit(f'{args}: ended with {r.returncode}, not {code}\n{r.stderr}')
    return r.stdout + r.stderr


def run(folder, model, feeds, *more):
    words = []
    for name, value in feeds.items():
        np.save(f'{folder}/{name}.npy', value)
        words += ['--input', f'{name}=@{folder}/{name}.npy']
    tool('run', '-q', model, *words, '-o', f'{folder}/out.npz', *more)
    with np.load(f'{folder}/out.npz') as z:
        return [z[n] for n in sorted(z.files)]


def expect(what, got, want):
    if len(got) != len(want):
        sys.exit(f'{what}: {len(got)} outputs, not {len(want)}')
    for g, w in zip(got, want):
        if g.dtype != w.dtype or g.shape != w.shape or not np.array_equal(g, w, equal_nan=g.dtype.kind == 'f'):
            sys.exit(f'{what}: {g}, not {w}')


def draw(r, key, value, n):
    """Keys, some of them repeated with the same value, and values."""
    lowest, highest = np.iinfo(key).min, np.iinfo(key).max
    keys = np.unique(np.concatenate([r.integers(-9, 99, n), r.integers(lowest, highest, n, endpoint=True)]).astype(key))
    values = r.integers(-1000, 1000, keys.size).astype(value)
    if value.startswith('float'):
        values = values / np.array(7, value)
    order = r.permutation(np.concatenate([np.arange(keys.size), r.integers(0, keys.size, n // 3)]))
    return keys[order], values[order]


class Module(tf.Module):
    def __init__(self, keys, values, default, shape, body, anonymous=False):
        super().__init__()
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values)), default,
                                               experimental_is_anonymous=anonymous)
        self.step = tf.function(lambda x: body(self.table, x), input_signature=[tf.TensorSpec(shape, keys.dtype, name='x')])


def look(table, x):
    return {'a': table.lookup(x), 'n': table.size()}


def look_in_loop(table, x):
    """Follows keys through a table to itself, and looks a key up in a branch."""
    end = tf.while_loop(lambda i, k: i < 4, lambda i, k: (i + 1, table.lookup(k)), (0, x))[1]
    return {'a': end, 'b': tf.cond(tf.reduce_sum(x) > 3, lambda: table.lookup(x + 1), lambda: x)}


def outputs_of(module, x):
    results = module.step(tf.constant(x))
    return [results[n].numpy() for n in sorted(results)]


def asked(r, keys, shape):
    """Some keys of the table, and some that may be missing."""
    count = int(np.prod(shape))
    return np.where(r.random(count) < .6, r.choice(keys, count), r.integers(-20, 120, count)).astype(keys.dtype).reshape(shape)


def check_model(folder, module, x, what):
    path, want = f'{folder}/saved', outputs_of(module, x)
    tf.saved_model.save(module, path, signatures=module.step)
    for more in (), ('--threads', '2'), ('--guard', 'behind'), ('--guard', 'before'):
        expect(f'{what} {more}', run(folder, path, {INPUT: x}, *more), want)
    tool('compile', '-q', path, '-o', f'{folder}/m.htx')
    for more in (), ('--threads', '2'):
        expect(f'{what} artefact {more}', run(folder, f'{folder}/m.htx', {INPUT: x}, *more), want)


def check_types(r, folder):
    for key, value in TYPES:
        shape = SHAPES[r.integers(len(SHAPES))]
        keys, values = draw(r, key, value, int(r.choice([1, 7, 3000])))
        default = np.array(-5 if value.startswith('int') else np.nan, value)
        module = Module(keys, values, default, shape, look, bool(r.integers(2)))
        check_model(folder, module, asked(r, keys, shape), f'{key} to {value} {shape}')


def check_bodies(r, folder):
    keys = np.arange(40, dtype='i8')
    module = Module(keys, r.permutation(keys), np.int64(0), (6,), look_in_loop)
    for _ in range(2):
        check_model(folder, module, r.integers(-3, 45, 6), 'bodies')


def check_open(r, folder):
    """A batch of any size, and two dimensions of any size."""
    keys, values = draw(r, 'int64', 'float32', 50)
    for shape, sizes, cases in ([None, 3], '?,3', ((1, 3), (7, 3), (70, 3))), ([None, None], '1..90,1..9', ((2, 9), (90, 1))):
        module = Module(keys, values, np.float32(9), shape, lambda t, x: {'y': t.lookup(x) + 1})
        tf.saved_model.save(module, f'{folder}/saved', signatures=module.step)
        tool('compile', '-q', f'{folder}/saved', '--input-shape', f'{INPUT}:{sizes}', '-o', f'{folder}/m.htx')
        for case in cases:
            x = asked(r, keys, case)
            expect(f'{shape} {case}', run(folder, f'{folder}/m.htx', {INPUT: x}), outputs_of(module, x))


# ---- graphs of TensorFlow 1 ----

def graph(keys, values, op=None, twice=False):
    """A frozen graph with its initialiser, its results, and TensorFlow's error for the initialiser."""
    with tf.Graph().as_default() as g, v1.Session() as session:
        x = v1.placeholder(keys.dtype, [4], 'x')
        table = tf.raw_ops.HashTableV2(key_dtype=keys.dtype, value_dtype=values.dtype, shared_name='named')
        tf.raw_ops.LookupTableFindV2(table_handle=table, keys=x, default_value=tf.constant(-1, values.dtype), name='y')
        init = op or tf.raw_ops.LookupTableImportV2
        fill = init(table_handle=table, keys=tf.constant(keys), values=tf.constant(values), name='fill')
        if twice:
            init(table_handle=table, keys=tf.constant(keys), values=tf.constant(values + 1), name='again')
        fed, error = keys[[0, 1, 1, 0]] + np.array([0, 0, 50, 60], keys.dtype), ''
        try:
            session.run(fill)
            got = session.run('y:0', {'x:0': fed})
        except tf.errors.OpError as e:
            got, error = None, e.message
        return g.as_graph_def(), fed, got, error


def write(folder, graph_def):
    with open(f'{folder}/g.pb', 'wb') as f:
        f.write(graph_def.SerializeToString())
    return f'{folder}/g.pb'


def check_frozen(folder):
    keys, values = np.array([3, 5, 7], 'i8'), np.array([30, 50, 70], 'i4')
    for op in tf.raw_ops.LookupTableImportV2, tf.raw_ops.InitializeTableV2:
        g, fed, want, error = graph(keys, values, op)
        if error:
            sys.exit(error)
        expect(op.__name__, run(folder, write(folder, g), {'x': fed}, '--outputs', 'y'), [want])
        # An entry that runs the initialiser: the table already has its contents.
        expect('with its initialiser', run(folder, write(folder, g), {'x': fed}, '--outputs', 'y,fill'), [want])


def check_contradiction(folder):
    keys, values = np.array([3, 5, 3], 'i8'), np.array([.5, 1, 2], 'f4')
    g, _, _, error = graph(keys, values)
    if 'different value for same key' not in error:
        sys.exit(f'TensorFlow says: {error}')
    said = tool('run', '-q', write(folder, g), '--outputs', 'y', code=3)
    if "node 'fill'" not in said or 'two different values for one key: elements 0 and 2' not in said:
        sys.exit(said)
    g, _, _, error = graph(np.array([3, 5, 3], 'i8'), np.array([2, 1, 2], 'f4'))
    if error:
        sys.exit(error)
    run(folder, write(folder, g), {'x': keys[[0, 1, 1, 0]]}, '--outputs', 'y')


# ---- tables that a run fills ----

def graph_of_run(key, value, fills=1):
    with tf.Graph().as_default() as g:
        keys, values = v1.placeholder(key, [6], 'keys'), v1.placeholder(value, [6], 'values')
        x = v1.placeholder(key, [3, 3000], 'x')
        table = tf.raw_ops.AnonymousHashTable(key_dtype=key, value_dtype=value)
        filled = [tf.raw_ops.LookupTableImportV2(table_handle=table, keys=keys, values=values, name=f'fill{i}') for i in range(fills)]
        with tf.control_dependencies(filled):
            y = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=x, default_value=tf.constant(-1, value), name='y')
            tf.raw_ops.LookupTableSizeV2(table_handle=table, name='n')
        tf.identity(y + 1, 'z')
    return g


def check_of_run(r, folder):
    """Each run has a table of its own, which is released when the run stops."""
    for key, value in TYPES:
        g = graph_of_run(key, value)
        path = write(folder, g.as_graph_def())
        tool('compile', '-q', path, '--outputs', 'n,y,z', '-o', f'{folder}/m.htx')
        for twice in False, True:
            keys = r.permutation(np.arange(9)[:6]).astype(key)
            if twice:
                keys[4] = keys[1]
            values = (keys * 2).astype(value)
            feeds = {'keys': keys, 'values': values, 'x': r.integers(-3, 9, (3, 3000)).astype(key)}
            with v1.Session(graph=g) as session:
                want = session.run(['n:0', 'y:0', 'z:0'], {n + ':0': a for n, a in feeds.items()})
            for model in path, f'{folder}/m.htx':
                for more in ('--threads', '2'), ('--guard', 'behind'):
                    outputs = () if model.endswith('htx') else ('--outputs', 'n,y,z')
                    expect(f'run fills {key} to {value}', run(folder, model, feeds, *more, *outputs), want)
    feeds['values'][4] += 1
    try:
        with v1.Session(graph=g) as session:
            session.run('y:0', {n + ':0': a for n, a in feeds.items()})
        sys.exit('TensorFlow takes two values for one key')
    except tf.errors.FailedPreconditionError:
        pass
    np.save(f'{folder}/values.npy', feeds['values'])
    said = tool('run', '-q', f'{folder}/m.htx', *[w for n in feeds for w in ('--input', f'{n}=@{folder}/{n}.npy')], code=3)
    if "node 'fill0': a key of the table has two different values" not in said:
        sys.exit(said)
    with v1.Session(graph=graph_of_run('int64', 'int64', 0)) as session:
        try:
            session.run('y:0', {'x:0': np.zeros((3, 3000), 'i8')})
            sys.exit('TensorFlow looks into a table that is not filled')
        except tf.errors.FailedPreconditionError:
            pass


def refuse(path, words, *more):
    said = tool('run', path, *more, code=4)
    if words not in said:
        sys.exit(f'expected "{words}", not: {said}')


def check_refusals(r, folder):
    g = graph(np.array([3, 5], 'i8'), np.array([1, 2], 'i8'), twice=True)[0]
    refuse(write(folder, g), 'does not fill once, with constant keys and values', '--outputs', 'y')
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.int64, [4], 'x')
        table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
        with tf.control_dependencies([tf.raw_ops.LookupTableImportV2(table_handle=table, keys=x, values=x + 1, name='fill')]):
            tf.raw_ops.LookupTableFindV2(table_handle=table, keys=x, default_value=tf.constant(0, tf.int64), name='y')
    refuse(write(folder, g.as_graph_def()), 'op LookupTableImportV2', '--outputs', 'y')
    for fills in 0, 2:
        refuse(write(folder, graph_of_run('int64', 'int64', fills).as_graph_def()), 'nor the run', '--outputs', 'y')
    keys, values = draw(r, 'int64', 'int64', 9)
    module = Module(keys, values, np.int64(0), (3,), look)
    tf.saved_model.save(module, f'{folder}/saved', signatures=module.step)
    said = tool('aot', f'{folder}/saved', '-o', f'{folder}/net', code=4)
    if 'its kernel, table_find, is a part of the library' not in said:
        sys.exit(said)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=8101)
    p.add_argument('--rounds', type=int, default=10 if environment.LONG else 1)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.rounds):
            r = np.random.default_rng(a.seed + i)
            check_types(r, folder)
            check_bodies(r, folder)
            check_open(r, folder)
            check_of_run(r, folder)
        check_frozen(folder)
        check_contradiction(folder)
        check_refusals(r, folder)
    print('tables agree with TensorFlow')


main()
