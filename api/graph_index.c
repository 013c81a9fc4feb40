/* The vendor's index of the compilations of a named graph: DIR/NAME.idx lists the entries.
 *
 * {"cache_file_list": [{"graph_key": NAME, "cache_file_name": of the entry in DIR,
 *   "var_desc_file_name": "", "var_desc": ["w f32[8,8]", …], "content": "SHA-256 …",
 *   "options": "those that were read"}, …]}, the last one compiled first.
 *
 * The index only says where to look.  An entry is used if it has the key that is computed now,
 * from the current values of the options. */
#include "api/api.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <string.h>

#define LIST "cache_file_list"
/* If there are more, the oldest are removed. */
#define MOST_ITEMS 64
#define MEMBERS 6 /* of an item */

/* ---- items for the current compilation ---- */

static struct ht_str content_of(const struct ht_wanted *w, struct ht_arena *a)
{
	struct ht_str all = ht_str_copy(a, ht_content_known(w->model));
	char *p = (char *)(uintptr_t)all.p;

	while (all.n && p[all.n - 1] == '\n')
		p[--all.n] = 0;
	for (size_t i = 0; i < all.n; i++)
		if (p[i] == '\n')
			p[i] = ' ';
	return all;
}

static struct ht_str variable_text(const struct ht_node *n, struct ht_arena *a)
{
	const struct ht_attr *shape = ht_attr_find(n, "shape");
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_printf(&b, "%.*s %s", HT_STR_ARG(n->name),
		ht_dtype_info(ht_attr_type(n, "dtype", HT_INVALID))->name);
	ht_shape_print(shape && shape->value.kind == HT_ATTR_SHAPE ? shape->value.shape.shape
								   : HT_SHAPE_UNKNOWN,
		&b);
	return ht_buf_str(&b);
}

static void delete_json(void *json)
{
	cJSON_Delete(json);
}

static cJSON *variables_of(const struct ht_wanted *w, struct ht_arena *a)
{
	cJSON *list = cJSON_CreateArray();

	if (!list)
		ht_arena_fail(a);
	ht_arena_defer(a, delete_json, list);
	for (const struct ht_node *n = w->model->graph->first; n; n = n->next)
		if (ht_is(n, HT_VARIABLE) &&
			!cJSON_AddItemToArray(list, cJSON_CreateString(variable_text(n, a).p)))
			ht_arena_fail(a);
	return list;
}

/* The path of the entry's file in DIR. */
static const char *file_of(const struct ht_wanted *w, struct ht_reads reads, struct ht_arena *a)
{
	const struct ht_store *s = ht_cache_store(w->model->cache);
	struct ht_cache_key k = ht_graph_key(w, HT_CACHE_GRAPH, reads, a);

	return ht_store_path(s, k.kind, k.find, a).p + strlen(ht_store_dir(s)) + 1;
}

/* ---- the file ---- */

static const char *text_at(const cJSON *item, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, name));
}

static bool is_item(const cJSON *i)
{
	return text_at(i, "graph_key") && text_at(i, "cache_file_name") && text_at(i, "content") &&
	       text_at(i, "options") &&
	       cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(i, "var_desc"));
}

/* NULL: the text is not an index. */
static cJSON *parse(struct ht_str text, struct ht_arena *a)
{
	const char *end = NULL;
	const cJSON *list, *i;
	cJSON *root;

	errno = 0;
	root = cJSON_ParseWithLengthOpts(text.p, text.n, &end, false);
	if (!root && errno == ENOMEM)
		ht_arena_fail(a);
	if (!root)
		return NULL;
	ht_arena_defer(a, delete_json, root);
	while (end < text.p + text.n && strchr(" \t\r\n", *end) && *end)
		end++;
	list = cJSON_GetObjectItemCaseSensitive(root, LIST);
	if (end != text.p + text.n || !cJSON_IsArray(list))
		return NULL;
	cJSON_ArrayForEach(i, list) if (!is_item(i)) return NULL;
	return root;
}

/* NULL: there is no usable index. */
static cJSON *load(const struct ht_wanted *w, struct ht_diags *d, struct ht_arena *a)
{
	struct ht_store *s = ht_cache_store(w->model->cache);
	const char *name = ht_cache_graph_name(w->model->cache);
	struct ht_where at = HT_NOWHERE;
	struct ht_str text;
	cJSON *root;

	at.path = ht_store_index_path(s, name, a).p;
	if (!ht_store_index_load(s, name, a, &text)) {
		if (errno != ENOENT)
			ht_warn(d, at, "the cache cannot read: %s; this counts as a miss",
				strerror(errno));
		return NULL;
	}
	root = parse(text, a);
	if (!root)
		ht_warn(d, at, "this index of the cache is damaged; it counts as a miss");
	return root;
}

static bool fits(const struct ht_wanted *w, const cJSON *item, const char *content,
	const cJSON *variables, struct ht_reads *reads, struct ht_arena *a)
{
	*reads = ht_reads_parse(ht_str(text_at(item, "options")));
	return !strcmp(text_at(item, "graph_key"), ht_cache_graph_name(w->model->cache)) &&
	       !strcmp(text_at(item, "content"), content) &&
	       cJSON_Compare(cJSON_GetObjectItemCaseSensitive(item, "var_desc"), variables, true) &&
	       !strcmp(text_at(item, "cache_file_name"), file_of(w, *reads, a));
}

size_t ht_index_sets(const struct ht_wanted *w, struct ht_diags *d, struct ht_arena *a,
	struct ht_reads set[HT_READ_SETS])
{
	const cJSON *root = load(w, d, a), *i;
	const char *content = content_of(w, a).p;
	const cJSON *variables;
	size_t n = 0;

	if (!root)
		return 0;
	variables = variables_of(w, a);
	cJSON_ArrayForEach(i, cJSON_GetObjectItemCaseSensitive(root, LIST))
	{
		if (n < HT_READ_SETS && fits(w, i, content, variables, &set[n], a))
			n++;
	}
	return n;
}

/* ---- writing ---- */

static cJSON *new_item(const struct ht_wanted *w, struct ht_reads reads, struct ht_arena *a)
{
	const char *file = file_of(w, reads, a), *content = content_of(w, a).p, *options;
	cJSON *variables = variables_of(w, a), *item, *list;
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_reads_print(&b, reads);
	options = ht_buf_str(&b).p;
	item = cJSON_CreateObject(); /* from here on no allocation unwinds */
	cJSON_AddStringToObject(item, "graph_key", ht_cache_graph_name(w->model->cache));
	cJSON_AddStringToObject(item, "cache_file_name", file);
	cJSON_AddStringToObject(item, "var_desc_file_name", "");
	list = cJSON_Duplicate(variables, true);
	if (!cJSON_AddItemToObject(item, "var_desc", list))
		cJSON_Delete(list);
	cJSON_AddStringToObject(item, "content", content);
	cJSON_AddStringToObject(item, "options", options);
	return item;
}

/* Puts the item in front of all others, and removes another one of the same file. */
static void put_first(cJSON *list, cJSON *item)
{
	const char *file = text_at(item, "cache_file_name");

	for (int i = cJSON_GetArraySize(list); i-- > 0;)
		if (!strcmp(text_at(cJSON_GetArrayItem(list, i), "cache_file_name"), file))
			cJSON_DeleteItemFromArray(list, i);
	cJSON_InsertItemInArray(list, 0, item);
	while (cJSON_GetArraySize(list) > MOST_ITEMS)
		cJSON_DeleteItemFromArray(list, MOST_ITEMS);
}

/* The text of an index that can be loaded again, with as many items as the size limit permits;
 * NULL with errno. */
static char *print(cJSON *root, cJSON *list)
{
	for (;;) {
		char *text = cJSON_Print(root);
		int n = cJSON_GetArraySize(list);

		if (text && strlen(text) < HT_INDEX_BYTES)
			return text;
		errno = text ? EFBIG : ENOMEM;
		if (!text || n <= 1) {
			cJSON_free(text);
			return NULL;
		}
		cJSON_free(text);
		cJSON_DeleteItemFromArray(list, n - 1);
	}
}

static bool save(const struct ht_wanted *w, struct ht_reads reads, struct ht_arena *a)
{
	cJSON *root = load(w, NULL, a), *item, *list;
	char *text;

	if (!root) {
		root = cJSON_CreateObject();
		ht_arena_defer(a, delete_json, root);
		cJSON_AddArrayToObject(root, LIST);
	}
	list = cJSON_GetObjectItemCaseSensitive(root, LIST);
	item = new_item(w, reads, a);
	if (!list || cJSON_GetArraySize(item) != MEMBERS) {
		cJSON_Delete(item);
		errno = ENOMEM;
		return false;
	}
	put_first(list, item);
	text = print(root, list);
	if (!text)
		return false;
	ht_arena_defer(a, cJSON_free, text);
	return ht_store_index_save(ht_cache_store(w->model->cache),
		ht_cache_graph_name(w->model->cache), ht_str_printf(a, "%s\n", text), a);
}

/* An allocation that fails unwinds to here, so that the lock is released.  Returns 0 or an
 * errno. */
static int add(const struct ht_wanted *w, struct ht_reads reads)
{
	struct ht_store *s = ht_cache_store(w->model->cache);
	struct ht_unwind unwind;
	struct ht_arena a;
	volatile int lock = -1, why = ENOMEM;

	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env)) {
		lock = ht_store_index_lock(s, ht_cache_graph_name(w->model->cache), &a);
		why = lock >= 0 && save(w, reads, &a) ? 0 : errno;
	}
	if (lock >= 0)
		ht_store_index_unlock(s, lock);
	ht_arena_release(&a);
	return why;
}

void ht_index_add(
	const struct ht_wanted *w, struct ht_reads reads, struct ht_diags *d, struct ht_arena *a)
{
	struct ht_store *s = ht_cache_store(w->model->cache);
	struct ht_where at = HT_NOWHERE;
	int why = ht_store_writes(s) ? add(w, reads) : 0;

	at.path = ht_store_index_path(s, ht_cache_graph_name(w->model->cache), a).p;
	if (why)
		ht_warn(d, at, "the cache cannot write this index: %s", strerror(why));
}
