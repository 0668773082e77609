/** The statistics of a device. scripts/make-stats.py makes this of format/stats.def. */

/** @type {[string, string, string][]} name, unit and label */
export const GAUGES = [
  ['requested_bytes', 'bytes', 'requested'],
  ['allocated_bytes', 'bytes', 'allocated (rounded up)'],
  ['active_bytes', 'bytes', 'active'],
  ['reserved_bytes', 'bytes', 'reserved from the driver'],
  ['cached_bytes', 'bytes', 'cached'],
  ['inactive_split_bytes', 'bytes', 'idle parts of segments'],
  ['surplus_bytes', 'bytes', 'surplus (device busy)'],
  ['deferred_bytes', 'bytes', 'deferred'],
  ['passthrough_bytes', 'bytes', 'forwarded (not pooled)'],
  ['allocation', 'count', 'blocks'],
  ['segment', 'count', 'segments'],
  ['pinned_host_bytes', 'bytes', 'page-locked host memory'],
];

/** @type {[string, string][]} name and label */
export const COUNTERS = [
  ['cache_hits', 'hits'],
  ['cache_misses', 'misses'],
  ['driver_allocs', 'driver allocs'],
  ['driver_frees', 'driver frees'],
  ['fences', 'fences'],
  ['host_waits', 'host waits'],
  ['num_ooms', 'out of memory'],
  ['num_alloc_retries', 'retries'],
];
