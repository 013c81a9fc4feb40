"""Common to the tests of models with open sizes."""
import re
import subprocess
import sys

from live import TOLERANCE, close, np, tf, tool


def weights(r, *shape):
    return tf.constant((r.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype('f4'))


def agree(name, how, outputs, got, want, tolerance=TOLERANCE):
    for o, g, w in zip(outputs, got, want):
        if not close(g, w, tolerance):
            sys.exit(f'{name}, {how}: {o} is {g}, not {w}')


def expected(f, feeds):
    return [t.numpy() for t in f(*map(tf.constant, feeds.values()))]


def make_net(folder, asked, target='x86-64-v3'):
    """A net and its example."""
    net = f'{folder}/net'
    tool('aot', '-q', f'{folder}/m.pb', '--name', 'm', '-o', net, '--target', target, *asked)
    subprocess.run(['gcc', '-D_GNU_SOURCE', '-Wall', '-Werror', f'-I{net}', f'{net}/m_main.c', f'{net}/m.o', '-o',
                    f'{net}/main'], check=True)
    return net


# Runs a net in an arena of as many bytes as the net says for the sizes, filled with 0xa5 as is the memory
# around it.  Exit code 3: the net wrote around it; 4: the net asks for more than it does for all sizes.
IN_ARENA = """#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum {{ AROUND = 8192 }};
int main(int argc, char **argv)
{{
	int64_t size[{numbers}] = {{ {sizes} }};
	const size_t out_bytes[] = {{ {bytes} }}, n = m_arena_bytes(1, {sizes});
	char *all = aligned_alloc(64, (n + 2 * AROUND + 63) / 64 * 64);
	const void *in[M_INPUTS + 1] = {{ 0 }};
	void *out[M_OUTPUTS + 1] = {{ 0 }};
	int status;

	if (n > M_ARENA_BYTES)
		return 4;
	memset(all, 0xa5, n + 2 * AROUND);
	for (int i = 1; i < argc; i++) {{
		FILE *f = fopen(argv[i], "rb");
		char *x = malloc(1 << 26);
		if (!f || !x || fread(x, 1, 1 << 26, f) == 0)
			return 5;
		in[i - 1] = x;
	}}
	in[M_INPUTS] = size;
	for (int i = 0; i < M_OUTPUTS; i++)
		out[i] = calloc(1, out_bytes[i] + 64);
	status = m_run(in, out, all + AROUND);
	for (size_t i = 0; i < AROUND; i++)
		if (all[i] != (char)0xa5 || all[AROUND + n + i] != (char)0xa5)
			return 3;
	const size_t written[] = {{ {written} }};
	for (int i = 0; i < M_OUTPUTS; i++)
		fwrite(out[i], 1, written[i], stdout);
	return status;
}}
"""


def run_in_arena(net, sizes, feeds, want):
    """The results of a run in no more memory than the net asks for at these sizes."""
    with open(f'{net}/m.h') as f:
        header = f.read()
    stated = ', '.join(f'INT64_C({s})' for s in sizes)
    byte = [f'M_OUTPUT_{i}_BYTES_FOR({stated})' if f'M_OUTPUT_{i}_BYTES_FOR' in header else f'M_OUTPUT_{i}_BYTES' for i in range(len(want))]
    written = [f'M_OUTPUT_{i}_BYTES_OF(size)' if f'M_OUTPUT_{i}_BYTES_OF' in header else b for i, b in enumerate(byte)]
    with open(f'{net}/in_arena.c', 'w') as f:
        f.write(IN_ARENA.format(sizes=stated, numbers='M_SIZES' if ' M_SIZES ' in header else len(sizes), bytes=', '.join(byte),
                                written=', '.join(written)))
    subprocess.run(['gcc', '-Wall', '-Wextra', '-Wpedantic', '-Werror', f'-I{net}', f'{net}/in_arena.c', f'{net}/m.o', '-o', f'{net}/in_arena'], check=True)
    return results_of([f'{net}/in_arena'], net, feeds, want)


def in_order(shapes, sizes):
    """The open sizes in the order of a net's arguments: by the number of their dimension.  Open extents are texts, which `sizes` gives a number."""
    axes = {s: i for shape in shapes for i, s in enumerate(shape) if isinstance(s, str)}
    return [sizes[s] for s in sorted(axes, key=axes.get)]


def run_net(net, sizes, feeds, want):
    """The results of the net's example, which have the types and shapes of `want`."""
    return results_of([f'{net}/main', *map(str, sizes)], net, feeds, want)


def inputs_of(net):
    """The names of a net's inputs, in its order."""
    with open(f'{net}/m.h') as f:
        return re.findall(r'#define M_INPUT_\d+_NAME "(.*)"', f.read())


def results_of(command, net, feeds, want):
    for n, x in feeds.items():
        x.tofile(f'{net}/{n}.raw')
    raw = subprocess.run([*command, *(f'{net}/{n}.raw' for n in inputs_of(net))], check=True, stdout=subprocess.PIPE).stdout
    got, at = [], 0
    for w in want:
        if at + w.nbytes > len(raw):
            sys.exit(f'{command}: {len(raw)} bytes are fewer than those of {[w.shape for w in want]}')
        got.append(np.frombuffer(raw, w.dtype, w.size, at).reshape(w.shape))
        at += w.nbytes
    if at != len(raw):
        sys.exit(f'{command}: {len(raw)} bytes are more than those of {[w.shape for w in want]}')
    return got


def net_refuses(net, *sizes):
    return subprocess.run([f'{net}/main', *map(str, sizes)], capture_output=True).returncode != 0
