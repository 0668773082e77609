/*
 * A text that comes in pieces of at most so many bytes: an input whose window ends at every place sooner or
 * later.
 */
#ifndef GP_TEST_TOOLS_PIECES_H
#define GP_TEST_TOOLS_PIECES_H

#include <string.h>

#include "tools/read/input.h"

typedef struct pieces {
  const char *text;
  size_t length;
  size_t piece;
  size_t at;
  const char *error; /* at the end, instead of it; or NULL */
} pieces_t;

static inline const char *pieces_read(void *self, char *buffer, size_t room, size_t *ret_got)
{
  pieces_t *pieces = self;
  size_t left = pieces->length - pieces->at, got = pieces->piece < room ? pieces->piece : room;
  got = got < left ? got : left;
  memcpy(buffer, pieces->text + pieces->at, got);
  pieces->at += got;
  *ret_got = got;
  return got ? NULL : pieces->error;
}

#endif
