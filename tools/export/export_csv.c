/*
 * Writes a program's allocations and frees as rows "op,id,size,stream", which test/prog/replay performs.
 * Blocks that were live before the first event come first. The replay rejects an allocation of an id that is
 * live, and a free of an id that is not live. The export writes no such row, even for a damaged snapshot.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export.h"
#include "tools/tool.h"

typedef struct csv {
  const gp_export_t *export;
  gp_block_map_t live;
  uint64_t rows;
  uint64_t misfits;
} csv_t;

/* Returns the stream's number in a row. The default stream is 0, as in the replay. Other streams have their
 * index in the snapshot's table + 1. */
static uint64_t stream_of(const gp_export_t *export, int stream)
{
  enum { LEGACY_HANDLE = 1 };
  return stream < 0 || export->streams[stream] <= LEGACY_HANDLE ? 0 : (uint64_t)stream + 1;
}

static void write_row(csv_t *csv, char op, uint64_t id, uint64_t size, int stream)
{
  fprintf(csv->export->stream, "%c,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", op, id, size,
      stream_of(csv->export, stream));
  csv->rows++;
}

static int write_alloc(csv_t *csv, uint64_t id, uint64_t size, int stream)
{
  const gp_block_entry_t entry = {.key = id};
  if (!id || gp_block_map_find(&csv->live, id)) {
    csv->misfits++;
    return 0;
  }
  write_row(csv, 'A', id, size, stream);
  return gp_block_map_put(&csv->live, &entry) ? 0 : ENOMEM;
}

static void write_free(csv_t *csv, uint64_t id, int stream)
{
  if (gp_block_map_take(&csv->live, id, NULL))
    write_row(csv, 'F', id, 0, stream);
  else
    csv->misfits++;
}

/* Returns true if this process allocated the memory. Imported memory was allocated by another process. */
static bool is_request(const char *kind)
{
  return gp_export_is_device_memory(kind) && strcmp(kind, "external") != 0;
}

static int write_first(csv_t *csv)
{
  gp_block_map_t map = {.count = 0};
  gp_block_entry_t *first = NULL;

  int error = gp_export_live_at_start(csv->export, &map);
  if (!error) {
    first = gp_block_map_sorted(&map);
    error = first ? 0 : ENOMEM;
  }
  for (size_t i = 0; i < map.count && !error; i++)
    error = write_alloc(csv, first[i].key, first[i].size, first[i].stream);
  free(first);
  gp_block_map_fini(&map);
  return error;
}

static int write_events(csv_t *csv)
{
  const gp_export_t *export = csv->export;
  gp_export_event_t event;
  int error = 0;

  for (size_t i = 0; i < export->event_count && !error; i++) {
    gp_export_progress(export, i, export->event_count);
    if (!gp_export_event(export, i, &event))
      continue;
    switch (event.kind) {
    case GP_EVENT_ALLOC: error = write_alloc(csv, event.block, event.size, event.stream); break;
    case GP_EVENT_FREE_REQUESTED: write_free(csv, event.block, event.stream); break;
    case GP_EVENT_FORWARDED_ALLOC:
      if (is_request(event.detail))
        error = write_alloc(csv, event.block, event.size, event.stream);
      break;
    case GP_EVENT_FORWARDED_FREE:
      if (is_request(event.detail))
        write_free(csv, event.block, event.stream);
      break;
    default: break;
    }
  }
  return error;
}

int gp_export_csv(gp_export_t *export)
{
  csv_t csv = {.export = export};

  fputs("op,id,size,stream\n", export->stream);
  int error = write_first(&csv);
  if (!error)
    error = write_events(&csv);
  gp_block_map_fini(&csv.live);
  errno = 0;
  if (!error && fflush(export->stream))
    error = errno ? errno : EIO;
  if (!error && csv.misfits)
    gp_message("%s: %" PRIu64 " events refer to a block that was not live, or already was, and are left out",
        export->name, csv.misfits);
  if (!error && !csv.rows)
    gp_message("%s: it has no allocations, so there is nothing to replay", export->name);
  return error;
}
