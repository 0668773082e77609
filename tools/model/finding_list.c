#include "tools/model/finding_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/shorten.h"
#include "tools/symbols/stack_owners.h"

const char *gp_severity_name(gp_severity_t severity)
{
  static const char *const names[] = {
      [GP_SEVERITY_GOOD] = "good",
      [GP_SEVERITY_NOTE] = "note",
      [GP_SEVERITY_WARNING] = "warning",
      [GP_SEVERITY_ERROR] = "error",
  };
  return names[severity];
}

#define OWNER_BYTES      384
#define OWNER_COLUMNS    120
#define REPEATED_COLUMNS 60 /* advice repeats no longer names: readers hardly find them in the list */

char *gp_findings_name_owner(const gp_owners_t *owners, size_t index, char buffer[static GP_OWNER_BYTES])
{
  static const char *const words[GP_OWNERS] = {
      "the first of them", "the second of them", "the third of them"};
  const char *text = owners->owners[index].text;
  (void)snprintf(buffer, GP_OWNER_BYTES, "%s", strlen(text) <= REPEATED_COLUMNS ? text : words[index]);
  return buffer;
}

char *gp_findings_name_stack(
    const gp_snapshot_t *snapshot, int stack, char buffer[static GP_STACK_NAME_BYTES])
{
  gp_owner_text_t text;
  char line[3 * GP_OWNER_NAME_BYTES];

  if (!gp_stack_owner_text(snapshot, stack, &text)) {
    (void)snprintf(buffer, GP_STACK_NAME_BYTES, "code without a call stack");
    return buffer;
  }
  return gp_text_shorten(
      gp_owner_describe(&text, line, sizeof(line)), OWNER_COLUMNS, buffer, GP_STACK_NAME_BYTES);
}

void gp_findings_add_owners(
    gp_sentence_t *text, const gp_owners_t *owners, uint64_t sum, const gp_snapshot_t *snapshot)
{
  char name[OWNER_BYTES], held[GP_HOLDING_BYTES];

  for (size_t i = 0; i < owners->count; i++) {
    const gp_owner_t *owner = &owners->owners[i];
    gp_sentence_add(text, "%s%s %s (%s) %s", i ? "; " : "",
        gp_text_shorten(owner->text, OWNER_COLUMNS, name, sizeof(name)), GP_AS_SIZE(owner->bytes),
        GP_AS_PERCENT((double)owner->bytes / (double)sum), gp_holding_text(&owner->holding, snapshot, held));
  }
}

static const struct {
  const char *code;
  gp_severity_t severity;
} rows[] = {
#define VARIANT(name, code, severity, text) [GP_FINDING_##name] = {#code, GP_SEVERITY_##severity},
#include "tools/model/findings.def"
};

static gp_finding_t *add(gp_findings_t *findings, gp_severity_t severity, gp_finding_row_t row, int device,
    const char *format, va_list arguments)
{
  char *text;

  gp_assert(severity != GP_SEVERITY_VARIES);
  if (findings->count == GP_FINDINGS_MOST)
    return NULL;
  if (vasprintf(&text, format, arguments) < 0) {
    findings->out_of_memory = true;
    return NULL;
  }
  /* Inserts by severity, worst first. Findings of equal severity keep their order. */
  size_t at = findings->count++;
  for (; at > 0 && findings->items[at - 1].severity < severity; at--)
    findings->items[at] = findings->items[at - 1];
  findings->items[at] = (gp_finding_t){severity, rows[row].code, device, text, .advice = NULL};
  gp_assert(at == 0 || findings->items[at - 1].severity >= severity);
  return &findings->items[at];
}

gp_finding_t *gp_findings_say(
    gp_findings_t *findings, gp_finding_row_t row, const char *format, int device, ...)
{
  va_list arguments;
  va_start(arguments, device);
  gp_finding_t *finding = add(findings, rows[row].severity, row, device, format, arguments);
  va_end(arguments);
  return finding;
}

gp_finding_t *gp_findings_say_as(gp_findings_t *findings, gp_severity_t severity, gp_finding_row_t row,
    const char *format, int device, ...)
{
  va_list arguments;
  va_start(arguments, device);
  gp_assert(rows[row].severity == GP_SEVERITY_VARIES);
  gp_finding_t *finding = add(findings, severity, row, device, format, arguments);
  va_end(arguments);
  return finding;
}

void gp_findings_advise(gp_findings_t *findings, gp_finding_t *finding, const char *format, ...)
{
  va_list arguments;
  if (!finding)
    return;
  gp_assert(!finding->advice);
  va_start(arguments, format);
  if (vasprintf(&finding->advice, format, arguments) < 0) {
    finding->advice = NULL;
    findings->out_of_memory = true;
  }
  va_end(arguments);
}

static char *copy_of(gp_findings_t *findings, const char *text)
{
  char *copy = strdup(text);
  if (!copy)
    findings->out_of_memory = true;
  return copy;
}

void gp_findings_set(gp_findings_t *findings, gp_finding_t *finding, const char *name, const char *value)
{
  if (!finding || finding->remedy.setting_count == GP_REMEDY_SETTINGS)
    return;
  struct gp_remedy_setting *setting = &finding->remedy.settings[finding->remedy.setting_count];
  *setting = (struct gp_remedy_setting){copy_of(findings, name), copy_of(findings, value)};
  finding->remedy.setting_count++;
}

void gp_findings_act(gp_findings_t *findings, gp_finding_t *finding, const char *action)
{
  if (!finding)
    return;
  gp_assert(!finding->remedy.action);
  finding->remedy.action = copy_of(findings, action);
}

void gp_findings_act_on(gp_findings_t *findings, gp_finding_t *finding, const char *action, const char *owner)
{
  gp_findings_act(findings, finding, action);
  if (finding)
    finding->remedy.owner = copy_of(findings, owner);
}

const char *gp_findings_setting(const gp_findings_t *findings, const char *name)
{
  return gp_snapshot_text(
      cJSON_GetObjectItemCaseSensitive(findings->summary->snapshot->root, "settings"), name);
}

bool gp_findings_know_settings(const gp_findings_t *findings)
{
  return gp_findings_setting(findings, "type")[0] != '\0';
}

bool gp_findings_could_have_stacks(const gp_findings_t *findings)
{
  const char *stacks = gp_findings_setting(findings, "stacks");
  return strcmp(stacks, "off") == 0 || strcmp(stacks, "auto") == 0;
}

const char *gp_findings_reason(const gp_findings_t *findings)
{
  return gp_snapshot_text(findings->summary->snapshot->root, "reason");
}

gp_finding_t *gp_findings_find(const gp_findings_t *findings, gp_finding_row_t row, int device)
{
  gp_assert(findings->count <= GP_FINDINGS_MOST);
  for (size_t i = 0; i < findings->count; i++) {
    const gp_finding_t *finding = &findings->items[i];
    if (strcmp(finding->code, rows[row].code) == 0 && (device == GP_FINDING_ALL || finding->device == device))
      return (gp_finding_t *)finding;
  }
  return NULL;
}

void gp_findings_retract(gp_finding_t *finding)
{
  free(finding->advice);
  for (size_t k = 0; k < finding->remedy.setting_count; k++) {
    free(finding->remedy.settings[k].name);
    free(finding->remedy.settings[k].value);
  }
  free(finding->remedy.action);
  free(finding->remedy.owner);
  finding->advice = NULL;
  finding->remedy = (gp_remedy_t){.setting_count = 0};
}

void gp_findings_fini(gp_findings_t *findings)
{
  for (size_t i = 0; i < findings->count; i++) {
    free(findings->items[i].text);
    gp_findings_retract(&findings->items[i]);
  }
  gp_owners_fini(&findings->owners);
  *findings = (gp_findings_t){.count = 0};
}
