#!/usr/bin/env python3
"""The Grappler policies against TensorFlow's own pass, node for node and cast for cast.

run.py cases    the graphs of cases.py: what must hold of each, and TensorFlow's decision
run.py fixtures writes those graphs to tests/golden/grappler
run.py models   every frozen model of $HALFTONE_MODELS, every training graph of $HALFTONE_SHARED
run.py random   random graphs and changes to the lists; --seed N, --graphs N, --only I

Exit code 77: nothing to test with.
"""
import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'),
                os.path.dirname(os.path.abspath(__file__))]
import environment  # noqa: E402

ROOT = environment.ROOT
MODES = 'fp16', 'bf16', 'fp16-cpu'


def shipped_lists(mode):
    """{op: list} of a mode, from the data of the policies."""
    lists, current = {}, None
    with open(f'{ROOT}/precision/data/grappler.lists', encoding='utf-8') as f:
        for line in f:
            if line.startswith('['):
                name, modes, _ = line.strip('[]\n').split()
                current = name if modes in ('both', 'bf16' if mode == 'bf16' else 'fp16') else None
            elif current and not line.startswith('#'):
                lists.update((op, current) for op in line.split())
    return lists


def ours(path, fetch, mode, edits, level):
    args = [environment.TOOL, 'explain', path, '--policy', f'grappler-{mode}', '--format', 'json', '--quiet']
    if fetch:
        args += ['--outputs', ','.join(fetch)]
    for (name, verb), ops in edits.items():
        args += [f'--{name}list-{verb}', ','.join(ops)]
    if level:
        args += ['--grappler-level', level.lower()]
    r = subprocess.run(args, capture_output=True, text=True, timeout=600)
    if r.returncode:
        return f'ended with {r.returncode}: {r.stderr.strip()[:600]}'
    told = json.loads(r.stdout)
    return {'casts': sorted([c['name'], c['source'], c['to']] for c in told['casts']), 'types': told['types']}


def theirs(graph_def, fetch, mode, edits, level):
    """TensorFlow's decision; None: TensorFlow refuses the graph that its own pass writes."""
    import grappler_oracle
    import tensorflow as tf
    grappler_oracle.set_lists(edits, level)
    try:
        before, after = grappler_oracle.rewrite(graph_def, fetch, mode)
    except (tf.errors.OpError, ValueError, IndexError):  # IndexError: its own map has no such node
        return None
    told = grappler_oracle.changes(before, after)
    return {'casts': told['casts'], 'types': told['types']}


def difference(a, b):
    """The differences as text, or ''."""
    if isinstance(a, str):
        return a
    out = []
    for node in sorted(a['types'].keys() | b['types'].keys()):
        if a['types'].get(node) != b['types'].get(node):
            out.append(f'{node}: {a["types"].get(node)}, TensorFlow {b["types"].get(node)}')
    here, there = ({tuple(c) for c in x['casts']} for x in (a, b))
    out += [f'cast {c} is only ours' for c in sorted(here - there)]
    out += [f'cast {c} is only TensorFlow\'s' for c in sorted(there - here)]
    return '\n  '.join(out[:12])


def compare(path, graph_def, fetch, mode, edits=None, level=None):
    """(refused by TensorFlow, differences)"""
    told = theirs(graph_def, fetch, mode, edits or {}, level)
    if told is None:
        return True, ''
    return False, difference(ours(path, fetch, mode, edits or {}, level), told)


def broken(case, told, mode):
    """The violations of a case's expectations by a decision, as text."""
    low = {'fp16': 'float16', 'bf16': 'bfloat16', 'fp16-cpu': 'float32'}[mode]

    def is_low(node): return low in told['types'].get(node, {}).values()
    down = sum(to == low for _, _, to in told['casts'])
    yield from (f'{n} is not low' for n in case.low.split() if not is_low(n))
    yield from (f'{n} is low' for n in case.kept.split() if is_low(n))
    if case.casts and (down, len(told['casts']) - down) != case.casts:
        yield f'casts are {(down, len(told["casts"]) - down)}, not {case.casts}'


def run_cases(a):
    import cases
    count = bad = 0
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, 'graph.pb')
        for case in cases.CASES:
            graph_def, fetch = cases.make(case)
            with open(path, 'wb') as f:
                f.write(graph_def.SerializeToString())
            for mode in case.modes:
                told = theirs(graph_def, fetch, mode, case.edits, case.level)
                mine = ours(path, fetch, mode, case.edits, case.level)
                wrong = ['TensorFlow refuses it'] if told is None else [difference(mine, told)]
                wrong += broken(case, told, mode) if told else []
                wrong = [w for w in wrong if w]
                count += 1
                bad += bool(wrong)
                if wrong:
                    print(f'{case.name} {mode}:\n  ' + '\n  '.join(wrong))
    print(f'{count} decisions about {len(cases.CASES)} cases, {bad} wrong')
    return bad


def run_fixtures(a):
    """Writes tests/golden/grappler/CASE.hir."""
    import cases
    folder = f'{ROOT}/tests/golden/grappler'
    os.makedirs(folder, exist_ok=True)
    for case in cases.CASES:
        graph_def, fetch = cases.make(case)
        with tempfile.TemporaryDirectory() as work:
            with open(f'{work}/graph.pb', 'wb') as f:
                f.write(graph_def.SerializeToString())
            subprocess.run([environment.TOOL, 'convert', f'{work}/graph.pb', '-o', f'{work}/graph.hir', '--quiet'],
                           check=True)
            with open(f'{work}/graph.hir', encoding='utf-8') as f:
                text = f.read()
        options = f' --grappler-level {case.level.lower()}' if case.level else ''
        head = f'# {case.what}  Made by tests/precision/grappler/run.py fixtures.\n'
        for mode in case.modes:
            head += (f'# RUN: halftone explain %s --outputs {",".join(fetch)} --policy grappler-{mode}{options} '
                     f'| same %s.{mode}.out\n')
        with open(f'{folder}/{case.name}.hir', 'w', encoding='utf-8') as f:
            f.write(head + text)


def read_graph(path):
    """(GraphDef, its meta graph or None)"""
    import tensorflow as tf
    graph_def, meta = tf.compat.v1.GraphDef(), None
    with open(path, 'rb') as f:
        data = f.read()
    if path.endswith('txt'):
        from google.protobuf import text_format
        text_format.Parse(data.decode(), graph_def)
        return graph_def, meta
    if path.endswith('.meta'):
        meta = tf.compat.v1.MetaGraphDef()
        meta.ParseFromString(data)
        return meta.graph_def, meta
    graph_def.ParseFromString(data)
    return graph_def, meta


def step(graph_def, meta):
    """The nodes that run a training step: those in the collection, or else, of the nodes that only wait for
    others, the one that waits for most of the gradients."""
    if meta and meta.collection_def['train_op'].node_list.value:
        return meta.collection_def['train_op'].node_list.value[0].split(':')[0]
    node = {n.name: n for n in graph_def.node}

    def gradients(name):
        seen, todo = {name}, [name]
        while todo:
            new = {i.lstrip('^').split(':')[0] for i in node[todo.pop()].input} - seen
            seen |= new
            todo += new
        return sum('gradient' in n.lower() for n in seen)

    best = max((n.name for n in graph_def.node if n.op == 'NoOp'), key=gradients, default=None)
    return best if best and gradients(best) else None


def models_to_compare():
    """(name, path, outputs, whether to prune to them)"""
    for path in sorted(glob.glob(f'{environment.MODELS}/frozen/*.pb')):
        with open(path[:-3] + '.json', encoding='utf-8') as f:
            outputs = [o.split(':')[0] for o in json.load(f)['outputs']]
        yield os.path.basename(path), path, outputs, False
    for path in sorted(glob.glob(f'{environment.SHARED}/models/**/*.meta', recursive=True) +
                       glob.glob(f'{environment.SHARED}/models/**/*train.pbtxt', recursive=True)):
        op = step(*read_graph(path))
        if op:
            yield os.path.relpath(path, environment.SHARED), path, [op], True


def importable(graph_def, work):
    """Writes a copy of the graph with other names and without devices, since TensorFlow's importer refuses names
    that its own passes give."""
    for n in graph_def.node:
        n.device = ''
        n.name = n.name.replace('_', 'n_', 1) if n.name.startswith('_') else n.name
        n.input[:] = [i.replace('_', 'n_', 1) if i.startswith(('_', '^_')) else i for i in n.input]
    path = os.path.join(work, 'graph.pb')
    with open(path, 'wb') as f:
        f.write(graph_def.SerializeToString())
    return path


def run_models(a):
    with tempfile.TemporaryDirectory() as work:
        return compare_models(work)


def compare_models(work):
    import tensorflow as tf
    count = refused = bad = 0
    for i, (name, path, outputs, prune) in enumerate(models_to_compare()):
        graph_def, _ = read_graph(path)
        if path.endswith('txt'):
            path = importable(graph_def, work)
        if prune:
            graph_def = tf.compat.v1.graph_util.extract_sub_graph(graph_def, outputs)
            for n in graph_def.node:
                n.attr.pop('_output_shapes', None)  # some are wrong, but TensorFlow trusts them
        for mode in environment.in_turn(MODES, len(MODES), i):
            no, wrong = compare(path, graph_def, outputs, mode)
            count += 1
            refused += no
            bad += bool(wrong)
            print(f'{name} {mode}: {len(graph_def.node)} nodes for {",".join(outputs)}, ' +
                  ('TensorFlow refuses its own' if no else 'DIFFERENT\n  ' + wrong if wrong else 'equal'))
    if not count:
        print(f'skipped: there is nothing in {environment.MODELS}/frozen and {environment.SHARED}/models')
        sys.exit(77)
    print(f'{count} decisions compared, {refused} that TensorFlow refuses, {bad} different')
    return bad or refused * 4 > count


def run_random(a):
    import graphs
    print(f'seed {a.seed}')
    count = refused = empty = bad = 0
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(a.keep or work, 'graph.pb')
        for i in range(a.graphs) if a.only is None else [a.only]:
            rng = random.Random(f'{a.seed} {i}')
            graph_def, fetch = graphs.random_graph(rng)
            with open(path, 'wb') as f:
                f.write(graph_def.SerializeToString())
            for mode in MODES:
                edits = graphs.random_edits(rng, graphs.ops_of(graph_def), shipped_lists(mode))
                level = rng.choice([None] * 8 + ['TENSOR_CORES_ONLY', 'TREAT_INFER_AS_DENY'])
                no, wrong = compare(path, graph_def, fetch, mode, edits, level)
                count += 1
                refused += no
                if wrong:
                    bad += 1
                    print(f'graph {i} ({mode}, fetch {fetch}, level {level}, {edits}):\n  {wrong}')
            if bad >= 10:
                break
    print(f'{count} decisions compared, {refused} graphs that TensorFlow refuses, {bad} different')
    return bad or refused * 4 > count


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    p.add_argument('what', choices=['cases', 'fixtures', 'models', 'random'])
    p.add_argument('--seed', type=int, default=20261121)
    p.add_argument('--graphs', type=int, default=500)
    p.add_argument('--only', type=int, help='this one of the random graphs')
    p.add_argument('--keep', help='a folder for the last random graph')
    a = p.parse_args()
    environment.enter_venv('grappler', 'tests/precision/grappler/requirements.txt')
    sys.exit(1 if globals()[f'run_{a.what}'](a) else 0)


if __name__ == '__main__':
    main()
