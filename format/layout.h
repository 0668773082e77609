/* A hash of the record's layout. A reader and a writer with the same hash give each byte the same meaning;
 * the record carries the writer's (record.h). */
#ifndef GP_FORMAT_LAYOUT_H
#define GP_FORMAT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* To be raised when a stored value gets another meaning without a change of name, order or size. */
#define GP_LAYOUT_REVISION 1

/* One line of layout.def: a code with its value, or a structure or member with its
 * place and size in bytes. */
typedef struct gp_layout_entry {
  const char *name;
  uint64_t value; /* of a code; of a member its offset */
  uint64_t bytes;
} gp_layout_entry_t;

/* The lines of layout.def, in its order. Static. */
const gp_layout_entry_t *gp_layout_entries(size_t *ret_count);

/* FNV-1a over names, values and sizes. Any thread. */
uint64_t gp_layout_hash_of(const gp_layout_entry_t *entries, size_t count);

/* The hash of this build. Takes some microseconds. */
uint64_t gp_layout_hash(void);

#endif
