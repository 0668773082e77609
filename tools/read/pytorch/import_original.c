/*
 * Writes down what a dict of PyTorch holds, as parts of the original (tools/read/original.h), so that an
 * export gives the same objects back. A container that several others share becomes one part and is gone
 * through once, so the work and the memory are bounded by the size of the input.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/util/assert.h"
#include "tools/read/pytorch/import_parts.h"

#define HEIGHT_MOST   32 /* of containers in containers: an export goes down into them by calling itself */
#define TEXT_IS_LONG  64 /* bytes from which on a text is not looked at again wherever it is referred to */
#define PART_KIND_LEN 1

static bool put_element(
    gp_import_t *import, const gp_value_t *value, const gp_value_t *name, uint8_t *height);

static bool reserve(gp_import_t *import, size_t more)
{
  gp_import_notes_t *notes = &import->notes;
  if (notes->used + more <= notes->room)
    return true;
  size_t room = 2 * (notes->used + more) + 256;
  if (!gp_value_tree_account(&import->tree, room - notes->room))
    return false;
  unsigned char *larger = realloc(notes->bytes, room);
  if (!larger)
    return gp_import_no_memory(import);
  notes->bytes = larger;
  notes->room = room;
  return true;
}

static bool note_bytes(gp_import_t *import, const void *bytes, size_t length)
{
  if (!reserve(import, length))
    return false;
  if (length)
    memcpy(import->notes.bytes + import->notes.used, bytes, length);
  import->notes.used += length;
  return true;
}

static bool note_kind(gp_import_t *import, gp_original_part_t kind)
{
  const unsigned char byte = (unsigned char)kind;
  return note_bytes(import, &byte, sizeof(byte));
}

static bool note_element(gp_import_t *import, const gp_original_element_t *element)
{
  unsigned char bytes[GP_ORIGINAL_ELEMENT_BYTES];
  return note_bytes(import, bytes, gp_original_write(element, bytes));
}

static bool note_index(gp_import_t *import, gp_original_kind_t kind, int64_t index)
{
  const gp_original_element_t element = {.kind = kind, .integer = index};
  return note_element(import, &element);
}

/* What was noted from `first` on becomes a part. */
static bool put_part(gp_import_t *import, size_t first, uint32_t *ret_part)
{
  gp_import_notes_t *notes = &import->notes;
  size_t grown;
  *ret_part = gp_original_put(import->snapshot->original, notes->bytes + first, notes->used - first, &grown);
  notes->used = first;
  if (*ret_part == GP_ORIGINAL_NONE)
    return gp_import_no_memory(import);
  return !grown || gp_value_tree_account(&import->tree, grown);
}

/* A text of a pickle is there until the end, at its place: a long one that many refer to is looked at once.
 */
static bool put_text(gp_import_t *import, const gp_value_t *value, uint32_t *ret_part)
{
  gp_import_notes_t *notes = &import->notes;
  gp_block_entry_t entry = {.key = (uint64_t)(uintptr_t)value->text};
  bool is_looked_up = !import->is_json && value->length >= TEXT_IS_LONG;
  const gp_block_entry_t *known = is_looked_up ? gp_block_map_find(&notes->texts, entry.key) : NULL;
  size_t first = notes->used;

  if (known) {
    *ret_part = (uint32_t)known->address;
    return true;
  }
  if (!note_kind(import, value->kind == GP_VALUE_LONG ? GP_ORIGINAL_LONG : GP_ORIGINAL_TEXT) ||
      !note_bytes(import, value->text, value->length) || !put_part(import, first, ret_part))
    return false;
  entry.address = *ret_part;
  return !is_looked_up || gp_block_map_put(&notes->texts, &entry) || gp_import_no_memory(import);
}

static bool note_text(gp_import_t *import, const gp_value_t *value)
{
  uint32_t part;
  return put_text(import, value, &part) && note_index(import, GP_ORIGINAL_PART, part);
}

static bool note_name(gp_import_t *import, const gp_value_t *name, size_t at)
{
  if (name->kind == GP_VALUE_TEXT)
    return note_text(import, name);
  if (name->kind == GP_VALUE_INTEGER)
    return note_index(import, GP_ORIGINAL_INTEGER, name->integer);
  return gp_value_tree_fail(&import->tree, at, "a dict with a name that is neither a text nor a number");
}

/*
 * Containers
 */

/* JSON has no tuples; these are some. */
static bool is_tuple(const gp_import_t *import, const gp_value_t *value, const gp_value_t *name)
{
  if (value->container->is_tuple || !import->is_json || !name)
    return value->container->is_tuple;
  return gp_value_is(name, "pool_id") || gp_value_is(name, "segment_pool_id");
}

static bool put_container(
    gp_import_t *import, const gp_value_t *value, const gp_value_t *name, uint32_t *ret_part)
{
  gp_container_t *container = value->container;
  bool is_dict = value->kind == GP_VALUE_DICT;
  size_t first = import->notes.used;
  uint8_t height = 0;

  if (container->part) {
    *ret_part = container->part;
    return true;
  }
  if (import->notes.depth == HEIGHT_MOST)
    return gp_value_tree_fail(&import->tree, container->at, "lists and dicts in each other, too many");
  import->notes.depth++;
  bool good = note_kind(import, is_dict                         ? GP_ORIGINAL_DICT
                                : is_tuple(import, value, name) ? GP_ORIGINAL_TUPLE
                                                                : GP_ORIGINAL_LIST);
  for (uint32_t i = 0; good && i < container->count; i += is_dict ? 2 : 1) {
    const gp_value_t *item = &container->items[i];
    good = is_dict ? note_name(import, item, container->at) && put_element(import, item + 1, item, &height)
                   : put_element(import, item, NULL, &height);
  }
  import->notes.depth--;
  if (good && height >= HEIGHT_MOST)
    return gp_value_tree_fail(&import->tree, container->at, "lists and dicts in each other, too many");
  if (!good || !put_part(import, first, ret_part))
    return false;
  container->height = height + 1;
  container->part = *ret_part;
  return true;
}

/* Frames anywhere are a stack of the snapshot: there are many, and few different ones. Not those in a frame.
 */
static bool is_stack(const gp_import_t *import, const gp_value_t *value, const gp_value_t *name)
{
  if (import->notes.is_in_frame || !name || !gp_value_is(name, "frames") || value->kind != GP_VALUE_LIST ||
      !value->container->count || value->container->note == GP_CONTAINER_READ || value->container->is_tuple)
    return false;
  if (value->container->note >= 0 || value->container->part)
    return value->container->note >= 0; /* as it was when it was met first: many may refer to it */
  for (uint32_t i = 0; i < value->container->count; i++) {
    const gp_value_t *frame = &value->container->items[i];
    if (frame->kind != GP_VALUE_DICT || frame->container->note == GP_CONTAINER_READ)
      return false;
  }
  return true;
}

/* name: of the member of a dict that it is, or NULL. *height: of the highest container met so far. */
static bool put_element(gp_import_t *import, const gp_value_t *value, const gp_value_t *name, uint8_t *height)
{
  gp_original_element_t element = {.kind = GP_ORIGINAL_NULL};
  uint32_t part = GP_ORIGINAL_NONE;
  int stack;

  switch ((gp_value_kind_t)value->kind) {
  case GP_VALUE_NONE:
  case GP_VALUE_OTHER: break;
  case GP_VALUE_BOOL: element.kind = value->integer ? GP_ORIGINAL_TRUE : GP_ORIGINAL_FALSE; break;
  case GP_VALUE_INTEGER:
    element.kind = GP_ORIGINAL_INTEGER;
    element.integer = value->integer;
    break;
  case GP_VALUE_FLOAT:
    element.kind = GP_ORIGINAL_FLOAT;
    element.number = value->number;
    break;
  case GP_VALUE_TEXT:
  case GP_VALUE_LONG: return note_text(import, value);
  case GP_VALUE_LIST:
  case GP_VALUE_DICT:
    if (is_stack(import, value, name))
      return gp_import_stack(import, value, &stack) && note_index(import, GP_ORIGINAL_STACK, stack);
    if (!put_container(import, value, name, &part))
      return false;
    *height = value->container->height > *height ? value->container->height : *height;
    return note_index(import, GP_ORIGINAL_PART, part);
  }
  return note_element(import, &element);
}

/*
 * Dicts of which the snapshot holds something
 */

static const gp_import_held_t *find_held(
    const gp_import_held_t *held, size_t count, const gp_value_t *name, const gp_value_t *value)
{
  for (size_t i = 0; i < count; i++) {
    if (held[i].kind != (gp_value_kind_t)value->kind || !gp_value_is(name, held[i].name))
      continue;
    bool is_same = held[i].kind == GP_VALUE_INTEGER ? value->integer == held[i].number
                   : held[i].kind == GP_VALUE_TEXT  ? gp_value_is(value, held[i].text)
                                                    : !value->container->is_tuple;
    return is_same ? &held[i] : NULL;
  }
  return NULL;
}

bool gp_import_original(gp_import_t *import, const gp_value_t *dict, const gp_import_held_t *held,
    size_t held_count, uint32_t *ret_part)
{
  const gp_container_t *container = dict->container;
  size_t first = import->notes.used;
  uint8_t height = 0;

  *ret_part = GP_ORIGINAL_NONE;
  if (!import->snapshot->original)
    return true;
  bool good = note_kind(import, GP_ORIGINAL_DICT);
  for (uint32_t i = 0; good && i + 1 < container->count; i += 2) {
    const gp_value_t *name = &container->items[i], *value = name + 1;
    const gp_import_held_t *is_held = find_held(held, held_count, name, value);
    good = note_name(import, name, container->at) &&
           (is_held ? note_index(import, GP_ORIGINAL_HELD, is_held->held)
                    : put_element(import, value, name, &height));
  }
  return good && put_part(import, first, ret_part);
}

/*
 * The top of JSON, a member at a time
 */

bool gp_import_original_begin(gp_import_t *import)
{
  gp_assert(import->notes.used == 0);
  return !import->snapshot->original || note_kind(import, GP_ORIGINAL_DICT);
}

bool gp_import_original_name(gp_import_t *import, const gp_value_t *name)
{
  return !import->snapshot->original || note_name(import, name, 0);
}

bool gp_import_original_held(gp_import_t *import, gp_original_held_t held)
{
  return !import->snapshot->original || note_index(import, GP_ORIGINAL_HELD, held);
}

bool gp_import_original_value(gp_import_t *import, const gp_value_t *value)
{
  uint8_t height = 0;
  return !import->snapshot->original || put_element(import, value, NULL, &height);
}

bool gp_import_original_end(gp_import_t *import)
{
  return !import->snapshot->original || put_part(import, 0, &import->snapshot->original->top);
}
