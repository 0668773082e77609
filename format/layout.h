/* A hash of the record's layout. If a reader and a writer have the same hash, they interpret each byte in
 * the same way; the record contains the writer's hash (record.h). */
#ifndef GP_FORMAT_LAYOUT_H
#define GP_FORMAT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Must be incremented when the meaning of a stored value changes without a change of name, order or size. */
#define GP_LAYOUT_REVISION 1

/* One line of layout.def: a code with its value, or a structure or member with its offset and size in
 * bytes. */
typedef struct gp_layout_entry {
  const char *name;
  uint64_t value; /* value of a code, or offset of a member */
  uint64_t bytes;
} gp_layout_entry_t;

/* Returns the lines of layout.def, in its order. The array is static. */
const gp_layout_entry_t *gp_layout_entries(size_t *ret_count);

/* Returns FNV-1a over names, values and sizes. Any thread may call it. */
uint64_t gp_layout_hash_of(const gp_layout_entry_t *entries, size_t count);

/* Returns the hash of this build. Takes some microseconds. */
uint64_t gp_layout_hash(void);

#endif
