/*
 * Names of functions from the symbol table of their file.
 */
#include <check.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/pool/check_main.h"
#include "trace/stacks/symtab.h"

#define BUILD_ID "0123456789abcdef" /* of test/trace/meson.build */

__attribute__((noinline)) static int hidden(int number)
{
  return number + (int)getpid();
}

static int note_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
  (void)size;
  *(uint64_t *)bias = info->dlpi_addr; /* the program is the first */
  return 1;
}

/* A module of that file; build_id: bytes of it, NULL: none. */
static bool name_in(const char *path, const char *build_id, uint64_t address, char *name, size_t capacity)
{
  static _Alignas(8) char room[512];
  gp_module_record_t *module = (gp_module_record_t *)(void *)room;
  size_t length = strlen(path), bytes = build_id ? strlen(build_id) / 2 : 0;

  memset(room, 0, sizeof(room));
  memcpy(module->path, path, length);
  module->path_length = (uint16_t)length;
  module->build_id_length = (uint16_t)bytes;
  for (size_t i = 0; i < bytes; i++)
    ck_assert_int_eq(sscanf(build_id + 2 * i, "%2hhx", &module->build_id[i]), 1);
  return gp_symtab_name(module, address, name, capacity);
}

START_TEST(a_static_function_has_its_name)
{
  uint64_t bias = 0, address = (uint64_t)(uintptr_t)hidden;
  char name[64];

  (void)dl_iterate_phdr(note_bias, &bias);
  ck_assert(hidden(1) != 0);
  ck_assert(name_in("/proc/self/exe", NULL, address - bias + 1, name, sizeof(name)));
  ck_assert_str_eq(name, "hidden");
  ck_assert(!name_in("/proc/self/exe", NULL, address - bias + 1, name, 3));
  ck_assert(name_in("/proc/self/exe", BUILD_ID, address - bias + 1, name, sizeof(name)));
  ck_assert_str_eq(name, "hidden");
  /* of another build at the same path */
  ck_assert(!name_in("/proc/self/exe", "00" BUILD_ID, address - bias + 1, name, sizeof(name)));
  ck_assert(!name_in("/proc/self/exe", "ff", address - bias + 1, name, sizeof(name)));
  ck_assert(!name_in("/proc/self/exe", NULL, 1, name, sizeof(name)));
}
END_TEST

START_TEST(a_file_that_is_none_has_no_names)
{
  char name[64], path[] = "/tmp/check-symtab-XXXXXX", bytes[4096];
  int file = mkstemp(path), program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

  ck_assert(file >= 0 && program >= 0);
  ck_assert(!name_in(path, NULL, 1, name, sizeof(name)));
  ck_assert_int_eq(read(program, bytes, sizeof(bytes)), sizeof(bytes)); /* without its sections */
  ck_assert_int_eq(write(file, bytes, sizeof(bytes)), sizeof(bytes));
  ck_assert(!name_in(path, NULL, 1, name, sizeof(name)));
  ck_assert(!name_in("/no/such/file", NULL, 1, name, sizeof(name)));
  ck_assert(!name_in("/", NULL, 1, name, sizeof(name)));
  (void)close(program);
  (void)close(file);
  (void)unlink(path);
}
END_TEST

static const struct {
  const char *mangled, *spelled;
} names[] = {
    {"plain", "plain"},
    {"_Z4fillv", "fill"},
    {"_ZL7kv_initi", "kv_init"},
    {"_ZN5Arena6extendEm", "Arena::extend"},
    {"_ZNK1a1b1c1d1e1f1gEv", "a::b::c::d::e::f::g"},
    {"_ZN12_GLOBAL__N_14loadEv", "(anonymous)::load"},
    {"_ZN2ns3sumIfEET_S1_", "_ZN2ns3sumIfEET_S1_"}, /* a template */
    {"_Z3addIiEvT_", "_Z3addIiEvT_"},
    {"_ZN5ArenaC1Ev", "_ZN5ArenaC1Ev"}, /* a constructor */
    {"_ZNSt6vectorIiE", "_ZNSt6vectorIiE"},
    {"_Z999x", "_Z999x"},
    {"_Z99999999999999999999x", "_Z99999999999999999999x"},
    {"_ZN1a", "_ZN1a"},
    {"_Z", "_Z"},
};

START_TEST(a_name_is_spelled)
{
  char name[64];
  ck_assert(gp_symtab_spell(names[_i].mangled, name, sizeof(name)));
  ck_assert_str_eq(name, names[_i].spelled);
  ck_assert(gp_symtab_spell(names[_i].mangled, name, strlen(names[_i].spelled) + 1));
  for (size_t room = 1; room <= strlen(names[_i].spelled); room++)
    ck_assert(!gp_symtab_spell(names[_i].mangled, name, room));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("symtab");
  TCase *tests = tcase_create("symtab");

  tcase_add_test(tests, a_static_function_has_its_name);
  tcase_add_test(tests, a_file_that_is_none_has_no_names);
  tcase_add_loop_test(tests, a_name_is_spelled, 0, (int)(sizeof(names) / sizeof(names[0])));
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
