/* Members of results, and numbers in the form that the page shows. */
#include "api/page.h"

#include "stats/values.h"

#include <math.h>

const cJSON *ht_member(const cJSON *object, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNull(v) ? NULL : v;
}

static struct ht_str text_of(const cJSON *v)
{
	return cJSON_IsString(v) ? ht_str(v->valuestring) : (struct ht_str){ "", 0 };
}

struct ht_str ht_member_text(const cJSON *object, const char *name)
{
	return text_of(ht_member(object, name));
}

struct ht_str ht_item_text(const cJSON *array, int i)
{
	return text_of(cJSON_GetArrayItem(array, i));
}

double ht_json_number(const cJSON *value)
{
	double x = NAN;

	if (cJSON_IsNumber(value))
		return value->valuedouble;
	if (cJSON_IsString(value))
		ht_parse_double(ht_str(value->valuestring), &x);
	return x;
}

double ht_member_number(const cJSON *object, const char *name)
{
	return ht_json_number(ht_member(object, name));
}

bool ht_json_is_nan(const cJSON *value)
{
	return ht_str_is(text_of(value), "nan");
}

bool ht_member_is_true(const cJSON *object, const char *name)
{
	return cJSON_IsTrue(ht_member(object, name));
}

/* ---- text ---- */

/* Writes `v`, which is rounded to three digits, with all its decimals.  It gets a power of ten
 * only below 1e-5 and from 1e15 on. */
static void put_plain(struct ht_buf *b, double v)
{
	double size = fabs(v);
	int decimals = 0;

	if (!isfinite(v) || (size > 0 && size < 1e-5) || size >= 1e15) {
		ht_put_double(b, v);
		return;
	}
	while (decimals < 9 && fabs(v * pow(10, decimals) - round(v * pow(10, decimals))) > 1e-6)
		decimals++;
	ht_put_fixed(b, v, decimals);
}

static struct ht_str scaled(struct ht_arena *a, double v, const char *unit)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	put_plain(&b, ht_three_digits(v, HT_DIGITS_NEAREST));
	ht_puts(&b, unit);
	return ht_buf_str(&b);
}

struct ht_str ht_text_number(struct ht_arena *a, double v)
{
	return scaled(a, v, "");
}

struct ht_str ht_text_member(struct ht_arena *a, const cJSON *object, const char *name)
{
	const cJSON *v = ht_member(object, name);

	return v ? ht_text_number(a, ht_json_number(v)) : (struct ht_str){ "", 0 };
}

struct ht_str ht_text_exact(struct ht_arena *a, double v)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	if (!isnan(v) && v == trunc(v) && fabs(v) < 1e15)
		ht_put_fixed(&b, v, 0);
	else if (!isnan(v))
		ht_put_double(&b, v);
	return ht_buf_str(&b);
}

/* In the largest unit in which the value is at least 1; each unit is a thousand times the one
 * before. */
static struct ht_str in_units(struct ht_arena *a, double v, const char *const *unit, size_t n)
{
	size_t i = 0;

	if (isnan(v))
		return (struct ht_str){ "", 0 };
	for (; fabs(v) >= 1000 && i + 1 < n; i++)
		v /= 1000;
	return scaled(a, v, unit[i]);
}

struct ht_str ht_text_bytes(struct ht_arena *a, double v)
{
	static const char *const units[] = { " B", " kB", " MB", " GB", " TB" };

	return in_units(a, v, units, HT_COUNT(units));
}

struct ht_str ht_text_price(struct ht_arena *a, double ps)
{
	static const char *const units[] = { " ps", " ns", " µs", " ms", " s" };

	return in_units(a, ps, units, HT_COUNT(units));
}

struct ht_str ht_text_interval(struct ht_arena *a, const cJSON *object, const char *name)
{
	double low = ht_member_number(object, "low"), high = ht_member_number(object, "high");
	struct ht_str middle;

	if (!object)
		return (struct ht_str){ "", 0 };
	middle = ht_text_number(a, ht_member_number(object, name));
	if (isnan(low) || isnan(high))
		return middle;
	return ht_str_printf(
		a, "%s\n%s to %s", middle.p, ht_text_number(a, low).p, ht_text_number(a, high).p);
}

const struct ht_table_column ht_fact_columns[2] = { { "what", false }, { "value", false } };

void ht_fact(struct ht_table *t, const char *what, struct ht_str value)
{
	if (!value.n)
		return;
	ht_cell(t, ht_str(what));
	ht_cell_text(t, value);
}
