/*
 * Writes a tree as JSON. JSON has no references, so a repeated value is written again. A pair is an array.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/export/export_tree.h"
#include "base/json.h"

#define BUFFER_BYTES (1 << 16)
#define LINE_DEPTH   3 /* lists up to this depth have one element on each line */

typedef struct json_tree {
  gp_tree_t tree;
  gp_json_t json;
  unsigned depth;
  char buffer[BUFFER_BYTES];
} json_tree_t;

static json_tree_t *of(gp_tree_t *tree)
{
  return (json_tree_t *)tree; /* `tree` is the first member of json_tree_t */
}

static void begin(gp_tree_t *tree, char bracket)
{
  of(tree)->depth++;
  gp_json_begin(&of(tree)->json, bracket);
}

static void end(gp_tree_t *tree, char bracket)
{
  of(tree)->depth--;
  gp_json_end(&of(tree)->json, bracket);
}

static void key(gp_tree_t *tree, const char *name)
{
  if (of(tree)->depth == 1)
    gp_json_newline(&of(tree)->json);
  gp_json_key(&of(tree)->json, name);
}

static void item(gp_tree_t *tree)
{
  if (of(tree)->depth <= LINE_DEPTH)
    gp_json_newline(&of(tree)->json);
}

static void text(gp_tree_t *tree, const char *value)
{
  gp_json_string(&of(tree)->json, value);
}

static void integer(gp_tree_t *tree, int64_t number)
{
  gp_json_int(&of(tree)->json, number);
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

static int finish(gp_tree_t *tree)
{
  of(tree)->json.needs_comma = false; /* the document ends here, so no comma is needed */
  gp_json_newline(&of(tree)->json);
  int error = gp_json_finish(&of(tree)->json);
  free(tree);
  return error;
}

static const gp_tree_ops_t ops = {
    .begin = begin,
    .end = end,
    .key = key,
    .item = item,
    .text = text,
    .text_once = text,
    .integer = integer,
    .pair = pair,
    .boolean = boolean,
    .refer = refer,
    .remember = remember,
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
