/* dump: tensors of runs as files. */
#ifndef HT_DUMP_H
#define HT_DUMP_H

#include "cli/cli.h"

struct dump_wish {
	bool tensors;         /* dump tensors of chosen runs, */
	bool inputs, outputs; /* namely these of each node */
	bool statistics;      /* instead of elements */
	bool messages;        /* the vendor's files, one for each op, instead of .npy */
	bool overflows;       /* dump operands of nodes that overflow */
	bool faults;          /* dump operands of nodes that fail */
	bool keeps;           /* for the last two: tensors are kept until all their readers have
			       * run */
};

struct kept {
	struct ht_seen seen; /* array.data is a copy, or NULL */
	size_t left;         /* readers that have not run yet */
	bool finite;
};

struct moments {
	size_t count, nan, below, above; /* below, above: infinities */
	double min, max, sum, squares;   /* of the finite elements */
};

/* A program whose runs are dumped. */
struct dumped {
	size_t tensors;
	struct ht_tensor_info *info; /* by tensor */
	struct kept *kept;           /* likewise */
	struct moments *moments;     /* by tensor, for the parts of a batch so far */
};

enum { MOST_DUMPED = 4 };

struct dump {
	struct cli *cli;
	struct dump_wish wish;
	const char *path, *layers;
	char *folder;      /* of all programs; NULL: a folder is made only if something fails */
	char *step_folder; /* of this run */
	struct dumped program[MOST_DUMPED];
	size_t programs;
	struct dumped *at;            /* the program of this run */
	unsigned long long runs, all; /* runs: number of dumped runs */
	bool chosen;                  /* this run is dumped */
	int64_t stamp;                /* begin of the run, in microseconds */
	size_t overflowed;
	enum ht_status status; /* not HT_OK: writing failed */
};

/* Writes a name for file names: characters other than letters, digits and - become _. */
void dump_plain(struct text *t, const char *name);
/* dump.c: reports once what could not be written, and why (errno); nothing more is written. */
void dump_failed(struct dump *d, const char *path);
/* Makes a folder and those that it is in, where they are missing. */
enum ht_status dump_folders(const char *path);
/* Writes the kept operands of the node whose first result is `by`. */
void dump_operands(struct dump *d, const char *folder, size_t by);
/* Likewise, and the node's result, which has infinities or NaN. */
void dump_overflow(struct dump *d, const struct ht_seen *s);

/* dump_keep.c */
void dump_keep(struct dump *d, const struct ht_seen *s);
void dump_forget(struct dumped *p); /* at the end of a run */

/* dump_statistics.c: adds a tensor to d->moments; appends its line to the vendor's table. */
void dump_count(struct dump *d, const struct ht_seen *s);
void dump_statistics(
	struct dump *d, const char *path, const char *what, size_t index, const struct ht_seen *s);

/* ---- dump_message.c: the vendor's files with all tensors of an op ---- */

enum { DUMP_INPUT, DUMP_OUTPUT };
enum { DUMP_AXES = 32 };

struct dump_tensor {
	enum ht_dtype dtype; /* HT_INVALID: it was not dumped */
	int32_t rank;
	int64_t dim[DUMP_AXES];
	char *data; /* owned by this structure */
	size_t bytes;
};

struct dump_file {
	const char *node; /* owned by the caller; "" after reading */
	uint64_t time;    /* microseconds */
	struct dump_tensors {
		struct dump_tensor *tensor;
		size_t n;
	} of[2]; /* DUMP_INPUT, DUMP_OUTPUT */
};
/* Reads a file; HT_E_INPUT, with the offset: it is malformed. */
enum ht_status dump_file_read(const char *path, struct dump_file *f);
/* False: it cannot be written; errno says why. */
bool dump_file_write(const struct dump_file *f, const char *path);
/* Tensor i of a side; adds missing ones. */
struct dump_tensor *dump_file_tensor(struct dump_file *f, int side, size_t i);
void dump_file_free(struct dump_file *f);
/* Adds a tensor to the file of its op, which is made if it does not exist. */
bool dump_file_put(const char *path, const char *node, uint64_t time, int side, size_t index,
	const struct ht_tensor_info *i, const struct ht_seen *s);

#endif
