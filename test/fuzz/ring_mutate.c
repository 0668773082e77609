/*
 * Reads records that were damaged at random: cut, bits turned, bytes and words overwritten, pages exchanged.
 * Whatever is in the file, reading ends with a message or with a snapshot that every command of the tool
 * accepts; the sanitizers see the rest.
 *
 * ring_mutate RUNS [SEED [TYPE]]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/fuzz/ring_workload.h"
#include "test/fuzz/fuzz.h"
#include "test/fuzz/use_commands.h"
#include "tools/read/record/record_reader.h"

#define PAGE               4096u
#define SLOW_COMMANDS_EACH 256 /* records that can be read */

static unsigned state = 1;

static unsigned draw(unsigned below)
{
  state = state * 1664525u + 1013904223u;
  return (unsigned)((uint64_t)(state >> 2) * below >> 30);
}

/* The pages of the original that are not zero: what is worth damaging. */
typedef struct original {
  char *bytes;
  size_t length;
  size_t *pages;
  size_t page_count;
} original_t;

static bool load(int fd, original_t *ret_original)
{
  static const char zeros[PAGE];
  struct stat status;
  original_t *original = ret_original;
  if (fd < 0 || fstat(fd, &status))
    return false;
  original->length = (size_t)status.st_size;
  original->bytes = mmap(NULL, original->length, PROT_READ, MAP_PRIVATE, fd, 0);
  original->pages = calloc(original->length / PAGE, sizeof(size_t));
  if (original->bytes == MAP_FAILED || !original->pages)
    return false;
  for (size_t i = 0; i < original->length / PAGE; i++) {
    if (memcmp(original->bytes + i * PAGE, zeros, PAGE) != 0)
      original->pages[original->page_count++] = i * PAGE;
  }
  return true;
}

static void put(int fd, const void *bytes, size_t length, size_t at)
{
  if (pwrite(fd, bytes, length, (off_t)at) != (ssize_t)length)
    abort();
}

/* Half of all damage goes to the places where the numbers are on which others depend. */
static size_t draw_place(const original_t *original)
{
  size_t page = original->pages[draw(4) ? draw((unsigned)original->page_count) : 0];
  return page + draw(draw(2) ? 512 : PAGE - 8);
}

static void damage(int fd, const original_t *original, size_t touched[16], unsigned *ret_count)
{
  unsigned count = 1 + draw(8);
  for (unsigned i = 0; i < count; i++) {
    size_t at = draw_place(original);
    static const uint64_t words[] = {
        0, 1, UINT64_MAX, 0x7fffffff, 0xffffffff, 0x80000000, UINT64_C(1) << 62, 255, 4096};
    char byte = (char)(original->bytes[at] ^ 1 << draw(8));
    uint64_t word = words[draw(sizeof(words) / sizeof(words[0]))];
    switch (draw(4)) {
    case 0: put(fd, &byte, 1, at); break;
    case 1: put(fd, &word, 8, at / 8 * 8); break;
    case 2: put(fd, &word, 4, at / 4 * 4); break;
    default:
      put(fd, original->bytes + original->pages[draw((unsigned)original->page_count)], 64, at / 64 * 64);
      break;
    }
    touched[i] = at / PAGE * PAGE;
  }
  *ret_count = count;
}

static void mend(int fd, const original_t *original, const size_t touched[16], unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    put(fd, original->bytes + touched[i], PAGE, touched[i]);
}

static void make_copy(int fd, const original_t *original)
{
  if (ftruncate(fd, 0) || ftruncate(fd, (off_t)original->length))
    abort();
  for (size_t i = 0; i < original->page_count; i++)
    put(fd, original->bytes + original->pages[i], PAGE, original->pages[i]);
}

static unsigned long read_count, damaged_count;

/* What `recover` would write. Returns its file, which is of this function. */
static int write_snapshot(const gp_record_t *record)
{
  static char buffer[65536];
  static int snapshot = -1;
  gp_json_t json;

  if (snapshot < 0)
    snapshot = memfd_create("snapshot", MFD_CLOEXEC);
  if (snapshot < 0 || ftruncate(snapshot, 0) || lseek(snapshot, 0, SEEK_SET) != 0)
    abort();
  gp_json_init(&json, snapshot, buffer, sizeof(buffer));
  gp_document_write(&json, &record->document);
  if (gp_json_finish(&json))
    abort();
  return snapshot;
}

static void read_it(int fd)
{
  static gp_record_t record;
  char path[64];

  if (gp_record_read(fd, &record)) {
    snprintf(path, sizeof(path), "/proc/self/fd/%d", write_snapshot(&record));
    fuzz_run_commands(path, record.document.devices ? __builtin_ctzll(record.document.devices) : -1, true,
        read_count % SLOW_COMMANDS_EACH == 0);
    read_count++;
    damaged_count += record.is_partial;
  } else if (!record.problem[0]) {
    abort();
  }
  gp_record_fini(&record);
}

int main(int argc, char **argv)
{
  unsigned runs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000;
  if (getenv("GP_QUICK"))
    runs /= 8;
  char root[] = "ring_mutate.XXXXXX";
  char path[256];
  original_t original = {0};
  workload_t *workload = workload_make();
  int status;
  workload_plan_t plan = {
      .root = root, .events = "1024", .type = argc > 3 ? argv[3] : NULL, .threads = 3, .seed = 3};

  state = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
  if (!workload || !mkdtemp(root))
    return 77;
  plan.operations = 400; /* the oldest events are given up */
  pid_t child = workload_start(workload, &plan);
  if (child < 0 || waitpid(child, &status, 0) != child || status)
    return 77;
  int fd = workload_open_record(root);
  int copy = memfd_create("record", MFD_CLOEXEC);
  if (!load(fd, &original) || copy < 0) {
    fprintf(stderr, "there is no record\n");
    return EXIT_FAILURE;
  }
  make_copy(copy, &original);
  fuzz_silence();
  for (unsigned i = 0; i < runs; i++) {
    size_t touched[16];
    unsigned count;
    damage(copy, &original, touched, &count);
    bool is_cut = draw(16) == 0;
    if (is_cut && ftruncate(copy, (off_t)(draw(2) ? draw_place(&original) : draw((unsigned)original.length))))
      abort();
    read_it(copy);
    if (is_cut)
      make_copy(copy, &original);
    else
      mend(copy, &original, touched, count);
  }
  close(fd);
  free(original.pages);
  workload_remove_records(root);
  (void)gp_record_folder(root, path, sizeof(path));
  (void)rmdir(path);
  (void)rmdir(root);
  printf("%u damaged records: %lu could be read, %lu of them were found to be damaged\n", runs, read_count,
      damaged_count);
  return read_count > runs / 10 && damaged_count > runs / 10 ? EXIT_SUCCESS : EXIT_FAILURE;
}
