/*
 * The usual steps of a pair of an allocation and its free, as gp_observer_t describes them: one record a
 * pair. self: the recorder. The caller holds the device's lock, or for keep and hand_on a heap's.
 */
#ifndef GP_TRACE_RECORD_PAIRS_H
#define GP_TRACE_RECORD_PAIRS_H

#include "pool/observer.h"

uint64_t gp_pairs_alloc(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);
uint64_t gp_pairs_free_requested(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);
uint64_t gp_pairs_free_completed(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);
uint64_t gp_pairs_keep(
    void *self, gp_observed_t *block, int device, bool is_cut, uint64_t *last_ns, uint64_t time_ns);
uint64_t gp_pairs_hand_on(void *self, gp_observed_t *block, const gp_next_owner_t *next, int device,
    bool is_cut, uint64_t *last_ns, uint64_t time_ns);
void gp_pairs_join(void *self, int device, uint64_t last_ns);

#endif
