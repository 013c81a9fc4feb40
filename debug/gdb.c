/* gdb's JIT compilation interface: gdb stops at __jit_debug_register_code() and reads the
 * descriptor. gdb defines the names and the layout (its manual, "JIT Compilation Interface").
 * Both symbols are exported but bound within this library, so that several libraries in a
 * process that define them do not share a list. */
#include "debug/debug.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NO_ACTION, REGISTER, UNREGISTER };

struct jit_code_entry {
	struct jit_code_entry *next_entry, *prev_entry;
	const char *symfile_addr;
	uint64_t symfile_size;
	const void *owner; /* our own member, behind gdb's */
};

struct jit_descriptor {
	uint32_t version, action_flag;
	struct jit_code_entry *relevant_entry, *first_entry;
};

#define SEEN_BY_GDB __attribute__((visibility("protected")))

extern struct jit_descriptor __jit_debug_descriptor SEEN_BY_GDB;
struct jit_descriptor __jit_debug_descriptor = { 1, NO_ACTION, NULL, NULL };

void __jit_debug_register_code(void) SEEN_BY_GDB __attribute__((noinline));
void __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void tell(uint32_t action, struct jit_code_entry *e)
{
	__jit_debug_descriptor.action_flag = action;
	__jit_debug_descriptor.relevant_entry = e;
	__jit_debug_register_code();
	__jit_debug_descriptor.action_flag = NO_ACTION;
	__jit_debug_descriptor.relevant_entry = NULL;
}

/* The entry with the file behind it, in one block of memory; NULL: out of memory. */
static struct jit_code_entry *entry_of(const struct ht_debug_code *c, const void *owner)
{
	struct jit_code_entry *e;
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_str file;

	ht_arena_init(&a, &unwind);
	if (setjmp(unwind.env)) {
		ht_arena_release(&a);
		return NULL;
	}
	file = ht_debug_elf(c, &a);
	e = ht_sys_alloc(sizeof *e + file.n);
	if (e) {
		e->owner = owner;
		e->symfile_addr = memcpy(e + 1, file.p, file.n);
		e->symfile_size = file.n;
	}
	ht_arena_release(&a);
	return e;
}

enum ht_status ht_gdb_add(const struct ht_debug_code *c, const void *owner, struct ht_diags *d)
{
	struct jit_code_entry *e = entry_of(c, owner);

	if (!e)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	pthread_mutex_lock(&lock);
	e->next_entry = __jit_debug_descriptor.first_entry;
	if (e->next_entry)
		e->next_entry->prev_entry = e;
	__jit_debug_descriptor.first_entry = e;
	tell(REGISTER, e);
	pthread_mutex_unlock(&lock);
	return HT_OK;
}

static void take_out(struct jit_code_entry *e)
{
	if (e->prev_entry)
		e->prev_entry->next_entry = e->next_entry;
	else
		__jit_debug_descriptor.first_entry = e->next_entry;
	if (e->next_entry)
		e->next_entry->prev_entry = e->prev_entry;
	tell(UNREGISTER, e);
	free(e);
}

void ht_gdb_remove(const void *owner)
{
	struct jit_code_entry *next;

	pthread_mutex_lock(&lock);
	for (struct jit_code_entry *e = __jit_debug_descriptor.first_entry; e; e = next) {
		next = e->next_entry;
		if (e->owner == owner)
			take_out(e);
	}
	pthread_mutex_unlock(&lock);
}
