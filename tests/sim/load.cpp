// SPDX-License-Identifier: Apache-2.0
// Patterns and their check.
#include "tests/sim/load.hpp"

#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

namespace actor_rdma::sim {

load::load(cluster& in, machine& from, machine& to, std::size_t piece, std::size_t pieces, std::size_t qps)
    : in_(in), from_(from), to_(to), piece_(piece), bytes_(piece * pieces),
      source_(from.memory(bytes_, false)), target_(to.memory(bytes_)) {
  auto peer = from.connect(to);
  if (!peer)
    return;
  peer_ = *peer;
  for (std::size_t i = 0; i < pieces; ++i)
    requests_.push_back({operation::write, reinterpret_cast<void*>(source_->addr + i * piece),
                         target_->addr + i * piece, piece});
  // A peer that was connected earlier learns of new memory by a message.
  const auto is_published = [&] {
    const auto memory = peer_.view->memory();
    return memory && std::any_of(memory->published.buffers.begin(), memory->published.buffers.end(),
                                 [&](const auto& b) { return b.addr == target_->addr; });
  };
  connected_ = in.world().run_until([&] { return activations(from) >= qps && is_published(); },
                                    in.now() + std::chrono::seconds{1});
}

load::~load() {
  for (const auto* m : {&from_, &to_})
    CHECK(m->count(observe::event_kind::internal_fault) == m->internal_faults);
}

std::shared_ptr<actors::batch_state> load::send(unsigned round, base::duration deadline) {
  auto* bytes = reinterpret_cast<unsigned char*>(source_->addr);
  for (std::size_t i = 0; i < bytes_; ++i)
    bytes[i] = expected(i, round);
  auto batch = from_.submit(peer_, requests_, deadline);
  return batch ? *batch : nullptr;
}

bool load::finish(const actors::batch_state& batch, base::duration patience) {
  return in_.world().run_until([&] { return batch.done(); }, in_.now() + patience);
}

bool load::arrived(unsigned round) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(target_->addr);
  for (std::size_t i = 0; i < bytes_; ++i)
    if (bytes[i] != expected(i, round))
      return false;
  return true;
}

void load::fill_target(unsigned char with) {
  std::memset(reinterpret_cast<void*>(target_->addr), with, bytes_);
}

bool load::target_is(unsigned char value) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(target_->addr);
  return std::all_of(bytes, bytes + bytes_, [&](unsigned char b) { return b == value; });
}

std::size_t load::count(const actors::batch_state& batch, transfer_status status) const {
  std::size_t n = 0;
  for (std::size_t i = 0; i < batch.transfers().size(); ++i)
    n += batch.result(i).status == status ? 1 : 0;
  return n;
}

node_options paced(const char* name, std::size_t devices) {
  node_options o;
  o.name = name;
  o.devices = devices;
  o.nic.mode = verbs::soft::nic_mode::paced;
  return o;
}

verbs::soft::device_state state_of(cluster& c, const std::string& device) {
  for (const auto& d : c.fabric().devices())
    if (d.name == device)
      return d;
  return {};
}

void must_arrive(load& load, unsigned round, base::duration within) {
  const auto batch = load.send(round);
  REQUIRE(batch);
  CHECK(load.finish(*batch, within));
  CHECK(load.count(*batch, transfer_status::completed) == batch->transfers().size());
  CHECK(load.arrived(round));
}

std::size_t told(const machine& of, observe::event_kind kind, const std::string& words) {
  return static_cast<std::size_t>(std::count_if(of.events.begin(), of.events.end(), [&](const auto& e) {
    return e.kind == kind && e.detail.find(words) != std::string::npos;
  }));
}

void lose_hellos(cluster& c, std::uint64_t count) {
  bootstrap::message_fault fault;
  fault.from = "a";
  fault.to = "b";
  fault.type = "hello";
  fault.count = count;
  c.network().next_messages(fault);
}

void leave_nothing(cluster& c, machine& a, machine& b) {
  CHECK(a.stop());
  CHECK(b.stop());
  for (const auto& d : c.fabric().devices()) {
    CHECK(d.open_qps == 0);
    CHECK(d.open_mrs == 0);
  }
}

std::size_t activations(const machine& of) {
  return static_cast<std::size_t>(std::count_if(of.events.begin(), of.events.end(), [](const auto& e) {
    return e.kind == observe::event_kind::transition && e.to == "ACTIVE" &&
           e.subject.find('#') != std::string::npos;
  }));
}

std::size_t transitions(const machine& of, const std::string& subject, const std::string& state) {
  return static_cast<std::size_t>(std::count_if(of.events.begin(), of.events.end(), [&](const auto& e) {
    return e.kind == observe::event_kind::transition && e.to == state && e.subject == subject;
  }));
}

} // namespace actor_rdma::sim
