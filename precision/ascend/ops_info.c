/* Records of op types in the form of the vendor's aic-SOC-ops-info.json:
 *
 *   {"Add": {"input0": {"dtype": "float16,float"}, "input1": {…}, "output0": {…},
 *            "precision_reduce": {"flag": "true"}}}
 *
 * The dtypes at index i of all lists of a type are one kernel.  Other members are ignored. */
#include "precision/json.h"
#include "precision/precision.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)64 << 20)
#define FILES 256

enum { MAX_SIDE = HT_MAX_ARGS, MAX_ITEMS = 4096 };

struct record {
	struct ht_json *j;
	const char *type;
	struct ht_str dtypes[2][MAX_SIDE]; /* lists of inputs and outputs; p NULL: absent */
	int flag;
};

/* "input3" is side 0, index 3; -1: another member. */
static int place_of(const char *key, int *side)
{
	static const char *const sides[] = { "input", "output" };

	for (*side = 0; *side < 2; ++*side) {
		size_t n = strlen(sides[*side]);
		int64_t place;
		if (!strncmp(key, sides[*side], n) && ht_parse_int(ht_str(key + n), &place) &&
			place >= 0 && place < MAX_SIDE)
			return (int)place;
	}
	return -1;
}

static enum ht_status read_tensor(struct record *r, const cJSON *value, struct ht_str *out)
{
	const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(value, "dtype");

	if (!cJSON_IsObject(value) || (dtype && !cJSON_IsString(dtype)))
		return ht_json_error(
			r->j, "type '%s': an operand is an object with a dtype string", r->type);
	if (dtype)
		*out = ht_str(dtype->valuestring);
	return HT_OK;
}

static enum ht_status read_flag(struct record *r, const cJSON *value)
{
	const cJSON *flag = cJSON_GetObjectItemCaseSensitive(value, "flag");

	if (!cJSON_IsObject(value) || !cJSON_IsString(flag) ||
		(strcmp(flag->valuestring, "true") && strcmp(flag->valuestring, "false")))
		return ht_json_error(r->j,
			"type '%s': precision_reduce is {\"flag\": \"true\"} or {\"flag\": \"false\"}",
			r->type);
	r->flag = !strcmp(flag->valuestring, "true");
	return HT_OK;
}

static enum ht_status read_member(struct record *r, const cJSON *member)
{
	int side, place = place_of(member->string, &side);

	if (place >= 0)
		return read_tensor(r, member, &r->dtypes[side][place]);
	return strcmp(member->string, "precision_reduce") ? HT_OK : read_flag(r, member);
}

static size_t items(struct ht_str s)
{
	size_t n = 1;

	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] == ',';
	return n;
}

static struct ht_str item(struct ht_str s, size_t which)
{
	const char *p = s.p, *end = s.p + s.n;

	while (which--)
		p = (const char *)memchr(p, ',', (size_t)(end - p)) + 1;
	s = (struct ht_str){ p, strcspn(p, ",") };
	return ht_trim(s);
}

/* Kernel `i` in the form of struct ht_kernel_row; false: it has a dtype that graphs here cannot
 * have. */
static bool take_column(const struct record *r, size_t i, uint8_t *at, size_t *bytes)
{
	*bytes = 0;
	for (int side = 0; side < 2; side++) {
		uint8_t *count = &at[(*bytes)++];
		*count = 0;
		for (int k = 0; k < MAX_SIDE && r->dtypes[side][k].p; k++, ++*count) {
			enum ht_dtype t = ht_vendor_dtype(item(r->dtypes[side][k], i));
			if (t == HT_INVALID)
				return false;
			at[(*bytes)++] = (uint8_t)t;
		}
	}
	return true;
}

static bool is_new(const uint8_t *columns, size_t used, const uint8_t *column, size_t bytes)
{
	for (size_t at = 0; at < used;) {
		size_t n = (size_t)columns[at] + 1;
		n += (size_t)columns[at + n] + 1;
		if (n == bytes && !memcmp(columns + at, column, n))
			return false;
		at += n;
	}
	return true;
}

/* Kernels that differ only in memory formats are one. */
static enum ht_status take_columns(struct record *r, size_t n, struct ht_op_record *out)
{
	uint8_t column[2 * MAX_SIDE + 2];
	size_t used = 0, bytes;

	out->column = ht_alloc(r->j->parse->arena, HT_MAX_COLUMNS * sizeof column);
	for (size_t i = 0; i < n; i++) {
		if (!take_column(r, i, column, &bytes) || !is_new(out->column, used, column, bytes))
			continue;
		if (out->columns == HT_MAX_COLUMNS)
			return ht_json_error(r->j, "type '%s' has more than %d kernels", r->type,
				HT_MAX_COLUMNS);
		memcpy(out->column + used, column, bytes);
		used += bytes;
		out->columns++;
	}
	return HT_OK;
}

static enum ht_status finish(struct record *r, struct ht_op_record *out)
{
	size_t n = 0;

	for (int side = 0; side < 2; side++)
		for (int k = 0; k < MAX_SIDE && r->dtypes[side][k].p; k++) {
			size_t has = items(r->dtypes[side][k]);
			if ((n && has != n) || has > MAX_ITEMS)
				return ht_json_error(r->j,
					"type '%s': %s%d has %zu dtypes, where others have %zu",
					r->type, side ? "output" : "input", k, has, n);
			n = has;
		}
	out->flag = r->flag;
	return n && r->dtypes[1][0].p ? take_columns(r, n, out) : HT_OK;
}

static enum ht_status read_record(struct ht_json *j, const cJSON *value, struct ht_ops_info *out)
{
	struct record r = { .j = j, .type = value->string, .flag = -1 };
	struct ht_op_record *record = HT_NEW(j->parse->arena, struct ht_op_record);
	long line = j->line;
	const cJSON *member;

	if (!*value->string)
		return ht_json_error(j, "a record without a name; it has that of an op type");
	if (!cJSON_IsObject(value))
		return ht_json_error(j, "the record of '%s' is %s; it has to be an object",
			value->string, ht_json_kind(value));
	cJSON_ArrayForEach(member, value)
	{
		ht_json_step(j);
		HT_TRY(read_member(&r, member));
		ht_json_skip(j, member);
	}
	HT_TRY(finish(&r, record));
	record->where = ht_str_printf(j->parse->arena, "%s:%ld", j->parse->path, line).p;
	ht_map_at(&out->types, ht_str_copy(j->parse->arena, ht_str(r.type)))->value = record;
	return HT_OK;
}

enum ht_status ht_ops_info_parse(struct ht_parse *p, struct ht_str text, struct ht_ops_info *out)
{
	const cJSON *member;
	struct ht_json j;

	HT_TRY(ht_json_parse(p, text, true, &j));
	if (!cJSON_IsObject(j.root))
		return ht_json_error(
			&j, "%s; it has to be an object of op types", ht_json_kind(j.root));
	cJSON_ArrayForEach(member, j.root)
	{
		ht_json_step(&j);
		HT_TRY(read_record(&j, member, out));
	}
	return HT_OK;
}

/* ---- a folder ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void close_folder(void *folder)
{
	closedir(folder);
}

static enum ht_status names_of(struct ht_parse *p, const char *name[FILES], size_t *n)
{
	DIR *folder = opendir(p->path);
	struct dirent *e;

	*n = 0;
	if (!folder)
		return ht_error(p->diags, HT_E_ENVIRONMENT, ht_at_line(p->path, 0),
			"cannot read the folder: %s", strerror(errno));
	ht_arena_defer(p->arena, close_folder, folder);
	while ((e = readdir(folder)) && *n < FILES)
		if (ht_str_ends(ht_str(e->d_name), ".json"))
			name[(*n)++] = ht_str_printf(p->arena, "%s/%s", p->path, e->d_name).p;
	if (*n == FILES)
		return ht_error(p->diags, HT_E_LIMIT, ht_at_line(p->path, 0),
			"%d files and more; there may be %d", FILES, FILES - 1);
	if (!*n)
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 0),
			"no file here is named *.json");
	qsort(name, *n, sizeof *name, by_text);
	return HT_OK;
}

enum ht_status ht_ops_info_read(struct ht_parse *p, struct ht_ops_info *out)
{
	const char *name[FILES];
	size_t n;

	HT_TRY(names_of(p, name, &n));
	for (size_t i = 0; i < n; i++) {
		struct ht_parse one = *p;
		struct ht_str text;
		one.path = name[i];
		HT_TRY(ht_policy_file(&one, FILE_LIMIT, &text));
		HT_TRY(ht_ops_info_parse(&one, text, out));
	}
	return HT_OK;
}
