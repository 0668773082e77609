/*
 * Names in few columns: what is left out, and that different ones look different.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "tools/output.h"
#include "tools/shorten.h"

#define TEXT_BYTES 1024

#define EXPECT(text, columns, expected)                                                                      \
  do {                                                                                                       \
    char buffer[TEXT_BYTES];                                                                                 \
    ck_assert_str_eq(gp_text_shorten(text, columns, buffer, sizeof(buffer)), expected);                      \
    ck_assert_uint_le(gp_text_columns(buffer), columns);                                                     \
  } while (0)

START_TEST(test_what_fits_stays)
{
  EXPECT("std::map<int, float>::grow(int)", 31, "std::map<int, float>::grow(int)");
  EXPECT("", 4, "");
}
END_TEST

START_TEST(test_template_arguments_go_first)
{
  static const char name[] = "Layer<float, std::allocator<float>>::forward()";
  EXPECT(name, 44, "Layer<float, std::allocator<...>>::forward()");
  EXPECT(name, 40, "Layer<float, std...ator<...>>::forward()");
  EXPECT(name, 30, "Layer<float...>>::forward()");
  EXPECT(name, 20, "Layer<...orward()");
  EXPECT(
      "std::vector<Tensor<float>, pool::Allocator<Tensor<float>>>::push_back(Tensor<float> const&) model.cu:12",
      60, "std::vector<...>::push_back(Tensor<f...> const&) model.cu:12");
}
END_TEST

START_TEST(test_arguments_go_next)
{
  EXPECT("void (anonymous namespace)::run(std::string const&, unsigned long, std::vector<int> const&)", 60,
      "void (anonymous namespace)::run(std::string ...<int> const&)");
  EXPECT("operator new(unsigned long, std::align_val_t, std::nothrow_t const&)", 30,
      "operator new(unsigne...const&)");
}
END_TEST

START_TEST(test_other_brackets_are_none)
{
  EXPECT("Matrix<double>::operator<<(std::basic_ostream<char, std::char_traits<char>>&)", 50,
      "Matrix<...>::operator<<(std::basic_ostream<c...>&)");
  EXPECT("<module> train.py:12 and more text that is long enough", 30, "<module> train...s long enough");
  EXPECT("a::very::long::name::of::a::function::that::is::cut::in::its::middle", 30,
      "a::very::long:...::its::middle");
  EXPECT("gr\xc3\xb6\xc3\x9f"
         "e<\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc>::free()",
      18,
      "gr\xc3\xb6\xc3\x9f"
      "e<...>::free()");
}
END_TEST

START_TEST(test_words_between_names_stay)
{
  EXPECT("attention_forward_with_a_long_name modeling_of_some_large_model.py:812 and 1 other line through "
         "scaled_dot_product_attention",
      90, "attentio...ong_name modelin...py:812 and 1 other line through scaled_dot_product_attention");
}
END_TEST

START_TEST(test_a_word_longer_than_a_line_is_cut)
{
  EXPECT("freed_in a_name_of_exactly_seventy_four_columns_that_a_line_of_eighty_has_room_for1", 120,
      "freed_in a_name_of_exactly_seventy_four_columns_that_a_line_of_eighty_has_room_for1");
  EXPECT("freed_in a_name_of_more_than_seventy_four_columns_that_no_line_of_eighty_would_have_room_for_0001",
      120, "freed_in a_name_of_more_than_seventy_four_col..._of_eighty_would_have_room_for_0001");
}
END_TEST

START_TEST(test_any_text_fits_in_any_room)
{
  static const char letters[] = "ab<>().:- \xc3\xa4*operator";
  unsigned seed = 1;
  for (int i = 0; i < 20000; i++) {
    char text[200], buffer[TEXT_BYTES];
    size_t length = (size_t)(i % 120), columns = 4 + (size_t)(i % 41);
    gp_names_t names = {.count = 0};
    for (size_t k = 0; k < length; k++) {
      seed = seed * 1103515245 + 12345;
      text[k] = letters[(seed >> 16) % (sizeof(letters) - 1)];
    }
    text[length] = '\0';
    gp_text_shorten(text, columns, buffer, sizeof(buffer));
    ck_assert_msg(gp_text_columns(buffer) <= columns, "%s", text);
    for (size_t k = 0; k < 4; k++) {
      text[length ? (k * 37) % length : 0] = length ? 'z' : '\0';
      gp_names_shorten(&names, text, columns, buffer, sizeof(buffer));
      ck_assert_msg(gp_text_columns(buffer) <= columns, "%s", text);
    }
    gp_names_fini(&names);
  }
}
END_TEST

/* Deeper lists than the code keeps in mind: those at the end of what it keeps become shorter. */
START_TEST(test_lists_may_be_of_any_depth)
{
  for (size_t depth = 30; depth < 40; depth++) {
    char text[TEXT_BYTES] = "", buffer[TEXT_BYTES];
    for (size_t i = 0; i < depth; i++)
      strcat(text, "a T<");
    strcat(text, "some_long_name");
    for (size_t i = 0; i < depth; i++)
      strcat(text, ">");
    gp_text_shorten(text, strlen(text) - 4, buffer, sizeof(buffer));
    ck_assert_uint_eq(gp_text_columns(buffer), strlen(text) - 4);
    ck_assert_ptr_nonnull(strstr(buffer, "..."));
    ck_assert_mem_eq(buffer, text, 4 * (depth < 32 ? depth : 32));
  }
}
END_TEST

START_TEST(test_different_names_look_different)
{
  static const char *const pairs[][2] = {
      {"thrust::detail::vector_base<float, thrust::device_allocator<float>>::allocate_and_copy(unsigned long)",
          "thrust::detail::vector_base<double, thrust::device_allocator<double>>::allocate_and_copy(unsigned long)"},
      {"void launch<aaaaaaaaaaaaaaaaaaaaaaaaaaaaa, X, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb>::run(int)",
          "void launch<aaaaaaaaaaaaaaaaaaaaaaaaaaaaa, Y, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb>::run(int)"},
      {"a::very::long::name::of::a::function::that::is::cut::in::its::middle",
          "a::very::long::name::of::a::function::thet::is::cut::in::its::middle"},
  };
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
    for (size_t columns = 20; columns < 60; columns++) {
      char first[TEXT_BYTES], second[TEXT_BYTES], again[TEXT_BYTES];
      gp_names_t names = {.count = 0};
      gp_names_shorten(&names, pairs[i][0], columns, first, sizeof(first));
      gp_names_shorten(&names, pairs[i][1], columns, second, sizeof(second));
      ck_assert_str_ne(first, second);
      gp_names_shorten(&names, pairs[i][0], columns, again, sizeof(again));
      ck_assert_str_eq(first, again);
      gp_names_fini(&names);
    }
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("shorten");
  TCase *names = tcase_create("names");
  tcase_add_test(names, test_what_fits_stays);
  tcase_add_test(names, test_template_arguments_go_first);
  tcase_add_test(names, test_arguments_go_next);
  tcase_add_test(names, test_other_brackets_are_none);
  tcase_add_test(names, test_words_between_names_stay);
  tcase_add_test(names, test_a_word_longer_than_a_line_is_cut);
  tcase_add_test(names, test_any_text_fits_in_any_room);
  tcase_add_test(names, test_lists_may_be_of_any_depth);
  tcase_add_test(names, test_different_names_look_different);
  suite_add_tcase(suite, names);
  return gp_check_main(suite);
}
