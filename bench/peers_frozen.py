"""The frozen models in the forms that peers read, and their compilation by IREE and TVM, once each."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import environment

NAMES = ['mobilenetv2', 'efficientnetb0', 'resnet50', 'inceptionv3', 'densenet121', 'convnext', 'bert']
FOLDER = f'{environment.ROOT}/build/peers'
# This model's depthwise convolutions are functions that XLA has to compile, and its GELU has Erfc.
# TensorFlow runs these four times slower than necessary, and no other peer reads them.
PLAIN = ['convnext']


def description(name):
    with open(f'{environment.MODELS}/frozen/{name}.json') as f:
        return json.load(f)


def source(name):
    return f'{environment.MODELS}/frozen/{name}.pb'


def shapes(name, batch):
    """Options for Halftone; the models have batch 1."""
    if batch == 1:
        return []
    d = description(name)
    return [o for n, s in zip(d['inputs'], d['shapes'])
            for o in ('--input-shape', f'{n.removesuffix(":0")}:' + ','.join(map(str, [batch] + s[1:])))]


def graph(name):
    """The GraphDef that peers read."""
    return f'{FOLDER}/{name}.pb' if name in PLAIN else source(name)


def obtain(name):
    environment.obtain(name)
    if name in PLAIN and not os.path.exists(graph(name)):
        write_plain(name)


def write_plain(name):
    """The graph with functions inlined, and Erfc(x) as 1 - Erf(x)."""
    from tensorflow.core.framework import graph_pb2
    os.makedirs(FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        text, inlined = f'{folder}/m.hir', f'{folder}/m.pb'
        subprocess.run([environment.TOOL, 'opt', '-q', source(name), '--passes', 'inline', '-o', text], check=True)
        subprocess.run([environment.TOOL, 'convert', '-q', text, '-o', inlined], check=True)
        g = graph_pb2.GraphDef()
        with open(inlined, 'rb') as f:
            g.ParseFromString(f.read())
    g.ClearField('library')
    for node in [n for n in g.node if n.op == 'Erfc']:
        one, erf = (g.node.add(name=f'{node.name}/{part}', op=op) for part, op in (('one', 'Const'), ('erf', 'Erf')))
        one.attr['dtype'].type = one.attr['value'].tensor.dtype = node.attr['T'].type
        one.attr['value'].tensor.float_val.append(1.)
        one.attr['value'].tensor.tensor_shape.SetInParent()
        erf.attr['T'].CopyFrom(node.attr['T'])
        erf.input.append(node.input[0])
        node.op = 'Sub'
        node.input[:] = [one.name, erf.name]
    for old in glob.glob(f'{FOLDER}/{name}.onnx*') + glob.glob(f'{FOLDER}/{name}-*'):  # of another graph
        os.remove(old)
    with open(graph(name), 'wb') as f:
        f.write(g.SerializeToString())


def compile_for(engine, q):
    """The path of the file that peer_compilers writes for IREE or TVM; RuntimeError with the reason if it fails."""
    if not os.path.exists(q['onnx']):
        raise RuntimeError(f'there is no {q["onnx"]} to compile: see {q["onnx"]}.failed')
    path = os.path.splitext(q['onnx'])[0] + f'-{q["batch"]}.{"vmfb" if engine == "iree" else "so"}'
    if os.path.exists(path + '.failed'):
        with open(path + '.failed') as f:
            raise RuntimeError(f.read())
    if not os.path.exists(path):
        done = subprocess.run([python_of(engine), f'{os.path.dirname(__file__)}/peer_compilers.py', engine,
                               json.dumps(q), path], capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f'it ended with {done.returncode}']
            why = ([l for l in said if re.search(r'error\b', l, re.I)] or said)[-1][:200]  # TVM prints warnings after the error
            with open(path + '.failed', 'w') as f:
                f.write(why)
            raise RuntimeError(why)
    return path


def python_of(engine):
    """The interpreter whose environment has the engine."""
    if engine not in ('iree', 'tvm'):
        return sys.executable
    return subprocess.run([f'{environment.ROOT}/scripts/venv', 'compilers', 'bench/compilers.txt'], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
