/*
 * The destination of an export: stdout, or a file that gets its name only when it is complete. Unlike
 * output.h it buffers nothing in memory, because an export may be larger than its input.
 */
#ifndef GP_TOOLS_OUTPUT_FILE_H
#define GP_TOOLS_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct gp_output_file {
  FILE *stream;
  const char *path; /* NULL: stdout */
  char *target;     /* path with links resolved; NULL: stream is the final file */
  char *temporary;  /* file that stream writes until close, in target's folder */
  bool force;
} gp_output_file_t;

/*
 * Checks whether path can be written. Also call it before the work starts. Refuses an existing file unless
 * force. With force:
 * - a regular file (links followed) is replaced, and keeps its mode as far as the inputs allow;
 * - a device, pipe or similar file is written to in place and never replaced;
 * - a folder and a dangling link are refused.
 * Returns 0 or, after a message, the exit status.
 */
int gp_output_file_check(const char *path, bool force);

/* Registers fd as an input: outputs opened later are not readable (or writable) by users who may not read
 * (or write) it. If fd is stdin, -1, or no regular file, only the owner may. Borrows fd. One thread. */
void gp_output_file_take_input(int fd);

/*
 * Opens the destination. path is borrowed; NULL or "-" means stdout, any other path is checked as by
 * gp_output_file_check. A new file gets the strictest mode of the inputs (0666 without inputs), minus the
 * umask, and at least 0600. If a signal ends the process, the partial file is removed. Returns 0 or, after a
 * message, the exit status.
 */
int gp_output_file_open(gp_output_file_t *file, const char *path, bool force);

/* Closes the file and renames it to its target. Returns 0 or, after a message, the exit status. */
int gp_output_file_close(gp_output_file_t *file);

/* Removes the partial file, if there is one. Call it before the process exits during its work. */
void gp_part_file_remove(void);

/* Discards what was written, except to stdout. */
void gp_output_file_discard(gp_output_file_t *file);

#endif
