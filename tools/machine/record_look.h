/*
 * A glance at a process's record: who wrote it, and the statistics of its devices. It is taken by a few
 * reads of the file, so the process notices nothing, and a file that its owner cuts short meanwhile is a
 * short read. The record may be of another user: nothing in it is believed. Events and memory are for
 * read/record/record_reader.h.
 */
#ifndef GP_TOOLS_MACHINE_RECORD_LOOK_H
#define GP_TOOLS_MACHINE_RECORD_LOOK_H

#include <stdbool.h>

#include "format/device.h"
#include "format/record.h"
#include "trace/record/description.h"

#define GP_LOOK_TEXT_BYTES 16384

typedef enum gp_look_result {
  GP_LOOK_DONE,
  GP_LOOK_NOTHING,     /* no record, or one that its process is still making */
  GP_LOOK_OTHER_BUILD, /* of the header only library_version can be read */
} gp_look_result_t;

typedef struct gp_record_look {
  gp_record_header_t header;
  char text[GP_LOOK_TEXT_BYTES];
  gp_description_t description; /* as much of it as text holds */
  size_t device_bytes;          /* of the section of devices */
} gp_record_look_t;

/* Reads header and description from fd, which is borrowed. Thread safe. */
gp_look_result_t gp_record_look(int fd, gp_record_look_t *ret_look);

/*
 * Reads the statistics of one device. The peaks are those of all windows. False: the record has none.
 * *ret_is_settled: the figures are of one moment; else the process changed them during each of several
 * reads, or they were never right.
 */
bool gp_record_look_device(
    int fd, const gp_record_look_t *look, int ordinal, gp_device_record_t *ret_device, bool *ret_is_settled);

#endif
