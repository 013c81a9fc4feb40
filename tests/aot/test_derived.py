#!/usr/bin/env python3
"""A net with a steady input keeps the data derived from it, in memory of its caller, for runs that say that it is
unchanged."""
import unittest

from nets import C, CXX, Nets

MODEL = b'''hir 1
entry "" {
  input "x" = %x
  input "w" = %w
  output "z" = %z
}
%x = Placeholder() {dtype=f32, shape=shape[16,64]}
%w = Placeholder() {dtype=f32, shape=shape[64,96]}
%z = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
'''

# Each run states its weights, and whether it says that they are unchanged.  If that is false, the
# results are those of the old weights, which shows that nothing was computed again.
PROGRAM = '''#include "net.h"
#include <stdio.h>
#include <stdlib.h>
static float x[16 * 64], w[64 * 96], z[16 * 96];
static int wrong;
static void fill(float *to, int n, float value)
{
	for (int i = 0; i < n; i++)
		to[i] = value;
}
static void run(void *arena, void *variables, float weight, int unchanged, float expected)
{
	const struct net_inputs in = { .x = x, .w = w };
	const struct net_outputs out = { .z = z };

	fill(w, 64 * 96, weight);
	if (unchanged)
		net_unchanged_w(variables);
	wrong |= net_call(&in, &out, arena, variables) != NET_OK;
	for (int i = 0; i < 16 * 96; i++)
		if (z[i] != 64 * expected) {
			printf("%g in place of %g\\n", z[i], 64 * expected);
			exit(1);
		}
}
int main(void)
{
	void *arena = aligned_alloc(64, (NET_ARENA_BYTES + 63) / 64 * 64);
	void *variables = aligned_alloc(64, (NET_VARIABLES_BYTES + 63) / 64 * 64);
	const void *inputs[NET_INPUTS + 1] = { x, w };
	void *outputs[NET_OUTPUTS + 1] = { z };

	fill((float *)variables, NET_VARIABLES_BYTES / sizeof(float), 9);
	if (net_run(inputs, outputs, arena) != NET_E_VARIABLES || net_begin(variables) != NET_OK)
		return 2;
	fill(x, 16 * 64, 1);
	run(arena, variables, 3, 1, 3); /* nothing was made before */
	run(arena, variables, 3, 1, 3);
	run(arena, variables, 5, 1, 3);
	run(arena, variables, 5, 0, 5);
	run(arena, variables, 7, 0, 7);
	run(arena, variables, 2, 1, 7);
	run(arena, variables, 2, 1, 7);
	run(arena, variables, 2, 0, 2);
	net_begin(variables);
	run(arena, variables, 4, 1, 4);
	free(arena);
	free(variables);
	return wrong;
}
'''


class Derived(Nets):
    def test_steady_input(self):
        model, program = self.path('m.hir', MODEL), self.path('program.c', PROGRAM.encode())
        folder = self.aot(model, 'net', '--steady', 'w')
        for compiler in C, CXX:
            main = program if compiler is C else self.path('program.cc', PROGRAM.replace('.x = ', '').replace('.w = ', '').replace(
                '.z = ', '').encode())
            for link in self.links(folder, 'net'):
                self.run_ok(self.build(folder, 'net', link, compiler, main))
        self.run_ok(self.build(folder, 'net', self.links(folder, 'net')[0]))  # the example

    def test_without(self):
        """The net has no kept memory, and no function for it."""
        model = self.path('m.hir', MODEL)
        with open(self.aot(model, 'net') + '/net.h') as f:
            header = f.read()
        self.assertNotIn('net_unchanged', header)
        self.assertNotIn('NET_VARIABLES_BYTES', header)

    def test_unknown(self):
        model = self.path('m.hir', MODEL)
        for verb, *more in ('aot', '-o', self.dir), ('compile', '-o', self.dir + '/m.htx'), ('bench',):
            self.fails(2, "no input 'v'", verb, model, '--steady', 'v', *more)


if __name__ == '__main__':
    unittest.main()
