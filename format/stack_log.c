#include "format/stack_log.h"

bool gp_stack_log_next(const gp_stack_log_t *log, size_t log_bytes, uint32_t *at, gp_stack_view_t *ret_stack)
{
  uint64_t used = atomic_load_explicit(&log->word_count, memory_order_acquire);
  uint64_t room = (log_bytes - sizeof(*log)) / sizeof(log->words[0]);

  if (used > room)
    used = room;
  if (*at >= used || log->words[*at] == 0 || log->words[*at] > used - *at - 1)
    return false; /* no stack is empty, so a count of 0 means that nothing was written */
  *ret_stack = (gp_stack_view_t){&log->words[*at + 1], (uint32_t)log->words[*at]};
  *at += 1 + ret_stack->count;
  return true;
}

const gp_module_record_t *gp_module_log_next(
    const gp_module_log_t *log, size_t log_bytes, const gp_module_record_t *at)
{
  size_t used = atomic_load_explicit(&log->byte_count, memory_order_acquire);
  size_t next = at ? (size_t)((const uint8_t *)at - log->data) + at->record_bytes : 0;

  if (used > log_bytes - sizeof(*log))
    used = log_bytes - sizeof(*log);
  if (next > used || used - next < sizeof(gp_module_record_t))
    return NULL;
  const gp_module_record_t *record = (const gp_module_record_t *)(log->data + next);
  bool is_whole = record->record_bytes <= used - next && record->record_bytes % 8 == 0 &&
                  record->record_bytes >= sizeof(*record) + record->path_length &&
                  record->build_id_length <= GP_BUILD_ID_BYTES;
  return is_whole ? record : NULL;
}
