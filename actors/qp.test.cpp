// SPDX-License-Identifier: Apache-2.0
// A QP by itself on a simulated lane: which completions it takes for its own.
#include "actors/qp.hpp"

#include "actors/device_rig.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <caf/event_based_actor.hpp>

using namespace actor_rdma;
using namespace actor_rdma::actors;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t probe_position = 0xffffffff;

/// A QP whose peer never answers, and an endpoint that only listens to it.
struct rig : device_rig {
  explicit rig(const verbs::soft::device_options& nic = {}) : device_rig(nic) {
    endpoint = world.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](qp_report& m) { reports.push_back(m); }};
    });
    qp::place p;
    p.name = "h/soft0>x/soft0#0";
    p.endpoint = endpoint;
    object = std::make_shared<qp>(lane, config, watch, dev, std::move(p));
    actor = launch(object);
  }
  ~rig() {
    caf::anon_send_exit(endpoint, caf::exit_reason::kill);
    endpoint = actor = nullptr;
    world.end();
  }

  using device_rig::count;
  std::size_t count(qp_step step) const {
    return static_cast<std::size_t>(
        std::count_if(reports.begin(), reports.end(), [&](const auto& r) { return r.step == step; }));
  }
  /// Up to the point where the probe is out and nobody answers it.
  void attempt(std::uint16_t generation) {
    const auto before = count(qp_step::created);
    caf::anon_send(actor, qp_begin{generation});
    REQUIRE(world.run_until([&] { return count(qp_step::created) > before; }, world.now() + 100ms));
    qp_connect c;
    c.local = c.peer_port = dev->address();
    c.peer_port.gid[15] ^= 0x55; // nobody is there
    c.peer.qp_num = 77;
    c.peer.generation = generation;
    caf::anon_send(actor, c);
    world.run_for(5ms);
  }
  void fence(const char* cause) {
    caf::anon_send(actor, qp_fence{cause, false});
    world.run_for(5ms);
  }
  void complete(std::uint16_t generation, ibv_wc_status status) {
    ibv_wc wc{};
    wc.wr_id = pack({0, generation, probe_position});
    wc.status = status;
    dev->on_completions({&wc, 1});
    world.run_for(1ms);
  }

  std::vector<qp_report> reports;
  caf::actor endpoint;
  std::shared_ptr<qp> object;
  caf::actor actor;
};

} // namespace

TEST_CASE("I-11: a QP that cannot be made says so in the verb's words and with the limits") {
  verbs::soft::device_options nic;
  nic.limits.max_qp = 0;
  rig r(nic);
  caf::anon_send(r.actor, qp_begin{1});
  r.world.run_for(5ms);
  REQUIRE(r.count(qp_step::failed) == 1);
  const auto& why = r.reports.back().cause;
  CHECK(why.find("ibv_create_qp") != std::string::npos);
  CHECK(why.find("with 257 send WRs, limits of the device: max_qp 0, max_qp_wr 16384 (device soft0): "
                 "Cannot allocate memory") != std::string::npos);
}

TEST_CASE("a completion that an earlier generation left behind is not taken for one of the present QP") {
  rig r;
  r.attempt(1);
  r.fence("it took too long");
  CHECK(r.count(qp_step::failed) == 1);
  r.attempt(2);
  r.complete(1, IBV_WC_WR_FLUSH_ERR); // late
  CHECK(r.count(qp_step::failed) == 1);
  CHECK(r.count(observe::event_kind::stale_completion, "of an earlier generation") == 1);
  r.complete(2, IBV_WC_WR_FLUSH_ERR); // its own
  CHECK(r.count(qp_step::failed) == 2);
}

TEST_CASE("the completion of a probe that was given up does not end its attempt once more") {
  rig r;
  r.attempt(1);
  r.fence("it took too long");
  CHECK(r.count(qp_step::failed) == 1);
  r.complete(1, IBV_WC_WR_FLUSH_ERR); // no new attempt has begun yet
  CHECK(r.count(qp_step::failed) == 1);
  CHECK(r.count(observe::event_kind::stale_completion, "of a probe that was given up") == 1);
}

TEST_CASE("a fence that crossed the report of its QP's end does not fail the attempt that follows") {
  rig r;
  r.attempt(1);
  r.fence("retired by the peer");
  REQUIRE(r.count(qp_step::failed) == 1);
  caf::anon_send(r.actor, qp_fence{"the peer made a new QP", false}); // meant for the first
  caf::anon_send(r.actor, qp_begin{2});
  r.world.run_for(5ms);
  CHECK(r.count(qp_step::failed) == 1);
  CHECK(r.count(qp_step::created) == 2);
  r.fence("of the second");
  CHECK(r.count(qp_step::failed) == 2);
}
