/* The actions of events: what can happen to memory (actions.def). */
#ifndef GP_FORMAT_ACTIONS_H
#define GP_FORMAT_ACTIONS_H

typedef enum gp_action {
#define ACTION(enumerator, ...) GP_ACTION_##enumerator,
#include "format/actions.def"
  GP_ACTION_COUNT
} gp_action_t;

/* Returns the action's name in the snapshot; never NULL for a valid enumerator. */
const char *gp_action_name(gp_action_t action);

#endif
