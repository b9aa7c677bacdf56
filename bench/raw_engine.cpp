// SPDX-License-Identifier: Apache-2.0
// The bare loop.
#include "bench/raw_engine.hpp"

#include "transport/transport.hpp"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::bench {

namespace {

constexpr std::size_t chain_length = 64;
constexpr std::uint64_t window_bytes = 8ull << 20;
constexpr std::uint64_t signal_interval_bytes = 1ull << 20;
/// Empty polls before the thread offers its core to somebody else.
constexpr std::uint32_t spin = 2000;

} // namespace

raw_engine::raw_engine(const settings& what, raw_link& link, run_control& control, run_memory memory)
    : what_(what), control_(control), memory_(memory),
      remote_base_(reinterpret_cast<std::uint64_t>(memory.peer.data())), content_(what, 0, memory, nullptr),
      wrs_(chain_length), sges_(chain_length) {
  for (auto& r : link.rails()) {
    cqs_.push_back(r.near.cq.get());
    for (auto& qp : r.near.qps) {
      queue q;
      q.qp = qp.get();
      q.lkey = r.near.mr.lkey();
      q.rkey = r.far.mr.rkey();
      queues_.push_back(std::move(q));
    }
  }
}

base::expected<void> raw_engine::run() {
  std::uint32_t idle = 0;
  auto last_progress = base::mono_clock::now();
  for (bool goes_on = true; goes_on || !open_.empty();) {
    if (!measuring_ && control_.is_measuring()) {
      measuring_ = true;
      count_.begin_measuring();
    }
    while (goes_on && open_.size() < what_.depth)
      goes_on = begin_batch();
    const bool posted = post_some();
    if (post_error_ != 0)
      return base::fail(base::reason::local_device, "bench", "ibv_post_send", post_error_);
    const auto polled = poll_some();
    if (!polled)
      return base::fail(polled.error());
    if (posted || *polled) {
      idle = 0;
    } else if (++idle % spin == 0) {
      if (idle == spin)
        last_progress = base::mono_clock::now();
      else if (base::mono_clock::now() - last_progress > patience())
        return base::fail(base::reason::timeout, "bench",
                          "the raw loop waits for completions that do not come");
      std::this_thread::yield();
    }
  }
  return {};
}

/// For completions. Without a deadline there is no limit to it before the run is over.
base::duration raw_engine::patience() const {
  const bool waits_on = what_.deadline != submit_options::no_deadline || !control_.finished().load();
  return waits_on ? what_.deadline : patience_after_run;
}

bool raw_engine::begin_batch() {
  if (!control_.take_ticket())
    return false;
  auto& b = open_.emplace_back();
  b.where = &content_.take();
  content_.before(*b.where);
  b.begin = base::mono_clock::now();
  b.left = what_.batch_bytes();
  return true;
}

bool raw_engine::post_some() {
  bool posted = false;
  while (posting_ < open_.size() && post_error_ == 0) {
    auto& b = open_[posting_];
    if (b.cut == what_.batch_bytes()) {
      ++posting_;
      continue;
    }
    const auto slice = std::min(what_.size, what_.slice);
    // A short queue is shared between the QPs, as the transport does it.
    const auto waiting = (what_.batch_bytes() - b.cut + slice - 1) / slice +
                         (open_.size() - posting_ - 1) * ((what_.batch_bytes() + slice - 1) / slice);
    const auto share = std::min<std::uint64_t>((waiting + queues_.size() - 1) / queues_.size(), chain_length);
    std::size_t tried = 0;
    for (; tried < queues_.size(); ++tried) {
      auto& q = queues_[next_queue_];
      next_queue_ = next_queue_ + 1 == queues_.size() ? 0 : next_queue_ + 1;
      if (q.out < what_.send_queue && (q.out == 0 || q.out_bytes < window_bytes)) {
        post_error_ = post_chain(q, b, std::min<std::size_t>(share, what_.send_queue - q.out));
        posted = true;
        break;
      }
    }
    if (tried == queues_.size())
      break;
  }
  return posted;
}

int raw_engine::post_chain(queue& to, open_batch& from, std::size_t most) {
  std::size_t n = 0;
  signalled_part part{&from, 0, 0};
  for (; n < most && from.cut < what_.batch_bytes(); ++n) {
    const auto in_transfer = from.cut % what_.size;
    const auto length = std::min(what_.size - in_transfer, what_.slice);
    const auto at = from.where->offset + from.cut;
    auto& sge = sges_[n];
    sge.addr = reinterpret_cast<std::uint64_t>(memory_.local.data()) + at;
    sge.length = static_cast<std::uint32_t>(length);
    sge.lkey = to.lkey;
    auto& wr = wrs_[n];
    wr.wr_id = static_cast<std::uint64_t>(&to - queues_.data());
    wr.next = &wr + 1;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = what_.op == operation::read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = remote_base_ + at;
    wr.wr.rdma.rkey = to.rkey;
    from.cut += length;
    to.out_bytes += length;
    part.bytes += length;
    ++part.wrs;
    const bool signals =
        n + 1 == most || from.cut == what_.batch_bytes() || part.bytes >= signal_interval_bytes;
    wr.send_flags = signals ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u;
    if (signals)
      to.signalled.push_back(std::exchange(part, {&from, 0, 0}));
  }
  wrs_[n - 1].next = nullptr;
  to.out += static_cast<std::uint32_t>(n);
  ibv_send_wr* bad = nullptr;
  return ::ibv_post_send(to.qp, wrs_.data(), &bad);
}

base::expected<bool> raw_engine::poll_some() {
  std::array<ibv_wc, 32> wcs;
  bool any = false;
  for (auto* cq : cqs_) {
    const int n = ::ibv_poll_cq(cq, static_cast<int>(wcs.size()), wcs.data());
    if (n < 0)
      return base::fail(base::reason::local_device, "bench", "ibv_poll_cq");
    for (int i = 0; i < n; ++i) {
      const auto& wc = wcs[static_cast<std::size_t>(i)];
      if (wc.status != IBV_WC_SUCCESS)
        return base::fail(base::reason::path, "bench",
                          fmt::format("a WR ended with status {}", static_cast<int>(wc.status)));
      auto& q = queues_[wc.wr_id];
      const auto ended = q.signalled.front();
      q.signalled.pop_front();
      q.out -= ended.wrs;
      q.out_bytes -= ended.bytes;
      if ((ended.of->left -= ended.bytes) == 0)
        end_batch(*ended.of);
    }
    any = any || n > 0;
  }
  return any;
}

void raw_engine::end_batch(open_batch& ended) {
  count_.latency.record(static_cast<std::uint64_t>((base::mono_clock::now() - ended.begin).count()));
  ++count_.batches;
  count_.completed += what_.batch;
  count_.bytes += what_.batch_bytes();
  live_counters::add(live_.bytes, what_.batch_bytes());
  live_counters::add(live_.completed, what_.batch);
  content_.after(*ended.where, count_);
  while (!open_.empty() && open_.front().left == 0) {
    open_.pop_front();
    posting_ -= posting_ > 0 ? 1 : 0;
  }
}

} // namespace actor_rdma::bench
