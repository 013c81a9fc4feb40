#!/usr/bin/env python3
"""Variables that a graph changes: random modules of TensorFlow that read and assign variables, also in branches and
loops, give TensorFlow's results over several runs of one session: by the tool on one thread and two, from an
artefact, and as a net. Unsupported graphs are refused with the node's name.

Exit code 77: nothing to test with.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

TOLERANCE = 1e-5
POLICIES = {'allow_mix_precision_bf16': 1e-1, 'optimal': 1e-5}
DTYPES = ('float32', 'float32', 'float32', 'int32', 'int64', 'float64', 'bfloat16')
SIGNATURE = [tf.TensorSpec([3, 4], tf.float32, name='x')]

# The arguments are files of raw inputs.  Writes the outputs of the last of `runs` runs.
PROGRAM = '''#include "m.h"
#include <stdio.h>
#include <stdlib.h>
static void *memory(size_t n) { return aligned_alloc(64, (n + 64) / 64 * 64); }
int main(int argc, char **argv)
{
	const void *in[M_INPUTS + 1] = { 0 };
	void *out[M_OUTPUTS + 1];
	static const size_t bytes[] = { %(bytes)s };
	void *arena = memory(M_ARENA_BYTES);
	for (int i = 1; i < argc; i++) {
		void *x = memory(1 << 16);
		FILE *f = fopen(argv[i], "rb");
		if (!f || !fread(x, 1, 1 << 16, f))
			return 3;
		in[i - 1] = x;
	}
	for (int i = 0; i < M_OUTPUTS; i++)
		out[i] = memory(bytes[i]);
	out[M_OUTPUTS] = memory(M_VARIABLES_BYTES);
	if (m_begin(NULL) != M_E_VARIABLES || m_begin(out[M_OUTPUTS]) != M_OK)
		return 5;
	for (int i = 0; i < %(runs)d; i++)
		if (m_run(in, out, arena) != M_OK)
			return 6;
	for (int i = 0; i < M_OUTPUTS; i++)
		fwrite(out[i], 1, bytes[i], stdout);
	return 0;
}
'''


def tool(*args, code=0):
    r = subprocess.run([environment.TOOL, *args], capture_output=True, text=True, timeout=300,
                       env={**os.environ, 'HALFTONE_POLICY': ''})
    if r.returncode != code:
        sys.exit(f'{args}: ended with {r.returncode}\n{r.stderr}')
    return r.stdout + r.stderr


# ---- modules ----

class Module(tf.Module):
    """Each of `statements` is (kind, variable, number, nested statements)."""

    def __init__(self, r):
        super().__init__()
        shapes = ((), (4,), (3, 4), (3, 1))
        self.weight = tf.Variable((r.standard_normal((4, 4)) * 0.3).astype('f4'))  # never changed
        self.v = []
        for i in range(int(r.integers(1, 5))):
            dtype, shape = DTYPES[r.integers(len(DTYPES))], shapes[r.integers(len(shapes))]
            self.v.append(tf.Variable(tf.cast(r.standard_normal(shape) * 3, dtype), name=f'scope/v{i}'))
        self.statements = self.draw(r, 0)

    def draw(self, r, depth):
        kinds = ('add', 'subtract', 'assign', 'read') + (('if', 'while', 'case') if depth < 2 else ())
        return [(k, int(r.integers(len(self.v))), float(r.uniform(-1, 2)),
                 [self.draw(r, depth + 1), self.draw(r, depth + 1)] if k in ('if', 'while', 'case') else None)
                for k in (kinds[r.integers(len(kinds))] for _ in range(int(r.integers(1, 4))))]

    def value(self, v, x, number):
        """A value with the variable's dtype and shape, bounded."""
        read = tf.cast(v, tf.float32)
        mixed = tf.tanh(read * 0.5 + tf.reduce_mean(x @ self.weight) + number) * 2
        return tf.cast(mixed, v.dtype)

    def run(self, statements, x, reads):
        for kind, i, number, within in statements:
            v = self.v[i]
            if kind == 'add':
                v.assign_add(self.value(v, x, number))
            elif kind == 'subtract':
                v.assign_sub(self.value(v, x, number))
            elif kind == 'assign':
                v.assign(self.value(v, x, number))
            elif kind == 'read' and reads is not None:
                reads.append(v.read_value())
            elif kind == 'if':
                tf.cond(tf.reduce_sum(tf.cast(v, tf.float32)) > number, lambda: self.branch(within[0], x),
                        lambda: self.branch(within[1], x))
            elif kind == 'case':  # with three branches, and with numbers below and above them
                index = tf.cast(tf.reduce_sum(tf.cast(v, tf.float32)) * 2 + number, tf.int32)
                tf.switch_case(index, [lambda: self.branch(within[0], x), lambda: self.branch(within[1], x),
                                       lambda: self.branch(within[1] + within[0], x)])
            elif kind == 'while':
                tf.while_loop(lambda j: j < 3, lambda j: j + self.branch(within[0], x), [0])

    def branch(self, statements, x):
        self.run(statements, x, None)
        return 1

    @tf.function(input_signature=SIGNATURE)
    def step(self, x):
        reads = []
        self.run(self.statements, x, reads)
        self.v[0].assign_add(tf.cast(tf.ones_like(self.v[0]), self.v[0].dtype))
        reads += [v.read_value() for v in self.v]
        return {f'y{i:02}': r for i, r in enumerate(reads)}


# ---- results ----

def close(got, want, tolerance):
    if got.shape != want.shape:
        return False
    if want.dtype == tf.bfloat16.as_numpy_dtype:
        got, want, tolerance = got.astype('f4'), want.astype('f4'), 3e-2
    if want.dtype.kind != 'f':
        return np.array_equal(got, want)
    return np.abs(got - want).max(initial=0) <= tolerance * max(np.abs(want).max(initial=0), 1)


def run(folder, model, x, runs, outputs, *args):
    np.save(f'{folder}/x.npy', x)
    tool('run', model, '--widen', '-o', f'{folder}/y.npz', '--input', f'x=@{folder}/x.npy', '--runs', str(runs), *args)
    with np.load(f'{folder}/y.npz') as z:
        return [z[n] for n in outputs]


def run_net(folder, model, x, runs, want):
    net = f'{folder}/net'
    tool('aot', '-q', model, '--name', 'm', '-o', net, '--target', 'x86-64-v3')
    with open(f'{net}/t.c', 'w') as f:
        f.write(PROGRAM % {'bytes': ', '.join(str(w.nbytes) for w in want), 'runs': runs})
    subprocess.run(['gcc', f'-I{net}', f'{net}/t.c', f'{net}/m.o', '-o', f'{net}/t'], check=True)
    x.tofile(f'{net}/x.raw')
    raw = subprocess.run([f'{net}/t', f'{net}/x.raw'], check=True, stdout=subprocess.PIPE).stdout
    got, at = [], 0
    for w in want:
        got.append(np.frombuffer(raw, w.dtype, w.size, at).reshape(w.shape))
        at += w.nbytes
    return got


def changes_whole_numbers(module, policy):
    """Whether a policy's roundings may change which branch is taken, or a number's floor."""
    return any(not v.dtype.is_floating for v in module.v) or any(s[3] for s in module.statements)


def check(r, folder):
    module, path = Module(r), f'{folder}/saved'
    tf.saved_model.save(module, path, signatures=module.step)
    fresh = tf.saved_model.load(path).signatures['serving_default']
    x = r.standard_normal((3, 4)).astype('f4')
    runs = int(r.integers(1, 6))
    for _ in range(runs):
        results = fresh(x=tf.constant(x))
    names = sorted(results)
    want = [results[n].numpy() for n in names]
    outputs = ['StatefulPartitionedCall' + (f':{i}' if i else '') for i in range(len(names))]

    def agree(how, got, tolerance=TOLERANCE):
        for name, g, w in zip(names, got, want):
            if not close(g, w, tolerance):
                sys.exit(f'{how} of {runs} runs: {name} is {g}, not {w}\n{module.statements}')

    agree('run', run(folder, path, x, runs, outputs))
    agree('two threads', run(folder, path, x, runs, outputs, '--threads', '2'))
    agree('guarded', run(folder, path, x, runs, outputs, '--guard', 'behind'))
    tool('compile', '-q', path, '-o', f'{folder}/m.htx')
    agree('artefact', run(folder, f'{folder}/m.htx', x, runs, outputs))
    agree('net', run_net(folder, path, x, runs, want))
    for policy, tolerance in POLICIES.items():
        got = run(folder, path, x, runs, outputs, '--policy', policy)
        if not changes_whole_numbers(module, policy):
            agree(policy, got, tolerance)


# ---- refused modules ----

class Assigns(tf.Module):
    def __init__(self):
        super().__init__()
        self.v = tf.Variable(np.zeros((3, 4), 'f4'))

    @tf.function(input_signature=SIGNATURE)
    def step(self, x):
        self.v[1:2].assign(x[:1])
        return {'y': self.v.read_value()}


class Grows(tf.Module):
    def __init__(self):
        super().__init__()
        self.v = tf.Variable(np.zeros((3, 4), 'f4'), shape=tf.TensorShape(None))

    @tf.function(input_signature=SIGNATURE)
    def step(self, x):
        self.v.assign(tf.concat([x, x], 0))
        return {'y': x + 1}


def refuse(path, words):
    said = tool('run', path, code=4)
    if words not in said:
        sys.exit(f'expected "{words}", not: {said}')


def check_refusals(folder):
    for kind, words in (Assigns, 'ResourceStridedSliceAssign'), (Grows, 'changes the type or shape of its variable'):
        module = kind()
        tf.saved_model.save(module, f'{folder}/bad', signatures=module.step)
        refuse(f'{folder}/bad', words)
    with tf.Graph().as_default() as g:
        v = tf.compat.v1.get_variable('v', [2], use_resource=True)
        with tf.control_dependencies([v.assign_add([1., 2.])]):
            tf.identity(v.read_value(), name='y')
    with open(f'{folder}/bad.pb', 'wb') as out:
        out.write(g.as_graph_def().SerializeToString())
    said = tool('run', f'{folder}/bad.pb', '--outputs', 'y', code=4)
    if 'has no checkpoint' not in said:
        sys.exit(said)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=8101)
    p.add_argument('--rounds', type=int, default=60 if environment.LONG else 6)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.rounds):
            check(np.random.default_rng(a.seed + i), folder)
        check_refusals(folder)
    print(f'{a.rounds} modules that change variables agree with TensorFlow')


main()
