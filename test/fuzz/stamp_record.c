/*
 * Makes a record of the corpus one of this build: copies it and puts the hash of the layout into its header.
 *
 * stamp_record FROM TO
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/layout.h"
#include "format/record.h"

int main(int argc, char **argv)
{
  static char bytes[1 << 20];
  const uint64_t hash = gp_layout_hash();
  FILE *from = argc == 3 ? fopen(argv[1], "rb") : NULL;
  FILE *to = argc == 3 ? fopen(argv[2], "wb") : NULL;
  if (!from || !to)
    return EXIT_FAILURE;
  size_t length = fread(bytes, 1, sizeof(bytes), from);
  if (length < sizeof(gp_record_header_t) || length == sizeof(bytes))
    return EXIT_FAILURE;
  memcpy(bytes + offsetof(gp_record_header_t, layout_hash), &hash, sizeof(hash));
  bool is_written = fwrite(bytes, 1, length, to) == length;
  fclose(from);
  return fclose(to) == 0 && is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}
