/*
 * What the file of a program says about why nothing could be preloaded.
 */
#include <check.h>
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/pool/check_main.h"
#include "tools/run/program_probe.h"

#define OWN_FILE "/proc/self/exe"

static char path[] = "/tmp/gpupool-probe-XXXXXX";

/* Writes a file and asks about it. library: this test itself, a program of the right kind. */
static const char *probe(const void *image, size_t length, mode_t mode)
{
  static char reason[1024];
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(image, 1, length, file), length);
  fclose(file);
  ck_assert_int_eq(chmod(path, mode), 0);
  gp_program_probe(path, OWN_FILE, reason, sizeof(reason));
  return reason;
}

static Elf64_Ehdr own_header(void)
{
  Elf64_Ehdr header;
  FILE *file = fopen(OWN_FILE, "rb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fread(&header, sizeof(header), 1, file), 1);
  fclose(file);
  return header;
}

/* A header, one segment of the type, and the text that it refers to. */
static const char *probe_elf(unsigned type, const char *interpreter, unsigned machine, int class)
{
  struct {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    char text[64];
  } image = {.header = own_header()};
  image.header.e_ident[EI_CLASS] = (unsigned char)class;
  if (machine)
    image.header.e_machine = (Elf64_Half)machine;
  image.header.e_phoff = offsetof(__typeof__(image), segment);
  image.header.e_phnum = 1;
  image.segment.p_type = type;
  image.segment.p_offset = offsetof(__typeof__(image), text);
  image.segment.p_filesz = sizeof(image.text);
  snprintf(image.text, sizeof(image.text), "%s", interpreter);
  return probe(&image, sizeof(image), 0755);
}

START_TEST(test_an_ordinary_program_gives_no_reason)
{
  char reason[256];
  gp_program_probe(OWN_FILE, OWN_FILE, reason, sizeof(reason));
  ck_assert_str_eq(reason, "");
}
END_TEST

START_TEST(test_executables_are_told_apart)
{
  ck_assert_ptr_nonnull(strstr(probe_elf(PT_LOAD, "", 0, ELFCLASS64), "statically linked"));
  ck_assert_ptr_nonnull(strstr(
      probe_elf(PT_INTERP, "/lib/ld-other.so.1", 0, ELFCLASS64), "its own loader (/lib/ld-other.so.1)"));
  ck_assert_ptr_nonnull(strstr(probe_elf(PT_LOAD, "", EM_S390, ELFCLASS64), "another kind of processor"));
  ck_assert_ptr_nonnull(strstr(probe_elf(PT_LOAD, "", 0, ELFCLASS32), "32-bit"));
  const Elf64_Ehdr header = own_header();
  ck_assert_ptr_nonnull(strstr(probe(&header, sizeof(header), 04755), "setuid"));
  ck_assert_ptr_nonnull(strstr(probe(&header, sizeof(header), 02755), "setgid"));
}
END_TEST

START_TEST(test_scripts_are_followed)
{
  static const char plain[] = "#!/bin/sh\nexit 0\n";
  static const char env[] = "#! /usr/bin/env -S A=b sh -e\nexit 0\n";
  static const char text[] = "exit 0\n";
  ck_assert_ptr_nonnull(strstr(probe(plain, sizeof(plain) - 1, 0755), "a script for /bin/sh"));
  ck_assert_ptr_nonnull(strstr(probe(env, sizeof(env) - 1, 0755), "/sh,"));
  ck_assert_str_eq(probe(text, sizeof(text) - 1, 0755), "");
}
END_TEST

START_TEST(test_damaged_files_are_harmless)
{
  Elf64_Ehdr header = own_header();
  for (size_t length = 0; length <= sizeof(header); length++)
    (void)probe(&header, length, 0755);
  header.e_phoff = UINT64_MAX - 8;
  (void)probe(&header, sizeof(header), 0755);
  header.e_phnum = 0xffff;
  (void)probe(&header, sizeof(header), 0755);
  char reason[64];
  gp_program_probe("/no/such/file", "/no/such/library", reason, sizeof(reason));
  ck_assert_str_eq(reason, "");
}
END_TEST

static void make_file(void)
{
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  close(fd);
}

static void remove_file(void)
{
  unlink(path);
}

int main(void)
{
  Suite *suite = suite_create("program_probe");
  TCase *files = tcase_create("files");
  tcase_add_unchecked_fixture(files, make_file, remove_file);
  tcase_add_test(files, test_an_ordinary_program_gives_no_reason);
  tcase_add_test(files, test_executables_are_told_apart);
  tcase_add_test(files, test_scripts_are_followed);
  tcase_add_test(files, test_damaged_files_are_harmless);
  suite_add_tcase(suite, files);
  return gp_check_main(suite);
}
