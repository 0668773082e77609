/*
 * The pooled processes of this machine, and what each holds of each device, by their records.
 *
 * Invariants: figures of a process are devices[first_device .. first_device + device_count); those of the
 * next process follow them. Texts are printable (gp_printable). All of it is what the processes wrote: a
 * process can lie about itself, and about nothing else.
 */
#ifndef GP_TOOLS_MACHINE_MACHINE_H
#define GP_TOOLS_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/machine/processes.h"
#include "tools/machine/record_look.h"
#include "tools/machine/record_walk.h"

#define GP_COMMAND_BYTES 512
#define GP_PROGRAM_BYTES 64
#define GP_HOST_BYTES    64

/* All sizes in bytes. */
typedef struct gp_machine_device {
  size_t process;  /* index */
  int ordinal;     /* as the process counts its devices */
  bool is_settled; /* the figures are of one moment */
  uint64_t held;   /* of the device: by the pool, and not pooled */
  uint64_t peak;   /* the highest of both, which need not be of one moment */
  uint64_t used;   /* of held: what the program has asked for and not freed */
  uint64_t cached;
  uint64_t pinned; /* of the host */
  uint64_t limit;  /* 0: none */
  uint64_t hits, misses, driver_calls, ooms;
} gp_machine_device_t;

typedef struct gp_machine_process {
  pid_t pid;    /* -1: its record is in use, but /proc does not show this user whose it is */
  pid_t inside; /* its number in its own PID namespace */
  uid_t user;
  uint64_t start_time_us;         /* since 1970: its first use of GPU memory */
  char program[GP_PROGRAM_BYTES]; /* without folders */
  char command[GP_COMMAND_BYTES];
  char host[GP_HOST_BYTES]; /* as the process names it: in a pod the pod's name */
  char container[GP_CONTAINER_BYTES], pod[GP_POD_BYTES]; /* "" if unknown */
  char version[GP_RECORD_VERSION_BYTES];                 /* of the library */
  bool is_of_other_build;                                /* its figures cannot be read */
  size_t first_device, device_count;
} gp_machine_process_t;

typedef struct gp_machine {
  gp_machine_process_t *processes;
  size_t process_count;
  gp_machine_device_t *devices;
  size_t device_count;
} gp_machine_t;

/* What a record says of its process, as texts that are safe to print; the rest of *process stays. */
void gp_machine_describe(const gp_record_look_t *look, gp_machine_process_t *process);

/* The figures of a device's record; process, ordinal and is_settled of *device are 0. */
void gp_machine_figures(const gp_device_record_t *record, gp_machine_device_t *device);

/* gp_records_walk over the same records. */
int gp_machine_visit(gp_record_visit_fn visit, void *self);

/* Reads the records of this user's processes, of root those of all. Returns 0 or ENOMEM. Call fini in any
 * case. */
int gp_machine_read(gp_machine_t *machine);
void gp_machine_fini(gp_machine_t *machine);

#endif
