#include "tools/model/owners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/saturated.h"
#include "tools/symbols/stack_owners.h"

/* The memory that one stack has in use or has freed. A stack belongs to an owner and to a place in it. */
typedef struct share {
  char *key;    /* identifies the owner in comparisons */
  char *detail; /* identifies the place in the owner in comparisons */
  int stack;
  uint64_t bytes;
  gp_holding_t holding;
} share_t;

typedef struct build {
  const gp_snapshot_t *snapshot;
  share_t *shares;
  size_t count;
} build_t;

/* The shares of one owner: [first, end) in the sorted list. */
typedef struct group {
  size_t first;
  size_t end;
  uint64_t bytes;
  gp_holding_t holding;
} group_t;

/* Returns true if each line of the function is an owner of its own. This holds where a program begins, and in
 * functions with a common name. */
static bool is_by_line(const gp_snapshot_t *snapshot, int stack)
{
  return snapshot->frame_kinds && snapshot->frame_kinds[gp_stack_owner(snapshot, stack)].is_common;
}

/* Makes the key and the detail of a share. The file is part of the key, because Python functions in different
 * files often share a name. */
static int describe_share(const gp_snapshot_t *snapshot, share_t *share)
{
  gp_owner_text_t text;
  char place[48];

  (void)gp_stack_owner_text(snapshot, share->stack, &text);
  int frame = gp_stack_owner(snapshot, share->stack);
  snprintf(place, sizeof(place), "%d %llx", text.line,
      text.line || snapshot->frames[frame].function[0] ? 0ULL
                                                       : (unsigned long long)snapshot->frames[frame].address);
  bool is_script = text.language != NULL;
  if (asprintf(&share->key, "%s\n%s\n%s\n%s", text.function, text.file,
          is_by_line(snapshot, share->stack) ? place : "",
          is_script ? text.operation[0] ? text.operation : text.through : "") < 0)
    share->key = NULL;
  if (asprintf(&share->detail, "%s\n%s\n%s", place, text.operation, text.through) < 0)
    share->detail = NULL;
  return share->key && share->detail ? 0 : ENOMEM;
}

static int measure(build_t *build, gp_owners_t *owners, const gp_lifetimes_t *lifetimes,
    const gp_filter_t *filter, const gp_moments_t *moments, gp_owned_t owned)
{
  size_t stacks = build->snapshot->stacks.count;
  share_t *shares = build->shares = calloc(stacks + 1, sizeof(*build->shares));
  if (!shares)
    return ENOMEM;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    bool is_held = gp_moments_hold(moments, life);
    bool has_owner = life->stack >= 0 && gp_stack_owner(build->snapshot, life->stack) >= 0;
    if ((!is_held && !has_owner) || (life->kind == GP_LIFE_HOST) != (owned == GP_OWNED_HOST) ||
        !gp_lifetimes_has(filter, life))
      continue;
    if (!is_held) {
      shares[life->stack].holding.freed += gp_moments_freed(moments, life);
      continue;
    }
    owners->bytes = gp_add_saturated(owners->bytes, life->requested);
    if (has_owner) {
      shares[life->stack].bytes = gp_add_saturated(shares[life->stack].bytes, life->requested);
      gp_holding_add(&shares[life->stack].holding, life->requested);
      shares[life->stack].holding.is_passing |= !moments->is_end && !moments->oom && !life->is_held;
    } else {
      owners->unknown_bytes = gp_add_saturated(owners->unknown_bytes, life->requested);
    }
  }
  int error = 0;
  for (size_t i = 0; i < stacks && !error; i++) {
    if (!shares[i].bytes && !shares[i].holding.freed)
      continue;
    share_t *share = &shares[build->count++];
    *share = shares[i]; /* move the share to the front, or leave it in place */
    share->stack = (int)i;
    error = describe_share(build->snapshot, share);
  }
  gp_assert(owners->unknown_bytes <= owners->bytes);
  return error;
}

static int compare_shares(const void *a, const void *b)
{
  const share_t *x = a, *y = b;
  int order = strcmp(x->key, y->key);
  return order ? order : strcmp(x->detail, y->detail);
}

/* Adds the next shares that belong to one line to the group. Does not count the frees of a line without
 * memory in use, because they say nothing about the other lines. */
static void join_line(const build_t *build, group_t *group)
{
  const share_t *first = &build->shares[group->end];
  gp_holding_t holding = {.blocks = 0};
  size_t place = strcspn(first->detail, "\n") + 1;

  for (; group->end < build->count; group->end++) {
    const share_t *share = &build->shares[group->end];
    if (strcmp(first->key, share->key) != 0 || strncmp(first->detail, share->detail, place) != 0)
      break;
    group->bytes = gp_add_saturated(group->bytes, share->bytes);
    gp_holding_join(&holding, &share->holding);
  }
  if (holding.blocks)
    gp_holding_join(&group->holding, &holding);
}

/* Finds the largest owners, at most GP_OWNERS, and returns their number. The shares must be sorted. */
static size_t largest_groups(const build_t *build, group_t *ret_groups)
{
  size_t count = 0;
  for (size_t first = 0; first < build->count;) {
    group_t group = {.first = first, .end = first};
    while (group.end < build->count && strcmp(build->shares[first].key, build->shares[group.end].key) == 0)
      join_line(build, &group);
    size_t at = count;
    while (at > 0 && ret_groups[at - 1].bytes < group.bytes)
      at--;
    if (at < GP_OWNERS && group.bytes > 0) {
      count += count < GP_OWNERS;
      memmove(&ret_groups[at + 1], &ret_groups[at], (count - 1 - at) * sizeof(group));
      ret_groups[at] = group;
      gp_assert(at == 0 || ret_groups[at - 1].bytes >= group.bytes);
    }
    gp_assert(group.end > first);
    first = group.end;
  }
  return count;
}

/* Returns a stack of the place with the most memory in use, and the owner's number of lines in *ret_lines. */
static int largest_place(const build_t *build, const group_t *group, size_t *ret_lines)
{
  uint64_t most = 0, bytes = 0;
  int stack = build->shares[group->first].stack, line = -1;
  const share_t *last = NULL;

  *ret_lines = 0;
  for (size_t i = group->first; i < group->end; i++) {
    const share_t *share = &build->shares[i];
    if (!share->bytes)
      continue;
    bool is_same = last && strcmp(share->detail, last->detail) == 0;
    last = share;
    int its = atoi(share->detail);
    bytes = is_same ? gp_add_saturated(bytes, share->bytes) : share->bytes;
    if (bytes > most) {
      most = bytes;
      stack = share->stack;
    }
    *ret_lines += its != line;
    line = its;
  }
  return stack;
}

static bool copy(const char *text, char **ret_copy)
{
  *ret_copy = text[0] ? strdup(text) : NULL;
  return *ret_copy || !text[0];
}

static int describe_owner(const build_t *build, const group_t *group, gp_owner_t *owner)
{
  gp_owner_text_t text;
  char line[3 * GP_OWNER_NAME_BYTES];

  *owner = (gp_owner_t){.bytes = group->bytes, .holding = group->holding};
  int stack = largest_place(build, group, &owner->line_count);
  (void)gp_stack_owner_text(build->snapshot, stack, &text);
  owner->line = text.line;
  owner->language = text.language;
  text.language = NULL; /* another finding reports that the script's frames are missing */
  text.more_lines = owner->line_count - 1;
  bool good = copy(text.function, &owner->function) && copy(text.file, &owner->file) &&
              copy(text.through, &owner->through) && copy(text.operation, &owner->operation) &&
              copy(gp_owner_describe(&text, line, sizeof(line)), &owner->text);
  return good ? 0 : ENOMEM;
}

int gp_owners_init(gp_owners_t *owners, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_owned_t owned)
{
  build_t build = {.snapshot = lifetimes->snapshot};
  group_t groups[GP_OWNERS];

  *owners = (gp_owners_t){.count = 0};
  int error = measure(&build, owners, lifetimes, filter, moments, owned);
  if (!error && build.count > 1)
    qsort(build.shares, build.count, sizeof(*build.shares), compare_shares);
  size_t count = error ? 0 : largest_groups(&build, groups);
  for (size_t i = 0; !error && i < count; i++)
    error = describe_owner(&build, &groups[i], &owners->owners[owners->count++]);
  for (size_t i = 0; i < build.count; i++) {
    free(build.shares[i].key);
    free(build.shares[i].detail);
  }
  free(build.shares);
  if (error)
    gp_owners_fini(owners); /* some texts of the last owner may be NULL */
  return error;
}

void gp_owners_fini(gp_owners_t *owners)
{
  for (size_t i = 0; i < owners->count; i++) {
    free(owners->owners[i].function);
    free(owners->owners[i].text);
    free(owners->owners[i].file);
    free(owners->owners[i].through);
    free(owners->owners[i].operation);
  }
  *owners = (gp_owners_t){.count = 0};
}
