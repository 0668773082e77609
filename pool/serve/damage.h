/*
 * GPUPOOL_CHECK: detects writes past the end of a block, and writes into a block after its free.
 *
 * edges: each block ends in a red zone, which the library fills with a pattern before the program gets the
 * block. stale: the library fills a freed block with the pattern when the device has completed all work on
 * it. A block that is complete after its free is quarantined (GP_STATE_QUARANTINED). A thread that allocates,
 * frees or synchronizes then searches the block: it copies the watched bytes to the host, in a stream of the
 * library, and compares them with the pattern. Under `edges` the block becomes idle after the search of its
 * red zone. Under `stale` it stays in quarantine, filled, until a request of its size needs it or memory is
 * short. It is searched again before it leaves. No other thread uses a quarantined block, so neither the fill
 * nor a late copy can touch memory of the program. doc/heap-checks.md says which damage is found.
 *
 * The functions make driver calls and may wait for them, up to GP_FILL_PATIENCE_NS. During captures they do
 * nothing. If the driver refuses one of the calls, the checks stop for the rest of the process, with a
 * message. Any thread may call these functions. The caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_SERVE_DAMAGE_H
#define GP_POOL_SERVE_DAMAGE_H

#include "pool/records.h"
#include "pool/space/size_classes.h"

#define GP_RED_ZONE_LEAST 32
#define GP_RED_ZONE_MOST  4096

void gp_damage_init(gp_engine_t *engine, const gp_options_t *options);

/* Returns the bytes that a block for a request must have: the requested bytes, plus a red zone under `edges`.
 */
uint64_t gp_damage_block_bytes(const gp_engine_t *engine, uint64_t requested);

/* Returns the bytes of the red zone after the `requested` bytes of the block at the address, which the caller
 * has just allocated. Returns 0 without `edges`. */
uint64_t gp_damage_red_zone(gp_engine_t *engine, gp_context_t *context, uint64_t address, uint64_t requested);

/* Records that the red zone of the block at the address has the pattern, so that it can be searched. */
void gp_damage_watch(gp_engine_t *engine, gp_context_t *context, uint64_t address, uint64_t red_zone);

/* Does what gp_engine_search does, but for the arena, and also searches and releases one filled block that
 * could serve the request. */
void gp_damage_search_for(
    gp_engine_t *engine, gp_context_t *context, gp_context_t *arena, const gp_fit_t *fit, bool is_cut);

/* Does what gp_engine_search does, and also searches and releases all filled blocks. */
void gp_damage_flush(gp_engine_t *engine, gp_context_t *context);

/* Does what gp_damage_flush does, for all contexts of the device, and waits for the searches of other
 * threads. If pooling has stopped, all quarantined blocks become idle without a search. */
void gp_damage_flush_device(gp_engine_t *engine, gp_device_t *device);

/* Frees the context's records of searches when the engine ends. */
void gp_damage_fini(gp_context_t *context);

#endif
