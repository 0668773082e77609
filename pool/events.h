/*
 * What the engine tells the observer. Uses: state.h.
 */
#ifndef GP_POOL_EVENTS_H
#define GP_POOL_EVENTS_H

#include "pool/state.h"

/* Before an event whose origin counts. The caller holds no lock. */
static inline void gp_find_origin(gp_engine_t *engine, gp_occasion_t occasion, uint64_t size)
{
  gp_assert(gp_locks_held() == 0);
  if (engine->observer.find_origin)
    engine->observer.find_origin(engine->observer.self, occasion, size);
}

/* The program asks for memory, perhaps for the first time. The caller holds no lock. */
void gp_event_first_use(gp_engine_t *engine);

/* The caller of these holds the device's lock. Times in nanoseconds, sizes in bytes. */
void gp_event_block(gp_engine_t *engine, gp_block_t *block, gp_action_t action, gp_detail_t detail,
    uint64_t time_ns, uint64_t duration_ns, bool hit);
/* A free of an address inside cut memory at which no block begins that the program holds. */
void gp_event_refused(gp_engine_t *engine, const gp_context_t *context, uint64_t address, uint64_t time_ns);
void gp_event_device(
    gp_engine_t *engine, int device, gp_action_t action, gp_detail_t detail, uint64_t size, uint64_t time_ns);
void gp_event_forwarded(
    gp_engine_t *engine, gp_forwarded_t *memory, gp_action_t action, uint64_t time_ns, uint64_t duration_ns);

/* References or taint of a block have changed without an event. The caller holds the device's lock. */
void gp_event_holders(gp_engine_t *engine, gp_block_t *block);

/* What else is known of the device, told where the driver was called anyway. The caller holds the device's
 * lock. */
void gp_event_facts(gp_engine_t *engine, gp_device_t *device);

/* What the driver said last about the device; false: it was never asked. The caller holds the device's lock.
 */
bool gp_device_use_as_told(const gp_device_t *device, gp_device_use_t *ret_use);

#endif
