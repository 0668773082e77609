/*
 * The part of a snapshot that the user selects with --device, --stream, --thread, --since and --until. A
 * filter selects allocations by device, stream, thread and time.
 */
#ifndef GP_TOOLS_MODEL_FILTER_H
#define GP_TOOLS_MODEL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/request.h"
#include "tools/read/snapshot.h"

#define GP_FILTER_UNKNOWN (-1) /* index of an unknown stream or thread */

typedef struct gp_filter {
  int device;
  bool *streams; /* true for each selected index; NULL selects all */
  bool *threads;
  uint64_t since_ns;
  uint64_t until_ns;
} gp_filter_t;

/* Makes the filter from the options in `request`, and looks up streams and threads in `snapshot`. Messages
 * refer to `file`. Returns 0, or the exit status after a message. Call gp_filter_fini in any case. */
int gp_filter_init(
    gp_filter_t *filter, const gp_request_t *request, const gp_snapshot_t *snapshot, const char *file);
void gp_filter_fini(gp_filter_t *filter);

static inline bool gp_filter_has_device(const gp_filter_t *filter, int device)
{
  return filter->device == GP_REQUEST_ALL_DEVICES || filter->device == device;
}

/* Returns true if the filter selects an allocation of that device, stream, thread (indexes) and time. */
static inline bool gp_filter_has(
    const gp_filter_t *filter, int device, int64_t stream, int64_t thread, uint64_t time_ns)
{
  return gp_filter_has_device(filter, device) && time_ns >= filter->since_ns && time_ns <= filter->until_ns &&
         (!filter->streams || (stream >= 0 && filter->streams[stream])) &&
         (!filter->threads || (thread >= 0 && filter->threads[thread]));
}

#endif
