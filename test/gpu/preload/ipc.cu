// Memory shared with another process. The owner allocates and writes, the other process opens the handle,
// verifies, writes and closes; the owner verifies and frees. Afterwards the owner works on with memory of the
// same size while the other process holds an open handle to a block that was not freed: what it sees there
// must not change.
#include "../common/pattern.h"

#include <sys/wait.h>

static const size_t BYTES = 4u << 20;

static void send(int fd, const void *data, size_t bytes)
{
  if (write(fd, data, bytes) != (ssize_t)bytes)
    fail("write", "the other process is gone", __FILE__, __LINE__);
}

static void receive(int fd, void *data, size_t bytes)
{
  size_t got = 0;
  while (got < bytes) {
    ssize_t n = read(fd, (char *)data + got, bytes - got);
    if (n <= 0)
      fail("read", "the other process is gone", __FILE__, __LINE__);
    got += (size_t)n;
  }
}

// Exit status: 0 all as it should be, 1 not.
static int importer(int in, int out)
{
  start("ipc importer", 30);
  cudaIpcMemHandle_t handles[2];
  void *first, *kept;
  char turn = 0;
  unsigned long long *mismatches = new_counter();
  receive(in, handles, sizeof handles);
  CHECK(cudaIpcOpenMemHandle(&first, handles[0], cudaIpcMemLazyEnablePeerAccess));
  CHECK(cudaIpcOpenMemHandle(&kept, handles[1], cudaIpcMemLazyEnablePeerAccess));
  expect(first, BYTES, 1, mismatches, 0);
  expect(kept, BYTES, 2, mismatches, 0);
  fill(first, BYTES, 3, 0);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaIpcCloseMemHandle(first));
  send(out, &turn, 1);
  receive(in, &turn, 1); // the owner has freed the first and used memory of that size
  expect(kept, BYTES, 2, mismatches, 0);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaIpcCloseMemHandle(kept));
  return take_counter(mismatches) == 0 ? 0 : 1;
}

int main()
{
  int down[2], up[2];
  report_program = "ipc";
  if (pipe(down) != 0 || pipe(up) != 0)
    fail("pipe", "no more descriptors", __FILE__, __LINE__);
  pid_t child = fork(); // before CUDA is used
  if (child < 0)
    fail("fork", "no more processes", __FILE__, __LINE__);
  if (child == 0) {
    close(down[1]);
    close(up[0]);
    int status = importer(down[0], up[1]);
    std::fflush(stdout);
    std::exit(status);
  }
  close(down[0]);
  close(up[1]);
  start("ipc", 30);
  void *first, *kept;
  cudaIpcMemHandle_t handles[2];
  char turn = 0;
  unsigned long long *mismatches = new_counter();
  CHECK(cudaMalloc(&first, BYTES));
  CHECK(cudaMalloc(&kept, BYTES));
  fill(first, BYTES, 1, 0);
  fill(kept, BYTES, 2, 0);
  CHECK(cudaDeviceSynchronize());
  cudaError_t error = cudaIpcGetMemHandle(&handles[0], first);
  if (error == cudaErrorNotSupported)
    report_skip("cudaIpcGetMemHandle answers cudaErrorNotSupported");
  CHECK(error);
  CHECK(cudaIpcGetMemHandle(&handles[1], kept));
  send(down[1], handles, sizeof handles);
  receive(up[0], &turn, 1);
  expect(first, BYTES, 3, mismatches, 0);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(first));
  for (uint64_t i = 0; i < 20; i++) {
    void *p;
    CHECK(cudaMalloc(&p, BYTES));
    fill(p, BYTES, 100 + i, 0);
    expect(p, BYTES, 100 + i, mismatches, 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(p));
  }
  send(down[1], &turn, 1);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(cudaFree(kept));
  report_bool("the other process saw what was written", WIFEXITED(status) && WEXITSTATUS(status) == 0);
  report_number("mismatches", (double)take_counter(mismatches), "words");
  return report_finish();
}
