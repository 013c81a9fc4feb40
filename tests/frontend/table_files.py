#!/usr/bin/env python3
"""Tables that are filled from text files: keys and values that are whole lines, their numbers and columns, of all types, with
the errors where TensorFlow has errors; assets of SavedModels, also from an artefact and a moved folder; a changed file is
another program of the cache; files outside of the model's folder are not read.

Exit code 77: nothing to test with.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
WHOLE, NUMBER = -2, -1
INPUT = 'serving_default_x'


def tool(*args, code=0, **variables):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300,
                       env={**os.environ, 'HALFTONE_POLICY': '', **variables})
    if r.returncode != code:
        sys.exit(f'{args}: ended with {r.returncode}, not {code}\n{r.stderr}')
    return r.stdout + r.stderr


def saved(folder, name, value):
    np.save(f'{folder}/{name}.npy', np.array(value.tolist(), 'S' if value.dtype == object else value.dtype).reshape(value.shape))
    return '--input', f'{name}=@{folder}/{name}.npy'


def run(folder, model, name, x, *more, **variables):
    tool('run', '-q', model, *saved(folder, name, x), '-o', f'{folder}/out.npz', *more, **variables)
    with np.load(f'{folder}/out.npz') as z:
        return [z[n] for n in sorted(z.files)]


def expect(what, got, want):
    for g, w in zip(got, want):
        if g.ravel().tolist() != w.ravel().tolist() or g.shape != w.shape:
            sys.exit(f'{what}: {g!r}, not {w!r}')
    if len(got) != len(want):
        sys.exit(f'{what}: {len(got)} outputs')


def refuse(words, *command, code=3):
    said = tool(*command, code=code)
    if words not in said:
        sys.exit(f'expected "{words}", not: {said}')


# ---- all forms of a file ----

DEFAULT = {'string': b'none', 'int32': -5, 'int64': -5, 'float32': -.5, 'float64': -.5}


def graph(path, key, value, x, **attrs):
    """A graph that looks keys up in a table of a file, what TensorFlow computes, and its error."""
    with tf.Graph().as_default() as g, v1.Session() as session:
        fed = v1.placeholder(key, x.shape, 'x')
        table = tf.raw_ops.HashTableV2(key_dtype=key, value_dtype=value)
        fill = tf.raw_ops.InitializeTableFromTextFileV2(table_handle=table, filename=tf.constant(path), name='fill', **attrs)
        tf.raw_ops.LookupTableFindV2(table_handle=table, keys=fed, default_value=tf.constant(DEFAULT[value], value), name='y')
        tf.raw_ops.LookupTableSizeV2(table_handle=table, name='n')
        try:
            session.run(fill)
            return g, session.run(['n:0', 'y:0'], {'x:0': x}), ''
        except tf.errors.OpError as e:
            return g, None, e.message


def write(folder, g):
    with open(f'{folder}/g.pb', 'wb') as f:
        f.write(g.as_graph_def().SerializeToString())
    return f'{folder}/g.pb'


def text(folder, content):
    with open(f'{folder}/words.txt', 'wb') as f:
        f.write(content)
    return f'{folder}/words.txt'


def check(folder, content, key, value, x, words=None, **attrs):
    """`words`: of our error, where TensorFlow has one."""
    g, want, error = graph(text(folder, content), key, value, x, **attrs)
    path, what = write(folder, g), f'{content[:60]} {key} {value} {attrs}'
    if bool(error) != bool(words):
        sys.exit(f'{what}: TensorFlow says "{error}"')
    if words:
        saved(folder, 'x', x)
        refuse(words, 'run', '-q', path, '--outputs', 'n,y', '--input', f'x=@{folder}/x.npy')
        return
    expect(what, run(folder, path, 'x', x, '--outputs', 'n,y'), want)
    tool('compile', '-q', path, '--outputs', 'n,y', '-o', f'{folder}/m.htx')
    os.remove(f'{folder}/words.txt')  # the artefact has the table
    expect(f'{what} artefact', run(folder, f'{folder}/m.htx', 'x', x), want)


def check_forms(folder):
    strings = np.array([b'a', b'b c', b'', b'none', b'x\ty'], object)
    numbers = np.array([3, -7, 0, 1, 2, 99])
    check(folder, b'a\nb c\n\tx\n', 'string', 'int64', strings, key_index=WHOLE, value_index=NUMBER)
    check(folder, b'a\nb c\nd', 'string', 'int64', strings, key_index=WHOLE, value_index=NUMBER, offset=-1)
    check(folder, b'a\r\nb c\r\n', 'string', 'int64', strings, key_index=WHOLE, value_index=NUMBER)
    check(folder, b'a\nb\nc\nd\n', 'int64', 'string', numbers, key_index=NUMBER, value_index=WHOLE, offset=2)
    check(folder, b'3\n-7\n +2 \n', 'int64', 'int64', numbers, key_index=WHOLE, value_index=NUMBER)
    check(folder, b'3\n-7\n2147483647\n', 'int32', 'string', numbers.astype('i4'), key_index=WHOLE, value_index=WHOLE)
    check(folder, b'3\t-7\n-2147483648\t2\n', 'int32', 'int32', numbers.astype('i4'), key_index=0, value_index=1)
    check(folder, b'a 1\nb 2 more\n 3\n', 'string', 'int64', strings, key_index=0, value_index=1, delimiter=' ')
    check(folder, b'1.5,x,a\n-2e3,,b c\n inf ,,q\nnan,,z\n', 'string', 'float32', strings, key_index=2, value_index=0, delimiter=',')
    check(folder, b'1.5,x,3\n0.1,,-7\n', 'int64', 'float64', numbers, key_index=2, value_index=0, delimiter=',')
    check(folder, b'3\tthree\n-7\t\n', 'int64', 'string', numbers, key_index=0, value_index=1)
    check(folder, b'a\t1\na\t1\n', 'string', 'int64', strings, key_index=0, value_index=1)
    for size in 1, 2, 3:
        check(folder, b'a\nb c\nd\n', 'string', 'int64', strings, key_index=WHOLE, value_index=NUMBER, vocab_size=size)
    # The lines behind the last one that is read may be wrong.
    check(folder, b'a\nb c\n\n', 'string', 'int64', strings, key_index=WHOLE, value_index=NUMBER, vocab_size=2)


def check_errors(folder):
    x, numbers = np.array([b'a', b'b'], object), np.array([1, 2])
    for content, words, attrs in (
            (b'a\n\nb\n', 'words.txt:2: error: node \'fill\' (InitializeTableFromTextFileV2): the line is empty', {}),
            (b'a\nb\n', "words.txt:3: error: node 'fill' (InitializeTableFromTextFileV2): the file ends here; attribute vocab_size promises 5", dict(vocab_size=5)),
            (b'a\nb\na\n', "node 'fill' (InitializeTableFromTextFileV2): the table gets two different values for one key: elements 0 and 2", {}),
            (b'', 'the table gets no line of the file', {}),
            (b'a\tb\nc\n', 'words.txt:2: error: node \'fill\' (InitializeTableFromTextFileV2): the line has 1 columns, and the key is column 1', dict(key_index=1))):
        check(folder, content, 'string', 'int64', x, words, **{'key_index': WHOLE, 'value_index': NUMBER, **attrs})
    for content, words in (b'a\t1\nb\t1x\n', "words.txt:2: error: node 'fill' (InitializeTableFromTextFileV2): the value '1x' is no int64"), \
            (b'a\t\n', "the value '' is no int64"), (b'a\t9223372036854775808\n', 'is no int64'), (b'a\t1.0\n', 'is no int64'):
        check(folder, content, 'string', 'int64', x, words, key_index=0, value_index=1)
    check(folder, b'2147483648\n', 'int32', 'string', numbers.astype('i4'), "the key '2147483648' is no int32", key_index=WHOLE, value_index=WHOLE)
    check(folder, b'a\tx1\n', 'string', 'float32', x, "the value 'x1' is no float32", key_index=0, value_index=1)
    check(folder, b'1\n', 'int32', 'string', numbers.astype('i4'), 'the key is the number of the line, which is no int32', key_index=NUMBER, value_index=WHOLE)
    check(folder, b'1\n', 'string', 'float32', x, 'the value is the whole line, which is no float32', key_index=WHOLE, value_index=WHOLE)


def check_numbers(folder):
    """Numbers of lines that are no int64, where TensorFlow's wrap around."""
    most = 2**63 - 1
    path = write(folder, graph(text(folder, b'a\nb\nc\n'), 'string', 'int64', np.array([b'a'], object), key_index=WHOLE, value_index=NUMBER, offset=most - 1)[0])
    refuse("words.txt:3: error: node 'fill' (InitializeTableFromTextFileV2): the number of the line is too large", 'run', '-q', path, '--outputs', 'n')


# ---- which files are read ----

def check_places(folder):
    """In the model's folder, by a name that counts from there or an absolute one; not elsewhere, even through links."""
    x, home = np.array([b'a', b'z'], object), f'{folder}/home'
    os.makedirs(f'{home}/sub')
    other = text(folder, b'a\nb\n')
    shutil.copy(other, f'{home}/sub/in.txt')
    os.symlink(other, f'{home}/out.txt')
    os.symlink('sub/in.txt', f'{home}/link.txt')
    attrs = dict(key_index=WHOLE, value_index=NUMBER)
    want = graph(other, 'string', 'int64', x, **attrs)[1]
    for path in 'sub/in.txt', './sub/../sub/in.txt', 'link.txt', f'{home}/sub/in.txt':
        g = graph(path, 'string', 'int64', x, **attrs)[0]
        expect(path, run(folder, write(home, g), 'x', x, '--outputs', 'n,y'), want)
    saved(folder, 'x', x)
    for path, words in (other, 'does not lie in the folder of the model'), ('../words.txt', 'does not lie in the folder of the model'), \
            ('out.txt', 'does not lie in the folder of the model'), ('none.txt', 'No such file or directory'), ('sub', 'it is no file'):
        g = graph(path, 'string', 'int64', x, **attrs)[0]
        refuse(words, 'run', '-q', write(home, g), '--outputs', 'y', '--input', f'x=@{folder}/x.npy')
    with tf.Graph().as_default() as g:
        table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        fill = tf.raw_ops.InitializeTableFromTextFileV2(table_handle=table, filename=v1.placeholder(tf.string, [], 'name'), name='fill', **attrs)
        with tf.control_dependencies([fill]):
            tf.raw_ops.LookupTableSizeV2(table_handle=table, name='n')
    refuse('op InitializeTableFromTextFileV2 fills a table from a file whose name the model does not state', 'run', write(home, g),
           '--outputs', 'n', code=4)


# ---- SavedModels ----

class Module(tf.Module):
    def __init__(self, path):
        super().__init__()
        index = tf.lookup.TextFileIndex
        self.ids = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            path, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER), -1)
        self.words = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            path, tf.int64, index.LINE_NUMBER, tf.string, index.WHOLE_LINE), '?')

    @tf.function(input_signature=[tf.TensorSpec([3], tf.string, name='x')])
    def __call__(self, x):
        ids = self.ids.lookup(x)
        return {'ids': ids, 'next': self.words.lookup(ids + 1), 'size': self.ids.size()}


def outputs_of(module, x):
    results = module(tf.constant(x))
    return [results[n].numpy() for n in sorted(results)]


def check_saved(folder):
    x, path = np.array([b'a', b'c', b'none'], object), f'{folder}/saved'
    module = Module(text(folder, b'a\nb\nc\nd\n'))
    want = outputs_of(module, x)
    tf.saved_model.save(module, path)
    shutil.move(path, f'{folder}/moved')
    os.remove(f'{folder}/words.txt')
    path = f'{folder}/moved'
    for more in (), ('--threads', '2'), ('--guard', 'behind'):
        expect('saved', run(folder, path, INPUT, x, *more), want)
    # A program of the cache is that of the file's content.
    cache = {'HALFTONE_CACHE_MODE': 'rw', 'HALFTONE_CACHE_DIR': f'{folder}/cache'}
    for _ in range(2):
        expect('cached', run(folder, path, INPUT, x, **cache), want)
    with open(f'{path}/assets/words.txt', 'w') as f:
        f.write('c\na\nb\n')
    got = run(folder, path, INPUT, x, **cache)
    expect('changed', got, outputs_of(tf.saved_model.load(path).signatures['serving_default'], x))
    os.remove(f'{path}/assets/words.txt')
    refuse("assets/words.txt: error: node '", 'run', '-q', path, '--input', f'{INPUT}=@{folder}/{INPUT}.npy')
    refuse('the file of the table is not read: No such file or directory', 'run', '-q', path, '--input', f'{INPUT}=@{folder}/{INPUT}.npy')


def check_keras(folder):
    """Keras's layer of strings, whose vocabulary is a file."""
    layers = environment.keras().layers
    lookup = layers.StringLookup(vocabulary=text(folder, b'red\ngreen\nblue\n'))

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([3], tf.string, name='x')])
        def __call__(self, x):
            return {'y': self.lookup(x)}
    model = Model()
    model.lookup = lookup
    x = np.array([b'blue', b'pink', b'red'], object)
    tf.saved_model.save(model, f'{folder}/keras')
    expect('StringLookup', run(folder, f'{folder}/keras', INPUT, x), outputs_of(model, x))


def main():
    argparse.ArgumentParser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        check_forms(folder)
        check_errors(folder)
        check_numbers(folder)
        check_places(folder)
        check_saved(folder)
        check_keras(folder)
    print('tables from files agree with TensorFlow')


main()
