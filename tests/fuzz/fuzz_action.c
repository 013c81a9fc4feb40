/* Answers of a remote cache's server: an ActionResult is refused with a reason, or has the same
 * content when it is written again; and the URL in the configuration. */
#include "remote/remote.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void action(struct ht_str bytes)
{
	char written[HT_ACTION_BYTES];
	struct ht_action once, again;

	if (ht_action_read(bytes, &once))
		return;
	HT_CHECK(!ht_action_read(ht_action_write(&once, written), &again));
	HT_CHECK(once.bytes == again.bytes && !memcmp(once.sha256, again.sha256, 32));
}

static void url(struct ht_str text)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_remote_url u;

	ht_arena_init(&arena, &unwind);
	if (!setjmp(unwind.env)) {
		const char *s = ht_str_copy(&arena, text).p;

		if (ht_remote_url_read(s, &arena, NULL, &u) == HT_OK && u.user) {
			const char *host = strstr(u.base, "://") + 3;

			HT_CHECK(strstr(u.shown, "://***@"));
			HT_CHECK(!memchr(host, '@', strcspn(host, "/")));
		}
	}
	ht_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_str bytes = { (const char *)data, size };

	action(bytes);
	url(bytes);
	return 0;
}
