/* The index of an artefact: variants, files, weights. */
#include "runtime/coder.h"
#include "runtime/format.h"

#include <stdio.h>
#include <string.h>

static void input(struct ht_coder *c, struct ht_index_input *i)
{
	ht_code_text(c, &i->name);
	ht_code_text(c, &i->alias);
	ht_code_integers(c, &i->dim, &i->rank);
	ht_code_integers(c, &i->bound, &i->bounds);
}

static void variant(struct ht_coder *c, struct ht_index_variant *v)
{
	ht_code_text(c, &v->target);
	ht_code_text(c, &v->policy);
	ht_code_text(c, &v->entry);
	ht_code_count(c, &v->inputs, 4 * 8);
	HT_CODE_LIST(c, v->input, v->inputs);
	for (size_t i = 0; i < v->inputs; i++)
		input(c, &v->input[i]);
	ht_code_number(c, &v->plan_offset);
	ht_code_number(c, &v->plan_bytes);
	ht_code_bytes(c, v->digest, HT_DIGEST);
}

static void weight(struct ht_coder *c, struct ht_index_weight *w)
{
	ht_code_number(c, &w->file);
	ht_code_number(c, &w->offset);
	ht_code_number(c, &w->bytes);
	ht_code_count(c, &w->chunks, 2 * 8);
	HT_CODE_LIST(c, w->chunk, w->chunks);
	for (size_t i = 0; i < w->chunks; i++) {
		ht_code_number(c, &w->chunk[i].lo);
		ht_code_number(c, &w->chunk[i].hi);
	}
}

static void value(struct ht_coder *c, struct ht_index_value *v)
{
	ht_code_text(c, &v->name);
	ht_code_text(c, &v->key);
	ht_code_number(c, &v->dtype);
	ht_code_integers(c, &v->dim, &v->rank);
	ht_code_number(c, &v->weight);
}

static void whole(struct ht_coder *c, struct ht_index *x)
{
	ht_code_count(c, &x->variants, 6 * 8 + HT_DIGEST);
	HT_CODE_LIST(c, x->variant, x->variants);
	for (size_t i = 0; i < x->variants; i++)
		variant(c, &x->variant[i]);
	ht_code_count(c, &x->files, 8 + HT_DIGEST);
	HT_CODE_LIST(c, x->file, x->files);
	for (size_t i = 0; i < x->files; i++) {
		ht_code_bytes(c, x->file[i].digest, HT_DIGEST);
		ht_code_number(c, &x->file[i].bytes);
	}
	ht_code_count(c, &x->weights, 4 * 8);
	HT_CODE_LIST(c, x->weight, x->weights);
	for (size_t i = 0; i < x->weights; i++)
		weight(c, &x->weight[i]);
	ht_code_count(c, &x->values, 5 * 8);
	HT_CODE_LIST(c, x->value, x->values);
	for (size_t i = 0; i < x->values; i++)
		value(c, &x->value[i]);
	ht_code_text(c, &x->scaled_loss);
	ht_code_text(c, &x->loss_scale);
}

/* ---- consistency of the numbers that were read ---- */

static bool good_weight(const struct ht_index *x, const struct ht_index_weight *w, uint64_t inside)
{
	uint64_t room = w->file ? 0 : inside;

	if (w->file > x->files)
		return false;
	if (w->file)
		room = x->file[w->file - 1].bytes;
	return w->offset % 64 == 0 && ht_inside(w->offset, w->bytes, room) &&
	       w->chunks == (w->bytes + HT_WEIGHT_CHUNK - 1) / HT_WEIGHT_CHUNK;
}

static bool good_input(const struct ht_index_input *in)
{
	size_t open = 0;

	for (size_t i = 0; i < in->rank; i++)
		open += in->dim[i] < 0;
	for (size_t i = 0; i + 1 < in->bounds; i += 2)
		if (in->bound[i] < 0 || in->bound[i] > in->bound[i + 1])
			return false;
	return in->bounds == 2 * open;
}

static bool good_value(const struct ht_index *x, const struct ht_index_value *v)
{
	uint64_t bytes =
		v->dtype < HT_DTYPE_END ? ht_dtype_info((enum ht_dtype)v->dtype)->bytes : 0;

	for (size_t i = 0; i < v->rank && bytes; i++)
		if (v->dim[i] < 0 ||
			(v->dim[i] && bytes > HT_IMAGE_MOST_BYTES / (uint64_t)v->dim[i]))
			return false;
		else
			bytes *= (uint64_t)v->dim[i];
	return v->dtype < HT_DTYPE_END && v->weight < x->weights &&
	       x->weight[v->weight].bytes == bytes;
}

static const char *check_variant(const struct ht_index_variant *v, uint64_t plan_bytes)
{
	if (!ht_inside(v->plan_offset, v->plan_bytes, plan_bytes))
		return "a plan is outside of the plans";
	for (size_t i = 0; i < v->inputs; i++)
		if (!good_input(&v->input[i]))
			return "an input has other bounds than open dimensions";
	return NULL;
}

static const char *check(
	const struct ht_index *x, uint64_t plan_bytes, uint64_t weight_bytes, struct ht_arena *a)
{
	uint64_t *end = HT_NEW_ARRAY(a, uint64_t, x->files + 1); /* by file: the end of its last
								  * weight */

	if (!x->variants)
		return "it has no variant";
	for (size_t i = 0; i < x->variants; i++)
		if (check_variant(&x->variant[i], plan_bytes))
			return check_variant(&x->variant[i], plan_bytes);
	for (size_t i = 0; i < x->weights; i++) {
		const struct ht_index_weight *w = &x->weight[i];

		if (!good_weight(x, w, weight_bytes) || w->offset < end[w->file])
			return "a weight is outside of its place";
		end[w->file] = w->offset + w->bytes;
	}
	for (size_t i = 0; i < x->values; i++)
		if (!good_value(x, &x->value[i]))
			return "a variable has another size than its value";
	return NULL;
}

void ht_index_write(const struct ht_index *x, struct ht_buf *out)
{
	struct ht_index copy = *x; /* writing needs pointers that are not const */

	if (!copy.scaled_loss)
		copy.scaled_loss = copy.loss_scale = "";
	whole(&(struct ht_coder){ .out = out }, &copy);
}

const char *ht_index_read(struct ht_str bytes, uint64_t plan_bytes, uint64_t weight_bytes,
	struct ht_arena *a, struct ht_index *x)
{
	struct ht_coder c = { .p = (const uint8_t *)bytes.p, .n = bytes.n, .arena = a };

	memset(x, 0, sizeof *x);
	whole(&c, x);
	return ht_coder_end(&c) ? ht_coder_end(&c) : check(x, plan_bytes, weight_bytes, a);
}

void ht_weight_file_name(const uint8_t digest[HT_DIGEST], char name[HT_WEIGHT_NAME])
{
	memcpy(name, "weight_", 7);
	for (size_t i = 0; i < HT_DIGEST; i++)
		snprintf(name + 7 + 2 * i, 3, "%02x", digest[i]);
}

char *ht_path_beside(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path) + 1 : 0;
	char *out;

	return asprintf(&out, "%.*s%s", folder, path, name) < 0 ? NULL : out;
}
