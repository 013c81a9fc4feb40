/* Prints the parsed op table as JSON for tests/ir/table.py, which compares it with TensorFlow's
 * definitions. */
#include "ir/ir.h"

static void print_args(
	struct ht_buf *b, const struct ht_op_info *o, const struct ht_op_arg *arg, int count)
{
	ht_putc(b, '[');
	for (int i = 0; i < count; i++) {
		ht_printf(b,
			"%s{\"name\":\"%.*s\",\"number\":\"%.*s\",\"number_default\":%d,\"list\":%d,\"ref\":%d,",
			i ? "," : "", HT_STR_ARG(arg[i].name), HT_STR_ARG(arg[i].number_attr),
			arg[i].number_default, arg[i].type_list, arg[i].ref);
		if (arg[i].type_attr < 0)
			ht_printf(b, "\"type\":%d}", (int)arg[i].fixed);
		else
			ht_printf(b, "\"attr\":\"%.*s\"}",
				HT_STR_ARG(o->type_attr[arg[i].type_attr].name));
	}
	ht_putc(b, ']');
}

static void print_row(struct ht_buf *b, const struct ht_op_info *o)
{
	ht_printf(b, "{\"name\":\"%.*s\",\"test\":\"%s\",\"args\":", HT_STR_ARG(o->name), o->test);
	print_args(b, o, o->arg, o->args);
	ht_puts(b, ",\"results\":");
	print_args(b, o, o->result, o->results);
	ht_puts(b, ",\"types\":[");
	for (int i = 0; i < o->type_attrs; i++) {
		const struct ht_op_type_attr *t = &o->type_attr[i];

		ht_printf(b, "%s{\"name\":\"%.*s\",\"default\":%d,\"allowed\":[", i ? "," : "",
			HT_STR_ARG(t->name), (int)t->fallback);
		for (int j = 0, any = 0; j < HT_DTYPE_END; j++)
			if (t->allowed >> j & 1)
				ht_printf(b, "%s%d", any++ ? "," : "", j);
		ht_puts(b, "]}");
	}
	ht_puts(b, "]}\n");
}

int main(void)
{
	struct ht_arena a;
	struct ht_buf b;

	ht_arena_init(&a, NULL);
	ht_buf_init(&b, &a);
	for (int op = HT_OP_OPAQUE + 1; op < HT_OP_END; op++)
		print_row(&b, ht_op_info((enum ht_op)op));
	fwrite(b.p, 1, b.n, stdout);
	ht_arena_release(&a);
	return 0;
}
