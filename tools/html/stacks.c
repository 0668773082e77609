#include "tools/html/stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/saturated.h"
#include "tools/model/sites.h"
#include "tools/symbols/stack_owners.h"

size_t gp_page_name(gp_page_names_t *names, const char *text)
{
  char **name = names->error ? NULL : GP_HASH_TEXT(&names->index, names->names, names->count, text, true);
  if (!name)
    names->error = ENOMEM;
  return name ? (size_t)(name - names->names) : 0;
}

int gp_page_names_add(const gp_page_names_t *names, cJSON *list)
{
  for (size_t i = 0; i < names->count; i++) {
    cJSON *item = cJSON_CreateString(names->names[i]);
    if (!cJSON_AddItemToArray(list, item)) {
      cJSON_Delete(item);
      return ENOMEM;
    }
  }
  return names->error;
}

void gp_page_names_fini(gp_page_names_t *names)
{
  for (size_t i = 0; i < names->count; i++)
    free(names->names[i]);
  free(names->names);
  gp_hash_index_fini(&names->index);
  *names = (gp_page_names_t){0};
}

typedef struct build {
  gp_payload_t *payload;
  cJSON *columns;
  cJSON *owners;
  gp_page_names_t *names;
  gp_page_names_t owner_names; /* names of the owners, in the order of `owners` */
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

/* One stack of an owner, and the bytes that the stack requested. */
typedef struct share {
  size_t owner;
  int line;
  size_t text; /* the stack's line of text, as an index into `names` */
  int stack;
  uint64_t bytes;
} share_t;

static int compare_shares(const void *a, const void *b)
{
  const share_t *x = a, *y = b;
  if (x->owner != y->owner)
    return x->owner < y->owner ? -1 : 1;
  if (x->line != y->line)
    return x->line < y->line ? -1 : 1;
  return x->text < y->text ? -1 : x->text > y->text;
}

/* Adds an owner, described by its largest share. Ignores shares of 0 bytes, such as stacks of frees, unless
 * the owner has no other share. */
static void add_owner(build_t *build, const share_t *shares, size_t count)
{
  char line[4 * GP_OWNER_NAME_BYTES];
  uint64_t bytes = 0, most = 0;
  const share_t *largest = shares, *last = NULL;
  gp_owner_text_t text;
  size_t lines = 0;

  for (size_t i = 0; i < count; i++) {
    const share_t *share = &shares[i];
    if (!share->bytes)
      continue;
    lines += !last || last->line != share->line;
    bytes = gp_add_saturated(last && last->text == share->text ? bytes : 0, share->bytes);
    if (bytes > most) {
      most = bytes;
      largest = share;
    }
    last = share;
  }
  const char *name = build->owner_names.names[shares->owner];
  cJSON *owner = cJSON_CreateObject();
  bool has_text = gp_stack_owner_text(build->snapshot, largest->stack, &text);
  text.more_lines = lines > 1 ? lines - 1 : 0;
  cJSON_AddStringToObject(owner, "name", name);
  cJSON_AddStringToObject(owner, "text", has_text ? gp_owner_describe(&text, line, sizeof(line)) : name);
  if (!cJSON_AddItemToArray(build->owners, owner)) {
    cJSON_Delete(owner);
    build->owner_names.error = ENOMEM;
  }
}

/* Adds the owners. Each is described by the line that requested the most bytes, as in `gpupool summary`. */
static void add_owners(build_t *build, const gp_lifetimes_t *lifetimes, share_t *shares, size_t count)
{
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->stack >= 0 && life->kind != GP_LIFE_HOST)
      shares[life->stack].bytes = gp_add_saturated(shares[life->stack].bytes, life->requested);
  }
  if (count > 1)
    qsort(shares, count, sizeof(*shares), compare_shares);
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && shares[end].owner == shares[i].owner; end++)
      continue;
    add_owner(build, &shares[i], end - i);
  }
}

static int add_stacks(build_t *build, const gp_lifetimes_t *lifetimes)
{
  const gp_snapshot_stacks_t *stacks = &build->snapshot->stacks;
  gp_payload_column_t *first = column(build, "stack.first", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *frames = column(build, "stack.frames", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA),
                      *owner = column(build, "stack.owner", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA),
                      *place = column(build, "stack.place", GP_PAYLOAD_I32, GP_PAYLOAD_DELTA),
                      *line = column(build, "stack.text", GP_PAYLOAD_U32, GP_PAYLOAD_DELTA);
  char name[GP_SITE_NAME_BYTES], buffer[4 * GP_OWNER_NAME_BYTES];
  share_t *shares = calloc(stacks->count + 1, sizeof(*shares));

  if (!shares)
    return ENOMEM;
  gp_payload_add(first, 0);
  for (size_t i = 0; i < stacks->count; i++) {
    gp_owner_text_t text;
    share_t *share = &shares[i];
    size_t owner_place = gp_stack_owner_place(build->snapshot, (int)i);
    for (size_t k = stacks->first[i]; k < stacks->first[i + 1]; k++)
      gp_payload_add(frames, stacks->frame_indexes[k]);
    gp_payload_add(first, (int64_t)stacks->first[i + 1]);
    const char *said = gp_site_owner(build->snapshot, (int)i, GP_SITE_BY_FUNCTION, name);
    share->owner = gp_page_name(&build->owner_names, said);
    if (gp_stack_owner_text(build->snapshot, (int)i, &text))
      said = gp_owner_describe(&text, buffer, sizeof(buffer));
    share->text = gp_page_name(build->names, said);
    share->line = text.line;
    share->stack = (int)i;
    gp_payload_add(owner, (int64_t)share->owner);
    gp_payload_add(place, owner_place == SIZE_MAX ? -1 : (int64_t)(owner_place - stacks->first[i]));
    gp_payload_add(line, (int64_t)share->text);
  }
  if (!build->owner_names.error)
    add_owners(build, lifetimes, shares, stacks->count);
  free(shares);
  return build->owner_names.error;
}

/* Adds each stack's bytes and count for one measure. The last row is for memory without a stack. */
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
  int error = add_stacks(&build, lifetimes);
  gp_page_names_fini(&build.owner_names);
  return !error && has_sums ? add_all_sums(&build, lifetimes, filter) : error;
}
