/*
 * Memory of cuMemCreate exists while the program has a handle of it or it is mapped anywhere (cuda.h,
 * cuMemRelease), so this counts handles and mappings. Handles are not identities: the driver may
 * reuse a value while the memory that had it is still mapped. All functions may be called by any
 * thread; none calls the driver.
 *
 * Functions that end something are called before the driver, which may give the same handle or address to
 * another thread at once; undo reverts that if the driver refused.
 */
#ifndef GP_INTERPOSE_HOOKS_PHYSICAL_RECORDS_H
#define GP_INTERPOSE_HOOKS_PHYSICAL_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gp_physical gp_physical_t;
typedef struct gp_mapping gp_mapping_t;

/* A key for new memory, see gp_forwarded_t: never the same, and never an address. */
uint64_t gp_physical_new_key(void);
uint64_t gp_physical_key(const gp_physical_t *physical);

/* False: the host has no memory for a record, so the memory stays unknown. */
bool gp_physical_created(uint64_t handle, uint64_t key);

/* The program got one more reference by a handle. An unknown handle is for another process's memory. */
void gp_physical_retained(uint64_t handle);

/* The program has exported the memory: it lives on for as long as anyone has the descriptor open, unseen. */
void gp_physical_exported(uint64_t handle);
bool gp_physical_is_exported(const gp_physical_t *physical);

/*
 * Before cuMemRelease; NULL: unknown. released() must follow, with done if the driver succeeded. It returns
 * the memory if neither handle nor mapping is left, for the caller to end(), else NULL. So do the functions
 * below.
 */
gp_physical_t *gp_physical_release(uint64_t handle);
gp_physical_t *gp_physical_released(gp_physical_t *physical, bool done);
void gp_physical_end(gp_physical_t *physical);

/* Before cuMemMap; NULL: unknown. Call undo if the driver refused. */
gp_mapping_t *gp_physical_map(uint64_t handle, uint64_t address, uint64_t bytes);
gp_physical_t *gp_physical_map_undo(gp_mapping_t *mapping);

/* Before cuMemUnmap: takes the known mappings of a range out, as a list that the caller owns. After the
 * call, unmapped() ends them one by one, or undo puts all back. */
gp_mapping_t *gp_physical_unmap(uint64_t address, uint64_t bytes);
gp_mapping_t *gp_physical_unmapped(gp_mapping_t *list, gp_physical_t **ret_over);
void gp_physical_unmap_undo(gp_mapping_t *list);

#endif
