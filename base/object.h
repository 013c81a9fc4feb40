/* object: the functions that make and release the objects of images.  A library has a table of kinds by name; the host of
 * a run calls them (runtime/objects.c). */
#ifndef HT_OBJECT_H
#define HT_OBJECT_H

#include <stdint.h>

enum { HT_OBJECT_PARTS = 4 /* the most constants of one object */ };

/* The kind of an object that has the strings of a context. */
#define HT_STRINGS_KIND "strings"

/* What an object is made of: the parameters and constants that the image states (struct ht_image_object). */
struct ht_object_parts {
	const int64_t *param;
	uint32_t params;
	struct ht_object_constant {
		const void *p;
		uint64_t bytes;
	} constant[HT_OBJECT_PARTS];
	uint32_t constants;
	uint64_t most_bytes; /* that an object may take if runs make it grow */
};

struct ht_object_kind {
	const char *name;
	/* Makes an object.  0: the caller owns *out and releases it.  Otherwise: a kernel's fault,
	 * and nothing is allocated.  The object keeps no pointer into `from`. */
	int32_t (*make)(const struct ht_object_parts *from, void **out);
	void (*release)(void *object);
	/* Gives an object that was made of `from` what it began with; NULL: runs do not change objects of this kind. */
	void (*reset)(void *object, const struct ht_object_parts *from);
};

#endif
