/*
 * Which component memory belongs to: the program, a framework, a library of NVIDIA's, CUDA graphs. The rule
 * is the table component.def, described in doc/components.md.
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

/* What reports call it. Static. */
const char *gp_component_name(gp_component_t component);

/*
 * The component of a stack (an index; -1 is legal). Names help where a library is linked statically, or hides
 * inside another one; without names modules alone decide. Thread-safe.
 */
gp_component_t gp_component_of_stack(const gp_snapshot_t *snapshot, int stack);

/*
 * Sets ret_there of each component that has a frame on the stack: that of the stack, and those that called
 * it. ret_there has GP_COMPONENTS elements; the others are set to false.
 */
void gp_component_callers(const gp_snapshot_t *snapshot, int stack, bool *ret_there);

/*
 * The component of memory that is not pooled, if its kind (as in the snapshot; NULL: pooled) decides it;
 * else GP_COMPONENT_UNKNOWN: its stack does.
 */
gp_component_t gp_component_of_kind(const char *kind);

#endif
