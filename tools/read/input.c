#include "tools/read/input.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/array.h"

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

/* Makes room for at least one byte and the NUL. */
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
