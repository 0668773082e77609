/*
 * The simulated GPU: what its files share.
 *
 * One global mutex protects everything here; a function without "unlocked" in its comment is called with it
 * held. There are no threads: queued work runs inside later driver calls, in an order drawn from
 * SIMCUDA_SEED. A call that waits for work that it cannot run lets other threads in meanwhile: what it found
 * before the wait may be gone.
 */
#ifndef SIM_H
#define SIM_H

#include "file.h"
#include "tree.h"

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL /* cuda.h then declares every ABI variant under its exported name */
#endif
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_DEVICES 16
#define SIM_GRANULE     512u            /* sizes are accounted in these */
#define SIM_LARGE       (1024u * 1024u) /* from here on pools take whole pages */
#define SIM_SHARED_MAX                                                                                       \
  (1024u * 1024u) /* larger blocks are aligned to SIM_PAGE, and have pages of their own */
#define SIM_PAGE        (2u * 1024u * 1024u) /* also the granularity of cuMemCreate */
#define SIM_MAX_PENDING 1024                 /* a longer queue is run down, so memory stays bounded */

typedef struct sim_op sim_op_t;
typedef struct sim_block sim_block_t;
typedef struct sim_capture sim_capture_t;
typedef struct CUctx_st sim_ctx_t;
typedef struct CUstream_st sim_handle_t;
typedef struct CUevent_st sim_event_t;
typedef struct CUgraph_st sim_graph_t;
typedef struct CUfunc_st sim_func_t;
typedef struct CUmemPoolHandle_st sim_pool_t;
typedef struct sim_clock sim_clock_t;
typedef struct sim_history sim_history_t;
typedef struct sim_place sim_place_t;

/* ---- api.c: the table of entry points and the frame of a call ---- */

enum {
  SIM_F_INIT = 1, /* needs cuInit */
  SIM_F_CTX = 3,  /* needs a current context (and cuInit) */
  SIM_F_STREAM =
      65, /* needs one for default streams only, and cuInit; if there is one, its error comes back */
  SIM_F_UNSAFE = 4,   /* "potentially unsafe API call" of cuThreadExchangeStreamCaptureMode */
  SIM_F_PTDS = 8,     /* the NULL stream is the calling thread's default stream */
  SIM_F_LOCKED = 32,  /* may be called while the process is locked for a checkpoint */
  SIM_F_ALWAYS = 128, /* answers in every state: cuda.h names no error of the driver's state */
  SIM_F_STUB = 16,    /* exported and resolved, but not modelled */
};

enum sim_api {
#define SIM_API(name, base, since, flags) SIM_API_##name,
#include "api.def"
#undef SIM_API
  SIM_API_COUNT
};

typedef struct {
  const char *name;
  const char *base;
  int since;
  unsigned flags;
} sim_api_t;

extern const sim_api_t sim_api_table[SIM_API_COUNT];

typedef struct {
  enum sim_api api;
  CUresult result;
  sim_ctx_t *ctx; /* the current context, NULL for calls that need none */
} sim_call_t;

bool sim_call_begin(sim_call_t *call, enum sim_api api); /* locks; false: call->result is already decided */
CUresult sim_call_end(sim_call_t *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
int sim_stub_call(int api); /* unlocked */
static inline bool sim_call_is_ptds(const sim_call_t *call)
{
  return (sim_api_table[call->api].flags & SIM_F_PTDS) != 0;
}

/* Defines one entry point: `body` is an expression of type CUresult that may use `call`; the rest is its log
 * line. The declaration is for headers that are older than the entry point. */
#define SIM_FN(name, params, body, ...)                                                                      \
  CUresult CUDAAPI name params;                                                                              \
  CUresult CUDAAPI name params                                                                               \
  {                                                                                                          \
    sim_call_t call;                                                                                         \
    if (sim_call_begin(&call, SIM_API_##name))                                                               \
      call.result = (body);                                                                                  \
    return sim_call_end(&call, __VA_ARGS__);                                                                 \
  }
/* The same for a function and its per-thread default stream twin */
#define SIM_FN2(name, twin, params, body, ...)                                                               \
  SIM_FN(name, params, body, __VA_ARGS__)                                                                    \
  SIM_FN(twin, params, body, __VA_ARGS__)

/* ---- state.c ---- */

extern pthread_mutex_t sim_mutex;
extern pthread_cond_t sim_cond; /* a host function of the program has returned */
extern bool sim_initialized;
extern bool sim_forked; /* child of an initialised process: CUDA is unusable */
extern bool sim_finished;
void sim_state_init(void);

typedef struct sim_thread {
  struct {
    sim_ctx_t *ctx;
    uint64_t id;
  } stack[32];
  unsigned depth;
  CUstreamCaptureMode capture_mode;
  bool in_callback; /* running a host function of the program: no CUDA call is permitted */
  uint64_t serial;
  const sim_place_t *place; /* of the host function that it runs; the oracle is on */
} sim_thread_t;

sim_thread_t *sim_thread_self(void);

/* ---- knobs.c ---- */

typedef enum sim_pace {
  SIM_PACE_RANDOM,
  SIM_PACE_WAITS,  /* work runs only where a call waits for it */
  SIM_PACE_AT_ONCE /* work runs as soon as it can */
} sim_pace_t;

typedef struct {
  int devices;
  uint64_t capacity[SIM_MAX_DEVICES];
  int driver;
  uint64_t seed;
  const char *log, *stats, *fail;
  bool distinct;
  bool oracle;
  bool free_waits;     /* cuMemFree waits for the running work of its context */
  bool pools;          /* devices have pools of stream-ordered memory */
  uint64_t pool_piece; /* pools take device memory in pieces of this size; 0: block by block */
  bool pool_orders;    /* the legacy stream and blocking ones wait for each other's pool operations */
  bool access;         /* a kernel needs access to the memory that it uses */
  bool fills;          /* a library fills and copies memory without an owner */
  bool unseen_frees;   /* the program frees by ways that no library in between sees */
  bool occupied;       /* beside a kernel that waits no fill begins on its device */
  uint64_t pitch_rows; /* pitched memory of more rows has wider ones; UINT64_MAX: never */
  uint64_t page_cache; /* UINT64_MAX: the devices have memory of their own */
  sim_pace_t pace;
} sim_knobs_t;

extern sim_knobs_t sim_knobs;
extern const int sim_built_version; /* driver_version.c */
void sim_knobs_read(void);
bool sim_knobs_parse_size(const char *text, uint64_t *ret_bytes, const char **ret_end);

/* ---- fault.c ---- */

void sim_fault_parse(const char *text);
bool sim_fault_hit(enum sim_api api, CUresult *ret_result);
bool sim_error_is_sticky(CUresult result);

/* ---- errors.c ---- */

const char *sim_error_name(int code); /* NULL for an unknown code */
const char *sim_error_text(int code);
int sim_error_code(const char *name); /* -1 for an unknown name */

/* ---- checkpoint.c ---- */

bool sim_is_locked(void);

/* ---- log.c ---- */

extern bool sim_log_on;
void sim_log_open(void);
void sim_log_line(const char *text, size_t length);
void sim_log_complain(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* one line on stderr, limited */
const char *sim_str_ptr(uint64_t address); /* "host" for pageable memory: those addresses vary between runs */
const char *sim_str_stream(CUstream stream);
const char *sim_str_event(CUevent event);
const char *sim_str_ctx(CUcontext ctx);
static inline unsigned long long sim_str_out(const CUdeviceptr *p, CUresult result)
{
  return result == CUDA_SUCCESS && p ? (unsigned long long)*p : 0;
}

/* ---- stats.c ---- */

extern uint64_t sim_calls[SIM_API_COUNT];
extern uint64_t sim_violations, sim_corrupt_stamps;
void sim_stats_write(void);
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- arena.c: address ranges; free ranges of an arena and of its shadow read as zero ---- */

typedef struct {
  sim_tree_t by_address, by_size;
  uint64_t unit; /* every range is a multiple of it */
} sim_region_t;

/* Rows of a block: the bytes between them, which may be many, are not touched. */
typedef struct {
  uint64_t from, pitch, width, rows;
} sim_grid_t;

/* Few: where there would be more they become one. */
typedef struct {
  sim_grid_t grids[4];
  unsigned count;
} sim_dirty_t;

typedef struct {
  uint64_t base, size;
  sim_file_t file;   /* of a device: its memory, from `base` */
  bool keeps_pages;  /* pages of the file cannot be given back */
  int64_t to_shadow; /* shadow address - address */
  sim_region_t small, large;
  uint32_t *page_users; /* blocks in each page of `small` that have entered it */
  sim_tree_t blocks;    /* live blocks by address */
  sim_block_t *last;    /* found last, or NULL */
} sim_arena_t;

/* Of a device: it has a file and a shadow. */
void sim_arena_init(sim_arena_t *arena, uint64_t hint, uint64_t size, bool device);
uint64_t sim_arena_take(sim_arena_t *arena, uint64_t size); /* 0 when there is no range left */
/* Whole pages are those of a file, from `offset`; false: the system refuses. And those of the arena again,
 * which read as zero. */
bool sim_arena_map_file(uint64_t address, uint64_t size, const sim_file_t *file, uint64_t offset);
void sim_arena_unmap_file(uint64_t address, uint64_t size);
/* Only the bytes of `dirty` may differ from zero. */
void sim_arena_give(sim_arena_t *arena, uint64_t address, uint64_t size, const sim_dirty_t *dirty);
/* A block of at most SIM_SHARED_MAX bytes enters, or leaves, the page that it is in. True: it is the only one
 * there. */
bool sim_arena_page_enter(sim_arena_t *arena, uint64_t address);
bool sim_arena_page_leave(sim_arena_t *arena, uint64_t address);
sim_arena_t *sim_arena_of(uint64_t address); /* any device's or the host's; NULL otherwise */
sim_block_t *sim_arena_find(uint64_t address);
void sim_arena_remove(sim_arena_t *arena, sim_block_t *block); /* from the index of live blocks */
extern sim_arena_t sim_host_arena;

/* ---- device.c ---- */

typedef struct {
  int ordinal;
  sim_arena_t arena;
  uint64_t used_bytes, peak_bytes; /* <= capacity */
  sim_ctx_t *primary;
  sim_pool_t *default_pool, *current_pool;
} sim_device_t;

extern sim_device_t sim_devices[SIM_MAX_DEVICES];
void sim_device_init_all(void);

/* Devices that processes share. set: this process holds so many bytes of the device from now on, unless all
 * hold more than `most`. */
void sim_shared_init(void);
uint64_t sim_shared_others(int device);
bool sim_shared_set(int device, uint64_t bytes, uint64_t most);
sim_device_t *sim_device_get(CUdevice dev); /* NULL when out of range */
bool sim_device_charge(sim_device_t *device, uint64_t bytes);
void sim_device_credit(sim_device_t *device, uint64_t bytes);
uint64_t sim_device_bytes_taken(uint64_t size); /* by an allocation that shares no page */

/* ---- context.c ---- */

typedef struct sim_stream sim_stream_t;

struct CUctx_st {
  uint64_t id; /* never reused; the handle is */
  bool alive;
  bool primary;
  unsigned retained; /* of a primary context */
  unsigned attached; /* of another */
  unsigned flags, api_version;
  sim_ctx_t *green_of; /* of a green context: its device's primary one */
  sim_device_t *device;
  CUresult sticky; /* once set every later call returns it */
  sim_stream_t *legacy;
  sim_block_t *blocks; /* memory that dies with the context */
  unsigned captures;   /* active in this context */
  uint64_t peers;      /* bit per device whose primary context is accessible */
  CUfunc_cache cache_config;
  size_t limits[16];
  sim_ctx_t *next_free;
};

/* "If the current context is the primary context, green contexts that have been created will also be
 * synchronized" (cuda.h, cuCtxSynchronize); the same holds for cuCtxRecordEvent. */
static inline bool sim_ctx_covers(const sim_ctx_t *ctx, const sim_ctx_t *other)
{
  return other == ctx || other->green_of == ctx;
}

sim_ctx_t *sim_ctx_current(void);
sim_ctx_t *sim_ctx_lookup(CUcontext ctx);     /* NULL or destroyed: NULL */
void sim_ctx_switch(sim_ctx_t *ctx);          /* replaces the top of this thread's stack */
sim_ctx_t *sim_ctx_new(sim_device_t *device); /* current nowhere; NULL: no memory */
void sim_ctx_end(sim_ctx_t *ctx);             /* with everything in it, after its work has run */
CUresult sim_ctx_primary_retain(CUcontext *ret_ctx, CUdevice dev);
CUresult sim_ctx_primary_release(CUdevice dev);

/* ---- stream.c ---- */

/* A position in a stream: reached when the stream has completed `seq` operations, or is not that stream any
 * more. */
typedef struct {
  sim_stream_t *stream;
  uint64_t id, seq;
} sim_dep_t;

/* The queue behind a handle. It outlives the handle until its work is done; then its memory serves another
 * stream under a new id. submitted - completed == number of ops queued from `head`. */
struct sim_stream {
  uint64_t id;
  sim_ctx_t *ctx;
  uint64_t ctx_id;
  enum { SIM_STREAM_LEGACY, SIM_STREAM_THREAD, SIM_STREAM_USER } kind;
  bool nonblocking, zombie;
  bool running; /* its head is a host function being run with the mutex released */
  unsigned flags;
  int priority;
  uint64_t thread; /* serial of the owner of a per-thread stream */
  uint64_t submitted, completed;
  uint64_t worked; /* <= submitted: for the default stream's rule */
  sim_op_t *head, *tail;
  int active_index; /* in the scheduler's list, -1 when idle */
  unsigned slot;    /* of the oracle, from 1 on; 0: none yet */
  sim_capture_t *capture;
  sim_handle_t *handle;
  sim_stream_t *prev, *next; /* of all streams in use */
  sim_stream_t *next_free;
};

struct CUstream_st {
  uint32_t magic;
  uint64_t number; /* for the log: counts creations */
  sim_stream_t *stream;
  sim_handle_t *next_free;
};

extern sim_stream_t *sim_streams;
sim_stream_t *sim_stream_new(sim_ctx_t *ctx, int kind, unsigned flags, int priority);
/* The stream that a call means; sets call->result and returns NULL when the handle is bad. */
sim_stream_t *sim_stream_get(sim_call_t *call, CUstream handle);
void sim_stream_release(sim_stream_t *stream); /* idle zombies return to the free list */
void sim_stream_drop_context(sim_ctx_t *ctx);
void sim_stream_drop_thread(uint64_t thread);
CUresult sim_stream_create(sim_call_t *call, CUstream *ret_stream, unsigned flags, int priority);

/* ---- sched.c ---- */

extern unsigned sim_pending; /* operations queued anywhere */
bool sim_dep_done(const sim_dep_t *dep);
sim_dep_t sim_dep_now(sim_stream_t *stream); /* everything submitted so far */
void sim_sched_submit(sim_stream_t *stream, sim_op_t *op);
void sim_sched_poke(void);
void sim_sched_notice(void);
void sim_sched_nudge(sim_dep_t dep);
void sim_sched_wait(sim_dep_t dep);
void sim_sched_wait_ctx(sim_ctx_t *ctx); /* NULL: all */
bool sim_sched_any(
    bool (*test)(const sim_op_t *op, const void *data), const void *data); /* of the queued work */
bool sim_ctx_is_idle(const sim_ctx_t *ctx);
void sim_sched_seed(uint64_t seed);

/* ---- op.c: one unit of queued work ---- */

typedef enum {
  SIM_OP_NOP, /* a kernel that is not modelled, a wait, a record without an event */
  SIM_OP_COPY,
  SIM_OP_FILL,
  SIM_OP_EXPECT, /* counts words that differ from a value */
  SIM_OP_HOST,
  SIM_OP_CALLBACK,
  SIM_OP_EVENT,
  SIM_OP_FREE, /* of the block that dst names */
  SIM_OP_WRITE_VALUE,
  SIM_OP_WAIT_VALUE,
  SIM_OP_BUSY, /* runs for `value` nanoseconds of CLOCK_MONOTONIC */
  SIM_OP_MEET, /* runs until `value` operations with the same source address can run */
} sim_op_kind_t;

typedef struct {
  uint64_t address, pitch, slice; /* slice: bytes between 2D slices */
  uint64_t block;                 /* buffer id it must still belong to; 0 for host memory */
  bool is_late;                   /* of that one or an earlier one, whose owner had freed it */
} sim_span_t;

struct sim_op {
  sim_op_kind_t kind;
  sim_op_t *next;
  sim_dep_t *deps; /* besides its place in the stream */
  unsigned dep_count, dep_room;
  sim_span_t dst, src;
  uint64_t width, height, depth; /* bytes, rows, slices */
  uint64_t value;
  unsigned unit; /* bytes of `value` */
  unsigned flags;
  void *staged; /* source bytes taken at submission */
  void *expect; /* what the shadow held at submission of a copy to the host */
  uint64_t expect_bytes;
  void *fn, *user;
  uint64_t end_ns;              /* of SIM_OP_BUSY: when it is complete; 0: it has not begun */
  bool met;                     /* of SIM_OP_MEET: it is complete */
  CUstream handle;              /* passed to a stream callback */
  bool is_kernel, programmatic; /* a launch, and one that may overlap the one in front of it */
  const sim_ctx_t *ctx;         /* of a kernel that was launched: it runs there */
  bool is_pool;                 /* an allocation or a free in stream order */
  sim_place_t *place;           /* of a host function; the oracle is on */
  sim_event_t *event;
  uint64_t event_version;
};

sim_op_t *sim_op_new(sim_op_kind_t kind);
void sim_op_delete(sim_op_t *op);
void sim_op_depend(sim_op_t *op, sim_dep_t dep);
sim_op_t *sim_op_clone(const sim_op_t *op); /* parameters only */
CUresult sim_op_prepare(sim_op_t *op); /* checks and names the blocks it touches, applies it to the shadow */
bool sim_op_is_ready(const sim_op_t *op); /* of the head of a stream: no more than its turn is missing */
bool sim_op_is_timed(const sim_op_t *op); /* completes by itself, outside of driver calls */
uint64_t sim_now_ns(void);                /* CLOCK_MONOTONIC */
void sim_op_run(sim_op_t *op, sim_stream_t *stream);

/* ---- oracle.c: which operation comes after which. With the oracle off all of it does nothing ---- */

extern bool sim_oracle_on;
void sim_oracle_submit(sim_stream_t *stream, sim_op_t *op); /* before it is queued */
void sim_oracle_gate_passed(const sim_op_t *op);            /* a kernel that waited for a flag has run */
extern _Thread_local uint64_t sim_late_owner;      /* whose the calling thread's accesses are: oracle.h */
void sim_oracle_stream_gone(sim_stream_t *stream); /* its last operation has run */
sim_clock_t *sim_oracle_stream_clock(sim_stream_t *stream); /* all its work so far, for free(); NULL: off */
sim_clock_t *sim_oracle_ctx_clock(const sim_ctx_t *ctx);    /* the same of all its streams */
sim_clock_t *sim_oracle_clock_copy(const sim_clock_t *clock);
void sim_oracle_know(const sim_clock_t *clock); /* the host learns that this is complete; NULL: nothing */
void sim_oracle_wait(
    sim_stream_t *stream, const sim_clock_t *clock); /* later work comes after it; NULL: nothing */

/* ---- oracle_owner.c: owners of memory ---- */

void sim_oracle_unmap(uint64_t address, uint64_t bytes);
void sim_oracle_forget(
    uint64_t address, uint64_t bytes); /* the driver takes the memory back, or hands it out */

/* ---- oracle_ordered.c: memory of cuMemAllocAsync, between its allocation and its free ---- */

void sim_ordered_allocated(sim_block_t *block, sim_stream_t *stream); /* by the stream's last operation */
void sim_ordered_freed_by_host(const sim_block_t *block);             /* by cuMemFree */
void sim_ordered_forget(sim_block_t *block);

/* ---- event.c ---- */

struct CUevent_st {
  uint32_t magic;
  uint64_t number;
  sim_ctx_t *ctx;
  uint64_t ctx_id;
  unsigned flags;
  uint64_t version; /* of the last record */
  sim_dep_t *deps;
  unsigned dep_count;
  sim_clock_t *clock; /* of the last record; the oracle is on */
  uint64_t time;      /* virtual, of the last completed record */
  bool recorded;
  sim_capture_t *capture; /* recorded in this capture last, with */
  uint64_t capture_id;
  struct CUgraphNode_st *capture_node;
  sim_stream_t *capture_stream;
  sim_event_t *next_free, *next, *prev;
};

extern uint64_t sim_clock; /* counts completed operations */
void sim_event_completed(sim_event_t *event, uint64_t version);
void sim_event_drop_context(sim_ctx_t *ctx);
CUresult sim_event_record_context(CUcontext ctx, CUevent event); /* ctx NULL: the current one */

/* ---- memory.c ---- */

typedef enum {
  SIM_MEM_DEVICE,
  SIM_MEM_MANAGED,
  SIM_MEM_POOL,  /* stream-ordered, belongs to a mempool */
  SIM_MEM_GRAPH, /* owned by a graph */
  SIM_MEM_MODULE,
  SIM_MEM_VMM,
  SIM_MEM_IPC,
  SIM_MEM_EXTERNAL,
  SIM_MEM_HOST,
  SIM_MEM_REGISTERED,
} sim_mem_kind_t;

struct sim_block {
  sim_node_t node; /* key: address */
  uint64_t size;   /* rounded up to SIM_GRANULE */
  uint64_t requested;
  uint64_t id; /* buffer id, never reused */
  /* A stream-ordered block may be given out again while work of its former owners is queued ahead in that
   * stream: ids valid_from..id are owners whose free has not executed. Elsewhere valid_from == id. */
  uint64_t valid_from;
  uint64_t access; /* SIM_MEM_VMM: who may use it, as a bit mask */
  sim_mem_kind_t kind;
  sim_device_t *device;
  sim_ctx_t *ctx; /* NULL: survives contexts */
  sim_block_t *prev, *next;
  sim_arena_t *arena;
  uint64_t charged;  /* bytes of its device that it takes by itself; 0: none */
  bool shares_page;  /* it is in a page that is charged while a block is there */
  sim_dirty_t dirty; /* bytes outside read as zero */
  bool free_called;  /* stream-ordered: the program may not name it any more */
  bool released;     /* stream-ordered: the free has executed, the block is cached in its pool */
  bool seen;         /* stream-ordered: and the host has synchronized since */
  bool sync_memops;
  bool shared;  /* other processes may write it: exported to them, or opened from one */
  bool opened;  /* from one: it has addresses of the host's */
  bool on_host; /* in host memory, which the program may touch, though its address is the device's */
  unsigned flags;
  sim_pool_t *pool;
  sim_dep_t alloc_at, free_at; /* stream-ordered: positions of the allocation and of the free */
  sim_block_t *pool_next;
  sim_history_t *history; /* the oracle is on; NULL: none yet */
  struct {
    unsigned refs;                    /* graphs and executable graphs that own it */
    sim_graph_t *owner;               /* NULL: that graph is gone */
    bool backed;                      /* physical memory is mapped to it */
    bool freed_inside, freed_outside; /* its own graph, or another one, has a free node for it */
  } graph;
};

sim_block_t *sim_block_new(sim_arena_t *arena, sim_device_t *device, sim_ctx_t *ctx, sim_mem_kind_t kind,
    uint64_t bytes, bool charge, CUresult *ret_result);
/* Gives it an id, and makes it one of its arena and of its context. */
void sim_block_enter(sim_block_t *block);
void sim_block_delete(sim_block_t *block);
void sim_block_dirty(sim_block_t *block, const sim_grid_t *grid);
void sim_block_dirty_all(sim_block_t *block);
uint64_t sim_block_next_id(void);
void sim_memory_drop_context(sim_ctx_t *ctx);
void sim_memory_move(
    sim_ctx_t *from, sim_ctx_t *to);                /* all that would end with the one ends with the other */
bool sim_memory_is_plain(const sim_block_t *block); /* device memory that the shadow can follow */

/* Ends the process if the driver was asked to free what the pool of a debug build holds. */
void sim_memory_check_free(CUdeviceptr address);

/* ---- array_shape.c ---- */

int sim_array_limit(int attribute); /* a CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE... or _SURFACE...; 0: another */
CUresult sim_array_check(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped);
uint64_t sim_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc); /* of one level, all its layers */
CUDA_ARRAY3D_DESCRIPTOR sim_array_next_level(const CUDA_ARRAY3D_DESCRIPTOR *desc);
unsigned sim_array_clamp_levels(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned wanted);

/* ---- array.c ---- */

void sim_array_drop_context(const sim_ctx_t *ctx);

/* ---- external.c ---- */

void sim_external_drop_context(const sim_ctx_t *ctx);

/* ---- mempool.c ---- */

void sim_pool_init_device(sim_device_t *device);
void sim_pool_free_executed(uint64_t address, uint64_t id);
void sim_pool_trim_all(void); /* at synchronizations: back to the release thresholds */
CUresult sim_pool_free(sim_block_t *block, sim_stream_t *stream);

/* ---- copy.c ---- */

/* Queues or captures a prepared operation as the stream demands. */
CUresult sim_submit(sim_call_t *call, sim_stream_t *stream, sim_op_t *op);
CUresult sim_copy_plan(const CUDA_MEMCPY3D *c, sim_op_t **ret_op); /* NULL: nothing is to be copied */

/* ---- capture.c ---- */

struct sim_capture {
  uint64_t id;
  sim_ctx_t *ctx;
  sim_stream_t *origin;
  sim_graph_t *graph;
  CUstreamCaptureMode mode;
  uint64_t thread;
  bool invalidated;
  bool owns_graph; /* not cuStreamBeginCaptureToGraph */
  struct {
    sim_stream_t *stream;
    struct CUgraphNode_st *last;
    bool joined;
  } * members;
  unsigned member_count;
  struct CUgraphNode_st *deps_out[1];
  sim_capture_t *next;
};

extern sim_capture_t *sim_captures;
bool sim_capture_forbids(const sim_thread_t *thread); /* unsafe call: invalidates what it conflicts with */
void sim_capture_invalidate(sim_capture_t *capture);
/* True when work on the stream is not to be queued: captured into a graph, or refused (result tells). Takes
 * op. */
bool sim_capture_take(sim_stream_t *stream, sim_op_t *op, CUresult *ret_result);
CUresult sim_capture_record(sim_stream_t *stream, sim_event_t *event);
bool sim_capture_wait(sim_stream_t *stream, sim_event_t *event, CUresult *ret_result);
CUresult sim_capture_legacy(
    const sim_stream_t *stream); /* an error if it is that and a blocking one captures */
/* For what asks a stream or a context whether it is done, and for synchronous copies: an error if a capture
 * is in the way */
CUresult sim_capture_refuses(sim_stream_t *stream);
CUresult sim_capture_refuses_ctx(sim_ctx_t *ctx);
struct CUgraphNode_st *sim_capture_memory_node(
    sim_stream_t *stream, CUgraphNodeType type); /* not invalidated */
void sim_capture_forget_stream(sim_stream_t *stream);

/* ---- graph.c ---- */

struct CUgraphNode_st {
  sim_op_t *op; /* NULL for empty, memory and child graph nodes */
  CUgraphNodeType type;
  sim_graph_t *graph;
  sim_block_t *block;               /* of an allocation node */
  CUDA_MEM_ALLOC_NODE_PARAMS alloc; /* of an allocation node; owns accessDescs */
  CUdeviceptr freed;                /* of a free node */
  sim_graph_t *child;               /* owned */
  struct CUgraphNode_st **deps;
  unsigned dep_count;
};

struct CUgraph_st {
  sim_node_t node; /* key: the handle */
  uint64_t number;
  struct CUgraphNode_st **nodes; /* in an order that respects the dependencies */
  unsigned count, room;
  bool embedded;               /* in a child graph node of another */
  struct CUgraphExec_st *exec; /* of a graph with memory nodes, of which there may be one */
};

sim_graph_t *sim_graph_new(void);
bool sim_graph_is_valid(const sim_graph_t *graph);
void sim_graph_delete(sim_graph_t *graph);
struct CUgraphNode_st *sim_graph_add(sim_graph_t *graph, CUgraphNodeType type, sim_op_t *op,
    struct CUgraphNode_st *const *deps, unsigned dep_count);
bool sim_graph_has_memory(const sim_graph_t *graph); /* allocation or free nodes, also in child graphs */

/* ---- graph_exec.c ---- */

void sim_graph_exec_forget(struct CUgraphExec_st *exec); /* its graph is gone */

/* ---- graph_mem.c ---- */

sim_block_t *sim_graph_mem_new(
    sim_device_t *device, uint64_t bytes, CUresult *ret_result); /* addresses only */
void sim_graph_mem_set_alloc(
    struct CUgraphNode_st *node, sim_block_t *block, const CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUresult sim_graph_mem_may_free(const sim_graph_t *graph, CUdeviceptr address); /* by a node of this graph */
void sim_graph_mem_set_free(struct CUgraphNode_st *node, CUdeviceptr address);
CUresult sim_graph_mem_back(sim_block_t *const *blocks, unsigned count); /* all or none */
CUresult sim_graph_mem_free(sim_block_t *block, sim_stream_t *stream);   /* by the program */
void sim_graph_mem_unref(sim_block_t *block);
void sim_vmm_reap(void);       /* of exported memory what nothing refers to any more, in whatever process */
void sim_graph_mem_reap(void); /* at synchronizations: what nothing refers to any more */

/* ---- kernel.c ---- */

/*
 * The room for the logs of the just-in-time compiler, both together. In place of each the driver writes how
 * much of it it has filled (cuda.h, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES): nothing, here also where the call
 * fails.
 */
size_t sim_take_log_sizes(unsigned count, const CUjit_option *options, void **values);
struct CUfunc_st {
  sim_node_t node; /* key: the handle */
  char *name;
  void *module;
  uint64_t ctx_id;
  enum {
    SIM_KERNEL_NONE,
    SIM_KERNEL_FILL,
    SIM_KERNEL_COPY,
    SIM_KERNEL_EXPECT,
    SIM_KERNEL_WAIT,
    SIM_KERNEL_BUSY,
    SIM_KERNEL_MEET,
  } stand_in;
  sim_func_t *next;
};

void sim_kernel_drop_context(sim_ctx_t *ctx);
sim_op_t *sim_kernel_op(const sim_func_t *function, void **params, void **extra); /* NULL: no function */

#endif
