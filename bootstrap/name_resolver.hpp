// SPDX-License-Identifier: Apache-2.0
//
// Looks host names up without making anyone wait. A lookup may block for many seconds and cannot be
// interrupted, so each runs on a thread that nobody joins: stop() waits a little and then leaves it behind
// with what it owns. There are at most a few such threads; they end when no question is left.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "bootstrap/socket_address.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace actor_rdma::bootstrap {

class name_resolver {
public:
  using answer = base::expected<std::vector<socket_address>>;
  /// Called on a resolver thread. It may still run after stop(), and must own what it uses.
  using on_answer = std::function<void(std::uint64_t token, answer)>;

  name_resolver(name_lookup lookup, on_answer done);
  ~name_resolver();
  name_resolver(const name_resolver&) = delete;
  name_resolver& operator=(const name_resolver&) = delete;

  /// A question that has not been taken up when it expires is dropped without an answer.
  void ask(std::uint64_t token, host_port where, base::time_point expires);
  void stop(base::duration patience);

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace actor_rdma::bootstrap
