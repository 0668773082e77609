#include "interpose/nvtx/early_marks.h"

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

#define EARLY_MAX 64

typedef struct early_mark {
  gp_mark_kind_t kind; /* GP_MARK_PUSH or GP_MARK_BEGIN */
  long thread;
  uint64_t scope;
  char name[GP_MARK_NAME_BYTES];
} early_mark_t;

static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_MARKS);
static early_mark_t marks[EARLY_MAX]; /* ordered by the time of their begins */
static size_t mark_count;
static bool is_flushed;

/* Returns the index of the newest begin or push that the end or pop belongs to; mark_count if none. */
static size_t find_begin(gp_mark_kind_t kind, uint64_t scope, long thread)
{
  for (size_t i = mark_count; i-- > 0;) {
    if (kind == GP_MARK_POP ? marks[i].kind == GP_MARK_PUSH && marks[i].thread == thread
                            : marks[i].kind == GP_MARK_BEGIN && marks[i].scope == scope)
      return i;
  }
  return mark_count;
}

bool gp_early_marks_add(gp_mark_kind_t kind, uint64_t scope, const char *name)
{
  long thread = syscall(SYS_gettid);

  gp_lock_take(&lock);
  if (is_flushed || kind == GP_MARK_MOMENT) {
    /* a moment before the program has GPU memory is of no use */
  } else if (kind == GP_MARK_POP || kind == GP_MARK_END) {
    size_t begin = find_begin(kind, scope, thread);
    if (begin < mark_count) {
      mark_count--;
      memmove(&marks[begin], &marks[begin + 1], (mark_count - begin) * sizeof(marks[0]));
    }
  } else if (mark_count < EARLY_MAX) {
    early_mark_t *mark = &marks[mark_count++];
    *mark = (early_mark_t){.kind = kind, .thread = thread, .scope = scope};
    memcpy(mark->name, name, strnlen(name, sizeof(mark->name) - 1));
  }
  bool is_early = !is_flushed;
  gp_lock_release(&lock);
  return is_early;
}

void gp_early_marks_flush(gp_recorder_t *recorder)
{
  long thread = syscall(SYS_gettid);

  gp_lock_take(&lock);
  bool is_first = !is_flushed;
  is_flushed = true;
  gp_lock_release(&lock);
  for (size_t i = 0; is_first && i < mark_count; i++) { /* no thread changes the marks any more */
    const early_mark_t *mark = &marks[i];
    if (mark->kind == GP_MARK_BEGIN || mark->thread == thread)
      gp_recorder_mark(recorder, mark->kind, -1, mark->scope, mark->name);
  }
}
