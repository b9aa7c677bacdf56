// SPDX-License-Identifier: Apache-2.0
//
// The evidence of what rules did: every decision goes into the fabric's event log, and on request, as a line
// of JSON, to a file to which every process of the fabric may append.
#pragma once

#include "base/error.hpp"
#include "verbs/soft/event_log.hpp"
#include "verbs/soft/layout.hpp"
#include "verbs/soft/rules/rule.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace actor_rdma::verbs::soft {

/// What a rule decided about.
struct verdict_subject {
  std::uint32_t device = 0;
  std::uint32_t peer = UINT32_MAX; ///< device slot, if there is one
  std::uint32_t qp_num = 0;
  std::uint32_t code = 0; ///< work_op, verb or ibv_event_type, by the rule's target
  std::uint64_t wr = 0;   ///< number of the work request on its queue pair, from 0
  logged_work work{};
};

/// Puts a decision on record.
log_entry write_verdict(layout::tables& t, nanos at, std::uint32_t rule_id, const rule& what,
                        std::uint32_t detail, const verdict_subject& subject);

/// "status:REM_ACCESS_ERR", "drop".
[[nodiscard]] std::string verdict_text(rule_action action, std::uint32_t detail);
/// "write", "reg_mr", "PORT_ERR".
[[nodiscard]] std::string subject_text(rule_target target, std::uint32_t code);

class verdict_file {
public:
  /// Creates the file if it is absent, and appends.
  [[nodiscard]] static base::expected<verdict_file> open(const std::string& path);
  verdict_file() = default;
  verdict_file(verdict_file&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  verdict_file& operator=(verdict_file&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~verdict_file();
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  /// One write per line: lines of several processes do not mix.
  void append(const log_entry& entry) const;

private:
  int fd_ = -1;
};

} // namespace actor_rdma::verbs::soft
