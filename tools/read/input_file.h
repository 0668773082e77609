/*
 * A file or stdin as an input (input.h), decompressed if it is gzip or zstd. It is read and not mapped: a
 * file that another process cuts short meanwhile must not be a signal here.
 */
#ifndef GP_TOOLS_READ_INPUT_FILE_H
#define GP_TOOLS_READ_INPUT_FILE_H

#include "tools/read/input.h"

typedef struct gp_input_file gp_input_file_t;

/*
 * Opens path ("-": stdin), which is borrowed. While a long one is being read, stderr says how far that is, if
 * it is a terminal. Returns NULL, or what is wrong, for a person; valid until the next call of anything.
 * Closes it in any case with gp_input_file_close().
 */
const char *gp_input_file_open(gp_input_file_t **ret_file, const char *path);
void gp_input_file_close(gp_input_file_t *file); /* NULL is legal; takes the line on the terminal back */

/* Of the file, until it is closed. */
gp_input_t *gp_input_file_input(gp_input_file_t *file);

#endif
