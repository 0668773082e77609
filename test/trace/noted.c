/* A library whose build-id is the second of two notes, as a linker script may have it. The first is five
 * bytes. */
int gp_noted_function(void);

int gp_noted_function(void)
{
  return 1;
}

__asm__(".pushsection .note.gp_noted, \"a\", %note\n"
        ".balign 4\n"
        ".long 4, 5, 1\n.asciz \"GNU\"\n.byte 1, 2, 3, 4, 5, 0, 0, 0\n"
        ".long 4, 20, 3\n.asciz \"GNU\"\n.fill 20, 1, 0xab\n"
        ".popsection\n");
