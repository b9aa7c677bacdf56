// SPDX-License-Identifier: Apache-2.0
//
// Tests of what a lane watches: completion queues, before and beside deadlines, awake and asleep, and
// descriptors.
#include "actors/lane_watch.hpp"

#include "actors/lane_rig.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

using namespace std::chrono_literals;

namespace actor_rdma::actors {

using namespace testing;

// -- completion queues ----------------------------------------------------------------------------

TEST_CASE("completions that are older than a deadline come before it, however many there are") {
  for (const int capacity : {100, 4096}) {
    fake_queue queue{capacity};
    recorder_sink sink;
    one_lane l;
    l.on_lane([&] { l->watch_cq(queue.cq(), queue.channel(), sink); });
    l.on_lane([&] {
      l->arm(l->now() + 1ms, sink, 1000);
      for (std::uint64_t i = 0; i < 90; ++i) // more than one batch
        queue.complete(i);
      std::this_thread::sleep_for(5ms);
    });
    CHECK(eventually([&] { return sink.count == 91; }));
    l.on_lane([&] {
      CHECK(sink.largest_batch == 64);
      REQUIRE(sink.log.size() == 91);
      for (std::uint64_t i = 0; i < 90; ++i)
        CHECK(sink.log[i] == entry{'c', i});
      CHECK(sink.log[90] == entry{'d', 1000});
      l->unwatch_cq(queue.cq());
    });
  }
}

TEST_CASE("a queue that is never empty delays a deadline but does not prevent it") {
  fake_queue queue{256};
  std::uint64_t completed = 0;
  std::atomic<bool> fired{false};
  function_sink refill;
  function_sink due;
  refill.body = [&] { // hands in as much as it takes out
    for (int i = 0; i < 64; ++i)
      queue.complete(++completed);
  };
  due.body = [&] { fired = true; };
  one_lane l;
  l.on_lane([&] {
    for (int i = 0; i < 256; ++i)
      queue.complete(++completed);
    l->watch_cq(queue.cq(), queue.channel(), refill);
    l->arm(l->now(), due, 0);
  });
  CHECK(eventually([&] { return fired.load(); }));
  l.on_lane([&] { l->unwatch_cq(queue.cq()); });
}

TEST_CASE("a completion wakes a sleeping lane through the channel, once for each time it was armed") {
  fake_queue queue;
  recorder_sink sink;
  one_lane l;
  l.on_lane([&] { l->watch_cq(queue.cq(), queue.channel(), sink); });
  for (std::uint64_t i = 1; i <= 20; ++i) {
    l.await_sleep();
    queue.complete(i);
    REQUIRE(eventually([&] { return sink.count == i; }));
  }
  CHECK(queue.armings() >= 20);
  l.on_lane([&] { l->unwatch_cq(queue.cq()); });
}

TEST_CASE("a completion that slips in between the last poll and arming is not slept through") {
  fake_queue queue;
  recorder_sink sink;
  one_lane l;
  queue.complete_after_next_arming(77);
  l.on_lane([&] { l->watch_cq(queue.cq(), queue.channel(), sink); });
  CHECK(eventually([&] { return sink.count == 1; }));
  l.on_lane([&] {
    CHECK(sink.log == std::vector<entry>{{'c', 77}});
    l->unwatch_cq(queue.cq());
  });
}

TEST_CASE("a queue that cannot be polled, armed or watched fails once and is left alone") {
  fake_queue queue;
  recorder_sink sink;
  one_lane l;
  SUBCASE("polled") {
    l.on_lane([&] { l->watch_cq(queue.cq(), queue.channel(), sink); });
    queue.break_polling();
    l.on_lane([] {});
    CHECK(eventually([&] { return sink.count == 1; }));
    l.on_lane([&] { CHECK(sink.log == std::vector<entry>{{'f', EIO}}); });
  }
  SUBCASE("armed") {
    queue.break_arming(ENODEV);
    l.on_lane([&] { l->watch_cq(queue.cq(), queue.channel(), sink); });
    CHECK(eventually([&] { return sink.count == 1; }));
    l.on_lane([&] { CHECK(sink.log == std::vector<entry>{{'f', ENODEV}}); });
  }
  SUBCASE("watched") {
    const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC); // epoll refuses files
    REQUIRE(file >= 0);
    const int real = std::exchange(queue.cq()->channel->fd, file);
    l.on_lane([&] { l->watch_cq(queue.cq(), queue.channel(), sink); });
    CHECK(eventually([&] { return sink.count == 1; }));
    l.on_lane([&] { CHECK(sink.log == std::vector<entry>{{'f', EPERM}}); });
    queue.cq()->channel->fd = real;
    ::close(file);
  }
  const int polls = queue.polls();
  l.on_lane([] {});
  l.await_sleep();
  CHECK(queue.polls() == polls);
  CHECK(sink.count == 1);
}

TEST_CASE("queues may share a channel, and a sink may unwatch its queue and watch another") {
  fake_queue a;
  fake_queue b;
  ibv_cq second = *a.cq(); // of the same channel; finds what nobody took from a
  function_sink swap;
  recorder_sink sink;
  one_lane l;
  swap.body = [&] {
    l->unwatch_cq(a.cq());
    l->watch_cq(b.cq(), b.channel(), sink);
  };
  l.on_lane([&] {
    l->watch_cq(a.cq(), a.channel(), swap);
    l->watch_cq(&second, a.channel(), sink);
    a.complete(1);
    b.complete(2);
  });
  CHECK(eventually([&] { return sink.count == 1; }));
  l.await_sleep();
  a.complete(3);
  CHECK(eventually([&] { return sink.count == 2; }));
  l.await_sleep();
  b.complete(4);
  CHECK(eventually([&] { return sink.count == 3; }));
  l.on_lane([&] {
    CHECK(sink.log == std::vector<entry>{{'c', 2}, {'c', 3}, {'c', 4}});
    l->unwatch_cq(&second);
    l->unwatch_cq(b.cq());
    l->unwatch_cq(b.cq()); // not there any more
  });
}

// -- descriptors ----------------------------------------------------------------------------------

TEST_CASE("a descriptor is read while the lane sleeps and while it is busy") {
  test_pipe p;
  std::atomic<int> seen{0};
  function_sink sink;
  sink.body = [&] {
    p.empty();
    ++seen;
  };
  std::atomic<bool> busy{true};
  std::function<void()> again;
  one_lane l;
  l.on_lane([&] { l->watch_fd(p.ends[0], sink); });
  l.await_sleep();
  p.write();
  CHECK(eventually([&] { return seen == 1; }));

  again = [&] {
    if (busy)
      l->post(again);
  };
  l->post(again);
  const auto sleeps = l->counters().sleeps;
  p.write();
  CHECK(eventually([&] { return seen == 2; }));
  CHECK(l->counters().sleeps <= sleeps + 1);
  busy = false;

  l.on_lane([&] { l->unwatch_fd(p.ends[0]); });
  p.write();
  l.await_sleep();
  CHECK(seen == 2);
}

} // namespace actor_rdma::actors
