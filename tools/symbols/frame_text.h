/*
 * How reports show a frame.
 */
#ifndef GP_TOOLS_SYMBOLS_FRAME_TEXT_H
#define GP_TOOLS_SYMBOLS_FRAME_TEXT_H

#include <stddef.h>

#include "tools/read/snapshot.h"

/*
 * Writes "function file:line" (the file without folders), "function", "module+0xoffset" if there is no
 * name, or "0xaddress". Cuts to capacity (at least 1) and replaces bytes that could steer a terminal. frame
 * is an index into snapshot->frames. Returns buffer.
 */
char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* Writes the function only; without one like gp_frame_describe. Returns buffer. */
char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* A demangled name without the return type, with which names of templates begin. */
const char *gp_function_without_result(const char *function);

#endif
