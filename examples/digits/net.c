/* Recognises a handwritten digit with a net that was compiled ahead of time: `halftone aot model.pb
 * --name digits` makes digits.h and digits.o, which are all that this program needs beside libc.
 *
 * usage: digits_net [IMAGE.raw]     28 x 28 bytes, 255 is ink; without a file a stroke like a 1 */
#include "digits.h"

#include <stdio.h>
#include <string.h>

static _Alignas(DIGITS_ARENA_ALIGN) char arena[DIGITS_ARENA_BYTES];

static int read_image(const char *path, uint8_t *image)
{
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(image, 1, DIGITS_INPUT_0_BYTES, f) : 0;

	if (f)
		fclose(f);
	return n == DIGITS_INPUT_0_BYTES;
}

static void draw_stroke(uint8_t *image)
{
	memset(image, 0, DIGITS_INPUT_0_BYTES);
	for (int row = 4; row < 24; row++)
		memset(image + 28 * row + 13, 255, 3);
}

int main(int argc, char **argv)
{
	uint8_t image[DIGITS_INPUT_0_BYTES];
	float score[10];
	struct digits_inputs in = { image };
	struct digits_outputs out = { score };
	int best = 0, status;

	if (argc < 2) {
		draw_stroke(image);
	} else if (!read_image(argv[1], image)) {
		fprintf(stderr, "%s: not %zu bytes of an image\n", argv[1], sizeof image);
		return 3;
	}
	status = digits_call(&in, &out, arena);
	if (status != DIGITS_OK) {
		char why[1000];

		digits_stop_text(status, arena, why, sizeof why);
		fprintf(stderr, "%s\n", why);
		return 4;
	}
	for (int i = 1; i < 10; i++)
		if (score[i] > score[best])
			best = i;
	printf("%d, by code for %s\n", best, digits_target());
	return 0;
}
