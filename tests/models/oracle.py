"""The expected outputs of models: from TensorFlow for GraphDefs and SavedModels, from TensorFlow.js for its graph
models, and from TensorFlow on a converted graph for low precision.

References are kept below build/refs under the hash of everything on which they depend."""
import hashlib
import json
import os
import subprocess
import tempfile

import numpy as np

from environment import BUILD, node_modules

HERE = os.path.dirname(os.path.abspath(__file__))
LOW = 'float16', 'bfloat16'


def files_of(path):
    """The files of a model, including those that model.json names."""
    if os.path.isdir(path):
        return sorted(os.path.join(d, f) for d, _, names in os.walk(path) for f in names)
    if path.endswith('.json'):
        with open(path) as f:
            manifest = json.load(f)['weightsManifest']
        return [path] + [os.path.join(os.path.dirname(path), p) for g in manifest for p in g['paths']]
    return [path]


def key(path, inputs, *more):
    h = hashlib.sha256(repr((sorted(inputs), more)).encode())
    for name in sorted(inputs):
        x = np.asarray(inputs[name])
        h.update(f'{name} {x.dtype} {x.shape}'.encode() + x.tobytes())
    for f in files_of(path) + [__file__, f'{HERE}/tfjs.mjs']:
        with open(f, 'rb') as file:
            h.update(hashlib.file_digest(file, 'sha256').digest())
    return h.hexdigest()[:24]


def stored(path):
    with np.load(path) as z:
        return {n: z[n] for n in z.files}


def cached(name, keys, samples, compute):
    """Results for the samples; compute() is called once, with the list of those whose results are not kept yet."""
    paths = [f'{BUILD}/refs/{name}-{k}.npz' for k in keys]
    missing = [(p, x) for p, x in zip(paths, samples) if not os.path.exists(p)]
    if missing:
        os.makedirs(f'{BUILD}/refs', exist_ok=True)
        for (path, _), result in zip(missing, compute([x for _, x in missing])):
            part = f'{path}.{os.getpid()}.npz'
            np.savez(part, **result)
            os.replace(part, path)
    return [stored(p) for p in paths]


def references(model, path, samples):
    """For each sample its outputs by name, in the model's own precision."""
    run = {'graphdef': graphdef_file, 'savedmodel': saved_model, 'tfjs': tfjs_all,
           'tfjs-cpu': lambda *a: tfjs_all(*a, ['cpu'])}[model.oracle]
    return cached(model.name, [key(path, x, model.outputs) for x in samples], samples,
                  lambda some: run(path, some, model.outputs))


def reference(model, path, inputs):
    return references(model, path, [inputs])[0]


def tensorflow():
    """TensorFlow that computes the graph as it is: without oneDNN and rewriting.  Import TensorFlow with this function."""
    os.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'
    import tensorflow as tf
    tf.get_logger().setLevel('ERROR')
    return tf


def literal_session(tf, graph):
    config = tf.compat.v1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(graph=graph, config=config)


def read_graphdef(path):
    tf = tensorflow()
    graph_def = tf.compat.v1.GraphDef()
    with open(path, 'rb') as f:
        graph_def.ParseFromString(f.read())
    return graph_def


def graphdef_file(path, samples, outputs):
    return run_graphdef_all(read_graphdef(path), samples, outputs)


def run_graphdef(graph_def, inputs, outputs):
    return run_graphdef_all(graph_def, [inputs], outputs)[0]


def run_graphdef_all(graph_def, samples, outputs):
    tf = tensorflow()
    for n in graph_def.node:
        n.device = ''
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name='')
    with literal_session(tf, graph) as s:
        return runs(s, samples, outputs)


def runs(session, samples, outputs):
    return [dict(zip(outputs, session.run([tensor(o) for o in outputs], feeds(inputs)))) for inputs in samples]


def tensor(name):
    return name if ':' in name else f'{name}:0'


def feeds(inputs):
    return {tensor(n): x for n, x in inputs.items()}


def saved_model(path, samples, outputs):
    tf = tensorflow()
    graph = tf.Graph()
    with graph.as_default(), literal_session(tf, graph) as s:
        tf.compat.v1.saved_model.load(s, ['serve'], path)
        return runs(s, samples, outputs)


def frozen_saved_model(path, outputs):
    """The model as one GraphDef, with variables as constants and functions inlined."""
    tf = tensorflow()
    from tensorflow.python.framework import convert_to_constants as freeze
    graph = tf.Graph()
    with graph.as_default(), literal_session(tf, graph) as s:
        meta = tf.compat.v1.saved_model.load(s, ['serve'], path)
        if not meta.graph_def.library.function:
            return tf.compat.v1.graph_util.convert_variables_to_constants(
                s, meta.graph_def, list(outputs))
        frozen = freeze.convert_variables_to_constants_from_session_graph(
            s, meta.graph_def, list(outputs))
    feeds = [t.name for t in meta.signature_def['serving_default'].inputs.values()]
    whole = tf.compat.v1.wrap_function(
        lambda: tf.graph_util.import_graph_def(frozen, name=''), [])
    inlined = freeze.convert_variables_to_constants_v2(
        whole.prune(feeds, [tensor(o) for o in outputs]), aggressive_inlining=True)
    return inlined.graph.as_graph_def()


def tfjs_cpu(path, inputs, outputs):
    return tfjs_all(path, [inputs], outputs, ['cpu'])[0]


def tfjs(path, inputs, outputs):
    return tfjs_all(path, [inputs], outputs)[0]


def tfjs_all(path, samples, outputs, backends=('wasm', 'cpu')):
    """Outputs of TensorFlow.js: on WebAssembly if that has the model's kernels, since its JavaScript takes up to thirty
    times as long."""
    with tempfile.TemporaryDirectory() as d:
        request = {'backends': backends, 'outputs': [tensor(o) for o in outputs], 'samples': []}
        for n, inputs in enumerate(samples):
            fed = []
            for i, (name, x) in enumerate(inputs.items()):
                x = x.astype(np.int32) if x.dtype == np.uint8 else x  # which TensorFlow.js does not have
                assert x.dtype in (np.float32, np.int32)
                x.tofile(f'{d}/{n}i{i}')
                fed.append({'name': name, 'dtype': x.dtype.name, 'shape': x.shape, 'file': f'{d}/{n}i{i}'})
            request['samples'].append({'inputs': fed, 'files': [f'{d}/{n}o{i}' for i in range(len(outputs))]})
        with open(f'{d}/request', 'w') as f:
            json.dump(request, f)
        done = subprocess.run(['node', f'{HERE}/tfjs.mjs', node_modules(), path, f'{d}/request'],
                              check=True, stdout=subprocess.PIPE, text=True)
        kinds = {'float32': np.float32, 'int32': np.int32, 'bool': np.bool_}
        return [{o: np.fromfile(f, kinds[r['dtype']]).reshape(r['shape']) for o, f, r in zip(outputs, sample['files'], results)}
                for sample, results in zip(request['samples'], json.loads(done.stdout))]


def converted(name, path, samples, outputs):
    """For each sample the outputs of a graph that `halftone convert` wrote, computed in two ways, with each low-precision tensor
    rounded once: by TensorFlow's own low-precision kernels, and with every op in float32 between Cast nodes.  In some ops
    TensorFlow's kernels sum in the low type (a mean over 65,536 bfloat16 values stops growing at 256), so their
    error alone would be no bound."""
    keys = [key(path, x, outputs) for x in samples]

    def run(way, keep):
        return cached(f'{name}-{way}', keys, samples,
                      lambda some: run_graphdef_all(widened(read_graphdef(path), keep), some, outputs))
    return list(zip(run('own', has_kernel), run('float32', lambda node: False)))


def has_kernel(node):
    """Whether TensorFlow has a CPU kernel for the node's types."""
    from tensorflow.python.framework import kernels
    return any(k.device_type == 'CPU'
               and all(node.attr[c.name].type in c.allowed_values.list.type for c in k.constraint)
               for k in kernels.get_registered_kernels_for_op(node.op).kernel)


# These ops only move values, so TensorFlow's kernels are exact in every type.
MOVES = {'Const', 'Placeholder', 'PlaceholderWithDefault', 'Cast', 'Identity', 'IdentityN',
         'Reshape', 'Squeeze', 'ExpandDims', 'Transpose', 'Pack', 'Unpack', 'ConcatV2', 'Concat',
         'Split', 'SplitV', 'Slice', 'StridedSlice', 'Shape', 'ShapeN', 'Size', 'Rank', 'Tile',
         'GatherV2', 'Gather', 'Fill', 'BroadcastTo', 'StopGradient', 'NoOp', 'Snapshot'}


def widened(graph_def, keep):
    """The graph with its low-precision ops in float32 between Cast nodes, except those to keep."""
    tf = tensorflow()
    from tensorflow.python.framework import op_def_registry
    low = {tf.as_dtype(t).as_datatype_enum for t in LOW}
    single = tf.float32.as_datatype_enum
    out = tf.compat.v1.GraphDef()
    out.versions.CopyFrom(graph_def.versions)
    renamed, low_of = {}, {}

    def cast(name, source, to):
        c = out.node.add(name=name, op='Cast', input=[source])
        c.attr['SrcT'].type = single if to in low else low_of[source]
        c.attr['DstT'].type = to
        return name

    for old in graph_def.node:
        n = out.node.add()
        n.CopyFrom(old)
        op = op_def_registry.get(n.op)
        goes_low = {a.name: n.attr[a.name].type for a in op.attr
                    if a.type == 'type' and n.attr[a.name].type in low}
        if n.op in MOVES or not goes_low or keep(n):
            continue
        for a in goes_low:
            n.attr[a].type = single
        position = 0
        for arg in op.input_arg:
            for _ in range(n.attr[arg.number_attr].i if arg.number_attr else 1):
                if arg.type_attr in goes_low:
                    source = n.input[position]
                    low_of[source] = goes_low[arg.type_attr]
                    n.input[position] = cast(f'{n.name}/wide_in_{position}', source, single)
                position += 1
        # The Cast of the first result keeps the node's name, which may be that of an output.
        if op.output_arg[0].type_attr in goes_low:
            n.name += '/wide'
        for i, arg in enumerate(op.output_arg):
            assert not arg.number_attr
            source = f'{n.name}:{i}' if i else n.name
            if arg.type_attr not in goes_low:
                renamed[f'{old.name}:{i}' if i else old.name] = source
                continue
            name = f'{old.name}/narrow_{i}' if i else old.name
            cast(name, source, goes_low[arg.type_attr])
            if i:
                renamed[f'{old.name}:{i}'] = name
    for n in out.node:
        for k, source in enumerate(n.input):
            if not (n.op == 'Cast' and '/narrow_' in n.name):
                n.input[k] = renamed.get(source.removesuffix(':0'), source)
    assert len({n.name for n in out.node}) == len(out.node)
    return out


def error(got, want):
    """Largest difference, relative to the largest value."""
    return errors(got, want)['error']


def errors(got, want, where=..., least=np.finfo(np.float32).tiny):
    """Largest, root mean square and median difference, relative to the largest value, which counts as `least` or more."""
    none = dict.fromkeys(('error', 'rms', 'median'), float('inf'))
    if got.shape != want.shape:
        return none
    b = want.astype(np.float64)
    d = np.abs(got.astype(np.float64) - b)[where] / np.abs(b).max(initial=least)
    if not np.isfinite(d).all():
        return none
    return {'error': float(d.max(initial=0)), 'rms': float(np.sqrt(np.mean(d * d))) if d.size else 0.,
            'median': float(np.median(d)) if d.size else 0.}
