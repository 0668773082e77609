/*
 * An input of any length, of which only a sliding window is in memory. A function supplies the bytes: from a
 * file (below) or, in tests, in pieces of any size.
 */
#ifndef GP_TOOLS_READ_INPUT_H
#define GP_TOOLS_READ_INPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes at most `room` bytes (above 0) to buffer, and their number to *ret_got, which is 0 at the end of the
 * input. Returns NULL, or a clause that describes the error. */
typedef const char *(*gp_input_read_fn)(void *self, char *buffer, size_t room, size_t *ret_got);

typedef struct gp_input {
  const char *text; /* the window, followed by a NUL; gp_input_more() may move it */
  size_t base;      /* offset of the window's first byte in the input */
  size_t length;    /* bytes in the window */
  /* Clause that describes an error; NULL: no error. After an error the input looks as if it had ended. */
  const char *error;
  bool is_ended; /* true if the window reaches the end of the input */
  char *buffer;  /* private, as the members below are; NULL if `text` is borrowed */
  size_t room;
  gp_input_read_fn read;
  void *self;
} gp_input_t;

#define GP_INPUT_WINDOW ((size_t)1 << 20) /* in bytes; a few windows fit in a processor's cache */

/* Makes text[0..length) the input. Borrows `text`; text[length] must be NUL. */
void gp_input_init_memory(gp_input_t *input, const char *text, size_t length);

/* Makes `read` the source of the input. The window has `window` bytes, and grows if the caller keeps more. */
void gp_input_init(gp_input_t *input, gp_input_read_fn read, void *self, size_t window);

/* Frees the window. */
void gp_input_fini(gp_input_t *input);

/* Appends bytes to the window, and may drop the bytes before the offset `keep`, which must be in the window
 * or at its end. Returns false at the end of the input or after an error. The window may move even then. */
bool gp_input_more(gp_input_t *input, size_t keep);

/* Extends the window to `bytes` bytes, or to the end of a shorter input, so that the caller can identify the
 * format. The window must still begin with the input's first byte. */
void gp_input_begin(gp_input_t *input, size_t bytes);

/* Extends the window to the end of the input. Returns false after an error. */
bool gp_input_read_all(gp_input_t *input);

/* Transfers ownership of the buffer to the caller, who frees it. Illegal for an input with borrowed text. */
char *gp_input_take(gp_input_t *input, size_t *ret_length);

/*
 * A file or stdin as an input. Decompresses gzip and zstd. Reads the file instead of mapping it, because a
 * mapping raises SIGBUS if another process truncates the file.
 */

typedef struct gp_input_file gp_input_file_t;

/*
 * Opens the file at `path`, which is borrowed; "-" is stdin. While reading a long file, shows progress on
 * stderr if that is a terminal. Returns NULL, or a message for the user, which is valid until the next call
 * of any function here. The caller always calls gp_input_file_close(), even after an error.
 */
const char *gp_input_file_open(gp_input_file_t **ret_file, const char *path);
void gp_input_file_close(gp_input_file_t *file); /* erases the progress line; NULL is legal */

/* Returns the input that reads the file. It is valid until the file is closed. */
gp_input_t *gp_input_file_input(gp_input_file_t *file);

#endif
