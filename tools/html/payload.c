#include "tools/html/payload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/optional_headers.h"
#if GP_HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/assert.h"
#include "tools/array.h"
#include "tools/optional_library.h"
#include "tools/json_print.h"
#include "tools/report/report.h"

#define MAGIC       "GPPAGE1\n"
#define MAGIC_BYTES 8

static gp_payload_column_t no_column = {.failed = true};

void gp_payload_init(gp_payload_t *payload)
{
  *payload = (gp_payload_t){.header = cJSON_CreateObject()};
  payload->failed = !payload->header;
}

void gp_payload_fini(gp_payload_t *payload)
{
  for (size_t i = 0; i < payload->count; i++) {
    free(payload->columns[i]->bytes);
    free(payload->columns[i]);
  }
  free(payload->columns);
  cJSON_Delete(payload->header);
  *payload = (gp_payload_t){0};
}

gp_payload_column_t *gp_payload_column(gp_payload_t *payload, cJSON *list, const char *name,
    gp_payload_array_t array, gp_payload_encoding_t encoding)
{
  static const char *const arrays[] = {
      [GP_PAYLOAD_F64] = "f64", [GP_PAYLOAD_U32] = "u32", [GP_PAYLOAD_I32] = "i32", [GP_PAYLOAD_U8] = "u8"};
  static const char *const encodings[] = {
      [GP_PAYLOAD_BYTE] = "byte", [GP_PAYLOAD_VARINT] = "varint", [GP_PAYLOAD_DELTA] = "delta"};
  gp_payload_column_t **slot = GP_ARRAY_ADD(payload->columns, payload->count);
  gp_payload_column_t *column = slot ? calloc(1, sizeof(*column)) : NULL;

  if (!column) {
    payload->count -= slot != NULL;
    payload->failed = true;
    return &no_column;
  }
  column->name = name;
  column->encoding = encoding;
  column->item = cJSON_CreateObject();
  cJSON_AddStringToObject(column->item, "name", name);
  cJSON_AddStringToObject(column->item, "encoding", encodings[encoding]);
  cJSON_AddStringToObject(column->item, "array", arrays[array]);
  if (!cJSON_AddItemToArray(list, column->item)) {
    cJSON_Delete(column->item);
    column->item = NULL;
    payload->failed = true;
  }
  *slot = column;
  return column;
}

static void add_byte(gp_payload_column_t *column, unsigned byte)
{
  unsigned char *added = column->failed ? NULL : GP_ARRAY_ADD(column->bytes, column->length);
  if (added)
    *added = (unsigned char)byte;
  column->failed = !added;
}

void gp_payload_add(gp_payload_column_t *column, int64_t number)
{
  uint64_t value = (uint64_t)number;

  if (column->failed)
    return;
  gp_assert(column->encoding == GP_PAYLOAD_DELTA || number >= 0);
  gp_assert(column->encoding != GP_PAYLOAD_BYTE || number < 256);
  column->count++;
  if (column->encoding == GP_PAYLOAD_DELTA) {
    uint64_t difference = value - column->last;
    column->last = value;
    value = difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
  }
  for (; column->encoding != GP_PAYLOAD_BYTE && value >= 0x80; value >>= 7)
    add_byte(column, (unsigned)(value & 0x7f) | 0x80);
  add_byte(column, (unsigned)value);
}

/*
 * Writes output as a zlib stream that is encoded as base64.
 */

typedef struct out {
  FILE *stream;
  unsigned char rest[3]; /* bytes that do not yet make a group of three */
  size_t rest_count;
  uint64_t characters;
  int error;
#if GP_HAVE_ZLIB
  z_stream zlib;
#endif
  uint32_t a, b; /* checksum (Adler-32, RFC 1950) of a stream that is made without zlib */
} out_t;

typedef struct packer {
  void (*begin)(out_t *out);
  void (*pack)(out_t *out, const void *bytes, size_t length, bool is_last);
  void (*end)(out_t *out);
} packer_t;

static void put_group(out_t *out, size_t count)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t bits = (uint32_t)out->rest[0] << 16 | (uint32_t)out->rest[1] << 8 | out->rest[2];
  char text[4] = {digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63], digits[bits & 63]};

  if (count < 3)
    text[3] = '=';
  if (count < 2)
    text[2] = '=';
  if (!out->error && fwrite(text, 1, sizeof(text), out->stream) != sizeof(text))
    out->error = errno ? errno : EIO;
  out->characters += sizeof(text);
  out->rest_count = 0;
}

static void put(out_t *out, const unsigned char *bytes, size_t length)
{
  for (size_t i = 0; i < length; i++) {
    out->rest[out->rest_count++] = bytes[i];
    if (out->rest_count == 3)
      put_group(out, 3);
  }
}

static void put_end(out_t *out)
{
  size_t count = out->rest_count;
  while (out->rest_count > 0 && out->rest_count < 3)
    out->rest[out->rest_count++] = 0;
  if (count > 0)
    put_group(out, count);
}

#if GP_HAVE_ZLIB

static void deflate_begin(out_t *out)
{
  if (deflateInit(&out->zlib, Z_DEFAULT_COMPRESSION) != Z_OK)
    out->error = ENOMEM;
}

static void deflate_part(out_t *out, const void *bytes, size_t length, bool is_last)
{
  unsigned char buffer[16384];
  int flush = is_last ? Z_FINISH : Z_NO_FLUSH;
  size_t left = length;

  out->zlib.next_in = (unsigned char *)bytes;
  do {
    size_t part = left < (1u << 30) ? left : 1u << 30;
    out->zlib.avail_in = (unsigned)part;
    left -= part;
    do {
      out->zlib.next_out = buffer;
      out->zlib.avail_out = sizeof(buffer);
      if (out->error || deflate(&out->zlib, left ? Z_NO_FLUSH : flush) == Z_STREAM_ERROR)
        return;
      put(out, buffer, sizeof(buffer) - out->zlib.avail_out);
    } while (out->zlib.avail_out == 0);
  } while (left > 0);
}

static void deflate_finish(out_t *out)
{
  (void)deflateEnd(&out->zlib);
}

static const packer_t deflating = {deflate_begin, deflate_part, deflate_finish};

#endif

/* Used if zlib is missing: writes stored blocks of 64 KiB, which a browser can unpack as well. */
static void store_begin(out_t *out)
{
  static const unsigned char header[] = {0x78, 0x01};
  out->a = 1;
  put(out, header, sizeof(header));
}

static void put_block(out_t *out, const unsigned char *bytes, size_t length, bool is_last)
{
  const unsigned char header[] = {is_last, (unsigned char)length, (unsigned char)(length >> 8),
      (unsigned char)~length, (unsigned char)(~length >> 8)};
  put(out, header, sizeof(header));
  put(out, bytes, length);
  for (size_t i = 0; i < length; i++) {
    out->a = (out->a + bytes[i]) % 65521;
    out->b = (out->b + out->a) % 65521;
  }
}

static void store_part(out_t *out, const void *bytes, size_t length, bool is_last)
{
  const unsigned char *at = bytes;
  for (; length > 0xffff; at += 0xffff, length -= 0xffff)
    put_block(out, at, 0xffff, false);
  put_block(out, at, length, is_last);
}

static void store_finish(out_t *out)
{
  const unsigned char sum[] = {(unsigned char)(out->b >> 8), (unsigned char)out->b,
      (unsigned char)(out->a >> 8), (unsigned char)out->a};
  put(out, sum, sizeof(sum));
}

static const packer_t storing = {store_begin, store_part, store_finish};

static const packer_t *choose_packer(void)
{
#if GP_HAVE_ZLIB
  if (gp_zlib_open())
    return &deflating;
#endif
  return &storing;
}

static char *print_header(gp_payload_t *payload)
{
  for (size_t i = 0; i < payload->count; i++) {
    const gp_payload_column_t *column = payload->columns[i];
    payload->failed |= column->failed;
    gp_json_add_uint(column->item, "count", column->count);
    gp_json_add_uint(column->item, "bytes", column->length);
  }
  return payload->failed ? NULL : gp_json_print(payload->header, true);
}

int gp_payload_write(gp_payload_t *payload, FILE *stream, uint64_t *ret_bytes)
{
  out_t out = {.stream = stream};
  const packer_t *packer = choose_packer();
  char *header = print_header(payload);

  if (!header)
    return payload->failed ? ENOMEM : EINVAL;
  size_t length = strlen(header);
  const unsigned char size[] = {(unsigned char)length, (unsigned char)(length >> 8),
      (unsigned char)(length >> 16), (unsigned char)(length >> 24)};
  packer->begin(&out);
  packer->pack(&out, MAGIC, MAGIC_BYTES, false);
  packer->pack(&out, size, sizeof(size), false);
  packer->pack(&out, header, length, payload->count == 0);
  for (size_t i = 0; i < payload->count; i++)
    packer->pack(&out, payload->columns[i]->bytes ? payload->columns[i]->bytes : (unsigned char *)MAGIC,
        payload->columns[i]->length, i + 1 == payload->count);
  packer->end(&out);
  put_end(&out);
  free(header);
  *ret_bytes = out.characters;
  return out.error;
}
