/*
 * The records that programs left behind: found, listed, chosen.
 */
#ifndef GP_TOOLS_RECOVER_LIST_H
#define GP_TOOLS_RECOVER_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/region/record_file.h"

typedef struct gp_left {
  char path[GP_RECORD_FILE_PATH_BYTES];
  pid_t pid;
  uint64_t start_time_us; /* since 1970 */
  uint64_t bytes;         /* of memory that the file takes */
  bool is_running;        /* its program still is */
} gp_left_t;

typedef struct gp_left_list {
  gp_left_t *items; /* newest first */
  size_t count;
} gp_left_list_t;

/* The folder in which records are looked for: GPUPOOL_RECORD, or its default. "none": there are none. */
const char *gp_left_root(void);

/* All records of the user: in that folder, and where programs keep them while another user has taken its
 * place there (XDG_RUNTIME_DIR, /run/user/UID). Returns 0 or, after a message, the exit status. Fini it in
 * any case. */
int gp_left_list_read(gp_left_list_t *list);
void gp_left_list_fini(gp_left_list_t *list);

/* One line for each on stdout. */
void gp_left_list_print(const gp_left_list_t *list);

/* The newest record that the process pid left, or has; NULL: none. pid 0: any that is not running. */
const gp_left_t *gp_left_list_find(const gp_left_list_t *list, pid_t pid);

#endif
