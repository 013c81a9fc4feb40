/* Policies as objects of the public interface. */
#include "api/api.h"

#include <stdlib.h>

enum ht_status ht_policy_new(const char *name, struct ht_diags *d, struct ht_policy **out)
{
	struct ht_policy *p = ht_sys_alloc(sizeof *p);
	enum ht_status st;

	*out = NULL;
	if (!p)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	st = ht_policy_init(p, name, d);
	if (st == HT_OK)
		*out = p;
	else
		ht_policy_free(p);
	return st;
}

enum ht_status ht_policy_set(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d)
{
	return ht_option_set(p, key, value, d);
}

const char *ht_policy_name(const struct ht_policy *p)
{
	return ht_policy_label(p);
}

void ht_policy_free(struct ht_policy *p)
{
	if (p)
		ht_policy_release(p);
	free(p);
}
