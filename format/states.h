/* The states of memory (states.def). The code of a block's state equals the code of the slot's state, so code
 * can assign one to the other. */
#ifndef GP_FORMAT_STATES_H
#define GP_FORMAT_STATES_H

typedef enum gp_live_state {
#define LIVE_STATE(enumerator)        GP_LIVE_##enumerator,
#define BLOCK_STATE(enumerator, name) GP_LIVE_##enumerator,
#include "format/states.def"
  GP_LIVE_STATE_COUNT
} gp_live_state_t;

/* The states of a block, in the order of its life: an allocated block becomes pending when it is freed, and
 * then idle. */
typedef enum gp_block_state {
#define BLOCK_STATE(enumerator, name) GP_BLOCK_##enumerator = GP_LIVE_##enumerator,
#include "format/states.def"
} gp_block_state_t;

/* Returns the state's name in the snapshot; never NULL for a valid enumerator. */
const char *gp_block_state_name(gp_block_state_t state);

#endif
