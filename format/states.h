/* The states of memory (states.def). A block's state has the code of the slot's state, so that code can
 * assign one to the other. */
#ifndef GP_FORMAT_STATES_H
#define GP_FORMAT_STATES_H

typedef enum gp_live_state {
#define LIVE_STATE(enumerator)        GP_LIVE_##enumerator,
#define BLOCK_STATE(enumerator, name) GP_LIVE_##enumerator,
#include "format/states.def"
  GP_LIVE_STATE_COUNT
} gp_live_state_t;

/* The states in the order of a block's life: an allocated block becomes pending, and a pending one idle. */
typedef enum gp_block_state {
#define BLOCK_STATE(enumerator, name) GP_BLOCK_##enumerator = GP_LIVE_##enumerator,
#include "format/states.def"
} gp_block_state_t;

/* Returns the name in the snapshot; never NULL for a valid enumerator. */
const char *gp_block_state_name(gp_block_state_t state);

#endif
