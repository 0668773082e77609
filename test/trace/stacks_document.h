/* The stacks of a snapshot as text, for tests. */
#ifndef GP_TEST_TRACE_STACKS_DOCUMENT_H
#define GP_TEST_TRACE_STACKS_DOCUMENT_H

#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/snapshot/document_stacks.h"

/* The document of the logs, of a process of that user; the caller frees it. */
static inline char *write_document(const gp_stack_logs_t *logs, int64_t pid, uid_t owner)
{
  static char buffer[4096];
  gp_json_t json;
  int fd = memfd_create("document", 0);

  ck_assert_int_ge(fd, 0);
  gp_json_init(&json, fd, buffer, sizeof(buffer));
  gp_json_begin(&json, '{');
  gp_document_write_stacks(&json, logs, pid, owner);
  gp_json_end(&json, '}');
  ck_assert_int_eq(gp_json_finish(&json), 0);
  off_t length = lseek(fd, 0, SEEK_END);
  char *text = calloc(1, (size_t)length + 1);
  ck_assert_int_eq(pread(fd, text, (size_t)length, 0), length);
  close(fd);
  return text;
}

#endif
