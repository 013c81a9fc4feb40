/* The grammar of the profiler's options: a JSON object, or the list that older manuals have. */
#include "api/api.h"
#include "api/grammar.h"
#include "api/profiling.h"

#include <halftone/tool.h>

#include <cjson/cJSON.h>
#include <string.h>

/* ---- a list with colons ---- */

bool ht_grammar_traces(const char *value, struct ht_why *w)
{
	static const char *const names[] = { "training_trace", "task_trace", "op_trace" };
	struct ht_str rest = ht_str(value), name;
	unsigned seen = 0;

	while (ht_next_part(&rest, ':', &name)) {
		unsigned i = 0;
		while (i < HT_COUNT(names) && !ht_str_eq(name, ht_str(names[i])))
			i++;
		if (i == HT_COUNT(names))
			return ht_why(w, "there is no trace '%.*s'", HT_STR_ARG(name));
		if (seen & 1U << i)
			return ht_why(w, "%s stands twice", names[i]);
		seen |= 1U << i;
	}
	return !(seen & 4) || seen == 4 || ht_why(w, "op_trace does not go with other traces");
}

/* ---- the JSON object ---- */

enum kind { ANY, CHOICE, CHOICES, NUMBER, SIZE, METRICS };

static const struct key {
	const char *name;
	enum kind kind;
	const char *legal; /* of a choice: the legal values, with commas between */
	int64_t low, high; /* of a number */
} keys[] = {
	{ "output", ANY, "", 0, 0 },
	{ "storage_limit", SIZE, "", 200, 4294967295 },
	{ "training_trace", CHOICE, "on,off", 0, 0 },
	{ "task_trace", CHOICE, "on,off,l0,l1", 0, 0 },
	{ "task_time", CHOICE, "on,off,l0,l1", 0, 0 },
	{ "ge_api", CHOICE, "off,l0,l1", 0, 0 },
	{ "hccl", CHOICE, "on,off", 0, 0 },
	{ "aicpu", CHOICE, "on,off", 0, 0 },
	{ "l2", CHOICE, "on,off", 0, 0 },
	{ "msproftx", CHOICE, "on,off", 0, 0 },
	{ "runtime_api", CHOICE, "on,off", 0, 0 },
	{ "fp_point", ANY, "", 0, 0 },
	{ "bp_point", ANY, "", 0, 0 },
	{ "aic_metrics", METRICS,
		"ArithmeticUtilization,PipeUtilization,Memory,MemoryL0,MemoryUB,"
		"ResourceConflictRatio,L2Cache,MemoryAccess",
		0, 0 },
	{ "sys_hardware_mem_freq", NUMBER, "", 1, 100 },
	{ "llc_profiling", CHOICE, "read,write", 0, 0 },
	{ "sys_io_sampling_freq", NUMBER, "", 1, 100 },
	{ "dvpp_freq", NUMBER, "", 1, 100 },
	{ "sys_interconnection_freq", NUMBER, "", 1, 50 },
	{ "instr_profiling", CHOICE, "on,off", 0, 0 },
	{ "instr_profiling_freq", NUMBER, "", 300, 30000 },
	{ "host_sys", CHOICES, "cpu,mem,disk,network,osrt", 0, 0 },
	{ "host_sys_usage", CHOICES, "cpu,mem", 0, 0 },
	{ "host_sys_usage_freq", NUMBER, "", 1, 50 },
};

static bool is_choice(struct ht_str s, const char *legal)
{
	struct ht_str rest = ht_str(legal), one;

	while (ht_next_part(&rest, ',', &one))
		if (ht_str_eq(one, s))
			return true;
	return false;
}

static bool are_choices(struct ht_str list, const char *legal)
{
	struct ht_str one;

	while (ht_next_part(&list, ',', &one))
		if (!is_choice(one, legal))
			return false;
	return true;
}

/* "Custom:" followed by up to 8 numbers of registers. */
static bool are_registers(struct ht_str s)
{
	enum { MOST = 8, LAST = 0x6E };
	struct ht_str number;
	int n = 0;

	if (s.n < 7 || memcmp(s.p, "Custom:", 7) != 0)
		return false;
	s = (struct ht_str){ s.p + 7, s.n - 7 };
	while (ht_next_part(&s, ',', &number)) {
		bool hex = number.n > 2 && number.p[0] == '0' && (number.p[1] | 32) == 'x';
		double x;
		if (!number.n || !(hex || number.p[0] != '0') || !ht_parse_double(number, &x))
			return false;
		if (!(x >= 1 && x <= LAST) || x != (double)(int)x || ++n > MOST)
			return false;
	}
	return true;
}

static bool is_number(struct ht_str s, const struct key *k)
{
	int64_t n;

	return ht_digits(s, &n) && n >= k->low && n <= k->high;
}

static bool is_value(const struct key *k, struct ht_str s)
{
	switch (k->kind) {
	case CHOICE:
		return is_choice(s, k->legal);
	case CHOICES:
		return are_choices(s, k->legal);
	case NUMBER:
		return is_number(s, k);
	case SIZE:
		return s.n > 2 && !memcmp(s.p + s.n - 2, "MB", 2) &&
		       is_number((struct ht_str){ s.p, s.n - 2 }, k);
	case METRICS:
		return is_choice(s, k->legal) || are_registers(s);
	case ANY:
		break;
	}
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ')
			return false;
	return true;
}

static bool wrong_value(const struct key *k, const char *value, struct ht_why *w)
{
	switch (k->kind) {
	case NUMBER:
		return ht_why(w, "%s: '%.60s' is no whole number from %lld to %lld", k->name, value,
			(long long)k->low, (long long)k->high);
	case SIZE:
		return ht_why(w, "%s: '%.60s' is not N and MB, N from %lld to %lld", k->name, value,
			(long long)k->low, (long long)k->high);
	case METRICS:
		return ht_why(w,
			"%s: '%.60s' is none of %s, and not Custom: and up to 8 registers from 1 to 0x6E",
			k->name, value, k->legal);
	case ANY:
		return ht_why(w, "%s: its value has a control character", k->name);
	default:
		return ht_why(w, "%s: '%.60s' is %s %s", k->name, value,
			k->kind == CHOICE ? "none of" : "no list of", k->legal);
	}
}

static const struct key *key_named(const char *name)
{
	for (size_t i = 0; i < HT_COUNT(keys); i++)
		if (!strcmp(keys[i].name, name))
			return &keys[i];
	return NULL;
}

static bool no_key(const char *name, struct ht_why *w)
{
	struct ht_str names[HT_COUNT(keys)], near[3];

	for (size_t i = 0; i < HT_COUNT(keys); i++)
		names[i] = ht_str(keys[i].name);
	if (!strcmp(name, "op_trace"))
		return ht_why(w, "op_trace is of the list with colons, where it stands alone");
	if (ht_near_names(ht_str(name), names, HT_COUNT(keys), near))
		return ht_why(w, "the profiler has no option '%.60s'; did you mean '%.*s'?", name,
			HT_STR_ARG(near[0]));
	return ht_why(w, "the profiler has no option '%.60s'", name);
}

static bool check_member(const cJSON *object, const cJSON *member, struct ht_why *w)
{
	const struct key *k = key_named(member->string);
	const char *text = member->valuestring;
	char number[32];

	if (!k)
		return no_key(member->string, w);
	if (cJSON_GetObjectItemCaseSensitive(object, k->name) != member)
		return ht_why(w, "%s stands twice", k->name);
	if (cJSON_IsNumber(member) && k->kind == NUMBER &&
		member->valuedouble == (double)member->valueint) {
		snprintf(number, sizeof number, "%d", member->valueint);
		text = number;
	}
	if (!text)
		return ht_why(w, "%s: its value is no text", k->name);
	return is_value(k, ht_str(text)) || wrong_value(k, text, w);
}

static const char *text_of(const cJSON *object, const char *name)
{
	const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsString(member) ? member->valuestring : "";
}

/* The profiler finds a point by itself if it is not stated or empty.  Either both are stated or
 * none. */
static bool check_points(const cJSON *object, struct ht_why *w)
{
	const char *first = text_of(object, "fp_point"), *last = text_of(object, "bp_point");

	if (!strcmp(text_of(object, "training_trace"), "on") && !*first != !*last)
		return ht_why(w, "training_trace needs both points: %s is missing beside %s",
			*first ? "bp_point" : "fp_point", *first ? "fp_point" : "bp_point");
	return true;
}

static bool check_object(const cJSON *object, struct ht_why *w)
{
	const cJSON *member;

	if (!cJSON_IsObject(object))
		return ht_why(w, "it is no strict JSON object");
	cJSON_ArrayForEach(member, object) if (!check_member(object, member, w)) return false;
	return check_points(object, w);
}

/* NULL: the value is a list, or malformed JSON. */
static cJSON *parse(const char *value)
{
	return *value == '{' ? cJSON_ParseWithLengthOpts(value, strlen(value) + 1, NULL, true)
			     : NULL;
}

bool ht_grammar_profiling(const char *value, struct ht_why *w)
{
	cJSON *object;
	bool ok;

	if (*value != '{')
		return ht_grammar_traces(value, w);
	object = parse(value);
	ok = check_object(object, w);
	cJSON_Delete(object);
	return ok;
}

bool ht_profiling_traces(const char *value, const char *name)
{
	struct ht_str rest = ht_str(value), one;

	while (*value != '{' && ht_next_part(&rest, ':', &one))
		if (ht_str_eq(one, ht_str(name)))
			return true;
	return false;
}

int ht_profiling_value(const char *options, const char *key, struct ht_bytes *out)
{
	cJSON *object = parse(options);
	const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
	int has = cJSON_IsString(member) && ht_bytes_of(ht_str(member->valuestring), out) == HT_OK;

	cJSON_Delete(object);
	return has;
}

bool ht_profiling_says(const char *value, const char *name, const char *text)
{
	cJSON *object = parse(value);
	bool says = !strcmp(text_of(object, name), text);

	cJSON_Delete(object);
	return says;
}
