// SPDX-License-Identifier: Apache-2.0
//
// Routing a request, checking it and executing it.
#include "verbs/soft/responder.hpp"

#include "base/log.hpp"
#include "verbs/soft/bond.hpp"
#include "verbs/soft/responder_steps.hpp"
#include "verbs/soft/runtime.hpp"
#include "verbs/soft/tables.hpp"

#include <atomic>
#include <cstring>

namespace actor_rdma::verbs::soft {

namespace {

bool is_allowed_operation(const layout::qp_entry& qp, const request& what) noexcept {
  const auto access = qp.access.load(std::memory_order_relaxed);
  if (what.is_read)
    return (access & IBV_ACCESS_REMOTE_READ) != 0 && has_room_for(qp, what);
  return (access & IBV_ACCESS_REMOTE_WRITE) != 0 && !has_long_packets(qp, what);
}

bool is_allowed_access(const region_cache& region, const request& what) noexcept {
  const std::uint32_t right = what.is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  return (region.access & right) != 0 && is_within(region, what);
}

verdict from_move(runtime& rt, const responder& to, const layout::qp_entry& qp, moved m) {
  switch (m) {
  case moved::all: return verdict::executed;
  case moved::some: return verdict::unfinished;
  case moved::no_process: return verdict::lost;
  case moved::revoked: { // between two pieces: which of the two went?
    const auto word = qp.word.load(std::memory_order_seq_cst);
    const bool responds = qp_generation(word) == to.generation && qp_responds(word);
    return responds ? refuse(rt, to, verdict::access_error) : verdict::lost;
  }
  case moved::no_permission: log_no_permission(rt, to); break;
  case moved::fault: break;
  }
  return refuse(rt, to, verdict::operation_error);
}

} // namespace

void look_up(region_cache& cache, const layout::mr_entry& mr, std::uint64_t state,
             const responder& to) noexcept {
  cache.state = state;
  cache.addr = mr.addr.load(std::memory_order_relaxed);
  cache.length = mr.length.load(std::memory_order_relaxed);
  cache.access = mr.pd.load(std::memory_order_relaxed) == to.pd ? mr.access.load(std::memory_order_relaxed)
                                                                : std::uint32_t{0};
  cache.has_way = false;
}

verdict refuse(runtime& rt, const responder& to, verdict why, std::uint32_t sign) noexcept {
  auto& entry = rt.tables().qps[to.qp_index];
  auto word = entry.word.load(std::memory_order_seq_cst);
  if (why == verdict::invalid_request && sign == 0)
    sign = layout::invalid_request;
  while (qp_generation(word) == to.generation && qp_responds(word)) {
    entry.signs.fetch_or(sign, std::memory_order_seq_cst);
    if (entry.word.compare_exchange_weak(word, qp_word(to.generation, IBV_QPS_ERR),
                                         std::memory_order_seq_cst)) {
      tell_owner(rt, to);
      break;
    }
  }
  return why;
}

void tell_owner(runtime& rt, const responder& to) noexcept {
  rt.tables().processes[to.process].remote_errors.store(1, std::memory_order_seq_cst);
  rt.ring(to.process);
}

void note_first_message(runtime& rt, const responder& to) noexcept {
  auto& signs = rt.tables().qps[to.qp_index].signs;
  if ((signs.load(std::memory_order_relaxed) & layout::established) == 0 &&
      (signs.fetch_or(layout::established, std::memory_order_seq_cst) & layout::established) == 0)
    tell_owner(rt, to);
}

reachable find_way(runtime& rt, const layout::mr_entry& mr, std::uint32_t index, std::uint64_t state) {
  const auto process = mr.owner.load(std::memory_order_relaxed) - 1;
  const auto addr = mr.addr.load(std::memory_order_relaxed);
  if (rt.is_own_process(process))
    return {tier::own_process, reinterpret_cast<std::byte*>(addr), 0};
  const auto pid = rt.tables().processes[process].pid.load(std::memory_order_relaxed);
  if (auto* const base = rt.mappings().find(mr, index, state, pid); base != nullptr) {
    rt.ring(rt.process_index()); // from now on the engine has mappings to look after
    return {tier::mapped, base, 0};
  }
  return {tier::system_call, nullptr, pid};
}

void log_no_permission(const runtime& rt, const responder& to) {
  base::log(base::level::error, "soft NIC",
            "the memory of {} cannot be reached: process_vm access is refused (same user? ptrace scope?)",
            device_name(rt.tables().devices[to.device]));
}

bool resolve(const runtime& rt, const route& way, std::uint32_t qpn, std::uint32_t own_qpn,
             responder& out) noexcept {
  auto& t = rt.tables();
  const auto device = device_on(t, way);
  if (!device)
    return false;
  const auto epoch = address_epoch(t.devices[*device], std::memory_order_seq_cst);
  if (!leads_to(t, way, *device))
    return false; // it went since it was found
  const auto index = index_of_qp_number(t, qpn);
  const auto& entry = t.qps[index];
  const auto word = entry.word.load(std::memory_order_seq_cst);
  out = {index,
         qp_generation(word),
         *device,
         t.devices[*device].generation.load(std::memory_order_relaxed),
         t.devices[*device].process.load(std::memory_order_relaxed),
         entry.pd.load(std::memory_order_relaxed),
         way,
         epoch};
  const bool connected = qp_responds(word) && entry.qpn.load(std::memory_order_relaxed) == qpn &&
                         entry.device.load(std::memory_order_relaxed) == *device &&
                         entry.dest_qpn.load(std::memory_order_relaxed) == own_qpn &&
                         entry.dest_path.load(std::memory_order_relaxed) == path_from(t, way);
  // All fields above belong to one life of the entry only if it is still the same.
  return connected && qp_generation(entry.word.load(std::memory_order_seq_cst)) == out.generation;
}

bool is_wire_open(const runtime& rt, std::uint32_t own_device, std::uint32_t own_qp_index,
                  const responder& to) noexcept {
  const auto& t = rt.tables();
  const auto& device = t.devices[to.device];
  return t.devices[own_device].link_seq.load(std::memory_order_relaxed) % 2 == 0 &&
         device.link_seq.load(std::memory_order_relaxed) % 2 == 0 &&
         device.used.load(std::memory_order_acquire) != 0 &&
         device.generation.load(std::memory_order_relaxed) == to.device_generation &&
         rt.is_reachable(to.process) &&
         (address_epoch(device, std::memory_order_relaxed) == to.address_epoch ||
          leads_to(t, to.way, to.device)) &&
         is_member_up(rt, own_device, own_qp_index) && is_member_up(rt, to.device, to.qp_index);
}

ibv_wc_status status_of(verdict refusal) noexcept {
  switch (refusal) {
  case verdict::invalid_request: return IBV_WC_REM_INV_REQ_ERR;
  case verdict::access_error: return IBV_WC_REM_ACCESS_ERR;
  default: return IBV_WC_REM_OP_ERR;
  }
}

verdict move_payload(runtime& rt, execution& at_work, const responder& to, const request& what,
                     std::span<const ibv_sge> local, region_cache& cache, std::uint64_t& done,
                     copy_budget& budget) {
  auto& t = rt.tables();
  const auto& qp = t.qps[to.qp_index];
  auto& mr = t.mrs[cache.index];
  at_work.target(to.qp_index, cache.index);
  const auto state = mr.state.load(std::memory_order_seq_cst);
  if (state == 0 || static_cast<std::uint32_t>(state) != what.rkey)
    return refuse(rt, to, verdict::access_error);
  if (cache.state != state)
    look_up(cache, mr, state, to);
  if (!is_allowed_access(cache, what))
    return refuse(rt, to, verdict::access_error);
  if (!what.moves_payload)
    return verdict::executed;
  const auto epoch = rt.mappings().epoch();
  if (!cache.has_way || cache.epoch != epoch) {
    cache.where = find_way(rt, mr, cache.index, state);
    cache.epoch = epoch;
    cache.has_way = true;
  }
  const move_order bytes{cache.where, what.remote_addr - cache.addr, what.remote_addr, local, what.length,
                         what.is_read};
  const permission may{&qp.word, to.generation, &mr.state, state};
  if (move_at_once(bytes, done, budget))
    return verdict::executed;
  return from_move(rt, to, qp, move_bytes(bytes, may, done, budget));
}

verdict serve(runtime& rt, execution& at_work, const responder& to, const request& what,
              std::span<const ibv_sge> local, region_cache& cache, std::uint64_t& done, copy_budget& budget) {
  auto& t = rt.tables();
  auto& qp = t.qps[to.qp_index];
  cache.choose(t, what.rkey);
  at_work.target(to.qp_index, cache.index); // first say it, then look
  const auto word = qp.word.load(std::memory_order_seq_cst);
  if (qp_generation(word) != to.generation || !qp_responds(word))
    return verdict::lost;

  if (!fits_ports(t, to, what))
    return verdict::lost;
  const auto order = classify(what.psn, qp.expected_psn.load(std::memory_order_relaxed));
  if (order == arrival::early)
    return verdict::lost;
  if (order == arrival::repeated && !what.is_read)
    return verdict::executed; // acknowledged, not executed again
  if (qp_is(word, IBV_QPS_RTR))
    note_first_message(rt, to);
  if (!is_allowed_operation(qp, what))
    return refuse(rt, to, verdict::invalid_request);
  if (what.length != 0) // the key of an empty message is not looked at
    if (const auto v = move_payload(rt, at_work, to, what, local, cache, done, budget);
        v != verdict::executed)
      return v;
  if (order == arrival::next)
    qp.expected_psn.store((what.psn + what.packets) & psn_mask, std::memory_order_relaxed);
  return verdict::executed;
}

} // namespace actor_rdma::verbs::soft
