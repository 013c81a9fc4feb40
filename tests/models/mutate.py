#!/usr/bin/env python3
"""Checks that the model tests can see: changes one thing of a model at a time and expects its test to
fail.

Changes one activation (into a sigmoid, or out of a fused op), the values of one weight tensor (moved
on by one), or one padding (one row and column from the end to the beginning, in a Pad any other
dimension too), runs the tool on the changed model and compares with the reference of the unchanged
one.  A change that the comparison does not see is reported.  --sample N tries N random changes of
each model (the kind of the first differs from model to model), --all every one.  Of all models every other one
is tried in turn; with HALFTONE_LONG=1 each.  That the unchanged model passes is checked here only for a model that is
named: otherwise the tests of models show it, which compute the same.
"""
import argparse
import base64
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f'{HERE}/../tools']
import environment
from run import FULL, Failed, absent, judge, model_path, run_artefact
from table import MODELS

ACTIVATIONS = {'Relu', 'Relu6', 'Elu', 'LeakyRelu', 'Tanh', 'Sigmoid', 'Prelu', 'Softmax', 'Erf'}
WINDOWS = {'Conv2D', 'DepthwiseConv2dNative', '_FusedConv2D', 'FusedDepthwiseConv2dNative',
           'MaxPool'}
KINDS = 'activation', 'weight', 'padding'
PADS = {'Pad', 'PadV2', 'MirrorPad'}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('names', nargs='*', metavar='NAME')
    p.add_argument('--sample', type=int, default=3)
    p.add_argument('--all', action='store_true')
    p.add_argument('--seed', type=int, default=1)
    return p.parse_args()


# ---- GraphDef ----

class GraphDef:
    """A GraphDef, or a SavedModel frozen to one."""

    def __init__(self, row, path):
        import oracle
        self.proto = (oracle.frozen_saved_model(path, row.outputs)
                      if row.oracle == 'savedmodel' else oracle.read_graphdef(path))
        self.nodes = {n.name: n for n in self.proto.node}

    def live(self, outputs):
        seen, todo = set(), [o.split(':')[0] for o in outputs]
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo += [i.lstrip('^').split(':')[0] for i in self.nodes[n].input]
        return [n for n in self.proto.node if n.name in seen]

    def changes(self, outputs):
        import tensorflow as tf
        for n in self.live(outputs):
            if n.op in ACTIVATIONS:
                yield 'activation', n.name
            elif n.op in WINDOWS and shiftable(n.attr['padding'].s.decode(),
                                               self.window(n), list(n.attr['strides'].list.i)):
                yield 'padding', n.name
            elif n.op in PADS and self.source(n.input[1]).op == 'Const':
                yield 'padding', n.name
            elif n.op == 'Const' and n.attr['dtype'].type == tf.float32.as_datatype_enum:
                value = tf.make_ndarray(n.attr['value'].tensor)
                if value.size > 1 and value.min() != value.max():
                    yield 'weight', n.name

    def source(self, name):
        n = self.nodes[name.split(':')[0]]
        while n.op in ('Identity', 'ReadVariableOp'):
            n = self.nodes[n.input[0].split(':')[0]]
        return n

    def window(self, n):
        import tensorflow as tf
        if n.op == 'MaxPool':
            return list(n.attr['ksize'].list.i)[1:3]
        source = self.source(n.input[1])
        return list(tf.make_ndarray(source.attr['value'].tensor).shape[:2]) if source.op == 'Const' \
            else [1, 1]

    def change(self, kind, name):
        import tensorflow as tf
        n = self.nodes[name]
        if kind == 'activation':
            n.op = 'Tanh' if n.op == 'Sigmoid' else 'Sigmoid'
            for k in [k for k in n.attr if k != 'T']:
                del n.attr[k]
            del n.input[1:]
        elif kind == 'weight' or n.op in PADS:
            value = (n if kind == 'weight' else self.source(n.input[1])).attr['value'].tensor
            change = moved if kind == 'weight' else repadded
            value.CopyFrom(tf.make_tensor_proto(change(tf.make_ndarray(value))))
        else:
            pads = shifted(self.window(n), list(n.attr['strides'].list.i)[1:3])
            n.attr['padding'].s = b'EXPLICIT'
            n.attr['explicit_paddings'].list.i[:] = pads

    def write(self, folder):
        with open(f'{folder}/m.pb', 'wb') as f:
            f.write(self.proto.SerializeToString())
        return f'{folder}/m.pb'


# ---- TF.js ----

class TfJs:
    def __init__(self, row, path):
        with open(path) as f:
            self.json = json.load(f)
        self.nodes = {n['name']: n for n in self.json['modelTopology']['node']}
        self.weights, self.data = {}, bytearray()
        for group in self.json['weightsManifest']:
            for p in group['paths']:
                with open(os.path.join(os.path.dirname(path), p), 'rb') as f:
                    self.data += f.read()
        offset = 0
        for w in (w for g in self.json['weightsManifest'] for w in g['weights']):
            dtype = w.get('quantization', {}).get('dtype', w['dtype'])
            size = {'float32': 4, 'int32': 4, 'float16': 2, 'uint8': 1, 'bool': 1, 'uint16': 2}[dtype]
            count = 1
            for d in w['shape']:
                count *= d
            self.weights[w['name']] = (w['dtype'], w['shape'], offset, count, size)
            offset += size * count

    def changes(self, outputs):
        import numpy as np
        for n in self.json['modelTopology']['node']:
            attr = n.get('attr', {})
            fused = [base64.b64decode(s).decode() for s in
                     attr.get('fused_ops', {}).get('list', {}).get('s', [])]
            if n['op'] in ACTIVATIONS or (set(fused) & ACTIVATIONS):
                yield 'activation', n['name']
            if n['op'] in WINDOWS and shiftable(
                    base64.b64decode(attr['padding']['s']).decode(), self.window(n),
                    [int(i) for i in attr['strides']['list']['i']]):
                yield 'padding', n['name']
            if n['op'] in PADS and n['input'][1] in self.weights:
                yield 'padding', n['name']
            if n['op'] == 'Const' and n['name'] in self.weights:
                dtype, _, offset, count, size = self.weights[n['name']]
                raw = np.frombuffer(self.data, f'u{size}', count, offset)
                if dtype == 'float32' and count > 1 and raw.min() != raw.max():
                    yield 'weight', n['name']

    def window(self, n):
        if n['op'] == 'MaxPool':
            return [int(i) for i in n['attr']['ksize']['list']['i']][1:3]
        return self.weights[n['input'][1].split(':')[0]][1][:2]

    def change(self, kind, name):
        import numpy as np
        n = self.nodes[name]
        if kind == 'activation':
            if n['op'] in ACTIVATIONS:
                n['op'] = 'Tanh' if n['op'] == 'Sigmoid' else 'Sigmoid'
                n['input'] = n['input'][:1]
                n['attr'] = {'T': n['attr']['T']} if 'T' in n.get('attr', {}) else {}
            else:  # only its bias stays
                ops = n['attr']['fused_ops']['list']['s']
                ops[1] = base64.b64encode(b'Elu' if base64.b64decode(ops[1]) != b'Elu'
                                          else b'Relu').decode()
                if len(n['input']) > 3:
                    n['input'] = n['input'][:3]
                    n['attr']['num_args']['i'] = '1'
        elif kind == 'weight' or n['op'] in PADS:
            where, change = (name, moved) if kind == 'weight' else (n['input'][1], repadded)
            _, shape, offset, count, size = self.weights[where]
            raw = np.frombuffer(self.data, f'u{size}', count, offset).reshape(shape)
            self.data[offset:offset + size * count] = change(raw).tobytes()
        else:
            strides = [int(i) for i in n['attr']['strides']['list']['i']][1:3]
            n['attr']['padding']['s'] = base64.b64encode(b'EXPLICIT').decode()
            n['attr']['explicit_paddings'] = {
                'list': {'i': [str(i) for i in shifted(self.window(n), strides)]}}

    def write(self, folder):
        groups = self.json['weightsManifest']
        groups[0]['weights'] = [w for g in groups for w in g['weights']]
        groups[0]['paths'] = ['m.bin']
        del groups[1:]
        with open(f'{folder}/m.json', 'w') as f:
            json.dump(self.json, f)
        with open(f'{folder}/m.bin', 'wb') as f:
            f.write(self.data)
        return f'{folder}/m.json'


# ---- changes ----

def shiftable(padding, window, strides):
    return padding == 'SAME' and any(k > s for k, s in zip(window, strides[1:3]))


def shifted(window, strides):
    """The first or last SAME padding that has one more at the beginning, for an input that the
    strides divide."""
    out = []
    for k, s in zip(window, strides):
        total = max(k - s, 0)
        before = total // 2 + (total > 0)
        out += [before, total - before]
    return [0, 0, *out, 0, 0]


def repadded(pads):
    """Pad's second operand with one more at the beginning, or else at the end."""
    import numpy as np
    out = np.array(pads, np.int64)
    for row in out:
        if row.any():
            row += [1, -1] if row[1] else [-1, 1]
    return out.astype(pads.dtype)


def moved(x):
    """The values shifted by one along the last axis on which they differ."""
    import numpy as np
    for axis in reversed(range(x.ndim)):
        y = np.roll(x, 1, axis)
        if (x != y).any():
            return np.ascontiguousarray(y)
    raise AssertionError('all values are equal')


def agrees(row, got, want):
    allowed = {n: row.tolerance if b.dtype.kind == 'f' else 0 for n, b in want.items()}
    return not judge(got, want, allowed)[1]


def survives(row, kind, name, path, samples, wants):
    """Whether the test passes with the change; kind None: without any change."""
    model = (TfJs if row.oracle.startswith('tfjs') else GraphDef)(row, path)
    if kind:
        model.change(kind, name)
    with tempfile.TemporaryDirectory() as d:
        try:
            return all(agrees(row, got, want) for got, want in zip(run_artefact(row, model.write(d), samples, FULL), wants))
        except Failed as e:
            if 'exits with 4' in str(e) or 'exits with 70' in str(e):
                raise
            return False


def check(row, a, i):
    """(noticed, not noticed), for the i-th model."""
    import numpy as np
    import data
    import oracle
    path, samples = model_path(row), [make(data) for make in (row.inputs, *row.others)]
    wants = oracle.references(row, path, samples)
    model = (TfJs if row.oracle.startswith('tfjs') else GraphDef)(row, path)
    changes = list(model.changes(row.outputs))
    r = np.random.default_rng(a.seed)
    if not a.all:
        pick = []
        for kind in (*KINDS[i % len(KINDS):], *KINDS[:i % len(KINDS)]):
            of_kind = [c for c in changes if c[0] == kind]
            if of_kind:
                pick.append(of_kind[int(r.integers(len(of_kind)))])
        rest = [c for c in changes if c not in pick]
        r.shuffle(rest)
        changes = (pick + [tuple(c) for c in rest])[:a.sample]
    if a.names and not survives(row, None, None, path, samples, wants):
        print(f'FAIL {row.name}: fails as it is, so that nothing can be told', flush=True)
        return 0, 1
    seen = unseen = 0
    for kind, name in changes:
        try:
            alive = survives(row, kind, name, path, samples, wants)
        except Failed as e:
            print(f'FAIL {row.name}: {kind} of {name}: {str(e)[:300]}', flush=True)
            unseen += 1
            continue
        if alive:
            print(f'FAIL {row.name}: nothing notices a changed {kind} of {name}', flush=True)
        seen, unseen = seen + (not alive), unseen + alive
    print(f'{row.name}: {seen} of {seen + unseen} changes noticed', flush=True)
    return seen, unseen


def main():
    a = arguments()
    environment.enter_venv(onednn=False)
    print(f'HALFTONE_TURN={environment.TURN}')
    passed = failed = 0
    for i, row in enumerate(MODELS):
        asked = row.name in a.names if a.names else environment.LONG or i % 2 == environment.TURN % 2
        if not asked or absent(row) or not row.converts:  # selections leave out much of what changes
            continue
        environment.obtain(row.package)
        seen, unseen = check(row, a, i)
        passed, failed = passed + seen, failed + unseen
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0 if passed else environment.SKIPPED


if __name__ == '__main__':
    sys.exit(main())
