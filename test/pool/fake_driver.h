/*
 * A driver for tests of the engine: memory is addresses, device work is a counter per context that the test
 * moves, or that moves when complete_at_ns says so; time stands still until the test or a pause of the engine
 * moves it, and any call can be made to fail. Not safe to use from several threads unless said so: with
 * `locked` set all calls are serialised, those of the test included.
 */
#ifndef GP_TEST_POOL_FAKE_DRIVER_H
#define GP_TEST_POOL_FAKE_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/forwarded/forwarded.h"

#define FAKE_OUT_OF_MEMORY 2
#define FAKE_INVALID_VALUE 1
#define FAKE_NOT_READY     600
#define FAKE_STICKY        700
#define FAKE_GONE          201
#define FAKE_CONTEXTS      4
#define FAKE_FENCES        64
#define FAKE_ALLOCATIONS   (1 << 16)
#define FAKE_PHYSICALS     512
#define FAKE_USES          (1 << 12) /* pending at a time */
#define FAKE_FILLS         1024      /* the latest of them */
#define FAKE_COPIES        256       /* pending at a time */
#define FAKE_HOSTS         64

typedef enum fake_call {
  FAKE_ALLOC,
  FAKE_FREE,
  FAKE_WAIT,
  FAKE_WAIT_AS_FREE,
  FAKE_RECORD,
  FAKE_QUERY,
  FAKE_INFO,
  FAKE_ASK_STREAM, /* whether it has work; a driver without fences over contexts */
  FAKE_RESERVE,
  FAKE_UNRESERVE,
  FAKE_CREATE,
  FAKE_DESTROY,
  FAKE_MAP,
  FAKE_UNMAP,
  FAKE_ALLOW,
  FAKE_ALLOC_IN,
  FAKE_ENTER_STREAM,
  FAKE_STREAM_WAIT,
  FAKE_FILL_STREAM,
  FAKE_FILL,
  FAKE_FILL_QUERY,
  FAKE_HOST_ALLOC,
  FAKE_COPY_OUT,
  FAKE_CALLS
} fake_call_t;

typedef struct fake_allocation {
  uint64_t address;
  uint64_t bytes;
  void *context;
  uint64_t work; /* newest work submitted on it, in its context's count */
} fake_allocation_t;

/* Physical memory; it ends with its handle and its mapping. */
typedef struct fake_physical {
  uint64_t handle;
  uint64_t bytes;
  uint64_t address; /* where it is mapped; 0: nowhere */
  uint64_t devices; /* that may use it there, as a bit mask */
  bool has_handle;
} fake_physical_t;

typedef struct fake_use {
  uint64_t address;
  uint64_t bytes;
  uint64_t work; /* in the context's count */
  int context;
} fake_use_t;

typedef struct fake_fill {
  uint64_t address;
  uint64_t bytes;
  uint64_t stream;
  uint8_t value;
  bool is_done; /* as far as fill_query() has said; one in a stream of the program's: never */
} fake_fill_t;

/* A copy that is not complete. `bytes` are the contents as of its submission. */
typedef struct fake_copy {
  uint8_t *host;
  uint8_t *bytes;
  uint64_t count;
  uint64_t stream;
  int context;
} fake_copy_t;

typedef struct fake_host {
  void *memory;
  uint64_t bytes;
  int context;
} fake_host_t;

typedef struct fake_driver {
  gp_driver_ops_t ops;
  pthread_mutex_t mutex;
  bool locked;
  uint64_t capacity;
  uint64_t used;
  uint64_t peak;
  uint64_t next_address;
  uint64_t now_ns;
  int fail_code;          /* what a failing call returns */
  long fail_at;           /* the call with this number fails; 0: none */
  bool fail_stays;        /* so do all later ones */
  long calls;             /* so far */
  long count[FAKE_CALLS]; /* by kind */
  uint64_t submitted[FAKE_CONTEXTS];
  uint64_t completed[FAKE_CONTEXTS];
  uint64_t
      complete_at_ns[FAKE_CONTEXTS]; /* from then on the context has completed its work; 0: never by itself */
  bool has_ended[FAKE_CONTEXTS];     /* unseen: FAKE_GONE is the answer to every question about the context */
  bool free_returns;                 /* the driver's free does not wait for work, nor does wait_as_free */
  long busy_frees;                   /* frees while a context had work */
  void (*on_pause)(void);            /* called in each pause, after the clock has moved; NULL: nothing is */
  uint64_t fences[FAKE_FENCES];      /* each: the work of its context that it covers */
  int fence_count;
  uint64_t entered; /* the stream that an operation was put into last */
  uint64_t waiting; /* the stream that an event was last put in front of, and ... */
  uint64_t awaited; /* ... what that event waits for, in counts of `submitted` */
  fake_allocation_t *allocations;
  int allocation_count;
  fake_physical_t physicals[FAKE_PHYSICALS];
  int physical_count;
  uint64_t last_handle;
  uint64_t reserved_address; /* of the newest range */
  uint64_t reserved_bytes;   /* of all ranges */
  fake_use_t *uses;          /* work on any bytes that may be pending */
  int use_count;
  fake_fill_t fills[FAKE_FILLS];
  long fill_count;
  long fill_streams;   /* made so far; they are FAKE_FILL_STREAMS, and one more each */
  uint64_t fill_takes; /* a fill is done so many nanoseconds after the last one was submitted */
  uint64_t filled_ns;  /* when that was */
  fake_copy_t copies[FAKE_COPIES];
  int copy_count;
  fake_host_t hosts[FAKE_HOSTS]; /* page-locked memory */
  int host_count;
  long errors; /* frees of what is not allocated, or of stream-ordered memory under work that is pending,
                  memory unmapped or moved under work that is pending, work on what is not mapped; fills and
                  copies in streams of the library, of what is in use or not allocated */
} fake_driver_t;

void fake_driver_init(fake_driver_t *driver, uint64_t capacity, bool with_fence);
void fake_driver_fini(fake_driver_t *driver);
gp_driver_t fake_driver_table(fake_driver_t *driver);
gp_driver_context_t fake_context(int index, int device);

/* Work on memory at address, submitted now by a context; complete: the context has done all of it. */
void fake_submit(fake_driver_t *driver, int context, uint64_t address);
void fake_complete(fake_driver_t *driver, int context);

/* All work of the context is complete so many nanoseconds from now on; 0: when the test says so. */
void fake_complete_in(fake_driver_t *driver, int context, uint64_t ns);

/* Work submitted on the allocation at address is not complete. */
bool fake_is_in_use(fake_driver_t *driver, uint64_t address);

/* The same for work on any bytes, wherever they are: a pool may cut allocations. */
void fake_submit_on(fake_driver_t *driver, int context, uint64_t address, uint64_t bytes);
bool fake_is_any_in_use(fake_driver_t *driver, uint64_t address, uint64_t bytes);

/* Mapped memory: all of it is there, and the device may use it. */
bool fake_may_use(fake_driver_t *driver, uint64_t address, uint64_t bytes, int device);

/* The newest fill that begins at an address; NULL: there is none. */
#define FAKE_FILL_STREAMS UINT64_C(0x700000)
const fake_fill_t *fake_fill_at(fake_driver_t *driver, uint64_t address);

/* The program, or the test, writes other bytes there than any fill. A copy shows them until the next fill. */
#define FAKE_OTHER_BYTE UINT8_C(0x11)
void fake_overwrite(fake_driver_t *driver, uint64_t address, uint64_t bytes);

/* The context ends, with its page-locked memory and its pending copies. */
void fake_end_context(fake_driver_t *driver, int context);

/* That fill is not known to be done. */
bool fake_is_being_filled(fake_driver_t *driver, uint64_t address);

/* Options as the environment would give them: "NAME=value" strings, NULL at the end. Fails the test if one is
 * bad. */
void fake_options(gp_options_t *options, const char *const *settings);

/* An engine over the driver with these settings. */
gp_engine_t *fake_engine(fake_driver_t *driver, const gp_observer_t *observer, const char *const *settings);

#endif
