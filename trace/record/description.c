#include "trace/record/description.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

#define COMMAND_LINE_BYTES (64 * 1024)

typedef struct text {
  char *buffer;
  size_t capacity;
  size_t used;
} text_t;

static void add(text_t *text, const char *key, const char *name, const char *value, size_t length)
{
  size_t key_bytes = strlen(key) + 1;
  size_t name_bytes = name ? strlen(name) + 1 : 0;
  if (text->capacity - text->used < key_bytes + name_bytes + length + 1)
    return;
  char *at = text->buffer + text->used;
  memcpy(at, key, key_bytes);
  at += key_bytes;
  for (size_t i = 0; i < name_bytes; i++)
    *at++ = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i] ? name[i] : '=';
  memcpy(at, value, length);
  at[length] = '\0';
  text->used += key_bytes + name_bytes + length + 1;
}

static void add_text(text_t *text, const char *key, const char *name, const char *value)
{
  add(text, key, name, value, strlen(value));
}

static void add_settings(text_t *text, const gp_options_t *options)
{
  static const char *const sources[] = {[GP_OPTION_FROM_DEFAULT] = "default",
      [GP_OPTION_FROM_ENVIRONMENT] = "environment",
      [GP_OPTION_FROM_USER_FILE] = "user_file",
      [GP_OPTION_FROM_SYSTEM_FILE] = "system_file",
      [GP_OPTION_FROM_PROFILE] = "profile",
      [GP_OPTION_FROM_MXNET] = "mxnet"};
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    add_text(text, "setting", gp_option_table[id].name, gp_option_text(options, (gp_option_id_t)id));
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    if (options->values[id].source != GP_OPTION_FROM_DEFAULT)
      add_text(text, "source", gp_option_table[id].name, sources[options->values[id].source]);
  }
}

/* Adds the environment variables that limit or select device memory. Their names are written unchanged, but
 * names of options in lower case. */
static void add_environment(text_t *text)
{
  static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
      "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_PIPE_DIRECTORY"};
  static const char key[] = "environment";
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    const char *value = secure_getenv(names[i]);
    size_t name_bytes = strlen(names[i]), value_bytes = value ? strlen(value) : 0;
    if (!value || text->capacity - text->used < sizeof(key) + name_bytes + value_bytes + 2)
      continue;
    char *at = text->buffer + text->used;
    at = (char *)memcpy(at, key, sizeof(key)) + sizeof(key);
    at = (char *)memcpy(at, names[i], name_bytes) + name_bytes;
    *at++ = '=';
    memcpy(at, value, value_bytes + 1);
    text->used += sizeof(key) + name_bytes + value_bytes + 2;
  }
}

static void add_rank(text_t *text)
{
  const char *rank = gp_path_rank();
  if (rank && strlen(rank) <= 9 && strspn(rank, "0123456789") == strlen(rank))
    add_text(text, "rank", NULL, rank);
}

/* Reads the path straight into the buffer, because the thread may have a small stack. */
static void add_program(text_t *text)
{
  static const char key[] = "program";
  char *at = text->buffer + text->used + sizeof(key);
  size_t room = text->capacity - text->used;
  ssize_t length = room > sizeof(key) + GP_PATH_BYTES ? readlink("/proc/self/exe", at, GP_PATH_BYTES) : -1;
  if (length <= 0) {
    add_text(text, key, NULL, program_invocation_name);
    return;
  }
  memcpy(text->buffer + text->used, key, sizeof(key));
  at[length] = '\0';
  text->used += sizeof(key) + (size_t)length + 1;
}

static size_t read_file(const char *path, char *buffer, size_t capacity)
{
  size_t used = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  while (used < capacity) {
    ssize_t got = read(fd, buffer + used, capacity - used);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    used += (size_t)got;
  }
  (void)close(fd); /* cannot lose data: it was opened for reading */
  return used;
}

/*
 * Adds the command line, one pair for each argument. Reads the command line into the far end of the buffer
 * and copies the arguments forward one by one. Each copy also has a key, so with many arguments the copies
 * may reach the arguments that are not copied yet; the function then stops.
 */
static void add_arguments(text_t *text)
{
  if (text->capacity - text->used < COMMAND_LINE_BYTES)
    return;
  const char *from = text->buffer + text->capacity - COMMAND_LINE_BYTES;
  size_t length =
      read_file("/proc/self/cmdline", text->buffer + text->capacity - COMMAND_LINE_BYTES, COMMAND_LINE_BYTES);
  for (size_t at = 0; at < length;) {
    size_t argument = strnlen(from + at, length - at);
    if (text->buffer + text->used + sizeof("argument") + argument + 1 > from + at)
      break;
    add(text, "argument", NULL, from + at, argument);
    at += argument + 1;
  }
}

gp_description_t gp_description_make(const gp_options_t *options, char *buffer, size_t capacity)
{
  text_t text = {.buffer = buffer, .capacity = capacity};
  char host[256];

  add_program(&text);
  if (gp_path_expand("%h", 0, NULL, host, sizeof(host)) == 0)
    add_text(&text, "host", NULL, host);
  if (options->runs[0])
    add_text(&text, "run", NULL, options->runs);
  add_rank(&text);
  add_environment(&text);
  add_settings(&text, options);
  add_arguments(&text);
  return (gp_description_t){buffer, text.used};
}

bool gp_description_next(const gp_description_t *description, size_t *at, gp_description_pair_t *ret_pair)
{
  size_t left = description->length - *at;
  if (left == 0)
    return false;
  ret_pair->key = description->text + *at;
  size_t key = strnlen(ret_pair->key, left) + 1;
  if (key >= left)
    return false;
  ret_pair->value = ret_pair->key + key;
  size_t value = strnlen(ret_pair->value, left - key) + 1;
  if (value > left - key)
    return false; /* the value's NUL is missing */
  *at += key + value;
  return true;
}

const char *gp_description_find(const gp_description_t *description, const char *key)
{
  gp_description_pair_t pair;
  for (size_t at = 0; gp_description_next(description, &at, &pair);) {
    if (strcmp(pair.key, key) == 0)
      return pair.value;
  }
  return NULL;
}
