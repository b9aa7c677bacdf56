// SPDX-License-Identifier: Apache-2.0
// Lives, questions and answers.
#include "drill/real/real_host.hpp"

#include "drill/real/host_outbox.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <poll.h>

namespace actor_rdma::drill {

namespace {

constexpr auto kill_patience = std::chrono::seconds{5};
/// A shutdown has 8 s of its own.
constexpr auto stop_patience = std::chrono::seconds{12};

base::time_point time_of(const nlohmann::json& ns) {
  return base::time_point{base::duration{ns.get<std::int64_t>()}};
}

} // namespace

base::expected<void> real_host::start(const std::string& file, const std::vector<std::string>& devices,
                                      std::vector<int> memory) {
  auto made = host_process::start({file, name(), devices, address_, std::move(memory)});
  if (!made)
    return base::fail(made.error());
  process_ = std::move(*made);
  ++life_;
  may_end_ = false;
  loop_.watch(
      process_->socket().fd(),
      {[this] { return static_cast<short>(process_->socket().has_waiting() ? POLLIN | POLLOUT : POLLIN); },
       [this](short) { read(); }});
  return {};
}

void real_host::read() {
  process_->socket().flush();
  bool is_over = false;
  const auto life = life_;
  for (const auto& what : process_->socket().receive(is_over)) {
    hear(what);
    if (process_ == nullptr || life_ != life)
      return;
  }
  if (!is_over)
    return;
  loop_.unwatch(process_->socket().fd());
  if (may_end_)
    return;
  const auto how = process_->ended(kill_patience);
  leave();
  crashed(how.value_or("the process closed its socket and is still there"));
}

void real_host::hear(const json& what) {
  if (what.contains("answer")) {
    const auto found = waiting_.find(what.at("answer").get<std::uint64_t>());
    if (found == waiting_.end())
      return;
    const auto then = std::move(found->second);
    waiting_.erase(found);
    then(what);
  } else if (what.contains("event")) {
    event(event_from_json(what.at("event")));
  } else if (what.contains("ended")) {
    ended(what.at("ended").get<std::uint64_t>(), time_of(what.at("at_ns")), what.at("results"));
  } else if (what.contains("log")) {
    log(time_of(what.at("at_ns")), what.at("log").get<std::string>());
  } else if (what.contains("ready")) {
    address_ = what.at("ready").get<std::string>();
    is_ready_ = true;
    ready();
  } else if (what.contains("failed")) {
    const auto why = what.at("failed").get<std::string>();
    leave();
    crashed("it cannot start: " + why);
  }
}

void real_host::leave() {
  if (process_ == nullptr)
    return;
  if (is_frozen_)
    freezes_.back().to = loop_.now();
  is_frozen_ = is_ready_ = false;
  waiting_.clear();
  loop_.unwatch(process_->socket().fd());
  process_.reset();
}

void real_host::kill() {
  process_->signal(SIGKILL);
  (void)process_->ended(kill_patience);
  // What it said before counts.
  bool is_over = false;
  is_ready_ = false;
  for (const auto& what : process_->socket().receive(is_over))
    if (what.contains("event") || what.contains("ended") || what.contains("log"))
      hear(what);
  leave();
}

std::string real_host::terminate(std::vector<std::string>& left) {
  process_->signal(SIGTERM);
  is_ready_ = false;
  bool has_told = false;
  const auto listen = [&] {
    bool is_over = false;
    for (const auto& what : process_->socket().receive(is_over))
      if (what.contains("stopped")) {
        left = what.at("stopped").get<std::vector<std::string>>();
        has_told = true;
      } else if (!what.contains("ready") && !what.contains("failed")) {
        hear(what);
      }
  };
  const auto until = base::mono_clock::now() + stop_patience;
  std::optional<std::string> end;
  while (!end && base::mono_clock::now() < until) {
    listen(); // or it could not say what it has to
    end = process_->ended(std::chrono::milliseconds{1});
  }
  listen();
  const bool is_well = end && process_->ended_well() && has_told;
  leave();
  return is_well ? std::string{} : end.value_or("it did not end in time");
}

void real_host::freeze(bool on) {
  process_->signal(on ? SIGSTOP : SIGCONT);
  is_frozen_ = on;
  if (on)
    freezes_.push_back({loop_.now()});
  else
    freezes_.back().to = loop_.now();
}

base::duration real_host::frozen_since(base::time_point since) const {
  base::duration sum{};
  for (const auto& f : freezes_)
    sum += std::max(base::duration::zero(), std::min(f.to, loop_.now()) - std::max(f.from, since));
  return sum;
}

void real_host::ask(json order, reply then) {
  if (process_ == nullptr)
    return;
  order["call"] = next_call_;
  waiting_[next_call_++] = std::move(then);
  may_end_ = may_end_ || order.at("do") == "stop";
  process_->socket().send(order);
}

std::string real_host::wait_for_end(base::duration limit) {
  const auto how = process_->ended(limit);
  if (how && process_->ended_well())
    return {};
  return how.value_or(fmt::format("the process is still there after {} s", limit / std::chrono::seconds{1}));
}

} // namespace actor_rdma::drill
