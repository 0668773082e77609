/* Writes JSON to a file descriptor through a fixed buffer, without allocating memory. Inserts commas
 * automatically. After a failed write, all further calls do nothing, so callers need to check for errors only
 * at the end. */
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
  uint64_t left; /* bytes that may still be written; exceeding the limit sets `error` to EOVERFLOW */
} gp_json_t;

/* Initializes *json for output to fd. The buffer is borrowed; its capacity is at least 64 bytes. */
void gp_json_init(gp_json_t *json, int fd, char *buffer, size_t capacity);

/* Limits the whole output to `most` bytes. Must be called before any output. */
void gp_json_bound(gp_json_t *json, uint64_t most);

/* Writes out the buffered text. Returns 0 or the errno of the first error. */
int gp_json_finish(gp_json_t *json);

void gp_json_begin(gp_json_t *json, char bracket); /* bracket is '{' or '[' */
void gp_json_end(gp_json_t *json, char bracket);
void gp_json_newline(gp_json_t *json);               /* starts a new line before the next value or key */
void gp_json_key(gp_json_t *json, const char *name); /* `name` must not need escapes */

void gp_json_uint(gp_json_t *json, uint64_t number);
void gp_json_int(gp_json_t *json, int64_t number);
void gp_json_bool(gp_json_t *json, bool value);
void gp_json_null(gp_json_t *json);
void gp_json_ratio(gp_json_t *json, uint64_t part, uint64_t whole); /* six decimals; 0 if whole is 0 */
void gp_json_microseconds(gp_json_t *json, uint64_t time_ns);       /* without trailing zeros */
void gp_json_hex(gp_json_t *json, uint64_t number);                 /* written as a string, "0x7f00" */

/* Writes a string from any bytes. Each byte that is not valid UTF-8 becomes U+FFFD. Characters that could
 * control a terminal (base/printable.h) are escaped. */
void gp_json_bytes(gp_json_t *json, const char *bytes, size_t length);
void gp_json_string(gp_json_t *json, const char *text); /* writes null for NULL */

/* Each of these functions writes a key and its value. */
void gp_json_key_uint(gp_json_t *json, const char *name, uint64_t number);
void gp_json_key_int(gp_json_t *json, const char *name, int64_t number);
void gp_json_key_string(gp_json_t *json, const char *name, const char *text);

#endif
