#!/usr/bin/env python3
"""Tensors in the middle of random graphs, fed by name: the outputs are TensorFlow's with the same feed.
Keys of a SavedModel's signatures name its inputs and outputs.  Inputs with defaults are fed with other sizes.

Exit code 77: nothing to test with.
"""
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

GRAPHS = 12
environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1


def tool(*args, code=0):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300,
                       env={**os.environ, 'HALFTONE_POLICY': ''})
    if r.returncode != code:
        sys.exit(f'{args}: ended with {r.returncode}\n{r.stderr}')
    return r.stdout + r.stderr


def random_graph(r):
    """A dozen nodes over two placeholders of open batch; every tensor is float32[batch, 4]."""
    values = [v1.placeholder(tf.float32, [None, 4], name=f'x{i}') for i in range(2)]
    for i in range(12):
        a, b = r.choice(values), r.choice(values)
        kind = r.randrange(4)
        if kind == 0:
            values.append(tf.add(a, b, name=f'add{i}'))
        elif kind == 1:
            values.append(tf.matmul(a, tf.constant(np.random.RandomState(i).rand(4, 4).astype('f')), name=f'mul{i}'))
        elif kind == 2:
            values += tf.split(tf.concat([a, b], 1, name=f'cat{i}'), 2, axis=1, name=f'split{i}')
        else:
            values.append(tf.nn.relu(a, name=f'relu{i}'))
    return values


def name(t):
    return t.name[:-2] if t.name.endswith(':0') else t.name


def random_feeds(folder):
    checked = 0
    plain = v1.ConfigProto()  # Grappler rewrites users of x + x, and then ignores the feed
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    plain.graph_options.optimizer_options.opt_level = -1
    for seed in range(GRAPHS):
        r, n = random.Random(seed), 1 + seed % 3
        with v1.Graph().as_default() as g:
            values = random_graph(r)
            path = os.path.join(folder, f'{seed}.pb')
            with open(path, 'wb') as f:
                f.write(g.as_graph_def().SerializeToString())
            outputs = list({name(t): t for t in (values[-1], values[-3], r.choice(values[2:]))}.values())
            for _ in range(4):
                fed = {t: np.random.RandomState(seed).rand(n, 4).astype('f') for t in r.sample(values, r.randint(1, 3))}
                every = {**{t: np.ones((n, 4), 'f') for t in values[:2]}, **fed}
                with v1.Session(graph=g, config=plain) as s:
                    want = s.run(outputs, every)
                args = []
                for i, (t, v) in enumerate(every.items()):
                    np.save(os.path.join(folder, f'{i}.npy'), v)
                    args += ['--input', f'{name(t)}=@{os.path.join(folder, f"{i}.npy")}']
                out = os.path.join(folder, 'y.npz')
                text = tool('run', *args, '--outputs', ','.join(map(name, outputs)), '-o', out, path)
                with np.load(out) as got:
                    for t, w in zip(outputs, want):
                        error = np.abs(got[name(t)] - w).max() / max(np.abs(w).max(), 1)
                        if got[name(t)].shape != w.shape or error > 1e-5:
                            sys.exit(f'seed {seed}, fed {[name(t) for t in fed]}: {name(t)} is off by {error}\n{text}')
                checked += 1
    return checked


class Twice(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name='picture')])
    def serve(self, picture):
        return {'twice': picture * 2, 'sum': tf.reduce_sum(picture, 1)}


def keys(folder):
    model, x = os.path.join(folder, 'saved'), os.path.join(folder, 'x.npy')
    m = Twice()
    tf.saved_model.save(m, model, signatures={'serving_default': m.serve, 'other': m.serve, 'third': m.serve})
    np.save(x, np.arange(6, dtype='f').reshape(2, 3))
    want, out = m.serve(np.load(x)), os.path.join(folder, 'ref.npz')
    np.savez(out, **{k: v.numpy() for k, v in want.items()})
    tool('run', '--input', f'picture=@{x}', '--expect', out, model)
    tool('run', '--input', f'picture=@{x}', '--outputs', 'sum', '--tol', 'sum:0', '--expect', out, model)
    tool('run', '--input-shape', 'picture:2,3', '--outputs', 'twice,sum', model)
    for made in 'm.hir', 'm.htx':
        made = os.path.join(folder, made)
        if made.endswith('htx'):
            tool('compile', '--input-shape', 'picture:2,3', '-o', made, model)
        else:
            tool('convert', '-o', made, model)
        tool('run', '--input', f'picture=@{x}', '--expect', out, made)
    error = tool('inspect', '--signature', 'predict', model, code=2)
    for signature in 'serving_default', 'other', 'third':
        if f"'{signature}'" not in error:
            sys.exit(f'the signatures are not named: {error}')


def same_as(g, outputs, fed, folder, model, *options):
    """Compares a run with TensorFlow's of the same feeds; returns what the tool prints."""
    out = os.path.join(folder, 'default.npz')
    with v1.Session(graph=g) as s:
        want = s.run(outputs, fed)
    said = tool('run', *(o for t in fed for o in ('--input', f'{t.op.name}=@{os.path.join(folder, t.op.name)}.npy')), *options, '-o', out, model)
    with np.load(out) as got:
        for t, w in zip(outputs, want):
            if got[name(t)].shape != w.shape or not np.allclose(got[name(t)], w, 1e-5, 1e-5):
                sys.exit(f'fed {[name(f) for f in fed]}: {name(t)} is {got[name(t)]}, not {w}')
    return said


def defaults(folder):
    """One program for inputs of open sizes with a default, which is constant or computed: fed with other sizes than the default's.
    And the model, with and without feeds."""
    r = np.random.default_rng(int.from_bytes(os.urandom(4), 'little'))
    path, program = (os.path.join(folder, f) for f in ('default.pb', 'default.htx'))
    with v1.Graph().as_default() as g:
        z = v1.placeholder(tf.float32, [None, 4], name='z')
        x = v1.placeholder_with_default(np.ones((3, 4), 'f'), [None, 4], name='x')
        k = v1.placeholder_with_default(tf.concat([z, z * 2], 0), [None, None], name='k')
        outputs = [tf.identity(y, name=f'y{i}') for i, y in enumerate(
            (tf.nn.relu(x) @ tf.ones([4, 2]), tf.nn.softmax(x, 0), tf.reduce_sum(k, 1) * 2., tf.shape(k), tf.reduce_sum(z, 0)))]
        with open(path, 'wb') as f:
            f.write(g.as_graph_def().SerializeToString())
        tool('compile', '-q', '--input-shape', 'x:?,4', '--outputs', ','.join(map(name, outputs)), '-o', program, path)
        for rows in r.permutation(7)[:4] + 1:
            fed = {x: r.standard_normal((rows, 4)).astype('f'), z: r.standard_normal((rows, 4)).astype('f'),
                   k: r.standard_normal((rows, r.integers(1, 9))).astype('f')}
            for t, v in fed.items():
                np.save(os.path.join(folder, f'{t.op.name}.npy'), v)
            same_as(g, outputs, fed, folder, program)
            # The model computes or has the defaults of what it is not given.
            for left in (x,), (k,), (x, k):
                said = same_as(g, outputs, {t: v for t, v in fed.items() if t not in left}, folder, path, '--outputs', ','.join(map(name, outputs)))
                if 'random' in said:
                    sys.exit(f'a default is random: {said}')


def main():
    with tempfile.TemporaryDirectory() as folder:
        print(random_feeds(folder), 'feeds as in TensorFlow')
        keys(folder)
        defaults(folder)


main()
