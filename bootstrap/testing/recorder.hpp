// SPDX-License-Identifier: Apache-2.0
//
// A channel_handler that writes down what it hears, for channels with and without a thread of their own.
#pragma once

#include "bootstrap/channel.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace actor_rdma::bootstrap::testing {

class recorder : public channel_handler {
public:
  enum class kind { accepted, dialled, message, closed };
  struct event {
    kind what;
    link_id link;
    std::string peer; // accepted
    message content;  // message
    base::error why;  // closed
  };

  void on_accepted(link_id link, const std::string& peer_address) override {
    add({kind::accepted, link, peer_address, {}, {}});
  }
  void on_dialled(link_id link) override { add({kind::dialled, link, {}, {}, {}}); }
  void on_message(link_id link, message&& what) override {
    add({kind::message, link, {}, std::move(what), {}});
  }
  void on_closed(link_id link, const base::error& why) override { add({kind::closed, link, {}, {}, why}); }

  /// To be called after an event is recorded, on the channel's thread.
  void then(std::function<void(const event&)> what) {
    const std::lock_guard lock{mutex_};
    then_ = std::move(what);
  }

  [[nodiscard]] std::vector<event> events() const {
    const std::lock_guard lock{mutex_};
    return events_;
  }
  [[nodiscard]] std::vector<event> events(kind what) const {
    std::vector<event> result;
    for (auto& it : events()) {
      if (it.what == what)
        result.push_back(std::move(it));
    }
    return result;
  }
  [[nodiscard]] std::size_t count(kind what) const { return events(what).size(); }
  [[nodiscard]] std::vector<event> of_link(link_id link) const {
    std::vector<event> result;
    for (auto& it : events()) {
      if (it.link == link)
        result.push_back(std::move(it));
    }
    return result;
  }
  /// Why a link ended; reason::none while it lives.
  [[nodiscard]] base::error end_of(link_id link) const {
    for (const auto& it : of_link(link)) {
      if (it.what == kind::closed)
        return it.why;
    }
    base::error none;
    none.why = base::reason::none;
    return none;
  }

  /// Waits until there are so many events of a kind.
  bool wait(kind what, std::size_t number, std::chrono::milliseconds patience = std::chrono::seconds{5}) {
    return wait_until([&] { return count(what) >= number; }, patience);
  }
  bool wait_closed(link_id link, std::chrono::milliseconds patience = std::chrono::seconds{5}) {
    return wait_until([&] { return end_of(link).why != base::reason::none; }, patience);
  }
  bool wait_until(const std::function<bool()>& holds,
                  std::chrono::milliseconds patience = std::chrono::seconds{5}) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!holds()) {
      std::unique_lock lock{mutex_};
      if (std::chrono::steady_clock::now() >= deadline)
        return false;
      changed_.wait_for(lock, std::chrono::milliseconds{10});
    }
    return true;
  }

private:
  void add(const event& what) {
    std::function<void(const event&)> next;
    {
      const std::lock_guard lock{mutex_};
      events_.push_back(what);
      next = then_;
    }
    changed_.notify_all();
    if (next)
      next(what);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<event> events_;
  std::function<void(const event&)> then_;
};

} // namespace actor_rdma::bootstrap::testing
