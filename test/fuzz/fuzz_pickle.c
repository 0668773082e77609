/*
 * Snapshots of PyTorch as Python pickles.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "tools/read/pytorch/import.h"
#include "use_snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  gp_snapshot_error_t error = {0, ""};
  gp_input_t input;
  char *text = fuzz_copy(data, size);
  fuzz_silence();
  gp_input_init_memory(&input, text, size);
  fuzz_use_snapshot(gp_import(gp_import_read_pickle, &input, FUZZ_ALL_COLUMNS, &error), &error, size);
  free(text);
  return 0;
}
