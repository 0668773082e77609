/*
 * PyTorch's annotations, the begins and ends of record_function() ranges, become the begins and ends of
 * scopes. They do not say which thread they are of, so they are phases of the process.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/marks.h"
#include "tools/read/pytorch/import_parts.h"

/* Ranges that have begun, not ended. The scope of a range is its number, from 1. */
typedef struct open_ranges {
  const gp_value_t *names[GP_MARKS_MAX]; /* NULL: it has ended */
  size_t count;
} open_ranges_t;

/* The newest open range of that name; 0: none, its begin was not recorded. */
static size_t close_range(open_ranges_t *open, const gp_value_t *name)
{
  for (size_t scope = open->count; scope > 0; scope--) {
    const gp_value_t *begun = open->names[scope - 1];
    if (begun && begun->length == name->length && memcmp(begun->text, name->text, name->length) == 0) {
      open->names[scope - 1] = NULL;
      return scope;
    }
  }
  return 0;
}

static bool add_mark(gp_import_t *import, cJSON *marks, const gp_value_t *name, gp_mark_kind_t kind,
    size_t scope, uint64_t time_ns)
{
  cJSON *mark = cJSON_CreateObject();
  char *copy = gp_import_copy(import, name);
  bool good = mark && copy && cJSON_AddStringToObject(mark, "kind", gp_mark_kind_name(kind)) &&
              cJSON_AddNumberToObject(mark, "time_ns", (double)time_ns) &&
              cJSON_AddNumberToObject(mark, "thread", 0) && cJSON_AddNullToObject(mark, "device") &&
              cJSON_AddNumberToObject(mark, "scope", (double)scope) &&
              cJSON_AddStringToObject(mark, "name", copy) && cJSON_AddItemToArray(marks, mark);
  free(copy);
  if (!good)
    cJSON_Delete(mark);
  return good || gp_import_no_memory(import);
}

static bool add_annotation(gp_import_t *import, cJSON *marks, open_ranges_t *open,
    const gp_value_t *annotation, uint64_t start_us, uint64_t *last_ns)
{
  const gp_value_t *name = gp_value_member(annotation, "name"), *stage = gp_value_member(annotation, "stage"),
                   *time_us = gp_value_member(annotation, "time_us");
  bool is_begin = stage && gp_value_is(stage, "START");

  if (!name || name->kind != GP_VALUE_TEXT || !time_us || time_us->kind != GP_VALUE_INTEGER ||
      !(is_begin || (stage && gp_value_is(stage, "END"))))
    return true; /* it is nothing that a report needs */
  int64_t after_us = time_us->integer - (int64_t)start_us;
  if (time_us->integer < 0 || after_us >= GP_IMPORT_NUMBER_MOST / 1000)
    return true;
  if (after_us > 0 && (uint64_t)after_us * 1000 > *last_ns)
    *last_ns = (uint64_t)after_us * 1000;
  if (is_begin)
    open->names[open->count++] = name;
  size_t scope = is_begin ? open->count : close_range(open, name);
  return !scope || add_mark(import, marks, name, is_begin ? GP_MARK_BEGIN : GP_MARK_END, scope, *last_ns);
}

bool gp_import_annotations(gp_import_t *import, const gp_value_t *list, uint64_t start_us)
{
  if (list->kind != GP_VALUE_LIST || !start_us)
    return true;
  cJSON *marks = cJSON_AddArrayToObject(import->snapshot->root, "marks");
  open_ranges_t *open = calloc(1, sizeof(*open));
  bool good = (marks && open) || gp_import_no_memory(import);
  uint32_t count = list->container->count;
  uint64_t last_ns = 0;

  /* The newest, as the library keeps them: the same dict may be there any number of times. */
  for (uint32_t i = count > GP_MARKS_MAX ? count - GP_MARKS_MAX : 0; good && i < count; i++)
    good = add_annotation(import, marks, open, &list->container->items[i], start_us, &last_ns);
  free(open);
  return good;
}
