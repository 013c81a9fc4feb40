/* arc4random(), which LLVM's static libraries call to name temporary files. glibc has it only
 * since 2.36; this one lets the code generator load with older versions. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void)
{
	uint32_t x;
	ssize_t got;

	do
		got = getrandom(&x, sizeof x, 0);
	while (got < 0 && errno == EINTR);
	if (got != sizeof x)
		abort();
	return x;
}
