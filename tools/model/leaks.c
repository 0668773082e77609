#include "tools/model/leaks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/hash_index.h"
#include "tools/saturated.h"

/* Identifies a frame by two independent hashes. The joined names of all stacks could need any amount of
 * memory, because names may be long and many stacks may share them. */
typedef struct digest {
  uint64_t parts[2]; /* both 0: not computed yet */
} digest_t;

static void digest_text(digest_t *digest, const char *text)
{
  const unsigned char *p = (const unsigned char *)text;
  do {
    digest->parts[0] = (digest->parts[0] ^ *p) * UINT64_C(0x100000001b3); /* FNV-1a */
    digest->parts[1] = (digest->parts[1] + *p) * UINT64_C(0x9e3779b97f4a7c15);
    digest->parts[1] ^= digest->parts[1] >> 29;
  } while (*p++);
}

static digest_t digest_frame(const gp_snapshot_t *snapshot, int index)
{
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  const gp_snapshot_module_t *module = frame->module >= 0 ? &snapshot->modules[frame->module] : NULL;
  digest_t digest = {{UINT64_C(0xcbf29ce484222325), 1}};
  char place[32];
  if (frame->function[0]) {
    digest_text(&digest, frame->function);
    digest_text(&digest, frame->file);
    snprintf(place, sizeof(place), "%d", frame->line);
  } else {
    digest_text(&digest, module ? module->path : "");
    snprintf(place, sizeof(place), "+%" PRIx64, frame->address - (module ? module->bias : 0));
  }
  digest_text(&digest, place);
  return digest;
}

/* Returns a text that is equal for stacks of equal frames, even in different snapshots, or NULL if memory
 * runs out. `digests` has one element per frame, initially zero. */
static char *make_stack_key(const gp_snapshot_t *snapshot, int stack, digest_t *digests)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  if (!stream)
    return NULL;
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++) {
    int frame = stacks->frame_indexes[k];
    if (!digests[frame].parts[0] && !digests[frame].parts[1])
      digests[frame] = digest_frame(snapshot, frame);
    fprintf(stream, "%016" PRIx64 "%016" PRIx64, digests[frame].parts[0], digests[frame].parts[1]);
  }
  bool failed = ferror(stream);
  if (fclose(stream) != 0 || failed) {
    free(text);
    return NULL;
  }
  return text;
}

/* The leak of the latest life with this stack on this device. The next life usually has the same leak. */
typedef struct last {
  size_t leak; /* index of the leak plus one; 0: none yet */
  const char *kind;
} last_t;

typedef struct build {
  gp_leaks_t *leaks;
  gp_hash_index_t by_key; /* leaks by key */
  char **stack_keys;      /* by stack of the snapshot being read; NULL: not made yet */
  digest_t *digests;      /* by frame of the snapshot being read */
  last_t *lasts;          /* latest leak of each stack and device */
  size_t device_count;
} build_t;

static gp_leak_t *find_leak(build_t *build, const gp_lifetimes_t *lifetimes, const gp_life_t *life)
{
  const gp_snapshot_t *snapshot = lifetimes->snapshot;
  const char *kind = gp_life_what(life);
  gp_leaks_t *leaks = build->leaks;
  char *key = NULL;

  if (life->stack >= 0 && !build->stack_keys[life->stack])
    build->stack_keys[life->stack] = make_stack_key(snapshot, life->stack, build->digests);
  if (life->stack >= 0 && !build->stack_keys[life->stack])
    return NULL;
  int length =
      life->stack >= 0
          ? asprintf(&key, "%d %s %s", life->device, kind ? kind : "", build->stack_keys[life->stack])
          : asprintf(&key, "%d %s = %" PRIu64, life->device, kind ? kind : "", life->requested);
  gp_leak_t *leak = length < 0 ? NULL : GP_HASH_TEXT(&build->by_key, leaks->leaks, leaks->count, key, false);
  if (!leak || leak->key != key) {
    free(length < 0 ? NULL : key);
    return leak;
  }
  *leak = (gp_leak_t){.key = key,
      .snapshot = snapshot,
      .kind = kind,
      .device = life->device,
      .stack = life->stack,
      .requested = life->requested,
      .thread = GP_FILTER_UNKNOWN,
      .first_ns = UINT64_MAX};
  return leak;
}

static last_t *last_of(const build_t *build, const gp_life_t *life)
{
  return &build->lasts[(size_t)life->stack * build->device_count + life->device];
}

/* Returns the leak that a life belongs to, and adds it if missing. Returns NULL if memory runs out. */
static gp_leak_t *leak_of(build_t *build, const gp_lifetimes_t *lifetimes, const gp_life_t *life)
{
  last_t *last = life->stack >= 0 ? last_of(build, life) : NULL;

  if (last && last->leak && last->kind == gp_life_what(life))
    return &build->leaks->leaks[last->leak - 1];
  gp_leak_t *leak = find_leak(build, lifetimes, life);
  if (leak && last)
    *last = (last_t){(size_t)(leak - build->leaks->leaks) + 1, gp_life_what(life)};
  return leak;
}

static void count_life(gp_leak_t *leak, const gp_lifetimes_t *lifetimes, const gp_life_t *life)
{
  leak->bytes = gp_add_saturated(leak->bytes, life->requested);
  leak->is_of_several |= leak->count > 0 && leak->thread != life->thread;
  leak->thread = leak->count > 0 ? leak->thread : life->thread;
  leak->count++;
  gp_holding_add(&leak->holding, life->requested);
  leak->is_before_events |= life->begin_ns == 0 && life->thread == GP_FILTER_UNKNOWN;
  leak->first_ns = life->begin_ns < leak->first_ns ? life->begin_ns : leak->first_ns;
  leak->snapshot = lifetimes->snapshot;
  leak->stack = life->stack;
}

/* Counts the frees of each leak. Call it after counting all lives in use, because frees matter only for
 * stacks with memory in use. */
static int count_frees(build_t *build, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->is_held || life->stack < 0 || !last_of(build, life)->leak || !gp_lifetimes_has(filter, life))
      continue;
    gp_leak_t *leak = leak_of(build, lifetimes, life);
    if (!leak)
      return ENOMEM;
    leak->holding.freed++;
  }
  return 0;
}

static int count_lives(
    build_t *build, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, bool is_last)
{
  int error = 0;
  size_t stacks = lifetimes->snapshot->stacks.count;
  build->stack_keys = calloc(stacks + 1, sizeof(*build->stack_keys));
  build->digests = calloc(lifetimes->snapshot->frame_count + 1, sizeof(*build->digests));
  build->device_count = 1;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    if (lifetimes->lives[i].device >= build->device_count)
      build->device_count = lifetimes->lives[i].device + 1u;
  }
  build->lasts = calloc((stacks + 1) * build->device_count, sizeof(*build->lasts));
  if (!build->stack_keys || !build->digests || !build->lasts)
    error = ENOMEM;
  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (!life->is_held || !gp_lifetimes_has(filter, life))
      continue;
    gp_leak_t *leak = leak_of(build, lifetimes, life);
    if (!leak) {
      error = ENOMEM;
    } else if (is_last) {
      count_life(leak, lifetimes, life);
    } else {
      leak->bytes_before = gp_add_saturated(leak->bytes_before, life->requested);
      leak->count_before++;
    }
  }
  if (!error && is_last)
    error = count_frees(build, lifetimes, filter);
  for (size_t i = 0; build->stack_keys && i < stacks; i++)
    free(build->stack_keys[i]);
  free(build->stack_keys);
  free(build->digests);
  free(build->lasts);
  return error;
}

/* Keeps the leaks that grew and are not suppressed, and sums them. */
static void choose(gp_leaks_t *leaks, gp_suppressions_t *suppressions)
{
  size_t kept = 0;
  for (size_t i = 0; i < leaks->count; i++) {
    gp_leak_t *leak = &leaks->leaks[i];
    uint64_t bytes = gp_leak_bytes(leak), count = gp_leak_count(leak);
    bool is_growth = bytes > 0 || count > 0;
    gp_assert(leak->count || leak->count_before || leak->holding.freed);
    bool is_host = leak->kind && strcmp(leak->kind, "pinned_host") == 0;
    gp_suppression_t *suppression =
        is_growth ? gp_suppressions_find(suppressions, leak->snapshot, leak->stack) : NULL;
    if (suppression) {
      suppression->bytes = gp_add_saturated(suppression->bytes, bytes);
      suppression->count += count;
      leaks->suppressed_bytes = gp_add_saturated(leaks->suppressed_bytes, bytes);
      leaks->suppressed_allocations += count;
    } else if (is_growth && is_host) {
      leaks->host_bytes = gp_add_saturated(leaks->host_bytes, bytes);
      leaks->host_allocations += count;
    } else if (is_growth) {
      leaks->bytes = gp_add_saturated(leaks->bytes, bytes);
      leaks->allocations += count;
    }
    if (!is_growth || suppression)
      free(leak->key);
    else
      leaks->leaks[kept++] = *leak;
  }
  leaks->count = kept;
}

static int compare(const void *a, const void *b)
{
  const gp_leak_t *x = a, *y = b;
  if ((x->stack < 0) != (y->stack < 0)) /* leaks without a stack come last */
    return x->stack < 0 ? 1 : -1;
  if (gp_leak_bytes(x) != gp_leak_bytes(y))
    return gp_leak_bytes(x) > gp_leak_bytes(y) ? -1 : 1;
  if (x->first_ns != y->first_ns)
    return x->first_ns < y->first_ns ? -1 : 1;
  return strcmp(x->key, y->key);
}

int gp_leaks_init(gp_leaks_t *leaks, const gp_lifetimes_t *lifetimes, const gp_filter_t *const *filters,
    int count, gp_suppressions_t *suppressions)
{
  build_t build = {.leaks = leaks};
  int error = 0;

  *leaks = (gp_leaks_t){0};
  for (int i = 0; !error && i < count; i++)
    error = count_lives(&build, &lifetimes[i], filters[i], i == count - 1);
  gp_hash_index_fini(&build.by_key);
  if (error)
    return error;
  choose(leaks, suppressions);
  if (leaks->count > 1)
    qsort(leaks->leaks, leaks->count, sizeof(*leaks->leaks), compare);
  return 0;
}

void gp_leaks_fini(gp_leaks_t *leaks)
{
  for (size_t i = 0; i < leaks->count; i++)
    free(leaks->leaks[i].key);
  free(leaks->leaks);
  *leaks = (gp_leaks_t){0};
}
