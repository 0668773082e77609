/*
 * Finds the owners of the memory in use at some moment, by the stacks that allocated it (doc/owners.md).
 */
#ifndef GP_TOOLS_MODEL_OWNERS_H
#define GP_TOOLS_MODEL_OWNERS_H

#include "tools/model/holding.h"
#include "tools/model/moments.h"

#define GP_OWNERS 3

/* A function, or a line of it where a program or script begins. Unknown texts are NULL. line, through and
 * operation describe the place in the function with most memory. */
typedef struct gp_owner {
  char *function;       /* name; or "module+0xoffset", or "python3 train.py" for a script without frames */
  char *text;           /* the whole owner in one line, as gp_owner_describe writes it without the language */
  char *file;           /* path */
  char *through;        /* the function that it called to allocate */
  char *operation;      /* the framework operator that it called, "aten::conv2d" */
  const char *language; /* the script's, if its frames are not recorded; else NULL. Static */
  int line;             /* 0: unknown */
  size_t line_count;    /* number of its lines with memory in use */
  uint64_t bytes;       /* as requested */
  gp_holding_t holding;
} gp_owner_t;

/* unknown_bytes <= bytes. */
typedef struct gp_owners {
  gp_owner_t owners[GP_OWNERS]; /* the largest, first */
  size_t count;
  uint64_t bytes;         /* everything in use at that moment */
  uint64_t unknown_bytes; /* part of bytes: memory without a stack */
} gp_owners_t;

/*
 * Finds the owners of the memory of kind `owned` that filter selects and that was in use at moments. Memory
 * without a stack has no owner. Returns 0 or ENOMEM; call fini in any case. Thread-safe.
 */
int gp_owners_init(gp_owners_t *owners, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_owned_t owned);
void gp_owners_fini(gp_owners_t *owners);

#endif
