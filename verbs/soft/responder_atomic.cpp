// SPDX-License-Identifier: Apache-2.0
//
// Atomics. A requester that reaches the memory with instructions of its own executes them itself; one that
// could only copy leaves the request in the mailbox of the responder's queue pair, and the engine of the
// process that owns the memory executes it. Whoever executes one first takes its sequence number, which only
// one can; what was answered is kept, so that a request that comes again is answered and not executed.
#include "verbs/soft/responder.hpp"
#include "verbs/soft/responder_steps.hpp"
#include "verbs/soft/runtime.hpp"
#include "verbs/soft/tables.hpp"

#include <atomic>
#include <cstring>
#include <optional>

namespace actor_rdma::verbs::soft {

namespace {

using layout::atomic_entry;
using layout::mail_state;

constexpr std::uint64_t name_of(std::uint64_t generation, std::uint32_t psn) noexcept {
  return generation << 25 | std::uint64_t{psn} << 1 | 1;
}
constexpr std::uint64_t mail_word(std::uint64_t generation, std::uint32_t psn, mail_state state) noexcept {
  return generation << 32 | std::uint64_t{psn} << 8 | static_cast<std::uint64_t>(state);
}
constexpr mail_state state_of_mail(std::uint64_t word) noexcept {
  return static_cast<mail_state>(word & 0xff);
}
constexpr std::uint32_t psn_of_mail(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 8) & psn_mask;
}

// -- answers
// ---------------------------------------------------------------------------------------------------

void keep_answer(atomic_entry& entry, std::uint64_t name, std::uint64_t value) noexcept {
  for (auto& place : entry.answers) // sequence numbers come again
    if (place.name.load(std::memory_order_relaxed) == name)
      place.name.store(0, std::memory_order_seq_cst);
  auto& place =
      entry.answers[entry.next_answer.fetch_add(1, std::memory_order_relaxed) % layout::kept_answers];
  place.name.store(0, std::memory_order_seq_cst);
  place.value.store(value, std::memory_order_seq_cst);
  place.name.store(name, std::memory_order_seq_cst);
}

std::optional<std::uint64_t> find_answer(const atomic_entry& entry, std::uint64_t name) noexcept {
  for (const auto& place : entry.answers)
    if (place.name.load(std::memory_order_seq_cst) == name) {
      const auto value = place.value.load(std::memory_order_seq_cst);
      if (place.name.load(std::memory_order_seq_cst) == name)
        return value;
    }
  return std::nullopt;
}

void write_answer(const ibv_sge& local, std::uint64_t value) noexcept {
  std::memcpy(reinterpret_cast<void*>(local.addr), &value, sizeof value);
}

// -- the mailbox
// -----------------------------------------------------------------------------------------------

/// Leaves the request for the owner. Who finds another thread at it comes again.
verdict ask(runtime& rt, const responder& to, const request& what,
            const atomic_operation& operation) noexcept {
  auto& t = rt.tables();
  auto& entry = t.atomics[to.qp_index];
  auto seen = entry.mail.load(std::memory_order_seq_cst);
  const bool is_of_this_life = (seen ^ mail_word(to.generation, 0, mail_state::none)) >> 32 == 0;
  if ((is_of_this_life && state_of_mail(seen) == mail_state::writing) ||
      !entry.mail.compare_exchange_strong(seen, mail_word(to.generation, what.psn, mail_state::writing),
                                          std::memory_order_seq_cst))
    return verdict::asked;
  entry.remote_addr.store(what.remote_addr, std::memory_order_relaxed);
  entry.compare_add.store(operation.compare_add, std::memory_order_relaxed);
  entry.swap.store(operation.swap, std::memory_order_relaxed);
  entry.rkey.store(what.rkey, std::memory_order_relaxed);
  entry.reads_ahead.store(what.reads_ahead, std::memory_order_relaxed);
  entry.is_swap.store(operation.is_swap ? 1 : 0, std::memory_order_relaxed);
  entry.mail.store(mail_word(to.generation, what.psn, mail_state::asked), std::memory_order_seq_cst);
  t.processes[to.process].atomics.store(1, std::memory_order_seq_cst);
  rt.ring(to.process);
  return verdict::asked;
}

/// What became of the request in the mailbox, if this one was left there. The owner's refusal has already
/// ended its queue pair, so this comes before looking at that.
std::optional<verdict> look_for_mail(atomic_entry& entry, const responder& to, const request& what,
                                     const ibv_sge& local) noexcept {
  auto word = entry.mail.load(std::memory_order_seq_cst);
  if (word == mail_word(to.generation, what.psn, mail_state::asked))
    return verdict::asked;
  if (word != mail_word(to.generation, what.psn, mail_state::answered))
    return std::nullopt;
  const auto result = static_cast<verdict>(entry.result.load(std::memory_order_relaxed));
  const auto before = entry.before.load(std::memory_order_relaxed);
  if (entry.mail.load(std::memory_order_seq_cst) != word)
    return std::nullopt;
  if (result == verdict::executed) {
    write_answer(local, before);
    // If it comes again, its answer is among those that are kept: the mail must not answer for a later
    // request with the same number.
    entry.mail.compare_exchange_strong(word, mail_word(to.generation, 0, mail_state::none),
                                       std::memory_order_seq_cst);
  }
  return result;
}

// -- executing
// -------------------------------------------------------------------------------------------------

/// Takes the sequence number, then does it. The caller has checked everything.
verdict perform(layout::tables& t, const responder& to, const request& what,
                const atomic_operation& operation, std::uint64_t* at, const ibv_sge& local) noexcept {
  auto expected = what.psn;
  if (!t.qps[to.qp_index].expected_psn.compare_exchange_strong(expected, (what.psn + what.packets) & psn_mask,
                                                               std::memory_order_seq_cst))
    return verdict::unfinished; // another thread took it in this moment: look again
  auto before = operation.compare_add;
  if (at == nullptr) {
    before = 0; // nothing moves
  } else if (std::atomic_ref<std::uint64_t> cell{*at}; operation.is_swap) {
    cell.compare_exchange_strong(before, operation.swap, std::memory_order_seq_cst);
  } else {
    before = cell.fetch_add(operation.compare_add, std::memory_order_seq_cst);
  }
  keep_answer(t.atomics[to.qp_index], name_of(to.generation, what.psn), before);
  if (at != nullptr)
    write_answer(local, before);
  return verdict::executed;
}

verdict serve_next(runtime& rt, const responder& to, const request& what, const atomic_operation& operation,
                   const ibv_sge& local, region_cache& cache) {
  auto& t = rt.tables();
  auto& qp = t.qps[to.qp_index];
  const auto& mr = t.mrs[cache.index];
  if ((qp.access.load(std::memory_order_relaxed) & IBV_ACCESS_REMOTE_ATOMIC) == 0 ||
      !has_room_for(qp, what) || what.remote_addr % sizeof(std::uint64_t) != 0)
    return refuse(rt, to, verdict::invalid_request);
  const auto state = mr.state.load(std::memory_order_seq_cst);
  if (state == 0 || static_cast<std::uint32_t>(state) != what.rkey)
    return refuse(rt, to, verdict::access_error);
  if (cache.state != state)
    look_up(cache, mr, state, to);
  if ((cache.access & IBV_ACCESS_REMOTE_ATOMIC) == 0 || !is_within(cache, what))
    return refuse(rt, to, verdict::access_error);
  if (!what.moves_payload)
    return perform(t, to, what, operation, nullptr, local);
  const auto epoch = rt.mappings().epoch();
  if (!cache.has_way || cache.epoch != epoch) {
    cache.where = find_way(rt, mr, cache.index, state);
    cache.epoch = epoch;
    cache.has_way = true;
  }
  if (cache.where.way == tier::system_call)
    return ask(rt, to, what, operation);
  auto* const at = cache.where.base + static_cast<std::size_t>(what.remote_addr - cache.addr);
  return perform(t, to, what, operation, reinterpret_cast<std::uint64_t*>(at), local);
}

/// From the sequence number on.
verdict serve_in_order(runtime& rt, const responder& to, const request& what,
                       const atomic_operation& operation, const ibv_sge& local, region_cache& cache,
                       std::uint64_t word) {
  auto& t = rt.tables();
  auto& qp = t.qps[to.qp_index];
  switch (classify(what.psn, qp.expected_psn.load(std::memory_order_seq_cst))) {
  case arrival::early: return verdict::lost;
  case arrival::repeated: {
    if ((qp.access.load(std::memory_order_relaxed) & IBV_ACCESS_REMOTE_ATOMIC) == 0)
      return verdict::lost;
    const auto answer = find_answer(t.atomics[to.qp_index], name_of(to.generation, what.psn));
    if (!answer)
      return verdict::lost; // too old, or not an atomic when it first came: a responder drops it
    write_answer(local, *answer);
    return verdict::executed;
  }
  case arrival::next: break;
  }
  if (qp_is(word, IBV_QPS_RTR))
    note_first_message(rt, to);
  return serve_next(rt, to, what, operation, local, cache);
}

} // namespace

verdict serve_atomic(runtime& rt, execution& at_work, const responder& to, const request& what,
                     const atomic_operation& operation, const ibv_sge& local, region_cache& cache) {
  auto& t = rt.tables();
  const auto& qp = t.qps[to.qp_index];
  cache.choose(t, what.rkey);
  at_work.target(to.qp_index, cache.index); // first say it, then look
  // Without the right the entry may have no memory behind it.
  if ((qp.access.load(std::memory_order_relaxed) & IBV_ACCESS_REMOTE_ATOMIC) != 0)
    if (const auto answered = look_for_mail(t.atomics[to.qp_index], to, what, local); answered)
      return *answered;
  const auto word = qp.word.load(std::memory_order_seq_cst);
  if (qp_generation(word) != to.generation || !qp_responds(word) || !fits_ports(t, to, what))
    return verdict::lost;
  return serve_in_order(rt, to, what, operation, local, cache, word);
}

void answer_atomic(runtime& rt, std::uint32_t qp_index) {
  auto& t = rt.tables();
  auto& entry = t.atomics[qp_index];
  const auto& qp = t.qps[qp_index];
  auto mail = entry.mail.load(std::memory_order_seq_cst);
  if (state_of_mail(mail) != mail_state::asked)
    return;
  request what;
  what.is_read = true;
  what.rkey = entry.rkey.load(std::memory_order_relaxed);
  what.length = sizeof(std::uint64_t);
  what.remote_addr = entry.remote_addr.load(std::memory_order_relaxed);
  what.psn = psn_of_mail(mail);
  what.reads_ahead = entry.reads_ahead.load(std::memory_order_relaxed);
  const atomic_operation operation{entry.is_swap.load(std::memory_order_relaxed) != 0,
                                   entry.compare_add.load(std::memory_order_relaxed),
                                   entry.swap.load(std::memory_order_relaxed)};
  if (entry.mail.load(std::memory_order_seq_cst) != mail)
    return; // another request lies there by now, and whoever left it rings
  execution at_work{rt.process()};
  region_cache cache;
  cache.choose(t, what.rkey);
  at_work.target(qp_index, cache.index);
  const auto word = qp.word.load(std::memory_order_seq_cst);
  responder self;
  self.qp_index = qp_index;
  self.generation = qp_generation(word);
  self.device = qp.device.load(std::memory_order_relaxed);
  self.process = rt.process_index();
  self.pd = qp.pd.load(std::memory_order_relaxed);
  if (!qp_responds(word) || mail != mail_word(self.generation, what.psn, mail_state::asked))
    return; // of an earlier life, or for one that ended: its requester's time runs out
  std::uint64_t before = 0;
  const ibv_sge local{reinterpret_cast<std::uintptr_t>(&before), sizeof before, 0};
  auto result = serve_in_order(rt, self, what, operation, local, cache, word);
  if (result == verdict::unfinished) // done by another thread in this moment
    result = serve_in_order(rt, self, what, operation, local, cache, word);
  entry.before.store(before, std::memory_order_relaxed);
  entry.result.store(static_cast<std::uint8_t>(result), std::memory_order_relaxed);
  entry.mail.compare_exchange_strong(mail, mail_word(self.generation, what.psn, mail_state::answered),
                                     std::memory_order_seq_cst);
}

} // namespace actor_rdma::verbs::soft
