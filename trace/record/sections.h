/* The largest sizes of a record's sections: the library makes room for these, and a
 * reader accepts no more. */
#ifndef GP_TRACE_SECTIONS_H
#define GP_TRACE_SECTIONS_H

#include "trace/region/region.h"

/* Bytes that a section may need at most when the library keeps `events` events (only GP_SECTION_EVENTS
 * depends on them). Any thread. */
size_t gp_section_capacity(gp_section_t section, uint64_t events);

/* The same for the most events that GPUPOOL_TRACE_EVENTS accepts, plus one page of any machine. */
size_t gp_section_capacity_max(gp_section_t section);

#endif
