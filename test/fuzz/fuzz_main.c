/*
 * Runs a fuzz target without a fuzzer: every file of a folder as it is, then seeded mutations of them, the
 * same ones in every run. What made it fail is left in a file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define FAILED_NAME "fuzz.failed"
#define INPUT_MOST  (1 << 20) /* bytes of a mutated input */

/* What readers stumble over; the first ones are numbers. */
#define NUMBER_TOKENS 7
static const char *const tokens[] = {"0", "-1", "1e308", "9007199254740991", "9007199254740992",
    "18446744073709551616", "4294967295", "[", "]", "{", "}", "\"", ",", "null", "true", "\\ud800", "\xff",
    "\xc3\x28", "alloc", "=", "%", "\n"};

typedef struct input {
  char *name;
  uint8_t *bytes;
  size_t size;
} input_t;

static input_t *corpus;
static size_t corpus_count;

/* What is running, for the handler. */
static const uint8_t *current;
static size_t current_size;
static char current_text[512];

static void leave_input(void)
{
  int fd = open(FAILED_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  ssize_t written = fd >= 0 ? write(fd, current, current_size) : -1;
  (void)!write(STDERR_FILENO, current_text, strlen(current_text)); /* nothing can be done about it */
  (void)!write(STDERR_FILENO, written == (ssize_t)current_size ? ": left in " FAILED_NAME "\n" : ": lost\n",
      written == (ssize_t)current_size ? sizeof(": left in " FAILED_NAME "\n") - 1 : sizeof(": lost\n") - 1);
}

static void on_signal(int signal_number)
{
  leave_input();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

/* Of the sanitizers, where there is one. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void run(const uint8_t *bytes, size_t size)
{
  current = bytes;
  current_size = size;
  (void)LLVMFuzzerTestOneInput(bytes, size); /* it returns or ends the process */
}

/*
 * The corpus
 */

static int compare_inputs(const void *a, const void *b)
{
  return strcmp(((const input_t *)a)->name, ((const input_t *)b)->name);
}

static bool read_input(const char *folder, const char *name)
{
  char path[4096];
  struct stat status;
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode)) {
    fprintf(stderr, "fuzz: %s: %s\n", path, fd < 0 ? strerror(errno) : "not a file");
    return false;
  }
  input_t *input = &corpus[corpus_count++];
  *input = (input_t){strdup(name), malloc((size_t)status.st_size + 1), (size_t)status.st_size};
  bool good = input->name && input->bytes && read(fd, input->bytes, input->size) == (ssize_t)input->size;
  (void)close(fd); /* it was only read */
  if (!good)
    fprintf(stderr, "fuzz: %s cannot be read\n", path);
  return good;
}

static bool read_corpus(const char *folder)
{
  DIR *entries = opendir(folder);
  if (!entries) {
    fprintf(stderr, "fuzz: %s: %s\n", folder, strerror(errno));
    return false;
  }
  bool good = true;
  for (struct dirent *entry; good && (entry = readdir(entries));) {
    if (entry->d_name[0] == '.')
      continue;
    input_t *larger = realloc(corpus, (corpus_count + 1) * sizeof(*corpus));
    good = larger != NULL;
    if (good) {
      corpus = larger;
      good = read_input(folder, entry->d_name);
    }
  }
  closedir(entries);
  if (good && !corpus_count) {
    fprintf(stderr, "fuzz: %s is empty\n", folder);
    good = false;
  }
  if (good)
    qsort(corpus, corpus_count, sizeof(*corpus), compare_inputs); /* folders have no order */
  return good;
}

/*
 * Mutations
 */

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t end)
{
  return end ? (size_t)(next_random(state) % end) : 0;
}

/* Puts `more` bytes in the place of `old` ones at `at`; NULL: zeros. Returns the new size. */
static size_t replace(uint8_t *bytes, size_t size, size_t at, size_t old, const void *more, size_t length)
{
  if (size - old + length > INPUT_MOST)
    return size;
  memmove(bytes + at + length, bytes + at + old, size - at - old);
  if (more)
    memmove(bytes + at, more, length);
  else
    memset(bytes + at, 0, length);
  return size - old + length;
}

static size_t mutate(uint8_t *bytes, size_t size, uint64_t *random)
{
  const char *token;
  size_t at = below(random, size + 1);
  size_t length = below(random, size - at < 64 ? size - at + 1 : 64);
  switch (below(random, 8)) {
  case 0:
    if (at < size)
      bytes[at] ^= (uint8_t)(1 << below(random, 8));
    return size;
  case 1:
    if (at < size)
      bytes[at] = (uint8_t)next_random(random);
    return size;
  case 2: return replace(bytes, size, at, length, NULL, 0);
  case 3: { /* again, elsewhere */
    uint8_t piece[64];
    size_t from = below(random, size - length + 1);
    memcpy(piece, bytes + from, length);
    return replace(bytes, size, at, 0, piece, length);
  }
  case 4: { /* of another input */
    const input_t *other = &corpus[below(random, corpus_count)];
    size_t from = below(random, other->size + 1), count = below(random, other->size - from + 1);
    return replace(bytes, size, at, length, other->bytes + from, count < 256 ? count : 256);
  }
  case 5:
    token = tokens[below(random, sizeof(tokens) / sizeof(tokens[0]))];
    return replace(bytes, size, at, length < 8 ? length : 0, token, strlen(token));
  case 6: /* a number becomes another one */
    while (at < size && (bytes[at] < '0' || bytes[at] > '9'))
      at++;
    for (length = 0; at + length < size && bytes[at + length] >= '0' && bytes[at + length] <= '9';)
      length++;
    token = tokens[below(random, NUMBER_TOKENS)];
    return replace(bytes, size, at, length, token, strlen(token));
  default: return replace(bytes, size, at, size - at, NULL, 0);
  }
}

static void run_mutations(uint64_t runs, uint64_t seed)
{
  for (uint64_t i = 0; i < runs; i++) {
    uint64_t random = seed * UINT64_C(0x2545f4914f6cdd1d) + i;
    const input_t *input = &corpus[i % corpus_count];
    size_t size = input->size < INPUT_MOST ? input->size : INPUT_MOST;
    uint8_t *bytes = malloc(INPUT_MOST);
    if (!bytes)
      abort();
    memcpy(bytes, input->bytes, size);
    for (size_t k = 1 + below(&random, 8); k-- > 0;)
      size = mutate(bytes, size, &random);
    snprintf(current_text, sizeof(current_text), "fuzz: mutation %" PRIu64 " of %s, seed %" PRIu64, i,
        input->name, seed);
    run(bytes, size);
    free(bytes);
  }
}

static uint64_t number(const char *text)
{
  char *end;
  uint64_t value = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end) {
    fprintf(stderr, "fuzz: \"%s\" is no number\n", text);
    exit(2);
  }
  return value;
}

int main(int argc, char **argv)
{
  static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: %s FOLDER [MUTATIONS [SEED]]\n", argv[0]);
    return 2;
  }
  if (!read_corpus(argv[1]))
    return 2;
  if (__sanitizer_set_death_callback)
    __sanitizer_set_death_callback(leave_input);
  else
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
      signal(signals[i], on_signal);
  for (size_t i = 0; i < corpus_count; i++) {
    snprintf(current_text, sizeof(current_text), "fuzz: %s", corpus[i].name);
    run(corpus[i].bytes, corpus[i].size);
  }
  uint64_t runs = argc > 2 ? number(argv[2]) : 0;
  run_mutations(runs, argc > 3 ? number(argv[3]) : 1);
  printf("%zu inputs, %" PRIu64 " mutations\n", corpus_count, runs);
  for (size_t i = 0; i < corpus_count; i++) {
    free(corpus[i].name);
    free(corpus[i].bytes);
  }
  free(corpus);
  return 0;
}
