#!/usr/bin/env python3
"""What TensorFlow's Grappler auto_mixed_precision decides for a GraphDef, offline and without a GPU.

Prints JSON: {"casts": [[cast node, input, dtype], …], "types": {node: {type attribute: dtype}},
"nodes": N}, sorted, with only the type attributes that the rewrite changed: an element of a list
attribute is T[0], a node of a function FUNCTION:node.

fp16 is the CUDA mode on a described, not present, GPU of compute capability 8.0 (Grappler reads the
architecture from the device's properties), and needs a TensorFlow built for CUDA, whose kernels
count.  bf16 is the oneDNN mode, which needs AVX512F on the machine.  Lists are changed through
Grappler's own environment variables.
"""
import argparse
import json
import os
import sys

MODES = {'fp16': 'auto_mixed_precision', 'bf16': 'auto_mixed_precision_onednn_bfloat16',
         'fp16-cpu': 'auto_mixed_precision_cpu'}
LISTS = {'allow': 'ALLOWLIST', 'deny': 'DENYLIST', 'infer': 'INFERLIST', 'clear': 'CLEARLIST'}
PREFIX = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_'


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    p.add_argument('model', help='GraphDef, .pb or .pbtxt')
    p.add_argument('--fetch', required=True, help='NODE[,NODE…]')
    p.add_argument('--mode', choices=MODES, default='fp16')
    p.add_argument('--level', help='TENSOR_CORES_ONLY, for one')
    p.add_argument('--out', help='write the rewritten graph')
    for l in LISTS:
        p.add_argument(f'--{l}-add', metavar='OP,…')
        p.add_argument(f'--{l}-remove', metavar='OP,…')
    return p.parse_args()


def devices(on_gpu):
    from tensorflow.core.protobuf import device_properties_pb2 as dp
    cpu = dp.NamedDevice(name='/job:localhost/replica:0/task:0/device:CPU:0')
    cpu.properties.type, cpu.properties.frequency, cpu.properties.num_cores = 'CPU', 3000, 2
    gpu = dp.NamedDevice(name='/job:localhost/replica:0/task:0/device:GPU:0')
    gpu.properties.type, gpu.properties.vendor = 'GPU', 'NVIDIA'
    gpu.properties.frequency, gpu.properties.num_cores = 1000, 60
    gpu.properties.environment.update({'architecture': '8.0', 'cuda': '11020', 'cudnn': '8100'})
    return ([cpu, gpu], gpu.name) if on_gpu else ([cpu], cpu.name)


def set_lists(edits, level=None):
    """edits: {('allow', 'add'): ['Exp', …]}; what is not in it is as TensorFlow ships it."""
    for l, variable in LISTS.items():
        for verb in 'add', 'remove':
            os.environ[f'{PREFIX}{variable}_{verb.upper()}'] = ','.join(edits.get((l, verb), ()))
    os.environ[PREFIX + 'LEVEL'] = level or ''


def rewrite(graph_def, fetch, mode):
    """The graph as imported and after the one optimizer, with every other Grappler pass left out.
    Nodes without a device are where the mode wants them.  What TensorFlow refuses is an exception."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import cluster, tf_optimizer
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name='')
    meta = tf.compat.v1.train.export_meta_graph(graph_def=graph.as_graph_def(), graph=graph)
    for f in fetch:
        meta.collection_def['train_op'].node_list.value.append(f)
    known, where = devices(mode == 'fp16')
    for n in meta.graph_def.node:
        n.device = n.device or where
    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    options.optimizers.append(MODES[mode])
    setattr(options, MODES[mode], rewriter_config_pb2.RewriterConfig.ON)
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    described = cluster.Cluster(devices=known, disable_detailed_stats=True, disable_timeline=True)
    after = tf_optimizer.OptimizeGraph(config, meta, verbose=False, graph_id=b'oracle',
                                       cluster=described)
    return meta.graph_def, after


def types_of(node):
    """{attribute, or attribute[i]: dtype number}"""
    out = {}
    for name, value in node.attr.items():
        kind = value.WhichOneof('value')
        if kind == 'type':
            out[name] = value.type
        elif kind == 'list':
            out.update({f'{name}[{i}]': t for i, t in enumerate(value.list.type)})
    return out


def changes(before, after):
    import tensorflow as tf

    def name(t): return tf.dtypes.as_dtype(t).name

    def compare(prefix, old, new):
        old = {n.name: n for n in old}
        for n in new:
            if n.name not in old:
                if n.op == 'Cast':
                    source = n.input[0].split(':')
                    port = source[-1] if len(source) > 1 and source[-1] != '0' else ''
                    casts.append([prefix + n.name, prefix + source[0] + ':' * bool(port) + port,
                                  name(n.attr['DstT'].type)])
                continue
            was = types_of(old[n.name])
            diff = {k: name(t) for k, t in types_of(n).items() if t != was.get(k)}
            if diff:
                types[prefix + n.name] = diff

    casts, types = [], {}
    compare('', before.node, after.node)
    bodies = {f.signature.name: f.node_def for f in before.library.function}
    for f in after.library.function:
        compare(f.signature.name + ':', bodies.get(f.signature.name, []), f.node_def)
    return {'casts': sorted(casts), 'types': dict(sorted(types.items())), 'nodes': len(after.node)}


def main():
    a = arguments()
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    set_lists({(l, verb): value.split(',') for l in LISTS for verb in ('add', 'remove')
               if (value := getattr(a, f'{l}_{verb}'))}, a.level)
    import tensorflow as tf
    from google.protobuf import text_format
    graph = tf.compat.v1.GraphDef()
    with open(a.model, 'rb') as file:
        data = file.read()
    if a.model.endswith('txt'):
        text_format.Parse(data.decode(), graph)
    else:
        graph.ParseFromString(data)
    before, after = rewrite(graph, a.fetch.split(','), a.mode)
    if a.out:
        with open(a.out, 'wb') as file:
            file.write(after.SerializeToString())
    json.dump(changes(before, after), sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()
