/*
 * Sizes as users write and read them. Units are powers of 1024: "8G", "8g", "8GB", "8GiB" and "8 GiB" are the
 * same.
 */
#ifndef GP_BASE_SIZE_H
#define GP_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_KIB (UINT64_C(1) << 10)
#define GP_MIB (UINT64_C(1) << 20)
#define GP_GIB (UINT64_C(1) << 30)

/*
 * Parses the size in text[0..length). Accepts a decimal number, with a fraction if a unit follows ("1.5GiB"),
 * and an optional unit B, K, M, G or T with an optional "B" or "iB", in any case, with blanks around each
 * part. For anything else, for a negative number and on overflow of 64 bits, returns false and does not touch
 * *ret_bytes.
 */
bool gp_size_parse(const char *text, size_t length, uint64_t *ret_bytes);

#define GP_SIZE_TEXT_BYTES 24

/*
 * Writes bytes for a human reader: exact below 1 KiB and for whole units ("2 MiB"), otherwise with one
 * decimal ("22.5 GiB"). Returns buffer, which has at least GP_SIZE_TEXT_BYTES.
 */
char *gp_size_format(uint64_t bytes, char *buffer);

#endif
