// SPDX-License-Identifier: Apache-2.0
//
// Log lines, one per event. A line is formatted only when its level is enabled; it then goes to a sink, which
// is standard error until a host program takes the logs over. Repeated events go through a rate_limiter
// first, which counts what it holds back. The library behind the sink is an affair of log.cpp.
#pragma once

#include "base/time.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::base {

enum class level : std::uint8_t { trace, debug, info, warn, error, off };

[[nodiscard]] const char* to_string(level at) noexcept;
[[nodiscard]] std::optional<level> parse_level(std::string_view name) noexcept;

namespace detail {
inline std::atomic<level> log_threshold{level::info};

void write_log(level at, std::string_view component, std::string_view text) noexcept;
} // namespace detail

inline void set_level(level threshold) noexcept {
  detail::log_threshold.store(threshold, std::memory_order_relaxed);
}
[[nodiscard]] inline bool enabled(level at) noexcept {
  return at >= detail::log_threshold.load(std::memory_order_relaxed) && at != level::off;
}

/// Receives "component: text". It is called by any thread, one call at a time, and must not log. Empty: back
/// to standard error.
using log_sink = std::function<void(level, std::string_view)>;
void set_sink(log_sink sink);

/// How many lines of this level were written since the process began.
[[nodiscard]] std::uint64_t lines_written(level at) noexcept;

template <class... Args>
void log(level at, std::string_view component, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!enabled(at))
    return;
  try {
    fmt::memory_buffer text;
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    detail::write_log(at, component, {text.data(), text.size()});
  } catch (...) {
    // A log line must never be what stops a transfer.
    detail::write_log(at, component, "(a log line could not be formatted)");
  }
}

/// Allows a number of events per window and counts the others, so that a storm costs a few lines and none of
/// it is forgotten. Not thread-safe: each actor has its own.
class rate_limiter {
public:
  constexpr rate_limiter(std::uint32_t per_window, duration window) noexcept
      : per_window_{per_window}, window_{window} {}

  [[nodiscard]] constexpr bool allow(time_point now) noexcept {
    if (!started_ || now - window_start_ >= window_) {
      started_ = true;
      window_start_ = now;
      used_ = 0;
    }
    if (used_ < per_window_) {
      ++used_;
      return true;
    }
    ++suppressed_;
    ++suppressed_total_;
    return false;
  }

  /// Events held back since the last call: the next allowed line should say it.
  [[nodiscard]] constexpr std::uint64_t take_suppressed() noexcept { return std::exchange(suppressed_, 0); }
  [[nodiscard]] constexpr std::uint64_t suppressed_total() const noexcept { return suppressed_total_; }

private:
  std::uint32_t per_window_;
  duration window_;
  time_point window_start_{};
  bool started_ = false;
  std::uint32_t used_ = 0;
  std::uint64_t suppressed_ = 0;
  std::uint64_t suppressed_total_ = 0;
};

} // namespace actor_rdma::base
