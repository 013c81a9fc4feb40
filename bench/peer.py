"""One measurement of one engine, in a process of its own; bench/peers starts it.

Reads a JSON request from its argument (with "dynamic", OpenVINO compiles the model for any sizes instead of those of the inputs), prints {"median", "min", "p90", "load", "rss"} in milliseconds
and MB, and writes the outputs to FOLDER/y.npz in the model's order."""
import json
import os
import resource
import statistics
import sys
import time

import numpy as np

import peer_compilers


def names_in(model, inputs):
    """OpenVINO's names of the inputs: depending on the format, its reader adds the number of the result or not."""
    known = {name.split(':')[0]: name for i in model.inputs for name in i.get_names()}
    return [known.get(n, n) for n in inputs]


def openvino(q, inputs):
    import openvino as ov

    def compile(path):
        model = core.read_model(path)
        names = names_in(model, inputs)
        if not q.get('dynamic'):
            model.reshape({n: list(x.shape) for n, x in zip(names, inputs.values())})
        return names, core.compile_model(model, 'CPU')
    core = ov.Core()
    core.set_property('CPU', {
        'INFERENCE_NUM_THREADS': str(q['threads']), 'NUM_STREAMS': '1',
        'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_PRECISION_HINT': q['precision']})
    start = time.perf_counter()
    # If its TensorFlow reader does not support a model, OpenVINO reads the ONNX form.
    try:
        names, compiled = compile(q['graph'])
    except RuntimeError:
        if not q['onnx']:
            raise
        names, compiled = compile(q['onnx'])
    request = compiled.create_infer_request()
    load = time.perf_counter() - start
    for n, x in zip(names, inputs.values()):
        request.set_tensor(n, ov.Tensor(x))

    def outputs():
        by_name = {n.split(':')[0]: request.get_tensor(o).data
                   for o in compiled.outputs for n in o.get_names()}
        return [by_name[n.split(':')[0]] for n in q['outputs']]
    return load, request.infer, outputs


def ort(q, inputs):
    import onnxruntime as rt
    options = rt.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = q['threads'], 1
    start = time.perf_counter()
    session = rt.InferenceSession(q['onnx'], options, providers=['CPUExecutionProvider'])
    load = time.perf_counter() - start
    feeds, last = {f'{n}:0': x for n, x in inputs.items()}, []

    def run():
        last[:] = session.run(q['outputs'], feeds)
    return load, run, lambda: last


def tensorflow(q, inputs, onednn=True):
    os.environ['TF_ENABLE_ONEDNN_OPTS'] = '1' if onednn else '0'
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import tensorflow as tf
    from tensorflow.core.protobuf import rewriter_config_pb2
    start = time.perf_counter()
    graph_def = tf.compat.v1.GraphDef()
    with open(q['graph'], 'rb') as f:
        graph_def.ParseFromString(f.read())
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name='')
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=q['threads'],
                                      inter_op_parallelism_threads=1)
    if q['precision'] == 'bf16':
        config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = (
            rewriter_config_pb2.RewriterConfig.ON)
    session = tf.compat.v1.Session(graph=graph, config=config)
    run_once = session.make_callable(
        q['outputs'], feed_list=[f'{n}:0' for n in inputs])
    load, last = time.perf_counter() - start, []

    def run():
        last[:] = run_once(*inputs.values())
    return load, run, lambda: last


def xla(q, inputs):
    """The graph as one function that XLA compiles."""
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    os.environ['XLA_FLAGS'] = '--xla_cpu_multi_thread_eigen=' + str(q['threads'] > 1).lower()
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(q['threads'])
    tf.config.threading.set_inter_op_parallelism_threads(1)
    start = time.perf_counter()
    graph_def = tf.compat.v1.GraphDef()
    with open(q['graph'], 'rb') as f:
        graph_def.ParseFromString(f.read())
    wrapped = tf.compat.v1.wrap_function(
        lambda: tf.compat.v1.import_graph_def(graph_def, name=''), [])
    pruned = wrapped.prune([wrapped.graph.as_graph_element(f'{n}:0') for n in inputs],
                           [wrapped.graph.as_graph_element(n) for n in q['outputs']])
    compiled = tf.function(lambda *x: pruned(*x), jit_compile=True)
    feeds, last = [tf.constant(x) for x in inputs.values()], []
    load = time.perf_counter() - start

    def run():
        results = compiled(*feeds)
        last[:] = [r.numpy() for r in (results if isinstance(results, (list, tuple)) else [results])]
    return load, run, lambda: last


def reference(q, inputs):
    return tensorflow(q, inputs, onednn=False)


def main():
    q = json.loads(sys.argv[1])
    with np.load(f'{q["folder"]}/x.npz') as z:
        inputs = {n.removesuffix(':0'): z[n.removesuffix(':0')] for n in q['inputs']}
    engine = {'openvino': openvino, 'ort': ort, 'tensorflow': tensorflow, 'xla': xla,
              'iree': peer_compilers.iree, 'tvm': peer_compilers.tvm, 'reference': reference}[q['engine']]
    load, run, outputs = engine(q, inputs)
    start = time.perf_counter()
    run()
    load += time.perf_counter() - start  # the first run compiles and packs in some engines
    np.savez(f'{q["folder"]}/y.npz', **{f'{i:03}': y for i, y in enumerate(outputs())})
    times, start = [], time.perf_counter()
    for _ in range(3 if q['seconds'] else 0):
        run()
    least = 10 if time.perf_counter() - start < 3 else 3  # if a run takes a second or more
    end = time.perf_counter() + q['seconds']
    while q['seconds'] and (time.perf_counter() < end or len(times) < least):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    times = times or [0.]
    print(json.dumps({'median': statistics.median(times), 'min': min(times),
                      'p90': sorted(times)[len(times) * 9 // 10], 'load': 1e3 * load,
                      'rss': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))


if __name__ == '__main__':
    main()
