/* From a plan to its image.  The plan's procedures are the image's, with the same numbers.  For
 * a batch in parts, the plan has a procedure for one part; the image gets one more procedure,
 * the entry, which forks the parts. */
#include "image/build.h"
#include "image/verify.h"
#include "lower/lower.h"
#include "lower/places.h"

#include <string.h>

struct writing {
	const struct ht_plan *plan;
	struct ht_image_builder b;
	struct ht_arena *arena;
	uint32_t *number; /* by buffer of the plan: of the procedure's */
	struct ht_plan_places places;
	uint32_t constants;
	uint32_t fresh; /* the last step of that kind */
};

/* ---- open sizes within bounds ---- */

/* The extent of an open input or output. */
static struct ht_size_expr extent_of(
	const struct ht_plan *p, const struct ht_plan_buffer *b, int32_t axis)
{
	int32_t size = b->open[axis].size - 1;

	return size < 0 ? ht_size_number(b->shape.dim[axis])
			: ht_size_multiple(b->shape.dim[axis] / p->size[size].most, size);
}

/* 1 + the number of the expression for its bytes; 0: the bytes are a constant. */
static uint32_t put_open_bytes(struct writing *w, int32_t buffer)
{
	const struct ht_plan_buffer *b = &w->plan->buffer[buffer];
	struct ht_size_expr n = ht_size_number((int64_t)ht_dtype_info(b->dtype)->bytes);

	if (!b->open)
		return 0;
	for (int32_t i = 0; i < b->shape.rank; i++)
		n = ht_size_product(n, extent_of(w->plan, b, i));
	for (int32_t i = 0; !ht_size_count(&n); i++) /* another extent is 0 */
		if (b->open[i].size)
			n = ht_size_multiple(0, b->open[i].size - 1);
	return 1 + ht_image_put_product(&w->b, &n);
}

/* The port's text with an expression for each extent that is open. */
static const struct ht_image_port_text *put_open_extents(
	struct writing *w, enum ht_plan_kind kind, const struct ht_image_port_text *port, size_t n)
{
	const struct ht_plan_procedure *p = ht_plan_entry(w->plan);
	struct ht_image_port_text *to = HT_NEW_ARRAY(w->arena, struct ht_image_port_text, n);
	int32_t at = p->buffer;

	for (size_t i = 0; i < n; i++, at++) {
		const struct ht_plan_buffer *b;
		int64_t *dim;

		while (w->plan->buffer[at].kind != kind)
			at++;
		b = &w->plan->buffer[at];
		to[i] = port[i];
		if (!b->open)
			continue;
		to[i].bytes = b->bytes;
		to[i].shape = ht_shape_make(w->arena, b->shape.rank, b->shape.dim);
		dim = (int64_t *)(uintptr_t)to[i].shape.dim;
		for (int32_t k = 0; k < b->shape.rank; k++) {
			const struct ht_size_expr extent = extent_of(w->plan, b, k);

			if (ht_size_count(&extent))
				dim[k] = -1 - (int64_t)ht_image_put_product(&w->b, &extent);
		}
	}
	return to;
}

/* ---- kernels, constants, state ---- */

/* Some step that runs kernel `number`: all of them access their arguments in the same way. */
static const struct ht_plan_step *step_of(const struct ht_plan *p, int32_t number)
{
	for (int32_t i = 0; i < p->steps; i++)
		if (p->step[i].kernel == number)
			return &p->step[i];
	return NULL;
}

/* The buffer that is argument `arg` of kernel `number`: an open input or output, if some step has one, of which the kernel accesses only
 * what the run has. */
static int32_t buffer_of(const struct ht_plan *p, int32_t number, int32_t arg)
{
	const struct ht_plan_step *first = step_of(p, number);

	for (const struct ht_plan_step *s = first; s && s < p->step + p->steps; s++)
		if (s->kernel == number && p->buffer[s->buffer[arg]].open)
			return s->buffer[arg];
	return first ? first->buffer[arg] : -1;
}

/* The object of the buffer; NULL: the buffer is memory. */
static const struct ht_plan_object *object_of(const struct ht_plan *p, int32_t buffer)
{
	const struct ht_plan_buffer *b = &p->buffer[buffer];

	return b->kind == HT_PLAN_OBJECT ? &p->object[b->offset] : NULL;
}

static void put_reaches(struct writing *w, int32_t number, int32_t args)
{
	for (int32_t i = 0; i < args; i++) {
		struct ht_image_reach r = ht_image_reach_of(&w->b, &w->places.reach[number][i]);

		ht_image_put_reaches(&w->b, &r, 1);
	}
}

static void put_places(struct writing *w)
{
	for (uint32_t i = 0; i < w->places.n; i++) {
		const struct ht_plan_place *p = &w->places.place[i];

		ht_image_put_place(&w->b, &(struct ht_image_place_of){ .offset = p->offset,
						  .bytes = p->bytes,
						  .reach = ht_image_reach_of(&w->b, &p->reach),
						  .ends = p->ends });
	}
}

static void put_kernel(struct writing *w, int32_t number)
{
	const struct ht_kernel *k = w->plan->kernel[number];
	const bool varies = w->plan->sizes || w->plan->objects;
	struct ht_image_touch *touch =
		HT_NEW_ARRAY(w->arena, struct ht_image_touch, (size_t)k->args);

	for (int32_t i = 0; i < k->args; i++) {
		const int32_t buffer = varies ? buffer_of(w->plan, number, i) : -1;
		const struct ht_plan_object *o = buffer >= 0 ? object_of(w->plan, buffer) : NULL;

		if (o)
			touch[i] = ht_image_object_touch(&w->b, o->kind);
		else
			touch[i] = (struct ht_image_touch){
				.bytes = (uint64_t)k->buffer[i].count *
					 ht_dtype_info(k->buffer[i].dtype)->bytes,
				.written = k->buffer[i].kind == HT_BUFFER_OUT,
				.sized = buffer >= 0 ? put_open_bytes(w, buffer) : 0
			};
	}
	ht_image_put_kernel(&w->b, k->library ? k->library : "", touch, (size_t)k->args,
		(size_t)k->params, ht_kernel_scratch(k));
	if (w->places.n)
		put_reaches(w, number, k->args);
}

static void put_streams(struct writing *w)
{
	for (int32_t i = 0; i < w->plan->streams; i++) {
		const struct ht_plan_stream *s = &w->plan->stream[i];

		ht_image_put_stream(&w->b, &(struct ht_image_stream){ s->seed, s->seed2, s->name });
	}
}

static bool is_constant(const struct ht_plan_buffer *b)
{
	return b->kind == HT_PLAN_CONST && !b->same;
}

/* The number of constant `buffer`, counted as put_buffer() counts. */
static uint32_t constant_number(const struct ht_plan *p, int32_t buffer)
{
	uint32_t n = 0;

	for (int32_t i = 0; i < buffer; i++)
		n += is_constant(&p->buffer[i]);
	return n;
}

static void put_variables(struct writing *w)
{
	for (int32_t i = 0; i < w->plan->variables; i++) {
		const struct ht_plan_variable *v = &w->plan->variable[i];
		struct ht_image_variable_text text = { .name = v->name,
			.dtype = v->dtype,
			.shape = v->shape,
			.bytes =
				(uint64_t)ht_shape_count(v->shape) * ht_dtype_info(v->dtype)->bytes,
			.constant = v->initial < 0 ? HT_IMAGE_NO_VALUE
						   : constant_number(w->plan, v->initial),
			.use = v->use };

		ht_image_put_variable(&w->b, &text);
	}
}

/* The number of input `buffer` of the entry, or of a part. */
static uint32_t input_number(const struct ht_plan *p, int32_t buffer)
{
	const struct ht_plan_procedure *of = ht_plan_entry(p);
	uint32_t n = 0;

	while (buffer < of->buffer)
		of--;
	for (int32_t i = of->buffer; i < buffer; i++)
		n += p->buffer[i].kind == HT_PLAN_INPUT;
	return n;
}

static struct ht_image_source source_of(const struct ht_plan *p, int32_t buffer)
{
	const struct ht_plan_buffer *b = &p->buffer[buffer];

	if (b->kind == HT_PLAN_VARIABLE)
		return (struct ht_image_source){ HT_IMAGE_VARIABLE, (uint32_t)b->offset };
	return (struct ht_image_source){ HT_IMAGE_PARAM,
		input_number(p, b->same ? b->same - 1 : buffer) };
}

static void put_derived(struct writing *w)
{
	for (int32_t i = 0; i < w->plan->deriveds; i++) {
		const struct ht_plan_derived *d = &w->plan->derived[i];
		struct ht_image_source *source =
			HT_NEW_ARRAY(w->arena, struct ht_image_source, (size_t)d->sources);

		for (int32_t k = 0; k < d->sources; k++)
			source[k] = source_of(w->plan, d->source[k]);
		ht_image_put_derived(&w->b, d->bytes, source, (size_t)d->sources);
	}
}

static void put_object(struct writing *w, const struct ht_plan_object *o)
{
	uint32_t *constant = HT_NEW_ARRAY(w->arena, uint32_t, (size_t)o->constants);

	for (int32_t i = 0; i < o->constants; i++)
		constant[i] = constant_number(w->plan, o->constant[i]);
	ht_image_put_object(&w->b, &(struct ht_image_object_text){ .name = o->name,
					   .kind = o->kind,
					   .owner = o->owner,
					   .constant = constant,
					   .constants = (size_t)o->constants,
					   .param = o->param,
					   .params = (size_t)o->params });
}

/* ---- the procedure of the plan's steps ---- */

static void put_parameters(
	struct writing *w, const struct ht_plan_procedure *p, enum ht_plan_kind kind)
{
	for (int32_t i = p->buffer; i < p->buffer + p->buffers; i++)
		if (w->plan->buffer[i].kind == kind)
			w->number[i] = ht_image_put_buffer(&w->b,
				(struct ht_image_buffer){ .kind = HT_IMAGE_PARAM,
					.bytes = w->plan->buffer[i].bytes,
					.sized = put_open_bytes(w, i),
					.written =
						kind == HT_PLAN_OUTPUT || kind == HT_PLAN_RESULT });
}

static bool is_parameter(enum ht_plan_kind kind)
{
	return kind == HT_PLAN_INPUT || kind == HT_PLAN_OUTPUT || kind == HT_PLAN_PARAM ||
	       kind == HT_PLAN_RESULT;
}

static void put_buffer(struct writing *w, int32_t i)
{
	const struct ht_plan_buffer *from = &w->plan->buffer[i];
	struct ht_image_buffer b = { .bytes = from->bytes };

	if (from->kind == HT_PLAN_CONST) {
		b.kind = HT_IMAGE_CONST;
		b.number = from->same ? constant_number(w->plan, from->same - 1) : w->constants++;
	} else if (from->kind == HT_PLAN_STREAM || from->kind == HT_PLAN_VARIABLE ||
		   from->kind == HT_PLAN_OBJECT) {
		b.kind = from->kind == HT_PLAN_STREAM     ? HT_IMAGE_STREAM
			 : from->kind == HT_PLAN_VARIABLE ? HT_IMAGE_VARIABLE
							  : HT_IMAGE_OBJECT;
		b.number = (uint32_t)from->offset;
	} else {
		b.kind = from->kind == HT_PLAN_DERIVED ? HT_IMAGE_DERIVED_BUFFER : HT_IMAGE_TEMP;
		b.number = (uint32_t)from->derived;
		if (from->kind == HT_PLAN_TEMP && w->places.n)
			b.number = w->places.of[i];
		b.offset = from->offset;
	}
	if (from->first_step >= 0)
		w->number[i] = ht_image_put_buffer(&w->b, b);
}

static void put_kernel_step(struct writing *w, const struct ht_plan_step *s)
{
	const struct ht_kernel *k = w->plan->kernel[s->kernel];
	const struct ht_image_note_text note = { .node = s->node,
		.method = ht_str(k->method ? k->method : ""),
		.words = s->words,
		.words_count = s->words_count };
	uint32_t *arg = HT_NEW_ARRAY(w->arena, uint32_t, (size_t)k->args);
	int64_t *param = s->params ? s->params : HT_NEW_ARRAY(w->arena, int64_t, (size_t)k->params);

	for (int32_t i = 0; i < k->args; i++)
		arg[i] = w->number[s->buffer[i]];
	ht_image_put_step(&w->b,
		(struct ht_image_step){ .op = HT_IMAGE_KERNEL,
			.to = (uint32_t)s->kernel,
			.count = (uint32_t)ht_kernel_tiles(k) },
		arg, (size_t)k->args, param, s->sized ? 0 : (size_t)k->params, &note);
	if (s->computes)
		ht_image_put_step(&w->b,
			(struct ht_image_step){
				.op = HT_IMAGE_SIZE, .to = (uint32_t)s->computes - 1 },
			&arg[k->args - 1], 1, NULL, 0, &note);
}

static void put_moves(struct writing *w, const struct ht_plan_move *m, int32_t n,
	const struct ht_image_note_text *note)
{
	for (int32_t i = 0; i < n; i++) {
		const uint32_t arg[] = { w->number[m[i].to], w->number[m[i].from] };
		const int64_t bytes = (int64_t)w->plan->buffer[m[i].to].bytes;

		ht_image_put_step(&w->b, (struct ht_image_step){ .op = HT_IMAGE_COPY }, arg, 2,
			&bytes, 1, note);
	}
}

static void put_call(
	struct writing *w, const struct ht_plan_call *c, const struct ht_image_note_text *note)
{
	uint32_t *arg = HT_NEW_ARRAY(w->arena, uint32_t, (size_t)c->buffers);

	for (int32_t i = 0; i < c->buffers; i++)
		arg[i] = w->number[c->buffer[i]];
	ht_image_put_step(&w->b,
		(struct ht_image_step){ .op = HT_IMAGE_CALL, .to = (uint32_t)c->procedure }, arg,
		(size_t)c->buffers, NULL, 0, note);
}

/* Jumps if the condition is zero.  The caller sets the target, with the step that is returned. */
static uint32_t put_unless(
	struct writing *w, int32_t condition, const struct ht_image_note_text *note)
{
	const struct ht_image_step s = { .op = HT_IMAGE_UNLESS,
		.count = (uint32_t)w->plan->buffer[condition].bytes };

	return ht_image_put_step(&w->b, s, &w->number[condition], 1, NULL, 0, note);
}

static void put_branch(
	struct writing *w, const struct ht_plan_control *c, const struct ht_image_note_text *note)
{
	uint32_t otherwise = put_unless(w, c->condition, note), end;

	put_call(w, &c->call[0], note);
	end = ht_image_put_step(
		&w->b, (struct ht_image_step){ .op = HT_IMAGE_JUMP }, NULL, 0, NULL, 0, note);
	ht_image_land(&w->b, otherwise);
	put_call(w, &c->call[1], note);
	ht_image_land(&w->b, end);
}

static void put_loop(
	struct writing *w, const struct ht_plan_control *c, const struct ht_image_note_text *note)
{
	uint32_t end;

	put_moves(w, c->begin, c->begins, note);
	if (c->tests)
		put_call(w, &c->call[0], note);
	ht_image_put_step(
		&w->b, (struct ht_image_step){ .op = HT_IMAGE_LOOP }, NULL, 0, NULL, 0, note);
	if (!c->tests)
		put_call(w, &c->call[0], note);
	end = put_unless(w, c->condition, note);
	put_call(w, &c->call[1], note);
	put_moves(w, c->again, c->agains, note);
	ht_image_put_again(&w->b, note);
	ht_image_land(&w->b, end);
}

static void put_step(struct writing *w, const struct ht_plan_step *s)
{
	const struct ht_image_note_text note = { .node = s->node };

	if (s->beside)
		ht_image_put_step(&w->b,
			(struct ht_image_step){ .op = HT_IMAGE_BESIDE,
				.to = s->undivided,
				.count = (uint32_t)s->beside },
			NULL, 0, NULL, 0, NULL);
	if (s->kernel >= 0)
		put_kernel_step(w, s);
	else if (s->control->kind == HT_PLAN_CALLS)
		put_call(w, &s->control->call[0], &note);
	else if (s->control->kind == HT_PLAN_LOOPS)
		put_loop(w, s->control, &note);
	else
		put_branch(w, s->control, &note);
}

/* The derived buffer whose steps begin, or end, with step `i`; -1: there is none. */
static int32_t derived_at(const struct ht_plan *p, int32_t i, bool end)
{
	for (int32_t k = 0; k < p->deriveds; k++)
		if (i == p->derived[k].step + (end ? p->derived[k].steps - 1 : 0))
			return k;
	return -1;
}

static void put_any_step(struct writing *w, int32_t i)
{
	int32_t begins = derived_at(w->plan, i, false), ends = derived_at(w->plan, i, true);

	if (begins >= 0)
		w->fresh = ht_image_put_step(&w->b,
			(struct ht_image_step){ .op = HT_IMAGE_FRESH, .count = (uint32_t)begins },
			NULL, 0, NULL, 0, NULL);
	put_step(w, &w->plan->step[i]);
	if (ends < 0)
		return;
	ht_image_put_step(&w->b,
		(struct ht_image_step){ .op = HT_IMAGE_MADE, .count = (uint32_t)ends }, NULL, 0,
		NULL, 0, NULL);
	ht_image_land(&w->b, w->fresh);
}

static uint32_t put_procedure(
	struct writing *w, const struct ht_plan_procedure *p, struct ht_str name)
{
	ht_image_begin_procedure(&w->b, name);
	for (enum ht_plan_kind kind = 0; kind <= HT_PLAN_RESULT; kind++)
		if (is_parameter(kind))
			put_parameters(w, p, kind);
	for (int32_t i = p->buffer; i < p->buffer + p->buffers; i++)
		if (!is_parameter(w->plan->buffer[i].kind))
			put_buffer(w, i);
	for (int32_t i = p->step; i < p->step + p->steps; i++)
		put_any_step(w, i);
	return ht_image_end_procedure(&w->b, p->arena_bytes);
}

/* ---- a batch in parts ---- */

/* times * floor(rows / divisor), where the number of rows is the only size. */
static uint32_t put_rows(struct writing *w, int64_t times, int64_t divisor)
{
	struct ht_size_expr e = ht_size_multiple(times, 0);

	e.divisor = divisor;
	return ht_image_put_expression(&w->b, &e);
}

/* Bytes of a part that has them of its own, and of all parts; of parts for any number of rows: of one row. */
static int64_t put_whole_parameter(struct writing *w, const struct ht_plan_buffer *b, uint32_t *arg)
{
	const struct ht_plan *p = w->plan;
	struct ht_image_buffer to = { .kind = HT_IMAGE_PARAM,
		.bytes = b->bytes * (b->whole ? 1 : (size_t)p->parts),
		.written = b->kind == HT_PLAN_OUTPUT };
	int64_t part = b->whole ? 0 : (int64_t)b->bytes;

	if (p->rows.parts && !b->whole) {
		part /= p->rows.part[p->rows.parts - 1].rows;
		to.bytes = (uint64_t)(part * p->rows.most);
		to.sized = 1 + put_rows(w, part, 1);
	}
	*arg = ht_image_put_buffer(&w->b, to);
	return part;
}

/* Inputs, then outputs, of the entry's procedure. */
static size_t put_whole_parameters(struct writing *w, uint32_t *arg, int64_t *bytes)
{
	static const enum ht_plan_kind kind[] = { HT_PLAN_INPUT, HT_PLAN_OUTPUT };
	const struct ht_plan_procedure *p = ht_plan_entry(w->plan);
	size_t n = 0;

	for (size_t k = 0; k < HT_COUNT(kind); k++)
		for (int32_t i = p->buffer; i < p->buffer + p->buffers; i++) {
			const struct ht_plan_buffer *b = &w->plan->buffer[i];

			if (b->kind != kind[k])
				continue;
			bytes[n] = put_whole_parameter(w, b, &arg[n]);
			n++;
		}
	return n;
}

/* Forks parts of `p`: as many as fit into the rows that the next larger parts, of `larger` rows
 * (0: there are none), leave over. */
static void put_spread(struct writing *w, const struct ht_plan_rows_part *p, int64_t larger,
	const uint32_t *arg, const int64_t *row_bytes, size_t n)
{
	int64_t *stride = HT_NEW_ARRAY(w->arena, int64_t, n);
	uint32_t from = put_rows(w, larger / p->rows, larger ? larger : 1);

	put_rows(w, 1, p->rows);
	for (size_t i = 0; i < n; i++)
		stride[i] = row_bytes[i] * p->rows;
	ht_image_put_step(&w->b,
		(struct ht_image_step){
			.op = HT_IMAGE_SPREAD, .to = (uint32_t)p->procedure, .count = from },
		arg, n, stride, n, NULL);
}

static void put_spreads(struct writing *w, const uint32_t *arg, const int64_t *row_bytes, size_t n)
{
	const struct ht_plan_rows *r = &w->plan->rows;
	int64_t larger = 0;

	for (int32_t i = r->parts; i-- > 0; larger = r->part[i].rows)
		put_spread(w, &r->part[i], larger, arg, row_bytes, n);
}

/* The steps that parts have in common; `arg` has the entry's inputs. */
static void put_prelude(struct writing *w, const uint32_t *arg)
{
	const struct ht_plan_procedure *p = &w->plan->prelude;

	for (int32_t i = p->buffer; i < p->buffer + p->buffers; i++)
		if (w->plan->buffer[i].kind == HT_PLAN_INPUT)
			w->number[i] = arg[input_number(w->plan, w->plan->buffer[i].same - 1)];
		else
			put_buffer(w, i);
	for (int32_t i = p->step; i < p->step + p->steps; i++)
		put_any_step(w, i);
}

static uint32_t put_fork(struct writing *w, uint32_t part)
{
	uint32_t *arg = HT_NEW_ARRAY(w->arena, uint32_t, (size_t)w->plan->buffers);
	int64_t *stride = HT_NEW_ARRAY(w->arena, int64_t, (size_t)w->plan->buffers);
	size_t n;

	ht_image_begin_procedure(&w->b, HT_STR("main"));
	n = put_whole_parameters(w, arg, stride);
	put_prelude(w, arg);
	if (w->plan->rows.parts)
		put_spreads(w, arg, stride, n);
	else
		ht_image_put_step(&w->b,
			(struct ht_image_step){ .op = HT_IMAGE_FORK,
				.to = part,
				.count = (uint32_t)w->plan->parts },
			arg, n, stride, n, NULL);
	return ht_image_end_procedure(&w->b, w->plan->prelude.arena_bytes);
}

static bool is_in_parts(const struct ht_plan *p)
{
	return p->parts > 1 || p->rows.parts;
}

/* Expressions for the extents that are open (-1); each is a multiple of the rows that its buffer has. */
static const struct ht_image_port_text *put_extents(
	struct writing *w, enum ht_plan_kind kind, const struct ht_image_port_text *port, size_t n)
{
	const struct ht_plan_procedure *p = ht_plan_entry(w->plan);
	struct ht_image_port_text *to = HT_NEW_ARRAY(w->arena, struct ht_image_port_text, n);
	int32_t b = p->buffer;

	for (size_t i = 0; i < n; i++, b++) {
		int64_t *dim;

		while (w->plan->buffer[b].kind != kind)
			b++;
		to[i] = port[i];
		if (!w->plan->buffer[b].rows)
			continue;
		to[i].shape = ht_shape_make(w->arena, port[i].shape.rank, port[i].shape.dim);
		dim = (int64_t *)(uintptr_t)to[i].shape.dim;
		dim[0] = -1 - (int64_t)put_rows(w, w->plan->buffer[b].rows, 1);
		to[i].bytes = w->plan->buffer[b].bytes /
			      (size_t)w->plan->rows.part[w->plan->rows.parts - 1].rows *
			      (size_t)w->plan->rows.most;
	}
	return to;
}

static struct ht_str derived_name(struct ht_arena *a, int32_t number)
{
	return ht_str_printf(a, "size%d", (int)number);
}

static void put_size(struct writing *w, int32_t number)
{
	const struct ht_open_size *s = &w->plan->size[number];

	if (s->by.n)
		ht_image_put_computed_size(&w->b, s->by, s->most);
	else if (ht_size_count(&s->from))
		ht_image_put_derived_size(
			&w->b, derived_name(w->arena, number), s->least, s->most, &s->from);
	else
		ht_image_put_size(&w->b, s->name, s->least, s->most);
}

struct ht_str ht_plan_write_image(const struct ht_plan *p, const struct ht_image_port_text *input,
	size_t inputs, const struct ht_image_port_text *output, size_t outputs, struct ht_arena *a)
{
	struct writing w = { .plan = p, .arena = a };
	struct ht_str image;
	uint32_t procedure = 0;

	w.number = HT_NEW_ARRAY(a, uint32_t, (size_t)p->buffers);
	ht_image_begin(&w.b, a);
	w.places = ht_plan_places_of(p, a);
	for (int32_t i = 0; i < p->sizes; i++)
		put_size(&w, i);
	for (int32_t i = 0; i < p->kernels; i++)
		put_kernel(&w, i);
	put_places(&w);
	for (int32_t i = 0; i < p->buffers; i++)
		if (is_constant(&p->buffer[i]))
			ht_image_put_constant(&w.b, p->buffer[i].bytes);
	put_streams(&w);
	put_variables(&w);
	put_derived(&w);
	for (int32_t i = 0; i < p->objects; i++)
		put_object(&w, &p->object[i]);
	if (p->rows.parts) {
		ht_image_put_size(&w.b, HT_STR(HT_SIZE_OF_ROWS), p->rows.least, p->rows.most);
		input = put_extents(&w, HT_PLAN_INPUT, input, inputs);
		output = put_extents(&w, HT_PLAN_OUTPUT, output, outputs);
	}
	if (p->sizes) {
		input = put_open_extents(&w, HT_PLAN_INPUT, input, inputs);
		output = put_open_extents(&w, HT_PLAN_OUTPUT, output, outputs);
	}
	for (int32_t i = 0; i < p->procedures; i++)
		procedure = put_procedure(&w, &p->procedure[i],
			(i + 1 == p->procedures && p->parts > 1) || p->rows.parts
				? HT_STR("part")
				: p->procedure[i].name);
	if (is_in_parts(p))
		procedure = put_fork(&w, procedure);
	ht_image_put_entry(&w.b, HT_STR("main"), procedure, input, inputs, output, outputs);
	image = ht_image_end(&w.b);
	HT_CHECK(!ht_image_verify(image));
	return image;
}
