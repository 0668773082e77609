#include "tools/model/remedies.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char conf_name[] = "PYTORCH_CUDA_ALLOC_CONF";

/* Returns the length of the first "name:value" in a configuration. The value may be a list in brackets, which
 * may contain commas. */
static size_t item_length(const char *conf)
{
  size_t length = 0;
  for (int depth = 0; conf[length] && (depth > 0 || conf[length] != ','); length++)
    depth += (conf[length] == '[') - (conf[length] == ']');
  return length;
}

static bool is_named(const char *item, size_t length, const char *name)
{
  size_t blank = strspn(item, " ");
  return length >= blank + strlen(name) + 1 && strncmp(item + blank, name, strlen(name)) == 0 &&
         item[blank + strlen(name)] == ':';
}

static bool has_item(const char *conf, const char *name)
{
  for (size_t length; *conf; conf += length + (conf[length] == ',')) {
    length = item_length(conf);
    if (is_named(conf, length, name))
      return true;
  }
  return false;
}

/* Copies `conf` to buffer without the item `name`, and appends `added` unless it is NULL. Returns false if
 * the result is too long. */
static bool make_conf(const char *conf, const char *name, const char *added, char buffer[GP_CONF_BYTES])
{
  size_t used = 0;

  buffer[0] = '\0';
  for (size_t length; *conf; conf += length + (conf[length] == ',')) {
    length = item_length(conf);
    if (is_named(conf, length, name))
      continue;
    if (used + length + 2 > GP_CONF_BYTES)
      return false;
    used +=
        (size_t)snprintf(buffer + used, GP_CONF_BYTES - used, "%s%.*s", used ? "," : "", (int)length, conf);
  }
  if (added && used + strlen(added) + 2 > GP_CONF_BYTES)
    return false;
  if (added)
    snprintf(buffer + used, GP_CONF_BYTES - used, "%s%s", used ? "," : "", added);
  return true;
}

/* Returns true if the snapshot was written on Windows, where paths begin with a drive. The reader has
 * replaced backslashes with slashes. */
static bool is_of_windows(const gp_snapshot_t *snapshot)
{
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    const char *file = snapshot->frames[i].file;
    if (isalpha((unsigned char)file[0]) && file[1] == ':' && file[2] == '/')
      return true;
  }
  return false;
}

bool gp_remedies_expand(gp_findings_t *findings, gp_finding_t *finding, char conf[static GP_CONF_BYTES])
{
  if (strcmp(gp_findings_setting(findings, "expandable_segments"), "0") != 0 ||
      is_of_windows(findings->summary->snapshot) ||
      !make_conf(
          gp_findings_setting(findings, conf_name), "expandable_segments", "expandable_segments:True", conf))
    return false;
  gp_findings_retract(finding);
  gp_findings_set(findings, finding, conf_name, conf);
  return true;
}

/* Advises expandable segments if enough memory was idle when memory ran out, but not in one piece. */
static void join_pieces(gp_findings_t *findings, gp_finding_t *oom)
{
  const gp_oom_moment_t *then = &findings->summary->oom;
  char conf[GP_CONF_BYTES];
  if (then->usable >= then->event.requested && then->figures.largest_free < then->event.requested &&
      gp_remedies_expand(findings, oom, conf))
    gp_findings_advise(findings, oom, GP_ADVICE(oom_expandable), conf);
}

static void round_less(gp_findings_t *findings, gp_finding_t *rounding)
{
  static const char name[] = "roundup_power2_divisions";
  const char *conf = gp_findings_setting(findings, conf_name);
  char without[GP_CONF_BYTES];
  if (!has_item(conf, name) || !make_conf(conf, name, NULL, without))
    return;
  gp_findings_advise(findings, rounding, GP_ADVICE(rounding_of_pytorch), without);
  gp_findings_set(findings, rounding, conf_name, without);
}

static bool sets_the_same(const gp_finding_t *a, const gp_finding_t *b)
{
  const gp_remedy_t *x = &a->remedy, *y = &b->remedy;
  return x->setting_count == 1 && y->setting_count == 1 && x->settings[0].name && y->settings[0].name &&
         x->settings[0].value && y->settings[0].value &&
         strcmp(x->settings[0].name, y->settings[0].name) == 0 &&
         strcmp(x->settings[0].value, y->settings[0].value) == 0;
}

/* If several findings advise the same setting, keeps the advice only in the worst one. If several are equally
 * bad, keeps it in the first. */
static void say_once(gp_findings_t *findings)
{
  for (size_t i = 0; i < findings->count; i++) {
    for (size_t k = i + 1; k < findings->count; k++) {
      gp_finding_t *first = &findings->items[i], *other = &findings->items[k];
      if (sets_the_same(first, other))
        gp_findings_retract(other->severity > first->severity ? first : other);
    }
  }
}

void gp_remedies_settle_pytorch(gp_findings_t *findings)
{
  gp_finding_t *oom = gp_findings_find(findings, GP_FINDING_oom, GP_FINDING_ALL), *rounding;

  if (gp_findings_know_settings(findings)) /* gpupool wrote the snapshot */
    return;
  if (oom && oom->device >= 0)
    join_pieces(findings, oom);
  for (size_t i = 0; i < findings->summary->device_count; i++) {
    rounding = gp_findings_find(findings, GP_FINDING_rounding, findings->summary->devices[i].device->device);
    if (rounding && !rounding->advice)
      round_less(findings, rounding);
  }
  say_once(findings);
}
