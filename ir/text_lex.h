/* Tokens of the .hir form: the part of the parser that does not depend on graphs. */
#ifndef HT_TEXT_LEX_H
#define HT_TEXT_LEX_H

#include "ir/text.h"

struct ht_lex {
	struct ht_arena *a;
	struct ht_diags *d;
	const char *path;
	const char *begin, *p, *end;
};

/* Reports an error at the line and column of `at` and returns HT_E_INPUT. */
enum ht_status ht_lex_fail(const struct ht_lex *l, const char *at, const char *fmt, ...)
	HT_PRINTF(3, 4);
enum ht_status ht_lex_limit(const struct ht_lex *l, const char *at, const char *fmt, ...)
	HT_PRINTF(3, 4);
/* Skips blanks and comments; returns the next character, or 0 at the end. */
char ht_lex_peek(struct ht_lex *l);
bool ht_lex_accept(struct ht_lex *l, char c);
enum ht_status ht_lex_expect(struct ht_lex *l, char c);
/* Skips `word` if it is the next whole word. */
bool ht_lex_word(struct ht_lex *l, const char *word);
/* Reads a name or word, in quotes or not.  It is copied if it was in quotes. */
enum ht_status ht_lex_name(struct ht_lex *l, struct ht_str *s);
enum ht_status ht_lex_string(struct ht_lex *l, struct ht_str *s);
/* The characters of a number or bare word, for the caller to parse. */
enum ht_status ht_lex_token(struct ht_lex *l, struct ht_str *s);
/* Whether `s` could be a decimal number with a fraction or exponent, or an infinity. */
bool ht_is_decimal(struct ht_str s);
enum ht_status ht_lex_int(struct ht_lex *l, int64_t *i);
enum ht_status ht_lex_count(struct ht_lex *l, size_t *n); /* an integer that is not negative */
/* { "…", "…" } */
enum ht_status ht_lex_strings(struct ht_lex *l, struct ht_str **s, size_t *n);
enum ht_status ht_lex_dtype(struct ht_lex *l, enum ht_dtype *t);
/* Reads a dimension of [1,?,d0]; `syms`: the number of symbolic dimensions. */
enum ht_status ht_lex_dim(struct ht_lex *l, size_t syms, int64_t *dim);
enum ht_status ht_lex_shape(struct ht_lex *l, size_t syms, struct ht_shape *s);

#endif
