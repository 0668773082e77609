#include "tools/html/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/model/saturated.h"
#include "tools/model/sites.h"
#include "tools/symbols/stack_owners.h"

typedef struct build {
  gp_payload_t *payload;
  cJSON *columns;
  cJSON *owners;
  gp_page_names_t *names;
  gp_page_names_t owner_names; /* in the order of the list */
  const gp_snapshot_t *snapshot;
} build_t;

static gp_payload_column_t *column(
    build_t *build, const char *name, gp_payload_array_t array, gp_payload_encoding_t encoding)
{
  return gp_payload_column(build->payload, build->columns, name, array, encoding);
}

static void add_frames(build_t *build)
{
  const gp_snapshot_t *snapshot = build->snapshot;
  gp_payload_column_t *function = column(build, "frame.function", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *file = column(build, "frame.file", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *line = column(build, "frame.line", GP_PAYLOAD_U32, GP_PAYLOAD_VARINT),
                      *module = column(build, "frame.module", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA),
                      *part = column(build, "frame.part", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE),
                      *group = column(build, "frame.group", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE),
                      *python = column(build, "frame.python", GP_PAYLOAD_U8, GP_PAYLOAD_BYTE);
  char name[GP_OWNER_NAME_BYTES];

  for (size_t i = 0; i < snapshot->frame_count; i++) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[i];
    const gp_snapshot_frame_kind_t kind =
        snapshot->frame_kinds ? snapshot->frame_kinds[i] : (gp_snapshot_frame_kind_t){0};
    gp_payload_add(function,
        (int64_t)gp_page_name(build->names, gp_frame_short_function(snapshot, (int)i, name, sizeof(name))));
    gp_payload_add(file, (int64_t)gp_page_name(build->names, frame->file));
    gp_payload_add(line, frame->line > 0 ? frame->line : 0);
    gp_payload_add(module,
        frame->module >= 0 ? (int64_t)gp_page_name(build->names, snapshot->modules[frame->module].path) : -1);
    gp_payload_add(part, kind.part);
    gp_payload_add(group, kind.group);
    gp_payload_add(python, kind.is_python);
  }
}

/* The owner's index in the list; adds a new one. -1: no memory. */
static int64_t owner_of(build_t *build, int stack)
{
  char name[GP_SITE_NAME_BYTES], line[4 * GP_OWNER_NAME_BYTES];
  gp_owner_text_t text;
  size_t known = build->owner_names.count;
  size_t index =
      gp_page_name(&build->owner_names, gp_site_owner(build->snapshot, stack, GP_SITE_BY_FUNCTION, name));

  if (build->owner_names.error)
    return -1;
  if (index < known)
    return (int64_t)index;
  cJSON *owner = cJSON_CreateObject();
  cJSON_AddStringToObject(owner, "name", name);
  if (gp_stack_owner_text(build->snapshot, stack, &text)) {
    cJSON_AddStringToObject(owner, "text", gp_owner_describe(&text, line, sizeof(line)));
    cJSON_AddStringToObject(owner, "file", text.file);
    cJSON_AddNumberToObject(owner, "line", text.line);
  } else {
    cJSON_AddStringToObject(owner, "text", name);
    cJSON_AddStringToObject(owner, "file", "");
    cJSON_AddNumberToObject(owner, "line", 0);
  }
  if (!cJSON_AddItemToArray(build->owners, owner)) {
    cJSON_Delete(owner);
    build->owner_names.error = ENOMEM;
  }
  return (int64_t)index;
}

static void add_stacks(build_t *build)
{
  const gp_snapshot_stacks_t *stacks = &build->snapshot->stacks;
  gp_payload_column_t *first = column(build, "stack.first", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *frames = column(build, "stack.frames", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *owner = column(build, "stack.owner", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA);

  gp_payload_add(first, 0);
  for (size_t i = 0; i < stacks->count; i++) {
    for (size_t k = stacks->first[i]; k < stacks->first[i + 1]; k++)
      gp_payload_add(frames, stacks->frame_indexes[k]);
    gp_payload_add(first, (int64_t)stacks->first[i + 1]);
    gp_payload_add(owner, owner_of(build, (int)i));
  }
}

/* Adds what each stack asked for by one measure; the last row is for memory without a stack. */
static void add_sums(build_t *build, const gp_sites_t *sites, gp_site_measure_t measure,
    const char *bytes_name, const char *count_name)
{
  size_t count = build->snapshot->stacks.count;
  gp_payload_column_t *bytes = column(build, bytes_name, GP_PAYLOAD_F64, GP_PAYLOAD_VARINT),
                      *counts = column(build, count_name, GP_PAYLOAD_F64, GP_PAYLOAD_VARINT);
  gp_site_amount_t left = sites->sums[measure];

  for (size_t i = 0; i < count; i++) {
    const gp_site_amount_t amount = sites->stacks ? sites->stacks[i][measure] : (gp_site_amount_t){0};
    gp_payload_add(bytes, (int64_t)(amount.bytes & INT64_MAX));
    gp_payload_add(counts, (int64_t)amount.count);
    left.bytes = gp_subtract_saturated(left.bytes, amount.bytes);
    left.count -= amount.count;
  }
  gp_payload_add(bytes, (int64_t)(left.bytes & INT64_MAX));
  gp_payload_add(counts, (int64_t)left.count);
}

static int add_oom_sums(build_t *build, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  gp_oom_events_t ooms = {0};
  gp_sites_t sites = {0};
  gp_moments_t moments;
  int error = gp_oom_events_init(&ooms, lifetimes);
  size_t main = error ? SIZE_MAX : gp_oom_events_main(&ooms, filter->device);

  if (main != SIZE_MAX && ooms.events[main].has_moment) {
    gp_moments_oom(&moments, lifetimes, &ooms.events[main], main + 1);
    error = gp_sites_init(&sites, lifetimes, filter, &moments, GP_SITE_BY_FUNCTION, NULL, NULL);
    if (!error)
      add_sums(build, &sites, GP_SITE_LIVE, "stack.oom_bytes", "stack.oom_count");
    gp_sites_fini(&sites);
  }
  gp_oom_events_fini(&ooms);
  return error;
}

static int add_all_sums(build_t *build, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  gp_sites_t sites;
  gp_moments_t end;

  gp_moments_end(&end, lifetimes);
  int error = gp_sites_init(&sites, lifetimes, filter, &end, GP_SITE_BY_FUNCTION, NULL, NULL);
  if (!error) {
    add_sums(build, &sites, GP_SITE_LIVE, "stack.live_bytes", "stack.live_count");
    add_sums(build, &sites, GP_SITE_PEAK, "stack.peak_bytes", "stack.peak_count");
    add_sums(build, &sites, GP_SITE_TOTAL, "stack.total_bytes", "stack.total_count");
    add_sums(build, &sites, GP_SITE_TEMPORARY, "stack.temporary_bytes", "stack.temporary_count");
  }
  gp_sites_fini(&sites);
  return error ? error : add_oom_sums(build, lifetimes, filter);
}

int gp_page_add_stacks(gp_payload_t *payload, cJSON *columns, cJSON *file, gp_page_names_t *names,
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, bool has_sums)
{
  build_t build = {.payload = payload,
      .columns = columns,
      .owners = cJSON_AddArrayToObject(file, "owners"),
      .names = names,
      .snapshot = lifetimes->snapshot};

  add_frames(&build);
  add_stacks(&build);
  int error = build.owner_names.error;
  gp_page_names_fini(&build.owner_names);
  return !error && has_sums ? add_all_sums(&build, lifetimes, filter) : error;
}
