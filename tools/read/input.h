/*
 * Bytes of any number, seen through a window that moves on: what has been read of a large file need not be in
 * memory. Where they come from is a function's business: a file (input_file.h), or parts of any size, in
 * tests.
 */
#ifndef GP_TOOLS_READ_INPUT_H
#define GP_TOOLS_READ_INPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Puts at most room bytes into buffer, room > 0; none: that was all. Returns NULL, or a clause of what is
 * wrong. */
typedef const char *(*gp_input_read_fn)(void *self, char *buffer, size_t room, size_t *ret_got);

typedef struct gp_input {
  const char *text;  /* the window, with a NUL behind it; moves with gp_input_more() */
  size_t base;       /* offset in the input of its first byte */
  size_t length;     /* bytes in it */
  const char *error; /* why reading failed, which looks like the end of the input; NULL: it did not */
  bool is_ended;     /* nothing comes after the window */
  char *buffer;      /* private, like the rest: NULL if the text is borrowed */
  size_t room;
  gp_input_read_fn read;
  void *self;
} gp_input_t;

#define GP_INPUT_WINDOW ((size_t)1 << 20) /* bytes; a few of its size are in a processor's cache */

/* text[0..length) as it is, borrowed; text[length] is NUL. */
void gp_input_init_memory(gp_input_t *input, const char *text, size_t length);

/* What read gives. The window is of so many bytes as long as nothing longer has to be kept. */
void gp_input_init(gp_input_t *input, gp_input_read_fn read, void *self, size_t window);

/* Gives the window back. */
void gp_input_fini(gp_input_t *input);

/*
 * Gets more bytes behind the window, which keeps those from offset keep on, at most its end; keep must be in
 * the window. False: there are no more, or an error; the window may have moved all the same.
 */
bool gp_input_more(gp_input_t *input, size_t keep);

/* Gets so many bytes into the window of an input that has not moved on yet, or all that there are: to tell
 * what it is. */
void gp_input_begin(gp_input_t *input, size_t bytes);

/* Gets everything that is left into the window. False: an error. */
bool gp_input_read_all(gp_input_t *input);

/* Gives the window to the caller, who frees it; of an input that is not in memory and was read. */
char *gp_input_take(gp_input_t *input, size_t *ret_length);

#endif
