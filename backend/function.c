/* A kernel as one function: the loop over its tiles, with the stages one after the other. */
#include "backend/emit.h"

#include <string.h>

static void attribute(struct ht_e *e, LLVMValueRef fn, const char *name, const char *value)
{
	LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
		LLVMCreateStringAttribute(
			e->c, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

void ht_e_attributes(struct ht_e *e, LLVMValueRef fn)
{
	unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);

	LLVMAddAttributeAtIndex(
		fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->c, nounwind, 0));
	attribute(e, fn, "no-builtins", "true");
	attribute(e, fn, "no-jump-tables", "true");
	/* The run decides whether subnormals count as zero, so LLVM must not fold operations
	 * that depend on it. */
	attribute(e, fn, "denormal-fp-math", "dynamic,dynamic");
	attribute(e, fn, "target-cpu", e->t->cpu);
	attribute(e, fn, "target-features", e->t->features);
	attribute(e, fn, "stackrealign", ""); /* so that no spilled vector crosses a cache line */
	attribute(e, fn, "prefer-vector-width",
		e->t->vector_bytes == 64   ? "512"
		: e->t->vector_bytes == 32 ? "256"
					   : "128");
}

static void make_function(struct ht_e *e, const char *name)
{
	LLVMTypeRef arg[5] = { e->ptr, e->ptr, e->i64, e->i64, e->ptr };

	e->fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->i32, arg, 5, false));
	LLVMSetVisibility(e->fn, LLVMHiddenVisibility);
	ht_e_attributes(e, e->fn);
}

/* Bytes that a load may read in place of a row or lane that does not exist. */
static int64_t zero_bytes(const struct ht_kernel *k)
{
	int64_t n = HT_E_ZEROS;

	for (int32_t i = 0; i < k->stages; i++) {
		const struct ht_stage *s = &k->stage[i];
		int64_t row = s->kind == HT_STAGE_CONTRACT ? ht_e_zero_row(k, s) : 0;

		if (row > n)
			n = row;
	}
	return n;
}

static void make_zeros(struct ht_e *e)
{
	LLVMTypeRef t = LLVMArrayType2(e->i8, (uint64_t)zero_bytes(e->k));

	e->zeros = LLVMAddGlobal(e->mod, t, "zeros");
	LLVMSetInitializer(e->zeros, LLVMConstNull(t));
	LLVMSetGlobalConstant(e->zeros, true);
	LLVMSetLinkage(e->zeros, LLVMPrivateLinkage);
	LLVMSetAlignment(e->zeros, 64);
	/* A section of constants, so that no zero-initialised writable one is needed. */
	LLVMSetSection(e->zeros, ".rodata");
}

static void load_arguments(struct ht_e *e)
{
	const struct ht_kernel *k = e->k;
	LLVMValueRef table = LLVMGetParam(e->fn, 0), p;

	e->buffer = HT_NEW_ARRAY(e->arena, LLVMValueRef, (size_t)k->buffers + 1);
	e->param = HT_NEW_ARRAY(e->arena, LLVMValueRef, (size_t)k->params + 1);
	for (int32_t i = 0; i < k->buffers; i++) {
		if (i < k->args) {
			p = ht_e_at(e, e->ptr, table, ht_e_i64(e, i));
			e->buffer[i] = ht_e_load_at(e, e->ptr, p, 8);
		} else {
			e->buffer[i] = ht_e_at(e, e->i8, LLVMGetParam(e->fn, 4),
				ht_e_i64(e, (int64_t)ht_kernel_local_offset(k, i)));
		}
	}
	for (int32_t i = 0; i < k->params; i++) {
		p = ht_e_at(e, e->i64, LLVMGetParam(e->fn, 1), ht_e_i64(e, i));
		e->param[i] = ht_e_load_at(e, e->i64, p, 8);
	}
}

/* Row-major coordinates of tile number t. */
static void coordinates(struct ht_e *e, LLVMValueRef t)
{
	for (int g = e->k->grid_dims - 1; g >= 0; g--) {
		LLVMValueRef n = ht_e_i64(e, e->k->grid[g]);

		if (e->k->grid[g] == 1) {
			e->grid[g] = ht_e_i64(e, 0);
			continue;
		}
		e->grid[g] = g == 0 ? t : LLVMBuildURem(e->b, t, n, "");
		if (g > 0)
			t = LLVMBuildUDiv(e->b, t, n, "");
	}
}

/* Returns. The fence orders non-temporal stores before the return, at each end of the kernel. */
static void end(struct ht_e *e, LLVMValueRef fault)
{
	if (e->streaming)
		ht_e_intrinsic(e, "llvm.x86.sse.sfence", NULL, NULL, 0);
	LLVMBuildRet(e->b, fault);
}

/* The tile that is computed in the place of tile t of the call. */
static LLVMValueRef turned(struct ht_e *e, LLVMValueRef t)
{
	const int32_t by = e->k->turns - 1;
	LLVMValueRef odd, last;
	enum ht_dtype type;

	if (by < 0)
		return t;
	type = e->k->buffer[by].dtype;
	odd = ht_e_load_at(
		e, ht_e_mem_type(e, type), e->buffer[by], (unsigned)ht_dtype_info(type)->bytes);
	odd = LLVMBuildTrunc(e->b, odd, e->i1, "");
	last = LLVMBuildNSWSub(e->b, LLVMGetParam(e->fn, 3), ht_e_i64(e, 1), "");
	last = LLVMBuildNSWSub(
		e->b, last, LLVMBuildNSWSub(e->b, t, LLVMGetParam(e->fn, 2), ""), "");
	return ht_e_select(e, odd, last, t);
}

static void tiles(struct ht_e *e)
{
	struct ht_e_loop loop;
	LLVMBasicBlockRef failed = ht_e_block(e, "failed"), next = ht_e_block(e, "next");
	LLVMValueRef fault;

	ht_e_loop_begin(e, &loop, LLVMGetParam(e->fn, 2), LLVMGetParam(e->fn, 3), 1, "tile");
	coordinates(e, turned(e, loop.index));
	if (e->k->grid_dims > 0)
		e->starts = LLVMBuildOr(e->b,
			LLVMBuildICmp(e->b, LLVMIntEQ, loop.index, LLVMGetParam(e->fn, 2), ""),
			LLVMBuildICmp(
				e->b, LLVMIntEQ, e->grid[e->k->grid_dims - 1], ht_e_i64(e, 0), ""),
			"");
	for (e->stage = 0; e->stage < e->k->stages; e->stage++)
		ht_e_stage(e, &e->k->stage[e->stage]);
	ht_e_line(e, 1);
	fault = LLVMBuildLoad2(e->b, e->i32, e->fault, "");
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, fault, LLVMConstNull(e->i32), ""),
		next, failed);
	LLVMPositionBuilderAtEnd(e->b, failed);
	end(e, fault);
	LLVMPositionBuilderAtEnd(e->b, next);
	ht_e_loop_end(e, &loop);
	end(e, LLVMConstNull(e->i32));
}

/* Whether all streamed results begin at a cache line; NULL: there are none. */
static LLVMValueRef on_lines(struct ht_e *e)
{
	LLVMValueRef bits = NULL, p;

	for (int32_t i = 0; i < e->k->args; i++) {
		if (!ht_e_streams(e, i))
			continue;
		p = LLVMBuildPtrToInt(e->b, e->buffer[i], e->i64, "");
		bits = bits ? LLVMBuildOr(e->b, bits, p, "") : p;
	}
	if (!bits)
		return NULL;
	bits = LLVMBuildAnd(e->b, bits, ht_e_i64(e, HT_E_LINE - 1), "");
	return LLVMBuildICmp(e->b, LLVMIntEQ, bits, ht_e_i64(e, 0), "");
}

/* Emits the tiles' code; a second version with streaming stores is used if results are aligned. */
static void body(struct ht_e *e)
{
	LLVMValueRef aligned = on_lines(e);
	LLVMBasicBlockRef yes, no;

	if (aligned) {
		yes = ht_e_block(e, "streaming");
		no = ht_e_block(e, "plain");
		LLVMBuildCondBr(e->b, aligned, yes, no);
		LLVMPositionBuilderAtEnd(e->b, yes);
		e->streaming = true;
		tiles(e);
		e->streaming = false;
		LLVMPositionBuilderAtEnd(e->b, no);
	}
	tiles(e);
}

void ht_e_kernel(const struct ht_kernel *k, const struct ht_target *t, struct ht_arena *a,
	LLVMModuleRef mod, const char *name, const char *source)
{
	LLVMContextRef c = LLVMGetModuleContext(mod);
	struct ht_e *e = HT_NEW(a, struct ht_e);
	LLVMBasicBlockRef start;

	e->c = c;
	e->mod = mod;
	e->k = k;
	e->t = t;
	e->arena = a;
	e->i1 = LLVMInt1TypeInContext(c);
	e->i8 = LLVMInt8TypeInContext(c);
	e->i16 = LLVMInt16TypeInContext(c);
	e->i32 = LLVMInt32TypeInContext(c);
	e->i64 = LLVMInt64TypeInContext(c);
	e->f32 = LLVMFloatTypeInContext(c);
	e->f64 = LLVMDoubleTypeInContext(c);
	e->ptr = LLVMPointerTypeInContext(c, 0);
	make_function(e, name);
	make_zeros(e);
	e->b = LLVMCreateBuilderInContext(c);
	if (source)
		ht_e_lines_begin(e, source);
	e->entry = ht_e_block(e, "entry");
	start = ht_e_block(e, "start");
	LLVMPositionBuilderAtEnd(e->b, e->entry);
	e->dump = ht_e_alloca(
		e, LLVMArrayType2(e->i64, (unsigned)e->t->vector_bytes / 4), 64, "dump");
	e->fault = LLVMBuildAlloca(e->b, e->i32, "fault");
	LLVMBuildStore(e->b, LLVMConstNull(e->i32), e->fault);
	load_arguments(e);
	LLVMBuildBr(e->b, start);
	LLVMPositionBuilderAtEnd(e->b, start);
	body(e);
	LLVMDisposeBuilder(e->b);
}
