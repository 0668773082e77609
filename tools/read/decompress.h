/*
 * Compressed inputs, as far as this build has the libraries: gzip (with several members, as gzip allows)
 * and zstd.
 */
#ifndef GP_TOOLS_READ_DECOMPRESS_H
#define GP_TOOLS_READ_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_DECOMPRESS_MAGIC 4 /* bytes at the beginning that identify the format */

typedef struct gp_decompressor gp_decompressor_t;

/*
 * first[0..length): the first GP_DECOMPRESS_MAGIC bytes of the input, or all of it if shorter. total: bytes
 * of the input, 0 if unknown. *ret_decompressor is NULL if the input is not compressed, or in a way that
 * this build cannot read. Returns NULL, or what is wrong: a static clause.
 */
const char *gp_decompressor_create(
    const char *first, size_t length, uint64_t total, gp_decompressor_t **ret_decompressor);
void gp_decompressor_destroy(gp_decompressor_t *decompressor); /* NULL is legal */

/*
 * Decompresses (*in)[0..*in_length) into out, at most room bytes; *ret_got is their number. Advances *in
 * and *in_length past the bytes used. *ret_got 0: it needs more input or, with is_last (no input follows),
 * all is done. Returns NULL, or what is wrong: a static clause.
 */
const char *gp_decompressor_run(gp_decompressor_t *decompressor, const char **in, size_t *in_length,
    bool is_last, char *out, size_t room, size_t *ret_got);

#endif
