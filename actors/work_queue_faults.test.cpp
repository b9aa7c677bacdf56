// SPDX-License-Identifier: Apache-2.0
// Memory that runs out inside the work queue: whichever allocation fails, every transfer ends once, and every
// WR is accounted for.
#include "actors/work_queue.hpp"
#include "actors/work_queue_rig.hpp"

#include <array>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

/// Allocations of this thread that still succeed; negative: all.
thread_local long allocations_left = -1;

} // namespace

// Not inlined: seen through, malloc and operator delete look mismatched to the compiler.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0)
    throw std::bad_alloc{};
  if (auto* p = std::malloc(size == 0 ? 1 : size))
    return p;
  throw std::bad_alloc{};
}

[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}

[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}

[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace {

/// Two QPs, four batches, and every kind of end that a WR can have, while the allocation of this number
/// fails.
class story final : public indifferent_owner {
public:
  explicit story(long failing) : left_(failing) {
    config_.slice_bytes = 100;
    config_.send_queue_depth = 8;
    auto memory = std::make_shared<remote_memory>();
    memory->ranges.resize(2);
    for (std::size_t i = 0; i < 2; ++i) {
      auto& r = memory->ranges[i];
      r.id = i + 1;
      r.addr = i << 30;
      r.length = 1u << 30;
      r.devices = 2;
      r.rkeys.assign(2, static_cast<std::uint32_t>(9 + i));
      queue_.add_slot(static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(i));
      queue_.set_usable(static_cast<slot_id>(i), true, 1);
    }
    target_ = memory;
    buffer_->length = 1u << 30;
    buffer_->devices = 2;
    buffer_->lkeys.assign(2, 7);
    all_.reserve(8);
    out_.reserve(256);
  }

  void tell() {
    submit({250, 30, 30, 30, 30, 400}, 0);
    submit({120, 50, 50, 700}, 1);
    pull();
    for (std::size_t i = 0; i < out_.size(); i += 2)
      suspect(*out_[i]);
    submit({60, 60, 500}, 0);
    end_all(0);
    answer();
    pull();
    submit({100, 20, 20, 20}, 1);
    attempt([&] { queue_.stop(*all_[2], transfer_status::cancelled, base::reason::cancelled); });
    end_all(3);
    for (int round = 0; round < 20 && ended_ < all_.size(); ++round) {
      const auto generation = static_cast<std::uint16_t>(round + 1);
      for (const slot_id s : {slot_id{0}, slot_id{1}}) {
        queue_.remote_fenced(s, generation, true);
        queue_.set_usable(s, true, static_cast<std::uint16_t>(generation + 1));
      }
      answer();
      pull();
      for (const auto& c : out_)
        end(*c, [](std::size_t) { return wr_end::success; });
      out_.clear();
    }
  }

  void judge() const {
    CHECK(ended_ == all_.size());
    CHECK(queue_.open_batches() == 0);
    CHECK(queue_.outstanding() == 0);
    CHECK(queue_.waiting_slices() == 0);
    for (const auto& b : all_) {
      CHECK(b->done());
      for (const auto& t : b->transfers()) {
        CHECK(t.wrs == 0);
        CHECK(t.fences == 0);
        CHECK(t.queued == 0);
        const auto status = t.status.load();
        CHECK(status != transfer_status::pending);
        CHECK((status == transfer_status::completed) == (t.done.load() == t.length));
      }
    }
  }
  bool threw() const noexcept { return threw_; }

private:
  void batch_ended(const std::shared_ptr<batch_state>&) noexcept override { ++ended_; }
  void keys_refused() override { asked_ = true; }

  template <class Call>
  bool attempt(Call&& call) {
    allocations_left = left_;
    bool good = true;
    try {
      call();
    } catch (const std::bad_alloc&) {
      good = false;
    }
    left_ = std::exchange(allocations_left, -1L);
    if (good)
      return true;
    left_ = -1;
    threw_ = true;
    queue_.recover();
    if (!asked_)
      queue_.refresh_failed(base::reason::internal);
    return false;
  }

  void answer() {
    if (std::exchange(asked_, false))
      attempt([&] { queue_.refreshed(target_); });
  }

  void submit(std::initializer_list<std::uint64_t> lengths, std::uint16_t range) {
    auto b = std::make_shared<batch_state>(target_, lengths.size());
    b->locals.push_back(buffer_);
    std::uint64_t at = 0;
    std::size_t i = 0;
    for (const auto length : lengths) {
      auto& t = b->transfers()[i++];
      t.local = at;
      t.remote = target_->ranges[range].addr + at;
      t.remote_buffer = range;
      t.length = length;
      at += length;
    }
    all_.push_back(b);
    if (attempt([&] { queue_.submit(b); }))
      return;
    if (queue_.find(b->serial) != b)
      queue_.submit(b);
    queue_.stop(*b, transfer_status::failed, base::reason::internal);
  }

  void pull() {
    for (;;) {
      auto c = std::make_shared<chunk>();
      bool some = false;
      if (!attempt([&] { some = queue_.pull(*c, now_); })) {
        end(*c, [](std::size_t) { return wr_end::unposted; });
        continue;
      }
      if (!some)
        return;
      out_.push_back(std::move(c));
    }
  }

  void suspect(chunk& posted) {
    const auto c = suspicion_of(posted);
    attempt([&] { queue_.suspected(c); });
  }

  template <class How>
  void end(const chunk& posted, How&& how) {
    auto c = posted;
    for (std::size_t i = 0; i < c.count; ++i)
      c.slices[i].end = how(i);
    if (c.count > 0)
      attempt([&] { queue_.ended(c, now_ += 1us); });
  }

  void end_all(std::size_t from) {
    constexpr std::array ends{wr_end::success, wr_end::flushed, wr_end::no_access, wr_end::error,
                              wr_end::refused, wr_end::fault,   wr_end::unposted};
    for (const auto& c : out_)
      end(*c, [&](std::size_t) { return ends[from++ % ends.size()]; });
    out_.clear();
  }

  settings config_;
  work_queue queue_{config_, *this};
  std::shared_ptr<local_buffer> buffer_ = std::make_shared<local_buffer>();
  std::shared_ptr<const remote_memory> target_;
  std::vector<std::shared_ptr<batch_state>> all_;
  std::vector<chunk_ptr> out_;
  base::time_point now_{1s};
  long left_;
  std::size_t ended_ = 0;
  bool asked_ = false;
  bool threw_ = false;
};

} // namespace

TEST_CASE("whichever allocation of the work queue fails, every transfer ends once and no WR is lost") {
  long failing = 0;
  for (bool some = true; some; ++failing) {
    CAPTURE(failing);
    story s(failing);
    s.tell();
    s.judge();
    some = s.threw();
  }
  CHECK(failing > 10);
}
