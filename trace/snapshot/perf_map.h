/*
 * Names of code that a program made while it ran. Programs that make code tell perf what they made in
 * /tmp/perf-PID.map, a line each: address, size, name. CPython's trampolines (-X perf, from 3.12 on) are the
 * lines "py::FUNCTION:FILE".
 */
#ifndef GP_TRACE_PERF_MAP_H
#define GP_TRACE_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sort.h"

/* Not terminated; empty: not known. */
typedef struct gp_perf_name {
  const char *function;
  const char *file;
  uint32_t function_length;
  uint32_t file_length;
} gp_perf_name_t;

/* Zeroed memory is a map without a line. */
typedef struct gp_perf_map {
  char *text; /* whole lines */
  size_t bytes;
} gp_perf_map_t;

/*
 * Reads the map of a process of this user. Any user may make files in /tmp, so only a plain file counts that
 * belongs to owner, has no other name, and that no other user may write. Of a large one the newest lines are
 * read. No map and no memory are a map without a line. Any thread.
 */
void gp_perf_map_read(gp_perf_map_t *map, int64_t pid, uid_t owner);
void gp_perf_map_fini(gp_perf_map_t *map);

/*
 * Names the code at wanted[0..count), addresses in their order, each in ret_names at its key's index. Of
 * lines for one address the last counts: CPython appends to the file of an earlier process with its number.
 */
void gp_perf_map_find(
    const gp_perf_map_t *map, const gp_sort_key_t *wanted, size_t count, gp_perf_name_t *ret_names);

#endif
