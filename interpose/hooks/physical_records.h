/*
 * Records of physical memory (cuMemCreate). It exists while the program has a handle of it or it is mapped
 * anywhere (cuda.h, cuMemRelease), so the records count handles and mappings. A handle does not identify the
 * memory: the driver may reuse the value while the memory that had it is still mapped. Any thread may call
 * these functions; none calls the driver.
 *
 * Functions that end something are called before the driver, which may give the same handle or address to
 * another thread at once; the undo functions revert that if the driver refused.
 */
#ifndef GP_INTERPOSE_HOOKS_PHYSICAL_RECORDS_H
#define GP_INTERPOSE_HOOKS_PHYSICAL_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gp_physical gp_physical_t;
typedef struct gp_mapping gp_mapping_t;

/* Returns a key for new memory, see gp_forwarded_t: keys are unique, and never an address. */
uint64_t gp_physical_new_key(void);
uint64_t gp_physical_key(const gp_physical_t *physical);

/* Adds a record of new memory. False: the host is out of memory, so the memory stays unknown. */
bool gp_physical_created(uint64_t handle, uint64_t key);

/* Notes that the program got one more reference by a handle. An unknown handle is of another process's
 * memory.
 */
void gp_physical_retained(uint64_t handle);

/* Notes that the program has exported the memory: it may outlive the program's handles and mappings, because
 * another process may have the descriptor open. */
void gp_physical_exported(uint64_t handle);
bool gp_physical_is_exported(const gp_physical_t *physical);

/*
 * Called before cuMemRelease; NULL: unknown memory. released() must follow, with done if the driver
 * succeeded. It returns the memory if neither handle nor mapping is left, which the caller passes to end(),
 * else NULL. So do the functions below.
 */
gp_physical_t *gp_physical_release(uint64_t handle);
gp_physical_t *gp_physical_released(gp_physical_t *physical, bool done);
void gp_physical_end(gp_physical_t *physical);

/* Called before cuMemMap; NULL: unknown memory. Call undo if the driver refused. */
gp_mapping_t *gp_physical_map(uint64_t handle, uint64_t address, uint64_t bytes);
gp_physical_t *gp_physical_map_undo(gp_mapping_t *mapping);

/* Called before cuMemUnmap: removes the known mappings of a range, and returns them as a list that the caller
 * owns. After the call, unmapped() ends them one by one, or undo puts all back. */
gp_mapping_t *gp_physical_unmap(uint64_t address, uint64_t bytes);
gp_mapping_t *gp_physical_unmapped(gp_mapping_t *list, gp_physical_t **ret_over);
void gp_physical_unmap_undo(gp_mapping_t *list);

#endif
