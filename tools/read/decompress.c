#include "tools/read/decompress.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compression.h"
#include "tools/optional_headers.h"

#if GP_HAVE_ZLIB
#include <zlib.h>
#endif
#if GP_HAVE_ZSTD
#include <zstd.h>
#endif

/* Snapshots compress to about a tenth. Input that expands far more was made to exhaust memory. */
#define BYTES_FIRST (UINT64_C(64) << 20)
#define BYTES_TIMES 256

static const char no_memory[] = "not enough memory to decompress it";

typedef struct step {
  const char *in; /* the step advances this and the next three */
  size_t in_length;
  char *out;
  size_t room;
  bool is_end; /* a member or frame ended; another may follow */
} step_t;

struct gp_decompressor {
  const char *(*step)(gp_decompressor_t *decompressor, step_t *step);
  bool is_inside; /* inside a member or frame */
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

#if GP_HAVE_ZLIB
static const char *step_gzip(gp_decompressor_t *decompressor, step_t *step)
{
  z_stream *stream = &decompressor->zlib;
  stream->next_in = (Bytef *)(uintptr_t)step->in; /* zlib only reads it */
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

static const char *begin_gzip(gp_decompressor_t *decompressor)
{
  if (!gp_zlib_open())
    return "it is compressed by gzip, which needs libz.so.1; that is not installed";
  decompressor->step = step_gzip;
  decompressor->has_zlib =
      inflateInit2(&decompressor->zlib, 15 + 16) == Z_OK; /* the largest window; gzip header */
  return decompressor->has_zlib ? NULL : no_memory;
}
#endif

#if GP_HAVE_ZSTD
static const char *step_zstd(gp_decompressor_t *decompressor, step_t *step)
{
  ZSTD_inBuffer in = {step->in, step->in_length, 0};
  ZSTD_outBuffer out = {step->out, step->room, 0};
  size_t wanted = ZSTD_decompressStream(decompressor->zstd, &out, &in); /* 0: a frame is complete */
  step->in += in.pos;
  step->in_length -= in.pos;
  step->out += out.pos;
  step->room -= out.pos;
  step->is_end = wanted == 0;
  return ZSTD_isError(wanted) ? "it is damaged: zstd cannot decompress it" : NULL;
}

static const char *begin_zstd(gp_decompressor_t *decompressor)
{
  if (!gp_zstd_open())
    return "it is compressed by zstd, which needs libzstd.so.1; that is not installed";
  decompressor->step = step_zstd;
  decompressor->zstd = ZSTD_createDStream();
  return decompressor->zstd ? NULL : no_memory;
}
#endif

typedef const char *(*begin_fn)(gp_decompressor_t *decompressor);

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

const char *gp_decompressor_create(
    const char *first, size_t length, uint64_t total, gp_decompressor_t **ret_decompressor)
{
  begin_fn begin = find(first, length);
  *ret_decompressor = NULL;
  if (!begin)
    return NULL;
  gp_decompressor_t *decompressor = calloc(1, sizeof(*decompressor));
  if (!decompressor)
    return no_memory;
  *ret_decompressor = decompressor;
  decompressor->total = total;
  return begin(decompressor);
}

void gp_decompressor_destroy(gp_decompressor_t *decompressor)
{
  if (!decompressor)
    return;
#if GP_HAVE_ZLIB
  if (decompressor->has_zlib)
    (void)inflateEnd(&decompressor->zlib); /* has no errors left to report */
#endif
#if GP_HAVE_ZSTD
  if (decompressor->zstd)
    (void)ZSTD_freeDStream(decompressor->zstd); /* has no errors left to report */
#endif
  free(decompressor);
}

const char *gp_decompressor_run(gp_decompressor_t *decompressor, const char **in, size_t *in_length,
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
        error = "it is damaged: what comes next cannot be decompressed";
      else if (is_last)
        error = "it is compressed, and ends too early";
      break; /* needs more input */
    }
  }
  *ret_got = room - step.room;
  decompressor->taken += *in_length - step.in_length;
  decompressor->given += *ret_got;
  uint64_t of = decompressor->taken > decompressor->total ? decompressor->taken : decompressor->total;
  if (!error && decompressor->given > BYTES_FIRST && (decompressor->given - BYTES_FIRST) / BYTES_TIMES > of)
    error = "what is compressed in it is larger than a snapshot of that size can be";
  *in = step.in;
  *in_length = step.in_length;
  return error;
}
