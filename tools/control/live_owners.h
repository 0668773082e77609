/*
 * Who owns the memory of a running program, by its record: the same that `gpupool sites` says of a snapshot.
 */
#ifndef GP_TOOLS_LIVE_OWNERS_H
#define GP_TOOLS_LIVE_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_LIVE_OWNERS      64
#define GP_LIVE_OWNER_BYTES 256

typedef struct gp_live_owner {
  char name[GP_LIVE_OWNER_BYTES]; /* a function; may hold any character */
  uint64_t bytes;                 /* as requested */
  uint64_t blocks;
} gp_live_owner_t;

typedef struct gp_live_owners {
  gp_live_owner_t owners[GP_LIVE_OWNERS]; /* the largest, first */
  size_t count;
  uint64_t bytes; /* of all owners, also of those beyond these */
} gp_live_owners_t;

/* fd: the record, borrowed. False: it cannot be read, or there is no memory. Not thread safe. */
bool gp_live_owners_read(int fd, gp_live_owners_t *ret_owners);

#endif
