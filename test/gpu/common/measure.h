// What single calls cost, by the clock of the host. measure_clock comes first.
#ifndef GPU_MEASURE_H
#define GPU_MEASURE_H

#include "gpu.h"

#include <functional>

static const double BUDGET_NS = 6e7; // per measurement
inline double clock_ns;              // what two readings of the clock cost

// Times `call` alone; `before` prepares each call and is not timed. Stops after BUDGET_NS or `most` calls.
inline void measure(
    const std::string &name, int most, std::function<void()> before, std::function<void()> call)
{
  std::vector<double> samples;
  double end = now_ns() + BUDGET_NS;
  before();
  call(); // the first is not like the others
  for (int i = 0; i < most && (i < 5 || now_ns() < end); i++) {
    before();
    double begin = now_ns();
    call();
    double took = now_ns() - begin - clock_ns;
    samples.push_back(took > 0 ? took : 0);
  }
  report_samples(name, samples, "ns");
}

// For calls that are shorter than a reading of the clock: a thousand at a time.
inline void measure_short(const std::string &name, std::function<void()> call)
{
  std::vector<double> samples;
  for (int i = 0; i < 51; i++) {
    double begin = now_ns();
    for (int k = 0; k < 1000; k++)
      call();
    samples.push_back((now_ns() - begin) / 1000);
  }
  report_samples(name, samples, "ns");
}

inline void nothing()
{
}

inline void drain()
{
  CHECK(cudaDeviceSynchronize());
}

inline void measure_clock()
{
  std::vector<double> samples;
  for (int i = 0; i < 1001; i++) {
    double begin = now_ns();
    samples.push_back(now_ns() - begin);
  }
  std::sort(samples.begin(), samples.end());
  clock_ns = samples[samples.size() / 2];
  report_number("reading the clock twice (subtracted)", clock_ns, "ns");
}

inline std::string size_name(size_t bytes)
{
  if (bytes >= 1u << 20)
    return std::to_string(bytes >> 20) + " MiB";
  return bytes >= 1024 ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes) + " B";
}

#endif
