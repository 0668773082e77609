#include "tools/read/load.h"

#include <stdlib.h>

#include "tools/read/logs/event_log.h"
#include "tools/read/logs/rows.h"
#include "tools/read/native/snapshot_reader.h"
#include "tools/read/pytorch/import.h"
#include "tools/tool.h"

typedef gp_snapshot_t *(*parse_fn)(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

/* Returns the reader for an input that another tool wrote, recognized by the content, or NULL. */
static gp_import_read_fn reader_of(gp_input_t *input)
{
  if (gp_rows_have_heading(input, GP_RMM_HEADING))
    return gp_rmm_log_read;
  if (gp_import_is_pickle(input->text, input->length))
    return gp_import_read_pickle;
  switch (gp_import_kind_of_json(input)) {
  case GP_IMPORT_PYTORCH: return gp_import_read_json;
  case GP_IMPORT_TRACE: return gp_kineto_read;
  case GP_IMPORT_TIMELINE: return gp_memory_timeline_read;
  case GP_IMPORT_NONE: break;
  }
  return NULL;
}

gp_snapshot_t *gp_snapshot_parse_any(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error)
{
  gp_import_read_fn read = reader_of(input);
  return read ? gp_import(read, input, columns, ret_error)
              : gp_snapshot_parse_input(input, columns, ret_error);
}

/* Reads the whole input into the window, and parses it. */
static gp_snapshot_t *parse_whole(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error)
{
  return gp_input_read_all(input) ? gp_snapshot_parse(input->text, input->length, columns, ret_error) : NULL;
}

/* Loads the snapshot at `path`. If ret_text is not NULL, sets *ret_text to the whole text. Then `parse` must
 * leave the whole text in the window. */
static gp_snapshot_t *load(
    const char *path, parse_fn parse, unsigned columns, char **ret_text, size_t *ret_length)
{
  const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
  gp_snapshot_error_t wrong = {0, ""};
  gp_snapshot_t *snapshot = NULL;
  gp_input_file_t *file;

  const char *problem = gp_input_file_open(&file, path);
  if (!problem) {
    gp_input_t *input = gp_input_file_input(file);
    snapshot = parse(input, columns, &wrong);
    if (snapshot)
      snapshot->input_bytes = (uint64_t)input->base + input->length;
    if (snapshot && ret_text)
      *ret_text = gp_input_take(input, ret_length);
    else if (!snapshot)
      problem = input->error; /* the cause of any error in the content */
  }
  gp_input_file_close(file);
  if (problem)
    gp_message("%s: %s", name, problem);
  else if (!snapshot)
    gp_message("%s: offset %zu: %s", name, wrong.offset, wrong.text);
  return snapshot;
}

gp_snapshot_t *gp_snapshot_load(const char *path, unsigned columns)
{
  return load(path, gp_snapshot_parse_any, columns, NULL, NULL);
}

gp_snapshot_t *gp_snapshot_load_text(const char *path, unsigned columns, char **ret_text, size_t *ret_length)
{
  return load(path, parse_whole, columns, ret_text, ret_length);
}
