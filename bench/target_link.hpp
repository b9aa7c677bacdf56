// SPDX-License-Identifier: Apache-2.0
// The initiator's connection to the target's memory, shared by all submitting threads: made once at the begin
// and again when the target has died and come back.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "transport/transport.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace actor_rdma::bench {

class target_link {
public:
  /// What threads work with between two connections.
  struct view {
    segment target;
    std::uint64_t base = 0; ///< address of the range in the target
    std::uint64_t incarnation = 0;
    std::uint64_t connection = 0; ///< counts them, from 1

    /// Whether the target has gone, or another one is there.
    bool is_lost() const noexcept { return target.incarnation() != incarnation; }
  };

  target_link(transport& from, std::string address, std::uint64_t range)
      : from_(from), address_(std::move(address)), range_(range) {}

  /// out_of_range: the target is there, but publishes less memory than the range.
  base::expected<void> connect(base::duration timeout, const std::function<bool()>& stop);
  view current() const;
  /// Blocks until there is a newer connection than that one; false when `until` or `stop` came first. Of
  /// several threads one dials.
  bool reconnect(std::uint64_t older_than, base::time_point until, const std::atomic<bool>& stop);
  /// Says on standard error why transfers fail; once per connection and cause.
  void report(const view& of, base::reason cause, const std::string& text);

private:
  base::expected<void> import(base::duration timeout);

  transport& from_;
  const std::string address_;
  const std::uint64_t range_;
  mutable std::mutex mutex_; // guards what follows
  view view_;
  std::uint64_t reported_connection_ = 0;
  std::uint32_t reported_causes_ = 0; ///< one bit per reason
  std::mutex dialling_;
};

} // namespace actor_rdma::bench
