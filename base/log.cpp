// SPDX-License-Identifier: Apache-2.0
//
// Where log lines go: spdlog on standard error, or the host program's sink.
#include "base/log.hpp"

#include <array>
#include <cstdio>
#include <memory>
#include <mutex>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace actor_rdma::base {

namespace {

constexpr std::array<const char*, 6> level_names{"trace", "debug", "info", "warn", "error", "off"};

struct log_state {
  std::mutex mutex;
  log_sink sink;
  // Our own logger rather than spdlog's registry: inside a host program that registry belongs to the host.
  spdlog::logger standard_error{"actor-rdma", std::make_shared<spdlog::sinks::stderr_sink_st>()};

  log_state() {
    standard_error.set_level(spdlog::level::trace);
    standard_error.set_pattern("%Y-%m-%dT%H:%M:%S.%f %l %v");
  }
};

// Never destroyed: threads may log while the process's static objects go away.
log_state& state() {
  static auto* const instance = new log_state;
  return *instance;
}

std::array<std::atomic<std::uint64_t>, level_names.size()> written{};

spdlog::level::level_enum spdlog_level(level at) noexcept {
  switch (at) {
  case level::trace: return spdlog::level::trace;
  case level::debug: return spdlog::level::debug;
  case level::info: return spdlog::level::info;
  case level::warn: return spdlog::level::warn;
  case level::error: return spdlog::level::err;
  case level::off: break;
  }
  return spdlog::level::off;
}

} // namespace

const char* to_string(level at) noexcept {
  const auto index = static_cast<std::size_t>(at);
  return index < level_names.size() ? level_names[index] : "unknown";
}

std::optional<level> parse_level(std::string_view name) noexcept {
  for (std::size_t i = 0; i < level_names.size(); ++i) {
    if (name == level_names[i])
      return static_cast<level>(i);
  }
  return std::nullopt;
}

void set_sink(log_sink sink) {
  auto& s = state();
  const std::lock_guard lock{s.mutex};
  s.sink = std::move(sink);
}

std::uint64_t lines_written(level at) noexcept {
  const auto index = static_cast<std::size_t>(at);
  return index < written.size() ? written[index].load(std::memory_order_relaxed) : 0;
}

namespace detail {

void write_log(level at, std::string_view component, std::string_view text) noexcept {
  try {
    fmt::memory_buffer line;
    fmt::format_to(std::back_inserter(line), "{}: {}", component, text);
    const std::string_view view{line.data(), line.size()};
    auto& s = state();
    const std::lock_guard lock{s.mutex};
    if (s.sink)
      s.sink(at, view);
    else
      s.standard_error.log(spdlog_level(at), spdlog::string_view_t{view.data(), view.size()});
    written[static_cast<std::size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  } catch (...) {
    std::fputs("actor-rdma: a log line was lost\n", stderr);
  }
}

} // namespace detail

} // namespace actor_rdma::base
