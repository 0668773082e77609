// What a program of the hardware check found, as one JSON object on stdout:
//
//   {"program": NAME, "facts": [{"name", "value", "unit"?, "min"?, "p95"?, "samples"?, "assumed"?,
//   "says"?}...]}
//
// or {"program": NAME, "skip": REASON} with exit status 77. Nothing else is printed on stdout. The functions
// belong to the main thread.
#ifndef GPU_REPORT_H
#define GPU_REPORT_H

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

enum { EXIT_SKIP = 77 };

inline const char *report_program = "?";
inline std::vector<std::string> report_facts;

inline std::string report_quote(const std::string &text)
{
  std::string out = "\"";
  for (unsigned char c : text) {
    char escape[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += (char)c;
    } else if (c < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += (char)c;
    }
  }
  return out + "\"";
}

inline std::string report_format(double value)
{
  char text[40];
  if (!std::isfinite(value))
    return "null";
  std::snprintf(
      text, sizeof text, value == std::floor(value) && std::fabs(value) < 9e15 ? "%.0f" : "%.6g", value);
  return text;
}

inline void report_fact(const std::string &name, const std::string &json)
{
  report_facts.push_back("{\"name\": " + report_quote(name) + ", \"value\": " + json + "}");
}

inline void report_number(const std::string &name, double value, const char *unit)
{
  report_fact(name, report_format(value) + ", \"unit\": " + report_quote(unit));
}

inline void report_text(const std::string &name, const std::string &value)
{
  report_fact(name, report_quote(value));
}

inline void report_bool(const std::string &name, bool value)
{
  report_fact(name, value ? "true" : "false");
}

// A property that the design relies on, or rules out: where the driver differs, the report says so with
// `matters`.
inline void report_assumed(const std::string &name, bool value, bool assumed, const std::string &matters)
{
  report_fact(name, std::string(value ? "true" : "false") + ", \"assumed\": " + (assumed ? "true" : "false") +
                        ", \"says\": " + report_quote(matters));
}

// The median, least and 95% of repeated measurements. Sorts them.
inline void report_samples(const std::string &name, std::vector<double> &samples, const char *unit)
{
  if (samples.empty())
    return;
  std::sort(samples.begin(), samples.end());
  size_t n = samples.size(), high = std::min(n - 1, n * 95 / 100);
  report_fact(name, report_format(samples[n / 2]) + ", \"unit\": " + report_quote(unit) +
                        ", \"min\": " + report_format(samples[0]) +
                        ", \"p95\": " + report_format(samples[high]) + ", \"samples\": " + std::to_string(n));
}

inline int report_finish()
{
  std::printf("{\"program\": %s, \"facts\": [", report_quote(report_program).c_str());
  for (size_t i = 0; i < report_facts.size(); i++)
    std::printf("%s\n  %s", i ? "," : "", report_facts[i].c_str());
  std::printf("]}\n");
  return std::fflush(stdout) == 0 ? 0 : 1;
}

[[noreturn]] inline void report_skip(const std::string &reason)
{
  std::printf("{\"program\": %s, \"skip\": %s}\n", report_quote(report_program).c_str(),
      report_quote(reason).c_str());
  std::fflush(stdout);
  std::exit(EXIT_SKIP);
}

#endif
