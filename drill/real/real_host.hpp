// SPDX-License-Identifier: Apache-2.0
// One host of a scenario, as the conductor sees it over the lives of its processes: whether one is there and
// runs, what it is asked and answers, and what it tells unasked. All on the conductor's thread.
#pragma once

#include "drill/real/event_loop.hpp"
#include "drill/real/host_process.hpp"
#include "drill/scenario.hpp"
#include "observe/events.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace actor_rdma::drill {

class real_host {
public:
  using json = nlohmann::json;
  /// The answer's members; "error" if it is one.
  using reply = std::function<void(const json&)>;

  real_host(const host_spec& spec, event_loop& loop) : spec_(spec), loop_(loop) {}
  ~real_host() { leave(); }

  const std::string& name() const noexcept { return spec_.name; }
  const host_spec& spec() const noexcept { return spec_; }
  const std::string& address() const noexcept { return address_; }

  /// A process for it; is_alive() when that has said that it is ready. The first one chooses an address, the
  /// later ones get the same. `devices`: words by which it finds them.
  base::expected<void> start(const std::string& file, const std::vector<std::string>& devices,
                             std::vector<int> memory);
  void kill();
  /// SIGTERM, and waits for its end. What is wrong with that, if anything; else `left` is what it could not
  /// release.
  std::string terminate(std::vector<std::string>& left);
  void freeze(bool on);
  /// Its process is there and answers, or would if it were not stopped.
  bool is_alive() const noexcept { return is_ready_; }
  bool is_there() const noexcept { return process_ != nullptr; }
  bool is_frozen() const noexcept { return is_frozen_; }
  /// How long it was stopped since then.
  base::duration frozen_since(base::time_point since) const;
  /// -1: there is none.
  pid_t process() const noexcept { return process_ ? process_->pid() : -1; }
  /// Counts processes.
  std::uint64_t life() const noexcept { return life_; }

  std::string waits_for() const { return process_ ? process_->waits_for() : std::string{}; }
  /// Answered at most once: never by a process that is gone.
  void ask(json order, reply then);
  /// Waits for its end after a "stop"; what is wrong with it, if anything.
  std::string wait_for_end(base::duration limit);

  std::function<void()> ready;
  std::function<void(const observe::event&)> event;
  std::function<void(base::time_point, const std::string&)> log;
  /// number of the batch, its results as [status, cause, unconfirmed], and with devices of the
  /// kernel [[rail, bytes]...]
  std::function<void(std::uint64_t, base::time_point, const json&)> ended;
  /// It is gone and nobody killed it: why.
  std::function<void(const std::string&)> crashed;

private:
  struct span {
    base::time_point from;
    base::time_point to = base::time_never;
  };
  void leave();
  void hear(const json& what);
  void read();

  const host_spec& spec_;
  event_loop& loop_;
  std::unique_ptr<host_process> process_;
  std::string address_ = "127.0.0.1:0";
  bool is_ready_ = false;
  bool is_frozen_ = false;
  bool may_end_ = false; ///< it was told to
  std::uint64_t life_ = 0;
  std::uint64_t next_call_ = 1;
  std::map<std::uint64_t, reply> waiting_;
  std::vector<span> freezes_;
};

} // namespace actor_rdma::drill
