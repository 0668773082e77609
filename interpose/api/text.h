/* Text for a buffer of the caller, by snprintf's rule: cuts the text, but counts its whole length. */
#ifndef GP_INTERPOSE_API_TEXT_H
#define GP_INTERPOSE_API_TEXT_H

#include <stddef.h>

/* Invariant: bytes[0..capacity) ends with a 0 somewhere if capacity > 0; length may be beyond it. */
typedef struct gp_text {
  char *bytes; /* NULL is legal if capacity is 0 */
  size_t capacity;
  size_t length; /* of the whole text */
} gp_text_t;

void gp_text_add(gp_text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
