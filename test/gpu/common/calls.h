// The driver calls that were made since the last time, where the call trace (trace/calltrace.c) is preloaded.
#ifndef GPU_CALLS_H
#define GPU_CALLS_H

#include "gpu.h"

inline std::string take_calls()
{
  typedef const char *(*take_fn)(void);
  static take_fn take = reinterpret_cast<take_fn>(dlsym(RTLD_DEFAULT, "calltrace_take"));
  if (!take)
    report_skip("the call trace is not preloaded (it is written for x86-64)");
  return take();
}

// How often the calls of a list have a name that begins so.
inline int count_calls(const std::string &calls, const std::string &prefix)
{
  int count = 0;
  size_t at = 0;
  while (at < calls.size()) {
    size_t end = calls.find(", ", at);
    std::string item = calls.substr(at, end == std::string::npos ? std::string::npos : end - at);
    if (item.compare(0, prefix.size(), prefix) == 0) {
      size_t times = item.rfind(" x");
      count += times == std::string::npos ? 1 : std::atoi(item.c_str() + times + 2);
    }
    at = end == std::string::npos ? calls.size() : end + 2;
  }
  return count;
}

#endif
