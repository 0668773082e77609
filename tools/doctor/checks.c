#include "tools/doctor/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "tools/json_print.h"
#include "tools/output.h"
#include "tools/tool.h"

static const char *const state_names[] = {
    [GP_CHECK_GOOD] = "ok", [GP_CHECK_NOTE] = "note", [GP_CHECK_BAD] = "change"};

void gp_checks_add(gp_checks_t *checks, const char *name, gp_check_state_t state, const char *format, ...)
{
  va_list arguments;
  if (checks->count == GP_CHECKS_MOST)
    return;
  gp_check_t *check = &checks->items[checks->count++];
  check->name = name;
  check->state = state;
  check->remedy[0] = '\0';
  va_start(arguments, format);
  vsnprintf(check->text, sizeof(check->text), format, arguments); /* truncates */
  va_end(arguments);
}

void gp_checks_remedy(gp_checks_t *checks, const char *format, ...)
{
  va_list arguments;
  gp_check_t *check = &checks->items[checks->count - 1];
  va_start(arguments, format);
  vsnprintf(check->remedy, sizeof(check->remedy), format, arguments); /* truncates */
  va_end(arguments);
}

void gp_checks_print(const gp_checks_t *checks)
{
  static char line[2 * GP_CHECK_TEXT_BYTES + 64];
  char first[32], safe[2 * GP_CHECK_TEXT_BYTES + 64];
  size_t changes = 0;

  for (size_t i = 0; i < checks->count; i++) {
    const gp_check_t *check = &checks->items[i];
    changes += check->state == GP_CHECK_BAD;
    snprintf(first, sizeof(first), "%-7s %-10s", state_names[check->state], check->name);
    snprintf(line, sizeof(line), "%s%s%s", check->text, check->remedy[0] ? ". Remedy: " : "", check->remedy);
    gp_output_wrap(stdout, first, "                  ", gp_printable(line, safe, sizeof(safe)));
  }
  if (changes)
    printf("\n%zu to change.\n", changes);
  else
    printf("\n"
           "Nothing needs to be changed.\n");
}

int gp_checks_print_json(const gp_checks_t *checks)
{
  cJSON *root = gp_json_document("doctor");
  GP_JSON_DOCUMENT(doctor);
  cJSON *list = GP_PUT_LIST(root, "checks", check, "what was checked, in order");

  for (size_t i = 0; i < checks->count && list; i++) {
    cJSON *item = gp_json_add_item(list);
    GP_JSON_SHAPE(check);
    GP_PUT_TEXT(item, "name", checks->items[i].name, "what was checked: `driver`, `library` ...");
    GP_PUT_CHOICE(item, "state", "ok|note|change", state_names[checks->items[i].state],
        "`note`: worth knowing; `change`: the library cannot work like this");
    GP_PUT_TEXT(item, "text", checks->items[i].text, "what was found");
    GP_PUT_TEXT_OR_NULL(item, "remedy", checks->items[i].remedy, "what to do; null: nothing");
  }
  return gp_json_put(root);
}
