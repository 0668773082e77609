/*
 * A small snapshot, checked by hand: two blocks live, one idle, five events, nothing missing.
 */
#ifndef GP_TEST_SMALL_SNAPSHOT_H
#define GP_TEST_SMALL_SNAPSHOT_H

#define GAUGE_TEXT(name, current, peak, allocated, freed)                                                    \
  "\"" name "\":{\"current\":" #current ",\"peak\":" #peak ",\"allocated\":" #allocated ",\"freed\":" #freed \
  "},"

#define SMALL_HEAD "{\n\"format\":\"gpupool-snapshot\",\n\"version\":1,\n\"reason\":\"exit\",\n"
#define SMALL_PROCESS                                                                                        \
  "\"process\":{\"start_time_us\":1760000000000000,\"program\":\"/usr/bin/app\",\"command_line\":[\"app\","  \
  "\"\\u001b[31m\xc3\xa9\"],\"pid\":4711,\"host\":\"node1\",\"rank\":0,\"driver_version\":13000,"            \
  "\"runtime_version\":null},\n"
#define SMALL_SETTINGS                                                                                       \
  "\"settings\":{\"type\":\"round\",\"limit\":\"8GiB\",\"trace\":\"all\",\"trace_events\":\"131072\","       \
  "\"sources\":{\"limit\":\"environment\"}},\n"
#define SMALL_DEVICES                                                                                        \
  "\"devices\":[\n{\"device\":0,\"limit\":8589934592,\"stats\":{" GAUGE_TEXT(                                \
      "allocation", 2, 3, 3, 1) GAUGE_TEXT("segment", 3, 3, 3, 0) GAUGE_TEXT("allocated_bytes", 4194304,     \
      6291456, 6291456, 2097152) GAUGE_TEXT("requested_bytes", 4000000, 6000000, 6000000,                    \
      2000000) GAUGE_TEXT("reserved_bytes", 6291456, 6291456, 6291456, 0) GAUGE_TEXT("active_bytes",         \
      4194304, 6291456, 6291456,                                                                             \
      2097152) GAUGE_TEXT("cached_bytes", 2097152, 2097152, 2097152, 0) GAUGE_TEXT("inactive_split_bytes",   \
      0, 0, 0, 0) GAUGE_TEXT("surplus_bytes", 0, 0, 0, 0) GAUGE_TEXT("deferred_bytes", 0, 0, 0, 0)           \
      GAUGE_TEXT("passthrough_bytes", 0, 0, 0, 0) GAUGE_TEXT("pinned_host_bytes", 0, 0, 0,                   \
          0) "\"cache_hits\":0,\"cache_misses\":3,\"driver_allocs\":3,\"driver_frees\":0,\"fences\":0,"      \
             "\"host_waits\":0,"                                                                             \
             "\"num_ooms\":0,\"num_alloc_retries\":0,\"cache_hit_rate\":0.000000,\"efficiency\":0.635783,"   \
             "\"fragmentation\":0.000000}}],\n"
#define SMALL_BLOCK(address, number, state)                                                                  \
  "{\"device\":0,\"address\":" #address ",\"total_size\":2097152,\"blocks\":[{\"address\":" #address         \
  ",\"size\":2097152,\"requested_size\":2000000,\"block\":" #number ",\"state\":\"" state                    \
  "\",\"refs\":1,\"stack\":-1,\"stream\":-1,\"time_ns\":52000,\"tainted\":false}]}"
#define SMALL_SEGMENTS                                                                                       \
  "\"segments\":[\n" SMALL_BLOCK(4194304, 1, "active_allocated") ",\n" SMALL_BLOCK(                          \
      8388608, 2, "inactive") ",\n" SMALL_BLOCK(16777216, 3, "active_allocated") "],\n\"passthrough\":[],\n"
#define SMALL_TABLES "\"streams\":[{\"handle\":\"0x0\"}],\n\"threads\":[{\"tid\":4711,\"name\":\"app\"}],\n"
#define SMALL_EVENTS                                                                                         \
  "\"events\":{\n\"actions\":[\"alloc\",\"free_requested\",\"free_completed\"],\n\"details\":[\"\"],\n"      \
  "\"action\":[0,0,0,1,2],\n\"time_ns\":[1000,2000,3000,50000,50000],\n\"device\":[0,0,0,0,0],\n"            \
  "\"stream\":[-1,-1,0,-1,-1],\n\"thread\":[0,0,0,0,0],\n"                                                   \
  "\"address\":[4194304,8388608,16777216,8388608,8388608],\n"                                                \
  "\"size\":[2000000,2000000,2000000,2000000,2000000],\n"                                                    \
  "\"rounded_size\":[2097152,2097152,2097152,2097152,2097152],\n\"block\":[1,2,3,2,2],\n"                    \
  "\"hit\":[0,0,0,0,0],\n\"duration_ns\":[98000,90000,80000,0,0],\n\"lifetime_ns\":[0,0,0,48000,48000],\n"   \
  "\"stack\":[-1,-1,-1,-1,-1],\n\"detail\":[0,0,0,0,0]},\n"
#define SMALL_TAIL                                                                                           \
  "\"stacks\":[],\n\"frames\":[],\n\"modules\":[],\n\"marks\":[],\n\"recorded_since_ns\":0,\n"               \
  "\"dropped_events\":0}\n"

#define SMALL_SNAPSHOT                                                                                       \
  SMALL_HEAD SMALL_PROCESS SMALL_SETTINGS SMALL_DEVICES SMALL_SEGMENTS SMALL_TABLES SMALL_EVENTS SMALL_TAIL

#endif
