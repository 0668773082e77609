#include "tools/report/owner_report.h"

#include <stdio.h>
#include <string.h>

#include "tools/symbols/frame_parts.h"
#include "tools/symbols/stack_owners.h"
#include "tools/tool.h"

typedef struct printing {
  const gp_report_input_t *input;
  gp_output_t *output;
  uint64_t *left;
} printing_t;

static void print_line(const printing_t *printing, size_t number, const char *text)
{
  char shown[2 * GP_OWNER_NAME_BYTES];
  int written = fprintf(printing->output->stream, "    #%-2zu %s\n", number,
      printing->input->request->wide
          ? text
          : gp_text_shorten(text, printing->output->columns - 8, shown, sizeof(shown)));
  *printing->left =
      written > 0 && (uint64_t)written < *printing->left ? *printing->left - (uint64_t)written : 0;
}

/* Prints the number of folded frames: "7 frames of PyTorch, CUDA and the C library; --all-frames shows
 * them". */
static void print_folded(const printing_t *printing, const size_t *counts)
{
  gp_sentence_t text = {.used = 0};
  size_t sum = 0, groups = 0, said = 0;

  for (int group = 0; group < GP_FRAME_GROUPS; group++) {
    sum += counts[group];
    groups += counts[group] > 0;
  }
  if (!sum)
    return;
  gp_sentence_add(&text, "%s of", GP_AS_PLURAL(sum, "frame"));
  for (int group = 0; group < GP_FRAME_GROUPS; group++) {
    if (!counts[group])
      continue;
    const char *before = said == 0 ? "" : said + 1 == groups ? " and" : ",";
    gp_sentence_add(&text, "%s %s", before, gp_frame_group_words((gp_frame_group_t)group));
    said++;
  }
  gp_output_say(printing->output, "    ", "%s; --all-frames shows %s", text.text, sum == 1 ? "it" : "them");
}

void gp_report_stack(const gp_report_input_t *input, const gp_snapshot_t *snapshot, int stack, uint64_t *left,
    gp_output_t *output)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  const printing_t printing = {input, output, left};
  size_t counts[GP_FRAME_GROUPS] = {0}, begin = stacks->first[stack], end = stacks->first[stack + 1];
  size_t owner = gp_stack_owner_place(snapshot, stack);
  bool is_whole = input->request->all_frames || !snapshot->frame_kinds;
  gp_owner_text_t whose;
  char text[3 * GP_OWNER_NAME_BYTES];

  if (begin == end)
    fprintf(output->stream, "    (an empty stack)\n");
  for (size_t k = begin; k < end && *left; k++) {
    const gp_snapshot_frame_kind_t *kind = is_whole ? NULL : &snapshot->frame_kinds[stacks->frame_indexes[k]];
    if (kind && k != owner && (k < owner || kind->part != GP_FRAME_OWNER)) {
      counts[kind->group]++;
    } else if (kind && k == owner && gp_stack_owner_text(snapshot, stack, &whose)) {
      print_line(&printing, k - begin, gp_owner_describe(&whose, text, sizeof(text)));
    } else {
      print_line(
          &printing, k - begin, gp_frame_describe(snapshot, stacks->frame_indexes[k], text, sizeof(text)));
    }
  }
  print_folded(&printing, counts);
}

void gp_json_add_stack_owner(cJSON *object, const char *name, const gp_snapshot_t *snapshot, int stack)
{
  gp_owner_text_t text;
  bool has_owner = gp_stack_owner_text(snapshot, stack, &text);
  cJSON *item = gp_json_add_object_or_null(object, name, has_owner);
  if (!item)
    return;
  GP_JSON_SHAPE(stack_owner);
  GP_PUT_TEXT(item, "function", text.function, "the function; else a place in a file, or the script");
  GP_PUT_TEXT_OR_NULL(item, "file", text.file, "its source file");
  GP_PUT_UINT_OR_NULL(item, "line", text.line > 0, (uint64_t)text.line, "line in that file");
  GP_PUT_TEXT_OR_NULL(item, "through", text.through, "the function through which it allocates");
  GP_PUT_TEXT_OR_NULL(item, "operation", text.operation, "the framework's operation, such as `aten::conv2d`");
  GP_PUT_UINT(item, "frame", gp_stack_owner_place(snapshot, stack) - snapshot->stacks.first[stack],
      "its index in `stack`");
}

void gp_json_add_holding(cJSON *object, const gp_holding_t *holding, const gp_snapshot_t *snapshot)
{
  GP_JSON_SHAPE(holding);
  GP_PUT_UINT(object, "blocks", holding->blocks, "how many blocks these are");
  GP_PUT_UINT(object, "size_least", holding->least, "bytes requested for the smallest");
  GP_PUT_UINT(object, "size_most", holding->most, "bytes requested for the largest");
  GP_PUT_UINT_OR_NULL(object, "freed", gp_holding_knows_frees(snapshot), holding->freed,
      "how many blocks of the same owner were freed; null: frees are not recorded");
}

void gp_json_add_owners(
    cJSON *object, const char *name, const gp_owners_t *owners, const gp_snapshot_t *snapshot)
{
  cJSON *list = cJSON_AddArrayToObject(object, name);
  for (size_t i = 0; i < owners->count; i++) {
    const gp_owner_t *owner = &owners->owners[i];
    cJSON *item = gp_json_add_item(list);
    GP_JSON_SHAPE(owner);
    GP_PUT_TEXT(item, "function", owner->function, "the function; else a place in a file, or the script");
    GP_PUT_TEXT_OR_NULL(item, "file", owner->file, "source file of the line that allocated most");
    GP_PUT_UINT_OR_NULL(item, "line", owner->line > 0, (uint64_t)owner->line, "that line");
    GP_PUT_TEXT_OR_NULL(item, "through", owner->through, "the function through which it allocates there");
    GP_PUT_TEXT_OR_NULL(item, "operation", owner->operation, "the framework's operation there");
    GP_PUT_UINT(item, "bytes", owner->bytes, "what it has allocated and not freed");
    GP_PUT_SHAPE(holding, gp_json_add_holding(item, &owner->holding, snapshot));
  }
}
