/*
 * A file or stdin as an input (input.h), decompressed if it is gzip or zstd. Reads instead of mapping: if
 * another process truncates the file, this process must not get a signal.
 */
#ifndef GP_TOOLS_READ_INPUT_FILE_H
#define GP_TOOLS_READ_INPUT_FILE_H

#include "tools/read/input.h"

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
