// SPDX-License-Identifier: Apache-2.0
// A program under test as a child process. Whatever happens it does not outlive the test, and every wait for
// it has a limit.
#pragma once

#include "base/time.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace actor_rdma::process {

class child {
public:
  /// argv[0] is the program's path.
  explicit child(std::vector<std::string> argv);
  /// Kills it if it still runs.
  ~child();
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// Its exit status, or 128 + the signal that ended it; nothing if it still runs after `limit`.
  std::optional<int> wait(base::duration limit);
  /// Whether `text` appeared on its standard output or error within `limit`. False too when it ended without.
  bool wait_for_text(const std::string& text, base::duration limit);
  void signal(int number) const;
  pid_t pid() const noexcept { return pid_; }
  std::string output() const;
  std::string errors() const;
  /// User and system time it has used.
  base::duration cpu_time() const;

private:
  pid_t pid_ = -1;
  int output_fd_ = -1;
  int error_fd_ = -1;
  std::optional<int> status_;
};

/// The benchmark with these arguments.
std::vector<std::string> bench_command(std::vector<std::string> arguments);

/// A name of a fabric that nobody else uses; what killed processes left of it is removed at the end.
class fabric_name {
public:
  fabric_name();
  ~fabric_name();
  fabric_name(const fabric_name&) = delete;
  fabric_name& operator=(const fabric_name&) = delete;
  const std::string& get() const noexcept { return name_; }

private:
  std::string name_;
};

/// A target that listens. Check `address` before use: it is empty when the target did not come up.
struct target_process {
  target_process(const std::string& fabric, std::vector<std::string> arguments,
                 const std::string& listen = "127.0.0.1:0");
  child process;
  std::string address;
};

} // namespace actor_rdma::process
