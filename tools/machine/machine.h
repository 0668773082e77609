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
#include "format/device.h"
#include "trace/record/description.h"

/*
 * The records of this machine: those of the user, of root all; also those of containers, whose /dev/shm is
 * not ours, reached through /proc/PID/root of a process inside. Opens only what belongs to the user whose
 * number is in the folder's name, and follows no link: whoever runs in a container can put one there.
 */

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

/*
 * A glance at a process's record: who wrote it, and the statistics of its devices. It is taken by a few
 * reads of the file, so the process notices nothing, and a file that its owner cuts short meanwhile is a
 * short read. The record may be of another user: nothing in it is believed. Events and memory are for
 * read/record/record_reader.h.
 */

#define GP_LOOK_TEXT_BYTES 16384

typedef enum gp_look_result {
  GP_LOOK_DONE,
  GP_LOOK_NOTHING,     /* no record, or one that its process is still making */
  GP_LOOK_OTHER_BUILD, /* of the header only library_version can be read */
} gp_look_result_t;

typedef struct gp_record_look {
  gp_record_header_t header;
  char text[GP_LOOK_TEXT_BYTES];
  gp_description_t description; /* as much of it as text holds */
  size_t device_bytes;          /* of the section of devices */
} gp_record_look_t;

/* Reads header and description from fd, which is borrowed. Thread safe. */
gp_look_result_t gp_record_look(int fd, gp_record_look_t *ret_look);

/*
 * Reads the statistics of one device. The peaks are those of all windows. False: the record has none.
 * *ret_is_settled: the figures are of one moment; else the process changed them during each of several
 * reads, or they were never right.
 */
bool gp_record_look_device(
    int fd, const gp_record_look_t *look, int ordinal, gp_device_record_t *ret_device, bool *ret_is_settled);

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
