/*
 * Records of processes that were killed, which anything may have written. What becomes of one is a snapshot
 * that can be read. The file is as long as its header says, with a hole at its end, as real ones have. An
 * input whose hash of the layout is 0 gets this build's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "tools/machine/ps_table.h"
#include "tools/machine/machine.h"
#include "tools/read/native/snapshot_reader.h"
#include "tools/read/record/record_reader.h"
#include "format/layout.h"
#include "use_snapshot.h"

#define LENGTH_MOST (UINT64_C(1) << 40)

static void write_record(int fd, const uint8_t *data, size_t size)
{
  const off_t hash_at = offsetof(gp_record_header_t, layout_hash);
  const uint64_t ours = gp_layout_hash();
  uint64_t length = 0, hash = ours;
  if (size >= sizeof(gp_record_header_t)) {
    memcpy(&length, data + offsetof(gp_record_header_t, bytes), sizeof(length));
    memcpy(&hash, data + hash_at, sizeof(hash));
  }
  FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
  if (hash == 0)
    FUZZ_CHECK(pwrite(fd, &ours, sizeof(ours), hash_at) == sizeof(ours));
  if (length > size && length <= LENGTH_MOST)
    FUZZ_CHECK(ftruncate(fd, (off_t)length) == 0);
}

/* What `gpupool ps` reads of it, and the table that it prints. */
static void look(int fd)
{
  static gp_record_look_t look;
  static FILE *nowhere;
  gp_device_record_t record;
  bool is_settled;
  gp_machine_process_t process = {0};
  gp_machine_device_t devices[GP_MAX_DEVICES];
  gp_machine_t machine = {&process, 1, devices, 0};
  gp_ps_table_t table;
  const gp_ps_look_t view = {.columns = 80, .chosen = SIZE_MAX};

  if (gp_record_look(fd, &look) == GP_LOOK_NOTHING)
    return;
  gp_machine_describe(&look, &process);
  for (int ordinal = 0; ordinal < GP_MAX_DEVICES; ordinal++) {
    if (gp_record_look_device(fd, &look, ordinal, &record, &is_settled))
      gp_machine_figures(&record, &devices[machine.device_count++]);
  }
  process.device_count = machine.device_count;
  if (!nowhere)
    nowhere = fopen("/dev/null", "w");
  FUZZ_CHECK(nowhere && gp_ps_table_init(&table, &machine, GP_PS_TOTAL, NULL) == 0);
  gp_ps_table_print(&table, &view, &(gp_output_t){.stream = nowhere});
  gp_ps_table_fini(&table);
}

/* The caller frees it. */
static char *write_document(int fd, const gp_document_t *document, size_t *ret_length)
{
  static char buffer[65536];
  gp_json_t json;
  FUZZ_CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
  gp_json_init(&json, fd, buffer, sizeof(buffer));
  gp_document_write(&json, document);
  FUZZ_CHECK(gp_json_finish(&json) == 0);
  off_t length = lseek(fd, 0, SEEK_END);
  char *text = malloc((size_t)length + 1);
  FUZZ_CHECK(text != NULL && pread(fd, text, (size_t)length, 0) == length);
  text[length] = '\0';
  *ret_length = (size_t)length;
  return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static gp_record_t record;
  static int file = -1, snapshot_file = -1;
  gp_snapshot_error_t error = {0, ""};
  size_t length;

  if (file < 0) {
    file = memfd_create("record", MFD_CLOEXEC);
    snapshot_file = memfd_create("snapshot", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && snapshot_file >= 0);
  }
  fuzz_silence();
  write_record(file, data, size);
  look(file);
  if (gp_record_read(file, &record)) {
    char *text = write_document(snapshot_file, &record.document, &length);
    gp_snapshot_t *snapshot = gp_snapshot_parse(text, length, FUZZ_ALL_COLUMNS, &error);
    if (!snapshot)
      dprintf(STDERR_FILENO, "fuzz: offset %zu: %s\n", error.offset, error.text);
    FUZZ_CHECK(snapshot != NULL);
    fuzz_use_snapshot(snapshot, &error, length);
    free(text);
  } else {
    FUZZ_CHECK(record.problem[0] != '\0');
  }
  gp_record_fini(&record);
  return 0;
}
