// SPDX-License-Identifier: Apache-2.0
// Importing the target's memory.
#include "bench/target_link.hpp"

#include "bench/text.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

using namespace std::chrono_literals;

constexpr base::duration one_attempt = 1s;
constexpr base::duration between_attempts = 50ms;

} // namespace

base::expected<void> target_link::connect(base::duration timeout, const std::function<bool()>& stop) {
  std::lock_guard dialling(dialling_);
  const auto until = base::mono_clock::now() + timeout;
  for (;;) { // in steps, for a signal may say that it is not wanted any more
    const auto left = until - base::mono_clock::now();
    auto done = import(std::min(left, one_attempt));
    if (done || done.error().why != base::reason::peer_silent)
      return done;
    if (stop())
      return base::fail(base::reason::cancelled, "", "told to stop before " + address_ + " had answered");
    if (left > one_attempt)
      continue;
    auto why = done.error();
    why.what = fmt::format("no connection within {}: {}", time_text(timeout), why.what);
    return base::fail(std::move(why));
  }
}

base::expected<void> target_link::import(base::duration timeout) {
  auto found = from_.import_segment(address_, timeout);
  if (!found)
    return base::fail(found.error());
  view v;
  v.target = std::move(*found);
  v.incarnation = v.target.incarnation();
  std::uint64_t largest = 0;
  for (const auto& b : v.target.buffers()) {
    largest = std::max(largest, b.length);
    if (v.base == 0 && b.length >= range_)
      v.base = b.addr;
  }
  if (v.incarnation == 0)
    return base::fail(base::reason::peer_dead, "", address_ + " was there and has gone again");
  if (v.base == 0)
    return base::fail(
        base::reason::out_of_range, "",
        fmt::format("{} publishes {} bytes of memory, --range {} needs more: start both ends with the same "
                    "--range",
                    address_, largest, size_text(range_)));
  std::lock_guard lock(mutex_);
  v.connection = view_.connection + 1;
  view_ = std::move(v);
  return {};
}

target_link::view target_link::current() const {
  std::lock_guard lock(mutex_);
  return view_;
}

bool target_link::reconnect(std::uint64_t older_than, base::time_point until, const std::atomic<bool>& stop) {
  std::lock_guard dialling(dialling_);
  if (current().connection > older_than)
    return true;
  const auto begin = base::mono_clock::now();
  bool said_why = false;
  while (!stop.load(std::memory_order_relaxed)) {
    const auto left = until - base::mono_clock::now();
    if (left <= base::duration::zero())
      break;
    const auto connected = import(std::min(left, one_attempt));
    if (connected) {
      fmt::print(stderr, "the target at {} is back after {}\n", address_,
                 time_text(base::mono_clock::now() - begin));
      return true;
    }
    if (!std::exchange(said_why, true))
      fmt::print(stderr, "waiting for the target at {}: {}\n", address_, connected.error().to_string());
    std::this_thread::sleep_for(std::min(left, between_attempts));
  }
  return false;
}

void target_link::report(const view& of, base::reason cause, const std::string& text) {
  std::lock_guard lock(mutex_);
  if (reported_connection_ != of.connection)
    reported_causes_ = 0;
  reported_connection_ = of.connection;
  const auto bit = 1u << static_cast<unsigned>(cause);
  if ((reported_causes_ & bit) != 0)
    return;
  reported_causes_ |= bit;
  fmt::print(stderr, "{}\n", text);
}

} // namespace actor_rdma::bench
