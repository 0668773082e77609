/*
 * The data of a page (doc/html.md): a header in JSON, and columns of numbers. The data is compressed and
 * encoded as text that needs no escapes in HTML.
 */
#ifndef GP_TOOLS_HTML_PAYLOAD_H
#define GP_TOOLS_HTML_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

/* The encoding of a column's numbers. */
typedef enum gp_payload_encoding {
  GP_PAYLOAD_BYTE,   /* from 0 to 255, one byte each */
  GP_PAYLOAD_VARINT, /* LEB128; numbers must not be negative */
  GP_PAYLOAD_DELTA,  /* LEB128 of the zigzag difference from the previous number, or from 0 for the first
                        number */
} gp_payload_encoding_t;

/* The type of the array that the page makes from a column. F64 is for numbers below 2^53, U32 for numbers
 * below 2^32, I32 for numbers from -2^31 to 2^31 - 1, and U8 for bytes. */
typedef enum gp_payload_array {
  GP_PAYLOAD_F64,
  GP_PAYLOAD_U32,
  GP_PAYLOAD_I32,
  GP_PAYLOAD_U8,
} gp_payload_array_t;

/* A column. All members are private. The payload frees the bytes. */
typedef struct gp_payload_column {
  const char *name; /* static */
  cJSON *item;      /* the column's entry in the header; borrowed */
  unsigned char *bytes;
  size_t length;
  uint64_t count;
  uint64_t last; /* the previous number, for GP_PAYLOAD_DELTA */
  gp_payload_encoding_t encoding;
  bool failed; /* memory ran out */
} gp_payload_column_t;

typedef struct gp_payload {
  cJSON *header; /* the header; the caller adds members, and the payload frees it */
  gp_payload_column_t **columns;
  size_t count;
  bool failed; /* memory ran out, so gp_payload_write will fail */
} gp_payload_t;

/* Initializes a payload. Call gp_payload_fini in any case. */
void gp_payload_init(gp_payload_t *payload);
void gp_payload_fini(gp_payload_t *payload);

/* Adds a column, and an entry for it to `list`, which is an array in the header. `name` is a static string.
 * Never returns NULL. If memory runs out, the column drops its numbers, and gp_payload_write fails. */
gp_payload_column_t *gp_payload_column(gp_payload_t *payload, cJSON *list, const char *name,
    gp_payload_array_t array, gp_payload_encoding_t encoding);

/* Adds a number to a column. Only GP_PAYLOAD_DELTA can encode negative numbers. */
void gp_payload_add(gp_payload_column_t *column, int64_t number);

/* Writes the header and all columns to `stream` as base64. Call it once, after the last column is complete.
 * *ret_bytes is the number of characters. Returns 0, ENOMEM, EINVAL if the header cannot be printed, or the
 * errno of a failed write. */
int gp_payload_write(gp_payload_t *payload, FILE *stream, uint64_t *ret_bytes);

#endif
