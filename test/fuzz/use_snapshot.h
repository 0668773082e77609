/*
 * Everything that the tool makes of a snapshot: what was read has to be usable as it is.
 */
#ifndef GP_TEST_FUZZ_USE_SNAPSHOT_H
#define GP_TEST_FUZZ_USE_SNAPSHOT_H

#include "tools/read/snapshot.h"

#define FUZZ_ALL_COLUMNS ((1u << GP_COLUMN_COUNT) - 1)

/* snapshot: NULL after an error, which is then checked. Destroys it. size: of the input. */
void fuzz_use_snapshot(gp_snapshot_t *snapshot, const gp_snapshot_error_t *error, size_t size);

#endif
