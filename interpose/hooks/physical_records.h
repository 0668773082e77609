/*
 * Records of physical memory (cuMemCreate). Physical memory exists while the program has a handle to it or it
 * is mapped anywhere (cuda.h, cuMemRelease), so the records count handles and mappings. A handle does not
 * identify the memory: the driver may reuse the handle's value while the memory is still mapped. Any thread
 * may call these functions; none calls the driver.
 *
 * Functions that end a handle or mapping are called before the driver, which may give the same handle or
 * address to another thread at once; the undo functions revert the change if the driver refused.
 */
#ifndef GP_INTERPOSE_HOOKS_PHYSICAL_RECORDS_H
#define GP_INTERPOSE_HOOKS_PHYSICAL_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gp_physical gp_physical_t;
typedef struct gp_mapping gp_mapping_t;

/* Returns a key for new memory (see gp_forwarded_t): keys are unique, and differ from every address. */
uint64_t gp_physical_new_key(void);
uint64_t gp_physical_key(const gp_physical_t *physical);

/* Adds a record of new memory. Returns false if the library is out of host memory: the memory then stays
 * unknown. */
bool gp_physical_created(uint64_t handle, uint64_t key);

/* Notes that the program got one more reference to the memory of a handle. A handle without a record refers
 * to memory of another process. */
void gp_physical_retained(uint64_t handle);

/* Notes that the program has exported the memory. The memory may outlive the program's handles and mappings,
 * because another process may have the descriptor open. */
void gp_physical_exported(uint64_t handle);
bool gp_physical_is_exported(const gp_physical_t *physical);

/*
 * gp_physical_release removes a reference before cuMemRelease; it returns NULL for unknown memory. The caller
 * passes a non-NULL result to gp_physical_released, with `done` true if the driver succeeded.
 * gp_physical_released returns the memory if neither a handle nor a mapping is left, and the caller passes it
 * to gp_physical_end; otherwise it returns NULL. The functions below return memory in the same way.
 */
gp_physical_t *gp_physical_release(uint64_t handle);
gp_physical_t *gp_physical_released(gp_physical_t *physical, bool done);
void gp_physical_end(gp_physical_t *physical);

/* gp_physical_map adds a mapping before cuMemMap; it returns NULL for unknown memory. If the driver refused,
 * the caller passes the mapping to gp_physical_map_undo. */
gp_mapping_t *gp_physical_map(uint64_t handle, uint64_t address, uint64_t bytes);
gp_physical_t *gp_physical_map_undo(gp_mapping_t *mapping);

/* gp_physical_unmap removes the known mappings of a range before cuMemUnmap, and returns them as a list that
 * the caller owns. After the driver's call, gp_physical_unmapped ends the mappings one by one, or
 * gp_physical_unmap_undo restores all of them. */
gp_mapping_t *gp_physical_unmap(uint64_t address, uint64_t bytes);
gp_mapping_t *gp_physical_unmapped(gp_mapping_t *list, gp_physical_t **ret_over);
void gp_physical_unmap_undo(gp_mapping_t *list);

#endif
