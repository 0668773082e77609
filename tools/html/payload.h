/*
 * The data of a page (doc/html.md): a header in JSON, and columns of numbers, compressed and written as text
 * that HTML holds as it is.
 */
#ifndef GP_TOOLS_HTML_PAYLOAD_H
#define GP_TOOLS_HTML_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

/* How the numbers of a column are written. */
typedef enum gp_payload_encoding {
  GP_PAYLOAD_BYTE,   /* 0 to 255, each in a byte */
  GP_PAYLOAD_VARINT, /* LEB128, not below 0 */
  GP_PAYLOAD_DELTA,  /* LEB128 of the zigzag of the difference to the one before, to 0 at first */
} gp_payload_encoding_t;

/* What the page keeps them in: numbers below 2^53, 2^32, from -2^31 to 2^31 - 1, or bytes. */
typedef enum gp_payload_array {
  GP_PAYLOAD_F64,
  GP_PAYLOAD_U32,
  GP_PAYLOAD_I32,
  GP_PAYLOAD_U8,
} gp_payload_array_t;

/* One column. All members are private. Its bytes are payload's own. */
typedef struct gp_payload_column {
  const char *name; /* static */
  cJSON *item;      /* its entry in the header; borrowed */
  unsigned char *bytes;
  size_t length;
  size_t capacity;
  uint64_t count;
  uint64_t last; /* of GP_PAYLOAD_DELTA */
  gp_payload_encoding_t encoding;
  bool failed; /* no memory */
} gp_payload_column_t;

typedef struct gp_payload {
  cJSON *header; /* its members are the caller's to add; the payload's own */
  gp_payload_column_t **columns;
  size_t count;
  bool failed; /* no memory: nothing can be written */
} gp_payload_t;

/* Fini it in any case. */
void gp_payload_init(gp_payload_t *payload);
void gp_payload_fini(gp_payload_t *payload);

/*
 * Adds a column, whose entry goes to list, an array in the header. name is static. Never NULL: without memory
 * it is a column that takes nothing, and the write fails.
 */
gp_payload_column_t *gp_payload_column(gp_payload_t *payload, cJSON *list, const char *name,
    gp_payload_array_t array, gp_payload_encoding_t encoding);

/* Adds a number to a column. What is below 0 is for GP_PAYLOAD_DELTA alone. */
void gp_payload_add(gp_payload_column_t *column, int64_t number);

/*
 * Writes all of it as base64 to stream: once, after the last column. *ret_bytes: how many characters. Returns
 * 0, ENOMEM, EINVAL if the header cannot be printed, or the error of the stream.
 */
int gp_payload_write(gp_payload_t *payload, FILE *stream, uint64_t *ret_bytes);

#endif
