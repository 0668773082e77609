/*
 * A fuzz target: one function that takes any bytes at all. libFuzzer calls it (scripts/fuzz.sh), and so does
 * fuzz_main.c, which is what the tests run.
 */
#ifndef GP_TEST_FUZZ_H
#define GP_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Ends the process if something is wrong with what became of data[0..size). Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process unless a condition holds that every input has to keep. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_failed(#condition, __FILE__, __LINE__))

_Noreturn void fuzz_failed(const char *condition, const char *file, int line);

/* A copy in memory of its own size, with a NUL behind it, so that a sanitizer sees a byte too far. The caller
 * frees it. */
char *fuzz_copy(const uint8_t *data, size_t size);

/* From here on messages of the code under test go nowhere; those of a sanitizer still arrive. */
void fuzz_silence(void);

#endif
