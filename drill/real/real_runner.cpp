// SPDX-License-Identifier: Apache-2.0
// What surrounds a run.
#include "drill/real/real_runner.hpp"

#include "drill/descriptors.hpp"
#include "drill/kernel/kernel_devices.hpp"
#include "drill/real/real_play.hpp"
#include "drill/real/suits_real.hpp"

namespace actor_rdma::drill {

run_facts real_runner::run(const scenario& what, std::uint64_t seed, const run_wishes& wishes) {
  run_facts facts;
  facts.seed = seed;
  facts.in_real_time = true;
  facts.devices_file = devices_file_;
  facts.not_checked = not_checked_in_real_time();
  const auto before = open_descriptors();
  {
    auto devices =
        devices_file_.empty() ? make_fabric_devices(what, seed) : make_kernel_devices(devices_file_);
    real_play p(what, seed, std::move(devices), wishes, signals_, facts);
    p.run();
  }
  facts.counters.push_back({"open file descriptors of the conductor", before, open_descriptors()});
  return facts;
}

} // namespace actor_rdma::drill
