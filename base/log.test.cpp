// SPDX-License-Identifier: Apache-2.0
//
// Tests of the log: what reaches a sink, what is never formatted, and what a storm costs.
#include "base/log.hpp"

#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma::base;
using namespace std::chrono_literals;

namespace {

/// Collects lines while it lives, then restores the default.
struct captured_log {
  std::vector<std::string> lines;

  captured_log() {
    set_sink([this](level at, std::string_view line) {
      lines.push_back(std::string{to_string(at)} + "|" + std::string{line});
    });
  }
  ~captured_log() {
    set_sink({});
    set_level(level::info);
  }
};

struct never_formatted {};

} // namespace

template <>
struct fmt::formatter<never_formatted> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const never_formatted&, Context& context) const {
    FAIL_CHECK("a disabled line was formatted");
    return context.out();
  }
};

TEST_CASE("a line reaches the sink as component and text") {
  captured_log log_lines;
  const auto before = lines_written(level::warn);
  log(level::warn, "qp", "QP {:#x} in {}", 0x2a, "ERR");
  REQUIRE(log_lines.lines.size() == 1);
  CHECK(log_lines.lines[0] == "warn|qp: QP 0x2a in ERR");
  CHECK(lines_written(level::warn) == before + 1);
}

TEST_CASE("a line below the level is not even formatted") {
  captured_log log_lines;
  set_level(level::error);
  log(level::warn, "qp", "{}", never_formatted{});
  CHECK(log_lines.lines.empty());
  CHECK_FALSE(enabled(level::warn));
  set_level(level::off);
  log(level::error, "qp", "nothing");
  log(level::off, "qp", "nothing");
  CHECK(log_lines.lines.empty());
  set_level(level::trace);
  log(level::trace, "qp", "something");
  CHECK(log_lines.lines.size() == 1);
}

TEST_CASE("a sink that throws loses its line and nothing else") {
  captured_log restore;
  set_sink([](level, std::string_view) { throw 1; });
  log(level::info, "qp", "lost");
  set_sink([](level, std::string_view) {});
  log(level::info, "qp", "fine");
}

TEST_CASE("many threads may log, and the sink sees one line at a time") {
  captured_log log_lines;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 250; ++i)
        log(level::info, "thread", "{} {}", t, i);
    });
  }
  for (auto& thread : threads)
    thread.join();
  CHECK(log_lines.lines.size() == 1000);
}

TEST_CASE("level names can be read back") {
  for (const auto at : {level::trace, level::debug, level::info, level::warn, level::error, level::off})
    CHECK(parse_level(to_string(at)) == at);
  CHECK_FALSE(parse_level("loud").has_value());
}

TEST_CASE("a rate limiter allows its number per window and counts the rest") {
  rate_limiter limiter{2, 1s};
  const time_point start{5s};
  CHECK(limiter.allow(start));
  CHECK(limiter.allow(start + 1ms));
  CHECK_FALSE(limiter.allow(start + 2ms));
  CHECK_FALSE(limiter.allow(start + 1s - 1ns));
  CHECK(limiter.allow(start + 1s));
  CHECK(limiter.take_suppressed() == 2);
  CHECK(limiter.take_suppressed() == 0);
  CHECK(limiter.suppressed_total() == 2);
}
