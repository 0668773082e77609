/*
 * PyTorch's frames and stacks. A pickle shares equal ones, JSON repeats them; the tables hold each once.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/pytorch/import_parts.h"
#include "tools/read/json_scan.h"

/* The input may share texts, the snapshot does not: a limit, so that a small
 * file cannot demand any amount. */
#define TEXT_BYTES_FIRST (UINT64_C(64) << 20)
#define TEXT_BYTES_TIMES 8

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
  for (const unsigned char *p = bytes, *end = p + length; p < end; p++)
    hash = (hash ^ *p) * UINT64_C(0x100000001b3); /* FNV-1a */
  return hash;
}

typedef uint64_t (*hash_fn)(const gp_import_t *import, size_t index);

static bool grow(gp_import_t *import, gp_import_table_t *table, hash_fn hash_of)
{
  size_t room = table->room ? 2 * table->room : 256;
  if (!gp_value_tree_account(&import->tree, room * sizeof(uint32_t)))
    return false;
  uint32_t *indexes = calloc(room, sizeof(*indexes));
  if (!indexes)
    return gp_value_tree_fail(&import->tree, 0, "not enough memory to read this");
  for (size_t i = 0; i < table->count; i++) {
    uint64_t hash = hash_of(import, i);
    size_t at = (size_t)(hash ^ hash >> 32) & (room - 1);
    while (indexes[at])
      at = (at + 1) & (room - 1);
    indexes[at] = (uint32_t)i + 1;
  }
  free(table->indexes);
  table->indexes = indexes;
  table->room = room;
  return true;
}

/* The slot where the search for a hash begins. */
static size_t first_slot(const gp_import_table_t *table, uint64_t hash)
{
  return (size_t)(hash ^ hash >> 32) & (table->room - 1);
}

char *gp_import_copy(gp_import_t *import, const gp_value_t *text)
{
  size_t length = text && text->kind == GP_VALUE_TEXT ? text->length : 0;
  const char *from = length ? text->text : "";
  uint64_t most = TEXT_BYTES_FIRST + TEXT_BYTES_TIMES * (uint64_t)import->tree.length;

  import->text_bytes += length + 1;
  if (import->text_bytes > most) {
    (void)gp_value_tree_fail(&import->tree, 0, "it has more text than a snapshot of its size can");
    return NULL;
  }
  char *copy = malloc(length + 1);
  if (!copy) {
    (void)gp_value_tree_fail(&import->tree, 0, "not enough memory to read this");
    return NULL;
  }
  for (size_t i = 0; i < length;) {
    size_t bytes = gp_json_utf8_length((const unsigned char *)from + i);
    bool good = bytes > 0 && bytes <= length - i && from[i];
    memcpy(copy + i, good ? from + i : "?", good ? bytes : 1);
    i += good ? bytes : 1;
  }
  copy[length] = '\0';
  return copy;
}

/*
 * Frames
 */

static uint64_t hash_frame(const gp_import_t *import, size_t index)
{
  const gp_snapshot_frame_t *frame = &import->snapshot->frames[index];
  uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), frame->file, strlen(frame->file) + 1);
  hash = hash_bytes(hash, frame->function, strlen(frame->function));
  return hash_bytes(hash, &frame->line, sizeof(frame->line));
}

static bool is_same_frame(const gp_snapshot_frame_t *a, const gp_snapshot_frame_t *b)
{
  return a->line == b->line && strcmp(a->function, b->function) == 0 && strcmp(a->file, b->file) == 0;
}

/* Keeps the frame at the end of the table, or removes it if an equal one
 * exists. *ret_index: the one kept. */
static bool keep_frame(gp_import_t *import, int *ret_index)
{
  gp_snapshot_t *snapshot = import->snapshot;
  gp_import_table_t *table = &import->frames;
  size_t last = snapshot->frame_count - 1;

  if (2 * (table->count + 1) > table->room && !grow(import, table, hash_frame))
    return false;
  size_t at = first_slot(table, hash_frame(import, last));
  for (; table->indexes[at]; at = (at + 1) & (table->room - 1)) {
    size_t other = table->indexes[at] - 1;
    if (!is_same_frame(&snapshot->frames[other], &snapshot->frames[last]))
      continue;
    free(snapshot->frames[last].function);
    free(snapshot->frames[last].file);
    snapshot->frame_count--;
    *ret_index = (int)other;
    return true;
  }
  table->indexes[at] = (uint32_t)last + 1;
  table->count++;
  *ret_index = (int)last;
  return true;
}

/* Treats PyTorch's placeholder for an unknown name as no name. */
static const gp_value_t *known_text(const gp_value_t *text)
{
  return text && (gp_value_is(text, "??") || gp_value_is(text, "<unknown>")) ? NULL : text;
}

/* On Windows `\` separates, too. From here on `/` alone does: in owners, what is folded, searches. A path of
 * another system may have a `\` in a name. */
static void use_slashes(char *path)
{
  bool has_drive = isalpha((unsigned char)path[0]) && path[1] == ':';
  bool is_share = path[0] == '\\' && path[1] == '\\';

  if (!has_drive && !is_share && strchr(path, '/'))
    return;
  for (char *at = path; (at = strchr(at, '\\')); at++)
    *at = '/';
}

static bool read_frame(gp_import_t *import, const gp_value_t *value, size_t stack_at, int *ret_index)
{
  gp_snapshot_t *snapshot = import->snapshot;
  if (value->kind != GP_VALUE_DICT || value->container->note == GP_CONTAINER_READ)
    return gp_value_tree_fail(&import->tree, stack_at, "frames: one is no dict, or something else, too");
  if (value->container->note >= 0) {
    *ret_index = value->container->note;
    return true;
  }
  if (snapshot->frame_count >= INT32_MAX)
    return gp_value_tree_fail(&import->tree, stack_at, "more frames than there can be");
  if (!gp_import_reserve(import, (void **)&snapshot->frames, snapshot->frame_count, &import->frame_room,
          sizeof(*snapshot->frames)))
    return false;
  gp_snapshot_frame_t *frame = &snapshot->frames[snapshot->frame_count++];
  const gp_value_t *line = gp_value_member(value, "line");
  bool has_line = line && line->kind == GP_VALUE_INTEGER && line->integer > 0 && line->integer <= INT32_MAX;
  *frame = (gp_snapshot_frame_t){.module = -1, .line = has_line ? (int)line->integer : 0};
  frame->function = gp_import_copy(import, known_text(gp_value_member(value, "name")));
  frame->file = gp_import_copy(import, known_text(gp_value_member(value, "filename")));
  if (frame->file)
    use_slashes(frame->file);
  if (!frame->function || !frame->file || !keep_frame(import, ret_index))
    return false;
  value->container->note = *ret_index;
  return true;
}

/*
 * Stacks
 */

static size_t stack_end(const gp_import_t *import, size_t stack)
{
  const gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  return stack + 1 < stacks->count ? stacks->first[stack + 1] : import->index_count;
}

static uint64_t hash_stack(const gp_import_t *import, size_t stack)
{
  const gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  size_t first = stacks->first[stack];
  return hash_bytes(UINT64_C(0xcbf29ce484222325), stacks->frame_indexes + first,
      (stack_end(import, stack) - first) * sizeof(int));
}

static bool keep_stack(gp_import_t *import, int *ret_stack)
{
  gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  gp_import_table_t *table = &import->stacks;
  size_t last = stacks->count - 1, depth = import->index_count - stacks->first[last];

  if (2 * (table->count + 1) > table->room && !grow(import, table, hash_stack))
    return false;
  size_t at = first_slot(table, hash_stack(import, last));
  for (; table->indexes[at]; at = (at + 1) & (table->room - 1)) {
    size_t other = table->indexes[at] - 1;
    if (stack_end(import, other) - stacks->first[other] != depth ||
        memcmp(stacks->frame_indexes + stacks->first[other], stacks->frame_indexes + stacks->first[last],
            depth * sizeof(int)) != 0)
      continue;
    import->index_count = stacks->first[last];
    stacks->count--;
    *ret_stack = (int)other;
    return true;
  }
  table->indexes[at] = (uint32_t)last + 1;
  table->count++;
  *ret_stack = (int)last;
  return true;
}

bool gp_import_stack(gp_import_t *import, const gp_value_t *frames, int *ret_stack)
{
  gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;

  *ret_stack = -1;
  if (!frames || frames->kind == GP_VALUE_NONE)
    return true;
  if (frames->kind != GP_VALUE_LIST || frames->container->note == GP_CONTAINER_READ)
    return gp_value_tree_fail(&import->tree, 0, "frames are no list, or one that is something else, too");
  if (frames->container->count == 0)
    return true;
  if (frames->container->note >= 0) {
    *ret_stack = frames->container->note;
    return true;
  }
  if (stacks->count >= INT32_MAX ||
      !gp_import_reserve(import, (void **)&stacks->first, stacks->count, &import->stack_room, sizeof(size_t)))
    return gp_value_tree_fail(&import->tree, frames->container->at, "more stacks than there can be");
  stacks->first[stacks->count++] = import->index_count;
  for (uint32_t i = 0; i < frames->container->count; i++) {
    if (!gp_import_reserve(
            import, (void **)&stacks->frame_indexes, import->index_count, &import->index_room, sizeof(int)) ||
        !read_frame(import, &frames->container->items[i], frames->container->at,
            &stacks->frame_indexes[import->index_count]))
      return false;
    import->index_count++;
  }
  if (!keep_stack(import, ret_stack))
    return false;
  frames->container->note = *ret_stack;
  return true;
}

bool gp_import_stacks_end(gp_import_t *import)
{
  gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  if (!gp_import_reserve(import, (void **)&stacks->first, stacks->count, &import->stack_room, sizeof(size_t)))
    return false;
  stacks->first[stacks->count] = import->index_count;
  return true;
}
