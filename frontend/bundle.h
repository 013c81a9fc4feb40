/* Parts of the checkpoint reader. */
#ifndef HT_FRONTEND_BUNDLE_H
#define HT_FRONTEND_BUNDLE_H

#include "base/base.h"
#include "ir/ir.h"

/* ---- crc32c.c ---- */

struct ht_crc32c {
	uint32_t table[8][256];
};

void ht_crc32c_init(struct ht_crc32c *t);
/* Continues from `crc` (0 at the start). */
uint32_t ht_crc32c(const struct ht_crc32c *t, uint32_t crc, const void *bytes, size_t n);
/* The masked form, which LevelDB and TensorFlow store. */
uint32_t ht_crc32c_mask(uint32_t crc);

/* ---- sstable.c: LevelDB's table file, read as a whole ---- */

/* Called for each entry in order; key and value are valid during the call.  A status other than
 * HT_OK ends the walk. */
typedef enum ht_status ht_sstable_visit(
	void *self, struct ht_str key, struct ht_str value, int64_t offset);
/* Damage is HT_E_INPUT, with the offset where it was found.  `crc` NULL: checksums are not
 * verified. */
enum ht_status ht_sstable_walk(struct ht_arena *a, const struct ht_file *f,
	const struct ht_crc32c *crc, struct ht_diags *d, ht_sstable_visit *visit, void *self);

/* ---- restore.c ---- */

/* What a variable is restored from. */
struct ht_restored {
	struct ht_str key; /* of the checkpoint */
	/* Empty, or the shape_and_slice that is malformed, so that the key is not known, and the RestoreV2 that has it. */
	struct ht_str malformed, node;
};

/* Fills `keys` (variable → struct ht_restored *) from the op that restores the graph's variables;
 * false if the model names no such op. */
bool ht_restore_keys(struct ht_graph *g, struct ht_arena *a, struct ht_map *keys);

/* ---- captures.c ---- */

/* Fills `objects` (variable → uint64_t *, the index of a node of the object graph) for the variables that functions of a SavedModel capture. */
void ht_captured_objects(struct ht_graph *g, struct ht_arena *a, struct ht_map *objects);

/* ---- bundle_files.c ---- */

/* A file of a checkpoint: one of `files`, or if they are NULL, the file that has that name now. */
enum ht_status ht_bundle_file(const struct ht_input_file *files, const char *path, size_t limit,
	struct ht_diags *d, struct ht_file **out);
/* Takes a tensor that lies in a checkpoint's file out of memory; who reads it again reads the file again. */
void ht_bundle_forget(const struct ht_tensor *t);
#define HT_BUNDLE_INDEX_LIMIT ((size_t)256 << 20)
#define HT_BUNDLE_SHARD_LIMIT ((size_t)1 << 40)

/* ---- bundle_index.c ---- */

struct ht_checkpoint;

/* For fuzzing: checksums are not verified, so that mutated data are read too. */
enum ht_status ht_checkpoint_open_unchecked(
	struct ht_arena *a, const char *prefix, struct ht_diags *d, struct ht_checkpoint **out);

#endif
