/* LLVM's side of compiling: module, verification, passes, code generation. */
#include "backend/machine.h"
#include "backend/emit.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <string.h>

#define TRIPLE "x86_64-unknown-linux-gnu"

/* Work that emission leaves to LLVM: accumulators into registers, equal addresses, folding. */
#define PASSES "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,early-cse)"

static void initialize(void)
{
	LLVMInitializeX86TargetInfo();
	LLVMInitializeX86Target();
	LLVMInitializeX86TargetMC();
	LLVMInitializeX86AsmPrinter();
}

static bool fail(struct ht_machine *m, const char *what, const char *why)
{
	snprintf(m->text, sizeof m->text, "%s: %s", what, why ? why : "?");
	m->wrong = ht_str(m->text);
	return false;
}

bool ht_machine_init(struct ht_machine *m, const struct ht_target *t, struct ht_code_how how)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	LLVMTargetRef target;
	char *why = NULL;

	memset(m, 0, sizeof *m);
	m->target = t;
	m->how = how;
	pthread_once(&once, initialize);
	if (LLVMGetTargetFromTriple(TRIPLE, &target, &why)) {
		fail(m, "LLVM has no x86-64 target", why);
		LLVMDisposeMessage(why);
		return false;
	}
	m->tm = LLVMCreateTargetMachine(target, TRIPLE, t->cpu, t->features,
		how.plain ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault, LLVMRelocPIC,
		LLVMCodeModelSmall);
	return m->tm ? true : fail(m, "LLVM does not know the CPU", t->cpu);
}

void ht_machine_release(struct ht_machine *m)
{
	if (m->tm)
		LLVMDisposeTargetMachine(m->tm);
	m->tm = NULL;
}

static bool optimise(struct ht_machine *m, LLVMModuleRef mod)
{
	LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
	LLVMErrorRef error = LLVMRunPasses(mod, PASSES, m->tm, o);
	char *text;

	LLVMDisposePassBuilderOptions(o);
	if (!error)
		return true;
	text = LLVMGetErrorMessage(error);
	fail(m, "LLVM's passes", text);
	LLVMDisposeErrorMessage(text);
	return false;
}

static bool is_half(LLVMTypeRef t)
{
	if (LLVMGetTypeKind(t) == LLVMVectorTypeKind)
		t = LLVMGetElementType(t);
	return LLVMGetTypeKind(t) == LLVMHalfTypeKind;
}

/* LLVM's passes narrow a minimum or maximum of converted halves to one of halves.  For machines without
 * arithmetic of halves, its code generator turns that into a call of fmaxf.  A frozen condition prevents
 * the narrowing. */
static void hide_half_minmax(LLVMModuleRef mod)
{
	LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(mod));

	for (LLVMValueRef f = LLVMGetFirstFunction(mod); f; f = LLVMGetNextFunction(f))
		for (LLVMBasicBlockRef bb = LLVMGetFirstBasicBlock(f); bb;
			bb = LLVMGetNextBasicBlock(bb))
			for (LLVMValueRef i = LLVMGetFirstInstruction(bb); i;
				i = LLVMGetNextInstruction(i)) {
				if (!LLVMIsASelectInst(i) || !is_half(LLVMTypeOf(i)))
					continue;
				LLVMPositionBuilderBefore(b, i);
				LLVMSetOperand(i, 0, LLVMBuildFreeze(b, LLVMGetOperand(i, 0), ""));
			}
	LLVMDisposeBuilder(b);
}

static bool generate(struct ht_machine *m, LLVMModuleRef mod, enum ht_emit form, struct ht_buf *out)
{
	LLVMMemoryBufferRef memory;
	char *text = NULL;

	if (form == HT_EMIT_LLVM) {
		text = LLVMPrintModuleToString(mod);
		ht_puts(out, text);
		LLVMDisposeMessage(text);
		return true;
	}
	if (LLVMTargetMachineEmitToMemoryBuffer(m->tm, mod,
		    form == HT_EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile, &text, &memory)) {
		fail(m, "LLVM's code generator", text);
		LLVMDisposeMessage(text);
		return false;
	}
	ht_put(out, LLVMGetBufferStart(memory), LLVMGetBufferSize(memory));
	LLVMDisposeMemoryBuffer(memory);
	return true;
}

/* LLVM's objects are not arena memory: unwinding out of emission must free them. */
static void dispose_context(void *c)
{
	LLVMContextDispose(c);
}

bool ht_machine_compile(struct ht_machine *m, const struct ht_kernel *k,
	struct ht_machine_names names, enum ht_emit form, struct ht_arena *scratch,
	struct ht_buf *out)
{
	LLVMContextRef c = LLVMContextCreate();
	LLVMTargetDataRef layout;
	LLVMModuleRef mod;
	char *why = NULL;
	bool ok;

	ht_arena_defer(scratch, dispose_context, c);
	mod = LLVMModuleCreateWithNameInContext(names.symbol, c); /* freed with its context */
	LLVMSetTarget(mod, TRIPLE);
	layout = LLVMCreateTargetDataLayout(m->tm);
	LLVMSetModuleDataLayout(mod, layout);
	LLVMDisposeTargetData(layout);
	ht_e_kernel(k, m->target, scratch, mod, names.symbol, m->how.lines ? names.source : NULL);
	ok = !LLVMVerifyModule(mod, LLVMReturnStatusAction, &why) || fail(m, "emitted code", why);
	LLVMDisposeMessage(why);
	if (!ok || (!m->how.plain && !optimise(m, mod)))
		return false;
	hide_half_minmax(mod);
	return generate(m, mod, form, out);
}
