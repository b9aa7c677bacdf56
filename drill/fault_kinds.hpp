// SPDX-License-Identifier: Apache-2.0
// The kinds of faults, one entry each: which keys it takes, what it does to the stage, how it is undone, and
// how it is said in words. A new kind is a new entry (and perhaps a new key in format/tables or a new call of
// drill/stage.hpp).
#pragma once

#include "drill/scenario.hpp"
#include "drill/stage.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace actor_rdma::drill {

/// How a host's process has to be for a fault to find it.
enum class process_need : std::uint8_t { none, there, running, stopped, gone };

struct fault_kind {
  std::string name;
  std::string meaning;                ///< one sentence, for people
  std::vector<std::string> must_have; ///< keys, beside those that every fault takes
  std::vector<std::string> may_have;
  std::function<base::expected<void>(const fault_spec&, stage&)> apply;
  /// For `for_ms`; empty: it cannot be undone.
  std::function<base::expected<void>(const fault_spec&, stage&)> undo;
  std::function<std::string(const fault_spec&)> words; ///< "the link of a/soft0 goes down"
  /// A repair is not a fault: nothing has to converge after it but what it repairs.
  bool is_repair = false;
  /// Rules of the NIC that are in force from `apply` to `undo`; the reader checks them.
  std::function<std::vector<std::string>(const fault_spec&)> rules = nullptr;
  /// Devices and memory are a process's: without it there is nothing to befall.
  process_need needs = process_need::none;
  process_need undo_needs = process_need::none;
};

const std::vector<fault_kind>& fault_kinds();
/// What a host can run out of.
std::vector<std::string> exhaustible_resources();
const fault_kind* find_fault_kind(const std::string& name);
/// "at 100 ms (and up to 20 ms later): the link of a/soft0 goes down, for 300 ms, 3 times every 1000 ms".
std::string describe(const fault_spec& what);

} // namespace actor_rdma::drill
