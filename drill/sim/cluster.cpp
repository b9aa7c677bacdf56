// SPDX-License-Identifier: Apache-2.0
// Building and driving of simulated nodes.
#include "drill/sim/cluster.hpp"

#include "base/checks.hpp"
#include "drill/sim/slow_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::sim {

namespace {

constexpr auto patience = std::chrono::seconds{60}; // virtual
constexpr auto deregister_patience = std::chrono::seconds{5};
constexpr auto deregister_pause = std::chrono::milliseconds{20};

class fabric_source final : public actors::sim_source {
public:
  explicit fabric_source(std::shared_ptr<verbs::soft::fabric> f) : fabric_(std::move(f)) {}
  std::optional<base::time_point> next_event() const override { return fabric_->next_event(); }
  bool happen(base::time_point now, std::string& trace) override {
    trace = "nic";
    fabric_->advance(now);
    return true;
  }

private:
  std::shared_ptr<verbs::soft::fabric> fabric_;
};

class network_source final : public actors::sim_source {
public:
  explicit network_source(bootstrap::memory_network& n) : network_(n) {}
  std::optional<base::time_point> next_event() const override { return network_.next_event(); }
  bool happen(base::time_point now, std::string& trace) override {
    network_.set_now(now);
    const auto due = network_.due();
    if (due.empty())
      return false;
    trace = fmt::format("control: {} at {}", due.front().what, due.front().node);
    return network_.deliver_one();
  }

private:
  bootstrap::memory_network& network_;
};

} // namespace

// -- machine --------------------------------------------------------------------------------------

machine::machine(cluster& in, const node_options& how) : in_(in), how_(how), name_(how.name) {
  if (how_.nics.empty())
    for (std::size_t i = 0; i < how.devices; ++i) {
      how_.nics.push_back(how.nic);
      how_.nics.back().name = fmt::format("soft{}", i);
    }
}

base::expected<void> machine::start() {
  return boot(name_);
}

base::expected<void> machine::boot(const std::string& address) {
  auto built = build(address);
  if (built)
    return built;
  engine_.reset();
  if (lane_ != nullptr)
    in_.world_->kill(*lane_);
  host_.reset();
  if (built.error().device.find('/') == std::string::npos) // nobody knows whose soft0 it is
    built.error().device.insert(0, name_ + (built.error().device.empty() ? "" : "/"));
  return built;
}

base::expected<void> machine::build(const std::string& address) {
  auto host = in_.fabric_->attach(name_, how_.nics);
  if (!host)
    return base::fail(host.error());
  host_ = std::move(*host);
  verbs_ = watch_slow_calls(host_->verbs(), in_);
  actors::engine::parts p;
  p.config = how_.config;
  p.config.node = name_;
  ++life_;
  lane_ = &in_.world_->make_lane(name_);
  in_.world_->look_when(*lane_, [&nics = *host_] { return nics.arrivals(); });
  p.self = lane_->random() | 1;
  p.events = std::shared_ptr<observe::event_sink>(this, [](auto*) {});
  p.lanes = {lane_};
  p.channel = in_.network_->make_channel(name_);
  p.batch_done = [this](const auto& batch) {
    if (batch_ended)
      batch_ended(batch);
  };
  p.inbox = std::make_shared<actors::notice_inbox>(how_.config.notice_inbox, [this] { take_notices(); });
  const auto devices = verbs_.list_devices();
  if (!devices)
    return base::fail(devices.error());
  auto probe = std::make_shared<actors::probe_page>();
  probe->incarnation = p.self;
  std::vector<std::pair<ibv_device*, std::uint8_t>> ports;
  for (auto* const device : *devices)
    for (const auto& nic : how_.nics)
      for (std::uint32_t port = 1; nic.name == verbs_.get_device_name(device) && port <= nic.ports; ++port)
        ports.emplace_back(device, static_cast<std::uint8_t>(port));
  if (std::any_of(how_.nics.begin(), how_.nics.end(), [](const auto& nic) { return nic.ports > 1; }))
    for (const auto& nic : how_.nics) // without names, port 1 of each
      for (std::uint32_t port = 1; port <= nic.ports; ++port)
        p.config.only_devices.push_back(verbs::soft::port_name(nic.name, port));
  for (const auto& [device, port] : ports) {
    auto open = actors::open_device::open(verbs_, device, probe, p.devices.size(),
                                          ports.size() + actors::late_devices, how_.cq_entries, port);
    if (!open)
      return base::fail(open.error());
    p.devices.push_back(std::move(*open));
  }
  engine_ = std::make_unique<actors::engine>(std::move(p));
  const auto listens = engine_->channel().listen(address);
  if (!listens)
    return base::fail(listens.error());
  address_ = *listens;
  return {};
}

void machine::take_notices() {
  if (!notice_arrived)
    return;
  while (const auto taken = engine_->inbox().take())
    notice_arrived(*taken);
}

void machine::kill() {
  if (!is_alive())
    return;
  frozen_ = false;
  in_.network_->kill(name_);
  {
    // Its actors handle what is in their mailboxes before they go, and the process is no more: nobody hears
    // of that.
    const auto ears = std::make_tuple(std::exchange(hear, nullptr), std::exchange(batch_ended, nullptr),
                                      std::exchange(notice_arrived, nullptr));
    in_.world_->kill(*lane_);
    engine_.reset();
    std::tie(hear, batch_ended, notice_arrived) = ears;
  }
  host_.reset();
  blocks_.clear();
}

void machine::begin_stop(const std::string& cause,
                         std::function<void(const std::vector<std::string>&)> done) {
  engine_->stop(cause, [this, done = std::move(done), life = life_](const std::vector<std::string>& left) {
    in_.world_->at(in_.now(), [this, done, life, left] { // not from inside a job of the lane
      if (is_alive() && life == life_)
        done(left);
    });
  });
}

base::expected<void> machine::restart() {
  return is_alive() ? base::expected<void>{} : boot(address_);
}

void machine::freeze(bool on) {
  if (!is_alive())
    return;
  frozen_ = on;
  in_.world_->freeze(*lane_, on);
}

machine::~machine() = default;

base::expected<void>
machine::begin_memory(std::size_t length, bool publish,
                      std::function<void(base::expected<std::shared_ptr<actors::local_buffer>>)> done) {
  std::unique_ptr<std::byte[]> block{new (std::nothrow) std::byte[length]()};
  if (!block)
    return base::fail(base::reason::resource, "drill",
                      fmt::format("{} bytes of memory for {} cannot be allocated", length, name_), ENOMEM);
  blocks_.push_back(std::move(block));
  auto* const at = blocks_.back().get();
  engine_->register_memory(reinterpret_cast<std::uint64_t>(at), length, publish,
                           [this, at, done = std::move(done)](auto outcome) {
                             if (!outcome)
                               std::erase_if(blocks_, [at](const auto& b) { return b.get() == at; });
                             done(std::move(outcome));
                           });
  return {};
}

std::shared_ptr<actors::local_buffer> machine::memory(std::size_t length, bool publish) {
  std::shared_ptr<actors::local_buffer> made;
  const auto begun = begin_memory(length, publish, [&](auto outcome) {
    ACTOR_RDMA_ASSERT(outcome.has_value(), "memory is registered");
    made = *outcome;
  });
  ACTOR_RDMA_ASSERT(begun.has_value(), "memory is allocated");
  in_.world_->run_until([&] { return made != nullptr; }, in_.now() + patience);
  return made;
}

void machine::deregister(const std::shared_ptr<actors::local_buffer>& what) {
  bool done = false;
  engine_->deregister_memory(what, false, patience, [&](auto outcome) { done = outcome.has_value(); });
  in_.world_->run_until([&] { return done; }, in_.now() + patience);
}

void machine::begin_deregister(const std::shared_ptr<actors::local_buffer>& what,
                               const std::function<void()>& done) {
  engine_->deregister_memory(what, false, deregister_patience, [this, what, done](auto outcome) {
    if (outcome)
      return done();
    in_.world_->at(in_.now() + deregister_pause, [this, what, done, life = life_] {
      if (is_alive() && life == life_)
        begin_deregister(what, done);
    });
  });
}

void machine::begin_connect(const machine& peer, std::function<void(base::expected<actors::peer_ref>)> done) {
  engine_->import_peer(peer.address(), std::move(done));
}

base::expected<actors::peer_ref> machine::connect(const machine& peer) {
  auto outcome = std::make_shared<std::optional<base::expected<actors::peer_ref>>>();
  engine_->import_peer(peer.address(), [outcome](auto r) { *outcome = std::move(r); });
  in_.world_->run_until([&] { return outcome->has_value(); }, in_.now() + patience);
  if (!*outcome)
    return base::fail(base::reason::timeout, "sim", "import did not answer");
  return std::move(**outcome);
}

base::expected<std::shared_ptr<actors::batch_state>>
machine::submit(const actors::peer_ref& to, const std::vector<transfer_request>& what,
                base::duration deadline, std::optional<notice> with) {
  auto memory = to.view->memory();
  if (!memory)
    return base::fail(base::reason::peer_dead, "sim", "the peer is not connected");
  auto batch =
      actors::make_batch(engine_->buffers(), memory, what, in_.now(), in_.now() + deadline, std::move(with));
  if (batch) {
    (*batch)->keep_receipts();
    actors::engine::submit_to(to, *batch);
  }
  return batch;
}

base::expected<std::shared_ptr<actors::batch_state>> machine::notify(const actors::peer_ref& to, notice what,
                                                                     base::duration deadline) {
  auto memory = to.view->memory();
  if (!memory)
    return base::fail(base::reason::peer_dead, "sim", "the peer is not connected");
  auto batch = actors::make_notice(memory, std::move(what), in_.now(), in_.now() + deadline);
  if (batch)
    actors::engine::submit_to(to, *batch);
  return batch;
}

void machine::on_event(const observe::event& what) {
  events.push_back(what);
  if (hear)
    hear(what);
  in_.world_->trace(fmt::format("{} {} {} {} {} {}", what.subject, to_string(what.kind), what.from, what.to,
                                what.detail, what.kind == observe::event_kind::transition ? 0 : what.value));
}

bool machine::stop() {
  if (!is_alive())
    return true;
  bool over = false;
  bool clean = false;
  engine_->stop("the test ends", [&](const std::vector<std::string>& left) {
    over = true;
    clean = left.empty();
  });
  in_.world_->run_until([&] { return over; }, in_.now() + patience);
  if (over) // as a transport does
    engine_->channel().stop();
  return over && clean && count(observe::event_kind::internal_fault) == internal_faults;
}

std::size_t machine::count(observe::event_kind kind) const {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const auto& e) { return e.kind == kind; }));
}

// -- cluster --------------------------------------------------------------------------------------

cluster::cluster(std::uint64_t seed)
    : network_(std::make_unique<bootstrap::memory_network>()),
      world_(std::make_unique<actors::sim_world>(seed)) {
  verbs::soft::fabric_options o;
  o.clock = &world_->clock();
  o.seed = seed;
  auto made = verbs::soft::fabric::open(o);
  ACTOR_RDMA_ASSERT(made.has_value(), "a private fabric opens");
  fabric_ = std::move(*made);
  world_->add_source(std::make_shared<fabric_source>(fabric_));
  world_->take_slow_time = [this] { return fabric_->take_verb_delay(); };
  world_->add_source(std::make_shared<network_source>(*network_));
  network_->set_now(world_->now());
}

cluster::~cluster() {
  stop_watching_slow_calls(*this);
  world_->end(); // its actors first: they refer to everything else
  machines_.clear();
}

machine& cluster::add(const node_options& how) {
  const auto added = try_add(how);
  ACTOR_RDMA_ASSERT(added.has_value(), "the node starts");
  return **added;
}

base::expected<machine*> cluster::try_add(const node_options& how) {
  machines_.push_back(std::make_unique<machine>(*this, how));
  if (auto started = machines_.back()->start(); !started) {
    machines_.pop_back();
    return base::fail(started.error());
  }
  return machines_.back().get();
}

std::vector<verbs::soft::log_entry> cluster::log() const {
  std::uint64_t next = 0;
  return fabric_->read_log(0, next);
}

std::optional<verbs::soft::log_entry> cluster::first(verbs::soft::log_kind kind,
                                                     const std::string& device) const {
  for (const auto& e : log())
    if (e.kind == kind && (device.empty() || e.device == device))
      return e;
  return std::nullopt;
}

} // namespace actor_rdma::sim
