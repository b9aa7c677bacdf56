// SPDX-License-Identifier: Apache-2.0
//
// Writing and reading the ring of log entries.
#include "verbs/soft/event_log.hpp"

#include "verbs/soft/rules/verdicts.hpp"
#include "verbs/soft/tables.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

namespace actor_rdma::verbs::soft {

namespace {

struct record {
  nanos at;
  std::uint32_t kind;
  std::uint32_t qp_num;
  std::uint64_t wr_id;
  std::uint64_t remote_addr;
  std::uint32_t length;
  std::uint32_t detail;
  std::array<char, layout::max_name + 1> device;
  std::uint32_t rule;
  std::uint32_t peer;
  std::uint64_t wr;
  std::uint32_t verdict; // code << 16 | action << 8 | target
};
static_assert(sizeof(record) <= sizeof(std::array<std::uint64_t, layout::log_words>));

constexpr std::array<const char*, 28> names{"attach",
                                            "detach",
                                            "link_down",
                                            "link_up",
                                            "hang_on",
                                            "hang_off",
                                            "delay_on",
                                            "delay_off",
                                            "mode_changed",
                                            "address_changed",
                                            "posted",
                                            "swallowed",
                                            "landed_late",
                                            "dropped_late",
                                            "flushed",
                                            "retry_exceeded",
                                            "remote_access_error",
                                            "local_protection_error",
                                            "async_event",
                                            "qp_created",
                                            "qp_destroyed",
                                            "rule",
                                            "receiver_not_ready",
                                            "device_lost",
                                            "device_back",
                                            "member_down",
                                            "member_up",
                                            "width_changed"};
static_assert(names.size() == static_cast<std::size_t>(log_kind::width_changed) + 1);

log_entry to_entry(const layout::tables& t, const record& r) {
  log_entry e;
  e.at = base::time_point{base::duration{r.at}};
  e.kind = static_cast<log_kind>(r.kind);
  e.device = r.device.data();
  e.qp_num = r.qp_num;
  e.wr_id = r.wr_id;
  e.remote_addr = r.remote_addr;
  e.length = r.length;
  e.detail = r.detail;
  if (e.kind == log_kind::rule) {
    e.rule = r.rule;
    e.wr = r.wr;
    if (r.peer < layout::max_devices)
      e.peer = device_name(t.devices[r.peer]);
    e.op = subject_text(static_cast<rule_target>(r.verdict & 0xff), r.verdict >> 16);
    e.verdict = verdict_text(static_cast<rule_action>(r.verdict >> 8 & 0xff), r.detail);
  }
  return e;
}

enum class found { entry, overwritten, unfinished };

found read_slot(const layout::log_slot& slot, std::uint64_t number, record& out) {
  const auto before = slot.sequence.load(std::memory_order_acquire);
  if (before != number + 1)
    return before > number + 1 ? found::overwritten : found::unfinished;
  std::array<std::uint64_t, layout::log_words> words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = slot.words[i].load(std::memory_order_acquire);
  if (slot.sequence.load(std::memory_order_acquire) != before)
    return found::overwritten;
  std::memcpy(&out, words.data(), sizeof out);
  return found::entry;
}

} // namespace

const char* to_string(log_kind kind) noexcept {
  const auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : "unknown";
}

void write_log(layout::tables& t, nanos at, log_kind kind, const layout::device_entry& device,
               std::uint32_t qp_num, std::uint32_t detail, const logged_work& work,
               const logged_verdict& verdict) noexcept {
  record r{at,
           static_cast<std::uint32_t>(kind),
           qp_num,
           work.wr_id,
           work.remote_addr,
           work.length,
           detail,
           device.name,
           verdict.rule,
           verdict.peer,
           verdict.wr,
           verdict.code << 16 | verdict.action << 8 | verdict.target};
  std::array<std::uint64_t, layout::log_words> words{};
  std::memcpy(words.data(), &r, sizeof r);
  const auto number = t.head.log_head.fetch_add(1, std::memory_order_acq_rel);
  auto& slot = t.log[number % layout::log_capacity];
  slot.sequence.store(0, std::memory_order_seq_cst);
  for (std::size_t i = 0; i < words.size(); ++i)
    slot.words[i].store(words[i], std::memory_order_release);
  slot.sequence.store(number + 1, std::memory_order_release);
}

std::vector<log_entry> read_log(const layout::tables& t, std::uint64_t from, std::uint64_t& next) {
  const auto head = t.head.log_head.load(std::memory_order_acquire);
  const auto oldest = head > layout::log_capacity ? head - layout::log_capacity : 0;
  std::vector<log_entry> entries;
  next = std::min(std::max(from, oldest), head);
  for (; next < head; ++next) {
    record r;
    auto got = read_slot(t.log[next % layout::log_capacity], next, r);
    // Its writer is a few instructions from finishing it, unless it was stopped or killed there.
    for (int tries = 0; got == found::unfinished && tries < 1000; ++tries) {
      std::this_thread::yield();
      got = read_slot(t.log[next % layout::log_capacity], next, r);
    }
    if (got == found::entry)
      entries.push_back(to_entry(t, r));
  }
  return entries;
}

bool logs_posts(layout::tables& t, nanos now) noexcept {
  auto until = t.head.log_posts_until.load(std::memory_order_relaxed);
  if (until == 0)
    return false;
  if (now <= until)
    return true;
  t.head.log_posts_until.compare_exchange_strong(until, 0, std::memory_order_relaxed);
  return false;
}

void note_fault_change(layout::tables& t, nanos now) noexcept {
  constexpr nanos afterglow = 1'000'000'000;
  const bool any =
      std::any_of(t.devices.begin(), t.devices.begin() + device_slots(t), [](const layout::device_entry& d) {
        return d.used.load(std::memory_order_acquire) != 0 &&
               (d.link_seq.load(std::memory_order_relaxed) % 2 != 0 ||
                d.hang.load(std::memory_order_relaxed) != 0 || d.delay.load(std::memory_order_relaxed) != 0 ||
                std::any_of(d.wires.begin(), d.wires.end(), [](const layout::wire_entry& w) {
                  return w.is_down.load(std::memory_order_relaxed) != 0;
                }));
      });
  t.head.log_posts_until.store(any ? never : now + afterglow, std::memory_order_relaxed);
}

} // namespace actor_rdma::verbs::soft
