// SPDX-License-Identifier: Apache-2.0
//
// What a device still has to give: counted where objects are made and where they end, so that a device with
// small limits (fabric.hpp) refuses as hardware does.
#pragma once

#include "verbs/soft/fabric.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace actor_rdma::verbs::soft {

/// A number of things of which only so many may be out at one time. Any thread.
class allowance {
public:
  [[nodiscard]] bool take(std::uint32_t count, std::uint32_t limit) noexcept {
    auto used = used_.load(std::memory_order_relaxed);
    do {
      if (count > limit || used > limit - count)
        return false;
    } while (!used_.compare_exchange_weak(used, used + count, std::memory_order_relaxed));
    return true;
  }
  void give(std::uint32_t count) noexcept { used_.fetch_sub(count, std::memory_order_relaxed); }

private:
  std::atomic<std::uint32_t> used_{0};
};

struct device_allowances {
  allowance qps;
  allowance cqs;
  allowance mrs;
  allowance srqs;
  allowance reads; // as a responder
};

/// Empty, or what is wrong with the options, by name and with what is accepted.
[[nodiscard]] std::string check_options(const device_options& options);

} // namespace actor_rdma::verbs::soft
