// SPDX-License-Identifier: Apache-2.0
// The process of one host as the conductor sees it: this program again, in the role of drill/real/host_role.
// It dies with the conductor's main thread, whatever becomes of that.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "drill/real/line_socket.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace actor_rdma::drill {

class host_process {
public:
  struct start_options {
    std::string file; ///< of the scenario
    std::string host;
    std::vector<std::string> devices; ///< words by which it finds them
    std::string listen;
    std::vector<int> memory; ///< descriptors that it inherits, under their numbers
  };
  static base::expected<std::unique_ptr<host_process>> start(const start_options& how);
  /// Kills it if it still runs.
  ~host_process();
  host_process(const host_process&) = delete;
  host_process& operator=(const host_process&) = delete;

  line_socket& socket() noexcept { return socket_; }
  void signal(int number) const;
  /// How it ended, in words; nothing while it runs. Waits for that as long as `limit`.
  std::optional<std::string> ended(base::duration limit = {});
  /// It ended by itself, without a complaint.
  bool ended_well() const noexcept { return ended_well_; }
  pid_t pid() const noexcept { return pid_; }
  /// What its threads wait for in the kernel, as far as we may know: "drill: ep_poll, lane0:
  /// futex_wait_queue".
  std::string waits_for() const;

private:
  host_process(pid_t pid, line_socket socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_;
  line_socket socket_;
  std::optional<std::string> end_;
  bool ended_well_ = false;
};

} // namespace actor_rdma::drill
