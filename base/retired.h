/* Settings of earlier versions. They are accepted, and a message says what replaces them. */
#ifndef GP_BASE_RETIRED_H
#define GP_BASE_RETIRED_H

#include <stdbool.h>

/*
 * Returns true if an earlier version had the setting, or this value of a setting that still exists. In that
 * case reports one line, which does not count as a malformed value. `name` is as in options.def, with or
 * without the prefix GPUPOOL_. *ret_used gets the value to use instead, a constant, or NULL if the setting
 * has no effect. `problem` may be NULL. Thread-safe.
 */
bool gp_retired_report(const char *name, const char *value,
    void (*problem)(void *arg, bool malformed, const char *message), void *problem_arg,
    const char **ret_used);

#endif
