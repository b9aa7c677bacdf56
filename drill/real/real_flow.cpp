// SPDX-License-Identifier: Apache-2.0
// Submitting through a process, and looking at memory from outside of it.
#include "drill/real/real_flow.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

constexpr auto reconnect_pause = std::chrono::milliseconds{20};
/// Memory whose fence nobody confirmed is used again after so long.
constexpr auto keep_out_time = std::chrono::seconds{5};

} // namespace

real_flow::real_flow(traffic_spec spec, place where, bool is_after_traffic)
    : spec_(std::move(spec)), where_(std::move(where)), is_after_traffic_(is_after_traffic),
      next_open_(where_.first_batch) {}

void real_flow::after(base::duration delay, void (real_flow::*what)()) {
  where_.loop->at(where_.loop->now() + delay, [this, what, life = life_] {
    if (life == life_)
      (this->*what)();
  });
}

// -- memory and connection ------------------------------------------------------------------------

base::expected<void> real_flow::make_memory() {
  for (const bool at_to : {false, true}) {
    auto made = mapped_memory::make(spec_.memory_bytes(at_to));
    if (!made) {
      auto why = made.error();
      why.what += fmt::format(" of {} bytes for {} (traffic {})", spec_.memory_bytes(at_to),
                              at_to ? spec_.to : spec_.from, spec_.name);
      return base::fail(std::move(why));
    }
    (at_to ? remote_map_ : local_map_) = std::move(*made);
  }
  return {};
}

void real_flow::add_descriptors_of(const real_host& host, std::vector<int>& to) const {
  if (&host == where_.from)
    to.push_back(local_map_.fd());
  if (&host == where_.to)
    to.push_back(remote_map_.fd());
}

void real_flow::prepare() {
  ++life_;
  waits_ = false;
  state_ = state::preparing;
  registered_ = 0;
  if (!where_.from->is_alive() || !where_.to->is_alive())
    return; // host_restarted() begins again
  prepare_end(*where_.from, false);
  prepare_end(*where_.to, true);
}

void real_flow::prepare_end(real_host& at, bool is_remote) {
  auto& pool = is_remote ? remote_ : local_;
  const auto& map = is_remote ? remote_map_ : local_map_;
  const auto done = [this] {
    if (++registered_ == 2 && may_connect_)
      connect();
  };
  if (pool.exists())
    return done();
  at.ask({{"do", "memory"},
          {"key", where_.key + (is_remote ? 1 : 0)},
          {"fd", map.fd()},
          {"bytes", map.bytes()},
          {"publish", is_remote}},
         [this, &pool, &map, is_remote, done, life = life_](const auto& answer) {
           if (life != life_)
             return;
           if (answer.contains("error")) {
             last_error_ = answer.at("error").template get<std::string>();
             return after(reconnect_pause, &real_flow::prepare);
           }
           pool = memory_pool{map.addr(), spec_.slot_bytes(), map.bytes() / spec_.slot_bytes()};
           if (is_remote) {
             remote_base_ = answer.at("addr").template get<std::uint64_t>();
             if (revocations_ > 0)
               follow_revocations();
           }
           done();
         });
}

void real_flow::connect() {
  may_connect_ = true;
  state_ = state::connecting;
  if (!where_.from->is_alive() || !where_.to->is_alive())
    return;
  where_.from->ask({{"do", "connect"},
                    {"peer", where_.to->name()},
                    {"address", where_.dial()},
                    {"want", {{remote_base_, remote_map_.bytes()}}}},
                   [this, life = life_](const auto& answer) {
                     if (life != life_)
                       return;
                     if (answer.contains("error")) {
                       last_error_ = answer.at("error").template get<std::string>();
                       return after(reconnect_pause, &real_flow::connect);
                     }
                     state_ = state::ready;
                     if (begun_)
                       pump();
                   });
}

void real_flow::host_stopping(const real_host& which) {
  if ((&which != where_.from && &which != where_.to) || state_ == state::idle)
    return;
  ++life_;
  state_ = state::preparing;
}

std::size_t real_flow::accepted_open() const {
  return static_cast<std::size_t>(
      std::count_if(open_.begin(), open_.end(), [](const auto& b) { return b.second.is_accepted; }));
}

void real_flow::host_killed(const real_host& which) {
  if (&which != where_.from && &which != where_.to)
    return;
  ++life_;
  if (&which == where_.to) {
    remote_ = {};
    revocations_ = 0; // new memory has new keys
    ++remote_life_;
  } else {
    for (auto& [number, batch] : open_) {
      past_[number] = where_.facts->transfers.size();
      for (auto& i : batch.items) {
        i.fact.host_died = true;
        where_.facts->transfers.push_back(i.fact);
        if (batch.remote_life == remote_life_)
          give_back_later(i.remote, i.fact.number);
      }
    }
    open_.clear();
    local_ = {};
  }
  state_ = state::preparing;
}

void real_flow::host_restarted(const real_host& which) {
  if ((&which == where_.from || &which == where_.to) && state_ != state::idle)
    prepare();
}

void real_flow::revoke(bool on) {
  revocations_ += on ? 1 : 0;
  revocations_ -= on ? 0 : 1;
  follow_revocations();
}

/// Again if it fails: what one registration more or less leaves behind would be told of the transport.
void real_flow::follow_revocations() {
  if (!where_.to->is_alive() || !remote_.exists())
    return;
  const bool on = revocations_ > 0;
  where_.to->ask({{"do", "revoke"}, {"key", where_.key + 1}, {"on", on}},
                 [this, on, life = remote_life_](const auto& answer) {
                   if (!answer.contains("error") || life != remote_life_ || on != (revocations_ > 0))
                     return;
                   last_error_ = answer.at("error").template get<std::string>();
                   where_.loop->at(where_.loop->now() + reconnect_pause, [this, life] {
                     if (life == remote_life_)
                       follow_revocations();
                   });
                 });
}

// -- submitting -----------------------------------------------------------------------------------

void real_flow::begin() {
  begun_ = true;
  next_allowed_ = now();
  pump();
}

std::size_t real_flow::next_batch() const {
  const auto count = spec_.count != 0 ? spec_.count : spec_.repeat_until ? ~std::uint64_t{0} : spec_.batch;
  return std::min<std::uint64_t>(spec_.batch, count - std::min(count, submitted_));
}

bool real_flow::may_submit() const {
  return !finished_ && next_batch() > 0 && (!spec_.repeat_until || now() < *spec_.repeat_until);
}

bool real_flow::is_over() const {
  if (!open_.empty())
    return false;
  return !begun_ ? finished_ : !may_submit() || !where_.from->is_there() || !where_.to->is_there();
}

void real_flow::rate_allows() {
  waits_ = false;
  pump();
}

void real_flow::pump() {
  while (state_ == state::ready && may_submit() && open_.size() < spec_.depth) {
    if (spec_.rate_per_s > 0 && now() < next_allowed_) {
      if (!waits_)
        after(next_allowed_ - now(), &real_flow::rate_allows);
      waits_ = true;
      return;
    }
    if (!submit_one())
      return;
    if (spec_.rate_per_s > 0)
      next_allowed_ = std::max(next_allowed_, now() - std::chrono::seconds{1}) +
                      base::duration{static_cast<std::int64_t>(1e9 / spec_.rate_per_s)};
  }
}

std::uint64_t real_flow::remote_address(std::size_t slot) const {
  return remote_.address(slot) - remote_map_.addr() + remote_base_;
}

bool real_flow::submit_one() {
  const auto n = next_batch();
  if (local_.free_slots() < n || remote_.free_slots() < n) {
    after(reconnect_pause, &real_flow::pump); // memory that is kept out comes back
    return false;
  }
  const auto number = next_open_++;
  auto& made = open_[number];
  made.remote_life = remote_life_;
  made.submitted = where_.loop->now();
  auto items = nlohmann::json::array();
  for (std::size_t i = 0; i < n; ++i) {
    item it{{}, local_.take(), remote_.take()};
    auto& f = it.fact;
    f.traffic = spec_.name;
    f.number = next_number_++;
    f.from = where_.from->name();
    f.to = where_.to->name();
    f.bytes = spec_.sizes[f.number % spec_.sizes.size()];
    f.submitted = now();
    f.deadline = now() + spec_.deadline;
    f.is_after_traffic = is_after_traffic_;
    const auto& c = where_.from->spec().config;
    f.allowance = c.fence_grace + c.drain_deadline + c.remote_fence_timeout;
    check_slot(local_, it.local, "own");
    check_slot(remote_, it.remote, "peer's");
    if (spec_.verify && spec_.op == operation::write)
      local_.fill(it.local, f.number, f.bytes);
    else if (spec_.verify)
      remote_.fill(it.remote, f.number, f.bytes);
    items.push_back({local_.address(it.local) - local_map_.addr(), remote_address(it.remote), f.bytes});
    made.items.push_back(std::move(it));
  }
  submitted_ += n;
  where_.from->ask({{"do", "submit"},
                    {"batch", number},
                    {"peer", where_.to->name()},
                    {"key", where_.key},
                    {"op", to_string(spec_.op)},
                    {"deadline_ns", spec_.deadline.count()},
                    {"items", std::move(items)}},
                   [this, number](const auto& answer) {
                     const auto found = open_.find(number);
                     if (found == open_.end())
                       return;
                     if (answer.contains("error")) {
                       last_error_ = answer.at("error").template get<std::string>();
                       return refused(number);
                     }
                     found->second.is_accepted = true;
                     // Its deadline runs from its process's submit, which may be a little later.
                     const base::time_point at{
                         base::duration{answer.at("at_ns").template get<std::int64_t>()}};
                     for (auto& i : found->second.items) {
                       i.fact.submitted = scenario_time(at);
                       i.fact.deadline = i.fact.submitted + spec_.deadline;
                     }
                   });
  if (spec_.cancel_after)
    where_.loop->at(where_.loop->now() + *spec_.cancel_after, [this, number] {
      if (open_.count(number) != 0)
        where_.from->ask({{"do", "cancel"}, {"batch", number}}, [](const auto&) {});
    });
  return true;
}

void real_flow::refused(std::uint64_t batch) {
  auto gone = open_.extract(batch);
  for (const auto& i : gone.mapped().items) {
    if (local_.exists())
      local_.give_back(i.local, i.fact.number);
    if (gone.mapped().remote_life == remote_life_)
      remote_.give_back(i.remote, i.fact.number);
  }
  submitted_ -= gone.mapped().items.size();
  ++where_.facts->refused_submits;
  if (state_ != state::ready)
    return; // somebody connects already
  state_ = state::connecting;
  after(reconnect_pause, &real_flow::connect);
}

// -- looking --------------------------------------------------------------------------------------

bool real_flow::owns(std::uint64_t batch) const {
  return open_.count(batch) != 0 || past_.count(batch) != 0;
}

void real_flow::batch_ended(std::uint64_t batch, base::time_point at, const nlohmann::json& results) {
  const auto found = open_.find(batch);
  if (found == open_.end()) {
    ++where_.facts->transfers[past_.at(batch)].ends;
    return;
  }
  past_[batch] = where_.facts->transfers.size();
  auto done = std::move(found->second);
  open_.erase(found);
  for (std::size_t i = 0; i < done.items.size(); ++i)
    end_item(done, done.items[i], at, results.at(i));
  if (where_.ended)
    where_.ended();
  if (begun_)
    pump();
}

void real_flow::end_item(open_batch& of, item& what, base::time_point at, const nlohmann::json& result) {
  auto& f = what.fact;
  ++f.ends;
  ++ended_;
  f.ended = scenario_time(at);
  f.status = f.final_status = static_cast<transfer_status>(result.at(0).get<unsigned>());
  f.cause = static_cast<base::reason>(result.at(1).get<unsigned>());
  f.unconfirmed = result.at(2).get<bool>();
  if (result.size() > 3)
    for (const auto& share : result.at(3))
      where_.carried(share.at(0).get<std::string>(), share.at(1).get<std::uint64_t>());
  f.allowance += where_.from->frozen_since(of.submitted); // a stopped process tells nothing
  const bool remote_is_there = of.remote_life == remote_life_;
  if (f.status == transfer_status::completed && spec_.verify &&
      (spec_.op == operation::read || remote_is_there)) {
    const auto& target = spec_.op == operation::write ? remote_ : local_;
    f.wrong_content =
        target.wrong(spec_.op == operation::write ? what.remote : what.local, f.number, f.bytes);
  }
  local_.give_back(what.local, f.number);
  if (remote_is_there && !f.unconfirmed)
    remote_.give_back(what.remote, f.number);
  else if (remote_is_there) // late packets may still come, so a user would have to leave this memory alone
    give_back_later(what.remote, f.number);
  where_.facts->transfers.push_back(std::move(f));
}

void real_flow::give_back_later(std::size_t slot, std::uint64_t number) {
  where_.loop->at(where_.loop->now() + keep_out_time, [this, slot, number, life = remote_life_] {
    if (life == remote_life_)
      remote_.give_back(slot, number);
  });
}

void real_flow::check_slot(const memory_pool& pool, std::size_t slot, const char* whose) {
  if (auto what = pool.changed(slot))
    where_.facts->late_bytes.push_back(
        {now(), spec_.name, pool.last_transfer(slot), fmt::format("{} side: {}", whose, *what)});
}

void real_flow::changed(std::uint64_t batch, std::size_t index, transfer_status status) {
  if (const auto found = past_.find(batch); found != past_.end())
    where_.facts->transfers[found->second + index].final_status = status;
}

void real_flow::look_again() {
  for (const auto slot : local_.free())
    check_slot(local_, slot, "own");
  for (const auto slot : remote_.free())
    check_slot(remote_, slot, "peer's");
  for (const auto& [number, batch] : open_)
    for (const auto& i : batch.items)
      where_.facts->transfers.push_back(i.fact);
  open_.clear();
}

} // namespace actor_rdma::drill
