/*
 * The usual steps of a pair of an allocation and its free, as gp_observer_t describes them: one record a
 * pair. self: the recorder. The caller holds the device's lock.
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

#endif
