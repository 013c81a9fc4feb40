/* Loads and stores: depending on their step along the lanes they are scalar, contiguous or lane
 * by lane.  Addresses of lanes and rows that must not be read are replaced, so there are no
 * branches. */
#include "backend/emit.h"

LLVMValueRef ht_e_at(struct ht_e *e, LLVMTypeRef t, LLVMValueRef base, LLVMValueRef offset)
{
	return LLVMBuildGEP2(e->b, t, base, &offset, 1, "");
}

LLVMValueRef ht_e_load_at(struct ht_e *e, LLVMTypeRef t, LLVMValueRef p, unsigned align)
{
	LLVMValueRef v = LLVMBuildLoad2(e->b, t, p, "");

	LLVMSetAlignment(v, align);
	return v;
}

void ht_e_store_at(struct ht_e *e, LLVMValueRef v, LLVMValueRef p, unsigned align)
{
	LLVMSetAlignment(LLVMBuildStore(e->b, v, p), align);
}

static LLVMValueRef call_masked(
	struct ht_e *e, const char *name, LLVMTypeRef vector, LLVMValueRef *arg, int args)
{
	LLVMTypeRef overload[2] = { vector, e->ptr };
	unsigned id = LLVMLookupIntrinsicID(name, name[12] == 'l' ? 16 : 17);

	return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->c, id, overload, 2),
		LLVMGetIntrinsicDeclaration(e->mod, id, overload, 2), arg, (unsigned)args, "");
}

LLVMValueRef ht_e_load_masked(struct ht_e *e, LLVMTypeRef vector, LLVMValueRef p, unsigned align,
	LLVMValueRef mask, LLVMValueRef other)
{
	LLVMValueRef arg[4] = { p, LLVMConstInt(e->i32, align, false), mask, other };

	return call_masked(e, "llvm.masked.load", vector, arg, 4);
}

static void masked_store(
	struct ht_e *e, LLVMValueRef v, LLVMValueRef p, unsigned align, LLVMValueRef mask)
{
	LLVMValueRef arg[4] = { v, p, LLVMConstInt(e->i32, align, false), mask };

	call_masked(e, "llvm.masked.store", LLVMTypeOf(v), arg, 4);
}

/* The parts of a load. */
struct load {
	const struct ht_x *x;
	LLVMTypeRef t; /* in memory */
	unsigned align;
	LLVMValueRef p;     /* address of lane 0; NULL: the offset has no scalar form */
	LLVMValueRef guard; /* NULL: none */
	LLVMValueRef other; /* in the type in memory; NULL: zero */
};

static LLVMValueRef to_memory(struct ht_e *e, LLVMValueRef v, enum ht_dtype t)
{
	if (t != HT_BOOL)
		return v;
	return LLVMBuildZExt(e->b, v, ht_e_form(e->i8, ht_e_lanes_of(v)), "");
}

static LLVMValueRef from_memory(struct ht_e *e, LLVMValueRef v, enum ht_dtype t)
{
	if (t != HT_BOOL)
		return v;
	return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static LLVMValueRef select_other(struct ht_e *e, const struct load *l, LLVMValueRef v)
{
	return l->guard && l->other ? ht_e_select(e, l->guard, v, l->other) : v;
}

static LLVMValueRef load_one(struct ht_e *e, const struct load *l)
{
	LLVMValueRef p = l->p;

	if (l->guard)
		p = ht_e_select(e, l->guard, p, e->zeros);
	return select_other(e, l, ht_e_load_at(e, l->t, p, l->align));
}

/* One address for all lanes, a guard for each. */
static LLVMValueRef load_spread(struct ht_e *e, const struct load *l)
{
	LLVMValueRef any = ht_e_any(e, l->guard), v;

	v = ht_e_load_at(e, l->t, ht_e_select(e, any, l->p, e->zeros), l->align);
	v = ht_e_splat(e, v, e->vl);
	return ht_e_select(e, l->guard, v, l->other ? l->other : LLVMConstNull(LLVMTypeOf(v)));
}

static LLVMValueRef load_contiguous(struct ht_e *e, const struct load *l)
{
	LLVMTypeRef t = ht_e_form(l->t, e->vl);
	LLVMValueRef mask = ht_e_mask(e), p = l->p, other = l->other ? l->other : LLVMConstNull(t),
		     v;

	if (l->guard && ht_e_lanes_of(l->guard) > 1) {
		mask = mask ? LLVMBuildAnd(e->b, mask, l->guard, "") : l->guard;
		return ht_e_load_masked(e, t, p, l->align, mask, other);
	}
	if (l->guard)
		p = ht_e_select(e, l->guard, p, e->zeros);
	if (mask)
		v = ht_e_load_masked(e, t, p, l->align, mask, LLVMConstNull(t));
	else
		v = ht_e_load_at(e, t, p, l->align);
	return select_other(e, l, v);
}

/* The conjunction of two masks; NULL is always true. */
static LLVMValueRef both(struct ht_e *e, LLVMValueRef a, LLVMValueRef b)
{
	return !a ? b : !b ? a : LLVMBuildAnd(e->b, a, b, "");
}

static LLVMValueRef lane_active(struct ht_e *e, LLVMValueRef guard, LLVMValueRef mask, int lane)
{
	return both(e, guard ? ht_e_lane(e, guard, lane) : NULL,
		mask ? ht_e_lane(e, mask, lane) : NULL);
}

/* Address of a lane: by the constant step from lane 0, or by the vector of offsets. */
static LLVMValueRef lane_address(
	struct ht_e *e, int32_t offset, LLVMTypeRef t, LLVMValueRef base, LLVMValueRef p, int lane)
{
	const struct ht_e_info *info = &e->info[offset];

	if (p)
		return ht_e_at(e, t, p, ht_e_i64(e, info->varies ? info->lane_step * lane : 0));
	return ht_e_at(e, t, base, ht_e_lane(e, ht_e_get(e, offset, true), lane));
}

static LLVMValueRef gather(struct ht_e *e, const struct load *l)
{
	LLVMValueRef mask = ht_e_mask(e), v = LLVMGetPoison(ht_e_form(l->t, e->vl)), p, active, one;

	for (int i = 0; i < e->vl; i++) {
		p = lane_address(e, l->x->a, l->t, e->buffer[l->x->imm], l->p, i);
		active = lane_active(e, l->guard, mask, i);
		if (active)
			p = ht_e_select(e, active, p, e->zeros);
		one = ht_e_load_at(e, l->t, p, l->align);
		v = LLVMBuildInsertElement(e->b, v, one, ht_e_i64(e, i), "");
	}
	return select_other(e, l, v);
}

static LLVMValueRef *shared_slot(
	struct ht_e *e, int32_t i, bool vector, LLVMValueRef base, int64_t displace)
{
	const struct ht_x *x = &e->s->x[i];
	const struct ht_e_info *o = &e->info[x->a];
	const int64_t step = vector && o->varies ? o->lane_step : 0;
	struct ht_e_shared *s;

	for (size_t k = 0; k < e->shared_count; k++) {
		s = &e->shared[k];
		if (s->buffer == x->imm && s->base == base && s->displace == displace &&
			s->vector == vector && s->step == step)
			return &s->value;
	}
	e->shared =
		ht_grow(e->arena, e->shared, e->shared_count, &e->shared_cap, sizeof *e->shared);
	s = &e->shared[e->shared_count++];
	*s = (struct ht_e_shared){ (int32_t)x->imm, base, NULL, displace, step, vector,
		e->info[i].home };
	return &s->value;
}

static LLVMValueRef load_by_form(struct ht_e *e, const struct load *l, bool vector)
{
	const struct ht_e_info *o = &e->info[l->x->a];
	bool lanes_guarded = l->guard && ht_e_lanes_of(l->guard) > 1;
	bool can_mask = e->t->masked_bytes &&
			ht_dtype_info(l->x->dtype)->bytes >= (size_t)e->t->masked_bytes;

	if (!vector)
		return load_one(e, l);
	if (!o->varies && lanes_guarded)
		return load_spread(e, l);
	if (!o->varies) {
		struct load one = *l;

		one.other = NULL;
		return select_other(e, l, ht_e_splat(e, load_one(e, &one), e->vl));
	}
	if (o->lane && o->lane_step == 1 && (!lanes_guarded || can_mask))
		return load_contiguous(e, l);
	return gather(e, l);
}

static bool is_zero(const struct ht_e *e, int32_t x)
{
	return e->s->x[x].op == HT_X_CONST && e->s->x[x].imm == 0;
}

/* A load from a tensor without elements: its guard fails, and it is `other`; or a check of its index does, and the run stops. */
static LLVMValueRef load_nothing(struct ht_e *e, const struct ht_x *x, bool vector)
{
	(void)ht_e_get(e, x->a, vector && ht_e_is_vector(e, x->a));
	if (x->c >= 0)
		return ht_e_get(e, x->c, vector);
	return LLVMConstNull(ht_e_form(ht_e_type(e, x->dtype), vector ? e->vl : 1));
}

LLVMValueRef ht_e_load(struct ht_e *e, int32_t i, bool vector)
{
	const struct ht_x *x = &e->s->x[i];
	const struct ht_e_info *o = &e->info[x->a];
	struct load l = { .x = x, .t = ht_e_mem_type(e, x->dtype) };
	LLVMValueRef base = NULL, *slot = NULL, v;
	int known = x->b >= 0 ? ht_e_decide(e, x->b) : 1;
	int64_t displace;

	if (known == 0)
		return ht_e_get(e, x->c, vector);
	if (e->k->buffer[x->imm].count == 0)
		return load_nothing(e, x, vector);
	l.align = (unsigned)ht_dtype_info(x->dtype)->bytes;
	if (known < 0) {
		l.guard = ht_e_get(e, x->b, vector && ht_e_is_vector(e, x->b));
		if (!is_zero(e, x->c))
			l.other = to_memory(e, ht_e_get(e, x->c, vector), x->dtype);
	}
	if (!vector || !o->varies || o->lane) {
		base = ht_e_base(e, x->a, &displace);
		if (known > 0) {
			slot = shared_slot(e, i, vector, base, displace);
			if (*slot)
				return *slot;
		}
		l.p = ht_e_at(e, l.t, e->buffer[x->imm], base);
		if (displace)
			l.p = ht_e_at(e, l.t, l.p, ht_e_i64(e, displace));
	}
	v = vector && l.p && !l.other ? ht_e_load_turned(e, i, l.p, l.guard) : NULL;
	if (!v)
		v = from_memory(e, load_by_form(e, &l, vector), x->dtype);
	if (slot)
		*slot = v;
	return v;
}

/* ---- results that are too large to stay in a cache until they are read ---- */

static bool stores(const struct ht_stage *s, int32_t buffer)
{
	for (int32_t i = 0; i < s->stores; i++)
		if (s->store[i].buffer == buffer)
			return true;
	return false;
}

/* Whether the kernel reads the buffer, or writes its rows in pieces that do not fill cache
 * lines, as a contraction does. */
static bool is_read_or_in_pieces(const struct ht_kernel *k, int32_t buffer)
{
	for (int32_t i = 0; i < k->stages; i++) {
		const struct ht_stage *s = &k->stage[i];

		if (s->kind == HT_STAGE_CONTRACT && stores(s, buffer))
			return true;
		if (s->kind == HT_STAGE_CONTRACT &&
			(s->contract.a_buffer == buffer || s->contract.b_buffer == buffer))
			return true;
		for (int32_t x = 0; x < s->xs; x++)
			if (s->x[x].op == HT_X_LOAD && s->x[x].imm == buffer)
				return true;
	}
	return false;
}

int64_t ht_e_bytes(const struct ht_kernel_buffer *b)
{
	return b->count * (int64_t)ht_dtype_info(b->dtype)->bytes;
}

/* Whether operands and results evict each other: if they have twice the bytes of the last cache,
 * the beginning is evicted before it is read again. */
static bool displaces_itself(const struct ht_kernel *k, int64_t cache)
{
	int64_t bytes = 0;

	for (int32_t i = 0; i < k->buffers && bytes < 2 * cache; i++)
		if (k->buffer[i].kind == HT_BUFFER_IN || k->buffer[i].kind == HT_BUFFER_OUT)
			bytes += ht_e_bytes(&k->buffer[i]);
	return bytes >= 2 * cache;
}

bool ht_e_streams(const struct ht_e *e, int32_t buffer)
{
	const struct ht_kernel_buffer *b = &e->k->buffer[buffer];
	const int64_t bytes = ht_e_bytes(b), cache = e->t->streams;

	return e->t->non_temporal && b->kind == HT_BUFFER_OUT &&
	       (bytes >= cache || (bytes >= cache / 4 && displaces_itself(e->k, cache))) &&
	       !is_read_or_in_pieces(e->k, buffer);
}

/* Whether a vector at this offset is aligned to its own size if the buffer is. */
static bool on_lines(const struct ht_e *e, int32_t offset)
{
	const struct ht_stage *s = e->s;
	const struct ht_e_info *o = &e->info[offset];
	const struct ht_dim *vec = &s->dim[s->vec];

	if (!o->pure || o->c % e->vl || e->level[e->level_of[s->vec]].lo % e->vl ||
		(vec->grid >= 0 && vec->step % e->vl))
		return false;
	for (int d = 0; d < s->dims; d++)
		if (d != s->vec && o->coef[d] % e->vl)
			return false;
	for (int g = 0; g < HT_MAX_GRID; g++)
		if (o->grid[g] % e->vl)
			return false;
	return true;
}

/* A non-temporal store: a line that is written as a whole need not be read first.  The fence
 * hides the type from LLVM, which would otherwise store vectors of bfloat16, and truncated
 * vectors, by instructions that use the caches. */
static void store_streaming(struct ht_e *e, LLVMValueRef v, LLVMValueRef p, unsigned bytes)
{
	LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false));
	LLVMTypeRef words = LLVMVectorType(e->f32, bytes / 4);
	LLVMValueRef store;

	v = LLVMBuildBitCast(e->b, v, words, "");
	v = ht_e_intrinsic(e, "llvm.arithmetic.fence", words, &v, 1);
	store = LLVMBuildStore(e->b, v, p);
	LLVMSetAlignment(store, bytes);
	LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->c, "nontemporal", 11),
		LLVMMetadataAsValue(e->c, LLVMMDNodeInContext2(e->c, &one, 1)));
}

static void scatter(struct ht_e *e, const struct ht_store *st, LLVMTypeRef t, LLVMValueRef p,
	LLVMValueRef value, unsigned align, LLVMValueRef mask)
{
	LLVMValueRef at;

	for (int i = 0; i < e->vl; i++) {
		at = lane_address(e, st->offset, t, e->buffer[st->buffer], p, i);
		if (mask)
			at = ht_e_select(e, ht_e_lane(e, mask, i), at, e->dump);
		ht_e_store_at(e, ht_e_lane(e, value, i), at, align);
	}
}

/* One value and one place for all lanes, a guard for each: the value is stored if a guard is true. */
static void store_if_any(
	struct ht_e *e, LLVMValueRef value, LLVMValueRef p, unsigned align, LLVMValueRef guard)
{
	LLVMValueRef any = ht_e_any(e, both(e, ht_e_mask(e), guard));

	ht_e_store_at(e, value, ht_e_select(e, any, p, e->dump), align);
}

/* A guard that all lanes share redirects the store to unused memory; other guards become masks. */
static void store(struct ht_e *e, const struct ht_store *st, LLVMValueRef value)
{
	int known = st->guard >= 0 ? ht_e_decide(e, st->guard) : 1;
	enum ht_dtype dtype = e->k->buffer[st->buffer].dtype;
	const struct ht_e_info *o = &e->info[st->offset];
	unsigned align = (unsigned)ht_dtype_info(dtype)->bytes;
	LLVMTypeRef t = ht_e_mem_type(e, dtype);
	bool vector = e->vl > 1 && (o->varies || ht_e_lanes_of(value) > 1), contiguous;
	LLVMValueRef p = NULL, guard = NULL, base, mask;
	int64_t displace;

	if (known == 0)
		return;
	if (known < 0)
		guard = ht_e_get(e, st->guard, e->vl > 1 && ht_e_is_vector(e, st->guard));
	value = to_memory(e, value, dtype);
	if (!vector || !o->varies || o->lane) {
		base = ht_e_base(e, st->offset, &displace);
		p = ht_e_at(e, t, e->buffer[st->buffer], base);
		if (displace)
			p = ht_e_at(e, t, p, ht_e_i64(e, displace));
	}
	if (!vector && guard && ht_e_lanes_of(guard) > 1) {
		store_if_any(e, value, p, align, guard);
		return;
	}
	contiguous = vector && o->lane && o->lane_step == 1;
	if (guard && ht_e_lanes_of(guard) == 1 && (contiguous || !vector)) {
		p = ht_e_select(e, guard, p, e->dump);
		guard = NULL;
	}
	if (!vector) {
		ht_e_store_at(e, value, p, align);
		return;
	}
	if (ht_e_lanes_of(value) == 1)
		value = ht_e_splat(e, value, e->vl);
	if (guard && ht_e_lanes_of(guard) == 1)
		guard = ht_e_splat(e, guard, e->vl);
	mask = both(e, ht_e_mask(e), guard);
	if (!contiguous)
		scatter(e, st, t, p, value, align, mask);
	else if (mask)
		masked_store(e, value, p, align, mask);
	else if (e->streaming && ht_e_streams(e, st->buffer) && on_lines(e, st->offset) &&
		 (unsigned)e->vl * align >= 16 && (unsigned)e->vl * align <= HT_E_LINE)
		store_streaming(e, value, p, (unsigned)e->vl * align);
	else
		ht_e_store_at(e, value, p, align);
}

void ht_e_store(struct ht_e *e, int32_t i, LLVMValueRef value)
{
	int32_t line = ht_e_part(e, HT_PART_STORE, i);

	store(e, &e->s->store[i], value);
	ht_e_line(e, line);
}
