// SPDX-License-Identifier: Apache-2.0
// Submitting and looking.
#include "drill/sim/flow.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

constexpr auto reconnect_pause = std::chrono::milliseconds{20};

} // namespace

flow::flow(traffic_spec spec, place where, bool is_after_traffic)
    : spec_(std::move(spec)), where_(std::move(where)), is_after_traffic_(is_after_traffic) {}

void flow::after(base::duration delay, void (flow::*what)()) {
  where_.in->world().at(where_.in->now() + delay, [this, what, life = life_] {
    if (life == life_)
      (this->*what)();
  });
}

// -- memory and connection ------------------------------------------------------------------------

void flow::prepare() {
  ++life_;
  waits_ = false;
  state_ = state::preparing;
  if (!where_.from->is_alive() || !where_.to->is_alive())
    return; // host_restarted() begins again
  if (spec_.notices_only)
    return connect();
  make_memory(false);
  make_memory(true);
  if (state_ == state::preparing && local_.exists() && remote_.exists())
    connect();
}

/// What a process was asked for once comes, however often the other end's process is another one meanwhile:
/// to ask again would leave memory registered that nobody knows of.
void flow::make_memory(bool is_remote) {
  auto& is_asked_for = is_remote ? remote_is_asked_for_ : local_is_asked_for_;
  if (is_asked_for)
    return;
  is_asked_for = true;
  const auto& life = is_remote ? remote_life_ : local_life_;
  const auto begun =
      (is_remote ? where_.to : where_.from)
          ->begin_memory(spec_.memory_bytes(is_remote), is_remote,
                         [this, is_remote, &life, &is_asked_for, asked_in = life](auto outcome) {
                           if (asked_in != life)
                             return;
                           if (outcome)
                             return memory_made(is_remote, *outcome);
                           is_asked_for = false;
                           after(reconnect_pause, &flow::prepare);
                         });
  if (!begun)
    where_.cannot_go_on(fmt::format("traffic {}: {}", spec_.name, begun.error().to_string()));
}

void flow::memory_made(bool is_remote, const std::shared_ptr<actors::local_buffer>& what) {
  (is_remote ? remote_ : local_) =
      memory_pool{what->addr, spec_.slot_bytes(), spec_.slots(is_remote), where_.moves_payload};
  if (is_remote) {
    remote_buffer_ = what;
    follow_revocations();
  }
  if (state_ == state::preparing && local_.exists() && remote_.exists())
    connect();
}

void flow::connect() {
  state_ = state::connecting;
  if (!where_.from->is_alive() || !where_.to->is_alive())
    return;
  where_.from->begin_connect(*where_.to, [this, life = life_](base::expected<actors::peer_ref> outcome) {
    if (life != life_)
      return;
    if (!outcome)
      return after(reconnect_pause, &flow::connect);
    peer_ = *outcome;
    state_ = state::ready;
    if (begun_)
      after({}, &flow::pump);
  });
}

void flow::host_stopping(const sim::machine& which) {
  if ((&which != where_.from && &which != where_.to) || state_ == state::idle)
    return;
  ++life_;
  state_ = state::preparing;
}

void flow::host_killed(const sim::machine& which) {
  if (&which != where_.from && &which != where_.to)
    return;
  ++life_;
  if (&which == where_.to) {
    remote_ = {};
    remote_is_asked_for_ = follows_revocations_ = false;
    remote_buffer_.reset();
    revocations_ = 0; // new memory has new keys
    ++remote_life_;
  } else {
    for (const auto& [key, batch] : open_) {
      if (batch.notice) {
        where_.facts->notices[*batch.notice].sender_died = true;
        readable_until(batch, where_.in->now() + keep_out_time);
      }
      for (const auto& i : batch.items) {
        where_.facts->transfers[i.fact].host_died = true;
        if (batch.remote_life == remote_life_)
          give_back_later(i.remote, where_.facts->transfers[i.fact].number);
      }
    }
    open_.clear();
    local_ = {};
    local_is_asked_for_ = false;
    ++local_life_;
    peer_ = {};
  }
  state_ = state::preparing;
}

void flow::revoke(bool on) {
  revocations_ += on ? 1 : 0;
  revocations_ -= on ? 0 : 1;
  follow_revocations();
}

/// One call at a time, and again if it fails or something else was wanted meanwhile: what one registration
/// more or less leaves behind would be told of the transport.
void flow::follow_revocations() {
  if (follows_revocations_ || !remote_.exists() || (remote_buffer_ == nullptr) == (revocations_ > 0))
    return;
  follows_revocations_ = true;
  if (revocations_ > 0)
    return where_.to->begin_deregister(remote_buffer_, [this, life = remote_life_] {
      if (life == remote_life_)
        keys_changed(nullptr);
    });
  where_.to->engine().register_memory(
      remote_.address(0), spec_.memory_bytes(true), true, [this, life = remote_life_](auto outcome) {
        if (life != remote_life_)
          return;
        if (outcome)
          return keys_changed(*outcome);
        where_.in->world().at(where_.in->now() + reconnect_pause, [this, life] {
          if (life == remote_life_)
            keys_changed(nullptr);
        });
      });
}

void flow::keys_changed(std::shared_ptr<actors::local_buffer> to) {
  follows_revocations_ = false;
  remote_buffer_ = std::move(to);
  follow_revocations();
}

void flow::host_restarted(const sim::machine& which) {
  if ((&which == where_.from || &which == where_.to) && state_ != state::idle)
    prepare();
}

// -- submitting -----------------------------------------------------------------------------------

void flow::begin() {
  begun_ = true;
  next_allowed_ = now();
  pump();
}

std::size_t flow::next_batch() const {
  const auto count = spec_.count != 0 ? spec_.count : spec_.repeat_until ? ~std::uint64_t{0} : spec_.batch;
  return std::min<std::uint64_t>(spec_.batch, count - std::min(count, submitted_));
}

bool flow::may_submit() const {
  return !finished_ && next_batch() > 0 && (!spec_.repeat_until || now() < *spec_.repeat_until);
}

bool flow::is_over() const {
  if (!open_.empty())
    return false;
  return !begun_ ? finished_ : !may_submit() || !where_.from->is_alive() || !where_.to->is_alive();
}

void flow::rate_allows() {
  waits_ = false;
  pump();
}

void flow::pump() {
  while (state_ == state::ready && may_submit() && open_.size() < spec_.depth) {
    if (spec_.rate_per_s > 0 && now() < next_allowed_) {
      if (!waits_)
        after(next_allowed_ - now(), &flow::rate_allows);
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

std::vector<transfer_request> flow::make_requests(open_batch& made, std::size_t n) {
  std::vector<transfer_request> requests;
  auto& facts = *where_.facts;
  for (std::size_t i = 0; i < n; ++i) {
    transfer_fact f;
    f.traffic = spec_.name;
    f.number = submitted_ + i;
    f.from = where_.from->name();
    f.to = where_.to->name();
    f.bytes = spec_.sizes[f.number % spec_.sizes.size()];
    f.submitted = now();
    f.deadline = now() + spec_.deadline;
    f.is_after_traffic = is_after_traffic_;
    const auto& c = where_.from->engine().config();
    f.allowance = c.fence_grace + c.drain_deadline + c.remote_fence_timeout;
    const item it{facts.transfers.size(), local_.take(), remote_.take()};
    check_slot(local_, it.local, "own");
    check_slot(remote_, it.remote, "peer's");
    if (spec_.verify)
      (spec_.op == operation::write ? local_ : remote_)
          .fill(spec_.op == operation::write ? it.local : it.remote, f.number, f.bytes);
    requests.push_back(
        {spec_.op, reinterpret_cast<void*>(local_.address(it.local)), remote_.address(it.remote), f.bytes});
    made.items.push_back(it);
    facts.transfers.push_back(std::move(f));
  }
  return requests;
}

bool flow::submit_one() {
  const auto n = next_batch();
  if (!spec_.notices_only && (local_.free_slots() < n || remote_.free_slots() < n)) {
    after(reconnect_pause, &flow::pump); // memory that is kept out comes back
    return false;
  }
  open_batch made;
  made.remote_life = remote_life_;
  auto& facts = *where_.facts;
  const auto first = facts.transfers.size();
  std::optional<notice> with;
  if (spec_.notice || spec_.notices_only)
    with = next_notice();
  auto batch = spec_.notices_only ? where_.from->notify(peer_, *with, spec_.deadline)
                                  : where_.from->submit(peer_, make_requests(made, n), spec_.deadline, with);
  if (!batch) {
    for (const auto& i : made.items) {
      local_.give_back(i.local, facts.transfers[i.fact].number);
      remote_.give_back(i.remote, facts.transfers[i.fact].number);
    }
    facts.transfers.resize(first);
    ++facts.refused_submits;
    after(reconnect_pause, &flow::connect);
    state_ = state::connecting;
    return false;
  }
  made.batch = *batch;
  if (with)
    notice_submitted(made, with->name);
  submitted_ += n;
  open_.emplace(batch->get(), std::move(made));
  if (spec_.cancel_after)
    where_.in->world().at(where_.in->now() + *spec_.cancel_after, [this, batch = *batch] {
      if (open_.count(batch.get()) != 0)
        actors::engine::cancel_at(peer_, batch);
    });
  return true;
}

// -- looking --------------------------------------------------------------------------------------

void flow::batch_ended(const std::shared_ptr<actors::batch_state>& batch) {
  const auto found = open_.find(batch.get());
  if (found == open_.end()) {
    for (const auto& past : past_)
      if (past.batch == batch)
        ++(past.items.empty() ? where_.facts->notices[*past.notice].ends
                              : where_.facts->transfers[past.items.front().fact].ends);
    return;
  }
  auto done = std::move(found->second);
  open_.erase(found);
  if (done.notice)
    notice_told(done);
  for (std::size_t i = 0; i < done.items.size(); ++i)
    end_item(done, done.items[i], i);
  past_.push_back(std::move(done));
  if (where_.ended)
    where_.ended();
  // Not from inside the lane's own job: a user's thread would need a moment as well.
  if (begun_)
    after({}, &flow::pump);
}

std::optional<std::string> flow::wrong_in_receipt(const transfer_result& r,
                                                  const std::optional<transfer_receipt>& told) {
  if (!told)
    return "there is none";
  std::uint64_t bytes = 0;
  std::uint64_t wrs = 0;
  for (const auto& share : told->rails) {
    bytes += share.bytes;
    wrs += share.wrs;
  }
  if (bytes != r.bytes)
    return fmt::format("its rails carried {} bytes, and {} have a completion", bytes, r.bytes);
  if ((wrs > 0) != r.started || told->issued_again > wrs)
    return fmt::format("{} WRs, {} of them again", wrs, told->issued_again);
  if (told->queued < base::duration{} || told->carried < base::duration{})
    return "a time below 0";
  return std::nullopt;
}

void flow::end_item(const open_batch& of, const item& what, std::size_t index) {
  auto& f = where_.facts->transfers[what.fact];
  const auto r = of.batch->result(index);
  ++f.ends;
  ++ended_;
  f.ended = now();
  f.status = r.status;
  f.cause = r.cause;
  f.unconfirmed = r.remote_fence_unconfirmed;
  f.wrong_receipt = wrong_in_receipt(r, of.batch->receipt(index));
  const bool remote_is_there = of.remote_life == remote_life_;
  if (r.status == transfer_status::completed && spec_.verify &&
      (spec_.op == operation::read || remote_is_there))
    f.wrong_content =
        data_target().wrong(spec_.op == operation::write ? what.remote : what.local, f.number, f.bytes);
  local_.give_back(what.local, f.number);
  if (!remote_is_there)
    return;
  const bool notice_may_come =
      of.notice && where_.facts->notices[*of.notice].status == notice_status::unknown;
  if (!f.unconfirmed && !notice_may_come)
    return remote_.give_back(what.remote, f.number);
  // It was told that late packets or the notice may still come: a user would have to leave this memory alone.
  give_back_later(what.remote, f.number);
}

void flow::give_back_later(std::size_t slot, std::uint64_t number) {
  where_.in->world().at(where_.in->now() + keep_out_time, [this, slot, number, life = remote_life_] {
    if (life == remote_life_)
      remote_.give_back(slot, number);
  });
}

void flow::check_slot(const memory_pool& pool, std::size_t slot, const char* whose) {
  if (auto what = pool.changed(slot))
    where_.facts->late_bytes.push_back(
        {now(), spec_.name, pool.last_transfer(slot), fmt::format("{} side: {}", whose, *what)});
}

void flow::landed_late(std::uint64_t addr) {
  if (const auto slot = remote_.free_slot_at(addr); slot && spec_.op == operation::write)
    where_.facts->late_bytes.push_back(
        {now(), spec_.name, remote_.last_transfer(*slot), "a delayed packet landed after its end was told"});
}

void flow::look_again() {
  for (const auto slot : local_.free())
    check_slot(local_, slot, "own");
  for (const auto slot : remote_.free())
    check_slot(remote_, slot, "peer's");
  for (const auto& past : past_) {
    for (std::size_t i = 0; i < past.items.size(); ++i)
      where_.facts->transfers[past.items[i].fact].final_status = past.batch->result(i).status;
    if (past.notice)
      where_.facts->notices[*past.notice].final_status = past.batch->notice().status;
  }
}

} // namespace actor_rdma::drill
