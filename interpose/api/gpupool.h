/*
 * gpupool.h: the functions with which a program queries and controls libgpupool.so, the memory pool.
 *
 * A program that includes this header needs no library to link, and runs with or without the pool:
 *
 *   LD_PRELOAD=libgpupool.so ./app      the functions below work as described
 *   ./app                               each function reports that there is no library
 *
 * Rules for all functions:
 * - Any thread may call them at any time, except in a signal handler. No function waits for device work,
 *   except gpupool_release, which may wait as cudaFree does.
 * - They return GPUPOOL_OK, or the reason why they did nothing; on failure all results are unchanged.
 *   Functions that return a number or a text return 0 or NULL instead.
 * - Sizes are bytes. The caller keeps ownership of its arguments. A pointer for a result may be NULL if
 *   the result is not wanted.
 * - A device is its CUDA ordinal, or GPUPOOL_CURRENT: the device of the calling thread's current context,
 *   or 0 if there is none. The statistics of a device that the program has not used are 0. For a device
 *   that does not exist the functions return GPUPOOL_INVALID, or 0.
 * - Without the library they return GPUPOOL_NOT_LOADED, 0 or NULL, and change nothing.
 * - If the library is inactive in the process, they return GPUPOOL_INACTIVE: with GPUPOOL_DISABLE=1, in
 *   the child of fork(), and until the process has loaded a CUDA driver. The CUDA runtime loads the driver
 *   at the program's first call.
 *
 * The header needs Linux, C99 or C++11 or later, and GCC or Clang, because it uses __asm__ and __typeof__.
 */
#ifndef GPUPOOL_H
#define GPUPOOL_H

#if !defined __GNUC__
#error "gpupool.h needs GCC or Clang"
#elif defined __cplusplus ? __cplusplus < 201103L : !defined __STDC_VERSION__ || __STDC_VERSION__ < 199901L
#error "gpupool.h needs C99 or C++11, or later"
#endif

#include <stddef.h>
#include <stdint.h>

/* NULL may be a plain 0, which a compiler option can reject. */
#if defined __cplusplus || __STDC_VERSION__ >= 202311L
#define GPUPOOL_NULL nullptr
#else
#define GPUPOOL_NULL NULL
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gpupool_result {
  GPUPOOL_OK = 0,
  GPUPOOL_NOT_LOADED = 1, /* the program runs without the library, or with one too old for this call */
  GPUPOOL_INACTIVE = 2,   /* the library is inactive in this process, or has not started yet */
  GPUPOOL_INVALID = 3,    /* an invalid argument, such as a negative device */
  GPUPOOL_UNKNOWN = 4,    /* no such block, name or scope */
  GPUPOOL_FAILED = 5      /* the system or the driver failed; errno is set where noted below */
} gpupool_result_t;

#define GPUPOOL_CURRENT  (-1)
#define GPUPOOL_NO_LIMIT UINT64_MAX

/* What the library records (GPUPOOL_TRACE). */
typedef enum gpupool_recording {
  GPUPOOL_RECORD_OFF = 0,
  GPUPOOL_RECORD_STATE = 1, /* no events; snapshots contain the live blocks */
  GPUPOOL_RECORD_ALL = 2
} gpupool_recording_t;

/* Statistics of a device between the begin and the end of a scope. Bytes are counted as for
 * gpupool_memory_allocated and the functions next to it. */
typedef struct gpupool_report {
  uint64_t peak_allocated; /* includes memory allocated before the scope */
  uint64_t peak_reserved;
  uint64_t peak_cached;
  uint64_t peak_requested;  /* peak of the requested bytes, without the pool's rounding */
  uint64_t allocated_bytes; /* bytes of all allocations in the scope */
  uint64_t allocations;     /* number of allocations in the scope */
  uint64_t freed_bytes;     /* bytes of all frees in the scope */
  uint64_t frees;
  uint64_t cache_hits;   /* allocations without a driver call */
  uint64_t cache_misses; /* allocations with a driver call */
  uint64_t driver_allocs;
  uint64_t driver_frees;
  uint64_t num_ooms;
  uint64_t duration_ns;
  double cache_hit_rate; /* hits / (hits + misses); 0 without allocations */
  double efficiency;     /* peak_requested / peak_reserved; 0 if nothing was reserved */
} gpupool_report_t;

/* The functions that the library exports. Bindings for other languages look up these names. C and C++
 * programs call the functions below, without api_, which first check whether the library is loaded. */
const char *gpupool_api_version(void);
gpupool_result_t gpupool_api_statistic(int device, const char *name, uint64_t *ret_value);
size_t gpupool_api_memory_stats(int device, char *text, size_t capacity);
size_t gpupool_api_memory_summary(int device, char *text, size_t capacity);
gpupool_result_t gpupool_api_memory_info(int device, uint64_t *ret_free, uint64_t *ret_total);
gpupool_result_t gpupool_api_reset_peaks(int device);
gpupool_result_t gpupool_api_reset_stats(int device);
gpupool_result_t gpupool_api_empty_cache(uint64_t *ret_bytes);
gpupool_result_t gpupool_api_set_limit(int device, uint64_t bytes);
gpupool_result_t gpupool_api_snapshot(const char *path, char *ret_path, size_t capacity);
gpupool_result_t gpupool_api_set_recording(gpupool_recording_t recording);
gpupool_result_t gpupool_api_set_verbose(int level);
gpupool_result_t gpupool_api_mark(const char *name);
gpupool_result_t gpupool_api_scope_begin(int device, const char *name, uint64_t *ret_scope);
gpupool_result_t gpupool_api_scope_end(uint64_t scope, gpupool_report_t *ret_report, size_t report_bytes);
gpupool_result_t gpupool_api_retain(const void *address);
gpupool_result_t gpupool_api_release(const void *address);

/*
 * For torch.cuda.memory.CUDAPluggableAllocator, which looks these functions up by name (doc/api.md); programs
 * do not call them. The stream is a cudaStream_t. The memory behaves like memory from cudaMallocAsync. alloc
 * returns NULL if it fails. free takes an address from alloc, or NULL; work already submitted to `stream`,
 * and to the streams that record_stream was given for the address, may still use the memory. base_alloc
 * returns the beginning and size of the driver allocation that contains the address. reset does what
 * gpupool_empty_cache does. memory_fraction sets a limit as a fraction of the device's memory; 1 removes it.
 * If the program loaded the library without LD_PRELOAD, these functions just call cudaMallocAsync and
 * cudaFreeAsync, and print one line on stderr.
 */
struct CUstream_st;
void *gpupool_torch_alloc(size_t size, int device, struct CUstream_st *stream);
void gpupool_torch_free(void *address, size_t size, int device, struct CUstream_st *stream);
void gpupool_torch_record_stream(void *address, struct CUstream_st *stream);
void *gpupool_torch_base_alloc(void *address, size_t *ret_size);
void gpupool_torch_reset(void);
void gpupool_torch_memory_fraction(double fraction, int device);

/*
 * Stores the address of a function in `pointer`, or NULL without the library. On x86-64 it reads the table
 * that the loader fills (GOT), because in an executable that is not position-independent the linker would fix
 * the address at NULL. Programs with 32-bit pointers do not need this: there is no library for them.
 */
#if defined __x86_64__ && defined __LP64__
#define GPUPOOL_FIND(function, pointer)                                                                      \
  __typeof__(&function) pointer;                                                                             \
  __asm__(".weak " #function "\n\tmovq " #function "@GOTPCREL(%%rip), %0" : "=r"(pointer))
#else
#define GPUPOOL_PRAGMA(text) _Pragma(#text)
#define GPUPOOL_FIND(function, pointer)                                                                      \
  GPUPOOL_PRAGMA(weak function)                                                                              \
  __typeof__(&function) pointer = &function
#endif

/* Calls `function` with `arguments` (in parentheses) and returns its result, or returns `without` if there is
 * no library. */
#define GPUPOOL_CALL(function, arguments, without)                                                           \
  GPUPOOL_FIND(gpupool_api_##function, gpupool_found);                                                       \
  return gpupool_found ? gpupool_found arguments : (without)

/* Converts a device to int. A value outside the valid range becomes an invalid device; truncation could turn
 * it into the ordinal of another device. */
static inline int gpupool_ordinal(long long device)
{
  return device < GPUPOOL_CURRENT || device > INT32_MAX ? GPUPOOL_CURRENT - 1 : (int)device;
}

/* Returns the version, such as "0.1.0"; the string is valid permanently. NULL without the library. */
static inline const char *gpupool_version(void)
{
  GPUPOOL_CALL(version, (), GPUPOOL_NULL);
}

/*
 * Reads one statistic of a device by name. If PyTorch's memory_stats() has the statistic, the name is
 * PyTorch's. trace/FORMAT.md lists the names, and what each one counts.
 *
 * A gauge such as "reserved_bytes" has the names "reserved_bytes.all.current", ".all.peak", ".all.allocated",
 * ".all.freed", and "reserved_bytes" for the current value. A counter such as "cache_hits" has only its name.
 * doc/api.md lists more names for some. Returns GPUPOOL_UNKNOWN for an unknown name and GPUPOOL_INVALID for
 * NULL. Takes the device's lock.
 */
static inline gpupool_result_t gpupool_statistic(long long device, const char *name, uint64_t *ret_value)
{
  GPUPOOL_CALL(statistic, (gpupool_ordinal(device), name, ret_value), GPUPOOL_NOT_LOADED);
}

/* Returns the statistic, or 0 if gpupool_statistic fails. */
static inline uint64_t gpupool_number(long long device, const char *name)
{
  uint64_t value = 0;
  (void)gpupool_statistic(device, name, &value);
  return value;
}

/*
 * Return byte counts of the device. allocated: in use by the program, as the pool rounds them. cached: idle
 * bytes that the pool keeps for reuse. reserved: bytes that the pool has reserved from the driver, which
 * includes allocated and cached. max_: the peak of each value.
 */
static inline uint64_t gpupool_memory_allocated(long long device)
{
  return gpupool_number(device, "allocated_bytes.all.current");
}
static inline uint64_t gpupool_memory_cached(long long device)
{
  return gpupool_number(device, "cached_bytes.all.current");
}
static inline uint64_t gpupool_memory_reserved(long long device)
{
  return gpupool_number(device, "reserved_bytes.all.current");
}
static inline uint64_t gpupool_max_memory_allocated(long long device)
{
  return gpupool_number(device, "allocated_bytes.all.peak");
}
static inline uint64_t gpupool_max_memory_cached(long long device)
{
  return gpupool_number(device, "cached_bytes.all.peak");
}
static inline uint64_t gpupool_max_memory_reserved(long long device)
{
  return gpupool_number(device, "reserved_bytes.all.peak");
}

/*
 * Write all statistics as a JSON object of names and numbers (stats), or as a table to print (summary), into
 * text[0..capacity) as snprintf does: at most capacity - 1 bytes and a 0. Return the length of the whole
 * text. text may be NULL if capacity is 0. Return 0, and write nothing, if there is no library or no such
 * device.
 */
static inline size_t gpupool_memory_stats(long long device, char *text, size_t capacity)
{
  GPUPOOL_CALL(memory_stats, (gpupool_ordinal(device), text, capacity), 0);
}
static inline size_t gpupool_memory_summary(long long device, char *text, size_t capacity)
{
  GPUPOOL_CALL(memory_summary, (gpupool_ordinal(device), text, capacity), 0);
}

/*
 * Queries the device's free and total memory as cudaMemGetInfo reports them to the program: memory that the
 * pool keeps counts as free, and a limit bounds both values. Returns GPUPOOL_FAILED if the driver's query
 * failed, or is not allowed now (during a stream capture).
 */
static inline gpupool_result_t gpupool_memory_info(long long device, uint64_t *ret_free, uint64_t *ret_total)
{
  GPUPOOL_CALL(memory_info, (gpupool_ordinal(device), ret_free, ret_total), GPUPOOL_NOT_LOADED);
}

/* reset_peaks restarts the peaks at the present values, also for snapshots and `gpupool ctl`. reset_stats
 * also restarts the counts, and "allocated" and "freed", but only for the functions above. */
static inline gpupool_result_t gpupool_reset_peaks(long long device)
{
  GPUPOOL_CALL(reset_peaks, (gpupool_ordinal(device)), GPUPOOL_NOT_LOADED);
}
static inline gpupool_result_t gpupool_reset_stats(long long device)
{
  GPUPOOL_CALL(reset_stats, (gpupool_ordinal(device)), GPUPOOL_NOT_LOADED);
}

/* Releases the pool's cached memory on all devices to the driver: at once on a device without pending work,
 * else at a later free or synchronization of the program, when no work is pending. *ret_bytes receives the
 * bytes released at once. */
static inline gpupool_result_t gpupool_empty_cache(uint64_t *ret_bytes)
{
  GPUPOOL_CALL(empty_cache, (ret_bytes), GPUPOOL_NOT_LOADED);
}

/*
 * Limits the memory of the process on the device to `bytes`, whatever call allocates it (GPUPOOL_LIMIT).
 * GPUPOOL_NO_LIMIT removes the limit; 0 returns GPUPOOL_INVALID. If the process uses more already, it keeps
 * its memory, but allocations fail until it has freed enough. The new limit also replaces a malformed
 * GPUPOOL_LIMIT.
 */
static inline gpupool_result_t gpupool_set_limit(long long device, uint64_t bytes)
{
  GPUPOOL_CALL(set_limit, (gpupool_ordinal(device), bytes), GPUPOOL_NOT_LOADED);
}

/*
 * Writes a snapshot to the file `path`. If the file exists, the library does not overwrite it, but appends
 * ".1" and so on to the name. If path is NULL, the name comes from GPUPOOL_OUTPUT. The actual name is stored
 * in ret_path[0..capacity), truncated if it does not fit. On GPUPOOL_FAILED, errno has the reason; ECANCELED
 * means that GPUPOOL_OUTPUT_MAX is reached, or the process is exiting.
 */
static inline gpupool_result_t gpupool_snapshot(const char *path, char *ret_path, size_t capacity)
{
  GPUPOOL_CALL(snapshot, (path, ret_path, capacity), GPUPOOL_NOT_LOADED);
}

/* Sets what the library records from now on. When recording resumes after a pause, the events before the
 * pause count as lost. */
static inline gpupool_result_t gpupool_set_recording(gpupool_recording_t recording)
{
  GPUPOOL_CALL(set_recording, (recording), GPUPOOL_NOT_LOADED);
}

/* Marks this moment with a name: snapshots contain the newest 32767 marks. `name` is any text; it is copied,
 * and truncated to 71 bytes. Returns GPUPOOL_INVALID if `name` is NULL. While recording is off, marks are
 * lost. */
static inline gpupool_result_t gpupool_mark(const char *name)
{
  GPUPOOL_CALL(mark, (name), GPUPOOL_NOT_LOADED);
}

/*
 * Begin and end a scope. The report covers what all threads do on the device between the two calls, which may
 * come from different threads. Both calls appear as marks in snapshots. Scopes may overlap. *ret_scope is
 * never 0, and is never reused. At most 64 scopes may be open at once: the next begin returns GPUPOOL_FAILED.
 * end returns GPUPOOL_UNKNOWN if the scope is not open. If `gpupool ctl` resets peaks meanwhile, the report's
 * peaks restart, too.
 */
static inline gpupool_result_t gpupool_scope_begin(long long device, const char *name, uint64_t *ret_scope)
{
  GPUPOOL_CALL(scope_begin, (gpupool_ordinal(device), name, ret_scope), GPUPOOL_NOT_LOADED);
}
static inline gpupool_result_t gpupool_scope_end(uint64_t scope, gpupool_report_t *ret_report)
{
  GPUPOOL_CALL(scope_end, (scope, ret_report, sizeof(*ret_report)), GPUPOOL_NOT_LOADED);
}

/* Sets how much the library prints to stderr or GPUPOOL_LOG: 0, 1 or 2, like GPUPOOL_VERBOSE. */
static inline gpupool_result_t gpupool_set_verbose(int level)
{
  GPUPOOL_CALL(set_verbose, (level), GPUPOOL_NOT_LOADED);
}

/*
 * gpupool_retain adds a reference to a block that the pool allocated for cudaMalloc or cudaMallocAsync.
 * `address` is the address that the program received. The pool does not reuse the block until the last
 * reference is released. The program's cudaFree releases one reference; each gpupool_retain needs one
 * gpupool_release. When the context ends, the memory is gone despite references. The program may also retain
 * a block that it has freed, while another reference is left. Returns GPUPOOL_UNKNOWN if no used block of the
 * pool begins at `address`: the driver served the memory, or it was freed.
 *
 * gpupool_release releases one reference. The last release counts as the free: it may call the driver's free,
 * which may wait, and work submitted before may still use the memory. Returns GPUPOOL_UNKNOWN if no reference
 * of gpupool_retain is left on such a block, or the driver refused to free it.
 */
static inline gpupool_result_t gpupool_retain(const void *address)
{
  GPUPOOL_CALL(retain, (address), GPUPOOL_NOT_LOADED);
}
static inline gpupool_result_t gpupool_release(const void *address)
{
  GPUPOOL_CALL(release, (address), GPUPOOL_NOT_LOADED);
}

#ifdef __cplusplus
}

namespace gpupool
{

/* A scope that ends with its enclosing block, or by end(). */
class scope
{
public:
  explicit scope(const char *name, long long device = GPUPOOL_CURRENT)
  {
    if (gpupool_scope_begin(device, name, &number_) != GPUPOOL_OK)
      number_ = 0;
  }
  ~scope()
  {
    if (number_)
      (void)gpupool_scope_end(number_, nullptr);
  }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;

  /* Ends the scope and returns its report; all 0 if the scope has already ended, or there is no library. */
  gpupool_report_t end()
  {
    gpupool_report_t report = gpupool_report_t();
    if (number_)
      (void)gpupool_scope_end(number_, &report);
    number_ = 0;
    return report;
  }

private:
  uint64_t number_ = 0;
};

/* Keeps a reference to a block until this object is destroyed. The object can be moved. It is empty if
 * gpupool_retain failed. */
class holder
{
public:
  explicit holder(const void *address) : address_(gpupool_retain(address) == GPUPOOL_OK ? address : nullptr)
  {
  }
  holder(holder &&other) noexcept : address_(other.address_)
  {
    other.address_ = nullptr;
  }
  holder &operator=(holder &&other) noexcept
  {
    const void *mine = address_;
    address_ = other.address_;
    other.address_ = mine;
    return *this;
  }
  ~holder()
  {
    if (address_)
      (void)gpupool_release(address_);
  }
  explicit operator bool() const
  {
    return address_ != nullptr;
  }

private:
  const void *address_;
};

} // namespace gpupool
#endif

#endif
