/*
 * A call whose place is known: gp_sample_call, into which the compiler has put sample_middle and
 * sample_innermost.
 */
#ifndef GP_TEST_SYMBOLS_SAMPLE_H
#define GP_TEST_SYMBOLS_SAMPLE_H

#include <stdint.h>

/* Lines of symbols_sample.c */
#define GP_SAMPLE_INNERMOST_LINE 11
#define GP_SAMPLE_MIDDLE_LINE    17
#define GP_SAMPLE_OUTER_LINE     22

#define GP_SAMPLE_TEXT_(number) #number
#define GP_SAMPLE_TEXT(number)  GP_SAMPLE_TEXT_(number)

/* The address to which the call in sample_innermost returns. */
uint64_t gp_sample_call(void);

#endif
