/*
 * The records of this machine: those of the user, of root all; also those of containers, whose /dev/shm is
 * not ours, reached through /proc/PID/root of a process inside. Opens only what belongs to the user whose
 * number is in the folder's name, and follows no link: whoever runs in a container can put one there.
 */
#ifndef GP_TOOLS_MACHINE_RECORD_WALK_H
#define GP_TOOLS_MACHINE_RECORD_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/machine/processes.h"

typedef struct gp_found_record {
  const char *folder; /* a path that this process can use, for messages and commands */
  const char *name;
  int fd;         /* open for reading; closed after the visit */
  uint64_t inode; /* of the file */
  dev_t device;
  uint64_t bytes; /* memory that the file takes */
  uid_t user;
  pid_t pid;               /* in its own PID namespace */
  uint64_t start_time_us;  /* since 1970 */
  const gp_place_t *place; /* where the folder is; NULL: in this process's own root */
} gp_found_record_t;

/* Returns 0, or an errno, which ends the walk. */
typedef int (*gp_record_visit_fn)(void *self, const gp_found_record_t *found);

/* The folder that is searched first: GPUPOOL_RECORD, or its default. "none": the user's programs leave no
 * records. Borrowed. */
const char *gp_record_root(void);

/*
 * Visits each record once, in no order: of this user, with processes (borrowed) of all users if this is root,
 * and then in every place that they have; NULL: of this user, where a program of this process's environment
 * puts them. Also in XDG_RUNTIME_DIR and /run/user/UID, where programs put them if another user has taken the
 * name of the folder. Returns 0, the visitor's errno, or ENOMEM.
 */
int gp_records_walk(const gp_processes_t *processes, gp_record_visit_fn visit, void *self);

#endif
