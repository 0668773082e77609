/*
 * Finds the owners of the memory in use at some moment, by the stacks that allocated it (doc/owners.md).
 */
#ifndef GP_TOOLS_MODEL_OWNERS_H
#define GP_TOOLS_MODEL_OWNERS_H

#include "tools/model/holding.h"
#include "tools/model/moments.h"

#define GP_OWNERS 3

/* A function, or one of its lines where a program or script begins. Unknown texts are NULL. `line`, `through`
 * and `operation` describe the place in the function with the most memory in use. */
typedef struct gp_owner {
  char *function;  /* function name, "module+0xoffset", or "python3 train.py" for a script without frames */
  char *text;      /* the whole owner in one line, written by gp_owner_describe without the language */
  char *file;      /* path */
  char *through;   /* function that the owner called to allocate */
  char *operation; /* framework operator that the owner called, "aten::conv2d" */
  const char *language; /* the script's language if its frames were not recorded, otherwise NULL (static) */
  int line;             /* line number; 0: unknown */
  size_t line_count;    /* number of the owner's lines with memory in use */
  uint64_t bytes;       /* requested bytes in use */
  gp_holding_t holding;
} gp_owner_t;

/* The owners of the memory in use. Invariant: unknown_bytes <= bytes. */
typedef struct gp_owners {
  gp_owner_t owners[GP_OWNERS]; /* the largest owners, largest first */
  size_t count;
  uint64_t bytes;         /* all bytes in use at the moment */
  uint64_t unknown_bytes; /* part of `bytes` that has no stack */
} gp_owners_t;

/*
 * Finds the owners of the memory of kind `owned` that `filter` selects and that was in use at `moments`.
 * Memory without a stack has no owner. Returns 0 or ENOMEM; call gp_owners_fini in any case. Thread-safe.
 */
int gp_owners_init(gp_owners_t *owners, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_owned_t owned);
void gp_owners_fini(gp_owners_t *owners);

#endif
