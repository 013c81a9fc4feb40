#!/usr/bin/env python3
"""What TensorFlow's Grappler auto_mixed_precision decides for a frozen GraphDef, offline and
without a GPU.

Prints JSON: {"casts": [[cast node, input, dtype], …], "types": {node: {type attribute: dtype}},
"nodes": N}, sorted, with only the type attributes that the rewrite changed.

fp16 is the CUDA mode on a described, not present, GPU of compute capability 8.0 (Grappler reads the
architecture from the device's properties; an environment variable lets it go on without one).  bf16
is the oneDNN mode, which needs AVX512F on the machine.  Lists are changed through Grappler's own
environment variables.
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
    return [cpu, gpu], (gpu if on_gpu else cpu).name


def rewrite(graph_def, fetch, mode):
    """The graph after the one optimizer, with every other Grappler pass left out."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import cluster, tf_optimizer
    for n in graph_def.node:
        n.device = ''
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name='')
    meta = tf.compat.v1.train.export_meta_graph(graph_def=graph.as_graph_def(), graph=graph)
    for f in fetch:
        meta.collection_def['train_op'].node_list.value.append(f)
    known, where = devices(mode == 'fp16')
    for n in meta.graph_def.node:
        n.device = where
    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    options.optimizers.append(MODES[mode])
    setattr(options, MODES[mode], rewriter_config_pb2.RewriterConfig.ON)
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    described = cluster.Cluster(devices=known, disable_detailed_stats=True, disable_timeline=True)
    return tf_optimizer.OptimizeGraph(config, meta, verbose=False, graph_id=b'oracle',
                                      cluster=described)


def changes(before, after):
    import tensorflow as tf

    def name(t): return tf.dtypes.as_dtype(t).name
    old = {n.name: n for n in before.node}
    casts, types = [], {}
    for n in after.node:
        if n.name not in old:
            if n.op == 'Cast':
                casts.append([n.name, n.input[0], name(n.attr['DstT'].type)])
            continue
        diff = {k: name(v.type) for k, v in n.attr.items()
                if v.WhichOneof('value') == 'type' and v.type != old[n.name].attr[k].type}
        if diff:
            types[n.name] = diff
    return {'casts': sorted(casts), 'types': dict(sorted(types.items())), 'nodes': len(after.node)}


def main():
    a = arguments()
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    os.environ[PREFIX + 'SIMULATE_GPU'] = '1'
    if a.level:
        os.environ[PREFIX + 'LEVEL'] = a.level
    for l, variable in LISTS.items():
        for verb in ('add', 'remove'):
            v = getattr(a, f'{l}_{verb}')
            if v:
                os.environ[f'{PREFIX}{variable}_{verb.upper()}'] = v
    import tensorflow as tf
    from google.protobuf import text_format
    graph = tf.compat.v1.GraphDef()
    with open(a.model, 'rb') as file:
        data = file.read()
    if a.model.endswith('txt'):
        text_format.Parse(data.decode(), graph)
    else:
        graph.ParseFromString(data)
    after = rewrite(graph, a.fetch.split(','), a.mode)
    if a.out:
        with open(a.out, 'wb') as file:
            file.write(after.SerializeToString())
    json.dump(changes(graph, after), sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()
