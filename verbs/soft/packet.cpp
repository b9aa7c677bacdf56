// SPDX-License-Identifier: Apache-2.0
//
// The journey of a late packet.
#include "verbs/soft/packet.hpp"

#include "verbs/soft/queue_pair.hpp"
#include "verbs/soft/runtime.hpp"

namespace actor_rdma::verbs::soft {

packet::packet(runtime& rt, packet_origin from, const responder& to, const request& what,
               const logged_work& work)
    : rt_{rt}, from_{std::move(from)}, to_{to}, what_{what}, work_{work} {}

void packet::launch(nanos lands_at) {
  rt_.wire()->schedule(shared_from_this(), {lands_at, from_.device, from_.qp_num, from_.wr});
}

bool packet::is_link_down() const noexcept {
  const auto& devices = rt_.tables().devices;
  const auto is_down = [&](std::uint32_t d) {
    return devices[d].link_seq.load(std::memory_order_seq_cst) % 2 != 0;
  };
  return is_down(from_.device) || is_down(to_.device);
}

void packet::run(nanos now, nanos, copy_budget& budget) {
  if (is_link_down()) {
    rt_.stall(shared_from_this());
    return;
  }
  auto result = verdict::lost;
  if (soft::is_wire_open(rt_, from_.device, to_)) {
    execution at_work{rt_.process()};
    const ibv_sge bytes{reinterpret_cast<std::uintptr_t>(payload_.data()), what_.length, 0};
    region_cache cache;
    result = serve(rt_, at_work, to_, what_, {&bytes, 1}, cache, done_, budget);
  }
  if (result == verdict::unfinished) {
    launch(now);
    return;
  }
  const bool has_landed = result == verdict::executed && !what_.is_read;
  if (has_landed || result != verdict::executed)
    log(now, has_landed ? log_kind::landed_late : log_kind::dropped_late,
        result == verdict::executed || result == verdict::lost
            ? 0U
            : static_cast<std::uint32_t>(status_of(result)));
  if (const auto sender = from_.sender.lock(); sender)
    sender->packet_arrived(from_.wr, *this, result, now);
}

void packet::log(nanos now, log_kind kind, std::uint32_t detail) {
  auto& t = rt_.tables();
  write_log(t, now, kind, t.devices[from_.device], from_.qp_num, detail, work_);
}

} // namespace actor_rdma::verbs::soft
