/*
 * Who has the memory: what is held at some moment, by the owner of the stack that asked for it
 * (doc/owners.md).
 */
#ifndef GP_TOOLS_MODEL_OWNERS_H
#define GP_TOOLS_MODEL_OWNERS_H

#include "tools/model/moments.h"

#define GP_OWNERS 3

/*
 * A function, or where a program or a script begins, a line of it. What is not known is NULL; line, through
 * and operation are of the place in it that holds most.
 */
typedef struct gp_owner {
  char *function;    /* else "module+0xoffset", of a script without frames "python3 train.py" */
  char *text;        /* all of it in a line, as gp_owner_describe writes it */
  char *file;        /* with its folders */
  char *through;     /* the function that it asked through */
  char *operation;   /* the operator of a framework that it called, "aten::conv2d" */
  int line;          /* 0: not known */
  size_t line_count; /* how many of its lines hold something */
  uint64_t bytes;    /* asked for */
} gp_owner_t;

typedef struct gp_owners {
  gp_owner_t owners[GP_OWNERS]; /* the largest, first */
  size_t count;
  uint64_t bytes;         /* of all that is held then */
  uint64_t unknown_bytes; /* of these, of what has no stack */
} gp_owners_t;

/*
 * Finds the owners of what filter wants of lifetimes and the program held at moments. What has no stack has
 * none; host memory is left out. Returns 0 or ENOMEM; fini it in any case. Thread-safe.
 */
int gp_owners_init(gp_owners_t *owners, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments);
void gp_owners_fini(gp_owners_t *owners);

#endif
