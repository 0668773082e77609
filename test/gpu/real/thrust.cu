// Thrust algorithms in a loop: sort, scan and reduce_by_key allocate and free temporary memory at each call.
#include "../common/gpu.h"

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

struct Mix {
  unsigned seed;
  __host__ __device__ unsigned operator()(unsigned i) const
  {
    i = (i + seed) * 2654435761u;
    return (i ^ (i >> 15)) % 100003u;
  }
};

int main(int argc, char **argv)
{
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
  const int n = 1 << 21;
  start("thrust", 90);
  double begin = 0;
  unsigned long long keys_sum = 0, scan_sum = 0, groups = 0;
  for (int round = 0; round < rounds; round++) {
    if (round == 2)
      begin = now_ns(); // without what happens once
    thrust::device_vector<unsigned> keys(n);
    thrust::transform(thrust::counting_iterator<unsigned>(0), thrust::counting_iterator<unsigned>(n),
        keys.begin(), Mix{(unsigned)round});
    thrust::sort(keys.begin(), keys.end());
    thrust::device_vector<unsigned> totals(n), unique(n), counts(n);
    thrust::inclusive_scan(keys.begin(), keys.end(), totals.begin());
    auto ends = thrust::reduce_by_key(
        keys.begin(), keys.end(), thrust::constant_iterator<unsigned>(1), unique.begin(), counts.begin());
    groups += (unsigned long long)(ends.first - unique.begin());
    keys_sum += thrust::reduce(unique.begin(), ends.first, 0ull);
    scan_sum += totals[n - 1];
  }
  report_number("seconds", (now_ns() - begin) / 1e9, "s");
  report_number("rounds", rounds, "");
  report_text("result: sum of the keys", std::to_string(keys_sum));
  report_text("result: sum of the scans", std::to_string(scan_sum));
  report_text("result: groups", std::to_string(groups));
  return report_finish();
}
