/* Writes JSON to a file descriptor through a fixed buffer, allocating nothing. Inserts commas
 * automatically. After an error (errno of write) it ignores all calls, so callers need to check only at
 * the end. */
#ifndef GP_TRACE_JSON_H
#define GP_TRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest integer that every JSON reader represents exactly. Larger integers are written as this
 * value. */
#define GP_JSON_INTEGER_MAX ((UINT64_C(1) << 53) - 1)

typedef struct gp_json {
  int fd;
  int error; /* errno of the first write that failed; 0: none */
  bool needs_comma;
  char *buffer;
  size_t capacity;
  size_t used;
  uint64_t left; /* bytes that may still be written; exceeding it is an error, EOVERFLOW */
} gp_json_t;

/* buffer is borrowed; capacity is at least 64. */
void gp_json_init(gp_json_t *json, int fd, char *buffer, size_t capacity);

/* Limits the output to `most` bytes in all. Must be called before any output. */
void gp_json_bound(gp_json_t *json, uint64_t most);

/* Writes out the buffered text. Returns 0 or the errno of the first error. */
int gp_json_finish(gp_json_t *json);

void gp_json_begin(gp_json_t *json, char bracket); /* '{' or '[' */
void gp_json_end(gp_json_t *json, char bracket);
void gp_json_newline(gp_json_t *json);               /* before the next value or key */
void gp_json_key(gp_json_t *json, const char *name); /* must need no escapes */

void gp_json_uint(gp_json_t *json, uint64_t number);
void gp_json_int(gp_json_t *json, int64_t number);
void gp_json_bool(gp_json_t *json, bool value);
void gp_json_null(gp_json_t *json);
void gp_json_ratio(gp_json_t *json, uint64_t part, uint64_t whole); /* six decimals; 0 if whole is 0 */
void gp_json_microseconds(gp_json_t *json, uint64_t time_ns);       /* only the necessary decimals */
void gp_json_hex(gp_json_t *json, uint64_t number);                 /* a string "0x7f00" */

/* Writes a string from any bytes: each byte that is not UTF-8 becomes U+FFFD; characters that could
 * control a terminal (base/printable.h) are escaped. */
void gp_json_bytes(gp_json_t *json, const char *bytes, size_t length);
void gp_json_string(gp_json_t *json, const char *text); /* NULL: null */

/* These write a key and its value. */
void gp_json_key_uint(gp_json_t *json, const char *name, uint64_t number);
void gp_json_key_int(gp_json_t *json, const char *name, int64_t number);
void gp_json_key_string(gp_json_t *json, const char *name, const char *text);

#endif
