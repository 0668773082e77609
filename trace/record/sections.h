/*
 * How large the sections of a record may become: what the library makes room for, and all that a reader
 * believes.
 */
#ifndef GP_TRACE_SECTIONS_H
#define GP_TRACE_SECTIONS_H

#include "trace/region/region.h"

/*
 * Bytes that the library plans for a section, at most, when it keeps `events` events (only GP_SECTION_EVENTS
 * depends on them). Any thread.
 */
size_t gp_section_capacity(gp_section_t section, uint64_t events);

/* The same for the most events that GPUPOOL_TRACE_EVENTS accepts, and a page of any machine more. */
size_t gp_section_capacity_max(gp_section_t section);

#endif
