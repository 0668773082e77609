/*
 * The files of records (region.h): ROOT/gpupool.UID/PID-STARTTIME, a folder of the user's own that nobody
 * else can enter. STARTTIME (microseconds since 1970) tells apart two programs that ran under one pid.
 *
 * Nothing here allocates from the program's heap or keeps a descriptor open.
 */
#ifndef GP_TRACE_RECORD_FILE_H
#define GP_TRACE_RECORD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GP_RECORD_FILE_PATH_BYTES 1024
#define GP_RECORD_FILES_KEPT      4 /* of programs that did not end cleanly */

typedef struct gp_record_file {
  char path[GP_RECORD_FILE_PATH_BYTES];
  dev_t device;
  ino_t inode;
  const char *problem; /* what failed; static text */
} gp_record_file_t;

/* ROOT/gpupool.UID of the present user. Returns false if it does not fit. */
bool gp_record_folder(const char *root, char *buffer, size_t capacity);

/* The pid and start time in a file's name; false: it is no name of a record. */
bool gp_record_file_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start_time_us);

/* Makes an empty file, mode 0600, and its folder if necessary. Returns a descriptor, which the caller
 * closes, or -1 with errno and file->problem set. */
int gp_record_file_create(gp_record_file_t *file, const char *root, pid_t pid, uint64_t start_time_us);

/* Another descriptor for writing, or -1 with errno; ESTALE if the name now belongs to another file. */
int gp_record_file_reopen(const gp_record_file_t *file);

/* Removes the file, if the name still belongs to it. */
void gp_record_file_remove(const gp_record_file_t *file);

/*
 * True if some process has the file mapped for writing, that is, if its program still runs. fd is open
 * for reading only. Asks the kernel about the file instead of the pid, which may be of another name
 * space, or another program's by now.
 */
bool gp_record_file_is_in_use(int fd, pid_t pid);

/* Opens the user's folder, which must be closed to all other users: -1 with errno, and a static text
 * that says what is wrong. */
int gp_record_folder_open(const char *root, bool create, const char **ret_problem);

/* The folder for records while the one in root is taken (gp_record_folder_is_taken): XDG_RUNTIME_DIR, which
 * only this user can write to. NULL: there is none. */
const char *gp_record_second_root(void);

/* True if root is a folder. */
bool gp_record_root_is_there(const char *root);

/* True if the folder's name is taken by something other than a folder of this user's alone: another user's
 * folder, a link, a file. */
bool gp_record_folder_is_taken(const char *root);

/* Removes the oldest files that no program uses any more, all but GP_RECORD_FILES_KEPT. Returns how many
 * are left. Leaves a folder alone that others can enter. */
unsigned gp_record_files_prune(const char *root);

#endif
