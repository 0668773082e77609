/* What the pool tells about itself. Recording (trace/) implements the table; without an
 * observer the pool runs silent. */
#ifndef GP_POOL_OBSERVER_H
#define GP_POOL_OBSERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "format/actions.h"
#include "format/details.h"
#include "format/device.h"
#include "format/heap_counts.h"
#include "format/oom.h"

/* Default streams, as CUDA names them explicitly (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). */
#define GP_STREAM_LEGACY     1
#define GP_STREAM_PER_THREAD 2

/* The observer's own numbers, 0 at first. */
typedef struct gp_cookie {
  uint32_t slot; /* 0: the observer knows nothing of the memory */
  uint32_t note; /* of the block's present owner; views of blocks show it (engine.h) */
} gp_cookie_t;

/*
 * One event. Times are the driver table's clock (driver.h), in nanoseconds. size is what the program
 * asked for. For segment_alloc, segment_free and trim it is the bytes that moved, for oom the bytes that
 * could not be had. block_id is the incarnation number of the block's present owner, so that a reader can
 * tell the owners of one address apart. Each alloc takes a new, larger number, and no number is used
 * twice. 0: the event is of no block.
 */
typedef struct gp_event {
  uint64_t time_ns;
  uint64_t address;
  uint64_t size;
  uint64_t rounded_size;
  uint64_t block_id;
  uint64_t duration_ns; /* of the driver call behind the event; 0 if there was none */
  uint64_t alloc_ns;    /* free_requested, free_completed, passthrough_free: time of the alloc; else 0 */
  uint64_t stream;      /* the driver's handle, meaningful with has_stream; 0: the legacy default stream */
  uint32_t origin;      /* for a block or memory that is not pooled: its owner's; else the caller's */
  gp_action_t action;
  gp_detail_t detail;
  int device;
  bool has_stream;
  bool hit;         /* alloc: served without a driver call */
  bool is_cut;      /* segment events: blocks are cut from it; a block's events: it is such a part */
  uint64_t context; /* id of the context; 0: none */
  /*
   * The observer may change it in event() and in the steps of a pair. It stays with the segment, or with
   * memory that is not pooled. A segment that is not cut shares the cookie with its one block. A block cut
   * from a segment has its own from alloc to free_completed. NULL: the event is of none of these.
   */
  gp_cookie_t *observer_cookie;
} gp_event_t;

/*
 * What an observer reads of a block at the three events that each pair of an allocation and a free makes.
 * They are the first members of the block, so telling of them copies nothing.
 */
#define GP_OBSERVED_MEMBERS                                                                                  \
  uint64_t address;                                                                                          \
  uint64_t size;      /* bytes that the driver gave */                                                       \
  uint64_t requested; /* bytes the present or last owner asked for */                                        \
  uint64_t block_id;  /* of this owner; grows over all blocks of the engine, never used again */             \
  uint64_t time_ns;   /* of this owner's alloc */                                                            \
  uint64_t stream;    /* the driver's handle of the stream in which this owner asked for it; 0: none */      \
  uint32_t origin;    /* of the present or last owner, as the observer told */                               \
  gp_cookie_t observer_cookie;

typedef struct gp_observed {
  GP_OBSERVED_MEMBERS
} gp_observed_t;

/* A step of a pair at time_ns. context, device and is_cut are as in gp_event_t. */
typedef uint64_t (*gp_step_fn)(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);

/* The next owner of a block, see hand_on() of gp_observer_t. */
typedef struct gp_next_owner {
  uint64_t requested;
  uint64_t block_id;
  uint32_t origin;
} gp_next_owner_t;

/* Facts about a device apart from events. */
typedef struct gp_device_facts {
  uint64_t limit; /* bytes; 0: none */
  gp_device_use_t use;
  bool has_use; /* the driver has been asked for the device's figures */
} gp_device_facts_t;

#define GP_ORIGIN_NONE 0u

/* Moments at which it is worth finding out which code makes the request. */
typedef enum gp_occasion {
  GP_OCCASION_ALLOC,  /* an allocation begins, of this pool or of a pool of the driver */
  GP_OCCASION_FREE,   /* a free begins */
  GP_OCCASION_DRIVER, /* a driver call for other memory, or the report of an out of memory, comes next */
} gp_occasion_t;

/*
 * The pool calls event() with a lock of its own held, in the order in which things happen on the device.
 * event() must be quick and must not call the driver or the pool. Many threads may call it at once (for
 * different devices). It returns the time under which the observer knows the event; the pool keeps that of an
 * alloc as the block's. The pool calls out_of_memory() with no lock held, before the program gets the error;
 * it may call the functions of engine.h that read. The oom event precedes it.
 *
 * The thread that asks for the first memory of a device calls first_use() once, with no lock held, before
 * it asks the driver. The observer can use it to make what a process needs only with GPU memory. Other
 * threads do not wait for it.
 *
 * A thread that is about to free memory of a device calls peak(), with no lock held, after the device's use
 * exceeded the value given to gp_engine_watch_use. bytes is the use now, which other threads may be
 * changing. It may call functions of engine.h that read, and gp_engine_watch_use for the next value.
 *
 * origin() tells which code asks for memory, as a number of the observer's own (a stack, say) that stays
 * with the block until its next owner. The thread that asks calls it with a lock of the pool held, so the
 * observer must know the answer before. NULL: GP_ORIGIN_NONE always.
 *
 * holders() reports a block whose references or taint have changed, between events. device_facts()
 * reports what the engine knows of a device, after a driver call for it. The pool calls both as it calls
 * event(), and both may be NULL.
 *
 * alloc(), free_requested() and free_completed() tell of these events before event() does: alloc() of a hit
 * only, free_requested() without a detail. They are called as event() is. One returns the time as event()
 * does, or 0: then event() follows. NULL: event() hears of everything.
 *
 * keep() tells as free_requested() does, and hand_on() as free_completed() and then alloc(), of a block that
 * only one heap knows meanwhile (heaps.h). The pool calls them with that heap's lock held and no other.
 * *last_ns is the time of the heap's last event, and they raise it. hand_on: the block still has the earlier
 * owner. They return the event's time, hand_on() that of the alloc, or 0: they have changed nothing, and the
 * heap must not do it. join(): the device's next events are later than last_ns, which a heap's were; it is
 * called as event() is. NULL, all three: heaps are used only while the observer has no interest.
 *
 * place_stats() asks where the engine should keep a device's statistics. The engine asks before
 * device_facts() until it gets an answer other than NULL, copies the statistics there, and writes them
 * there for as long as it lives. It is called as event() is. NULL: the engine keeps them itself.
 * place_heap() asks the same of the counts of the heap with that number, when it is opened; what is there is
 * overwritten.
 *
 * interest is a number that the observer changes at will. While it is 0, the pool does not call event() for
 * a block's event whose cookie is 0 or NULL. NULL: the observer wants every event.
 *
 * find_origin() precedes origin(): the thread that asks calls it with no lock held, and it may
 * take its time. A call of the program may lead to several calls. size: bytes asked for, 0 if
 * unknown. NULL: not called.
 */
typedef struct gp_observer {
  const _Atomic int *interest;
  void (*first_use)(void *self); /* NULL: nothing, as in the next two */
  void (*peak)(void *self, int device, uint64_t bytes);
  void (*find_origin)(void *self, gp_occasion_t occasion, uint64_t size);
  uint32_t (*origin)(void *self);
  uint64_t (*event)(void *self, const gp_event_t *event);
  gp_step_fn alloc;
  gp_step_fn free_requested;
  gp_step_fn free_completed;
  uint64_t (*keep)(
      void *self, gp_observed_t *block, int device, bool is_cut, uint64_t *last_ns, uint64_t time_ns);
  uint64_t (*hand_on)(void *self, gp_observed_t *block, const gp_next_owner_t *next, int device, bool is_cut,
      uint64_t *last_ns, uint64_t time_ns);
  void (*join)(void *self, int device, uint64_t last_ns);
  void (*holders)(void *self, const gp_cookie_t *cookie, uint32_t refs, bool tainted);
  gp_stats_t *(*place_stats)(void *self, int device);
  gp_heap_counts_t *(*place_heap)(void *self, uint32_t number);
  void (*device_facts)(void *self, int device, const gp_device_facts_t *facts);
  void (*out_of_memory)(void *self, const gp_oom_t *oom);
  void *self;
} gp_observer_t;

#endif
