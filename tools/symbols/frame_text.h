/*
 * How reports show a frame.
 */
#ifndef GP_TOOLS_SYMBOLS_FRAME_TEXT_H
#define GP_TOOLS_SYMBOLS_FRAME_TEXT_H

#include <stddef.h>

#include "tools/read/snapshot.h"

/*
 * "function file:line" (the file without its folders), "function", "module+0xoffset" if there is no name, or
 * "0xaddress". Cut to capacity (at least 1), bytes that could steer a terminal replaced. frame is an index
 * into snapshot->frames. Returns buffer.
 */
char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* The function alone, else as gp_frame_describe. Returns buffer. */
char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* A demangled name from its first namespace on: those of templates begin with what they return. */
const char *gp_function_without_result(const char *function);

#endif
