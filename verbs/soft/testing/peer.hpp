// SPDX-License-Identifier: Apache-2.0
//
// A second process for the NIC's tests: the test binary itself, run with one special case that obeys the
// lines it gets on a socket. It opens one end (rig.hpp) on a named fabric.
#pragma once

#include "verbs/soft/testing/rig.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace actor_rdma::verbs::soft::testing {

class peer_process {
public:
  /// Starts it and opens its end. `memory` is "shared" or "private".
  peer_process(const std::string& fabric, const std::string& host, const std::string& mode,
               const std::string& memory, const std::string& options = "");
  ~peer_process();
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;

  /// Sends a line and waits for the answer.
  std::string ask(const std::string& line);
  void send(const std::string& line);
  std::string receive();

  address where();
  void connect(const address& peer);
  /// Statuses of the completions that came within the time.
  std::vector<int> poll(std::size_t count, int timeout_ms = 5000);

  pid_t pid() const { return pid_; }
  /// Nothing once it has been killed.
  void signal(int number) const;
  /// SIGKILL, and waits for its end.
  void kill();
  /// Lets it destroy everything and end by itself; its exit code.
  int quit();

private:
  pid_t pid_ = -1;
  int fd_ = -1;
};

/// This process's end on the same fabric, with memory that the other one maps.
struct shared_target {
  explicit shared_target(const std::string& fabric_name);
  ~shared_target();
  shared_target(const shared_target&) = delete;
  shared_target& operator=(const shared_target&) = delete;

  std::shared_ptr<fabric> net;
  std::unique_ptr<host> on;
  void* memory = nullptr;
  std::unique_ptr<end> e;
};

std::string to_text(const address& a);
address to_address(const std::string& text);
/// A name of a fabric that no other test uses.
std::string unique_fabric();

} // namespace actor_rdma::verbs::soft::testing
