/*
 * A program without a dynamic linker.
 */
#include <stdio.h>

int main(void)
{
  puts("static_program");
  return 0;
}
