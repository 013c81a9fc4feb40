/* What the library was built from, for bug reports and packagers.  Lists only what is compiled
 * in, so that no module has to be loaded. */
#include "api/api.h"
#include "runtime/format.h"

#include <halftone-ids.h>

static void put_target(struct ht_buf *b, const struct ht_target *t)
{
	ht_puts(b, "{\"name\": ");
	ht_put_json(b, ht_str(t->name));
	ht_put_member(b, "level", ht_str(t->level));
	ht_put_member(b, "features", ht_str(t->features));
	ht_putc(b, '}');
}

struct telling {
	struct ht_work *w;
	struct ht_bytes *out;
};

static enum ht_status tell(void *arg)
{
	struct telling *t = arg;
	struct ht_buf b;

	ht_buf_init(&b, &t->w->arena);
	ht_puts(&b, "{\"schema\": \"halftone.version/1\"");
	ht_put_member(&b, "version", ht_str(ht_version()));
	ht_put_member(&b, "build_id", ht_str(HT_TOOL_ID));
	ht_put_member(&b, "code_generator", ht_str(HT_CODE_ID));
	ht_put_member(&b, "llvm", ht_str(HT_LLVM_VERSION));
	ht_printf(&b, ",\n \"abi\": %d, \"artefact_version\": %d, \"cache_entry_version\": %d",
		ht_abi(), HT_ARTEFACT_VERSION, HT_ENTRY_VERSION);
	ht_puts(&b, ",\n \"host\": ");
	put_target(&b, ht_target_host());
	ht_puts(&b, ",\n \"targets\": [");
	for (const struct ht_target *const *i = ht_targets(); *i; i++) {
		ht_puts(&b, i == ht_targets() ? "\n  " : ",\n  ");
		put_target(&b, *i);
	}
	ht_puts(&b, "]}\n");
	return ht_bytes_of(ht_buf_str(&b), t->out);
}

enum ht_status ht_build_info(struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct telling t = { &w, out };

	*out = (struct ht_bytes){ 0 };
	return ht_work_run(&w, tell, &t, d);
}
