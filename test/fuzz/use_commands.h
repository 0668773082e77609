/*
 * Every command of the tool that reads a snapshot, in this process, so that the sanitizers see it.
 */
#ifndef GP_TEST_FUZZ_USE_COMMANDS_H
#define GP_TEST_FUZZ_USE_COMMANDS_H

#include <stdbool.h>

/*
 * Runs each on the file `path`, as text and as JSON, without names, which would take most of the time; what
 * they print goes nowhere. device: one that is in the snapshot, -1: there is none. is_good: ends the process
 * if one of them does not accept the snapshot; else they may refuse it, with an exit status that says so.
 * slow_ones: html, replay and tune, too.
 */
void fuzz_run_commands(const char *path, int device, bool is_good, bool slow_ones);

#endif
