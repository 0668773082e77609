/*
 * Tables with one line for each of many files or devices. Lines that stand out come first; the rest is
 * printed on request.
 */
#ifndef GP_TOOLS_REPORT_SUMMARY_OVERVIEW_H
#define GP_TOOLS_REPORT_SUMMARY_OVERVIEW_H

#include "tools/model/findings.h"
#include "tools/output.h"
#include "tools/report/ranks.h"

/* From this number of devices on, a file's devices are shown as a table. */
#define GP_OVERVIEW_DEVICES 3

#define GP_OVERVIEW_CODES 256

typedef struct gp_overview_row {
  const char *file; /* points into the request; NULL: unreadable */
  char codes[GP_OVERVIEW_CODES];
  gp_severity_t severity; /* of the worst finding */
  uint64_t used;          /* sum of the devices' peaks of requested bytes */
  uint64_t held;
  uint64_t ooms;
  uint64_t hits;
  uint64_t misses;
  uint64_t leaked; /* bytes in use at the program's exit; 0 if the snapshot was not written at exit */
  bool ran_out;    /* out_ns is valid */
  uint64_t out_ns; /* when memory first ran out */
  gp_rank_t rank;
  double apart; /* distance from the medians of used and held, relative to them; valid after sorting */
} gp_overview_row_t;

typedef struct gp_overview {
  gp_overview_row_t *rows; /* shared by the processes that read the files (side_by_side.h) */
  size_t count;
  size_t room; /* private: allocated rows */
} gp_overview_t;

/* Allocates a table of count rows. Returns 0 or ENOMEM. Call fini in any case. */
int gp_overview_init(gp_overview_t *overview, size_t count);

/* Fills a file's row from its findings. */
void gp_overview_set(gp_overview_row_t *row, const gp_findings_t *findings);

/* Prints the table of the readable files: the `most` rows (0: all) that stand out, ordered by severity and
 * then by the distance of their memory from the medians, and a line for the rest. Sorts the rows. */
void gp_overview_print(gp_overview_t *overview, size_t most, gp_output_t *output);

/* Prints which ranks used most and least, leaked most, and ran out of memory first, if they differ from the
 * others. used and leaked are the medians. */
void gp_overview_print_ranks(
    const gp_overview_t *overview, uint64_t used, uint64_t leaked, gp_output_t *output);

void gp_overview_fini(gp_overview_t *overview);

/* Prints one line for each device. */
void gp_overview_print_devices(const gp_summary_t *summary, gp_output_t *output);

/* Returns the device to show in full: the one that ran out of memory, else the one with most memory in
 * use. */
const gp_summary_device_t *gp_overview_device(const gp_summary_t *summary);

#endif
