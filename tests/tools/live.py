"""Models of live TensorFlow, run by the tool in each way, and converted under policies."""
import os
import subprocess
import sys

import environment

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import freezing  # noqa: E402

POLICIES = {'force_fp16': 2e-2, 'allow_mix_precision_bf16': 1e-1, 'optimal': 2e-2}
# One unit in the last place of the policy's low dtype: with few elements, Halftone's code and TensorFlow's may
# round a state of a loop and a result differently by chance.
ROUNDING = {'force_fp16': 2 ** -10, 'allow_mix_precision_bf16': 2 ** -7}
TOLERANCE = 1e-5


def tool(*args, code=0):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300,
                       env={**os.environ, 'HALFTONE_POLICY': ''})
    if r.returncode != code:
        sys.exit(f'{args}: ended with {r.returncode}\n{r.stderr}')
    return r.stdout + r.stderr


def error(got, want):
    """The largest difference, relative to the largest element or 1."""
    return np.abs(got.astype('f8') - want).max(initial=0) / max(np.abs(want).max(initial=0), 1)


def close(got, want, tolerance):
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind != 'f':
        return np.array_equal(got, want)
    return error(got, want) <= tolerance


def fed(folder, feeds):
    """The options that feed arrays, which go to a file."""
    np.savez(f'{folder}/x.npz', **feeds)
    return [o for k in feeds for o in ('--input', f'{k}=@{folder}/x.npz#{k}')]


def check_stops(what, folder, model, feeds, *reasons):
    """Checks that a run with these feeds stops, states the reasons, and writes nothing."""
    said = tool('run', model, *fed(folder, feeds), '-o', f'{folder}/none.npz', code=3)
    if any(reason not in said for reason in reasons) or os.path.exists(f'{folder}/none.npz'):
        sys.exit(f'{what}: {said!r}')


def run(folder, model, feeds, outputs, *args):
    tool('run', model, '-o', f'{folder}/y.npz', *fed(folder, feeds), *args)
    with np.load(f'{folder}/y.npz') as z:
        return [z[n] for n in outputs]


def run_net(folder, model, feeds, outputs, want):
    """The net's own example program takes raw inputs and writes raw outputs."""
    net = f'{folder}/net'
    tool('aot', '-q', model, '--name', 'm', '-o', net, '--target', 'x86-64-v3', '--outputs', ','.join(outputs))
    subprocess.run(['gcc', '-D_GNU_SOURCE', f'-I{net}', f'{net}/m_main.c', f'{net}/m.o', '-o', f'{net}/main'], check=True)
    for name, x in feeds.items():
        x.tofile(f'{net}/{name}.raw')
    raw = subprocess.run([f'{net}/main', *(f'{net}/{n}.raw' for n in feeds)], check=True, stdout=subprocess.PIPE).stdout
    got, at = [], 0
    for w in want:
        got.append(np.frombuffer(raw, w.dtype, w.size, at).reshape(w.shape))
        at += w.nbytes
    return got


def imported(path):
    proto = tf.compat.v1.GraphDef()
    with open(path, 'rb') as f:
        proto.ParseFromString(f.read())
    return proto


def converted(path, feeds, outputs):
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(imported(path), name='')
    with tf.compat.v1.Session(graph=graph) as s:
        present = {n.name for n in graph.as_graph_def().node}
        return s.run([f'{o}:0' if ':' not in o else o for o in outputs],
                     {f'{k}:0': v for k, v in feeds.items() if k in present})


def check(name, folder, model, feeds, outputs, want, policies=POLICIES):
    def agree(how, got, tolerance=TOLERANCE, than=None):
        for o, g, w in zip(outputs, got, want if than is None else than):
            if not close(g, w, tolerance):
                sys.exit(f'{name}, {how}: {o} is {g}, not {w}')

    asked = '--outputs', ','.join(outputs)
    got = run(folder, model, feeds, outputs, *asked)
    agree('run', got)
    agree('two threads', run(folder, model, feeds, outputs, *asked, '--threads', '2'), 0, got)
    tool('compile', '-q', model, '-o', f'{folder}/m.htx', *asked)
    agree('artefact', run(folder, f'{folder}/m.htx', feeds, outputs), 0, got)
    agree('net', run_net(folder, model, feeds, outputs, want))
    for policy, tolerance in policies.items():
        tool('convert', '-q', model, '-o', f'{folder}/c.pb', '--policy', policy)
        ours = run(folder, model, feeds, outputs, *asked, '--policy', policy)
        theirs = converted(f'{folder}/c.pb', feeds, outputs)
        agree(policy, ours, tolerance)
        agree(f'converted under {policy}', theirs, tolerance, ours)
        for o, g, t, w in zip(outputs, ours, theirs, want):
            if error(g, w) > 2 * error(t, w) + ROUNDING.get(policy, 0) + TOLERANCE:
                sys.exit(f'{name}, {policy}: {o} is off by {error(g, w)}, TensorFlow by {error(t, w)}')


def freeze(f, signature, path):
    """Writes the graph of `f`, frozen and with functional control flow; returns its concrete function."""
    f = freezing.frozen(tf.function(f, input_signature=signature).get_concrete_function(), lower_control_flow=False)
    with open(path, 'wb') as out:
        out.write(f.graph.as_graph_def().SerializeToString())
    return f
