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
 * Parses the size in text[0..length). Accepts a decimal number, followed by an optional unit: B, or K, M, G
 * or T with an optional "B" or "iB", in any case. A number with a unit may have a fraction ("1.5GiB"). Blanks
 * are allowed around each part. For anything else, including negative numbers and sizes of more than 64 bits,
 * returns false and does not change *ret_bytes.
 */
bool gp_size_parse(const char *text, size_t length, uint64_t *ret_bytes);

#define GP_SIZE_TEXT_BYTES 24

/*
 * Writes `bytes` for a human reader to `buffer`, which has at least GP_SIZE_TEXT_BYTES, and returns `buffer`.
 * The text is exact below 1 KiB and for whole units ("2 MiB"), and has one decimal otherwise ("22.5 GiB").
 */
char *gp_size_format(uint64_t bytes, char *buffer);

#endif
