#!/usr/bin/env python3
"""Valid models that few tools write, against TensorFlow and TF.js.

Old GraphDefs whose placeholders state [] for "unknown"; Switch and Merge by a known predicate; TF.js models
with biases that broadcast and with constants in functions.  --seed takes another seed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment

HERE = os.path.dirname(os.path.abspath(__file__))
FAILED = []


def tool(*args):
    return subprocess.run([environment.TOOL, *args], capture_output=True, text=True)


def run(path, feeds, outputs, *more):
    """Outputs of the tool by name, or the text of its error."""
    with tempfile.TemporaryDirectory() as d:
        np.savez(f'{d}/x.npz', **feeds)
        args = [a for k in feeds for a in ('--input', f'{k}=@{d}/x.npz#{k}')]
        done = tool('run', path, '-o', f'{d}/y.npz', '--policy', 'must_keep_origin_dtype',
                    '--outputs', ','.join(outputs), *args, *more)
        if done.returncode:
            return done.stderr
        with np.load(f'{d}/y.npz') as z:
            return {n: z[n] for n in z.files}


def check(what, got, want):
    if isinstance(got, str):
        FAILED.append(f'{what}: {got.strip()}')
        return
    for name, y in want.items():
        g = got.get(name)
        if g is None or g.shape != y.shape or not np.allclose(g, y, rtol=1e-5, atol=1e-6):
            FAILED.append(f'{what}: {name} is {g!r}, expected {y!r}')


def refused(what, got, text):
    if not isinstance(got, str) or text not in got:
        FAILED.append(f'{what}: {got}; expected "{text}"')


# ---- GraphDefs ----

def tensorflow(graph_def, feeds, outputs):
    with tf.Graph().as_default() as g:
        tf.import_graph_def(graph_def, name='')
        with tf.compat.v1.Session(graph=g) as s:
            return dict(zip(outputs, s.run([o if ':' in o else o + ':0' for o in outputs],
                                           {k + ':0': v for k, v in feeds.items()})))


def written(d, graph_def):
    with open(f'{d}/g.pb', 'wb') as f:
        f.write(graph_def.SerializeToString())
    return f'{d}/g.pb'


def old_producers(r, d):
    """Up to version 21, the shape [] of a placeholder means unknown; later it is that of a scalar."""
    for producer in (8, 21, 22, 27):
        with tf.Graph().as_default() as g:
            x = tf.compat.v1.placeholder(tf.float32, [], 'x')
            tf.identity(x * 2 + 1, 'y')
            graph = g.as_graph_def()
        graph.versions.producer = producer
        shape = [int(k) for k in r.integers(1, 6, r.integers(1, 4))]
        x = r.normal(size=shape).astype(np.float32)
        path = written(d, graph)
        if producer < 22:
            got = run(path, {'x': x}, ['y'], '--input-shape', 'x:' + ','.join(map(str, shape)))
            check(f'producer {producer}', got, tensorflow(graph, {'x': x}, ['y']))
        else:
            x = np.float32(r.normal())
            check(f'producer {producer}', run(path, {'x': x}, ['y']), tensorflow(graph, {'x': x}, ['y']))


def conditional(r, pred, feed_default):
    """A graph of nested branches with the predicate pred."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, [3, 4], 'x')
        p = tf.constant(pred, name='p')
        if feed_default:
            p = v1.placeholder_with_default(p, [], name='learning')
        p = tf.identity(p)
        false, true = tf.raw_ops.Switch(data=x, pred=p)
        with g.control_dependencies([true]):
            scale = tf.constant(r.normal(size=4).astype(np.float32))
        inner = tf.constant(bool(r.integers(2)), name='q')
        inner_false, inner_true = tf.raw_ops.Switch(data=true * scale, pred=inner)
        joined, which = tf.raw_ops.Merge(inputs=[tf.exp(inner_false), tf.tanh(inner_true)])
        y, index = tf.raw_ops.Merge(inputs=[false + 1, joined - 2])
        tf.identity(y * 3, 'y')
        tf.identity(index, 'index')
        return g.as_graph_def()


def switches(r, d):
    for pred in (False, True):
        for feed_default in (False, True):
            graph = conditional(r, pred, feed_default)
            x = r.normal(size=(3, 4)).astype(np.float32)
            want = tensorflow(graph, {'x': x}, ['y', 'index'])
            check(f'Switch by {pred}, {feed_default}', run(written(d, graph), {'x': x}, ['y', 'index']), want)


# ---- TF.js ----

def attr(**values):
    kinds = {str: lambda v: {'s': v}, list: lambda v: {'list': {'i': [str(i) for i in v]}},
             bool: lambda v: {'b': v}, int: lambda v: {'i': str(v)}, dict: lambda v: v}
    return {k: kinds[type(v)](v) for k, v in values.items()}


FLOAT = {'type': 'DT_FLOAT'}


def node(name, op, *inputs, **attrs):
    return {'name': name, 'op': op, 'input': list(inputs), 'attr': attr(**attrs)}


def constant(name, shape):
    shape = {'dim': [{'size': str(k)} for k in shape]}
    return node(name, 'Const', dtype=FLOAT, value={'tensor': {'dtype': 'DT_FLOAT', 'tensorShape': shape}})


def placeholder(name, shape):
    return node(name, 'Placeholder', dtype=FLOAT, shape={'shape': {'dim': [{'size': str(k)} for k in shape]}})


def write_tfjs(d, nodes, weights, functions=()):
    """weights: (name, array), in the order of the shard."""
    with open(f'{d}/w.bin', 'wb') as f:
        for _, w in weights:
            f.write(w.tobytes())
    model = {'format': 'graph-model', 'modelTopology': {
        'node': nodes, 'library': {'function': list(functions)}, 'versions': {'producer': 1882}},
        'weightsManifest': [{'paths': ['w.bin'], 'weights': [
            {'name': n, 'shape': list(w.shape), 'dtype': 'float32'} for n, w in weights]}]}
    with open(f'{d}/model.json', 'w') as f:
        json.dump(model, f)
    return f'{d}/model.json'


def biases(r, d):
    import oracle
    x = r.normal(size=(1, 5, 6, 3)).astype(np.float32)
    filters = r.normal(size=(3, 3, 3, 4)).astype(np.float32)
    for shape in ((4,), (1, 1, 1, 1), (1, 1, 4), (1, 4), (1,), ()):
        b = r.normal(size=shape).astype(np.float32)
        conv = node('conv', '_FusedConv2D', 'x', 'f', 'b', T=FLOAT, strides=[1, 1, 1, 1], padding='U0FNRQ==',
                    data_format='TkhXQw==', dilations=[1, 1, 1, 1], num_args=1,
                    fused_ops={'list': {'s': ['Qmlhc0FkZA==', 'UmVsdQ==']}})
        nodes = [placeholder('x', x.shape), constant('f', filters.shape), constant('b', shape), conv,
                 node('y', 'BiasAdd', 'conv', 'b', T=FLOAT, data_format='TkhXQw==')]
        path = write_tfjs(d, nodes, [('f', filters), ('b', b)])
        if shape == (1,):
            refused('a bias of shape [1]', run(path, {'x': x}, ['y']), 'bias')
            continue
        check(f'bias of shape {shape}', run(path, {'x': x}, ['y']), oracle.tfjs_cpu(path, {'x': x}, ['y']))


def function(name, scale, shape):
    return {'signature': {'name': name, 'inputArg': [{'name': 'a', 'type': 'DT_FLOAT'}],
                          'outputArg': [{'name': 'r', 'type': 'DT_FLOAT'}]},
            'nodeDef': [constant(scale, shape), node('m', 'Mul', 'a', f'{scale}:output:0', T=FLOAT)],
            'ret': {'r': 'm:z:0'}}


def call(name, f, x):
    types = {'list': {'type': ['DT_FLOAT']}}
    return node(name, 'PartitionedCall', x, Tin=types, Tout=types, f={'func': {'name': f}})


def function_constants(r, d):
    x, s, t = (r.normal(size=(2, 3)).astype(np.float32) for _ in range(3))
    functions = [function('double', 'scale', s.shape), function('half', 'other', t.shape)]
    nodes = [placeholder('x', x.shape), constant('scale', s.shape), call('c', 'double', 'x'),
             call('e', 'half', 'c'), node('y', 'AddV2', 'e', 'scale', T=FLOAT)]
    path = write_tfjs(d, nodes, [('scale', s), ('other', t)], functions)
    check('one weight for a name', run(path, {'x': x}, ['y']), {'y': x * s * t + s})
    u = r.normal(size=(2, 3)).astype(np.float32)
    path = write_tfjs(d, nodes, [('scale', s), ('scale', u), ('other', t)], functions)
    check('a weight for each constant', run(path, {'x': x}, ['y']), {'y': x * u * t + s})
    os.makedirs(f'{d}/again', exist_ok=True)
    done = tool('convert', path, '-o', f'{d}/again/model.json')
    if done.returncode:
        FAILED.append(f'convert: {done.stderr}')
    else:
        check('converted', run(f'{d}/again/model.json', {'x': x}, ['y']), {'y': x * u * t + s})
    path = write_tfjs(d, nodes, [('scale', s)], functions)
    refused('a constant without weight', run(path, {'x': x}, ['y']), 'no weight')


def further_members(r, d):
    """TF.js reads the members that it knows; some tools leave others."""
    x = r.normal(size=(2, 3)).astype(np.float32)
    nodes = [{**n, 'inputs': n['input'], 'outputs': {'a': [1]}} for n in (placeholder('x', x.shape), node('y', 'AddV2', 'x', 'x', T=FLOAT))]
    path = write_tfjs(d, nodes, [])
    check('members that TF.js does not know', run(path, {'x': x}, ['y']), {'y': x + x})
    said = tool('compile', path, '-o', f'{d}/m.htx').stderr
    if said.count('has no such field') != 1 or 'node[0].inputs' not in said:
        FAILED.append(f'members that TF.js does not know: {said}')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--seed', type=int, default=20261)
    seed = p.parse_args().seed
    environment.enter_venv()
    sys.path.insert(0, f'{HERE}/../models')
    global np, tf
    import numpy as np
    import tensorflow as tf
    r = np.random.default_rng(seed)
    for cases in (old_producers, switches, biases, function_constants, further_members):
        with tempfile.TemporaryDirectory() as d:
            cases(r, d)
    print(*FAILED, sep='\n')
    print(f'seed {seed}: {len(FAILED)} failed')
    return 1 if FAILED else 0


if __name__ == '__main__':
    sys.exit(main())
