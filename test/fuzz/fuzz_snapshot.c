/*
 * Snapshots and logs of all kinds, read in memory and through a small window, which must agree.
 */
#include <stdlib.h>
#include <string.h>

#include "../tools/pieces.h"
#include "fuzz.h"
#include "tools/read/load.h"
#include "use_snapshot.h"

/* expected: of the same text in memory; NULL: it was good. */
static void read_in_pieces(const char *text, size_t size, const gp_snapshot_error_t *expected)
{
  size_t window = 1 + size % 61;
  pieces_t pieces = {.text = text, .length = size, .piece = window};
  gp_snapshot_error_t error = {0, ""};
  gp_input_t input;
  gp_input_init(&input, pieces_read, &pieces, window);
  gp_snapshot_t *snapshot = gp_snapshot_parse_any(&input, FUZZ_ALL_COLUMNS, &error);
  FUZZ_CHECK((snapshot != NULL) == (expected == NULL));
  if (expected)
    FUZZ_CHECK(error.offset == expected->offset && strcmp(error.text, expected->text) == 0);
  gp_snapshot_destroy(snapshot);
  gp_input_fini(&input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  gp_snapshot_error_t error = {0, ""};
  gp_input_t input;
  char *text = fuzz_copy(data, size);
  fuzz_silence();
  gp_input_init_memory(&input, text, size);
  gp_snapshot_t *snapshot = gp_snapshot_parse_any(&input, FUZZ_ALL_COLUMNS, &error);
  read_in_pieces(text, size, snapshot ? NULL : &error);
  fuzz_use_snapshot(snapshot, &error, size);
  free(text);
  return 0;
}
