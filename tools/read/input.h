/*
 * An input of any length. Only a sliding window of it is in memory. A function supplies the bytes: from a
 * file (below) or, in tests, in parts of any size.
 */
#ifndef GP_TOOLS_READ_INPUT_H
#define GP_TOOLS_READ_INPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes at most room bytes, room > 0, into buffer and their number into *ret_got; 0 means that the input has
 * ended. Returns NULL, or a clause that describes the error. */
typedef const char *(*gp_input_read_fn)(void *self, char *buffer, size_t room, size_t *ret_got);

typedef struct gp_input {
  const char *text;  /* the window, followed by a NUL; gp_input_more() may move it */
  size_t base;       /* offset in the input of the window's first byte */
  size_t length;     /* bytes in the window */
  const char *error; /* clause that describes an error, which looks like the end of the input; NULL: no
                        error */
  bool is_ended;     /* the window reaches the end of the input */
  char *buffer;      /* private, like the members below; NULL if text is borrowed */
  size_t room;
  gp_input_read_fn read;
  void *self;
} gp_input_t;

#define GP_INPUT_WINDOW ((size_t)1 << 20) /* bytes; a few windows fit into a processor's cache */

/* Makes text[0..length) the input. text is borrowed, and text[length] must be NUL. */
void gp_input_init_memory(gp_input_t *input, const char *text, size_t length);

/* Makes read the source of the input. The window has `window` bytes, but grows if the caller keeps more. */
void gp_input_init(gp_input_t *input, gp_input_read_fn read, void *self, size_t window);

/* Frees the window. */
void gp_input_fini(gp_input_t *input);

/* Appends bytes to the window and may drop those before offset keep, which is in the window or at its end.
 * Returns false if there are no more bytes or after an error; the window may have moved even then. */
bool gp_input_more(gp_input_t *input, size_t keep);

/* Extends the window to `bytes` bytes, or to the end of a shorter input, so that the caller can identify the
 * format. The window must still start at the beginning of the input. */
void gp_input_begin(gp_input_t *input, size_t bytes);

/* Extends the window to the end of the input. Returns false after an error. */
bool gp_input_read_all(gp_input_t *input);

/* Passes ownership of the window to the caller, who frees it. Illegal for an input that borrows its text. */
char *gp_input_take(gp_input_t *input, size_t *ret_length);

/*
 * A file or stdin as an input, decompressed if it is gzip or zstd. It is read rather than mapped, because a
 * mapping raises SIGBUS if another process truncates the file.
 */

typedef struct gp_input_file gp_input_file_t;

/*
 * Opens path, which is borrowed; "-" is stdin. Shows progress on stderr while it reads a long file, if stderr
 * is a terminal. Returns NULL, or a message for the user, which is valid until the next call of any function
 * here. The caller always calls gp_input_file_close(), even after an error.
 */
const char *gp_input_file_open(gp_input_file_t **ret_file, const char *path);
void gp_input_file_close(gp_input_file_t *file); /* NULL is legal; clears the progress line */

/* Returns the file's input, which is valid until the file is closed. */
gp_input_t *gp_input_file_input(gp_input_file_t *file);

#endif
