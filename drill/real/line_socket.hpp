// SPDX-License-Identifier: Apache-2.0
// JSON objects, one a line, over one end of a socket pair: how the conductor and the processes of the hosts
// speak. Reading and writing never block; what the other end does not take yet waits here.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace actor_rdma::drill {

class line_socket {
public:
  line_socket() = default;
  explicit line_socket(int fd); ///< takes it over
  ~line_socket();
  line_socket(line_socket&& other) noexcept;
  line_socket& operator=(line_socket&& other) noexcept;
  line_socket(const line_socket&) = delete;
  line_socket& operator=(const line_socket&) = delete;

  int fd() const noexcept { return fd_; }
  void send(const nlohmann::json& what);
  bool has_waiting() const noexcept { return !out_.empty(); }
  /// Sends what waits, as much as is taken.
  void flush();
  /// What has come, whole lines only; `ended` is set when there will be nothing more.
  std::vector<nlohmann::json> receive(bool& ended);

private:
  int fd_ = -1;
  std::string out_;
  std::string in_;
};

} // namespace actor_rdma::drill
