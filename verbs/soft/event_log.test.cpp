// SPDX-License-Identifier: Apache-2.0
//
// The ring of log entries.
#include "verbs/soft/event_log.hpp"

#include "verbs/soft/segment.hpp"
#include "verbs/soft/tables.hpp"

#include <set>
#include <string>
#include <thread>

#include <doctest/doctest.h>

using namespace actor_rdma::verbs::soft;

TEST_CASE("the log keeps the last entries and says where to go on") {
  auto memory = *segment::make_private(1);
  auto& t = memory.get();
  const auto device = *claim_device(t, 0, "h/soft0");
  std::uint64_t next = 0;
  CHECK(read_log(t, 0, next).empty());
  for (std::uint64_t i = 0; i < layout::log_capacity + 10; ++i)
    write_log(t, static_cast<nanos>(i), log_kind::posted, t.devices[device], 5, 0, {i, 2 * i, 3});
  const auto all = read_log(t, 0, next);
  CHECK(all.size() == layout::log_capacity);
  CHECK(next == layout::log_capacity + 10);
  CHECK(all.front().wr_id == 10);
  CHECK(all.back().remote_addr == 2 * (layout::log_capacity + 9));
  CHECK(all.back().device == "h/soft0");
  CHECK(read_log(t, next, next).empty());
  CHECK(read_log(t, 1U << 30, next).empty()); // beyond the end: from another life of the fabric
  CHECK(next == layout::log_capacity + 10);
}

TEST_CASE("a reader never sees half an entry, whoever writes beside it") {
  auto memory = *segment::make_private(1);
  auto& t = memory.get();
  const auto device = *claim_device(t, 0, "h/soft0");
  std::vector<std::thread> writers;
  for (std::uint64_t w = 0; w < 2; ++w)
    writers.emplace_back([&, w] {
      for (std::uint64_t i = 0; i < 50'000; ++i)
        write_log(t, 1, log_kind::posted, t.devices[device], 7, 0, {i * 2 + w, ~(i * 2 + w), 3});
    });
  std::uint64_t next = 0;
  std::uint64_t seen = 0;
  while (next < 100'000)
    for (const auto& e : read_log(t, next, next)) {
      REQUIRE(e.remote_addr == ~e.wr_id);
      ++seen;
    }
  for (auto& w : writers)
    w.join();
  CHECK(seen > 0);
}

TEST_CASE("every kind of entry has a name of its own") {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(log_kind::receiver_not_ready); ++i)
    names.insert(to_string(static_cast<log_kind>(i)));
  CHECK(names.size() == static_cast<std::size_t>(log_kind::receiver_not_ready) + 1);
  CHECK(names.count("unknown") == 0);
  CHECK(std::string{to_string(static_cast<log_kind>(200))} == "unknown");
}
