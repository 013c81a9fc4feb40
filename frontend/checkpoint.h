/* An open checkpoint, as the files that read it see it: bundle_index.c, bundle_names.c, bundle_slices.c and bundle.c. */
#ifndef HT_FRONTEND_CHECKPOINT_H
#define HT_FRONTEND_CHECKPOINT_H

#include "frontend/bundle.h"
#include "frontend/graphdef.h"
#include "frontend/slices.h"

/* The record of a tensor. */
struct ht_bundle_entry {
	struct ht_str key;
	enum ht_dtype dtype;
	struct ht_shape shape;
	int64_t shard, offset, size;
	int64_t at; /* of the record, in the index */
	uint32_t crc;
	bool sliced; /* a whole tensor without bytes: the slices have them */
};

struct ht_checkpoint {
	struct ht_arena *a;
	struct ht_importer im;
	const char *prefix;
	const struct ht_input_file *files; /* NULL: files are opened by name */
	struct ht_file *index;
	struct ht_crc32c *crc;
	/* key → struct ht_bundle_entry; slices have the type of their whole tensor, and the shape that their key says */
	struct ht_map entries;
	/* name → struct ht_bundle_entry, of tensors that are stored in slices */
	struct ht_map wholes;
	/* while opening: the entries of slices, with TensorFlow's keys */
	struct ht_bundle_entry **slice;
	size_t slices, slices_cap;
	int64_t shards;
	struct ht_file **shard; /* opened when first asked for */
	struct ht_map restored; /* variable → struct ht_restored, from the model's saver */
	const char *model;      /* the path of the graph whose variables these are; NULL: none */
	struct ht_map objects;  /* variable → uint64_t, the number of its object */
	bool have_names;
	struct ht_map names;    /* variable → key (struct ht_str), or `ambiguous` */
	struct ht_str **key_of; /* by number of the object; NULL: it has no tensor */
	size_t keys, keys_cap;
	struct ht_diags *diags; /* while opening */
	bool unchecked;         /* checksums are not verified */
};

/* ---- bundle_index.c ---- */

/* A place in the index; offset -1: the index as a whole. */
struct ht_where ht_bundle_place(const struct ht_checkpoint *c, int64_t offset);

/* ---- bundle_names.c ---- */

/* A variable in a checkpoint. */
struct ht_bundle_found {
	const struct ht_bundle_entry *entry; /* NULL: there is none of its own */
	struct ht_str key;                   /* what the model restores it from, or its name */
	bool several; /* there is no entry because more than one variable has the name */
};
/* HT_E_INPUT if the model restores the variable with a malformed shape_and_slice. */
enum ht_status ht_bundle_find(struct ht_checkpoint *c, struct ht_str name, struct ht_diags *d,
	struct ht_bundle_found *out);

/* ---- bundle_slices.c ---- */

/* The whole tensor that a key is a slice of, or that it names: as one entry, or in slices; its box is *s.  NULL: there is none of these extents. */
const struct ht_bundle_entry *ht_bundle_whole(
	const struct ht_checkpoint *c, struct ht_str key, struct ht_slice *s);
/* Reads the box `want` of the tensor `whole` from the slices that have its elements.  HT_E_INPUT if they lack some, or have some twice. */
enum ht_status ht_bundle_pieces(struct ht_checkpoint *c, const struct ht_bundle_entry *whole,
	const struct ht_slice *want, struct ht_arena *a, struct ht_diags *d,
	struct ht_tensor **out);

/* ---- bundle.c ---- */

/* The shard that an entry lies in, which is opened if it is not yet. */
enum ht_status ht_bundle_shard(struct ht_checkpoint *c, const struct ht_bundle_entry *e,
	struct ht_diags *d, struct ht_file **out);
/* Reads the tensor of an entry, and verifies its checksum. */
enum ht_status ht_bundle_tensor(struct ht_checkpoint *c, const struct ht_bundle_entry *e,
	struct ht_arena *a, struct ht_diags *d, struct ht_tensor **out);

#endif
