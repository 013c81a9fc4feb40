/* Keeps tensors until all their readers have run, for nodes that overflow or fail. */
#include "cli/dump.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_finite(const struct ht_array *a)
{
	size_t n = ht_dtype_bytes(a->dtype) ? a->bytes / ht_dtype_bytes(a->dtype) : 0;

	for (size_t i = 0; i < n; i++)
		if (!isfinite(array_number(a, i)))
			return false;
	return true;
}

static void forget(struct kept *k)
{
	free(k->seen.array.data);
	*k = (struct kept){ 0 };
}

void dump_forget(struct dumped *p)
{
	for (size_t i = 0; i < p->tensors; i++)
		forget(&p->kept[i]);
}

static void keep(struct dump *d, const struct ht_seen *s)
{
	struct kept *k = &d->at->kept[s->tensor];
	void *copy;

	forget(k);
	if (!d->at->info[s->tensor].uses)
		return;
	copy = must_alloc(s->array.bytes + 1);
	memcpy(copy, s->array.data, s->array.bytes);
	k->seen = *s;
	k->seen.array.data = copy;
	k->seen.array.dim = d->at->info[s->tensor].dim;
	k->left = d->at->info[s->tensor].uses;
	k->finite = is_finite(&s->array);
}

static bool takes(const struct ht_tensor_info *i, size_t by)
{
	for (size_t k = 0; k < i->uses; k++)
		if (i->use[k].by == by)
			return true;
	return false;
}

/* Whether the result is not finite although all known operands are. */
static bool overflows(const struct dump *d, const struct ht_seen *s)
{
	if (d->at->info[s->tensor].kind != HT_TENSOR_COMPUTED || !d->at->info[s->tensor].imported ||
		is_finite(&s->array))
		return false;
	for (size_t i = 0; i < d->at->tensors; i++)
		if (d->at->kept[i].seen.array.data && !d->at->kept[i].finite &&
			takes(&d->at->info[i], s->tensor))
			return false;
	return true;
}

/* Called when a reader has run.  A constant stays for the next iteration. */
static void take(struct dump *d, size_t by)
{
	for (size_t i = 0; i < d->at->tensors; i++) {
		struct kept *k = &d->at->kept[i];

		if (!k->seen.array.data || d->at->info[i].kind == HT_TENSOR_CONSTANT ||
			!takes(&d->at->info[i], by))
			continue;
		for (size_t u = 0; u < d->at->info[i].uses; u++)
			k->left -= d->at->info[i].use[u].by == by;
		if (!k->left)
			forget(k);
	}
}

void dump_keep(struct dump *d, const struct ht_seen *s)
{
	if (d->wish.overflows && d->chosen && overflows(d, s)) {
		d->overflowed++;
		dump_overflow(d, s);
	}
	take(d, s->tensor);
	keep(d, s);
}
