#include "interpose/nvtx/nvtx_names.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"

#define NAMES_MAX 4096 /* a power of two */

typedef struct nvtx_name {
  const void *handle; /* NULL: free */
  char text[GP_MARK_NAME_BYTES];
} nvtx_name_t;

/* Open addressing by handle, never removed: programs register strings once. A handle that comes again, of a
 * domain that ended, gets the new text. Half of the entries stay free. */
static nvtx_name_t names[2 * NAMES_MAX];
static size_t name_count;
static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_MARKS);

static nvtx_name_t *entry_of(const void *handle)
{
  gp_assert_internal(gp_lock_is_held(&lock));
  size_t at = (size_t)(((uintptr_t)handle * 0x9e3779b97f4a7c15U) >> 32);
  while (names[at % (2 * NAMES_MAX)].handle && names[at % (2 * NAMES_MAX)].handle != handle)
    at++;
  return &names[at % (2 * NAMES_MAX)];
}

void *gp_nvtx_name_add(void *handle, const char *text)
{
  static char made[NAMES_MAX]; /* the addresses of its bytes are handles */

  gp_lock_take(&lock);
  if (!handle && name_count < NAMES_MAX)
    handle = &made[name_count];
  nvtx_name_t *entry = handle ? entry_of(handle) : NULL;
  if (entry && (entry->handle || name_count < NAMES_MAX)) {
    name_count += !entry->handle;
    entry->handle = handle;
    (void)snprintf(entry->text, sizeof(entry->text), "%s", text ? text : "");
  }
  gp_lock_release(&lock);
  return handle;
}

static void copy_name(const void *handle, char buffer[GP_MARK_NAME_BYTES])
{
  gp_lock_take(&lock);
  memcpy(buffer, entry_of(handle)->text, GP_MARK_NAME_BYTES); /* a free entry's is "" */
  gp_lock_release(&lock);
}

void gp_nvtx_narrow(const wchar_t *text, char buffer[GP_MARK_NAME_BYTES])
{
  size_t used = 0;

  for (; text && *text; text++) {
    uint32_t code = (uint32_t)*text;
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (used + length >= GP_MARK_NAME_BYTES)
      break;
    for (size_t i = length; i-- > 1; code >>= 6)
      buffer[used + i] = (char)(0x80 | (code & 0x3f));
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    buffer[used] = (char)(lead[length] | code);
    used += length;
  }
  buffer[used] = '\0';
}

void gp_nvtx_name_of(const void *domain, const gp_nvtx_attributes_t *event, char buffer[GP_MARK_NAME_BYTES])
{
  char text[GP_MARK_NAME_BYTES] = "", of[GP_MARK_NAME_BYTES] = "";

  switch (event && event->size >= sizeof(*event) ? event->message_type : 0) {
  case GP_NVTX_ASCII:
    (void)snprintf(text, sizeof(text), "%s", event->message.ascii ? event->message.ascii : "");
    break;
  case GP_NVTX_UNICODE: gp_nvtx_narrow(event->message.unicode, text); break;
  case GP_NVTX_REGISTERED: copy_name(event->message.registered, text); break;
  default: break;
  }
  if (domain)
    copy_name(domain, of);
  (void)snprintf(
      buffer, GP_MARK_NAME_BYTES, "%s%s%s", of, of[0] ? ": " : "", text); /* cut off is good enough */
}
