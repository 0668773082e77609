/*
 * The files of records (region.h). Their paths are ROOT/gpupool.UID/PID-STARTTIME, in a folder that only the
 * user may access. STARTTIME (microseconds since 1970) distinguishes programs that had the same pid.
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
#define GP_RECORD_FILES_KEPT      4 /* maximum number of kept files of programs that did not end cleanly */

typedef struct gp_record_file {
  char path[GP_RECORD_FILE_PATH_BYTES];
  dev_t device;
  ino_t inode;
  const char *problem; /* the operation that failed, as a static text */
} gp_record_file_t;

/* Writes ROOT/gpupool.UID to `buffer`, with the effective user id. Returns false if it does not fit. */
bool gp_record_folder(const char *root, char *buffer, size_t capacity);

/* Parses the pid and the start time in a file name. Returns false if it is not the name of a record. */
bool gp_record_file_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start_time_us);

/* Creates an empty file of mode 0600, and the folder if necessary. Returns a descriptor, which the caller
 * closes, or -1 with errno and file->problem set. */
int gp_record_file_create(gp_record_file_t *file, const char *root, pid_t pid, uint64_t start_time_us);

/* Opens the file again for writing. Returns a descriptor, or -1 with errno set: ESTALE if the path now names
 * another file. */
int gp_record_file_reopen(const gp_record_file_t *file);

/* Removes the file if the path still names this file. */
void gp_record_file_remove(const gp_record_file_t *file);

/*
 * Returns true if a process has the file mapped for writing, that is, if its program is still running. fd
 * must be open for reading only. The function queries the kernel about the file instead of the pid, because
 * the pid may be from another namespace or may have been reused.
 */
bool gp_record_file_is_in_use(int fd, pid_t pid);

/* Opens the user's folder and returns a descriptor. If that fails, or if other users have access to the
 * folder, returns -1 with errno set and *ret_problem pointing to a static text that describes the problem. */
int gp_record_folder_open(const char *root, bool create, const char **ret_problem);

/* Returns the root to use if another user has taken the folder's name in the first root
 * (gp_record_folder_is_taken). This is XDG_RUNTIME_DIR, which only this user can write to. Returns NULL if it
 * is not set. */
const char *gp_record_second_root(void);

/* Returns true if root is a folder. */
bool gp_record_root_is_there(const char *root);

/* Returns true if the folder's name exists but is not a folder that only this user may access. It may be, for
 * example, another user's folder, a link, or a file. */
bool gp_record_folder_is_taken(const char *root);

/* Removes files that no program uses any more, except the newest GP_RECORD_FILES_KEPT. Returns the number of
 * unused files that remain. Does nothing in a folder that other users can access. */
unsigned gp_record_files_prune(const char *root);

#endif
