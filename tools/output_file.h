/*
 * Where an export goes: stdout, or a file that gets its name only when it is complete. Unlike output.h it
 * collects nothing in memory, since an export may be larger than its input.
 */
#ifndef GP_TOOLS_OUTPUT_FILE_H
#define GP_TOOLS_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct gp_output_file {
  FILE *stream;
  const char *path; /* NULL: stdout */
  char *target;     /* path, links followed; NULL: stream is already the final file */
  char *temporary;  /* the file that stream writes meanwhile, beside target */
  bool force;
} gp_output_file_t;

/*
 * Checks whether path can be written; also call it before the work. Refuses an existing file unless force.
 * With force:
 * - a regular file is replaced, links followed, and keeps its mode as far as the inputs allow;
 * - a device, a pipe or the like is written to in place and never replaced;
 * - a folder and a link to nothing are refused.
 * Returns 0 or, after a message, the exit status.
 */
int gp_output_file_check(const char *path, bool force);

/* fd is an input: users who may not read (or write) it will not be able to read (or write) outputs opened
 * later. If fd is not a regular file, is stdin, or is -1, only its user may. Borrows fd. One thread. */
void gp_output_file_take_input(int fd);

/*
 * path: NULL or "-" for stdout; borrowed. Otherwise checks it like gp_output_file_check. A new file gets
 * the strictest mode of the inputs (0666 without any), less the umask, and at least 0600. A signal that
 * ends the process removes the partial file. Returns 0 or, after a message, the exit
 * status.
 */
int gp_output_file_open(gp_output_file_t *file, const char *path, bool force);

/* Renames the file to its target. Returns 0 or, after a message, the exit status. */
int gp_output_file_close(gp_output_file_t *file);

/* Removes the file that is being written, if any; call it before the process exits in the middle of its work.
 */
void gp_part_file_remove(void);

/* Discards what was written, except to stdout. */
void gp_output_file_discard(gp_output_file_t *file);

#endif
