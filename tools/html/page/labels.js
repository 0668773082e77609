/** The statistics of a device, and the events that are marks. scripts/make-tables.py makes this of the tables in format. */

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
  ['num_damages', 'damages'],
  ['num_alloc_retries', 'retries'],
];

/** @type {Record<string, string>} what a mark says, by the name of the event */
export const EVENT_MARKS = {
  oom: 'memory ran out',
  snapshot: 'a snapshot was written',
  trim: 'idle memory was released',
  mode: 'the reuse rule changed',
  damage: 'damage was found',
};
