// SPDX-License-Identifier: Apache-2.0
// What a run waits for before its time begins, and why that may not come.
#pragma once

#include "drill/facts.hpp"
#include "drill/scenario.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::drill {

/// The rails between two hosts, as pairs of "host/soft0": each device of both has one.
std::vector<std::pair<std::string, std::string>> rails_of(const scenario& what, const std::string& from,
                                                          const std::string& to);
/// Those that carry while all of them can: not those of spare devices.
std::vector<std::pair<std::string, std::string>>
carrying_rails_of(const scenario& what, const std::string& from, const std::string& to);

/// QPs that each device has once all its rails are up.
std::map<std::string, std::uint64_t> qps_of_devices(const scenario& what);
/// QPs that a device may make after the last fault, if the file does not say: each of its own a few times
/// over, since a peer's device that rests refuses it again and again.
std::uint64_t usual_reconnects(std::uint64_t qps) noexcept;

/// Why this machine cannot have the memory of the file's traffic at once, with who needs the most of it;
/// empty if it can. `has`: bytes.
std::string too_much_memory(const scenario& what, std::uint64_t has);
/// Of this machine, bytes.
std::uint64_t physical_memory() noexcept;

/// For the end of a sentence about a set-up that failed: what the hosts said of their attempts, and which
/// limits of the file's devices are below what its traffic needs ("; a/soft0: max_qp is 1, its rails need
/// 4"). May be empty.
std::string why_not_up(const scenario& what, const run_facts& facts);

} // namespace actor_rdma::drill
