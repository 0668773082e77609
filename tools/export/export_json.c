/*
 * A tree as JSON: what occurs again is written again, a pair is an array.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export_tree.h"
#include "trace/snapshot/json.h"

#define BUFFER_BYTES (1 << 16)
#define LINE_DEPTH   3 /* lists down to here have a line for each element */

typedef struct json_tree {
  gp_tree_t tree;
  gp_json_t json;
  unsigned depth;
  char buffer[BUFFER_BYTES];
} json_tree_t;

static json_tree_t *of(gp_tree_t *tree)
{
  return (json_tree_t *)tree; /* its first member */
}

static void dict_open(gp_tree_t *tree)
{
  of(tree)->depth++;
  gp_json_begin(&of(tree)->json, '{');
}

static void dict_close(gp_tree_t *tree)
{
  of(tree)->depth--;
  gp_json_end(&of(tree)->json, '}');
}

static void key(gp_tree_t *tree, const char *name)
{
  if (of(tree)->depth == 1)
    gp_json_newline(&of(tree)->json);
  gp_json_key(&of(tree)->json, name);
}

static void key_bytes(gp_tree_t *tree, const char *name, size_t length, uint32_t *number)
{
  (void)number;
  if (of(tree)->depth == 1)
    gp_json_newline(&of(tree)->json);
  gp_json_key_bytes(&of(tree)->json, name, length);
}

static void key_integer(gp_tree_t *tree, int64_t number)
{
  char digits[24];
  snprintf(digits, sizeof(digits), "%" PRId64, number);
  key_bytes(tree, digits, strlen(digits), NULL);
}

static void list_open(gp_tree_t *tree)
{
  of(tree)->depth++;
  gp_json_begin(&of(tree)->json, '[');
}

static void item(gp_tree_t *tree)
{
  if (of(tree)->depth <= LINE_DEPTH)
    gp_json_newline(&of(tree)->json);
}

static void list_close(gp_tree_t *tree)
{
  of(tree)->depth--;
  gp_json_end(&of(tree)->json, ']');
}

static void tuple_open(gp_tree_t *tree)
{
  gp_json_begin(&of(tree)->json, '[');
}

static void tuple_close(gp_tree_t *tree)
{
  gp_json_end(&of(tree)->json, ']');
}

static void text(gp_tree_t *tree, const char *value)
{
  gp_json_string(&of(tree)->json, value);
}

static void bytes(gp_tree_t *tree, const char *value, size_t length)
{
  gp_json_bytes(&of(tree)->json, value, length);
}

/* Exactly, as the file that it is of had it. */
static void integer(gp_tree_t *tree, int64_t number)
{
  char digits[24];
  if (number >= 0 && (uint64_t)number <= GP_JSON_INTEGER_MAX) {
    gp_json_uint(&of(tree)->json, (uint64_t)number);
    return;
  }
  snprintf(digits, sizeof(digits), "%" PRId64, number);
  gp_json_number(&of(tree)->json, digits);
}

#define LONG_BYTES  255
#define LONG_DIGITS 640 /* of so many bytes, and a sign */

static void long_integer(gp_tree_t *tree, const unsigned char *number, size_t length)
{
  unsigned char magnitude[LONG_BYTES];
  char digits[LONG_DIGITS], *at = digits + sizeof(digits);
  bool is_negative = number[length - 1] >= 0x80;
  unsigned carry = is_negative;

  for (size_t i = 0; i < length; i++, carry >>= 8) {
    carry += is_negative ? (unsigned char)~number[i] : number[i];
    magnitude[i] = (unsigned char)carry;
  }
  *--at = '\0';
  while (length) { /* divides by ten, from the highest byte down */
    unsigned rest = 0;
    for (size_t i = length; i-- > 0;) {
      rest = rest << 8 | magnitude[i];
      magnitude[i] = (unsigned char)(rest / 10);
      rest %= 10;
    }
    *--at = (char)('0' + rest);
    while (length && !magnitude[length - 1])
      length--;
  }
  if (is_negative)
    *--at = '-';
  gp_json_number(&of(tree)->json, at);
}

/* What is read again as the same number, and not as an integer. */
static void number(gp_tree_t *tree, double value)
{
  char digits[40];
  if (isnan(value)) {
    gp_json_null(&of(tree)->json);
    return;
  }
  if (isinf(value)) /* too large for any reader */
    snprintf(digits, sizeof(digits), "%s", value < 0 ? "-1e999" : "1e999");
  else
    snprintf(digits, sizeof(digits), "%.17g", value);
  if (!strpbrk(digits, ".e"))
    strcat(digits, ".0");
  gp_json_number(&of(tree)->json, digits);
}

static void null(gp_tree_t *tree)
{
  gp_json_null(&of(tree)->json);
}

static void pair(gp_tree_t *tree, int64_t first, int64_t second)
{
  gp_json_begin(&of(tree)->json, '[');
  gp_json_int(&of(tree)->json, first);
  gp_json_int(&of(tree)->json, second);
  gp_json_end(&of(tree)->json, ']');
}

static void boolean(gp_tree_t *tree, bool value)
{
  gp_json_bool(&of(tree)->json, value);
}

static bool refer(gp_tree_t *tree, const uint32_t *number)
{
  (void)tree;
  (void)number;
  return false;
}

static void remember(gp_tree_t *tree, uint32_t *number)
{
  (void)tree;
  (void)number;
}

static bool has_failed(const gp_tree_t *tree)
{
  return ((const json_tree_t *)tree)->json.error != 0;
}

static int finish(gp_tree_t *tree)
{
  of(tree)->json.needs_comma = false; /* nothing follows */
  gp_json_newline(&of(tree)->json);
  int error = gp_json_finish(&of(tree)->json);
  free(tree);
  return error;
}

static const gp_tree_ops_t ops = {
    .dict_open = dict_open,
    .dict_close = dict_close,
    .key = key,
    .key_bytes = key_bytes,
    .key_integer = key_integer,
    .list_open = list_open,
    .item = item,
    .list_close = list_close,
    .tuple_open = tuple_open,
    .tuple_close = tuple_close,
    .text = text,
    .text_once = text,
    .bytes = bytes,
    .integer = integer,
    .long_integer = long_integer,
    .number = number,
    .null = null,
    .pair = pair,
    .boolean = boolean,
    .refer = refer,
    .remember = remember,
    .has_failed = has_failed,
    .finish = finish,
};

gp_tree_t *gp_tree_json(FILE *stream, uint64_t most)
{
  json_tree_t *json = malloc(sizeof(*json));
  if (!json)
    return NULL;
  json->tree.ops = &ops;
  json->depth = 0;
  gp_json_init(&json->json, fileno(stream), json->buffer, sizeof(json->buffer));
  gp_json_bound(&json->json, most);
  return &json->tree;
}
