// SPDX-License-Identifier: Apache-2.0
// The text of --fault as steps: "down:soft0@2s,up:soft0@4s". A step is VERB:DEVICE@TIME; the verbs are down,
// up (the link), hang, heal (WRs are swallowed without a trace), and delay, which says by how much
// ("delay:soft0=10ms@1s", "=0ms" ends it). A device is "host/soft0", or "soft0" for the initiator's own.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace actor_rdma::bench {

enum class fault_verb : std::uint8_t { down, up, hang, heal, delay };
const char* to_string(fault_verb verb) noexcept;

struct fault_step {
  base::duration at{}; ///< from the begin of the measured time
  fault_verb verb = fault_verb::down;
  std::string device;
  base::duration amount{}; ///< delay only

  /// Whether it takes something away rather than gives it back.
  bool harms() const noexcept;
  std::string to_string() const;
};

/// In the order of their times.
using fault_plan = std::vector<fault_step>;

base::expected<fault_plan> parse_fault_plan(std::string_view text);

/// The plan with "soft0" written as "host/soft0".
fault_plan with_host(fault_plan plan, const std::string& host);

} // namespace actor_rdma::bench
