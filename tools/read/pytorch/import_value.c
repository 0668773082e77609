#include "tools/read/pytorch/import_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/array.h"

#define CHUNK_CONTAINERS 512

/* Limits of the memory use. A snapshot takes about ten times its size in memory. An input that takes far more
 * was made to exhaust memory. */
#define MEMORY_FIRST (UINT64_C(64) << 20)
#define MEMORY_TIMES 32

struct gp_container_chunk {
  gp_container_chunk_t *next;
  size_t count;
  gp_container_t containers[CHUNK_CONTAINERS];
};

void gp_value_tree_grow(gp_value_tree_t *tree, size_t length)
{
  tree->length = length;
  tree->most =
      length < (SIZE_MAX - MEMORY_FIRST) / MEMORY_TIMES ? MEMORY_FIRST + MEMORY_TIMES * length : SIZE_MAX;
}

void gp_value_tree_init(gp_value_tree_t *tree, const char *text, size_t length, gp_snapshot_error_t *error)
{
  *tree = (gp_value_tree_t){.text = text, .error = error};
  gp_value_tree_grow(tree, length);
}

static void free_chunk(gp_container_chunk_t *chunk)
{
  for (size_t i = 0; i < CHUNK_CONTAINERS; i++)
    free(chunk->containers[i].items);
  free(chunk);
}

static void free_copies(gp_value_tree_t *tree)
{
  for (size_t i = 0; i < tree->copy_count; i++)
    free(tree->copies[i]);
  free(tree->copies);
  tree->copies = NULL;
  tree->copy_count = 0;
}

void gp_value_tree_clear(gp_value_tree_t *tree)
{
  gp_container_chunk_t *first = tree->chunks;
  while (first && first->next) {
    gp_container_chunk_t *next = first->next->next;
    free_chunk(first->next);
    first->next = next;
  }
  if (first)
    first->count = 0;
  if (tree->copy_count)
    free_copies(tree);
  tree->used -= tree->value_bytes;
  tree->value_bytes = 0;
}

void gp_value_tree_fini(gp_value_tree_t *tree)
{
  gp_value_tree_clear(tree);
  if (tree->chunks)
    free_chunk(tree->chunks);
  tree->chunks = NULL;
}

bool gp_value_tree_fail(gp_value_tree_t *tree, size_t at, const char *format, ...)
{
  va_list arguments;
  if (!tree->failed) {
    tree->failed = true;
    tree->error->offset = at;
    va_start(arguments, format);
    vsnprintf(tree->error->text, sizeof(tree->error->text), format, arguments);
    va_end(arguments);
  }
  return false;
}

bool gp_value_tree_account(gp_value_tree_t *tree, size_t bytes)
{
  if (bytes > tree->most - tree->used)
    return gp_value_tree_fail(tree, 0, "it would take more memory than a snapshot of its size can need");
  tree->used += bytes;
  return true;
}

static bool account_tree(gp_value_tree_t *tree, size_t bytes)
{
  if (!gp_value_tree_account(tree, bytes))
    return false;
  tree->value_bytes += bytes;
  return true;
}

gp_container_t *gp_value_tree_container(gp_value_tree_t *tree, size_t at)
{
  gp_container_chunk_t *chunk = tree->chunks;
  if (!chunk || chunk->count == CHUNK_CONTAINERS) {
    if (!account_tree(tree, sizeof(*chunk)))
      return NULL;
    chunk = calloc(1, sizeof(*chunk));
    if (!chunk) {
      (void)gp_value_tree_fail(tree, at, "not enough memory to read this");
      return NULL;
    }
    chunk->next = tree->chunks;
    tree->chunks = chunk;
  }
  gp_container_t *container = &chunk->containers[chunk->count++];
  container->count = 0; /* `items` and `room` may come from a discarded value */
  container->at = at;
  container->note = GP_CONTAINER_NEW;
  return container;
}

bool gp_value_tree_reserve(
    gp_value_tree_t *tree, size_t at, void *items, size_t count, size_t *room, size_t item_size)
{
  size_t more = *room ? *room : 16;
  if (count < *room)
    return true;
  if (!gp_value_tree_account(tree, more * item_size))
    return false;
  if (!gp_array_resize(items, *room + more, item_size))
    return gp_value_tree_fail(tree, at, "not enough memory to read this");
  *room += more;
  return true;
}

bool gp_value_tree_adopt(gp_value_tree_t *tree, char *text)
{
  if (!text)
    return true;
  bool good = account_tree(tree, strlen(text) + 2 * sizeof(char *));
  char **copy = good ? GP_ARRAY_ADD(tree->copies, tree->copy_count) : NULL;
  if (copy)
    *copy = text;
  else
    free(text);
  return copy || (good && gp_value_tree_fail(tree, tree->base, "not enough memory to read this"));
}

bool gp_container_append(
    gp_value_tree_t *tree, gp_container_t *container, const gp_value_t *values, size_t count)
{
  if (count > UINT32_MAX / 2 - container->count)
    return gp_value_tree_fail(tree, container->at, "a list that is longer than there can be");
  uint32_t needed = container->count + (uint32_t)count;
  if (needed > container->room) {
    /* One call fills most containers, so the first allocation is exact. */
    uint32_t room = container->room > needed / 2 ? 2 * container->room : needed;
    if (!account_tree(tree, (room - container->room) * sizeof(gp_value_t)))
      return false;
    if (!gp_array_resize(&container->items, room, sizeof(gp_value_t)))
      return gp_value_tree_fail(tree, container->at, "not enough memory to read this");
    container->room = room;
  }
  if (count)
    memcpy(container->items + container->count, values, count * sizeof(gp_value_t));
  container->count = needed;
  return true;
}

void gp_container_release(gp_value_tree_t *tree, gp_container_t *container)
{
  size_t bytes = container->room * sizeof(gp_value_t);
  tree->used -= bytes;
  tree->value_bytes -= bytes;
  free(container->items);
  container->items = NULL;
  container->count = container->room = 0;
}

bool gp_value_is(const gp_value_t *value, const char *text)
{
  return value->kind == GP_VALUE_TEXT && strlen(text) == value->length &&
         memcmp(value->text, text, value->length) == 0;
}

const gp_value_t *gp_value_member(const gp_value_t *dict, const char *name)
{
  if (!dict || dict->kind != GP_VALUE_DICT)
    return NULL;
  const gp_container_t *container = dict->container;
  size_t length = strlen(name);
  for (uint32_t i = container->count; i >= 2; i -= 2) {
    const gp_value_t *key = &container->items[i - 2];
    if (key->kind == GP_VALUE_TEXT && key->length == length && memcmp(key->text, name, length) == 0)
      return &container->items[i - 1];
  }
  return NULL;
}
