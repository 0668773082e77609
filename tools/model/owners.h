/*
 * Who has the memory: what is held at some moment, by owner of the stack that asked for it (doc/owners.md).
 */
#ifndef GP_TOOLS_MODEL_OWNERS_H
#define GP_TOOLS_MODEL_OWNERS_H

#include "tools/model/holding.h"
#include "tools/model/moments.h"

#define GP_OWNERS 3

/* A function or, where a program or script begins, a line of it. Unknown texts are NULL. line, through and
 * operation belong to the place in it that holds most. */
typedef struct gp_owner {
  char *function;       /* else "module+0xoffset", or "python3 train.py" for a script without frames */
  char *text;           /* the whole owner in a line, as gp_owner_describe writes it without the language */
  char *file;           /* with its folders */
  char *through;        /* the function through which it asked */
  char *operation;      /* the framework operator that it called, "aten::conv2d" */
  const char *language; /* of a script whose frames are not recorded; else NULL. Static */
  int line;             /* 0: unknown */
  size_t line_count;    /* number of its lines that hold something */
  uint64_t bytes;       /* as requested */
  gp_holding_t holding;
} gp_owner_t;

/* unknown_bytes <= bytes. */
typedef struct gp_owners {
  gp_owner_t owners[GP_OWNERS]; /* the largest, first */
  size_t count;
  uint64_t bytes;         /* everything held at that moment */
  uint64_t unknown_bytes; /* part of bytes: memory without a stack */
} gp_owners_t;

/*
 * Finds the owners of memory of that kind that filter selects from lifetimes and the program held at moments.
 * Memory without a stack has no owner. Returns 0 or ENOMEM; call fini in any case. Thread-safe.
 */
int gp_owners_init(gp_owners_t *owners, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_owned_t owned);
void gp_owners_fini(gp_owners_t *owners);

#endif
