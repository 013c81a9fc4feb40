/* Inputs and outputs of strings: converts between the layout of struct ht_array and the numbers
 * with which a program computes (base/strings.h). */
#include "api/texts.h"

#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

/* An input or output.  Its members are used only if it is one of strings. */
struct port {
	int64_t *number; /* of each element */
	size_t room;     /* elements */
	char *block;     /* of an output: in the layout of struct ht_array */
	size_t block_room, bytes;
};

struct ht_texts {
	const struct ht_program *program;
	struct ht_strings *strings;
	struct port *port; /* inputs, then outputs */
};

static size_t ports_of(const struct ht_program *p)
{
	return ht_program_inputs(p) + ht_program_outputs(p);
}

static struct port *output_at(const struct ht_texts *t, size_t i)
{
	return &t->port[ht_program_inputs(t->program) + i];
}

struct ht_texts *ht_texts_new(const struct ht_program *p, struct ht_strings *strings)
{
	struct ht_texts *t = ht_sys_alloc(sizeof *t);

	if (!t)
		return NULL;
	*t = (struct ht_texts){ .program = p,
		.strings = strings,
		.port = ht_sys_alloc((ports_of(p) + 1) * sizeof *t->port) };
	if (t->port)
		return t;
	free(t);
	return NULL;
}

void ht_texts_free(struct ht_texts *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < ports_of(t->program); i++) {
		free(t->port[i].number);
		free(t->port[i].block);
	}
	free(t->port);
	free(t);
}

void ht_texts_begin(struct ht_texts *t)
{
	ht_strings_forget(t->strings);
}

static enum ht_status no_memory(const char *what, const char *name, struct ht_diags *d)
{
	return ht_refuse(d, HT_E_ENVIRONMENT, "no memory for the strings of %s '%s'", what, name);
}

/* Makes room for so many numbers; the old content is lost. */
static bool make_room(struct port *p, size_t count)
{
	if (count <= p->room && p->number)
		return true;
	free(p->number);
	p->room = count + 1;
	p->number =
		p->room > SIZE_MAX / sizeof *p->number ? NULL : malloc(p->room * sizeof *p->number);
	return p->number;
}

/* ---- inputs ---- */

static uint64_t offset_at(const struct ht_array *a, size_t i)
{
	uint64_t offset;

	memcpy(&offset, (const char *)a->data + i * sizeof offset, sizeof offset);
	return offset;
}

/* The index of the first offset that is below the one before it, or of the last offset if it is
 * not the number of bytes; n + 1: all are correct. */
static size_t wrong_offset(const struct ht_array *a, size_t n, size_t bytes)
{
	uint64_t least = 0;

	for (size_t i = 0; i <= n; i++) {
		uint64_t is = offset_at(a, i);

		if (is < least || (i == 0 && is) || (i == n && is != bytes))
			return i;
		least = is;
	}
	return n + 1;
}

static enum ht_status check_block(
	const char *name, const struct ht_array *a, size_t n, struct ht_diags *d)
{
	size_t offsets = (n + 1) * sizeof(uint64_t), wrong = 0;

	if (a->bytes >= offsets)
		wrong = wrong_offset(a, n, a->bytes - offsets);
	if (wrong > n)
		return HT_OK;
	return ht_refuse(d, HT_E_INPUT,
		"the %zu bytes of input '%s' are no %zu strings behind their offsets: offset %zu is wrong",
		a->bytes, name, n, wrong);
}

static size_t count_of(const struct ht_array *a)
{
	size_t n = 1;

	for (int32_t i = 0; i < a->rank; i++)
		n *= (size_t)a->dim[i];
	return n;
}

enum ht_status ht_texts_take(struct ht_texts *t, size_t i, const struct ht_array *a,
	struct ht_diags *d, const void **numbers)
{
	const char *name = t->program->input[i].name,
		   *bytes = (const char *)a->data + (count_of(a) + 1) * sizeof(uint64_t);
	size_t n = count_of(a);

	HT_TRY(check_block(name, a, n, d));
	if (!make_room(&t->port[i], n))
		return no_memory("input", name, d);
	for (size_t k = 0; k < n; k++) {
		uint64_t begin = offset_at(a, k), end = offset_at(a, k + 1);
		int64_t number = ht_strings_number(
			t->strings, (struct ht_str){ bytes + begin, (size_t)(end - begin) });

		if (number < 0)
			return no_memory("input", name, d);
		t->port[i].number[k] = number;
	}
	*numbers = t->port[i].number;
	return HT_OK;
}

/* ---- outputs ---- */

enum ht_status ht_texts_expect(
	struct ht_texts *t, size_t i, size_t count, struct ht_diags *d, void **numbers)
{
	struct port *p = output_at(t, i);

	if (!make_room(p, count))
		return no_memory("output", t->program->output[i].name, d);
	*numbers = p->number;
	p->bytes = 0;
	return HT_OK;
}

/* Sums the bytes of the strings of output `i`. Checks their numbers, since the code of a damaged
 * artefact may have written invalid ones. */
static enum ht_status measure(
	const struct ht_texts *t, size_t i, size_t count, size_t *bytes, struct ht_diags *d)
{
	const struct port *p = output_at(t, i);
	struct ht_str text;

	*bytes = 0;
	for (size_t k = 0; k < count; k++) {
		if (!ht_strings_text(t->strings, p->number[k], &text))
			return ht_refuse(d, HT_E_INPUT,
				"the program made element %zu of output '%s' a string that there is "
				"not",
				k, t->program->output[i].name);
		if (__builtin_add_overflow(*bytes, text.n, bytes) || *bytes > SIZE_MAX / 4)
			return no_memory("output", t->program->output[i].name, d);
	}
	return HT_OK;
}

static void fill(const struct ht_texts *t, struct port *p, size_t count)
{
	char *to = p->block + (count + 1) * sizeof(uint64_t);
	uint64_t end = 0;
	struct ht_str text;

	memcpy(p->block, &end, sizeof end);
	for (size_t k = 0; k < count; k++) {
		if (ht_strings_text(t->strings, p->number[k], &text) && text.n)
			memcpy(to + end, text.p, text.n);
		end += text.n;
		memcpy(p->block + (k + 1) * sizeof end, &end, sizeof end);
	}
}

enum ht_status ht_texts_give(struct ht_texts *t, size_t i, size_t count, struct ht_diags *d)
{
	struct port *p = output_at(t, i);
	size_t bytes;

	HT_TRY(measure(t, i, count, &bytes, d));
	bytes += (count + 1) * sizeof(uint64_t);
	if (bytes > p->block_room) {
		free(p->block);
		p->block = malloc(bytes);
		p->block_room = p->block ? bytes : 0;
		if (!p->block)
			return no_memory("output", t->program->output[i].name, d);
	}
	fill(t, p, count);
	p->bytes = bytes;
	return HT_OK;
}

const void *ht_texts_block(const struct ht_texts *t, size_t i, size_t *bytes)
{
	*bytes = output_at(t, i)->bytes;
	return output_at(t, i)->block;
}
