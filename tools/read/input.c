#include "tools/read/input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "tools/array.h"
#include "tools/optional_library.h"
#include "tools/optional_headers.h"
#include "tools/output_file.h"
#include "tools/tool.h"

#if GP_HAVE_ZLIB
#include <zlib.h>
#endif
#if GP_HAVE_ZSTD
#include <zstd.h>
#endif

/*
 * Decompresses gzip and zstd, if this build has the libraries. A gzip file may have several members.
 */

#define GP_DECOMPRESS_MAGIC 4 /* number of leading bytes that identify the format */

typedef struct gp_decompressor decompressor_t;

typedef struct step {
  const char *in; /* the step advances `in` and `out`, and subtracts from in_length and room */
  size_t in_length;
  char *out;
  size_t room;
  bool is_end; /* a gzip member or zstd frame has ended; another may follow */
} step_t;

struct gp_decompressor {
  const char *(*step)(decompressor_t *decompressor, step_t *step);
  bool is_inside; /* the input is inside a gzip member or zstd frame */
  uint64_t total;
  uint64_t taken;
  uint64_t given;
#if GP_HAVE_ZLIB
  z_stream zlib;
  bool has_zlib;
#endif
#if GP_HAVE_ZSTD
  ZSTD_DStream *zstd;
#endif
};

/* Limits of the decompressed size. Snapshots compress to about a tenth of their size. An input that expands
 * far more was made to exhaust memory. */
#define BYTES_FIRST (UINT64_C(64) << 20)
#define BYTES_TIMES 256

static const char no_memory[] = "not enough memory to decompress it";

#if GP_HAVE_ZLIB
static const char *step_gzip(decompressor_t *decompressor, step_t *step)
{
  z_stream *stream = &decompressor->zlib;
  stream->next_in = (Bytef *)(uintptr_t)step->in; /* zlib only reads the input */
  stream->avail_in = step->in_length < UINT_MAX ? (unsigned)step->in_length : UINT_MAX;
  stream->next_out = (Bytef *)step->out;
  stream->avail_out = step->room < UINT_MAX ? (unsigned)step->room : UINT_MAX;
  int status = inflate(stream, Z_NO_FLUSH);
  step->in_length -= (size_t)((const char *)stream->next_in - step->in);
  step->in = (const char *)stream->next_in;
  step->room -= (size_t)((char *)stream->next_out - step->out);
  step->out = (char *)stream->next_out;
  step->is_end = status == Z_STREAM_END;
  if (step->is_end && inflateReset(stream) != Z_OK)
    return no_memory;
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
    return status == Z_MEM_ERROR ? no_memory : "it is damaged: gzip cannot decompress it";
  return NULL;
}

static const char *begin_gzip(decompressor_t *decompressor)
{
  if (!gp_zlib_open())
    return "it is compressed by gzip, which needs libz.so.1; that is not installed";
  decompressor->step = step_gzip;
  decompressor->has_zlib =
      inflateInit2(&decompressor->zlib, 15 + 16) == Z_OK; /* 15: the largest window; 16: a gzip header */
  return decompressor->has_zlib ? NULL : no_memory;
}
#endif

#if GP_HAVE_ZSTD
static const char *step_zstd(decompressor_t *decompressor, step_t *step)
{
  ZSTD_inBuffer in = {step->in, step->in_length, 0};
  ZSTD_outBuffer out = {step->out, step->room, 0};
  size_t wanted = ZSTD_decompressStream(decompressor->zstd, &out, &in); /* 0 at the end of a frame */
  step->in += in.pos;
  step->in_length -= in.pos;
  step->out += out.pos;
  step->room -= out.pos;
  step->is_end = wanted == 0;
  return ZSTD_isError(wanted) ? "it is damaged: zstd cannot decompress it" : NULL;
}

static const char *begin_zstd(decompressor_t *decompressor)
{
  if (!gp_zstd_open())
    return "it is compressed by zstd, which needs libzstd.so.1; that is not installed";
  decompressor->step = step_zstd;
  decompressor->zstd = ZSTD_createDStream();
  return decompressor->zstd ? NULL : no_memory;
}
#endif

typedef const char *(*begin_fn)(decompressor_t *decompressor);

static begin_fn find(const char *text, size_t length)
{
  static const struct {
    const char *magic;
    size_t length;
    begin_fn begin;
  } kinds[] = {
#if GP_HAVE_ZLIB
    {"\x1f\x8b", 2, begin_gzip},
#endif
#if GP_HAVE_ZSTD
    {"\x28\xb5\x2f\xfd", 4, begin_zstd},
#endif
    {"", 0, NULL},
  };
  size_t i = 0;
  while (
      kinds[i].length && !(length >= kinds[i].length && memcmp(text, kinds[i].magic, kinds[i].length) == 0))
    i++;
  return kinds[i].begin;
}

/*
 * Creates the decompressor for an input. first[0..length) contains the first GP_DECOMPRESS_MAGIC bytes of the
 * input, or all of a shorter input. `total` is the size of the input in bytes, or 0 if unknown.
 * *ret_decompressor becomes NULL if the input is not compressed, or if this build cannot read its format.
 * Returns NULL, or a static clause that describes the error.
 */
static const char *decompressor_create(
    const char *first, size_t length, uint64_t total, decompressor_t **ret_decompressor)
{
  begin_fn begin = find(first, length);
  *ret_decompressor = NULL;
  if (!begin)
    return NULL;
  decompressor_t *decompressor = calloc(1, sizeof(*decompressor));
  if (!decompressor)
    return no_memory;
  *ret_decompressor = decompressor;
  decompressor->total = total;
  return begin(decompressor);
}

static void decompressor_destroy(decompressor_t *decompressor)
{
  if (!decompressor)
    return;
#if GP_HAVE_ZLIB
  if (decompressor->has_zlib)
    (void)inflateEnd(&decompressor->zlib); /* the caller cannot handle an error */
#endif
#if GP_HAVE_ZSTD
  if (decompressor->zstd)
    (void)ZSTD_freeDStream(decompressor->zstd); /* the caller cannot handle an error */
#endif
  free(decompressor);
}

/*
 * Decompresses (*in)[0..*in_length) into `out`, at most `room` bytes, and advances *in and *in_length past
 * the consumed bytes. `is_last` means that no input follows. *ret_got is the number of bytes written. If it
 * is 0, everything is decompressed (with `is_last`) or more input is needed. Returns NULL, or a static clause
 * that describes the error.
 */
static const char *decompressor_run(decompressor_t *decompressor, const char **in, size_t *in_length,
    bool is_last, char *out, size_t room, size_t *ret_got)
{
  step_t step = {.in = *in, .in_length = *in_length, .out = out, .room = room};
  const char *error = NULL;

  while (!error && step.room > 0 && (decompressor->is_inside || step.in_length > 0)) {
    size_t in_before = step.in_length, room_before = step.room;
    error = decompressor->step(decompressor, &step);
    decompressor->is_inside = !step.is_end;
    if (!error && decompressor->is_inside && step.in_length == in_before && step.room == room_before) {
      if (step.in_length > 0)
        error = "it is damaged: the rest cannot be decompressed";
      else if (is_last)
        error = "it is compressed, and ends too early";
      break; /* more input is needed */
    }
  }
  *ret_got = room - step.room;
  decompressor->taken += *in_length - step.in_length;
  decompressor->given += *ret_got;
  uint64_t of = decompressor->taken > decompressor->total ? decompressor->taken : decompressor->total;
  if (!error && decompressor->given > BYTES_FIRST && (decompressor->given - BYTES_FIRST) / BYTES_TIMES > of)
    error = "its decompressed content is larger than a snapshot of that size can be";
  *in = step.in;
  *in_length = step.in_length;
  return error;
}

#define RAW_BYTES      ((size_t)1 << 18)
#define PROGRESS_BYTES (UINT64_C(64) << 20) /* inputs up to this size are read in under a second */
#define PROGRESS_STEP  (UINT64_C(16) << 20)

struct gp_input_file {
  gp_input_t input;
  const char *name;
  int fd;
  bool has_begun;
  bool is_raw_ended;
  bool is_terminal;
  bool has_shown;
  uint64_t total; /* size of the file in bytes; 0: unknown */
  uint64_t taken; /* bytes read from the file */
  uint64_t shown; /* value of `given` when the last progress line was printed */
  uint64_t given;
  decompressor_t *decompressor; /* NULL: the file is not compressed */
  const char *raw_at;           /* bytes read from the file but not consumed yet */
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

/* Reads enough bytes to identify the format, or all of a shorter file. */
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
  return decompressor_create(file->raw, file->raw_length, file->total, &file->decompressor);
}

static const char *decompress(gp_input_file_t *file, char *buffer, size_t room, size_t *ret_got)
{
  for (;;) {
    const char *error = decompressor_run(
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
    fprintf(stderr, "\r\033[K"); /* erase the progress line before later output */
  gp_input_fini(&file->input);
  decompressor_destroy(file->decompressor);
  if (file->fd > STDIN_FILENO)
    (void)close(file->fd); /* an error does not matter, since the file was only read */
  free(file);
}

void gp_input_init_memory(gp_input_t *input, const char *text, size_t length)
{
  *input = (gp_input_t){.text = text, .length = length, .is_ended = true};
}

void gp_input_init(gp_input_t *input, gp_input_read_fn read, void *self, size_t window)
{
  *input = (gp_input_t){.text = "", .read = read, .self = self, .room = window + 1};
}

void gp_input_fini(gp_input_t *input)
{
  free(input->buffer);
  gp_input_init_memory(input, "", 0);
}

static bool fail(gp_input_t *input, const char *error)
{
  input->is_ended = true;
  input->error = error;
  return false;
}

/* Makes room for at least one byte and the terminating NUL. Returns false if memory runs out. */
static bool reserve(gp_input_t *input)
{
  size_t room = input->room;
  if (input->buffer && room - input->length > 1)
    return true;
  if (input->buffer)
    room = room <= SIZE_MAX / 2 ? 2 * room : 0;
  if (room == 0 || !gp_array_resize(&input->buffer, room, 1))
    return fail(input, "not enough memory to read this");
  input->text = input->buffer;
  input->room = room;
  return true;
}

bool gp_input_more(gp_input_t *input, size_t keep)
{
  gp_assert(keep >= input->base && keep - input->base <= input->length);
  size_t dropped = keep - input->base, got = 0;
  if (input->is_ended)
    return false;
  if (dropped) {
    input->length -= dropped;
    input->base = keep;
    memmove(input->buffer, input->buffer + dropped, input->length);
  }
  if (!reserve(input))
    return false;
  const char *error =
      input->read(input->self, input->buffer + input->length, input->room - input->length - 1, &got);
  input->length += error ? 0 : got;
  input->buffer[input->length] = '\0';
  if (error)
    return fail(input, error);
  input->is_ended = got == 0;
  return got > 0;
}

void gp_input_begin(gp_input_t *input, size_t bytes)
{
  while (input->length < bytes && gp_input_more(input, 0))
    ;
}

bool gp_input_read_all(gp_input_t *input)
{
  while (gp_input_more(input, input->base))
    ;
  return !input->error;
}

char *gp_input_take(gp_input_t *input, size_t *ret_length)
{
  char *text = input->buffer;
  *ret_length = input->length;
  input->buffer = NULL;
  gp_input_fini(input);
  return text;
}
