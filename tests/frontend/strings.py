#!/usr/bin/env python3
"""Strings: tables with keys or values that are strings, and graphs that move, select or compare strings, against
TensorFlow: by the tool, from an artefact and from the cache, for open batches, in branches and loops.  NumPy files
of strings are read and written; damaged files and unsupported graphs are refused with a name.

Exit code 77: nothing to test with.
"""
import argparse
import json
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
# The types for which TensorFlow has kernels of tables with strings.
TYPES = [('string', 'int64'), ('string', 'float32'), ('string', 'float64'), ('string', 'int32'), ('string', 'bool'),
         ('string', 'string'), ('int64', 'string'), ('int32', 'string')]
SHAPES = [(), (5,), (2, 3), (0,), (3, 2000)]
INPUT = 'serving_default_x'


def tool(*args, code=0, **variables):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300,
                       env={**os.environ, 'HALFTONE_POLICY': '', **variables})
    if r.returncode != code:
        sys.exit(f'{args}: ended with {r.returncode}, not {code}\n{r.stderr}')
    return r.stdout + r.stderr


def saved(folder, name, value):
    """Strings as 'S', or as 'U' if they are text."""
    np.save(f'{folder}/{name}.npy', np.array(value.tolist() if value.size else value, 'S' if value.dtype == object else value.dtype).reshape(value.shape))
    return '--input', f'{name}=@{folder}/{name}.npy'


def run(folder, model, feeds, *more, **variables):
    words = [w for name, value in feeds.items() for w in saved(folder, name, value)]
    tool('run', '-q', model, *words, '-o', f'{folder}/out.npz', *more, **variables)
    with np.load(f'{folder}/out.npz') as z:
        return [z[n] for n in sorted(z.files, key=lambda n: (len(n), n))]


def expect(what, got, want):
    if len(got) != len(want):
        sys.exit(f'{what}: {len(got)} outputs, not {len(want)}')
    for g, w in zip(got, want):
        if w.dtype == object:
            same = g.dtype.kind == 'S' and g.shape == w.shape and g.ravel().tolist() == w.ravel().tolist()
        else:
            same = g.dtype == w.dtype and g.shape == w.shape and np.array_equal(g, w)
        if not same:
            sys.exit(f'{what}: {g!r}, not {w!r}')


def draw_strings(r, n):
    """Different strings: one is empty, others are long, not UTF-8, or contain zeros; none ends in a zero, which files
    cannot represent."""
    found = {b''}
    while len(found) < n:
        length = int(r.choice([1, 2, 7, 300]))
        found.add(r.integers(0, 256, length, 'u1').tobytes() + b'.')
    found = np.array([*sorted(found), None], object)[:-1]
    return found[r.permutation(n)]


def draw(r, t, n):
    if t == 'string':
        return draw_strings(r, n)
    if t == 'bool':
        return r.integers(0, 2, n).astype(bool)
    return r.permutation(n).astype(t)


class Module(tf.Module):
    def __init__(self, keys, values, default, shape, body, anonymous=False):
        super().__init__()
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values)),
                                               default, experimental_is_anonymous=anonymous)
        spec = tf.TensorSpec(shape, self.table.key_dtype, name='x')
        self.step = tf.function(lambda x: body(self.table, x), input_signature=[spec])


def look(table, x):
    return {'a': table.lookup(x), 'n': table.size()}


def outputs_of(module, x):
    results = module.step(tf.constant(x))
    return [np.asarray(results[n].numpy(), object if results[n].dtype == tf.string else None) for n in sorted(results)]


def check_model(folder, module, x, what):
    path, want = f'{folder}/saved', outputs_of(module, x)
    tf.saved_model.save(module, path, signatures=module.step)
    for more in (), ('--threads', '2'), ('--guard', 'behind'):
        expect(f'{what} {more}', run(folder, path, {INPUT: x}, *more), want)
    tool('compile', '-q', path, '-o', f'{folder}/m.htx')
    expect(f'{what} artefact', run(folder, f'{folder}/m.htx', {INPUT: x}), want)


def check_types(r, folder):
    for key, value in TYPES:
        shape = SHAPES[r.integers(len(SHAPES))]
        n = int(r.choice([1, 7, 900]))
        keys, values = draw(r, key, n), draw(r, value, n)
        others = draw(r, key, 5) if key == 'string' else np.arange(-5, 0).astype(key)
        default = {'string': b'none', 'bool': True}.get(value, -5)
        module = Module(keys, values, tf.constant(default, value), shape, look, bool(r.integers(2)))
        size = int(np.prod(shape))
        picked = [keys[r.integers(n)] if r.random() < .6 else others[r.integers(5)] for _ in range(size)]
        x = np.array([*picked, None], object)[:size].reshape(shape)
        check_model(folder, module, x if key == 'string' else x.astype(key), f'{key} to {value} {shape}')


# ---- strings that are moved, selected and compared ----

def move(table, x):
    """All supported ops on strings."""
    end = tf.while_loop(lambda i, k: i < 3, lambda i, k: (i + 1, table.lookup(k)), (0, x))[1]
    labels = tf.constant([b'cat', b'dog', b'\xff\x00bird.'])
    return {'a': tf.cond(tf.equal(x[0], 'b'), lambda: tf.reverse(x, [0]), lambda: table.lookup(x)), 'b': end,
            'c': tf.gather(labels, tf.cast(tf.equal(x, 'a'), tf.int32)), 'd': tf.reshape(tf.concat([x, labels], 0), [3, -1]),
            'e': tf.not_equal(x, tf.reverse(x, [0])), 'f': tf.where(tf.equal(x, ''), 'empty', x), 'g': tf.identity(x),
            'h': tf.transpose(tf.stack([x, x])), 'i': tf.constant('const'), 'j': tf.shape(x), 'k': tf.tile(x[1:3], [2])}


def check_moves(r, folder):
    names = np.array([b'a', b'b', b'c', b'', b'\xff\x00bird.'], object)
    module = Module(names, names[r.permutation(5)], 'none', (6,), move)
    for first in b'a', b'b':
        x = np.array([first, *r.choice(names, 4), b'new'], object)
        check_model(folder, module, x, 'moves')


def check_open(r, folder):
    """A batch of any size, and two dimensions of any size."""
    keys, values = draw_strings(r, 40), r.permutation(40).astype('f4')
    for shape, sizes, cases in ([None, 3], '?,3', ((1, 3), (7, 3), (70, 3))), ([None, None], '1..90,1..9', ((2, 9), (90, 1))):
        module = Module(keys, values, np.float32(9), shape, lambda t, x: {'y': t.lookup(x) + 1, 'z': tf.identity(x)})
        tf.saved_model.save(module, f'{folder}/saved', signatures=module.step)
        tool('compile', '-q', f'{folder}/saved', '--input-shape', f'{INPUT}:{sizes}', '-o', f'{folder}/m.htx')
        for case in cases:
            x = keys[r.integers(0, 40, case)]
            expect(f'{shape} {case}', run(folder, f'{folder}/m.htx', {INPUT: x}), outputs_of(module, x))


def graph(fn, *inputs):
    with tf.Graph().as_default() as g:
        fn(*(v1.placeholder(t, s, n) for n, t, s in inputs))
    return g


def write(folder, g):
    with open(f'{folder}/g.pb', 'wb') as f:
        f.write(g.as_graph_def().SerializeToString())
    return f'{folder}/g.pb'


def check_cache(folder):
    """A program from the cache has its strings."""
    path = write(folder, graph(lambda x: tf.equal(x, tf.constant(['a', '', 'c']), name='y'), ('x', tf.string, [3])))
    x = np.array([b'a', b'b', b'c'], object)
    cache = {'HALFTONE_CACHE_MODE': 'rw', 'HALFTONE_CACHE_DIR': f'{folder}/cache'}
    for _ in range(2):
        expect('cached', run(folder, path, {'x': x}, **cache), [np.array([True, False, True])])
    tool('run', '-q', path, *saved(folder, 'x', x), '--error-on-cache-miss', **cache)


def check_unique(folder):
    """The run computes the number of different strings."""
    g = graph(lambda x: tf.raw_ops.Unique(x=x, name='y'), ('x', tf.string, [6]))
    for strings in [b'b', b'a', b'b', b'', b'', b'b'], [b'c'] * 6:
        x = np.array(strings, object)
        with v1.Session(graph=g) as session:
            want = session.run(['y:0', 'y:1'], {'x:0': x})
        expect('unique', run(folder, write(folder, g), {'x': x}, '--outputs', 'y,y:1'), want)


def check_default(folder):
    """An input with a default, fed and not fed."""
    with tf.Graph().as_default() as g:
        x = v1.placeholder_with_default(tf.constant([b'own', b'']), [2], 'x')
        tf.identity(tf.stack([x, tf.constant(['a', 'own'])]), 'y')
    path, fed = write(folder, g), np.array([b'a', b'new'], object)
    tool('compile', '-q', path, '-o', f'{folder}/m.htx')
    for model in path, f'{folder}/m.htx':
        expect('default', run(folder, model, {}), [np.array([[b'own', b''], [b'a', b'own']], object)])
        expect('instead of the default', run(folder, model, {'x': fed}), [np.array([[b'a', b'new'], [b'a', b'own']], object)])


# ---- files ----

def check_files(r, folder):
    path = write(folder, graph(lambda x: tf.identity(tf.transpose(x), 'y'), ('x', tf.string, [2, 3])))
    texts = np.array([['a', 'häuser', ''], ['日本', '\U0001f600', 'x\0y']])
    want = np.char.encode(texts, 'utf-8').astype(object).T
    feed = '--input', f'x=@{folder}/x.npy'
    for array in texts, np.asfortranarray(texts), np.char.encode(texts, 'utf-8'), np.asfortranarray(np.char.encode(texts, 'utf-8')):
        np.save(f'{folder}/x.npy', array)
        tool('run', '-q', path, *feed, '-o', f'{folder}/y.npy')
        expect(array.dtype, [np.load(f'{folder}/y.npy')], [want])
    shown = tool('run', '-q', path, *feed)
    if "y  string[3,2]  0 to 7 bytes  'a'  '\\xe6\\x97\\xa5\\xe6\\x9c\\xac'  'h\\xc3\\xa4user' …" not in shown:
        sys.exit(shown)
    told = json.loads(tool('run', '-q', path, *feed, '--format', 'json'))['outputs'][0]
    if (told['dtype'], told['shape'], told['shortest'], told['longest']) != ('string', [3, 2], 0, 7):
        sys.exit(told)
    tool('run', '-q', path, *feed, '--expect', f'{folder}/y.npy')
    np.save(f'{folder}/z.npy', np.where(want == b'a', b'b', want).astype('S'))
    tool('run', '-q', path, *feed, '--expect', f'{folder}/z.npy', code=1)
    # Damaged files.
    whole = open(f'{folder}/x.npy', 'rb').read()
    cut = f'{folder}/cut.npy'
    for n, words in (len(whole) - 1, 'bytes of elements, the header promises'), (90, 'byte 8: a header of'), (0, 'not a .npy file'):
        with open(cut, 'wb') as f:
            f.write(whole[:n])
        refuse(words, 'run', path, '--input', f'x=@{cut}', code=3)
    np.save(f'{folder}/x.npy', texts)
    whole = open(f'{folder}/x.npy', 'rb').read()
    with open(cut, 'wb') as f:
        f.write(whole[:-24] + b'\xff\xff\xff\x7f' + whole[-20:])
    refuse('element 5 has a code point that UTF-8 does not have', 'run', path, '--input', f'x=@{cut}', code=3)
    np.save(cut, texts.astype(object), allow_pickle=True)
    refuse("elements of NumPy type '|O' are not read", 'run', path, '--input', f'x=@{cut}', code=3)
    np.save(cut, np.zeros((2, 3), 'f4'))
    refuse("is float32[2,3], but the graph says string[2,3] for input 'x'", 'run', path, '--input', f'x=@{cut}', code=3)
    refuse('which are not made up; give them with --input x=@FILE.npy', 'run', path, code=2)
    refuse("is of strings, which samples do not have", 'compare', path, '--samples', '2', '--policy', 'force_fp16', code=4)


def refuse(words, *command, code=4):
    said = tool(*command, code=code)
    if words not in said:
        sys.exit(f'expected "{words}", not: {said}')


def check_refusals(folder):
    x = 'x', tf.string, [3]
    for words, fn in (('op StringToHashBucketFast', lambda s: tf.strings.to_hash_bucket_fast(s, 10, name='y')),
                      ('op Add', lambda s: tf.raw_ops.Add(x=s, y=s, name='y')),
                      ('op StringJoin', lambda s: tf.strings.join([s, s], name='y'))):
        refuse(words, 'run', write(folder, graph(fn, x)))
    path = write(folder, graph(lambda s: tf.identity(s, 'y'), x))
    refuse("node 'x': cannot be compiled ahead of time: it is an input of strings", 'aot', path, '-o', f'{folder}/net')
    # Constants that are read as text are not among the strings of the program.
    def message(s):
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(s, 'a')[0], ['first is not', 'a'])]):
            tf.identity(s, 'y')
    path = write(folder, graph(message, x))
    got = run(folder, path, {'x': np.array([b'a', b'', b'c'], object)}, '--outputs', 'y')
    expect('assertion', got, [np.array([b'a', b'', b'c'], object)])
    words = saved(folder, 'x', np.array([b'b', b'', b'c'], object))
    refuse('[first is not] [a]', 'run', path, '--outputs', 'y', *words, code=3)


def check_contradiction(folder):
    def two(x):
        table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name='named')
        tf.raw_ops.LookupTableImportV2(table_handle=table, keys=tf.constant(['a', 'b', 'a']), values=tf.constant([1, 2, 3], tf.int64), name='fill')
        tf.raw_ops.LookupTableFindV2(table_handle=table, keys=x, default_value=tf.constant(0, tf.int64), name='y')
    refuse('two different values for one key: elements 0 and 2', 'run', write(folder, graph(two, ('x', tf.string, [2]))), '--outputs', 'y', code=3)


def check_of_run(r, folder):
    """A table that the run fills with strings, which differ from run to run."""
    with tf.Graph().as_default() as g:
        keys, values, x = (v1.placeholder(tf.string, [n], name) for n, name in ((4, 'keys'), (4, 'values'), (9, 'x')))
        table = tf.raw_ops.AnonymousHashTable(key_dtype=tf.string, value_dtype=tf.string)
        with tf.control_dependencies([tf.raw_ops.LookupTableImportV2(table_handle=table, keys=keys, values=values, name='fill')]):
            tf.raw_ops.LookupTableFindV2(table_handle=table, keys=x, default_value=tf.constant('none'), name='y')
    path = write(folder, g)
    tool('compile', '-q', path, '--outputs', 'y', '-o', f'{folder}/m.htx')
    for _ in range(3):
        strings = draw_strings(r, 9)
        feeds = {'keys': strings[:4], 'values': draw_strings(r, 4), 'x': strings}
        with v1.Session(graph=g) as session:
            want = session.run('y:0', {n + ':0': a for n, a in feeds.items()})
        expect('of a run', run(folder, f'{folder}/m.htx', feeds, '--runs', '2'), [want])


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=8201)
    p.add_argument('--rounds', type=int, default=10 if environment.LONG else 1)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.rounds):
            r = np.random.default_rng(a.seed + i)
            check_types(r, folder)
            check_moves(r, folder)
            check_open(r, folder)
            check_of_run(r, folder)
        check_files(r, folder)
        check_cache(folder)
        check_default(folder)
        check_unique(folder)
        check_contradiction(folder)
        check_refusals(folder)
    print('strings agree with TensorFlow')


main()
