// SPDX-License-Identifier: Apache-2.0
//
// Completions by ibv_start_poll and ibv_next_poll: one at a time, read through the functions of `ibv_cq_ex`.
#include "verbs/dropin/extended.hpp"
#include "verbs/soft/queue_pair.hpp"

#include <cerrno>
#include <ctime>
#include <memory>
#include <mutex>

namespace actor_rdma::verbs::dropin {

namespace {

/// One poll at a time, from a successful start to its end.
struct poller {
  ibv_wc wc{};
  std::mutex mutex;
  bool is_single_threaded = false;
};

soft::soft_cq& cq_of(ibv_cq_ex* cq) noexcept {
  return soft::soft_cq::of(ibv_cq_ex_to_cq(cq));
}
poller& poller_of(ibv_cq_ex* cq) noexcept {
  return *static_cast<poller*>(cq_of(cq).attachment.get());
}

int next_poll(ibv_cq_ex* cq) {
  auto& wc = poller_of(cq).wc;
  if (ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) == 0)
    return ENOENT;
  cq->status = wc.status;
  cq->wr_id = wc.wr_id;
  return 0;
}

void end_poll(ibv_cq_ex* cq) {
  auto& p = poller_of(cq);
  if (!p.is_single_threaded)
    p.mutex.unlock();
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
  if (attributes != nullptr && attributes->comp_mask != 0)
    return EINVAL;
  auto& p = poller_of(cq);
  if (!p.is_single_threaded)
    p.mutex.lock();
  const int error = next_poll(cq);
  if (error != 0)
    end_poll(cq); // after a start that failed the application does not end it
  return error;
}

std::uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

} // namespace

std::uint64_t completion_fields() noexcept {
  return std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
}

void add_extended_interface(ibv_cq& handle, bool single_threaded) {
  auto& cq = soft::soft_cq::of(&handle);
  auto p = std::make_shared<poller>();
  p->is_single_threaded = single_threaded;
  cq.attachment = std::move(p);
  auto& x = cq.ex();
  x.start_poll = start_poll;
  x.next_poll = next_poll;
  x.end_poll = end_poll;
  x.read_opcode = [](ibv_cq_ex* c) { return poller_of(c).wc.opcode; };
  x.read_vendor_err = [](ibv_cq_ex* c) { return poller_of(c).wc.vendor_err; };
  x.read_byte_len = [](ibv_cq_ex* c) { return poller_of(c).wc.byte_len; };
  x.read_imm_data = [](ibv_cq_ex* c) { return poller_of(c).wc.imm_data; };
  x.read_qp_num = [](ibv_cq_ex* c) { return poller_of(c).wc.qp_num; };
  x.read_src_qp = [](ibv_cq_ex* c) { return poller_of(c).wc.src_qp; };
  x.read_wc_flags = [](ibv_cq_ex* c) { return poller_of(c).wc.wc_flags; };
  x.read_slid = [](ibv_cq_ex* c) { return std::uint32_t{poller_of(c).wc.slid}; };
  x.read_sl = [](ibv_cq_ex* c) { return poller_of(c).wc.sl; };
  x.read_dlid_path_bits = [](ibv_cq_ex* c) { return poller_of(c).wc.dlid_path_bits; };
  // The NIC does not keep the time of a completion: this is when it is read.
  x.read_completion_ts = [](ibv_cq_ex*) { return nanoseconds(CLOCK_MONOTONIC); };
  x.read_completion_wallclock_ns = [](ibv_cq_ex*) { return nanoseconds(CLOCK_REALTIME); };
}

} // namespace actor_rdma::verbs::dropin
