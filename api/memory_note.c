/* What takes most of the memory of a run, for errors of too little memory. */
#include "api/api.h"

struct largest {
	const struct ht_image *x;
	uint64_t bytes;
	uint32_t step;
	uint32_t sized; /* 1 + the expression of its bytes; 0: none */
	bool scratch;   /* scratch memory of the kernel, of each thread */
};

static void consider(struct largest *l, uint32_t step, uint64_t bytes, uint32_t sized, bool scratch)
{
	if (bytes > l->bytes) {
		l->bytes = bytes;
		l->step = step;
		l->sized = sized;
		l->scratch = scratch;
	}
}

/* The expression on which the bytes of touch i depend, from 1 on; 0: none is known. */
static uint32_t sized_by(const struct ht_image *x, uint32_t i)
{
	const struct ht_image_touch *t = &ht_image_touches(x)[i];

	if (t->sized || !(x->features & HT_IMAGE_PLACED))
		return t->sized;
	return ht_image_reaches(x)[i].sized;
}

/* Looks at what a step with a kernel writes to memory of the run. */
static void look(struct largest *l, const struct ht_image_procedure *p, uint32_t step)
{
	const struct ht_image *x = l->x;
	const struct ht_image_step *s = &ht_image_steps(x)[step];
	const struct ht_image_kernel *k = &ht_image_kernels(x)[s->to];
	bool is_entry = p == ht_image_procedures(x) + ht_image_entries(x)->procedure;

	consider(l, step, k->scratch_bytes, 0, true);
	for (uint32_t i = 0; i < k->args; i++) {
		const struct ht_image_touch *t = &ht_image_touches(x)[k->touch + i];
		uint32_t arg = ht_image_args(x)[p->arg + s->arg + i];
		uint32_t kind = ht_image_buffers(x)[p->buffer + arg].kind;

		if (t->written == HT_IMAGE_WRITES &&
			(kind == HT_IMAGE_TEMP || (kind == HT_IMAGE_PARAM && !is_entry)))
			consider(l, step, t->bytes, sized_by(x, k->touch + i), false);
	}
}

/* The size from which size i follows, or i itself. */
static uint32_t origin_of(const struct ht_image *x, uint32_t i)
{
	while (ht_image_sizes(x)[i].kind == HT_IMAGE_BY_SIZE) {
		const struct ht_image_derivation *d = ht_image_derivations(x);

		while (d->size != i)
			d++;
		i = d->of;
	}
	return i;
}

/* The first input that has size i as an extent; false: none. */
static bool input_with(const struct ht_program *p, uint32_t i, size_t *input, uint32_t *axis)
{
	const struct ht_image *x = p->rt.image;

	for (*input = 0; *input < ht_program_inputs(p); ++*input) {
		const struct ht_image_port *port =
			&ht_image_ports(x)[ht_image_entries(x)->port + *input];

		for (*axis = 0; *axis < port->rank; ++*axis) {
			int64_t n = ht_image_dims(x)[port->dim + *axis];

			if (n < 0 && ht_image_size_of_extent(x, n) == i)
				return true;
		}
	}
	return false;
}

/* Writes what size i, which the host states, is at most. */
static void put_size(const struct ht_program *p, uint32_t i, struct ht_buf *b)
{
	const struct ht_image_size *s = &ht_image_sizes(p->rt.image)[i];
	size_t input;
	uint32_t axis;

	if (input_with(p, i, &input, &axis))
		ht_printf(b, "dimension %u of input '%s'", axis, p->input[input].name);
	else
		ht_printf(b, "size '%s'", ht_image_text(p->rt.image, s->name));
	ht_printf(b, " is up to %lld", (long long)s->most);
}

/* Marks the sizes on which the bytes depend; where that is not known, all. */
static void mark(const struct largest *l, bool *of)
{
	const struct ht_image *x = l->x;
	struct ht_size_expr e;

	for (uint32_t i = 0; !l->sized && i < ht_image_count(x, HT_IMAGE_SIZES); i++)
		of[i] = true;
	if (!l->sized)
		return;
	e = ht_image_expression_of(x, l->sized - 1);
	for (int k = 0; k < HT_SIZE_FACTORS && e.size[k]; k++)
		of[origin_of(x, (uint32_t)e.size[k] - 1)] = true;
}

/* Writes the largest values of the marked sizes: of each that inputs have, and the most of those that the run computes. */
static void put_sizes(const struct ht_program *p, const struct largest *l, struct ht_buf *b)
{
	bool of[HT_IMAGE_MOST_SIZES] = { false };
	int64_t computed = -1;
	int n = 0;

	mark(l, of);
	for (uint32_t i = 0; i < ht_image_count(l->x, HT_IMAGE_SIZES); i++) {
		const struct ht_image_size *s = &ht_image_sizes(l->x)[i];

		if (of[i] && s->kind == HT_IMAGE_BY_STEP && s->most > computed)
			computed = s->most;
		if (!of[i] || s->kind != HT_IMAGE_STATED)
			continue;
		ht_puts(b, n++ ? ", and " : l->sized ? ", because " : "; in this program ");
		put_size(p, i, b);
	}
	if (computed >= 0)
		ht_printf(b, "%s sizes that the run computes are up to %lld",
			n          ? ", and"
			: l->sized ? ", because"
				   : "; in this program",
			(long long)computed);
	if (n)
		ht_puts(b, l->sized ? "; a program for smaller sizes (--input-shape) takes less"
				    : "; one for smaller sizes (--input-shape) may take less");
	else if (computed >= 0)
		ht_puts(b, l->sized ? "; smaller inputs have smaller bounds"
				    : "; smaller inputs may have smaller bounds");
}

struct telling {
	const struct ht_program *p;
	struct ht_diags *d;
	struct ht_work w;
};

static enum ht_status tell(void *arg)
{
	struct telling *t = arg;
	const struct ht_image *x = t->p->rt.image;
	struct largest l = { .x = x };
	struct ht_buf b;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_PROCEDURES); i++) {
		const struct ht_image_procedure *p = &ht_image_procedures(x)[i];

		for (uint32_t k = 0; k < p->steps; k++)
			if (ht_image_steps(x)[p->step + k].op == HT_IMAGE_KERNEL)
				look(&l, p, p->step + k);
	}
	if (!l.bytes)
		return HT_OK;
	ht_buf_init(&b, &t->w.arena);
	put_sizes(t->p, &l, &b);
	ht_note(t->d,
		(struct ht_where){ .node = ht_str(ht_image_text(x, ht_image_notes(x)[l.step].node)),
			.offset = -1 },
		"the largest piece of the memory is %s, %llu bytes%.*s",
		l.scratch ? "the scratch memory of its kernel, for each thread" : "its tensor",
		(unsigned long long)l.bytes, (int)b.n, b.p);
	return HT_OK;
}

void ht_program_tell_memory(const struct ht_program *p, struct ht_diags *d)
{
	struct telling t = { .p = p, .d = d };

	ht_work_run(&t.w, tell, &t, d);
}
