/*
 * Collects the sites of many files in one table. The row of a site has the sum over the files, and the files
 * with the smallest and largest amount.
 */
#ifndef GP_TOOLS_REPORT_SITES_RANKS_H
#define GP_TOOLS_REPORT_SITES_RANKS_H

#include "tools/hash_index.h"
#include "tools/model/sites.h"
#include "tools/report/report.h"

/* A site, and the files in which it has memory. Files are indexes into gp_sites_ranks_t.files. */
typedef struct gp_ranks_site {
  char *name;
  uint64_t sum; /* sum of the flat amounts of all files, in bytes or allocations like `least` and `most` */
  uint64_t least;
  uint64_t most;
  size_t least_file;
  size_t most_file;
  size_t file_count;
} gp_ranks_site_t;

typedef struct gp_ranks_file {
  char *file;
  int64_t rank; /* rank's number; -1: unknown */
} gp_ranks_file_t;

/* A zeroed struct is an empty table. */
typedef struct gp_sites_ranks {
  gp_ranks_site_t *sites;
  size_t count;
  gp_hash_index_t by_name;
  gp_ranks_file_t *files;
  size_t file_count;
  uint64_t sum;
  char heading[160]; /* heading of the amounts; like the members below the same for all files */
  gp_site_measure_t measure;
  const char *by; /* the property that defines a site, such as "function"; static */
  bool by_count;
  bool wide;
} gp_sites_ranks_t;

/* Adds the sites of a file. Returns 0 or ENOMEM. */
int gp_sites_ranks_add(gp_sites_ranks_t *ranks, const gp_sites_t *sites, const gp_report_input_t *input);

/* Prints the table with at most `most` rows; with 0, all rows. */
void gp_sites_ranks_print(gp_sites_ranks_t *ranks, uint64_t most, gp_output_t *output);

void gp_sites_ranks_fini(gp_sites_ranks_t *ranks);

#endif
