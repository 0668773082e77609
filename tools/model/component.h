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

/* Finds the component of each frame in advance, so that the next two functions do not search at each call.
 * Call it after gp_stack_owners_find. Returns 0 or ENOMEM. */
int gp_components_find(gp_snapshot_t *snapshot);

/* Returns the component of a stack (an index; -1 is legal). Function names decide if they are known, because
 * a library may be linked statically or inside another library. Otherwise the modules decide. Thread-safe. */
gp_component_t gp_component_of_stack(const gp_snapshot_t *snapshot, int stack);

/* Sets each of the GP_COMPONENTS elements of ret_there to true if a frame on the stack belongs to that
 * component. This includes the component of the stack itself and those of its callers. */
void gp_component_callers(const gp_snapshot_t *snapshot, int stack, bool *ret_there);

/* Returns the component of forwarded memory of that kind, or GP_COMPONENT_UNKNOWN if the stack has to decide.
 * `kind` is the snapshot's name; NULL means pooled memory. */
gp_component_t gp_component_of_kind(const char *kind);

#endif
