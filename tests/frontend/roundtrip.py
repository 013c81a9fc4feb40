#!/usr/bin/env python3
"""Imports every model of $HALFTONE_SHARED and exports it again; TensorFlow's protobuf must find the
same message, up to the order of nodes and functions.

  roundtrip.py [TOOL]      the tool is build/tests/import_export

Wire → wire, text → wire, wire → text, and the exported message once more (wire → text → wire).  For
TF.js models under $HALFTONE_MODELS (see scripts/models): model.json → model.json gives the same
graph and weights.  Exit code 77: nothing to test with.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

# Invalid on purpose: a node of its function takes its own result.
REFUSED = {'micro/grappler/function_error.pbtxt'}


def find(root, suffixes):
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            if name.endswith(suffixes):
                yield os.path.join(folder, name)


def run(tool, how, pairs):
    """Status and message of each pair (in, out)."""
    out = []
    for i in range(0, len(pairs), 40):
        part = pairs[i:i + 40]
        command = [tool, how] + [x for pair in part for x in pair]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f'roundtrip: {tool} ended with {done.returncode}\n{done.stderr}')
        out += done.stdout.splitlines()
        if done.stderr:
            sys.stderr.write(done.stderr)
    return out


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else f'{environment.BUILD}/tests/import_export'
    models = os.path.join(environment.SHARED, 'models')
    if not os.path.isdir(models):
        print(f'skipped: {models} is absent')
        sys.exit(77)
    environment.enter_venv()
    from google.protobuf import text_format
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

    def message(path):
        if 'saved_model.pb' in path:
            return saved_model_pb2.SavedModel()
        return meta_graph_pb2.MetaGraphDef() if '.meta' in path else graph_pb2.GraphDef()

    def parse(path, m, text):
        with open(path, 'rb') as f:
            data = f.read()
        if text:
            text_format.Parse(data, m)
        else:
            m.ParseFromString(data)
        return m

    def graphs(m):
        if isinstance(m, saved_model_pb2.SavedModel):
            return [x.graph_def for x in m.meta_graphs]
        return [m.graph_def] if isinstance(m, meta_graph_pb2.MetaGraphDef) else [m]

    def sort(m):
        for g in graphs(m):
            nodes = sorted(g.node, key=lambda n: n.name)
            del g.node[:]
            g.node.extend(nodes)
            for f in g.library.function if g.HasField('library') else []:
                nodes = sorted(f.node_def, key=lambda n: n.name)
                del f.node_def[:]
                f.node_def.extend(nodes)
        return m

    failures = []
    files = list(find(models, ('.pb', '.pbtxt', '.meta')))
    with tempfile.TemporaryDirectory() as work:
        for how, text_out in (('wire', False), ('text', True)):
            # The file keeps the part of its name that identifies the form: saved_model.pb, .meta.
            pairs = []
            for i, f in enumerate(files):
                kind = 'saved_model' if 'saved_model.pb' in f else 'x'
                ext = '.meta' if f.endswith('.meta') else '.pbtxt' if text_out else '.pb'
                os.makedirs(f'{work}/{how}{i}')
                pairs.append((f, f'{work}/{how}{i}/{kind}{ext}'))
            status = run(tool, how, pairs)
            again = [(out, out + '.again') for (_, out), s in zip(pairs, status)
                     if s.startswith('0 ')]
            status_again = iter(run(tool, 'wire', again))
            for (f, out), s in zip(pairs, status):
                name = os.path.relpath(f, models)
                if name in REFUSED:
                    if s != '3':
                        failures.append(f'{name}: {how}: should be refused')
                    continue
                if not s.startswith('0 '):
                    failures.append(f'{name}: {how}: refused with {s}')
                    continue
                want = sort(parse(f, message(f), f.endswith('.pbtxt')))
                if sort(parse(out, message(f), text_out)) != want:
                    failures.append(f'{name}: {how}: not the same message')
                s = next(status_again)
                if not s.startswith('0 '):
                    failures.append(f'{name}: {how}: what was exported is refused')
                elif sort(parse(out + '.again', message(f), False)) != want:
                    failures.append(f'{name}: {how}: the second export differs')
        count = len(files)
        for f in find(environment.MODELS, '.json'):
            with open(f, encoding='utf-8') as j:
                document = json.load(j)
            if 'node' not in document.get('modelTopology', {}):
                continue
            count += 1
            first, second = f'{work}/first.json', f'{work}/second.json'
            s = run(tool, 'tfjs', [(f, first)])[0]
            s2 = run(tool, 'tfjs', [(first, second)])[0] if s.startswith('0 ') else s
            if not s.startswith('0 ') or not s2.startswith('0 '):
                failures.append(f'{f}: refused with {s}, {s2}')
                continue
            one, two = open(first, 'rb').read(), open(second, 'rb').read()
            if one.replace(b'first.json', b'') != two.replace(b'second.json', b''):
                failures.append(f'{f}: the second import gives another graph')
            if open(first + '.bin', 'rb').read() != open(second + '.bin', 'rb').read():
                failures.append(f'{f}: the second import gives other weights')
            failures += compare_tfjs(f, document, first)
    for f in failures:
        print(f)
    print(f'{count} models, {len(failures)} failures')
    sys.exit(1 if failures or not count else 0)


def compare_tfjs(name, document, path):
    """The exported model against the original: nodes, and weights dequantised by NumPy."""
    import numpy as np

    def weights(base, doc):
        out = {}
        for group in doc['weightsManifest']:
            data = b''.join(open(os.path.join(os.path.dirname(base), p), 'rb').read()
                            for p in group['paths'])
            at = 0
            for w in group['weights']:
                q = w.get('quantization', {})
                kind = np.dtype(q.get('dtype', w['dtype']))
                n = int(np.prod(w['shape'], dtype=np.int64))
                x = np.frombuffer(data, kind, n, at)
                at += n * kind.itemsize
                if 'scale' in q:
                    x = x.astype(np.float64) * q['scale'] + q['min']
                out[w['name']] = x.astype(w['dtype']).reshape(w['shape'])
        return out

    def nodes(doc):
        out = {}
        for n in doc['modelTopology']['node']:
            n = dict(n)
            n['input'] = [i[:-2] if i.endswith(':0') else i for i in n.get('input', [])]
            n['attr'] = {k: flat(v) for k, v in n.get('attr', {}).items()}
            out[n['name']] = n
        return out

    def flat(v):
        """The value without members that equal their default, which writers may leave out."""
        if isinstance(v, dict):
            v = {k: flat(x) for k, x in v.items()}
            return {k: x for k, x in v.items() if x not in ('0', 0, {}, [], None)}
        if isinstance(v, list):
            return [flat(x) for x in v]
        return v

    with open(path, encoding='utf-8') as f:
        exported = json.load(f)
    failures = []
    a, b = nodes(document), nodes(exported)
    if a != b:
        bad = [k for k in a if a.get(k) != b.get(k)]
        failures.append(f'{name}: nodes differ: {bad[:3]} {a.get(bad[0])} {b.get(bad[0])}')
    a, b = weights(name, document), weights(path, exported)
    bad = [k for k in a if k not in b or a[k].dtype != b[k].dtype or a[k].shape != b[k].shape
           or a[k].tobytes() != b[k].tobytes()]
    if bad:
        failures.append(f'{name}: weights differ: {bad[:3]}')
    return failures


main()
