/*
 * The component that memory belongs to: the program, a framework, an NVIDIA library, CUDA graphs. The table
 * component.def is the rule; doc/components.md describes it.
 */
#ifndef GP_TOOLS_MODEL_COMPONENT_H
#define GP_TOOLS_MODEL_COMPONENT_H

#include <stdbool.h>

#include "tools/read/snapshot.h"

typedef enum gp_component {
#define COMPONENT(enumerator, name, is_framework) GP_COMPONENT_##enumerator,
#include "tools/model/component.def"
  GP_COMPONENTS
} gp_component_t;

/* The component's name in reports. Static. */
const char *gp_component_name(gp_component_t component);

/* Judges each frame once, for the two functions below, which else do so at each call. Call it after
 * gp_stack_owners_find. Returns 0 or ENOMEM. */
int gp_components_find(gp_snapshot_t *snapshot);

/* The component of a stack (an index; -1 is legal). Function names help if a library is linked statically
 * or inside another one; without names the modules decide. Thread-safe. */
gp_component_t gp_component_of_stack(const gp_snapshot_t *snapshot, int stack);

/* Sets ret_there for each component that has a frame on the stack: the stack's own and its callers. Sets
 * the others to false. ret_there has GP_COMPONENTS elements. */
void gp_component_callers(const gp_snapshot_t *snapshot, int stack, bool *ret_there);

/* The component of memory outside the pool if its kind (as in the snapshot; NULL: pooled) decides. Else
 * GP_COMPONENT_UNKNOWN: the stack decides. */
gp_component_t gp_component_of_kind(const char *kind);

#endif
