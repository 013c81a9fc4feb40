#!/usr/bin/env python3
"""Policies on every graph of $HALFTONE_SHARED, also training graphs: TensorFlow accepts the graph that `convert` writes
(it checks every dtype), inputs and outputs keep their dtypes, and `explain` reports the dtypes of the written graph.

Exit code 77: nothing to test with.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

POLICIES = (
    ('allow_mix_precision_bf16',),
    ('allow_mix_precision_fp16',),
    ('allow_mix_precision_fp16', '--profile', 'ascend910'),
    ('cube_fp16in_fp32out',),
    ('force_fp16',),
    ('must_keep_origin_dtype',),
)


def graphs(root):
    for folder, folders, names in sorted(os.walk(root)):
        if 'saved_model.pb' in names:
            folders.clear()
            yield folder
            continue
        yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(('.pb', '.pbtxt', '.meta')))


def tool(*args):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300)
    if r.returncode not in (0, 3, 4):
        sys.exit(f'{args}: ended with {r.returncode}\n{r.stderr}')
    return r


def main():
    models = os.path.join(environment.SHARED, 'models')
    if not os.path.isdir(models):
        print(f'skipped: {models} is absent')
        sys.exit(77)
    environment.enter_venv()
    import tensorflow as tf

    def dtype(t):
        return tf.dtypes.as_dtype(t).name

    def read(path):
        g = tf.compat.v1.GraphDef()
        with open(path, 'rb') as f:
            g.ParseFromString(f.read())
        return g

    def load(g):
        with tf.Graph().as_default() as t:
            try:
                tf.import_graph_def(g, name='')
            except (ValueError, TypeError, tf.errors.OpError) as e:
                return t, str(e)
        return t, ''

    def check(path, policy, out, imported):
        """The errors as text."""
        told = json.loads(tool('explain', path, '--policy', *policy, '--format', 'json').stdout)
        about = json.loads(tool('inspect', path, '--format', 'json').stdout)
        g = read(out)
        t, why = load(g)
        if why:
            yield f'TensorFlow refuses it: {why}'
            return
        for o in about['outputs']:
            name = o['name'] if ':' in o['name'] else o['name'] + ':0'
            if o['dtype'] == 'invalid' or name.split(':')[0] not in imported or not name.endswith(':0'):
                continue  # a function's result has its own name; results other than the first may be gone
            if t.get_tensor_by_name(name).dtype.base_dtype.name != o['dtype']:
                yield f'output {name} is no longer {o["dtype"]}'
        node = {n.name: n for n in g.node}
        decided = {n['node']: n['op'] for n in told['nodes']}
        first = {o: n['node'] for n in told['nodes'] for o in n.get('origins', [])}
        for i in about['inputs']:
            if i['name'] in node and node[i['name']].attr['dtype'].type and dtype(node[i['name']].attr['dtype'].type) != i['dtype']:
                yield f'input {i["name"]} is no longer {i["dtype"]}'
        for name, types in told['types'].items():
            for attr, want in types.items():
                # The name of an output's node may have gone to a cast; fused nodes have become
                # parts of others.
                n = node.get(f'{name}/{want}', node.get(name))
                # A node that becomes another op, or equal to another node, for a batch of 1 keeps
                # its dtype if the batch stays open.
                if n is not None and first.get(name, name) not in node.keys() - {name} and decided.get(n.name, n.op) == n.op and attr in n.attr and n.op not in ('Cast', 'Identity') and dtype(n.attr[attr].type) != want:
                    yield f'{name}: {attr} is {dtype(n.attr[attr].type)}, explain says {want}'
        if policy == ('must_keep_origin_dtype',) and (told['types'] or told['casts']):
            yield 'something was changed'

    failures, count, refused, odd = [], 0, 0, 0
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, 'out.pb')
        for i, path in enumerate(environment.share(graphs(models))):
            if tool('convert', path, '-o', out).returncode:
                refused += 1
                continue
            if tool('inspect', path).returncode or load(read(out))[1]:
                odd += 1  # TensorFlow refuses the original graph, at once or when it runs
                os.remove(out)
                continue
            imported = {n.name for n in read(out).node if n.op != '_Retval'}
            os.remove(out)
            for policy in POLICIES if environment.LONG else POLICIES[i % 6:][:1] if environment.SANITIZED else POLICIES[i % 3::3]:
                r = tool('convert', path, '--policy', *policy, '-o', out, '--quiet')
                if r.returncode:
                    refused += 1
                    if os.path.exists(out):
                        failures.append(f'{path}: refused, but something was written')
                    continue
                count += 1
                failures += [f'{os.path.relpath(path, models)}: {" ".join(policy)}: {f}' for f in check(path, policy, out, imported)]
                os.remove(out)
    for f in failures:
        print(f)
    print(f'{count} graphs written, {refused} refused, {odd} wrong ones, {len(failures)} failures')
    # Most graphs must pass, or nothing was tested.
    sys.exit(1 if failures or refused * 8 > count or not count else 0)


if __name__ == '__main__':
    main()
