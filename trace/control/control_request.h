/* Requests to a running program. A request is a line of text; the answer is a JSON object. doc/control.md
 * describes both. */
#ifndef GP_TRACE_CONTROL_REQUEST_H
#define GP_TRACE_CONTROL_REQUEST_H

#include <stddef.h>

#include "base/json.h"
#include "trace/record/recorder.h"
#include "trace/snapshot/snapshot.h"

#define GP_CONTROL_REQUEST_BYTES (GP_PATH_BYTES + 64) /* longest request, with its line end */

/* The objects that requests use, and their buffers. Only one request is served at a time. */
typedef struct gp_control_target {
  gp_engine_t *engine;
  gp_recorder_t *recorder;
  gp_snapshot_writer_t *writer;
  gp_options_t options;
  gp_snapshot_name_t written;
  char text[GP_CONTROL_REQUEST_BYTES];
} gp_control_target_t;

/*
 * Executes the request text[0..length), which may be any bytes, and writes the answer: {"ok":true, ...} or
 * {"ok":false,"error":"..."}. The error text says which input is accepted. The request may end with a line
 * end. The caller holds no lock.
 */
void gp_control_request(gp_control_target_t *target, const char *text, size_t length, gp_json_t *answer);

/* Writes the answer {"ok":false,"error":"..."} with a formatted text. */
void gp_control_refuse(gp_json_t *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
