/*
 * Inputs that are compressed, as far as this build has the libraries: gzip (one member after the other, as
 * gzip does) and zstd.
 */
#ifndef GP_TOOLS_READ_DECOMPRESS_H
#define GP_TOOLS_READ_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_DECOMPRESS_MAGIC 4 /* bytes at the beginning that tell what it is */

typedef struct gp_decompressor gp_decompressor_t;

/*
 * For an input that begins with first[0..length), GP_DECOMPRESS_MAGIC bytes or all of it. total: bytes of the
 * input, 0 if that is not known. *ret_decompressor is NULL if it is not compressed, or in a way that this
 * build cannot read. Returns NULL, or what is wrong: a static clause.
 */
const char *gp_decompressor_create(
    const char *first, size_t length, uint64_t total, gp_decompressor_t **ret_decompressor);
void gp_decompressor_destroy(gp_decompressor_t *decompressor); /* NULL is legal */

/*
 * Turns (*in)[0..*in_length) into at most room bytes in out, *ret_got; what was used of the input is taken
 * off. None means that it needs more, or, with is_last (nothing comes after this), that all is done. Returns
 * NULL, or what is wrong: a static clause.
 */
const char *gp_decompressor_run(gp_decompressor_t *decompressor, const char **in, size_t *in_length,
    bool is_last, char *out, size_t room, size_t *ret_got);

#endif
