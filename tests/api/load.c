/* Loads the artefact that the argument names, and refers to nothing else of the static library. */
#include <halftone/runtime.h>

#include <stdio.h>

int main(int argc, char **argv)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_program *p = NULL;
	struct ht_bytes line;
	enum ht_status st = argc == 2 ? ht_program_load(argv[1], NULL, d, &p) : HT_E_USAGE;

	for (size_t i = 0; i < ht_diags_count(d); i++)
		if (ht_diags_line(d, i, &line) == HT_OK)
			printf("%.*s\n", (int)line.n, (const char *)line.p);
	ht_program_free(p);
	ht_diags_free(d);
	return (int)st;
}
