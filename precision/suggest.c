/* Suggests policies for an unknown policy name: by meaning first, then by spelling. */
#include "precision/precision.h"

#include <string.h>

enum { MOST_MEANT = 2 };

/* Names that people type, and the policies that they may mean. */
static const struct meaning {
	const char *words; /* separated by blanks, with one at each end */
	const char *meant[MOST_MEANT];
} meanings[] = {
	{ " bf16 bfloat16 brain_float16 force_bf16 force_bfloat16 ",
		{ "mixed_bfloat16", "allow_fp32_to_bf16" } },
	{ " f16 float16 half force_float16 ", { "fp16", "mixed_float16" } },
	{ " f32 fp32 float32 float single force_float32 ",
		{ "force_fp32", "must_keep_origin_dtype" } },
	{ " none off default keep original full no ", { "must_keep_origin_dtype", NULL } },
	{ " mixed mix amp mixed_precision automatic_mixed_precision auto_mixed_precision ",
		{ "mixed_bfloat16", "mixed_float16" } },
	{ " mixed_bf16 mix_bf16 mix_precision_bf16 amp_bf16 autocast_bf16 ",
		{ "mixed_bfloat16", NULL } },
	{ " mixed_fp16 mixed_f16 mix_fp16 mix_precision_fp16 amp_fp16 autocast_fp16 ",
		{ "mixed_float16", NULL } },
	{ " auto best fast fastest optimum optimized ", { "optimal", NULL } },
	{ " autocast torch pytorch ", { "pytorch-autocast-bf16", "pytorch-autocast-fp16" } },
	{ " grappler tensorflow tf ", { "grappler-bf16", "grappler-fp16" } },
	{ " keras ", { "keras-bf16", "keras-fp16" } },
	{ " openvino ", { "openvino-bf16", "openvino-fp16" } },
	{ " onnx ", { "onnx-fp16", NULL } },
	{ " tvm relay ", { "tvm-fp16", NULL } },
};

/* Ignores case; '-', '.' and blanks count as '_'. */
static void plain(const char *name, char *out, size_t size)
{
	size_t n = 0;

	for (; *name && n + 1 < size; name++)
		out[n++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a')
			   : strchr("-. ", *name)       ? '_'
							: *name;
	out[n] = 0;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; n && (at = strstr(at, word)); at++)
		if (at[-1] == ' ' && at[n] == ' ')
			return true;
	return false;
}

static const char *spelt_otherwise(const char *word)
{
	char name[64];

	for (const struct ht_policy_kind *k = ht_policy_kinds; k->name; k++) {
		plain(k->name, name, sizeof name);
		if (!strcmp(name, word))
			return k->name;
	}
	return NULL;
}

static const char *summary_of(const char *policy)
{
	const struct ht_policy_kind *k = ht_policy_kinds;

	while (strcmp(k->name, policy) != 0)
		k++;
	return k->summary;
}

static enum ht_status suggest(
	const char *name, const char *const meant[MOST_MEANT], struct ht_diags *d)
{
	if (!meant[1])
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no policy '%s'; did you mean '%s' (%s)?", name, meant[0],
			summary_of(meant[0]));
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"there is no policy '%s'; did you mean '%s' (%s) or '%s' (%s)?", name, meant[0],
		summary_of(meant[0]), meant[1], summary_of(meant[1]));
}

enum ht_status ht_no_policy(const char *name, struct ht_diags *d)
{
	struct ht_str names[64], near[3];
	const char *found;
	char word[64];
	size_t n = 0;

	plain(name, word, sizeof word);
	found = spelt_otherwise(word);
	if (found)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no policy '%s'; did you mean '%s'?", name, found);
	for (size_t i = 0; i < HT_COUNT(meanings); i++)
		if (has_word(meanings[i].words, word))
			return suggest(name, meanings[i].meant, d);
	for (; ht_policy_kinds[n].name && n < HT_COUNT(names); n++)
		names[n] = ht_str(ht_policy_kinds[n].name);
	if (ht_near_names(ht_str(name), names, n, near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no policy '%s'; did you mean '%.*s'?", name, HT_STR_ARG(near[0]));
	return ht_error(
		d, HT_E_USAGE, HT_NOWHERE, "there is no policy '%s'; see halftone policies", name);
}
