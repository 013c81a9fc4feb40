/* Run configurations: settings of known options, or an error with a place in the file. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rules.h"

#include "api/api.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(const struct ht_config *c, struct ht_str text, struct ht_diags *d)
{
	struct ht_setting s;

	for (size_t i = 0; ht_config_get(c, i, &s); i++) {
		HT_CHECK(ht_option_check(s.name, s.value, d) == HT_OK);
		HT_CHECK(s.line >= 0 && s.line <= fuzz_lines(text));
	}
}

/* Configurations can only be read from files. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_str text = { (const char *)data, size };
	int fd = memfd_create("config", MFD_CLOEXEC);
	char path[32];

	HT_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (int lenient = 0; lenient < 2; lenient++) {
		struct ht_config *c;
		struct ht_diags d;

		ht_diags_init(&d);
		if (ht_config_read(path, lenient, &d, &c) == HT_OK) {
			HT_CHECK(!d.errors);
			check(c, text, &d);
		} else {
			HT_CHECK(!c && d.errors && d.first->where.path);
			HT_CHECK(d.first->where.line <= fuzz_lines(text));
		}
		ht_config_free(c);
		ht_diags_release(&d);
	}
	close(fd);
	return 0;
}
