// SPDX-License-Identifier: Apache-2.0
//
// Traffic, and what is noted of it.
#include "tests/kernel/behaviour/duo.hpp"

#include <cerrno>
#include <cstring>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace actor_rdma::tests::kernel {

using namespace std::chrono_literals;

namespace {

bool is_same(const ibv_gid& x, const ibv_gid& y) {
  return std::memcmp(x.raw, y.raw, sizeof x.raw) == 0;
}

void note_events(verbs::context& ctx, std::vector<ibv_event_type>& to) {
  for (;;) {
    const auto event = ctx.next_async_event();
    if (!event || !*event)
      return; // a dead descriptor says no more
    to.push_back((*event)->type);
  }
}

std::string list_of(const std::vector<ibv_event_type>& events) {
  std::string all;
  for (const auto e : events)
    all += (all.empty() ? "" : " ") + name_of(e);
  return all.empty() ? "-" : all;
}

} // namespace

rig::qp_options usual_options() {
  rig::qp_options o;
  o.mtu = IBV_MTU_1024;
  o.timeout = 14;
  o.retry_cnt = 6;
  o.cq_entries = 512;
  return o;
}

base::duration patience(const rig::qp_options& o) {
  return base::duration{(4096LL << o.timeout) * (o.retry_cnt + 1)};
}

bool record::saw(side which, ibv_event_type type) const {
  for (const auto e : events[which == side::b])
    if (e == type)
      return true;
  return false;
}

duo::duo(const rig::qp_options& options, bool with_bond) : duo(options, stage::open(with_bond)) {}

duo::duo(const rig::qp_options& options, std::unique_ptr<stage> on) : options_(options), net_(std::move(on)) {
  open();
  std::string verb;
  REQUIRE_MESSAGE(try_connect(&verb) == 0, verb);
  REQUIRE(traffic_flows());
  REQUIRE(run(false, 5s, [&] { return outstanding_ == 0; }));
  forget();
}

duo::~duo() = default;

void duo::close() {
  a_.reset();
  b_.reset();
  outstanding_ = 0;
}

void duo::open() {
  for (const auto which : {side::a, side::b}) {
    auto* const device = net_->device(which);
    REQUIRE(device != nullptr);
    (which == side::a ? a_ : b_) = rig::end::open(net_->table(which), device, options_);
  }
}

rig::address duo::where(side which) const {
  const auto& e = which == side::a ? *a_ : *b_;
  return {
      net_->gid(which), 0, e.qp.number(), e.options.psn, reinterpret_cast<std::uintptr_t>(e.memory), e.rkey};
}

std::optional<std::uint8_t> duo::index_of(const rig::end& e, const ibv_gid& gid) const {
  const auto gids = e.ctx.query_gids(1);
  REQUIRE(gids);
  for (const auto& entry : *gids)
    if (entry.type == IBV_GID_TYPE_ROCE_V2 && is_same(entry.gid, gid))
      return static_cast<std::uint8_t>(entry.index);
  return std::nullopt;
}

int duo::try_connect(std::string* verb) {
  const auto failed = [&](int error, const std::string& what) {
    if (verb != nullptr)
      *verb = fmt::format("{}: errno {}", what, error);
    return error;
  };
  for (auto* const e : {a_.get(), b_.get()}) {
    const bool is_a = e == a_.get();
    const auto index = index_of(*e, net_->gid(is_a ? side::a : side::b));
    if (!index)
      return failed(ENODATA, is_a ? "GID of a" : "GID of b");
    e->options.gid_index = *index;
    const auto peer = where(is_a ? side::b : side::a);
    if (const int error = e->to_init(); error != 0)
      return failed(error, "INIT");
    if (const int error = e->to_rtr(peer); error != 0)
      return failed(error, "RTR");
    if (const int error = e->to_rts(); error != 0)
      return failed(error, "RTS");
  }
  where_b_ = where(side::b);
  return 0;
}

void duo::renew() {
  for (auto* const e : {a_.get(), b_.get()}) {
    const auto gone = e->qp.destroy();
    REQUIRE_MESSAGE(gone, (gone ? "" : gone.error().to_string()));
  }
  outstanding_ = 0;
  a_->make_qp();
  b_->make_qp();
}

int duo::post_one() {
  const auto at = next_ % 64 * bytes;
  rig::fill(a_->memory + at, bytes, static_cast<unsigned>(next_));
  const int error = a_->write(next_, where_b_, at, at, bytes);
  if (error == 0) {
    ++next_;
    ++outstanding_;
  }
  return error;
}

void duo::note(const ibv_wc& wc) {
  --outstanding_;
  if (wc.status != IBV_WC_SUCCESS) {
    seen.errors.push_back(wc.status);
    if (!seen.first_error)
      seen.first_error = net_->now();
    return;
  }
  ++seen.successes;
  seen.last_success = net_->now();
  const auto at = wc.wr_id % 64 * bytes;
  CHECK_MESSAGE(std::memcmp(a_->memory + at, b_->memory + at, bytes) == 0,
                "WRITE " << wc.wr_id << " succeeded, and its bytes are not there");
}

void duo::step(bool posts) {
  std::array<ibv_wc, 64> got;
  while (posts && outstanding_ < depth)
    REQUIRE(post_one() == 0);
  net_->pass(1ms);
  const int n = ibv_poll_cq(a_->cq.get(), static_cast<int>(got.size()), got.data());
  for (int i = 0; i < n; ++i)
    note(got[static_cast<std::size_t>(i)]);
  note_events(a_->ctx, seen.events[0]);
  note_events(b_->ctx, seen.events[1]);
}

bool duo::run(bool posts, base::duration limit, const std::function<bool()>& until) {
  const auto end = net_->now() + limit;
  while (!until()) {
    if (net_->now() >= end)
      return until();
    step(posts);
  }
  return true;
}

bool duo::run_closed(base::duration limit, const std::function<bool()>& until) {
  const auto end = net_->now() + limit;
  while (!until() && net_->now() < end)
    net_->pass(5ms);
  return until();
}

std::vector<ibv_wc_status> duo::completions(std::size_t count, base::duration limit) {
  std::vector<ibv_wc_status> all;
  const auto end = net_->now() + limit;
  for (;;) {
    for (const auto& wc : a_->poll(64))
      all.push_back(wc.status);
    if (all.size() >= count || net_->now() >= end)
      return all;
    net_->pass(1ms);
  }
}

bool duo::traffic_flows(base::duration limit) {
  const auto target = seen.successes + 2 * depth;
  return run(true, limit, [&] { return seen.successes >= target || !seen.errors.empty(); }) &&
         seen.errors.empty();
}

void to_state(rig::end& e, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  const auto done = e.qp.modify(attr, IBV_QP_STATE);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().to_string()));
}

std::string name_of(ibv_wc_status status) {
  switch (status) {
  case IBV_WC_SUCCESS: return "SUCCESS";
  case IBV_WC_LOC_LEN_ERR: return "LOC_LEN_ERR";
  case IBV_WC_LOC_QP_OP_ERR: return "LOC_QP_OP_ERR";
  case IBV_WC_LOC_PROT_ERR: return "LOC_PROT_ERR";
  case IBV_WC_WR_FLUSH_ERR: return "WR_FLUSH_ERR";
  case IBV_WC_REM_INV_REQ_ERR: return "REM_INV_REQ_ERR";
  case IBV_WC_REM_ACCESS_ERR: return "REM_ACCESS_ERR";
  case IBV_WC_REM_OP_ERR: return "REM_OP_ERR";
  case IBV_WC_RETRY_EXC_ERR: return "RETRY_EXC_ERR";
  case IBV_WC_RNR_RETRY_EXC_ERR: return "RNR_RETRY_EXC_ERR";
  default: return fmt::format("status {}", static_cast<int>(status));
  }
}

std::string name_of(ibv_event_type type) {
  switch (type) {
  case IBV_EVENT_PORT_ERR: return "PORT_ERR";
  case IBV_EVENT_PORT_ACTIVE: return "PORT_ACTIVE";
  case IBV_EVENT_GID_CHANGE: return "GID_CHANGE";
  case IBV_EVENT_DEVICE_FATAL: return "DEVICE_FATAL";
  case IBV_EVENT_QP_FATAL: return "QP_FATAL";
  case IBV_EVENT_QP_ACCESS_ERR: return "QP_ACCESS_ERR";
  case IBV_EVENT_QP_REQ_ERR: return "QP_REQ_ERR";
  case IBV_EVENT_COMM_EST: return "COMM_EST";
  default: return fmt::format("event {}", static_cast<int>(type));
  }
}

std::string describe(const record& r) {
  std::string text = fmt::format("{} successes", r.successes);
  if (!r.errors.empty()) {
    text += fmt::format(", {}", name_of(r.errors.front()));
    if (r.errors.size() > 1)
      text += fmt::format(" and {} {}", r.errors.size() - 1, name_of(r.errors.back()));
    if (r.successes > 0)
      text += fmt::format(" {} ms after the last success", (*r.first_error - r.last_success) / 1ms);
  }
  return text + fmt::format(", a: {}, b: {}", list_of(r.events[0]), list_of(r.events[1]));
}

} // namespace actor_rdma::tests::kernel
