"""The small models of tests/models/table.py for bench/peers, with the inputs of the tests.  Peers that
do not read TF.js graph models get the GraphDef that `halftone convert` writes."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(f'{HERE}/../tests/models')
import environment
from table import MODELS

ROWS = {m.name: m for m in MODELS if m.oracle in ('tfjs', 'tfjs-cpu')}
FOLDER = f'{environment.ROOT}/build/peers/small'
# Writes the inputs of a model and the outputs that the tests expect.  It runs in the environment of
# the tests, which has the photographs and the oracle.
EXAMPLE = '''
import sys
sys.path[:0] = sys.argv[4:]
import data, numpy, oracle, table
row = next(m for m in table.MODELS if m.name == sys.argv[1])
inputs = {n: numpy.asarray(x) for n, x in row.inputs(data).items()}
want = oracle.reference(row, sys.argv[2], inputs)
numpy.savez(sys.argv[3] + '.npz', **inputs)
numpy.savez(sys.argv[3] + '-want.npz', **{f'{i:03}': want[n] for i, n in enumerate(row.outputs)})
'''


def source(name):
    return f'{environment.MODELS}/{ROWS[name].path}'


def graph(name):
    return f'{FOLDER}/{name}.pb'


def description(name):
    with open(f'{FOLDER}/{name}.json') as f:
        return json.load(f)


def want(name):
    return f'{FOLDER}/{name}-want.npz'


def shapes(name):
    """The --input-shape options for Halftone."""
    return [o for n, s in zip(description(name)['inputs'], description(name)['shapes'])
            for o in ('--input-shape', f'{n.removesuffix(":0")}:' + ','.join(map(str, s)))]


def obtain(name):
    """GraphDef, description, inputs and expected outputs, made once."""
    row = ROWS[name]
    environment.obtain(row.package)
    if os.path.exists(f'{FOLDER}/{name}.json'):
        return
    os.makedirs(FOLDER, exist_ok=True)
    python = subprocess.run([f'{environment.ROOT}/scripts/venv', 'tests', 'tests/requirements.txt'],
                            check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    subprocess.run([python, '-c', EXAMPLE, name, source(name), f'{FOLDER}/{name}',
                    f'{HERE}/../tests/models', f'{HERE}/../tests/tools'], check=True)
    import numpy as np
    with np.load(f'{FOLDER}/{name}.npz') as z:
        inputs = {n: (list(z[n].shape), str(z[n].dtype)) for n in z.files}
    options = [o for n, (s, _) in inputs.items()
               for o in ('--input-shape', f'{n}:' + ','.join(map(str, s)))]
    # TensorFlow.js' fused nodes lack attributes of TensorFlow's, and TensorFlow has no op Prelu.
    plain = f'{FOLDER}/{name}.hir'
    subprocess.run([environment.TOOL, 'opt', '-q', source(name), '--passes',
                    'split_fused,infer,expand_fused', '-o', plain], check=True)
    subprocess.run([environment.TOOL, 'convert', '-q', plain, *options, '-o', graph(name)], check=True)
    with open(f'{FOLDER}/{name}.json', 'w') as f:
        json.dump({'inputs': [f'{n}:0' for n in inputs], 'outputs': [f'{o}:0' for o in row.outputs],
                   'shapes': [s for s, _ in inputs.values()],
                   'dtypes': [d for _, d in inputs.values()]}, f)
