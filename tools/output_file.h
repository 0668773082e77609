/*
 * The destination of an export: stdout, or a file that gets its final name only when it is complete. Unlike
 * output.h this collects nothing in memory, because an export may be larger than its input.
 */
#ifndef GP_TOOLS_OUTPUT_FILE_H
#define GP_TOOLS_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct gp_output_file {
  FILE *stream;
  const char *path; /* NULL: stdout */
  char *target;     /* `path` with links resolved; NULL: `stream` writes to the final file */
  char *temporary;  /* path of the file that `stream` writes until it is closed, in the folder of `target` */
  bool force;
} gp_output_file_t;

/*
 * Checks whether `path` can be written. Call it before the work starts, too. If the file exists, fails unless
 * `force` is true. With `force`:
 * - a regular file (links followed) is replaced, and keeps its mode as far as the inputs allow;
 * - a device, pipe or similar file is written to in place and never replaced;
 * - a folder and a dangling link are refused.
 * Returns 0 or, after a message, the exit status.
 */
int gp_output_file_check(const char *path, bool force);

/* Registers `fd` as an input. Users who cannot read an input cannot read outputs that are opened later; the
 * same holds for writing. If `fd` is stdin, -1 or not a regular file, only the owner can access the outputs.
 * Borrows `fd`. Call it from one thread only. */
void gp_output_file_take_input(int fd);

/*
 * Opens the destination. `path` is borrowed; NULL or "-" means stdout. Any other path is checked as by
 * gp_output_file_check. A new file gets the strictest mode of the inputs (0666 without inputs), minus the
 * umask, and at least 0600. If a signal ends the process, removes the partial file. Returns 0 or, after a
 * message, the exit status.
 */
int gp_output_file_open(gp_output_file_t *file, const char *path, bool force);

/* Closes the file, and renames it to its target. Returns 0 or, after a message, the exit status. */
int gp_output_file_close(gp_output_file_t *file);

/* Removes the partial file, if there is one. Call it before the process exits during an export. */
void gp_part_file_remove(void);

/* Discards the output, except for what was already written to stdout. */
void gp_output_file_discard(gp_output_file_t *file);

#endif
