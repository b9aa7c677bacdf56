// SPDX-License-Identifier: Apache-2.0
// What a host's process tells the conductor, from any thread: kept here and written by a thread of its own,
// so that no lane ever waits for a conductor that is slow.
#pragma once

#include "observe/events.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <nlohmann/json.hpp>

namespace actor_rdma::drill {

class host_outbox {
public:
  explicit host_outbox(int fd);
  /// Writes what is left.
  ~host_outbox();
  host_outbox(const host_outbox&) = delete;
  host_outbox& operator=(const host_outbox&) = delete;

  void say(const nlohmann::json& what);
  void log_line(std::string_view text);

private:
  void loop();

  const int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

/// Tells every event of a transport.
class event_reporter final : public observe::event_sink {
public:
  explicit event_reporter(std::shared_ptr<host_outbox> to) : to_(std::move(to)) {}
  void on_event(const observe::event& what) override;

private:
  std::shared_ptr<host_outbox> to_;
};

/// Log lines of this process, from info on, go to the conductor while it is there.
class log_to_conductor {
public:
  explicit log_to_conductor(host_outbox& out);
  ~log_to_conductor();
  log_to_conductor(const log_to_conductor&) = delete;
  log_to_conductor& operator=(const log_to_conductor&) = delete;
};

nlohmann::json to_json(const observe::event& what);
observe::event event_from_json(const nlohmann::json& j);

} // namespace actor_rdma::drill
