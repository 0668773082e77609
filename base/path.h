/*
 * Output paths with placeholders, and files that never overwrite.
 */
#ifndef GP_BASE_PATH_H
#define GP_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define GP_PATH_BYTES 4096

/* The rank of the process, as torchrun, Open MPI, MVAPICH2, Hydra, PMIx, PALS (Cray), Horovod or Slurm sets
 * it, in this order: what a launcher inside of Slurm says goes before Slurm. NULL: none does. Borrowed from
 * the environment. */
const char *gp_path_rank(void);

/*
 * Expands %e (program name), %p (pid), %h (host), %k (rank: gp_path_rank, else 0), %t (seconds since the
 * epoch), %n (sequence), %r (reason) and %%
 * in pattern. Slashes in expanded values become underscores. reason may be NULL (""). Returns 0, or -1 if the
 * result does not fit or a placeholder is unknown (then buffer holds "").
 */
int gp_path_expand(const char *pattern, unsigned sequence, const char *reason, char *buffer, size_t capacity);

/*
 * Returns NULL if every placeholder of pattern is known, else a pointer to the first that is not.
 */
const char *gp_path_check(const char *pattern);

/* True if path names something other than a file or a folder, links followed: a
 * device, a pipe, a socket. */
bool gp_path_is_special(const char *path);

#endif
