#include "interpose/hooks/host_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t gp_host_memory_available(void)
{
  static const char name[] = "MemAvailable:";
  char text[512]; /* it is the third line */
  int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

  if (fd >= 0)
    (void)close(fd); /* it was only read */
  if (length <= 0)
    return 0;
  text[length] = '\0';
  const char *line = strstr(text, name);
  return line ? strtoull(line + sizeof(name) - 1, NULL, 10) * 1024 : 0; /* kB */
}
