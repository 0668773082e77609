/*
 * Tables with one line for each of many files or devices. Lines that stand out come first. The other lines
 * are printed on request.
 */
#ifndef GP_TOOLS_REPORT_SUMMARY_OVERVIEW_H
#define GP_TOOLS_REPORT_SUMMARY_OVERVIEW_H

#include "tools/model/findings.h"
#include "tools/output.h"
#include "tools/report/ranks.h"

/* Smallest number of devices that are shown as a table. */
#define GP_OVERVIEW_DEVICES 3

#define GP_OVERVIEW_CODES 256

typedef struct gp_overview_row {
  const char *file; /* file name, which points into the request; NULL: the file is unreadable */
  char codes[GP_OVERVIEW_CODES];
  gp_severity_t severity; /* severity of the worst finding */
  uint64_t used;          /* sum of the devices' peaks of requested bytes */
  uint64_t held;
  uint64_t ooms;
  uint64_t hits;
  uint64_t misses;
  uint64_t leaked; /* bytes in use at the program's exit; 0 if the snapshot was not written at exit */
  bool ran_out;    /* true if memory ran out, so that out_ns is valid */
  uint64_t out_ns; /* time when memory first ran out */
  gp_rank_t rank;
  double apart; /* relative distance of `used` and `held` from their medians; valid after sorting */
} gp_overview_row_t;

typedef struct gp_overview {
  gp_overview_row_t *rows; /* shared by the processes that read the files (side_by_side.h) */
  size_t count;
  size_t room; /* private: allocated rows */
} gp_overview_t;

/* Allocates a table of `count` rows. Returns 0 or ENOMEM. Call gp_overview_fini in any case. */
int gp_overview_init(gp_overview_t *overview, size_t count);

/* Fills a file's row from its findings. */
void gp_overview_set(gp_overview_row_t *row, const gp_findings_t *findings);

/* Prints the table of the readable files: at most `most` rows (0: all), and a line for the rest. Sorts rows
 * by severity, and then by the distance of their memory from the medians, so that outliers come first. */
void gp_overview_print(gp_overview_t *overview, size_t most, gp_output_t *output);

/* Prints which ranks used the most and the least memory, leaked the most, and ran out of memory first, if
 * they differ from the others. `used` and `leaked` are the medians. */
void gp_overview_print_ranks(
    const gp_overview_t *overview, uint64_t used, uint64_t leaked, gp_output_t *output);

void gp_overview_fini(gp_overview_t *overview);

/* Prints one line for each device. */
void gp_overview_print_devices(const gp_summary_t *summary, gp_output_t *output);

/* Returns the device to show in full: the one that ran out of memory, else the one with most memory in
 * use. */
const gp_summary_device_t *gp_overview_device(const gp_summary_t *summary);

#endif
