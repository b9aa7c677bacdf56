// SPDX-License-Identifier: Apache-2.0
// One device of the software NIC on a simulated lane, for tests of actors that stand beside it.
#pragma once

#include "actors/device.hpp"
#include "actors/sim_world.hpp"
#include "verbs/soft/fabric.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace actor_rdma::actors {

class event_recorder final : public observe::event_sink {
public:
  void on_event(const observe::event& what) override { events.push_back(what); }
  std::vector<observe::event> events;
};

struct device_rig {
  explicit device_rig(const verbs::soft::device_options& nic = {}) {
    verbs::soft::fabric_options o;
    o.clock = &world.clock();
    fabric = *verbs::soft::fabric::open(o);
    world.add_source(std::make_shared<fabric_events>(fabric));
    host = std::move(*fabric->attach("h", {nic}));
    const auto handles = *host->verbs().list_devices();
    auto parts =
        open_device::open(host->verbs(), handles.front(), std::make_shared<probe_page>(), 0, 1, 1024);
    REQUIRE(parts);
    async_fd = parts->ctx.async_fd();
    dev = std::make_shared<device>(lane, config, watch, std::uint16_t{0}, std::move(*parts));
    handle = launch(dev);
    REQUIRE(world.run_until([&] { return count(observe::event_kind::transition, "the port is up") == 1; },
                            world.now() + std::chrono::seconds{1}));
  }
  ~device_rig() {
    handle = nullptr;
    world.end(); // its actors, before what they refer to
  }

  /// Events so far of this kind, with these words in them.
  std::size_t count(observe::event_kind kind, const std::string& words) const {
    std::size_t n = 0;
    for (const auto& e : heard->events)
      n += e.kind == kind && e.detail.find(words) != std::string::npos ? 1 : 0;
    return n;
  }

  sim_world world{1};
  lane_env& lane = world.make_lane("h");
  std::shared_ptr<verbs::soft::fabric> fabric;
  std::unique_ptr<verbs::soft::host> host;
  std::shared_ptr<event_recorder> heard = std::make_shared<event_recorder>();
  observer watch{heard};
  settings config;
  int async_fd = -1;
  std::shared_ptr<device> dev;
  caf::actor handle;

private:
  class fabric_events final : public sim_source {
  public:
    explicit fabric_events(std::shared_ptr<verbs::soft::fabric> f) : fabric_(std::move(f)) {}
    std::optional<base::time_point> next_event() const override { return fabric_->next_event(); }
    bool happen(base::time_point now, std::string&) override {
      fabric_->advance(now);
      return true;
    }

  private:
    std::shared_ptr<verbs::soft::fabric> fabric_;
  };
};

} // namespace actor_rdma::actors
