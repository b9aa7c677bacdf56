// SPDX-License-Identifier: Apache-2.0
// Notices of a traffic: each has a name of its own, and what it speaks of is looked at in the very moment in
// which it is taken from the inbox.
#include "drill/sim/flow.hpp"

#include <cstring>

#include <fmt/format.h>

namespace actor_rdma::drill {

namespace {

std::vector<std::uint8_t> payload_of(std::uint64_t number) {
  std::vector<std::uint8_t> bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

} // namespace

notice flow::next_notice() const {
  return {fmt::format("{}/{}", spec_.name, submitted_), payload_of(submitted_)};
}

void flow::notice_submitted(open_batch& of, const std::string& name) {
  auto& facts = *where_.facts;
  notice_fact f;
  f.name = name;
  f.traffic = spec_.name;
  f.from = where_.from->name();
  f.to = where_.to->name();
  f.first_transfer = submitted_;
  f.transfers = of.items.size();
  const auto& c = where_.from->engine().config();
  f.limit = now() + spec_.deadline;
  if (f.transfers > 0)
    f.limit += c.fence_grace + c.drain_deadline + c.remote_fence_timeout;
  of.notice = facts.notices.size();
  notices_.emplace(name, sent_notice{*of.notice, of.items, remote_life_, {}});
  facts.notices.push_back(std::move(f));
}

void flow::notice_told(const open_batch& of) {
  auto& f = where_.facts->notices[*of.notice];
  const auto r = of.batch->notice();
  f.status = r.status;
  f.cause = r.cause;
  f.told = now();
  ++f.ends;
  if (of.items.empty())
    ++ended_;
  readable_until(of,
                 r.status == notice_status::unknown ? where_.in->now() + keep_out_time : where_.in->now());
}

void flow::readable_until(const open_batch& of, base::time_point until) {
  notices_.at(where_.facts->notices[*of.notice].name).readable_until = until;
}

void flow::notice_taken(const sim::machine& by, const received_notice& what) {
  const auto found = notices_.find(what.what.name);
  if (found == notices_.end())
    return;
  auto& sent = found->second;
  auto& f = where_.facts->notices[sent.fact];
  const auto wrong = [&f](std::string text) {
    if (!f.wrong)
      f.wrong = std::move(text);
  };
  ++f.seen;
  if (!f.first_seen)
    f.first_seen = now();
  if (&by != where_.to || what.from != f.from || sent.remote_life != remote_life_)
    return wrong(fmt::format("it came from {} to another process than it was sent to", what.from));
  if (what.what.payload != payload_of(f.first_transfer))
    wrong("its payload is not what was sent");
  if (spec_.op != operation::write || !spec_.verify || where_.in->now() > sent.readable_until)
    return; // nothing of it is in this memory, or the memory has been given to others
  for (const auto& i : sent.items) {
    const auto& t = where_.facts->transfers[i.fact];
    if (const auto bad = remote_.wrong(i.remote, t.number, t.bytes))
      return wrong(fmt::format("the data of transfer {} was not there: {}", t.number, *bad));
  }
}

} // namespace actor_rdma::drill
