/* The observer: a table of callbacks through which the pool reports events. trace/ implements it for the
 * record; without an observer the pool reports nothing. */
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

/* Numbers that belong to the observer, 0 at first. */
typedef struct gp_cookie {
  uint32_t slot; /* 0: the observer has no record of the memory */
  uint32_t note; /* describes the block's present owner; views of blocks show it (engine.h) */
} gp_cookie_t;

/*
 * An event. Times are in nanoseconds, from the driver table's clock (driver.h). size is the requested size;
 * for segment_alloc, segment_free and trim it is the bytes that moved, for oom the bytes that could not be
 * allocated. block_id identifies the block's present owner, so that a reader can distinguish successive
 * owners of one address. Each alloc gets a new, larger number, and no number is used twice. 0: the event
 * concerns no block.
 */
typedef struct gp_event {
  uint64_t time_ns;
  uint64_t address;
  uint64_t size;
  uint64_t rounded_size;
  uint64_t block_id;
  uint64_t duration_ns; /* duration of the driver call behind the event; 0: there was none */
  uint64_t alloc_ns;    /* free_requested, free_completed, passthrough_free: time of the alloc; otherwise 0 */
  uint64_t stream;      /* the driver's handle, meaningful with has_stream; 0: the legacy default stream */
  uint32_t origin;      /* origin of the owner of a block or of forwarded memory; otherwise the caller's */
  gp_action_t action;
  gp_detail_t detail;
  int device;
  bool has_stream;
  bool hit;         /* alloc: served without a driver call */
  bool is_cut;      /* segment events: blocks are cut from it; block events: the block is such a part */
  uint64_t context; /* id of the context; 0: none */
  /*
   * The observer may change the cookie in event() and in the three step functions. The cookie stays with the
   * segment, or with forwarded memory. A segment that is not cut shares the cookie with its one block. A
   * block cut from a segment has its own from alloc to free_completed. NULL: the event concerns none of
   * these.
   */
  gp_cookie_t *observer_cookie;
} gp_event_t;

/*
 * The members of a block that an observer reads at the three events of each allocation and its free. They are
 * the first members of the block, so that a callback needs no copy.
 */
#define GP_OBSERVED_MEMBERS                                                                                  \
  uint64_t address;                                                                                          \
  uint64_t size;      /* bytes from the driver */                                                            \
  uint64_t requested; /* bytes that the present or last owner requested */                                   \
  uint64_t block_id;  /* id of this owner; grows over all blocks of the engine, never reused */              \
  uint64_t time_ns;   /* time of this owner's alloc */                                                       \
  uint64_t stream;    /* driver handle of the stream in which this owner allocated it; 0: none */            \
  uint32_t origin;    /* the observer's number for the present or last owner */                              \
  gp_cookie_t observer_cookie;

typedef struct gp_observed {
  GP_OBSERVED_MEMBERS
} gp_observed_t;

/* A callback for one of the three events of an allocation and its free, at time_ns. context, device and
 * is_cut have the same meaning as in gp_event_t. */
typedef uint64_t (*gp_step_fn)(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);

/* The next owner of a block, for reuse() of gp_observer_t. */
typedef struct gp_next_owner {
  uint64_t requested;
  uint64_t block_id;
  uint32_t origin;
} gp_next_owner_t;

/* The engine's knowledge about a device that is not in events. */
typedef struct gp_device_facts {
  uint64_t limit; /* bytes; 0: none */
  gp_device_use_t use;
  bool has_use; /* the driver has been queried for the device's figures */
} gp_device_facts_t;

/* Damage that GPUPOOL_CHECK has found in a block (serve/damage.h). Sizes and offsets in bytes. */
typedef struct gp_damage {
  uint64_t address;   /* of the block */
  uint64_t requested; /* by the block's owner, or by its last one */
  uint64_t offset;    /* of the first damaged byte in the block */
  uint64_t bytes;     /* damaged bytes among those compared */
  uint32_t origin;    /* of the owner */
  int device;
  gp_damage_kind_t kind;
} gp_damage_t;

#define GP_ORIGIN_NONE 0u

/* The occasions of find_origin: moments at which the observer may capture the caller's stack. */
typedef enum gp_occasion {
  GP_OCCASION_ALLOC,  /* an allocation begins, from this pool or from one of the driver's */
  GP_OCCASION_FREE,   /* a free begins */
  GP_OCCASION_DRIVER, /* next comes a driver call for other memory, or an out-of-memory report */
} gp_occasion_t;

/*
 * event() receives every event. The pool calls it with the device's lock held, in the order in which events
 * happen on the device, and concurrently for different devices. It must be quick, and must not call the
 * driver or the pool. It returns the time that the observer records for the event; the pool stores the time
 * of an alloc in the block.
 *
 * out_of_memory() is called with no lock held, after the oom event and before the program gets the error. It
 * may call the functions of engine.h that read.
 *
 * damage() is called with no lock held, after the damage event. It may end the process.
 *
 * first_use() is called once, with no lock held, by the thread that first allocates memory, before the driver
 * is called. The observer can create there what only a process with GPU memory needs. Other threads do not
 * wait for it.
 *
 * peak() is called with no lock held, by a thread that is about to free memory of a device, after the
 * device's use has exceeded the value given to gp_engine_watch_use. bytes is the present use, which other
 * threads may be changing. peak() may call functions of engine.h that read, and gp_engine_watch_use for the
 * next value.
 *
 * find_origin() lets the observer find which code makes the request (by its stack, say). The requesting
 * thread calls it with no lock held, so it may take its time. One call by the program may cause several calls
 * of find_origin(). size: bytes requested, 0 if unknown. NULL: not called. origin(), which the same thread
 * calls later with a lock of the pool held, returns what find_origin() found, as a number that belongs to the
 * observer. The block keeps this number until its next owner. NULL: GP_ORIGIN_NONE always.
 *
 * holders() reports a block whose references or taint have changed, between events. device_facts() reports
 * what the engine knows about a device, after a driver call for it. The pool calls both under the conditions
 * of event(), and both may be NULL.
 *
 * alloc(), free_requested() and free_completed() are fast paths for these events: alloc() for hits only,
 * free_requested() for frees without a detail. They are called under the conditions of event(), and return
 * the event's time, or 0: then the pool calls event() instead. NULL: event() receives everything.
 *
 * keep() and reuse() report the events of blocks in a heap (heaps.h): keep() a free_requested, reuse() a
 * free_completed and then an alloc, while the block still has its earlier owner. They are called with only
 * that heap's lock held. *last_ns is the time of the heap's last event, and they raise it. They return the
 * event's time, reuse() that of the alloc. If they return 0, they have changed nothing, and the heap must
 * not keep or reuse the block. join() announces that the device's next events are later than last_ns, the
 * time of a heap's last event; it is called under the conditions of event(). If these three are NULL, heaps
 * are used only while the observer wants no events.
 *
 * place_stats() returns where the engine has to keep a device's statistics. The engine calls it, under the
 * conditions of event(), before device_facts() until the result is not NULL; it then copies the statistics
 * there, and updates them there until the engine ends. NULL: the engine keeps them itself. place_heap() does
 * the same for the counts of the heap with that number, when the heap is opened; the engine overwrites what
 * is there.
 *
 * interest is a number that the observer may change at any time. While it is 0, the pool does not call
 * event() for a block's event whose cookie is 0 or NULL. NULL: the observer wants every event.
 */
typedef struct gp_observer {
  const _Atomic int *interest;
  void (*first_use)(void *self); /* may be NULL, as the next two */
  void (*peak)(void *self, int device, uint64_t bytes);
  void (*find_origin)(void *self, gp_occasion_t occasion, uint64_t size);
  uint32_t (*origin)(void *self);
  uint64_t (*event)(void *self, const gp_event_t *event);
  gp_step_fn alloc;
  gp_step_fn free_requested;
  gp_step_fn free_completed;
  uint64_t (*keep)(
      void *self, gp_observed_t *block, int device, bool is_cut, uint64_t *last_ns, uint64_t time_ns);
  uint64_t (*reuse)(void *self, gp_observed_t *block, const gp_next_owner_t *next, int device, bool is_cut,
      uint64_t *last_ns, uint64_t time_ns);
  void (*join)(void *self, int device, uint64_t last_ns);
  void (*holders)(void *self, const gp_cookie_t *cookie, uint32_t refs, bool tainted);
  gp_stats_t *(*place_stats)(void *self, int device);
  gp_heap_counts_t *(*place_heap)(void *self, uint32_t number);
  void (*device_facts)(void *self, int device, const gp_device_facts_t *facts);
  void (*out_of_memory)(void *self, const gp_oom_t *oom);
  void (*damage)(void *self, const gp_damage_t *damage);
  void *self;
} gp_observer_t;

#endif
