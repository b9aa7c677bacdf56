// SPDX-License-Identifier: Apache-2.0
// actor-rdma-bench. Exit status: 0 all transfers completed and, if checked, were right; 1 some were not; 2
// the arguments are wrong; 3 no connection came about.
#include "base/output.hpp"
#include "bench/command_line.hpp"
#include "bench/compare.hpp"
#include "bench/roles.hpp"

#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace actor_rdma;
using namespace actor_rdma::bench;

int run(int argc, char** argv) {
  const auto parsed = parse_command_line(argc, argv, std::cout, std::cerr);
  if (const auto* status = std::get_if<int>(&parsed))
    return *status;
  const auto& what = std::get<settings>(parsed);
  base::set_level(what.log);
  if (what.compare > 0)
    return run_comparison(what, std::vector<std::string>(argv, argv + argc));
  signals watch;
  switch (what.as) {
  case role::target: return run_target(what, watch);
  case role::initiator: return run_initiator(what, watch);
  case role::loopback: return run_loopback(what, watch);
  }
  return exit_usage;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return base::output_written("actor-rdma-bench", run(argc, argv), exit_transfers_failed);
  } catch (const std::exception& e) {
    std::cerr << "actor-rdma-bench: " << e.what() << '\n';
    return exit_transfers_failed;
  }
}
