/*
 * The processes of this machine as /proc shows them to this user: who is behind a record, and where other
 * processes have their files.
 */
#ifndef GP_TOOLS_MACHINE_PROCESSES_H
#define GP_TOOLS_MACHINE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a process sees as its files: a container has another one. */
typedef struct gp_place {
  uint64_t mounts; /* inode of the mount namespace */
  dev_t root_device;
  ino_t root_inode;
  pid_t pid; /* a process that is there */
} gp_place_t;

typedef struct gp_process {
  pid_t pid;
  pid_t inside; /* its number in its own PID namespace */
  uid_t user;   /* whom /proc says it belongs to */
  size_t place; /* index */
} gp_process_t;

typedef struct gp_processes {
  gp_process_t *items; /* by inside, then pid */
  size_t count;
  gp_place_t *places; /* the first is that of this process */
  size_t place_count;
} gp_processes_t;

/* Processes whose place /proc does not show to this user are left out. Returns 0 or ENOMEM. Call fini in any
 * case. */
int gp_processes_read(gp_processes_t *processes);
void gp_processes_fini(gp_processes_t *processes);

/*
 * The process that has the file mapped and the number `inside` in its own namespace; -1: none. Looks into
 * the processes' maps where more than one can be meant, or the file is of another user than the process, who
 * may have given it a false name. place: where the file was found; NULL: here. user: whose the file is.
 */
pid_t gp_processes_find(const gp_processes_t *processes, pid_t inside, const gp_place_t *place, uid_t user,
    dev_t device, uint64_t inode);

#define GP_CONTAINER_BYTES 16
#define GP_POD_BYTES       40

/* Container and pod by the process's control groups: 12 characters of the container's id, the pod's UID;
 * each "" if the groups tell none. Buffers of the sizes above. */
void gp_process_container(pid_t pid, char *container, char *pod);

/* The same of a text as in /proc/PID/cgroup. */
void gp_container_of_groups(const char *groups, char *container, char *pod);

#endif
