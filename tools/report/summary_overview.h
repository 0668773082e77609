/*
 * Tables with one line for each of many files, or of many devices. Those that stand out come first, and the
 * rest on request.
 */
#ifndef GP_TOOLS_REPORT_SUMMARY_OVERVIEW_H
#define GP_TOOLS_REPORT_SUMMARY_OVERVIEW_H

#include "tools/model/findings.h"
#include "tools/output.h"
#include "tools/report/ranks.h"

/* With so many devices of a file there is a table. */
#define GP_OVERVIEW_DEVICES 3

#define GP_OVERVIEW_CODES 256

typedef struct gp_overview_row {
  const char *file; /* borrowed from the request; NULL: it could not be read */
  char codes[GP_OVERVIEW_CODES];
  gp_severity_t severity; /* of the worst finding */
  uint64_t used;          /* bytes at most, the sum of its devices, as is held */
  uint64_t held;
  uint64_t ooms;
  uint64_t hits;
  uint64_t misses;
  uint64_t leaked; /* bytes held at the program's exit; 0 of a snapshot of another moment */
  bool ran_out;    /* the next one is valid */
  uint64_t out_ns; /* when memory first ran out */
  gp_rank_t rank;
  double apart; /* from the medians of used and held, as a share of these; valid after sorting */
} gp_overview_row_t;

typedef struct gp_overview {
  gp_overview_row_t *rows; /* shared by the processes that read the files (side_by_side.h) */
  size_t count;
  size_t room; /* private: rows that there is memory for */
} gp_overview_t;

/* A table of so many files. Returns 0 or ENOMEM; call fini in any case. */
int gp_overview_init(gp_overview_t *overview, size_t count);

/* Fills the row of a file. */
void gp_overview_set(gp_overview_row_t *row, const gp_findings_t *findings);

/* Writes the table of the files that could be read: the `most` rows that stand out, by what went wrong and
 * then by how far their memory is from the medians (0: all), and a line for the rest. Sorts the rows. */
void gp_overview_print(gp_overview_t *overview, size_t most, gp_output_t *output);

/* Names the ranks that used most and least, leaked most, and ran out first, where they differ from the
 * others. used, leaked: the medians. */
void gp_overview_print_ranks(
    const gp_overview_t *overview, uint64_t used, uint64_t leaked, gp_output_t *output);

void gp_overview_fini(gp_overview_t *overview);

/* Writes one line for each device. */
void gp_overview_print_devices(const gp_summary_t *summary, gp_output_t *output);

/* The device to show in full: where memory ran out, else that of most memory in use. */
const gp_summary_device_t *gp_overview_device(const gp_summary_t *summary);

#endif
