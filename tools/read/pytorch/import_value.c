#include "tools/read/pytorch/import_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_CONTAINERS 512

/* A snapshot takes about ten times its size; what takes far more was made to. */
#define MEMORY_FIRST (UINT64_C(64) << 20)
#define MEMORY_TIMES 32

struct gp_container_chunk {
  gp_container_chunk_t *next;
  size_t count;
  gp_container_t containers[CHUNK_CONTAINERS];
};

void gp_document_grow(gp_document_t *document, size_t length)
{
  document->length = length;
  document->most =
      length < (SIZE_MAX - MEMORY_FIRST) / MEMORY_TIMES ? MEMORY_FIRST + MEMORY_TIMES * length : SIZE_MAX;
}

void gp_document_init(gp_document_t *document, const char *text, size_t length, gp_snapshot_error_t *error)
{
  *document = (gp_document_t){.text = text, .error = error};
  gp_document_grow(document, length);
}

static void free_chunk(gp_container_chunk_t *chunk)
{
  for (size_t i = 0; i < CHUNK_CONTAINERS; i++)
    free(chunk->containers[i].items);
  free(chunk);
}

static void free_copies(gp_document_t *document)
{
  for (size_t i = 0; i < document->copy_count; i++)
    free(document->copies[i]);
  free(document->copies);
  document->copies = NULL;
  document->copy_count = 0;
}

void gp_document_clear(gp_document_t *document)
{
  gp_container_chunk_t *first = document->chunks;
  while (first && first->next) {
    gp_container_chunk_t *next = first->next->next;
    free_chunk(first->next);
    first->next = next;
  }
  if (first)
    first->count = 0;
  if (document->copy_count)
    free_copies(document);
  document->used -= document->tree;
  document->tree = 0;
}

void gp_document_fini(gp_document_t *document)
{
  gp_document_clear(document);
  if (document->chunks)
    free_chunk(document->chunks);
  document->chunks = NULL;
}

bool gp_document_fail(gp_document_t *document, size_t at, const char *format, ...)
{
  va_list arguments;
  if (!document->failed) {
    document->failed = true;
    document->error->offset = at;
    va_start(arguments, format);
    vsnprintf(document->error->text, sizeof(document->error->text), format, arguments);
    va_end(arguments);
  }
  return false;
}

bool gp_document_account(gp_document_t *document, size_t bytes)
{
  if (bytes > document->most - document->used)
    return gp_document_fail(document, 0, "it would take more memory than a snapshot of its size can need");
  document->used += bytes;
  return true;
}

static bool account_tree(gp_document_t *document, size_t bytes)
{
  if (!gp_document_account(document, bytes))
    return false;
  document->tree += bytes;
  return true;
}

gp_container_t *gp_document_container(gp_document_t *document, size_t at)
{
  gp_container_chunk_t *chunk = document->chunks;
  if (!chunk || chunk->count == CHUNK_CONTAINERS) {
    if (!account_tree(document, sizeof(*chunk)))
      return NULL;
    chunk = calloc(1, sizeof(*chunk));
    if (!chunk) {
      (void)gp_document_fail(document, at, "not enough memory to read this");
      return NULL;
    }
    chunk->next = document->chunks;
    document->chunks = chunk;
  }
  gp_container_t *container = &chunk->containers[chunk->count++];
  container->count = 0; /* items and room may be those of a value that was forgotten */
  container->at = at;
  container->note = GP_CONTAINER_NEW;
  return container;
}

bool gp_document_adopt(gp_document_t *document, char *text)
{
  size_t count = document->copy_count;
  if (!text)
    return true;
  bool good = account_tree(document, strlen(text) + 2 * sizeof(char *));
  if (good && (count & (count - 1)) == 0) { /* full: 0, 1, 2, 4 ... */
    char **larger = realloc(document->copies, (count ? 2 * count : 1) * sizeof(char *));
    good = larger || gp_document_fail(document, document->base, "not enough memory to read this");
    if (larger)
      document->copies = larger;
  }
  if (good)
    document->copies[document->copy_count++] = text;
  else
    free(text);
  return good;
}

bool gp_container_append(
    gp_document_t *document, gp_container_t *container, const gp_value_t *values, size_t count)
{
  if (count > UINT32_MAX / 2 - container->count)
    return gp_document_fail(document, container->at, "a list that is longer than there can be");
  uint32_t needed = container->count + (uint32_t)count;
  if (needed > container->room) {
    /* Most are filled at once. */
    uint32_t room = container->room > needed / 2 ? 2 * container->room : needed;
    if (!account_tree(document, (room - container->room) * sizeof(gp_value_t)))
      return false;
    gp_value_t *larger = realloc(container->items, room * sizeof(gp_value_t));
    if (!larger)
      return gp_document_fail(document, container->at, "not enough memory to read this");
    container->items = larger;
    container->room = room;
  }
  if (count)
    memcpy(container->items + container->count, values, count * sizeof(gp_value_t));
  container->count = needed;
  return true;
}

bool gp_value_is(const gp_value_t *value, const char *text)
{
  return value->kind == GP_VALUE_TEXT && strlen(text) == value->length &&
         memcmp(value->text, text, value->length) == 0;
}

const gp_value_t *gp_value_member(const gp_value_t *dict, const char *name)
{
  if (dict->kind != GP_VALUE_DICT)
    return NULL;
  const gp_container_t *container = dict->container;
  for (uint32_t i = container->count; i >= 2; i -= 2) {
    if (gp_value_is(&container->items[i - 2], name))
      return &container->items[i - 1];
  }
  return NULL;
}
