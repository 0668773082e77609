/*
 * Devices that several processes share (SIMCUDA_SHARED=FILE): the file has what each process holds of each
 * device. What a process held that has ended, however it ended, is free again.
 */
#include "sim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOLDERS 64 /* most processes at a time */

typedef struct {
  volatile pid_t process; /* 0: the place was never taken */
  volatile uint64_t used[SIM_MAX_DEVICES];
} holder_t;

static holder_t *holders, *own; /* NULL: the process shares nothing */
static int file = -1;

static bool lives(const holder_t *holder)
{
  return holder->process && kill(holder->process, 0) == 0;
}

static void lock(int operation)
{
  if (flock(file, operation) != 0)
    abort();
}

void sim_shared_init(void)
{
  const char *path = getenv("SIMCUDA_SHARED");

  if (!path || !*path)
    return;
  file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, HOLDERS * sizeof(holder_t)) != 0) {
    fprintf(stderr, "simcuda: SIMCUDA_SHARED=%s cannot be written: %m\n", path);
    exit(1);
  }
  holders = mmap(NULL, HOLDERS * sizeof(holder_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (holders == MAP_FAILED)
    abort();
  lock(LOCK_EX);
  for (int i = 0; i < HOLDERS && !own; i++)
    own = lives(&holders[i]) ? NULL : &holders[i];
  if (!own)
    abort(); /* too many processes */
  for (int i = 0; i < SIM_MAX_DEVICES; i++)
    own->used[i] = 0;
  own->process = getpid();
  lock(LOCK_UN);
}

uint64_t sim_shared_others(int device)
{
  uint64_t bytes = 0;

  for (int i = 0; own && i < HOLDERS; i++)
    if (&holders[i] != own && lives(&holders[i]))
      bytes += holders[i].used[device];
  return bytes;
}

bool sim_shared_set(int device, uint64_t bytes, uint64_t most)
{
  if (!own)
    return true;
  lock(LOCK_EX);
  bool fits = sim_shared_others(device) <= most - bytes;
  if (fits)
    own->used[device] = bytes;
  lock(LOCK_UN);
  return fits;
}
