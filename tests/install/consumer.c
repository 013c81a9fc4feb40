/* A program of a user's; consumer.cc is the same in C++.  Its argument is the version that it
 * expects of the library. */
#include <halftone/halftone.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct ht_diags *diags = ht_diags_new();
	int bad = !diags || argc != 2 || strcmp(ht_version(), argv[1]) != 0;

	if (bad)
		fprintf(stderr, "version %s, expected %s\n", ht_version(), argc == 2 ? argv[1] : "?");
	if (strcmp(ht_dtype_name(HT_BF16), "bfloat16") != 0)
		bad = 1;
	ht_diags_free(diags);
	return bad;
}
