/*
 * Files without a name that stand behind memory, which processes share.
 */
#ifndef SIM_FILE_H
#define SIM_FILE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint64_t system, inode; /* inode 0: there is no file */
  int descriptor;         /* the program may have closed it, and have opened a file of its own there */
} sim_file_t;

bool sim_file_new(sim_file_t *ret, const char *name, uint64_t size); /* false: there is none */
bool sim_file_look_at(sim_file_t *ret, int descriptor); /* false: it is no descriptor of such a file */
bool sim_file_is_same(const sim_file_t *a, const sim_file_t *b);
bool sim_file_is_there(const sim_file_t *file); /* false: the program has closed it, or there is none */
int sim_file_share(
    const sim_file_t *file); /* another descriptor, for other processes; negative: there is none */
bool sim_file_is_shared(const sim_file_t *file); /* one of these, or a copy of one, is open somewhere */
int sim_file_copy(const sim_file_t *file); /* another descriptor, the caller's; negative: there is none */
void sim_file_close(const sim_file_t *file);

#endif
