/* The code of library kernels that nets can have. */
#include "kernel/library_net.h"

#include <string.h>

/* The linker makes the names of a section's ends. */
#define DECLARE(of, name)                                                                          \
	extern const char name##_begin[] __asm__("__start_ht_net_" #of)                            \
		__attribute__((visibility("hidden")));                                             \
	extern const char name##_end[] __asm__("__stop_ht_net_" #of)                               \
		__attribute__((visibility("hidden")));                                             \
	ht_kernel_fn name##_of_net __asm__("ht_net_kernel_" #name);
HT_NET_KERNELS(DECLARE)

struct ht_str ht_library_net_code(const char *name, uint64_t *entry)
{
#define CODE(of, known)                                                                            \
	if (strcmp(name, #known) == 0) {                                                           \
		*entry = (uint64_t)((uintptr_t)known##_of_net - (uintptr_t)known##_begin);         \
		return (struct ht_str){ known##_begin, (size_t)(known##_end - known##_begin) };    \
	}
	HT_NET_KERNELS(CODE)
#undef CODE
	*entry = 0;
	return HT_STR("");
}
