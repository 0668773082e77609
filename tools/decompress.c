#include "tools/decompress.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if GP_HAVE_ZLIB
#include <zlib.h>
#endif
#if GP_HAVE_ZSTD
#include <zstd.h>
#endif

/* A snapshot becomes a tenth of its size or so; what becomes far more was made to. */
#define BYTES_FIRST (UINT64_C(64) << 20)
#define BYTES_TIMES 256

static const char too_large[] = "what is compressed in it is larger than a snapshot of that size can be";
static const char no_memory[] = "not enough memory to decompress it";
static const char cut[] = "it is compressed, and ends too early";

typedef struct result {
  char *bytes;
  size_t length;
  size_t room;
  size_t most;
} result_t;

/* Makes room for a byte and the NUL at least. */
static const char *reserve(result_t *result)
{
  if (result->room - result->length > 1)
    return NULL;
  if (result->room >= result->most)
    return too_large;
  size_t room = result->room ? 2 * result->room : 1 << 16;
  char *larger = realloc(result->bytes, room);
  if (!larger)
    return no_memory;
  result->bytes = larger;
  result->room = room;
  return NULL;
}

#if GP_HAVE_ZLIB
/* One member after the other, as gzip does. */
static const char *inflate_all(z_stream *stream, const char *text, size_t length, result_t *result)
{
  stream->next_in = (Bytef *)(uintptr_t)text; /* it is only read */
  for (;;) {
    const char *error = reserve(result);
    if (error)
      return error;
    size_t left = length - (size_t)((const char *)stream->next_in - text), room = result->room - result->length - 1;
    stream->avail_in = left < UINT_MAX ? (unsigned)left : UINT_MAX;
    stream->avail_out = room < UINT_MAX ? (unsigned)room : UINT_MAX;
    stream->next_out = (Bytef *)result->bytes + result->length;
    int status = inflate(stream, Z_NO_FLUSH);
    result->length = (size_t)((char *)stream->next_out - result->bytes);
    left = length - (size_t)((const char *)stream->next_in - text);
    if (status == Z_STREAM_END && left == 0)
      return NULL;
    if (status == Z_STREAM_END && inflateReset(stream) != Z_OK)
      return no_memory;
    if (status == Z_BUF_ERROR && left == 0)
      return cut;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      return status == Z_MEM_ERROR ? no_memory : "it is damaged: gzip cannot decompress it";
  }
}

static const char *decompress_gzip(const char *text, size_t length, result_t *result)
{
  z_stream stream = {.next_in = NULL};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) /* the largest window; a header of gzip */
    return no_memory;
  const char *error = inflate_all(&stream, text, length, result);
  (void)inflateEnd(&stream); /* it has nothing left to say */
  return error;
}
#endif

#if GP_HAVE_ZSTD
static const char *decompress_zstd(const char *text, size_t length, result_t *result)
{
  ZSTD_inBuffer in = {text, length, 0};
  ZSTD_DStream *stream = ZSTD_createDStream();
  const char *error = stream ? NULL : no_memory;
  size_t wanted = 1;
  while (!error && (in.pos < in.size || wanted)) {
    error = reserve(result);
    if (error)
      break;
    ZSTD_outBuffer out = {result->bytes, result->room - 1, result->length};
    size_t in_before = in.pos;
    wanted = ZSTD_decompressStream(stream, &out, &in); /* 0: a frame is complete */
    if (ZSTD_isError(wanted))
      error = "it is damaged: zstd cannot decompress it";
    else if (wanted && in.pos == in_before && out.pos == result->length)
      error = cut;
    result->length = out.pos;
  }
  (void)ZSTD_freeDStream(stream); /* NULL is legal */
  return error;
}
#endif

typedef const char *(*decompress_fn)(const char *text, size_t length, result_t *result);

static decompress_fn find(const char *text, size_t length)
{
  static const struct {
    const char *magic;
    size_t length;
    decompress_fn decompress;
  } kinds[] = {
#if GP_HAVE_ZLIB
      {"\x1f\x8b", 2, decompress_gzip},
#endif
#if GP_HAVE_ZSTD
      {"\x28\xb5\x2f\xfd", 4, decompress_zstd},
#endif
      {"", 0, NULL},
  };
  size_t i = 0;
  while (kinds[i].length && !(length >= kinds[i].length && memcmp(text, kinds[i].magic, kinds[i].length) == 0))
    i++;
  return kinds[i].decompress;
}

const char *gp_decompress(char **text, size_t *length)
{
  decompress_fn decompress = find(*text, *length);
  result_t result = {.most = SIZE_MAX / 4};

  if (!decompress)
    return NULL;
  if (*length < (result.most - BYTES_FIRST) / BYTES_TIMES)
    result.most = BYTES_FIRST + BYTES_TIMES * *length;
  const char *error = decompress(*text, *length, &result);
  if (error) {
    free(result.bytes);
    return error;
  }
  result.bytes[result.length] = '\0';
  free(*text);
  *text = result.bytes;
  *length = result.length;
  return NULL;
}
