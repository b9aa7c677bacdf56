// SPDX-License-Identifier: Apache-2.0
// Prints the rate of the processor's time stamp counter in kHz, which an emulated guest reads too. The
// guest's own measurement at its start can be wrong by a factor of two on a busy machine, and all its clocks
// with it.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <thread>

#include <x86intrin.h>

namespace {

struct reading {
  std::chrono::steady_clock::time_point at;
  std::uint64_t ticks = 0;
};

/// Both clocks at one moment: of many pairs of readings the one between which least time passed.
reading read_both() {
  reading best;
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 200; i++) {
    const auto before = __rdtsc();
    const auto at = std::chrono::steady_clock::now();
    const auto passed = __rdtsc() - before;
    if (passed >= least)
      continue;
    least = passed;
    best = {at, before + passed / 2};
  }
  return best;
}

} // namespace

int main() {
  const auto begin = read_both();
  std::this_thread::sleep_for(std::chrono::milliseconds{200});
  const auto end = read_both();
  const std::chrono::duration<double, std::milli> passed = end.at - begin.at;
  std::printf("%.0f\n", static_cast<double>(end.ticks - begin.ticks) / passed.count());
}
