// SPDX-License-Identifier: Apache-2.0
// C-16: two nodes connect to each other at the same time, and one of them crashes and comes back at its
// address, at any step of it. Control messages are delivered one by one, in every order that differs from
// first come, first served in up to so many places. Each order must end with both directions connected, once,
// and for good.
#include "tests/sim/load.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace actor_rdma;
using namespace std::chrono_literals;

namespace {

/// At which steps another message than the oldest is delivered, and which.
using order = std::map<std::size_t, std::size_t>;

std::string to_text(const order& o) {
  std::string text;
  for (const auto& [step, which] : o)
    text += fmt::format(" step {}: number {}", step, which);
  return text.empty() ? "first come, first served" : text;
}

class meeting {
public:
  /// `crash`: at this step, before its delivery, b crashes and is started again.
  meeting(const order& by, std::optional<std::size_t> crash) : order_(by), crash_(crash) {
    sim::node_options how;
    how.devices = 1;
    how.config.qps_per_endpoint = 1;
    how.nic.mode = verbs::soft::nic_mode::paced;
    how.name = "a";
    a_.is = &c_.add(how);
    how.name = "b";
    b_.is = &c_.add(how);
    // So late that nothing arrives by itself.
    c_.network().set_latency("a", "b", late);
    c_.network().set_latency("b", "a", late);
  }

  /// How many messages there were to choose from at each step.
  const std::vector<std::size_t>& widths() const noexcept { return widths_; }

  /// What went wrong, or nothing.
  std::string run() {
    begin(a_);
    begin(b_);
    c_.world().run_for(5ms);
    dial(a_, b_);
    dial(b_, a_);
    deliver();
    c_.network().set_latency("a", "b", 100us);
    c_.network().set_latency("b", "a", 100us);
    const auto lag = c_.network().now() - c_.now();
    c_.world().run_for(std::max<base::duration>(lag, 0ns) + (crash_ ? 3s : 100ms));
    for (auto* s : {&a_, &b_}) // an import that met the crash is told so, and its program asks again
      if (crash_ && (!s->peer->has_value() || !(*s->peer)->has_value()))
        dial(*s, s == &a_ ? b_ : a_);
    c_.world().run_for(200ms);
    if (auto fault = writes(a_, b_) + writes(b_, a_); !fault.empty())
      return fault;
    auto before = state();
    c_.world().run_for(3s);
    if (state() != before)
      return fmt::format("it did not come to rest: {}, then {}", before, state());
    const std::string wanted = "a: 2 QPs, 0 deaths; b: 2 QPs, 0 deaths; 0 failed attempts";
    if (!crash_ && before != wanted)
      return before;
    return a_.is->stop() && b_.is->stop() ? "" : "something could not be released";
  }

private:
  static constexpr auto late = 1s;
  static constexpr std::size_t bytes = 4096;
  struct side {
    sim::machine* is = nullptr;
    std::shared_ptr<actors::local_buffer> source;
    std::shared_ptr<actors::local_buffer> target;
    std::shared_ptr<std::optional<base::expected<actors::peer_ref>>> peer;
  };

  void begin(side& s) {
    s.is->begin_memory(bytes, false, [&s](auto made) { s.source = *made; });
    s.is->begin_memory(bytes, true, [&s](auto made) { s.target = *made; });
  }
  void dial(side& from, side& to) {
    from.peer = std::make_shared<std::optional<base::expected<actors::peer_ref>>>();
    from.is->begin_connect(*to.is, [answer = from.peer](auto r) { *answer = std::move(r); });
  }
  void deliver() {
    auto& net = c_.network();
    for (std::size_t step = 0; step < 200; ++step) {
      c_.world().run_for(3ms); // whatever follows from the last one
      if (crash_ == step) {
        b_.is->kill();
        b_.is->restart();
        begin(b_);
        c_.world().run_for(5ms);
        dial(b_, a_);
        c_.world().run_for(3ms);
      }
      net.set_now(net.now() + late);
      const auto n = net.due().size();
      if (n == 0)
        return;
      widths_.push_back(n);
      const auto at = order_.find(step);
      net.deliver_one(at == order_.end() ? 0 : std::min(at->second, n - 1));
    }
  }
  std::string writes(side& from, side& to) {
    if (!from.peer->has_value() || !(*from.peer)->has_value())
      return from.is->name() + " was not answered; ";
    std::memset(reinterpret_cast<void*>(from.source->addr), 0x5a, bytes);
    std::memset(reinterpret_cast<void*>(to.target->addr), 0, bytes);
    const auto batch = from.is->submit(
        ***from.peer,
        {{operation::write, reinterpret_cast<void*>(from.source->addr), to.target->addr, bytes}}, 1s);
    if (!batch)
      return from.is->name() + ": " + batch.error().to_string() + "; ";
    c_.world().run_until([&] { return (*batch)->done(); }, c_.now() + 3s);
    if ((*batch)->result(0).status != transfer_status::completed ||
        std::memcmp(reinterpret_cast<void*>(from.source->addr), reinterpret_cast<void*>(to.target->addr),
                    bytes) != 0)
      return from.is->name() + " could not write; ";
    return {};
  }
  std::string state() const {
    using observe::event_kind;
    const auto of = [](const sim::machine& m) {
      return fmt::format("{}: {} QPs, {} deaths; ", m.name(), sim::activations(m),
                         m.count(event_kind::peer_dead));
    };
    return fmt::format("{}{}{} failed attempts", of(*a_.is), of(*b_.is),
                       a_.is->count(event_kind::attempt_failed) + b_.is->count(event_kind::attempt_failed));
  }

  order order_;
  std::optional<std::size_t> crash_;
  std::vector<std::size_t> widths_;
  sim::cluster c_{1};
  side a_;
  side b_;
};

/// Every order with up to `more` further deviations, all after the last one in `so_far`. False after a fault.
bool explore(const order& so_far, std::optional<std::size_t> crash, std::size_t more, std::size_t& runs) {
  meeting m(so_far, crash);
  ++runs;
  if (const auto fault = m.run(); !fault.empty()) {
    FAIL_CHECK("order: " << to_text(so_far) << (crash ? fmt::format(", crash at {}", *crash) : "") << ": "
                         << fault);
    return false;
  }
  if (more == 0)
    return true;
  for (auto step = so_far.empty() ? 0 : so_far.rbegin()->first + 1; step < m.widths().size(); ++step)
    for (std::size_t which = 1; which < m.widths()[step]; ++which) {
      auto next = so_far;
      next[step] = which;
      if (!explore(next, crash, more - 1, runs))
        return false;
    }
  return true;
}

} // namespace

TEST_CASE("C-16: nodes that connect to each other at the same time keep both connections in every order") {
  std::size_t runs = 0;
  CHECK(explore({}, std::nullopt, 5, runs));
  CHECK(runs > 50);
  MESSAGE(runs, " orders");
}

TEST_CASE("C-16: a crash with a restart at the same address, at every step of it and in every order, is seen "
          "as one") {
  std::size_t runs = 0;
  for (std::size_t crash = 0; crash < 24; ++crash)
    if (!explore({}, crash, 1, runs))
      break;
  CHECK(runs > 100);
  MESSAGE(runs, " orders");
}
