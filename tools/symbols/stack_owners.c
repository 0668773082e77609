#include "tools/symbols/stack_owners.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shorten.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/wrappers.h"
#include "tools/tool.h"

/* GP_FRAME_ENTRY is searched in this number of innermost frames. Further out, a function with the name of a
 * CUDA function belongs to the program. */
#define DEEPEST_ENTRY 8

/* One stack, and the kinds of its frames. */
typedef struct view {
  const gp_snapshot_t *snapshot;
  const gp_snapshot_frame_kind_t *kinds; /* kinds by frame; NULL: computed when needed */
  const int *frames;                     /* innermost first */
  int count;
  bool *passed; /* result, by frame: templates whose caller is the owner; NULL: not wanted */
} view_t;

static gp_snapshot_frame_kind_t kind_at(const view_t *view, int place)
{
  int frame = view->frames[place];
  return view->kinds ? view->kinds[frame] : gp_frame_kind_of(view->snapshot, frame, NULL);
}

static bool view_of(
    const gp_snapshot_t *snapshot, const gp_snapshot_frame_kind_t *kinds, int stack, view_t *ret_view)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  if (stack < 0 || (size_t)stack >= stacks->count || stacks->first[stack] == stacks->first[stack + 1])
    return false;
  *ret_view = (view_t){snapshot, kinds, stacks->frame_indexes + stacks->first[stack],
      (int)(stacks->first[stack + 1] - stacks->first[stack]), NULL};
  return true;
}

/* Returns the innermost frame from `begin` outwards that has this `part` and `is_python`, or -1. */
static int find_inner(const view_t *view, int begin, gp_frame_part_t part, bool is_python)
{
  for (int k = begin; k < view->count; k++) {
    gp_snapshot_frame_kind_t kind = kind_at(view, k);
    if (kind.part == part && kind.is_python == is_python)
      return k;
  }
  return -1;
}

static int find_outer(const view_t *view, int begin, gp_frame_part_t part)
{
  int found = -1;
  for (int k = begin; k < view->count; k++) {
    if (kind_at(view, k).part == part)
      found = k;
  }
  return found;
}

/* Returns true if a caller may be the owner instead of the template at `place`. A template may do real work,
 * so the caller must not be the function in which the program or a thread begins. */
static bool has_plain_caller(const view_t *view, int place)
{
  int outermost = find_outer(view, place + 1, GP_FRAME_OWNER);
  for (int k = place + 1; k < outermost; k++) {
    gp_snapshot_frame_kind_t kind = kind_at(view, k);
    if (kind.part == GP_FRAME_OWNER && kind.form == GP_FRAME_PLAIN && !kind.is_root)
      return true;
  }
  return false;
}

/* Goes outwards from a user's frame. Returns the first frame that does more than allocate for its caller. */
static int see_through(const view_t *view, int place)
{
  for (;;) {
    gp_frame_form_t form = (gp_frame_form_t)kind_at(view, place).form;
    int caller = find_inner(view, place + 1, GP_FRAME_OWNER, kind_at(view, place).is_python);
    if (caller < 0 || form == GP_FRAME_PLAIN || (form == GP_FRAME_TEMPLATE && !has_plain_caller(view, place)))
      return place;
    if (form == GP_FRAME_TEMPLATE && view->passed)
      view->passed[view->frames[place]] = true;
    place = caller;
  }
}

/* Returns the owner of a stack without possible owners: the outermost frame that does more than start a
 * process. */
static int find_least_bad(const view_t *view, int begin)
{
  int found = view->count - 1;
  for (int k = begin; k < view->count; k++) {
    gp_frame_group_t group = (gp_frame_group_t)kind_at(view, k).group;
    if (group != GP_FRAME_GROUP_START && group != GP_FRAME_GROUP_UNWINDER)
      found = k;
  }
  return found;
}

static int find_interpreter(const view_t *view, int begin)
{
  for (int k = begin; k < view->count; k++) {
    if (gp_frame_group_language((gp_frame_group_t)kind_at(view, k).group) && !kind_at(view, k).is_python)
      return k;
  }
  return -1;
}

static gp_snapshot_owner_t find_owner(const view_t *view)
{
  gp_snapshot_owner_t owner = {.place = -1, .through = -1, .operation = -1};
  int begin = 0;

  /* Frames that CUDA's functions call do not belong to the program. Their modules would show this, but an
   * imported snapshot has only names. */
  for (int k = 0; k < view->count && k < DEEPEST_ENTRY; k++) {
    if (kind_at(view, k).part == GP_FRAME_ENTRY)
      begin = k;
  }
  owner.place = find_inner(view, begin, GP_FRAME_OWNER, true);
  if (owner.place >= 0)
    owner.place = see_through(view, owner.place);
  if (owner.place < 0)
    owner.place = find_inner(view, begin, GP_FRAME_LAST, true);
  if (owner.place < 0) {
    owner.place = find_inner(view, begin, GP_FRAME_OWNER, false);
    if (owner.place >= 0)
      owner.place = see_through(view, owner.place);
  }
  if (owner.place < 0) {
    owner.place = find_interpreter(view, begin);
    owner.is_program = owner.place >= 0;
  }
  if (owner.place < 0)
    owner.place = find_outer(view, begin, GP_FRAME_LAST);
  if (owner.place < 0)
    owner.place = find_least_bad(view, begin);
  return owner;
}

/* Finds what the owner called to allocate: the outermost function of the user or of a library, and the
 * framework's operator. The operator is the outermost one that the framework dispatched, or else the
 * framework's innermost Python function. */
static void find_called(const view_t *view, gp_snapshot_owner_t *owner)
{
  char name[GP_OWNER_NAME_BYTES];
  const char *own = view->snapshot->frames[view->frames[owner->place]].function;
  int function = -1;

  for (int k = owner->place - 1; k >= 0; k--) {
    gp_snapshot_frame_kind_t kind = kind_at(view, k);
    const gp_snapshot_frame_t *frame = &view->snapshot->frames[view->frames[k]];
    if (kind.part == GP_FRAME_ENTRY)
      break;
    if (kind.is_python && kind.part == GP_FRAME_LAST) {
      function = k;
      continue;
    }
    if (owner->operation < 0 && kind.group == GP_FRAME_GROUP_PYTORCH && !kind.is_python &&
        gp_frame_operator(frame->function, name, sizeof(name)))
      owner->operation = k;
    if (owner->through < 0 && (kind.part == GP_FRAME_OWNER || kind.part == GP_FRAME_LAST) &&
        (!frame->function[0] || strcmp(frame->function, own) != 0))
      owner->through = k;
  }
  if (owner->operation < 0)
    owner->operation = function;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Marks all frames of the functions in `passed` as generic. `passed` has the templates that are not the owner
 * in at least one stack, so they only allocate for their callers. In other stacks even main is then the owner
 * instead. Returns 0 or ENOMEM. */
static int spread_passed(
    const gp_snapshot_t *snapshot, const bool *passed, gp_snapshot_frame_kind_t *kinds, bool *ret_any)
{
  size_t count = 0;
  const char **names = calloc(snapshot->frame_count + 1, sizeof(*names));
  if (!names)
    return ENOMEM;
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    if (passed[i])
      names[count++] = snapshot->frames[i].function;
  }
  if (count > 1)
    qsort(names, count, sizeof(*names), compare_names);
  for (size_t i = 0; i < snapshot->frame_count && count > 0; i++) {
    const char *name = snapshot->frames[i].function;
    if (kinds[i].form == GP_FRAME_TEMPLATE && bsearch(&name, names, count, sizeof(*names), compare_names))
      kinds[i].form = GP_FRAME_GENERIC;
  }
  *ret_any = count > 0;
  free(names);
  return 0;
}

static void find_all(const gp_snapshot_t *snapshot, const gp_snapshot_frame_kind_t *kinds, bool all_frames,
    gp_snapshot_owner_t *owners, bool *passed)
{
  view_t view;
  for (size_t i = 0; i < snapshot->stacks.count; i++) {
    owners[i] = (gp_snapshot_owner_t){.place = -1, .through = -1, .operation = -1};
    if (!view_of(snapshot, kinds, (int)i, &view))
      continue;
    view.passed = passed;
    if (all_frames)
      owners[i].place = 0;
    else
      owners[i] = find_owner(&view);
  }
}

int gp_stack_owners_find(gp_snapshot_t *snapshot, const gp_owner_options_t *options)
{
  static const gp_owner_options_t none;
  size_t count = snapshot->stacks.count;
  gp_snapshot_owner_t *owners = calloc(count + 1, sizeof(*owners));
  gp_snapshot_frame_kind_t *kinds = calloc(snapshot->frame_count + 1, sizeof(*kinds));
  bool *passed = calloc(snapshot->frame_count + 1, sizeof(*passed)), any = false;
  int error = owners && kinds && passed ? 0 : ENOMEM;
  view_t view;

  options = options ? options : &none;
  for (size_t i = 0; !error && i < snapshot->frame_count; i++) {
    kinds[i] = gp_frame_kind_of(snapshot, (int)i, options->skip);
    if (options->all_frames)
      kinds[i].part = GP_FRAME_OWNER;
  }
  if (!error)
    find_all(snapshot, kinds, options->all_frames, owners, passed);
  if (!error)
    error = spread_passed(snapshot, passed, kinds, &any);
  if (!error && any)
    find_all(snapshot, kinds, options->all_frames, owners, NULL);
  free(passed);
  if (!error && !options->all_frames)
    error = gp_wrappers_see_through(snapshot, kinds, owners);
  if (error) {
    free(owners);
    free(kinds);
    return error;
  }
  for (size_t i = 0; i < count; i++) {
    if (view_of(snapshot, kinds, (int)i, &view))
      find_called(&view, &owners[i]);
  }
  free(snapshot->owners);
  free(snapshot->frame_kinds);
  snapshot->owners = owners;
  snapshot->frame_kinds = kinds;
  return 0;
}

static bool owner_of(const gp_snapshot_t *snapshot, int stack, view_t *view, gp_snapshot_owner_t *ret_owner)
{
  if (!view_of(snapshot, snapshot->frame_kinds, stack, view))
    return false;
  if (snapshot->owners) {
    *ret_owner = snapshot->owners[stack];
  } else {
    *ret_owner = find_owner(view);
    find_called(view, ret_owner);
  }
  return true;
}

int gp_stack_owner(const gp_snapshot_t *snapshot, int stack)
{
  gp_snapshot_owner_t owner;
  view_t view;
  return owner_of(snapshot, stack, &view, &owner) ? view.frames[owner.place] : -1;
}

size_t gp_stack_owner_place(const gp_snapshot_t *snapshot, int stack)
{
  gp_snapshot_owner_t owner;
  view_t view;
  return owner_of(snapshot, stack, &view, &owner) ? snapshot->stacks.first[stack] + (size_t)owner.place
                                                  : SIZE_MAX;
}

size_t gp_stack_next_user(const gp_snapshot_t *snapshot, int stack, size_t place)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;

  for (size_t k = place + 1; k < stacks->first[stack + 1]; k++) {
    int frame = stacks->frame_indexes[k];
    if (!snapshot->frame_kinds || snapshot->frame_kinds[frame].part == GP_FRAME_OWNER)
      return k;
  }
  return SIZE_MAX;
}

/* Returns true if the word is an interpreter's option that is followed by code instead of a file name. */
static bool is_code_option(const char *word)
{
  return strcmp(word, "-c") == 0 || strcmp(word, "-e") == 0;
}

/* Writes the program and its first argument that is not an option, such as "python3 train.py". Writes
 * "python3 -c" if the code was an argument. */
static void name_program(const gp_snapshot_t *snapshot, const char *language, gp_owner_text_t *text)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
  const char *program = gp_base_name(gp_snapshot_text(process, "program"));
  const char *script = NULL;
  bool is_first = true, is_value = false;
  const cJSON *argument;

  cJSON_ArrayForEach(argument, cJSON_GetObjectItemCaseSensitive(process, "command_line"))
  {
    const char *word = cJSON_GetStringValue(argument);
    if (!is_first && !is_value && !script && word && word[0] && (word[0] != '-' || is_code_option(word)))
      script = gp_base_name(word);
    is_value = word && (strcmp(word, "-X") == 0 || strcmp(word, "-W") == 0); /* options with a value */
    is_first = false;
  }
  if (program[0])
    (void)snprintf(
        text->function, sizeof(text->function), "%s%s%s", program, script ? " " : "", script ? script : "");
  else
    (void)snprintf(text->function, sizeof(text->function), "the %s program", language);
}

static void drop_parameters(char *function)
{
  int depth = 0;
  for (char *at = function; *at; at++) {
    if (depth == 0 && *at == '(' && strncmp(at, "(anonymous namespace)", 21) != 0 && at != function) {
      *at = '\0';
      return;
    }
    depth += *at == '<';
    depth -= *at == '>';
  }
}

char *gp_frame_short_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  char whole[GP_OWNER_NAME_BYTES];
  if (!snapshot->frame_kinds || snapshot->frame_kinds[frame].is_python ||
      snapshot->frame_kinds[frame].group != GP_FRAME_GROUP_PYTORCH)
    return gp_frame_function(snapshot, frame, buffer, capacity);
  char *name = gp_frame_function(snapshot, frame, whole, sizeof(whole));
  drop_parameters(name);
  (void)snprintf(buffer, capacity, "%s", name);
  return buffer;
}

bool gp_stack_owner_text(const gp_snapshot_t *snapshot, int stack, gp_owner_text_t *text)
{
  gp_snapshot_owner_t owner;
  view_t view;

  *text = (gp_owner_text_t){.file = ""};
  if (!owner_of(snapshot, stack, &view, &owner))
    return false;
  int index = view.frames[owner.place];
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  if (owner.is_program) {
    text->language = gp_frame_group_language((gp_frame_group_t)kind_at(&view, owner.place).group);
    name_program(snapshot, text->language, text);
  } else {
    (void)gp_frame_short_function(snapshot, index, text->function, sizeof(text->function));
    text->file = frame->file;
    text->line = frame->file[0] ? frame->line : 0;
  }
  if (owner.through >= 0) {
    char name[GP_OWNER_NAME_BYTES];
    (void)gp_frame_function(snapshot, view.frames[owner.through], name, sizeof(name));
    (void)snprintf(text->through, sizeof(text->through), "%s", gp_function_without_result(name));
  }
  if (owner.operation >= 0 && !gp_frame_operator(snapshot->frames[view.frames[owner.operation]].function,
                                  text->operation, sizeof(text->operation)))
    (void)gp_frame_function(snapshot, view.frames[owner.operation], text->operation, sizeof(text->operation));
  return true;
}

char *gp_owner_describe(const gp_owner_text_t *text, char *buffer, size_t capacity)
{
  char line[3 * GP_OWNER_NAME_BYTES], through[GP_OWNER_NAME_BYTES];
  size_t used = (size_t)snprintf(line, sizeof(line), "%s", text->function);

  memcpy(through, text->through, sizeof(through));
  drop_parameters(through);

  if (text->file[0] && text->line)
    used +=
        (size_t)snprintf(line + used, sizeof(line) - used, " %s:%d", gp_base_name(text->file), text->line);
  if (text->line && text->more_lines)
    used += (size_t)snprintf(line + used, sizeof(line) - used, " and %zu other line%s", text->more_lines,
        text->more_lines > 1 ? "s" : "");
  if (text->operation[0] && text->language)
    (void)snprintf(line + used, sizeof(line) - used, " (%s; %s frames are not recorded)", text->operation,
        text->language);
  else if (text->operation[0])
    (void)snprintf(line + used, sizeof(line) - used, " (%s)", text->operation);
  else if (text->language)
    (void)snprintf(line + used, sizeof(line) - used, "%s%s (%s frames are not recorded)",
        through[0] ? " through " : "", through, text->language);
  else if (through[0])
    (void)snprintf(line + used, sizeof(line) - used, " through %s", through);
  return gp_printable(line, buffer, capacity);
}
