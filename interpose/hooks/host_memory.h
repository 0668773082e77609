/*
 * Memory of the host, for devices that have none of their own.
 */
#ifndef GP_INTERPOSE_HOOKS_HOST_MEMORY_H
#define GP_INTERPOSE_HOOKS_HOST_MEMORY_H

#include <stdint.h>

/*
 * Bytes that the host could give without swapping: MemAvailable of /proc/meminfo, in which page cache that
 * can be dropped counts (proc(5)). 0 if the kernel does not say. Any thread; reads a file.
 */
uint64_t gp_host_memory_available(void);

#endif
