#include "trace/record/sections.h"

#include "base/options.h"
#include "trace/record/chunks.h"
#include "trace/record/live.h"
#include "format/heap_counts.h"
#include "format/marks.h"
#include "trace/record/handles.h"
#include "trace/record/threads.h"
#include "trace/record/description.h"
#include "trace/stacks/stacks.h"

#define PAGE_BYTES_MOST ((size_t)64 * 1024)

size_t gp_section_capacity(gp_section_t section, uint64_t events)
{
  switch (section) {
  case GP_SECTION_DESCRIPTION: return sizeof(uint64_t) + GP_DESCRIPTION_BYTES;
  case GP_SECTION_DEVICES: return GP_MAX_DEVICES * sizeof(gp_device_record_t);
  case GP_SECTION_HEAPS: return GP_HEAPS_MAX * sizeof(gp_heap_counts_t);
  case GP_SECTION_OOM: return sizeof(gp_oom_record_t);
  case GP_SECTION_THREADS: return sizeof(gp_thread_table_t);
  case GP_SECTION_STREAMS: return sizeof(gp_handle_table_t);
  case GP_SECTION_LIVE: return GP_LIVE_MAX * sizeof(gp_live_slot_t);
  case GP_SECTION_STACKS: return GP_STACKS_LOG_BYTES;
  case GP_SECTION_MODULES: return GP_MODULES_LOG_BYTES;
  case GP_SECTION_CODES: return GP_CODE_LOG_BYTES;
  case GP_SECTION_MARKS: return sizeof(gp_mark_table_t);
  case GP_SECTION_EVENTS: return gp_chunks_bytes(events);
  default: return 0;
  }
}

size_t gp_section_capacity_max(gp_section_t section)
{
  return gp_section_capacity(section, gp_option_table[GP_OPTION_trace_events].maximum) + PAGE_BYTES_MOST;
}
