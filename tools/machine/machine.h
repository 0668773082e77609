/*
 * The pooled processes of this machine and each one's memory on each device, read from the processes'
 * records.
 *
 * Invariants: the figures of a process are devices[first_device .. first_device + device_count), followed by
 * those of the next process. Texts are printable (gp_printable). The processes wrote all of this data. A
 * process can forge its own data, but not that of another process.
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
 * The records of this machine: those of this user, or for root those of all users. They include records in
 * containers, which are reached through /proc/PID/root of a process inside. The walk opens only files that
 * belong to the user whose number is in the folder's name. It follows no links, because any program in a
 * container can create one.
 */

typedef struct gp_found_record {
  const char *folder; /* a path that this process can use in messages and commands */
  const char *name;
  int fd;         /* open for reading; closed after the visitor returns */
  uint64_t inode; /* identifies the file, together with `device` */
  dev_t device;
  uint64_t bytes; /* memory that the file occupies */
  uid_t user;
  pid_t pid;               /* in its own PID namespace */
  uint64_t start_time_us;  /* since 1970 */
  const gp_place_t *place; /* file system that contains the folder; NULL: this process's own */
} gp_found_record_t;

/* Called for each record. Returns 0, or an errno, which ends the walk. */
typedef int (*gp_record_visit_fn)(void *self, const gp_found_record_t *found);

/* Returns the folder that is searched first: GPUPOOL_RECORD or its default. Returns "none" if the user's
 * programs write no records. The text is borrowed. */
const char *gp_record_root(void);

/*
 * Visits each record once, in no particular order. With `processes` (borrowed), visits the records in this
 * file system and in every place of `processes`; those of this user or, for root, of all users. With NULL,
 * visits only this user's records in this file system, in the folder that programs with this process's
 * environment use. Also searches XDG_RUNTIME_DIR and /run/user/UID, which programs use if another user has
 * taken the folder's name. Returns 0, the visitor's errno, or ENOMEM.
 */
int gp_records_walk(const gp_processes_t *processes, gp_record_visit_fn visit, void *self);

/*
 * Reads the header of a process's record and the statistics of its devices. Uses only a few pread calls, so
 * the process is not disturbed. If the owner truncates the file meanwhile, a read only returns fewer bytes.
 * The record may belong to another user, so its content is not trusted. For events and memory see
 * read/record/record_reader.h.
 */

#define GP_LOOK_TEXT_BYTES 16384

typedef enum gp_look_result {
  GP_LOOK_DONE,
  GP_LOOK_NOTHING,     /* not a record, or the process is still creating the record */
  GP_LOOK_OTHER_BUILD, /* the record is from another build: only library_version can be read */
} gp_look_result_t;

typedef struct gp_record_look {
  gp_record_header_t header;
  char text[GP_LOOK_TEXT_BYTES];
  gp_description_t description; /* the part of the description that fits in `text` */
  size_t device_bytes;          /* bytes in use in the record's section of devices */
} gp_record_look_t;

/* Reads the record's header and description from `fd`, which is borrowed. Thread-safe. */
gp_look_result_t gp_record_look(int fd, gp_record_look_t *ret_look);

/*
 * Reads the statistics of one device, with the peaks of all windows. Returns false if the record does not
 * contain the device. *ret_is_settled is true if the figures are consistent. It is false if the process
 * changed them during each of several reads, or if they are damaged.
 */
bool gp_record_look_device(
    int fd, const gp_record_look_t *look, int ordinal, gp_device_record_t *ret_device, bool *ret_is_settled);

#define GP_COMMAND_BYTES 512
#define GP_PROGRAM_BYTES 64
#define GP_HOST_BYTES    64

/* All sizes in bytes. */
typedef struct gp_machine_device {
  size_t process;  /* index of the device's process in `processes` */
  int ordinal;     /* the device's ordinal in the process */
  bool is_settled; /* true if all figures are from one moment */
  uint64_t held;   /* device memory that the pool has reserved or the library has forwarded */
  uint64_t peak;   /* peak of reserved plus peak of forwarded memory, maybe at different moments */
  uint64_t used;   /* part of `held` that was requested and not freed */
  uint64_t cached;
  uint64_t pinned; /* page-locked host memory */
  uint64_t limit;  /* 0: none */
  uint64_t hits, misses, driver_calls, ooms;
} gp_machine_device_t;

typedef struct gp_machine_process {
  pid_t pid;    /* -1: a process uses the record, but /proc does not show this user which one */
  pid_t inside; /* its pid in its own PID namespace */
  uid_t user;
  uint64_t start_time_us;         /* first use of GPU memory, since 1970 */
  char program[GP_PROGRAM_BYTES]; /* file name without folders */
  char command[GP_COMMAND_BYTES];
  char host[GP_HOST_BYTES];                              /* as the process sees it: in a pod the pod's name */
  char container[GP_CONTAINER_BYTES], pod[GP_POD_BYTES]; /* "" if unknown */
  char version[GP_RECORD_VERSION_BYTES];                 /* library version */
  bool is_of_other_build;                                /* the figures cannot be read */
  size_t first_device, device_count;
} gp_machine_process_t;

typedef struct gp_machine {
  gp_machine_process_t *processes;
  size_t process_count;
  gp_machine_device_t *devices;
  size_t device_count;
} gp_machine_t;

/* Fills those members of *process that the record's description contains, as printable texts. Leaves the
 * other members unchanged. */
void gp_machine_describe(const gp_record_look_t *look, gp_machine_process_t *process);

/* Computes a device's figures from its record, except process, ordinal and is_settled, which it sets to 0. */
void gp_machine_figures(const gp_device_record_t *record, gp_machine_device_t *device);

/* Calls `visit` for each record that gp_machine_read reads. Returns as gp_records_walk does. */
int gp_machine_visit(gp_record_visit_fn visit, void *self);

/* Reads the records of this user's running processes, or for root those of all users. Returns 0 or ENOMEM.
 * Call gp_machine_fini in any case. */
int gp_machine_read(gp_machine_t *machine);
void gp_machine_fini(gp_machine_t *machine);

#endif
