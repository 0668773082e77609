/*
 * Programs and libraries as the loader has them (base/objects.c): what they define, by either
 * kind of table, as the loader finds it.
 */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/objects.h"
#include "test/pool/check_main.h"

static const char *const paths[] = {GP_OBJECTS_GNU, GP_OBJECTS_SYSV};
static gp_object_t object;
static void *library;

static int read_it(struct dl_phdr_info *info, size_t size, void *arg)
{
  const char *path = arg;

  (void)size;
  if (strcmp(info->dlpi_name, path) != 0)
    return 0;
  return gp_object_read(info, &object) ? 1 : 2;
}

static void load(int which)
{
  library = dlopen(paths[which], RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library != NULL, "%s", dlerror());
  ck_assert_int_eq(dl_iterate_phdr(read_it, (void *)(uintptr_t)paths[which]), 1);
}

START_TEST(test_tables)
{
  load(_i);
  ck_assert((object.gnu_hash != NULL) == (_i == 0));
  ck_assert((object.sysv_hash != NULL) == (_i == 1));
}
END_TEST

START_TEST(test_each_definition_is_found)
{
  char name[32];
  void *found;

  load(_i);
  for (char letter = 'a'; letter <= 'z'; letter++) {
    snprintf(name, sizeof(name), "gp_objects_%c", letter);
    found = NULL;
    ck_assert_msg(gp_object_defines(&object, name, &found), "%s", name);
    ck_assert_ptr_eq(found, dlsym(library, name));
    int (*function)(void);
    *(void **)&function = found;
    ck_assert_int_eq(function(), letter);
    ck_assert(gp_object_has(&object, found));
  }
}
END_TEST

/* What it refers to, what begins or ends likewise, and thousands that only may share a bucket. */
START_TEST(test_nothing_else_is_found)
{
  static const char *const names[] = {
      "abs", "rand", "atoi", "", "gp_objects_", "gp_objects_A", "gp_objects_aa", "p_objects_a"};
  char name[32];
  void *found;

  load(_i);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    ck_assert_msg(!gp_object_defines(&object, names[i], &found), "%s", names[i]);
  for (int i = 0; i < 5000; i++) {
    snprintf(name, sizeof(name), "gp_objects_%d", i);
    ck_assert_msg(!gp_object_defines(&object, name, &found), "%s", name);
  }
}
END_TEST

START_TEST(test_a_variable)
{
  load(_i);
  const ElfW(Sym) *symbol = gp_object_symbol(&object, "gp_objects_variable");
  ck_assert_ptr_nonnull(symbol);
  ck_assert_uint_eq(symbol->st_size, sizeof(int));
  ck_assert_ptr_eq((void *)(object.base + symbol->st_value), dlsym(library, "gp_objects_variable"));
}
END_TEST

START_TEST(test_what_it_needs)
{
  load(_i);
  ck_assert_str_eq(object.soname, strrchr(paths[_i], '/') + 1);
  ck_assert(gp_object_needs(&object, "libc.so.6"));
  ck_assert(!gp_object_needs(&object, "libm.so.6"));
  ck_assert(!gp_object_needs(&object, ""));
  ck_assert_int_eq(strncmp(gp_object_needed_version(&object, "libc.so.6"), "GLIBC_2.", 8), 0);
  ck_assert_ptr_null(gp_object_needed_version(&object, "libm.so.6"));
  ck_assert(!object.has_versions);
  ck_assert(object.stays == (_i == 1)); /* linked so, see meson.build */
}
END_TEST

START_TEST(test_its_memory)
{
  Dl_info info;

  load(_i);
  ck_assert_int_ne(dladdr(dlsym(library, "gp_objects_a"), &info), 0);
  ck_assert_ptr_eq(object.begin, info.dli_fbase);
  ck_assert(gp_object_has(&object, object.begin));
  ck_assert(gp_object_has(&object, object.end - 1));
  ck_assert(!gp_object_has(&object, object.end));
  ck_assert(!gp_object_has(&object, object.begin - 1));
  ck_assert(gp_object_has(&object, object.dynamic));
  ck_assert(!gp_object_has(&object, (const void *)(uintptr_t)load));
}
END_TEST

/* The C library's names have versions; some functions are found by the loader only. */
START_TEST(test_a_library_with_versions)
{
  void *found = &found;
  void *c = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

  ck_assert_ptr_nonnull(c);
  struct link_map *map;
  ck_assert_int_eq(dlinfo(c, RTLD_DI_LINKMAP, &map), 0);
  ck_assert_int_eq(dl_iterate_phdr(read_it, map->l_name), 1);
  ck_assert(object.has_versions);
  ck_assert_str_eq(object.soname, "libc.so.6");
  ck_assert(gp_object_defines(&object, "getenv", &found));
  ck_assert_ptr_eq(found, dlsym(c, "getenv"));
  ck_assert(gp_object_defines(&object, "environ", &found));
  ck_assert_ptr_null(found); /* no function */
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("objects");
  TCase *tests = tcase_create("all");
  tcase_add_loop_test(tests, test_tables, 0, 2);
  tcase_add_loop_test(tests, test_each_definition_is_found, 0, 2);
  tcase_add_loop_test(tests, test_nothing_else_is_found, 0, 2);
  tcase_add_loop_test(tests, test_a_variable, 0, 2);
  tcase_add_loop_test(tests, test_what_it_needs, 0, 2);
  tcase_add_loop_test(tests, test_its_memory, 0, 2);
  tcase_add_test(tests, test_a_library_with_versions);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
