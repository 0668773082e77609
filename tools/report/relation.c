#include "tools/report/relation.h"

#include <stdio.h>
#include <string.h>

#include "tools/shorten.h"
#include "tools/tool.h"

typedef enum relation {
  RELATION_UNKNOWN,
  RELATION_PROCESS,
  RELATION_PROGRAM,
  RELATION_NONE,
} relation_t;

static const cJSON *process_of(const gp_report_input_t *input)
{
  return cJSON_GetObjectItemCaseSensitive(input->snapshot->root, "process");
}

/* Returns the program's name or, for a Python interpreter, the script's; "" if unknown. Borrowed. */
static const char *program_of(const gp_report_input_t *input)
{
  const cJSON *process = process_of(input), *word;
  const char *program = gp_base_name(gp_snapshot_text(process, "program"));
  bool is_first = true;

  if (strncmp(program, "python", 6) != 0)
    return program;
  cJSON_ArrayForEach(word, cJSON_GetObjectItemCaseSensitive(process, "command_line"))
  {
    const char *text = cJSON_GetStringValue(word);
    if (!is_first && text && text[0] != '-')
      return gp_base_name(text);
    is_first = false;
  }
  return program;
}

static bool is_same_number(const gp_report_input_t *inputs, const char *name)
{
  uint64_t first, second;
  return gp_snapshot_uint(process_of(&inputs[0]), name, &first) == 1 &&
         gp_snapshot_uint(process_of(&inputs[1]), name, &second) == 1 && first == second;
}

static relation_t relation_of(const gp_report_input_t *inputs, int count)
{
  if (count != 2 || !program_of(&inputs[0])[0] || !program_of(&inputs[1])[0])
    return RELATION_UNKNOWN;
  if (strcmp(program_of(&inputs[0]), program_of(&inputs[1])) != 0)
    return RELATION_NONE;
  bool is_one = is_same_number(inputs, "pid") && is_same_number(inputs, "start_time_us") &&
                strcmp(gp_snapshot_text(process_of(&inputs[0]), "host"),
                    gp_snapshot_text(process_of(&inputs[1]), "host")) == 0;
  return is_one ? RELATION_PROCESS : RELATION_PROGRAM;
}

void gp_relation_print(gp_output_t *output, const gp_report_input_t *inputs, int count)
{
  char text[512], first[128], second[128];

  switch (relation_of(inputs, count)) {
  case RELATION_UNKNOWN:
  case RELATION_PROCESS: return;
  case RELATION_PROGRAM:
    snprintf(text, sizeof(text),
        "The snapshots are of two processes of %s: what differs is not growth over time.",
        gp_printable(program_of(&inputs[0]), first, sizeof(first)));
    break;
  case RELATION_NONE:
    snprintf(text, sizeof(text),
        "The snapshots are of different programs, %s and %s: the differences say nothing about either.",
        gp_printable(program_of(&inputs[0]), first, sizeof(first)),
        gp_printable(program_of(&inputs[1]), second, sizeof(second)));
    break;
  }
  fputs(gp_output_style(output, GP_STYLE_WARNING), output->stream);
  gp_output_wrap(output->stream, "! ", "  ", text);
  fputs(gp_output_style(output, GP_STYLE_PLAIN), output->stream);
}

void gp_relation_add(cJSON *object, const gp_report_input_t *inputs, int count)
{
  static const char *const names[] = {[RELATION_PROCESS] = "same_process",
      [RELATION_PROGRAM] = "same_program",
      [RELATION_NONE] = "different_programs"};
  GP_JSON_SHAPE(relation);
  GP_PUT_CHOICE_OR_NULL(object, "relation", "same_process|same_program|different_programs",
      names[relation_of(inputs, count)],
      "of two files: of one process, of two processes of a program, or of two programs; null: there is one file, or it is not known");
}
