/*
 * The snapshot as a JSON document (FORMAT.md), from what was gathered for it.
 */
#ifndef GP_TRACE_DOCUMENT_H
#define GP_TRACE_DOCUMENT_H

#include "trace/history.h"
#include "trace/internal.h"
#include "trace/json.h"

#define GP_DOCUMENT_FORMAT  "gpupool-snapshot"
#define GP_DOCUMENT_VERSION 1

typedef struct gp_document {
  gp_recorder_t *recorder; /* with recorder->views taken of the devices below */
  uint64_t devices;        /* bit mask */
  const gp_history_t *history;
  const char *reason;
  const gp_oom_t *oom; /* NULL: the reason is another */
} gp_document_t;

/* Writes all of it. Errors stay in json. The recorder's writer_mutex is held. */
void gp_document_write(gp_json_t *json, const gp_document_t *document);

#endif
