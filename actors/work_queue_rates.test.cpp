// SPDX-License-Identifier: Apache-2.0
// What the queue learns of its rails' rates, and which share of the work they get for it.
#include "actors/work_queue.hpp"
#include "actors/work_queue_rig.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

/// Two rails that carry a slice in `each`, one after the other, and that is all there is to them.
class two_rails : public indifferent_owner {
public:
  two_rails() {
    config.slice_bytes = 100;
    config.send_queue_depth = 8;
    for (std::uint16_t i = 0; i < 2; ++i)
      queue.set_usable(queue.add_slot(i, i), true, 1);
  }

  /// A batch of so many slices is carried to its end. How many each rail had of it.
  std::array<std::size_t, 2> carry(std::size_t slices) {
    const auto b = std::make_shared<batch_state>(target, slices);
    b->locals.push_back(buffer);
    for (auto& t : b->transfers())
      t.length = 100;
    queue.submit(b);
    std::array<std::size_t, 2> given{};
    std::vector<chunk> out;
    for (chunk c; queue.pull(c, now); c.clear())
      out.push_back(c);
    struct ending {
      base::time_point at;
      chunk what;
    };
    std::vector<ending> ends;
    for (const auto& c : out)
      for (std::size_t i = 0; i < c.count; ++i) {
        ending e{now + each[c.slot] * static_cast<int>(++given[c.slot]), {}};
        e.what.slot = c.slot;
        e.what.generation = c.generation;
        e.what.add(c.slices[i].what, wr_end::success);
        ends.push_back(e);
      }
    std::stable_sort(ends.begin(), ends.end(), [](const auto& x, const auto& y) { return x.at < y.at; });
    for (const auto& e : ends)
      queue.ended(e.what, e.at);
    CHECK(b->done());
    now += 1ms;
    return given;
  }

  settings config;
  work_queue queue{config, *this};
  std::shared_ptr<local_buffer> buffer = one_buffer(1u << 30, 2);
  std::shared_ptr<const remote_memory> target = one_range(1u << 30, 2);
  std::array<base::duration, 2> each{10us, 10us};
  base::time_point now{1s};
};

} // namespace

TEST_CASE("a rail that was slow for a moment and is given little since is found to be fast again") {
  two_rails r;
  r.each[1] = 60us;
  for (int i = 0; i < 20; ++i)
    r.carry(8);
  CHECK(r.carry(8)[1] == 1);
  r.each[1] = 10us;
  std::size_t share = 0;
  for (int i = 0; i < 200; ++i)
    share = r.carry(8)[1];
  CHECK(share >= 3);
}

TEST_CASE("a rail that was measured slow and gets nothing is tried again after a while, however often work "
          "is sought") {
  two_rails r;
  r.each[1] = 5ms; // far too slow for any of eight slices
  for (int i = 0; i < 20; ++i)
    r.carry(8);
  r.each[1] = 10us;
  std::size_t given = 0;
  for (int ms = 0; ms < 700; ++ms) {
    given += r.carry(8)[1];
    chunk nothing;
    CHECK(!r.queue.pull(nothing, r.now)); // as its owner looks whenever something has changed
  }
  CHECK(given > 100);
}

TEST_CASE("small slices use a rail that is somewhat slower, however long a slice might be") {
  two_rails r;
  r.config.slice_bytes = 10'000; // the transfers have 100 each, and do not adjoin
  r.each[1] = 18us;
  std::array<std::size_t, 2> given{};
  for (int i = 0; i < 50; ++i)
    given = r.carry(8);
  CHECK(given[1] >= 2);
  CHECK(given[1] <= 4);
}
