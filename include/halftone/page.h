/* Results as one HTML page (docs/report.md).  Errors and threads: as in halftone.h. */
#ifndef HALFTONE_PAGE_H
#define HALFTONE_PAGE_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* JSON of the schema halftone.compare/1 (ht_comparison_print), halftone.decisions/1 (ht_report_print) or halftone.train/1
 * (halftone train --format json), or the lines of halftone train --log. */
struct ht_page_source {
	const char *path; /* of the file; also what messages call it */
	const char *text; /* what it holds, `bytes` long; NULL: the file is read */
	size_t bytes;
};

/* Writes a page with a section for each model that was compared, each policy that was explained and each training, in the
 * order of the sources.  The page is one file that loads nothing and runs no script; equal sources give equal
 * bytes.  HT_E_INPUT: a source is no JSON, of another schema, or of a newer version of one. */
HT_API enum ht_status ht_page_print(
	const struct ht_page_source *source, size_t n, struct ht_diags *d, struct ht_bytes *out);

#ifdef __cplusplus
}
#endif
#endif
