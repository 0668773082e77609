/*
 * Closes every descriptor that it does not know, as daemons do, opens files of its own, and allocates on from
 * code that no unwinder has rules for, as compilers at run time make it. What is in the files then has to be
 * the program's.
 *
 * closes FOLDER   exit status 1: something was written to a file, or read from one; 2: an allocation failed
 */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALLOCATIONS 100 /* enough for each unwinder to be in use */
#define FILES       16

static int failures;

static int allocate(void)
{
  void *block;
  int error = cudaMalloc(&block, 4 << 20) != cudaSuccess;
  failures += error; /* and no tail call: this function is on the stack */
  return error;
}

typedef int (*trampoline_fn)(int (*function)(void));

/* A function that calls its argument: with a frame pointer, and without a word about it. */
static trampoline_fn make_trampoline(void)
{
#if defined(__x86_64__)
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  trampoline_fn function = NULL;
  if (memory != MAP_FAILED) {
    memcpy(memory, code, sizeof(code));
    *(void **)&function = memory;
  }
  return function;
#else
  return NULL;
#endif
}

int main(int argc, char **argv)
{
  trampoline_fn trampoline = make_trampoline();
  int files[FILES];
  int status = 0;

  if (argc != 2 || chdir(argv[1]) != 0)
    return 2;
  for (int i = 0; i < ALLOCATIONS; i++)
    allocate();
  for (int fd = 3; fd < 1024; fd++)
    close(fd);
  for (int i = 0; i < FILES; i++) {
    char name[32];
    snprintf(name, sizeof(name), "own.%d", i);
    files[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (files[i] < 0 || write(files[i], "own", 3) != 3 || lseek(files[i], 0, SEEK_SET) != 0)
      return 2;
  }
  for (int i = 0; i < ALLOCATIONS; i++)
    trampoline ? trampoline(allocate) : allocate();
  for (int i = 0; i < FILES; i++) {
    char text[8] = "";
    if (lseek(files[i], 0, SEEK_CUR) != 0 || pread(files[i], text, sizeof(text), 0) != 3 ||
        strncmp(text, "own", 3) != 0) {
      printf("descriptor %d: not what was written\n", files[i]);
      status = 1;
    }
  }
  return failures ? 2 : status;
}
