/*
 * Lists of block sizes as users write them: "64MiB*4,2MiB*16" is four blocks of 64 MiB and sixteen of 2 MiB.
 */
#ifndef GP_BASE_BLOCK_LIST_H
#define GP_BASE_BLOCK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_BLOCK_LIST_ENTRIES   128u
#define GP_BLOCK_LIST_BYTES     (UINT64_C(1) << 40) /* maximum size of a block */
#define GP_BLOCK_LIST_COUNT     65536u              /* maximum number of blocks of one size */
#define GP_BLOCK_LIST_WHY_BYTES 256

/* Invariants: count <= GP_BLOCK_LIST_ENTRIES. In each entry, `bytes` and `count` are between 1 and the maxima
 * above, so no sum over the list overflows. */
typedef struct gp_block_list {
  unsigned count; /* number of entries; 0: an empty list, written as "none" */
  struct {
    uint64_t bytes;
    uint32_t count; /* blocks of that size */
  } entries[GP_BLOCK_LIST_ENTRIES];
} gp_block_list_t;

/*
 * Parses SIZE[*COUNT],... or "none", with blanks allowed around each part. Returns false if the text is
 * malformed. In that case *ret_list is unchanged, and `why`, an array of GP_BLOCK_LIST_WHY_BYTES, gets a text
 * without a full stop: what is wrong, and what is accepted. Allocates nothing. Thread-safe.
 */
bool gp_block_list_parse(const char *text, gp_block_list_t *ret_list, char *why);

#endif
