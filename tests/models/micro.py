#!/usr/bin/env python3
"""The small graphs of $HALFTONE_SHARED/models/micro, each of an op or of a form of control flow, against TensorFlow, on
random inputs.  Graphs that TensorFlow refuses, or with ops that Halftone does not compute, are listed here with the
reason.

Exit code 77: the graphs are not there.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

FOLDER = f'{environment.SHARED}/models/micro'
if not os.path.exists(FOLDER):
    print(f'skipped: {FOLDER} is not there')
    sys.exit(environment.SKIPPED)
from live import np, tf  # noqa: E402

v1 = tf.compat.v1
OPEN = 2  # the size of a dimension that a graph leaves open
NO_VALUE = 'the variable has no value'
# Graphs that do not run here, with the tool's message: ops of other kinds, variables without
# values, loops whose shapes change.
REFUSED = {
    'graphdef2mlir/graph-function-defs.pbtxt': 'the shape of this input', 'graphdef2mlir/graph-gradient-def.pbtxt': 'SymbolicGradient',
    'graphdef2mlir/legacy-fed-input-without-inputs.pbtxt': 'LegacyFedInput', 'graphdef2mlir/mlir_passthrough_op.pbtxt': 'MlirPassthroughOp',
    'graphdef2mlir/parse_example_v2.pbtxt': 'the shape of this input', 'graphdef2mlir/target.pbtxt': NO_VALUE,
    'graphdef2mlir/tf-data-pipeline.pbtxt': 'MapDataset', 'grappler/function_error.pbtxt': 'cycle',
    'grappler/function_functional_while.pbtxt': 'passes int32',
    'grappler/loops_and_resource_vars.pbtxt': NO_VALUE,
    'grappler/queues_and_loops.pbtxt': 'FIFOQueueV2', 'grappler/while_loop_var_handle_op.pbtxt': NO_VALUE,
    'one_op/frozen_apply_momentum_graph.pb': 'ApplyMomentum',
    'one_op/frozen_sparse_apply_momentum_graph.pb': 'Unique', **{f'one_op/frozen_scatter{k}_graph.pb': NO_VALUE for k in ('add', 'max', 'min', 'sub')},
}
# Graphs that TensorFlow does not run: unknown names and types, outputs that do not exist, an
# impossible reshape; and one whose weights are drawn without a seed.
NOT_TRIED = {'graphdef2mlir/arg-control-dep.pbtxt', 'graphdef2mlir/arg-retval-attrs.pbtxt', 'graphdef2mlir/empty-input-shapes.pbtxt',
             'graphdef2mlir/functional-while-ops.pbtxt', 'graphdef2mlir/graph-as-function-retval-of-arg.pbtxt',
             'graphdef2mlir/graph-custom-operation.pbtxt', 'graphdef2mlir/graph-device-retval.pbtxt', 'graphdef2mlir/shape-attrs.pbtxt',
             'grappler/function_with_dt_resource_input.pbtxt', 'grappler/large_function_graph.pbtxt', 'one_op/frozen_fusedbn_inference_graph.pb',
             'one_op/frozen_reshape_placeholder_graph.pb'}


def tool(*args):
    return subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300, check=False)


def proto_of(path):
    proto = v1.GraphDef()
    with open(path, 'rb') as f:
        data = f.read()
    if path.endswith('.pb'):
        proto.ParseFromString(data)
    else:
        from google.protobuf import text_format
        text_format.Parse(data.decode(), proto)
    return proto


def random_input(r, about):
    shape = [OPEN if n < 0 else n for n in about['shape'] or []]
    d = np.dtype(about['dtype'])
    return r.standard_normal(shape).astype(d) if d.kind == 'f' else r.integers(0, 2, shape).astype(d)


def session_run(path, feeds, outputs):
    proto = proto_of(path)
    for n in proto.node:
        n.device = ''
    with tf.Graph().as_default() as g, v1.Session(graph=g) as s:
        tf.import_graph_def(proto, name='')
        s.run(v1.global_variables_initializer())
        return s.run([o if ':' in o else f'{o}:0' for o in outputs], {n if ':' in n else f'{n}:0': x for n, x in feeds.items()})


def ours(path, feeds, outputs):
    """The outputs, or the tool's message."""
    with tempfile.TemporaryDirectory() as d:
        np.savez(f'{d}/x.npz', **{f'x{i}': x for i, x in enumerate(feeds.values())})
        fed = [o for i, n in enumerate(feeds) for o in ('--input', f'{n}=@{d}/x.npz#x{i}')]
        done = tool('run', path, *fed, '-o', f'{d}/y.npz', '--outputs', ','.join(outputs))
        if done.returncode:
            return done.stderr
        with np.load(f'{d}/y.npz') as z:
            return [z[o] for o in outputs]


def problem(path, r):
    """The error of a graph; '' if there is none; None: it has no outputs."""
    name = os.path.relpath(path, FOLDER)
    about = tool('inspect', path, '--format', 'json')
    if about.returncode:
        return '' if name in REFUSED and REFUSED[name] in about.stderr else about.stderr
    about = json.loads(about.stdout)
    outputs = [o['name'] for o in about['outputs'] if o['dtype'] not in ('resource', 'variant', 'string')]
    if not outputs:
        return None
    feeds = {} if name in REFUSED else {i['name']: random_input(r, i) for i in about['inputs']}
    got = ours(path, feeds, outputs)
    if name in REFUSED:
        return '' if isinstance(got, str) and REFUSED[name] in got else f'is expected to be refused with {REFUSED[name]!r}: {got}'
    if isinstance(got, str):
        return got
    for o, g, w in zip(outputs, got, session_run(path, feeds, outputs), strict=True):
        w = np.asarray(w)
        if g.shape != w.shape or g.dtype != w.dtype or not np.allclose(g, w, rtol=1e-5, atol=1e-5, equal_nan=True):
            return f'{o} is {g!r}, not {w!r}'
    return ''


def main():
    r = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    wrong = ran = 0
    for path in sorted(glob.glob(f'{FOLDER}/one_op/*.pb') + glob.glob(f'{FOLDER}/gr*/*.pbtxt')):
        if os.path.relpath(path, FOLDER) in NOT_TRIED:
            continue
        try:
            why = problem(path, r)
        except Exception as e:  # pylint: disable=broad-except  # of TensorFlow
            why = f'TensorFlow: {str(e)[:300]}'
        ran += why == ''
        if why:
            wrong += 1
            print(f'FAIL {os.path.relpath(path, FOLDER)}: {why}')
    print(f'{ran} as they should be, {wrong} not')
    return wrong > 0


if __name__ == '__main__':
    sys.exit(main())
