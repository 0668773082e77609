/*
 * Readers of the parts of a snapshot, one file each: snapshot_devices.c, snapshot_memory.c (segments and
 * forwarded memory), snapshot_rows.c (events) and snapshot_stacks.c (stacks, frames and modules).
 */
#ifndef GP_TOOLS_READ_NATIVE_SNAPSHOT_PARTS_H
#define GP_TOOLS_READ_NATIVE_SNAPSHOT_PARTS_H

#include "tools/read/native/snapshot_parse.h"

/* Adds the device that `item`, an element of "devices", describes. `offset` is the offset of "devices" in the
 * input, for errors. */
bool gp_snapshot_read_device(gp_snapshot_parse_t *parse, size_t offset, const cJSON *item);

/* Each reads one part of the snapshot, and expects the scan at the part's value. Returns false after
 * recording an error in parse->scan or `parse`. */
bool gp_snapshot_read_segments(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_forwarded(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_events(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_stacks(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_frames(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_modules(gp_snapshot_parse_t *parse);

/* Each checks references to other parts. Call these after reading all parts. */
bool gp_snapshot_check_events(gp_snapshot_parse_t *parse);
bool gp_snapshot_check_memory(gp_snapshot_parse_t *parse);
bool gp_snapshot_check_stacks(gp_snapshot_parse_t *parse);

#endif
