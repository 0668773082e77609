/*
 * The parts of a snapshot, one file each: snapshot_devices.c, snapshot_memory.c (segments, forwarded
 * memory), snapshot_rows.c (events) and snapshot_stacks.c (stacks, frames, modules).
 */
#ifndef GP_TOOLS_READ_NATIVE_SNAPSHOT_PARTS_H
#define GP_TOOLS_READ_NATIVE_SNAPSHOT_PARTS_H

#include "tools/read/native/snapshot_parse.h"

/* Adds the device that item describes, an element of "devices". offset is the offset of "devices" in the
 * input, for errors. */
bool gp_snapshot_read_device(gp_snapshot_parse_t *parse, size_t offset, const cJSON *item);

/* Read a part of the snapshot; the scan is at its value. Return false after an error in scan or parse. */
bool gp_snapshot_read_segments(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_forwarded(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_events(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_stacks(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_frames(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_modules(gp_snapshot_parse_t *parse);

/* Checks the references to other parts, when all parts are read. */
bool gp_snapshot_check_events(gp_snapshot_parse_t *parse);
bool gp_snapshot_check_memory(gp_snapshot_parse_t *parse);
bool gp_snapshot_check_stacks(gp_snapshot_parse_t *parse);

#endif
