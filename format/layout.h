/* A hash of the record's layout. If reader and writer have the same hash, they interpret every byte of a
 * record in the same way. The record contains the writer's hash (record.h). */
#ifndef GP_FORMAT_LAYOUT_H
#define GP_FORMAT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Must be incremented when the meaning of a stored value changes but its name, order and size do not. */
#define GP_LAYOUT_REVISION 1

/* One line of layout.def. A code has a value; a structure or member has an offset and a size in bytes. */
typedef struct gp_layout_entry {
  const char *name;
  uint64_t value; /* value of the code, or offset of the member */
  uint64_t bytes;
} gp_layout_entry_t;

/* Returns the lines of layout.def, in order, as a static array. */
const gp_layout_entry_t *gp_layout_entries(size_t *ret_count);

/* Returns the FNV-1a hash of the entries' names, values and sizes. Thread-safe. */
uint64_t gp_layout_hash_of(const gp_layout_entry_t *entries, size_t count);

/* Returns the layout hash of this build. Takes some microseconds. */
uint64_t gp_layout_hash(void);

#endif
