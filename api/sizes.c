/* Open sizes of a program: their values in a run, from the shapes of its inputs. */
#include "api/api.h"

static enum ht_status misfit(const struct ht_program *p, size_t i, const struct ht_array *a,
	uint32_t axis, enum ht_exec_misfit m, struct ht_diags *d)
{
	const struct ht_value_info *v = &p->input[i];
	long long is = (long long)a->dim[axis];
	struct ht_size_info size = { 0 };

	if (m == HT_EXEC_OTHER_EXTENT)
		return ht_refuse(d, HT_E_INPUT,
			"dimension %u of input '%s' is %lld, %lld was given", axis, v->name,
			(long long)v->dim[axis], is);
	if (m == HT_EXEC_OTHER_SIZE)
		return ht_refuse(d, HT_E_INPUT,
			"dimension %u of input '%s' has to be the size that earlier inputs have, "
			"%lld was given",
			axis, v->name, is);
	ht_program_open_size(p, i, (int32_t)axis, &size);
	return ht_refuse(d, HT_E_INPUT,
		"dimension %u of input '%s' is %lld to %lld, %lld was given", axis, v->name,
		(long long)size.least, (long long)size.most, is);
}

static enum ht_status take(const struct ht_program *p, size_t i, const struct ht_array *a,
	int64_t *size, struct ht_diags *d)
{
	const struct ht_image *x = p->rt.image;
	const struct ht_value_info *v = &p->input[i];
	enum ht_exec_misfit m;
	uint32_t axis;

	if (a->dtype != v->dtype)
		return ht_refuse(d, HT_E_INPUT, "input '%s' is %s, %s was given", v->name,
			ht_dtype_name(v->dtype), ht_dtype_name(a->dtype));
	if (a->rank != v->rank)
		return ht_refuse(d, HT_E_INPUT, "input '%s' has %d dimensions, %d were given",
			v->name, (int)v->rank, (int)a->rank);
	m = ht_exec_take_sizes(
		x, &ht_image_ports(x)[ht_image_entries(x)->port + i], a->dim, size, &axis);
	return m == HT_EXEC_FITS ? HT_OK : misfit(p, i, a, axis, m, d);
}

enum ht_status ht_sizes_take(
	const struct ht_program *p, const struct ht_array *in, int64_t *size, struct ht_diags *d)
{
	for (uint32_t i = 0; i < ht_image_count(p->rt.image, HT_IMAGE_SIZES); i++) {
		const struct ht_image_size *s = &ht_image_sizes(p->rt.image)[i];

		size[i] = s->kind == HT_IMAGE_BY_STEP ? s->most : -1;
	}
	for (size_t i = 0; i < ht_program_inputs(p); i++)
		HT_TRY(take(p, i, &in[i], size, d));
	ht_image_derive_all(p->rt.image, size);
	return HT_OK;
}

static const struct ht_image_port *output_port(const struct ht_program *p, size_t i)
{
	const struct ht_image_entry *e = ht_image_entries(p->rt.image);

	return &ht_image_ports(p->rt.image)[e->port + e->inputs + i];
}

int64_t ht_sizes_extent(
	const struct ht_program *p, size_t output, int32_t axis, const int64_t *size)
{
	const struct ht_image *x = p->rt.image;

	return ht_exec_extent(
		x, ht_image_dims(x)[output_port(p, output)->dim + (uint32_t)axis], size);
}

/* The open size of dimension `axis` of a port; NULL: the extent is a constant. */
static const struct ht_image_size *size_of(
	const struct ht_image *x, const struct ht_image_port *port, uint32_t axis)
{
	int64_t n = axis < port->rank ? ht_image_dims(x)[port->dim + axis] : 0;

	return n < 0 ? &ht_image_sizes(x)[ht_image_size_of_extent(x, n)] : NULL;
}

int ht_program_open_size(
	const struct ht_program *p, size_t i, int32_t dimension, struct ht_size_info *out)
{
	const struct ht_image *x = p->rt.image;
	const struct ht_image_size *s;

	if (i >= ht_program_inputs(p) || dimension < 0)
		return 0;
	s = size_of(x, &ht_image_ports(x)[ht_image_entries(x)->port + i], (uint32_t)dimension);
	if (!s)
		return 0;
	*out = (struct ht_size_info){ (int32_t)(s - ht_image_sizes(x)), ht_image_text(x, s->name),
		s->least, s->most };
	return 1;
}

int ht_program_open_dimension(
	const struct ht_program *p, int32_t dimension, int64_t *least, int64_t *most)
{
	const struct ht_image *x = p->rt.image;

	for (size_t i = 0; dimension >= 0 && i < ht_program_inputs(p); i++) {
		const struct ht_image_size *s = size_of(
			x, &ht_image_ports(x)[ht_image_entries(x)->port + i], (uint32_t)dimension);

		if (!s)
			continue;
		*least = s->least;
		*most = s->most;
		return 1;
	}
	return 0;
}

int ht_program_open(const struct ht_program *p, int64_t *least, int64_t *most)
{
	return ht_program_open_dimension(p, 0, least, most);
}

size_t ht_sizes_output_bytes(const struct ht_program *p, size_t i, const int64_t *size)
{
	return (size_t)ht_exec_port_bytes(p->rt.image, output_port(p, i), size);
}

void ht_sizes_output(
	const struct ht_program *p, size_t i, const int64_t *size, int64_t *dim, size_t *bytes)
{
	for (int32_t k = 0; k < p->output[i].rank; k++)
		dim[k] = ht_sizes_extent(p, i, k, size);
	*bytes = ht_sizes_output_bytes(p, i, size);
}

enum ht_status ht_program_output_for(const struct ht_program *p, const struct ht_array *in,
	size_t ins, size_t i, int64_t *dim, size_t *bytes, struct ht_diags *d)
{
	int64_t size[HT_IMAGE_MOST_SIZES];

	if (ins != ht_program_inputs(p) || i >= ht_program_outputs(p))
		return ht_refuse(d, HT_E_USAGE,
			"the program has %zu inputs and %zu outputs; %zu inputs were given, and output "
			"%zu is asked for",
			ht_program_inputs(p), ht_program_outputs(p), ins, i);
	HT_TRY(ht_sizes_take(p, in, size, d));
	ht_sizes_output(p, i, size, dim, bytes);
	if (p->output[i].dtype == HT_STRING)
		*bytes = 0;
	return HT_OK;
}

enum ht_status ht_program_memory_for(const struct ht_program *p, int threads,
	const struct ht_array *in, size_t ins, size_t *bytes, struct ht_diags *d)
{
	int64_t size[HT_IMAGE_MOST_SIZES];

	if (ins != ht_program_inputs(p))
		return ht_refuse(d, HT_E_USAGE, "the program has %zu inputs; %zu were given",
			ht_program_inputs(p), ins);
	HT_TRY(ht_sizes_take(p, in, size, d));
	*bytes = ht_rt_memory_for(&p->rt, threads < 1 ? 1 : threads, HT_EXEC_DEPTH_INIT, size);
	return *bytes ? HT_OK : ht_refuse(d, HT_E_ENVIRONMENT, "out of memory");
}

static bool is_computed(const struct ht_image *x, int64_t extent)
{
	struct ht_size_expr e;

	if (extent >= 0)
		return false;
	e = ht_image_expression_of(x, (uint32_t)(-1 - extent));
	for (int i = 0; i < ht_size_count(&e); i++)
		if (ht_image_sizes(x)[e.size[i] - 1].kind == HT_IMAGE_BY_STEP)
			return true;
	return false;
}

bool ht_sizes_are_known(const struct ht_program *p, size_t output)
{
	const struct ht_image *x = p->rt.image;
	const struct ht_image_port *port = output_port(p, output);

	for (uint32_t k = 0; k < port->rank; k++)
		if (is_computed(x, ht_image_dims(x)[port->dim + k]))
			return false;
	return true;
}

struct ht_value_info ht_sizes_describe(
	struct ht_arena *a, const struct ht_image *x, const struct ht_image_port *port)
{
	int64_t *dim = HT_NEW_ARRAY(a, int64_t, port->rank);
	bool open = false;

	for (uint32_t i = 0; i < port->rank; i++) {
		dim[i] = ht_image_dims(x)[port->dim + i];
		open |= dim[i] < 0;
		dim[i] = dim[i] < 0 ? HT_DIM_UNKNOWN : dim[i];
	}
	return (struct ht_value_info){ .name = ht_image_text(x, port->name),
		.dtype = (enum ht_dtype)port->dtype,
		.rank = (int32_t)port->rank,
		.dim = dim,
		.bytes = open ? 0 : port->bytes,
		.value = port->value == HT_IMAGE_NO_VALUE ? NULL : ht_image_data(x) + port->value };
}
