/*
 * Where an export goes: stdout, or a file that has its name only when it is complete. Unlike output.h nothing
 * is gathered in memory, since an export may be larger than what it is made of.
 */
#ifndef GP_TOOLS_OUTPUT_FILE_H
#define GP_TOOLS_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct gp_output_file {
  FILE *stream;
  const char *path; /* NULL: stdout */
  char *target;     /* path, links followed; NULL: stream is at its final place already */
  char *temporary;  /* where stream is meanwhile: beside target */
  bool force;
} gp_output_file_t;

/*
 * Whether path can be written: before the work is done, too. An existing file is refused unless force. With
 * force a regular file is replaced, links followed, and keeps its mode as far as the inputs allow; what is no
 * regular file (a device, a pipe) is written to as it is and never replaced; a folder and a link to nothing
 * are refused. Returns 0 or, after a message, the exit status.
 */
int gp_output_file_check(const char *path, bool force);

/*
 * fd is an input: no output that is opened later may be read or written by users who may not read or write
 * it. What is no regular file, stdin or a pipe, counts as its user's alone, and so does -1. Borrows fd. One
 * thread.
 */
void gp_output_file_take_input(int fd);

/*
 * path: NULL or "-" for stdout; borrowed. Else as gp_output_file_check. A new file has the strictest mode of
 * the inputs (0666 without any), less the umask, and always 0600. A signal that ends the process leaves no
 * part of the file (tools/part_file.h). Returns 0 or, after a message, the exit status.
 */
int gp_output_file_open(gp_output_file_t *file, const char *path, bool force);

/* Puts the file in its place. Returns 0 or, after a message, the exit status. */
int gp_output_file_close(gp_output_file_t *file);

/* Takes back what was written, except to stdout. */
void gp_output_file_discard(gp_output_file_t *file);

#endif
