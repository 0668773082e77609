/*
 * Finds the component that memory belongs to: the program, a framework, an NVIDIA library, CUDA graphs. The
 * table component.def has the rules; doc/components.md describes them.
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

/* Returns the component's name in reports (static). */
const char *gp_component_name(gp_component_t component);

/* Finds the component of each frame in advance. Without this call the next two functions do so at each call.
 * Call it after gp_stack_owners_find. Returns 0 or ENOMEM. */
int gp_components_find(gp_snapshot_t *snapshot);

/* Returns the component of a stack (an index; -1 is legal). Function names decide if they are known, because
 * a library may be linked statically or inside another one; else the modules decide. Thread-safe. */
gp_component_t gp_component_of_stack(const gp_snapshot_t *snapshot, int stack);

/* Sets each of the GP_COMPONENTS elements of ret_there: true if the component has a frame on the stack, so
 * that the stack's own component and its callers are true. */
void gp_component_callers(const gp_snapshot_t *snapshot, int stack, bool *ret_there);

/* Returns the component of forwarded memory of that kind (as in the snapshot; NULL: pooled), or
 * GP_COMPONENT_UNKNOWN if the stack has to decide. */
gp_component_t gp_component_of_kind(const char *kind);

#endif
