// SPDX-License-Identifier: Apache-2.0
// A writer thread with blocking writes.
#include "drill/real/host_outbox.hpp"

#include "base/log.hpp"
#include "base/time.hpp"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace actor_rdma::drill {

host_outbox::host_outbox(int fd) : fd_(fd), thread_([this] { loop(); }) {}

host_outbox::~host_outbox() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void host_outbox::say(const nlohmann::json& what) {
  const auto line = what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  {
    std::lock_guard lock(mutex_);
    waiting_ += line;
  }
  changed_.notify_all();
}

void host_outbox::log_line(std::string_view text) {
  say({{"log", text}, {"at_ns", base::mono_clock::now().time_since_epoch().count()}});
}

void host_outbox::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty())
      return;
    const auto now = std::exchange(waiting_, {});
    lock.unlock();
    for (std::size_t done = 0; done < now.size();) {
      const auto n = ::send(fd_, now.data() + done, now.size() - done, MSG_NOSIGNAL);
      if (n < 0 && errno != EINTR)
        break; // the conductor is gone, which the reader sees
      done += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    lock.lock();
  }
}

log_to_conductor::log_to_conductor(host_outbox& out) {
  base::set_level(base::level::info);
  base::set_sink([&out](base::level, std::string_view text) { out.log_line(text); });
}
log_to_conductor::~log_to_conductor() {
  base::set_sink({});
}

nlohmann::json to_json(const observe::event& e) {
  return {static_cast<unsigned>(e.kind),  e.subject, e.from, e.to, e.detail, e.value,
          e.at.time_since_epoch().count()};
}

observe::event event_from_json(const nlohmann::json& j) {
  observe::event e;
  e.kind = static_cast<observe::event_kind>(j.at(0).get<unsigned>());
  e.subject = j.at(1).get<std::string>();
  e.from = j.at(2).get<std::string>();
  e.to = j.at(3).get<std::string>();
  e.detail = j.at(4).get<std::string>();
  e.value = j.at(5).get<std::uint64_t>();
  e.at = base::time_point{base::duration{j.at(6).get<std::int64_t>()}};
  return e;
}

void event_reporter::on_event(const observe::event& what) {
  to_->say({{"event", to_json(what)}});
}

} // namespace actor_rdma::drill
