#include "tools/read/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/output_file.h"
#include "tools/read/decompress.h"
#include "tools/tool.h"

#define RAW_BYTES      ((size_t)1 << 18)
#define PROGRESS_BYTES (UINT64_C(64) << 20) /* reading less takes under a second */
#define PROGRESS_STEP  (UINT64_C(16) << 20)

struct gp_input_file {
  gp_input_t input;
  const char *name;
  int fd;
  bool has_begun;
  bool is_raw_ended;
  bool is_terminal;
  bool has_shown;
  uint64_t total; /* bytes of the file, 0: unknown */
  uint64_t taken; /* bytes read from the file */
  uint64_t shown; /* bytes given at the last progress line */
  uint64_t given;
  gp_decompressor_t *decompressor; /* NULL: not compressed */
  const char *raw_at;              /* bytes read but not used yet */
  size_t raw_length;
  char raw[RAW_BYTES];
};

static void show_progress(gp_input_file_t *file)
{
  char name[256];
  if (!file->is_terminal || (file->total && !file->decompressor && file->total < PROGRESS_BYTES) ||
      file->given - file->shown < (file->has_shown || file->total ? PROGRESS_STEP : PROGRESS_BYTES))
    return;
  file->shown = file->given;
  file->has_shown = true;
  gp_printable(file->name, name, sizeof(name));
  if (file->total)
    fprintf(
        stderr, "\rgpupool: reading %s: %3.0f%%", name, 100.0 * (double)file->taken / (double)file->total);
  else
    fprintf(stderr, "\rgpupool: reading %s: %llu MiB", name, (unsigned long long)file->given >> 20);
}

static const char *read_raw(gp_input_file_t *file, char *buffer, size_t room, size_t *ret_got)
{
  ssize_t got;
  do {
    got = read(file->fd, buffer, room);
  } while (got < 0 && errno == EINTR);
  if (got < 0)
    return strerror(errno);
  *ret_got = (size_t)got;
  file->taken += (uint64_t)got;
  file->is_raw_ended = got == 0;
  return NULL;
}

/* Reads as many bytes as identify the format, or all. */
static const char *begin(gp_input_file_t *file)
{
  file->has_begun = true;
  file->raw_at = file->raw;
  while (file->raw_length < GP_DECOMPRESS_MAGIC && !file->is_raw_ended) {
    size_t got = 0;
    const char *error = read_raw(file, file->raw + file->raw_length, RAW_BYTES - file->raw_length, &got);
    if (error)
      return error;
    file->raw_length += got;
  }
  return gp_decompressor_create(file->raw, file->raw_length, file->total, &file->decompressor);
}

static const char *decompress(gp_input_file_t *file, char *buffer, size_t room, size_t *ret_got)
{
  for (;;) {
    const char *error = gp_decompressor_run(
        file->decompressor, &file->raw_at, &file->raw_length, file->is_raw_ended, buffer, room, ret_got);
    if (error || *ret_got > 0 || file->is_raw_ended)
      return error;
    file->raw_at = file->raw;
    error = read_raw(file, file->raw, RAW_BYTES, &file->raw_length);
    if (error)
      return error;
  }
}

static const char *read_file(void *self, char *buffer, size_t room, size_t *ret_got)
{
  gp_input_file_t *file = self;
  const char *error = file->has_begun ? NULL : begin(file);

  *ret_got = 0;
  if (!error && file->decompressor) {
    error = decompress(file, buffer, room, ret_got);
  } else if (!error && file->raw_length) {
    *ret_got = file->raw_length < room ? file->raw_length : room;
    memcpy(buffer, file->raw_at, *ret_got);
    file->raw_at += *ret_got;
    file->raw_length -= *ret_got;
  } else if (!error && !file->is_raw_ended) {
    error = read_raw(file, buffer, room, ret_got);
  }
  file->given += *ret_got;
  if (!error)
    show_progress(file);
  return error;
}

const char *gp_input_file_open(gp_input_file_t **ret_file, const char *path)
{
  bool is_stdin = strcmp(path, "-") == 0;
  gp_input_file_t *file = calloc(1, sizeof(*file));
  struct stat status;

  *ret_file = file;
  if (!file)
    return strerror(ENOMEM);
  file->name = is_stdin ? "stdin" : path;
  file->is_terminal = isatty(STDERR_FILENO);
  file->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  gp_input_init(&file->input, read_file, file, GP_INPUT_WINDOW);
  if (file->fd < 0 || fstat(file->fd, &status))
    return strerror(errno);
  gp_output_file_take_input(file->fd);
  if (S_ISDIR(status.st_mode))
    return strerror(EISDIR);
  if (S_ISREG(status.st_mode) && status.st_size > 0)
    file->total = (uint64_t)status.st_size;
  return NULL;
}

gp_input_t *gp_input_file_input(gp_input_file_t *file)
{
  return &file->input;
}

void gp_input_file_close(gp_input_file_t *file)
{
  if (!file)
    return;
  if (file->has_shown)
    fprintf(stderr, "\r\033[K"); /* clear the line for later output */
  gp_input_fini(&file->input);
  gp_decompressor_destroy(file->decompressor);
  if (file->fd > STDIN_FILENO)
    (void)close(file->fd); /* only read */
  free(file);
}
