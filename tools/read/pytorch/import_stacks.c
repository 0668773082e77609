/*
 * Reads PyTorch's frames and stacks. A pickle shares equal frames, and JSON repeats them. The tables store
 * each only once.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hash_index.h"
#include "tools/read/pytorch/import_parts.h"
#include "tools/read/json_scan.h"

/* Limits of the copied texts. The input may share texts, but the snapshot copies them. Without limits a small
 * file could require any amount of memory. */
#define TEXT_BYTES_FIRST (UINT64_C(64) << 20)
#define TEXT_BYTES_TIMES 8

/* Makes room for one more item in an index. */
static bool reserve(gp_import_t *import, gp_hash_index_t *index, gp_hash_index_hash_fn hash_of)
{
  size_t before = index->room;
  if (!gp_hash_index_reserve(index, hash_of, import))
    return gp_import_no_memory(import);
  return gp_value_tree_account(&import->tree, (index->room - before) * sizeof(*index->slots));
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

static uint64_t hash_frame(const void *self, size_t item)
{
  const gp_snapshot_frame_t *frame = &((const gp_import_t *)self)->snapshot->frames[item];
  uint64_t hash = gp_hash_bytes(GP_HASH_FIRST, frame->file, strlen(frame->file) + 1);
  return gp_hash_bytes(gp_hash_text(hash, frame->function), &frame->line, sizeof(frame->line));
}

static bool is_frame(const void *self, size_t item, const void *key)
{
  const gp_snapshot_frame_t *a = &((const gp_import_t *)self)->snapshot->frames[item], *b = key;
  return a->line == b->line && strcmp(a->function, b->function) == 0 && strcmp(a->file, b->file) == 0;
}

/* Keeps the frame at the end of the table, unless the table already contains an equal frame. *ret_index is
 * the index of the frame that the table contains. */
static bool keep_frame(gp_import_t *import, int *ret_index)
{
  gp_snapshot_t *snapshot = import->snapshot;
  gp_hash_index_t *index = &import->frames;
  size_t last = snapshot->frame_count - 1;
  gp_snapshot_frame_t *frame = &snapshot->frames[last];

  if (!reserve(import, index, hash_frame))
    return false;
  uint32_t *slot = gp_hash_index_slot(index, hash_frame(import, last), is_frame, import, frame);
  if (*slot) {
    free(frame->function);
    free(frame->file);
    snapshot->frame_count--;
  } else {
    gp_hash_index_put(index, slot, last);
  }
  *ret_index = (int)*slot - 1;
  return true;
}

/* Returns `text`, or NULL if it is one of PyTorch's placeholders for an unknown name. */
static const gp_value_t *known_text(const gp_value_t *text)
{
  return text && (gp_value_is(text, "??") || gp_value_is(text, "<unknown>")) ? NULL : text;
}

/* Replaces `\` with `/` in a Windows path, because owners, folded stacks and searches expect only `/`. Leaves
 * paths of other systems unchanged, in which `\` may be part of a name. */
static void use_slashes(char *path)
{
  bool has_drive = isalpha((unsigned char)path[0]) && path[1] == ':';
  bool is_share = path[0] == '\\' && path[1] == '\\';

  if (!has_drive && !is_share && strchr(path, '/'))
    return;
  for (char *at = path; (at = strchr(at, '\\')); at++)
    *at = '/';
}

bool gp_import_frame(
    gp_import_t *import, const gp_value_t *function, const gp_value_t *file, int line, int *ret_index)
{
  gp_snapshot_t *snapshot = import->snapshot;
  if (snapshot->frame_count >= INT32_MAX)
    return gp_value_tree_fail(&import->tree, 0, "more frames than there can be");
  if (!GP_IMPORT_RESERVE(import, snapshot->frames, snapshot->frame_count, import->frame_room))
    return false;
  gp_snapshot_frame_t *frame = &snapshot->frames[snapshot->frame_count++];
  *frame = (gp_snapshot_frame_t){.module = -1, .line = line};
  frame->function = gp_import_copy(import, known_text(function));
  frame->file = gp_import_copy(import, known_text(file));
  if (frame->file)
    use_slashes(frame->file);
  return frame->function && frame->file && keep_frame(import, ret_index);
}

static bool read_frame(gp_import_t *import, const gp_value_t *value, size_t stack_at, int *ret_index)
{
  if (value->kind != GP_VALUE_DICT || value->container->note == GP_CONTAINER_READ)
    return gp_value_tree_fail(
        &import->tree, stack_at, "frames: one is not a dict, or is something else, too");
  if (value->container->note >= 0) {
    *ret_index = value->container->note;
    return true;
  }
  const gp_value_t *line = gp_value_member(value, "line");
  bool has_line = line && line->kind == GP_VALUE_INTEGER && line->integer > 0 && line->integer <= INT32_MAX;
  if (!gp_import_frame(import, gp_value_member(value, "name"), gp_value_member(value, "filename"),
          has_line ? (int)line->integer : 0, ret_index))
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

static uint64_t hash_stack(const void *self, size_t item)
{
  const gp_import_t *import = self;
  const gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  size_t first = stacks->first[item];
  return gp_hash_bytes(
      GP_HASH_FIRST, stacks->frame_indexes + first, (stack_end(import, item) - first) * sizeof(int));
}

/* Returns true if stack `item` equals the last stack, whose index is *key. */
static bool is_stack(const void *self, size_t item, const void *key)
{
  const gp_import_t *import = self;
  const gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  size_t first = stacks->first[item], last = stacks->first[*(const size_t *)key];
  size_t depth = import->index_count - last;
  return stack_end(import, item) - first == depth &&
         memcmp(stacks->frame_indexes + first, stacks->frame_indexes + last, depth * sizeof(int)) == 0;
}

static bool keep_stack(gp_import_t *import, int *ret_stack)
{
  gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  gp_hash_index_t *index = &import->stacks;
  size_t last = stacks->count - 1;

  if (!reserve(import, index, hash_stack))
    return false;
  uint32_t *slot = gp_hash_index_slot(index, hash_stack(import, last), is_stack, import, &last);
  if (*slot) {
    import->index_count = stacks->first[last];
    stacks->count--;
  } else {
    gp_hash_index_put(index, slot, last);
  }
  *ret_stack = (int)*slot - 1;
  return true;
}

/* Begins a stack. `at` is the offset for error messages. */
static bool begin_stack(gp_import_t *import, size_t at)
{
  gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  if (stacks->count >= INT32_MAX ||
      !GP_IMPORT_RESERVE(import, stacks->first, stacks->count, import->stack_room))
    return gp_value_tree_fail(&import->tree, at, "more stacks than there can be");
  stacks->first[stacks->count++] = import->index_count;
  return true;
}

/* Appends a frame to the last stack. */
static bool push_frame(gp_import_t *import, int frame)
{
  gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  if (!GP_IMPORT_RESERVE(import, stacks->frame_indexes, import->index_count, import->index_room))
    return false;
  stacks->frame_indexes[import->index_count++] = frame;
  return true;
}

bool gp_import_stack_of(gp_import_t *import, const int *frames, size_t count, int *ret_stack)
{
  *ret_stack = -1;
  bool good = !count || begin_stack(import, 0);
  for (size_t i = 0; good && i < count; i++)
    good = push_frame(import, frames[i]);
  return good && (!count || keep_stack(import, ret_stack));
}

bool gp_import_stack(gp_import_t *import, const gp_value_t *frames, int *ret_stack)
{
  int frame;

  *ret_stack = -1;
  if (!frames || frames->kind == GP_VALUE_NONE)
    return true;
  if (frames->kind != GP_VALUE_LIST || frames->container->note == GP_CONTAINER_READ ||
      frames->container->note == GP_CONTAINER_PART)
    return gp_value_tree_fail(&import->tree, 0, "frames are not a list, or are something else, too");
  if (frames->container->count == 0)
    return true;
  if (frames->container->note >= 0) {
    *ret_stack = frames->container->note;
    return true;
  }
  if (!begin_stack(import, frames->container->at))
    return false;
  for (uint32_t i = 0; i < frames->container->count; i++) {
    if (!read_frame(import, &frames->container->items[i], frames->container->at, &frame) ||
        !push_frame(import, frame))
      return false;
  }
  if (!keep_stack(import, ret_stack))
    return false;
  frames->container->note = *ret_stack;
  return true;
}

bool gp_import_stacks_end(gp_import_t *import)
{
  gp_snapshot_stacks_t *stacks = &import->snapshot->stacks;
  if (!GP_IMPORT_RESERVE(import, stacks->first, stacks->count, import->stack_room))
    return false;
  stacks->first[stacks->count] = import->index_count;
  return true;
}
