/*
 * Inputs that are compressed, as far as this build has the libraries.
 */
#ifndef GP_TOOLS_DECOMPRESS_H
#define GP_TOOLS_DECOMPRESS_H

#include <stddef.h>

/*
 * If (*text)[0..*length) is gzip or zstd, replaces it by what it holds, with a NUL behind it; the old text is given back
 * with free(). Anything else, and what this build cannot read, stays as it is. Returns NULL, or, with *text as it was,
 * what is wrong: a static clause.
 */
const char *gp_decompress(char **text, size_t *length);

#endif
