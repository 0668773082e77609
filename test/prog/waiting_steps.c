/*
 * Takes steps from its standard input beside a kernel that waits, and answers each line with a line,
 * as steps.c does:
 *
 *   leave idle|deferred  frees 64 MiB
 *   alloc BYTES          answers the result
 *   start, stop          the kernel
 *   synchronize
 */
#include "waiting.h"

int main(void)
{
  char line[64];
  waiting_setup();
  while (fgets(line, sizeof(line), stdin)) {
    char step[32] = "", argument[32] = "";
    CUdeviceptr block;
    int answer = 0;
    if (sscanf(line, "%31s %31s", step, argument) < 1)
      continue;
    if (strcmp(step, "leave") == 0)
      waiting_leave(argument, 16 * MIB, 4);
    else if (strcmp(step, "alloc") == 0)
      answer = (int)cuMemAlloc_v2(&block, strtoull(argument, NULL, 10));
    else if (strcmp(step, "start") == 0)
      waiting_start();
    else if (strcmp(step, "stop") == 0)
      waiting_stop();
    else if (strcmp(step, "synchronize") == 0)
      answer = (int)cuCtxSynchronize();
    else
      answer = -2;
    printf("%s %d\n", step, answer);
  }
  return 0;
}
