#include "tools/replay/workload.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/array.h"

#define READY_MOST UINT64_C(1000000000)

bool gp_ready_parse(const char *text, gp_ready_t *ret_ready)
{
  static const struct {
    const char *name;
    gp_ready_kind_t kind;
  } words[] = {{"recorded", GP_READY_RECORDED}, {"at-once", GP_READY_AT_ONCE}},
    numbered[] = {{"sync=", GP_READY_SYNC}, {"lag=", GP_READY_LAG}};

  for (size_t i = 0; i < 2; i++) {
    if (strcmp(text, words[i].name) == 0) {
      *ret_ready = (gp_ready_t){words[i].kind, 0};
      return true;
    }
  }
  for (size_t i = 0; i < 2; i++) {
    const char *digits = text + strlen(numbered[i].name);
    if (strncmp(text, numbered[i].name, strlen(numbered[i].name)) != 0)
      continue;
    size_t length = strlen(digits);
    if (length == 0 || length > 10 || strspn(digits, "0123456789") != length)
      return false;
    *ret_ready = (gp_ready_t){numbered[i].kind, strtoull(digits, NULL, 10)};
    return (ret_ready->number > 0 || ret_ready->kind == GP_READY_LAG) && ret_ready->number <= READY_MOST;
  }
  return false;
}

bool gp_workload_add(gp_workload_t *workload, const gp_step_t *step)
{
  gp_step_t *added = GP_ARRAY_ADD(workload->steps, workload->step_count);
  if (added)
    *added = *step;
  return added != NULL;
}

static bool is_request(const gp_step_t *step)
{
  return step->kind <= GP_STEP_ATTEMPT;
}

/* Adds a synchronization on each present device, which proves that all earlier work is complete. */
static bool add_sync(gp_workload_t *workload, uint64_t time_ns)
{
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    if (!(workload->present >> device & 1))
      continue;
    gp_step_t step = {.time_ns = time_ns,
        .block = (uint32_t)workload->sync_count++,
        .stream = GP_STEP_NO_STREAM,
        .device = (uint8_t)device,
        .kind = GP_STEP_SYNC_BEGIN};
    if (!gp_workload_add(workload, &step))
      return false;
    step.kind = GP_STEP_SYNC_END;
    if (!gp_workload_add(workload, &step))
      return false;
  }
  return true;
}

/* Computes for each device the peaks of memory in use, and the number of requests. */
static int count(gp_workload_t *workload)
{
  uint64_t pooled[GP_SNAPSHOT_DEVICES] = {0}, forwarded[GP_SNAPSHOT_DEVICES] = {0};
  uint64_t *sizes = calloc(workload->block_count + 1, sizeof(*sizes));

  if (!sizes)
    return ENOMEM;
  workload->request_count = 0;
  for (size_t i = 0; i < workload->step_count; i++) {
    const gp_step_t *step = &workload->steps[i];
    gp_workload_device_t *device = &workload->devices[step->device];
    uint64_t *live = step->kind <= GP_STEP_FREE ? &pooled[step->device] : &forwarded[step->device];
    workload->request_count += is_request(step);
    device->requests += is_request(step);
    if (step->kind == GP_STEP_ALLOC || step->kind == GP_STEP_FORWARDED_ALLOC) {
      sizes[step->block] = step->size;
      *live += step->size;
      uint64_t asked = pooled[step->device] + forwarded[step->device];
      if (pooled[step->device] > device->live_peak)
        device->live_peak = pooled[step->device];
      device->asked_peak = asked > device->asked_peak ? asked : device->asked_peak;
    } else if (step->kind == GP_STEP_FREE || step->kind == GP_STEP_FORWARDED_FREE) {
      *live -= sizes[step->block];
    }
  }
  free(sizes);
  return 0;
}

int gp_workload_settle(gp_workload_t *workload, const gp_ready_t *ready)
{
  workload->ready = *ready;
  if (ready->kind == GP_READY_AT_ONCE || ready->kind == GP_READY_SYNC) {
    gp_workload_t from = *workload;
    uint64_t every = ready->kind == GP_READY_SYNC ? ready->number : 1, since = 0;
    bool has_freed = false, good = true;

    workload->steps = NULL;
    workload->step_count = 0;
    for (size_t i = 0; i < from.step_count && good; i++) {
      good = gp_workload_add(workload, &from.steps[i]);
      has_freed |= from.steps[i].kind == GP_STEP_FREE;
      since += is_request(&from.steps[i]);
      if (good && since >= every && (has_freed || ready->kind == GP_READY_SYNC)) {
        good = add_sync(workload, from.steps[i].time_ns);
        since = 0;
        has_freed = false;
      } else if (since >= every) {
        since = 0;
      }
    }
    free(from.steps);
    if (!good)
      return ENOMEM;
  }
  int error = count(workload);
  gp_assert_full(error || gp_workload_is_sound(workload));
  return error;
}

#define REPEATED_SHARE 10 /* one tenth of the requests is repeated */

static bool was_served(const gp_step_t *step)
{
  return step->kind == GP_STEP_ALLOC || step->kind == GP_STEP_FREE;
}

/* Returns the first step that gp_workload_repeat_end repeats. */
static size_t first_repeated(const gp_workload_t *workload)
{
  size_t requests = 0, wanted = 0, at = workload->step_count;

  for (size_t i = 0; i < workload->step_count; i++)
    requests += was_served(&workload->steps[i]);
  for (wanted = requests / REPEATED_SHARE; at > 0 && wanted > 0; at--)
    wanted -= was_served(&workload->steps[at - 1]);
  return at;
}

/* The steps at the end of a workload that are repeated, and their copies. */
typedef struct end {
  size_t first, count; /* the repeated steps: [first, count) */
  uint32_t *copies;    /* by block: the block that the repetition allocates; UINT32_MAX: none */
  uint32_t *syncs;
  /* By step: true if it allocates a block that the repeated steps free, or that find_older has returned. */
  bool *is_freed;
} end_t;

/* Returns the block to free in the repetition of `freed`, a step that frees a block older than the repeated
 * steps. This is a block of the same size that the repeated steps allocate and do not free. So memory that
 * the program replaces in each round is not in use twice. Returns UINT32_MAX if there is none. */
static uint32_t find_older(
    const gp_workload_t *workload, const end_t *end, const gp_step_t *freed, const uint64_t *sizes)
{
  gp_step_kind_t kind = freed->kind == GP_STEP_FREE ? GP_STEP_ALLOC : GP_STEP_FORWARDED_ALLOC;

  for (size_t i = end->first; i < end->count; i++) {
    const gp_step_t *step = &workload->steps[i];
    if (step->kind != kind || step->device != freed->device || step->size != sizes[freed->block] ||
        end->is_freed[i])
      continue;
    end->is_freed[i] = true;
    return step->block;
  }
  return UINT32_MAX;
}

/* Turns a step into its repetition. Returns false if the step is not repeated, for example because its
 * request failed. */
static bool repeat(gp_workload_t *workload, const end_t *end, const uint64_t *sizes, gp_step_t *step)
{
  switch ((gp_step_kind_t)step->kind) {
  case GP_STEP_ALLOC:
  case GP_STEP_FORWARDED_ALLOC:
    step->block = end->copies[step->block] = (uint32_t)workload->block_count++;
    return true;
  case GP_STEP_SYNC_BEGIN:
    step->block = end->syncs[step->block] = (uint32_t)workload->sync_count++;
    return true;
  case GP_STEP_FREE:
  case GP_STEP_FORWARDED_FREE:
    step->block = end->copies[step->block] != UINT32_MAX ? end->copies[step->block]
                                                         : find_older(workload, end, step, sizes);
    return step->block != UINT32_MAX;
  case GP_STEP_SYNC_END: step->block = end->syncs[step->block]; return step->block != UINT32_MAX;
  case GP_STEP_ATTEMPT: return false;
  }
  return false;
}

/* Finds the size and the allocating step of each block. Sets is_freed for blocks that the repeated steps both
 * allocate and free. */
static void look_at_end(const gp_workload_t *workload, end_t *end, uint64_t *sizes, uint32_t *steps)
{
  for (size_t i = 0; i < end->count; i++) {
    const gp_step_t *step = &workload->steps[i];
    if (step->kind == GP_STEP_ALLOC || step->kind == GP_STEP_FORWARDED_ALLOC) {
      sizes[step->block] = step->size;
      steps[step->block] = (uint32_t)i;
    } else if ((step->kind == GP_STEP_FREE || step->kind == GP_STEP_FORWARDED_FREE) &&
               steps[step->block] >= end->first) {
      end->is_freed[steps[step->block]] = true;
    }
  }
}

int gp_workload_repeat_end(gp_workload_t *workload)
{
  end_t end = {.first = first_repeated(workload), .count = workload->step_count};
  const size_t blocks = workload->block_count + 1, syncs = workload->sync_count + 1;
  uint64_t later_ns =
      end.first < end.count ? workload->steps[end.count - 1].time_ns - workload->steps[end.first].time_ns : 0;
  uint64_t *sizes = calloc(blocks, sizeof(*sizes));
  uint32_t *steps = calloc(blocks, sizeof(*steps));

  end.copies = malloc(blocks * sizeof(*end.copies));
  end.syncs = malloc(syncs * sizeof(*end.syncs));
  end.is_freed = calloc(end.count + 1, sizeof(*end.is_freed));
  bool good = sizes && steps && end.copies && end.syncs && end.is_freed;
  if (good) {
    memset(end.copies, 0xff, blocks * sizeof(*end.copies));
    memset(end.syncs, 0xff, syncs * sizeof(*end.syncs));
    look_at_end(workload, &end, sizes, steps);
  }
  if (good && end.count > 0 && workload->steps[end.count - 1].kind == GP_STEP_ATTEMPT) {
    end.count--; /* the last request now succeeds, and is not repeated */
    workload->steps[end.count].kind = GP_STEP_ALLOC;
    workload->steps[end.count].block = (uint32_t)workload->block_count++;
  }
  for (size_t i = end.first; i < end.count && good; i++) {
    gp_step_t step = workload->steps[i];
    step.time_ns += later_ns;
    good = !repeat(workload, &end, sizes, &step) || gp_workload_add(workload, &step);
  }
  free(sizes);
  free(steps);
  free(end.copies);
  free(end.syncs);
  free(end.is_freed);
  return good ? 0 : ENOMEM;
}

bool gp_workload_cut(gp_workload_t *workload, uint64_t time_ns)
{
  size_t count = workload->step_count;

  while (count > 0 &&
         (workload->steps[count - 1].kind != GP_STEP_ATTEMPT || workload->steps[count - 1].time_ns > time_ns))
    count--;
  if (count > 0)
    workload->step_count = count;
  return count > 0;
}

void gp_workload_fini(gp_workload_t *workload)
{
  free(workload->steps);
  cJSON_Delete(workload->settings);
  *workload = (gp_workload_t){0};
}

/* States of a block, for gp_workload_is_sound. */
enum { UNKNOWN, POOLED, FORWARDED, GONE };

static bool check_step(const gp_workload_t *workload, const gp_step_t *step, uint8_t *blocks, uint8_t *syncs)
{
  bool is_sync = step->kind == GP_STEP_SYNC_BEGIN || step->kind == GP_STEP_SYNC_END;
  if (!(workload->present >> step->device & 1) ||
      (step->kind != GP_STEP_ATTEMPT &&
          step->block >= (is_sync ? workload->sync_count : workload->block_count)))
    return false;
  if (step->stream != GP_STEP_NO_STREAM && step->stream >= workload->stream_count)
    return false;
  uint8_t was = step->kind == GP_STEP_ATTEMPT ? UNKNOWN : (is_sync ? syncs : blocks)[step->block];
  uint8_t is = UNKNOWN;
  switch ((gp_step_kind_t)step->kind) {
  case GP_STEP_ATTEMPT: return true;
  case GP_STEP_ALLOC: is = POOLED; break;
  case GP_STEP_FORWARDED_ALLOC: is = FORWARDED; break;
  case GP_STEP_SYNC_BEGIN: is = (uint8_t)(step->device + 1); break;
  case GP_STEP_FREE: is = was == POOLED ? GONE : UNKNOWN; break;
  case GP_STEP_FORWARDED_FREE: is = was == FORWARDED ? GONE : UNKNOWN; break;
  case GP_STEP_SYNC_END: is = was == step->device + 1 ? UINT8_MAX : UNKNOWN; break;
  }
  bool begins = step->kind == GP_STEP_ALLOC || step->kind == GP_STEP_FORWARDED_ALLOC ||
                step->kind == GP_STEP_SYNC_BEGIN;
  (is_sync ? syncs : blocks)[step->block] = is;
  return is != UNKNOWN && (!begins || was == UNKNOWN);
}

bool gp_workload_is_sound(const gp_workload_t *workload)
{
  uint8_t *blocks = calloc(workload->block_count + 1, 1), *syncs = calloc(workload->sync_count + 1, 1);
  bool good = true;

  for (size_t i = 0; blocks && syncs && i < workload->step_count && good; i++) {
    const gp_step_t *step = &workload->steps[i];
    good = (i == 0 || step->time_ns >= workload->steps[i - 1].time_ns) &&
           check_step(workload, step, blocks, syncs);
  }
  free(blocks);
  free(syncs);
  return good;
}
