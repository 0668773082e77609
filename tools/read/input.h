/*
 * An input of any length, seen through a window that moves on, so that a large file need not be in memory.
 * A function supplies the bytes: from a file (input.h) or, in tests, in parts of any size.
 */
#ifndef GP_TOOLS_READ_INPUT_H
#define GP_TOOLS_READ_INPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Puts at most room bytes into buffer, room > 0; *ret_got 0: the input has ended. Returns NULL, or a
 * clause that says what is wrong. */
typedef const char *(*gp_input_read_fn)(void *self, char *buffer, size_t room, size_t *ret_got);

typedef struct gp_input {
  const char *text;  /* the window, followed by a NUL; gp_input_more() may move it */
  size_t base;       /* offset in the input of the window's first byte */
  size_t length;     /* bytes in the window */
  const char *error; /* why reading failed; the failure looks like the end of the input. NULL: no failure */
  bool is_ended;     /* the window reaches the end of the input */
  char *buffer;      /* private, like the rest; NULL: the text is borrowed */
  size_t room;
  gp_input_read_fn read;
  void *self;
} gp_input_t;

#define GP_INPUT_WINDOW ((size_t)1 << 20) /* bytes; a few windows fit into a processor's cache */

/* The input is text[0..length), borrowed; text[length] is NUL. */
void gp_input_init_memory(gp_input_t *input, const char *text, size_t length);

/* The input is what read supplies. The window has `window` bytes unless the caller keeps more. */
void gp_input_init(gp_input_t *input, gp_input_read_fn read, void *self, size_t window);

/* Frees the window. */
void gp_input_fini(gp_input_t *input);

/* Appends bytes to the window and may drop those before offset keep, which is in the window or at its end.
 * False: no more bytes, or an error; the window may have moved anyway. */
bool gp_input_more(gp_input_t *input, size_t keep);

/* Gets `bytes` bytes into the window, or all that there are, to identify the format. The window must
 * still be at the input's beginning. */
void gp_input_begin(gp_input_t *input, size_t bytes);

/* Gets the rest of the input into the window. False: an error. */
bool gp_input_read_all(gp_input_t *input);

/* Gives the window to the caller, who frees it. The input must have been read, not borrowed from memory. */
char *gp_input_take(gp_input_t *input, size_t *ret_length);

/*
 * A file or stdin as an input (input.h), decompressed if it is gzip or zstd. Reads instead of mapping: if
 * another process truncates the file, this process must not get a signal.
 */

typedef struct gp_input_file gp_input_file_t;

/*
 * Opens path ("-": stdin; borrowed). While it reads a long file, it shows progress on stderr if that is a
 * terminal. Returns NULL, or what is wrong, for a person; valid until the next call of anything. In any
 * case call gp_input_file_close().
 */
const char *gp_input_file_open(gp_input_file_t **ret_file, const char *path);
void gp_input_file_close(gp_input_file_t *file); /* NULL is legal; clears the progress line */

/* The file's input, valid until the file is closed. */
gp_input_t *gp_input_file_input(gp_input_file_t *file);

#endif
