// SPDX-License-Identifier: Apache-2.0
//
// The pair of ends in virtual time for tests of fault rules.
#pragma once

#include "verbs/soft/testing/rig.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace actor_rdma::verbs::soft::testing {

/// 4.096 us * 2^14 * (1 + 1), as the rig's queue pairs are set up; half of it is the acknowledge time-out.
inline constexpr std::chrono::nanoseconds retry_time{134'217'728};

inline bool arrived(const end& from, const end& to, std::size_t offset, std::size_t length) {
  return std::memcmp(from.memory + offset, to.memory + offset, length) == 0;
}

inline int to_error(end& e) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  const auto done = e.qp.modify(attr, IBV_QP_STATE);
  return done ? 0 : done.error().sys_errno;
}

struct ruled_rig : pair_rig {
  explicit ruled_rig(nic_mode mode = nic_mode::paced, std::uint64_t seed = 1)
      : pair_rig{mode, true, {}, {}, seed} {
    fill(a->memory, buffer_bytes, 1);
  }
  std::uint32_t rule(const std::string& text) {
    const auto id = net->add_rule(text);
    REQUIRE_MESSAGE(id, (id ? "" : id.error().to_string()));
    return *id;
  }
  /// Write number `i` puts its bytes at 64 * i.
  void write(std::uint64_t i, std::uint32_t length = 64, bool signaled = true) {
    CHECK(a->write(i, b->where(), 64 * i, 64 * i, length, signaled) == 0);
  }
  bool landed(std::uint64_t i) const { return arrived(*a, *b, 64 * i, 64); }
  std::uint64_t hits(std::uint32_t id) const {
    for (const auto& r : net->rules())
      if (r.id == id)
        return r.hits;
    return 0;
  }
  std::vector<std::string> verdicts() const {
    std::vector<std::string> all;
    for (const auto& e : log())
      if (e.kind == log_kind::rule)
        all.push_back(e.verdict + ' ' + e.op + ' ' + std::to_string(e.wr));
    return all;
  }
};

} // namespace actor_rdma::verbs::soft::testing
