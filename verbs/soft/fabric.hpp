// SPDX-License-Identifier: Apache-2.0
// Public face of the software NIC: a fabric (the wire and the tables every host shares), hosts attached to
// it, and the control surface that changes links, faults and modes while traffic runs. A fabric is private to
// one process (tests, simulation in virtual time) or a named shared-memory segment that several processes
// attach to, each as one virtual host. Faults live in the fabric's tables, so that one write reaches every
// process. The evidence of what happened is the event log, with times of the fabric's clock.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "verbs/provider.hpp"
#include "verbs/soft/device_options.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace actor_rdma::verbs::soft {

struct fabric_options {
  /// Name of the shared segment; empty for a fabric private to this process.
  std::string name;
  /// nullptr: steady clock. A private fabric may run on a manual clock; then nothing happens but in
  /// advance().
  const base::clock_source* clock = nullptr;
  std::uint64_t seed = 1; ///< keys, QP numbers
  /// File of rules to add at opening; ACTOR_RDMA_SOFT_RULES on a steady clock, if this is empty.
  std::string rule_file;
  /// File to which this process's verdicts are appended as JSON lines; likewise ACTOR_RDMA_SOFT_VERDICTS.
  std::string verdict_file;
  /// For tools: opens an existing named fabric without becoming part of it. Control and log only, no
  /// attach().
  bool observe_only = false;
};

/// One line of the event log.
enum class log_kind : std::uint8_t {
  attach,
  detach,
  link_down,
  link_up,
  hang_on,
  hang_off,
  delay_on,
  delay_off,
  mode_changed,
  address_changed, ///< GID table, LID or MTU of a port
  posted,          ///< a WR was posted; logged only while a fault is set or was set in the last second
  swallowed,       ///< a WR met a hang: it will never complete
  landed_late,     ///< a delayed payload reached memory
  dropped_late,    ///< a delayed payload was refused at landing (QP, generation, state, key or range)
  flushed,
  retry_exceeded,
  remote_access_error,
  local_protection_error,
  async_event,
  qp_created,
  qp_destroyed,
  rule,               ///< a fault rule decided something
  receiver_not_ready, ///< no receive was posted for a WR; the first of a series of such answers
  device_lost,        ///< taken out of its host
  device_back,
  member_down, ///< of a bond
  member_up,
  width_changed
};
const char* to_string(log_kind) noexcept;

struct log_entry {
  base::time_point at;
  log_kind kind = log_kind::attach;
  std::string device; ///< "host/soft0"
  std::uint32_t qp_num = 0;
  std::uint64_t wr_id = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;
  std::uint32_t detail = 0; ///< wc status, event type, mode
  // Of a rule's decision only.
  std::uint32_t rule = 0;
  std::string peer;     ///< "host/soft0", of a work request
  std::uint64_t wr = 0; ///< number of the work request on its queue pair, from 0
  std::string op;       ///< "write", "reg_mr", "PORT_ERR"
  std::string verdict;  ///< "drop", "status:REM_ACCESS_ERR"
};

/// A fault rule of the fabric and how often it came to act.
struct rule_state {
  std::uint32_t id = 0;
  std::string text;
  std::uint64_t matches = 0; ///< what it spoke of happened
  std::uint64_t hits = 0;    ///< and its turn had come
};

/// `soft`: work is swallowed but still flushed when its queue pair goes to ERR. `hard`: not even that.
enum class hang_mode : std::uint8_t { off, soft, hard };

struct device_state {
  std::string name; ///< "host/soft0"
  bool link_up = true;
  bool hang = false;
  bool hang_hard = false;
  bool lost = false;
  base::duration delay{};
  nic_mode mode = nic_mode::immediate;
  double rate_gbit_s = 0; ///< of all members of a bond together
  std::uint32_t bond_members = 1;
  std::uint32_t members_up = 1;
  std::uint32_t lanes = 4; ///< as the port says
  double lane_gbit_s = 25;
  std::uint32_t open_qps = 0;
  std::uint32_t open_mrs = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t stuck_wrs = 0;
  std::uint32_t mtu = 4096;
  std::uint32_t lid = 0;
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
};

class host;

class fabric {
public:
  static base::expected<std::shared_ptr<fabric>> open(const fabric_options& options);
  virtual ~fabric() = default;

  /// Attaches a virtual host with its devices. The host must go before the fabric does. With a steady clock
  /// the process gets one engine thread (for all its hosts and devices) that serves what is due while nobody
  /// polls.
  virtual base::expected<std::unique_ptr<host>> attach(const std::string& host_name,
                                                       const std::vector<device_options>& devices) = 0;

  /// For a process that ends while its hosts stay as they are, because threads may still use them: takes the
  /// segment's file away if no other process is attached. Waits for at most 10 ms.
  virtual void leave_file() noexcept = 0;

  /// Virtual time: when the next thing is due (a landing, a completion, a retry time-out), if anything is.
  virtual std::optional<base::time_point> next_event() const = 0;
  /// Virtual time: does everything that is due, in the order (time, device, QP number, WR number).
  virtual void advance(base::time_point now) = 0;

  // Control. `device` is "host/soft0" or "soft0" when that is unambiguous. Any thread, any process.
  virtual base::expected<void> set_link(std::string_view device, bool up) = 0;
  /// WRs that meet the hang are swallowed for good: no completion, no error, also after it is switched off
  /// and after the link is back, until their QP goes to ERR (they flush then) or RESET, or is destroyed. It
  /// is the device's own WRs that meet it: as a responder the device goes on.
  virtual base::expected<void> set_hang(std::string_view device, bool on) = 0;
  virtual base::expected<void> set_hang_mode(std::string_view device, hang_mode mode) = 0;
  /// As set_link, but no async event tells of it: only who reads the port's state learns it.
  virtual base::expected<void> set_link_quietly(std::string_view device, bool up) = 0;
  /// Packets that leave `device` from now on land `by` later, whatever became of their sender meanwhile; zero
  /// ends it.
  virtual base::expected<void> set_delay(std::string_view device, base::duration by) = 0;
  /// Takes the device out of its host, or puts it back. Contexts of it get DEVICE_FATAL, lose all their
  /// objects and are EIO for good, but for closing. While it is out it is not there to be opened.
  virtual base::expected<void> set_lost(std::string_view device, bool on) = 0;
  virtual base::expected<void> set_mode(std::string_view device, nic_mode mode) = 0;
  /// Of each member of a bond, or of one of them.
  virtual base::expected<void> set_rate(std::string_view device, double gbit_s,
                                        std::optional<std::uint32_t> member = std::nullopt) = 0;
  /// A member that is down loses what its queue pairs send and receive, and the port says nothing. With
  /// `leaves_after` they use other members so much later, without it they stay until it is up.
  virtual base::expected<void> set_member(std::string_view device, std::uint32_t member, bool up,
                                          std::optional<base::duration> leaves_after = std::nullopt) = 0;
  /// What the port says of itself: 1, 2, 4, 8 or 12 lanes of 2.5, 5, 10, 14, 25, 50 or 100 Gbit/s. Its rate
  /// changes in proportion. No event tells of it.
  virtual base::expected<void> set_width(std::string_view device, std::uint32_t lanes,
                                         double lane_gbit_s) = 0;
  /// As device_options::host_memory_gbit_s.
  virtual base::expected<void> set_host_memory(std::string_view host, double gbit_s) = 0;
  /// Fills a place of the port's GID table; the device raises IBV_EVENT_GID_CHANGE. A QP whose source GID is
  /// no longer at its index cannot send, and what is sent to an address that no device has is lost.
  virtual base::expected<void> set_gid(std::string_view device, const gid_row& row) = 0;
  virtual base::expected<void> delete_gid(std::string_view device, std::uint32_t index) = 0;
  /// One change: the address is at no time missing. What was at `to` is gone.
  virtual base::expected<void> move_gid(std::string_view device, std::uint32_t from, std::uint32_t to) = 0;
  virtual base::expected<std::vector<gid_row>> gids(std::string_view device) const = 0;
  /// A port raises no event for it. Packets that are longer than the MTU of either port get lost.
  virtual base::expected<void> set_mtu(std::string_view device, std::uint32_t bytes) = 0;
  /// The device raises IBV_EVENT_LID_CHANGE. What is sent to a LID that no port of the subnet has is lost.
  /// InfiniBand: 0, as without a subnet manager (the port is in INIT then), or one that is free.
  virtual base::expected<void> set_lid(std::string_view device, std::uint16_t lid) = 0;
  virtual std::vector<device_state> devices() const = 0;
  /// Raises an async event in every open context of the device, `count` times. Events of queue pairs and
  /// completion queues go to all of the device's, or to `qp_num` only.
  virtual base::expected<void> raise_event(std::string_view device, std::string_view type,
                                           std::uint32_t count = 1, std::uint32_t qp_num = 0) = 0;
  /// Ends every fault: devices back, links up, no hang, no delay, no rules.
  virtual base::expected<void> reset_faults() = 0;

  // Fault rules: see docs/software-nic.md for the language, rules/rule.hpp for reading a line without a
  // fabric. A rule holds in every process, for devices that attach later too, until it is removed.
  virtual base::expected<std::uint32_t> add_rule(std::string_view text) = 0;
  virtual base::expected<void> remove_rule(std::uint32_t id) = 0;
  virtual void clear_rules() = 0;
  virtual std::vector<rule_state> rules() const = 0;
  /// Virtual time: how long the verbs since the last call would have taken because of rules.
  virtual base::duration take_verb_delay() = 0;
  /// Log entries from sequence number `from`; `next` is where to go on. It is a ring: old ones are lost.
  virtual std::vector<log_entry> read_log(std::uint64_t from, std::uint64_t& next) const = 0;
};

/// One process's (or one simulated machine's) set of devices.
class host {
public:
  virtual ~host() = default;
  virtual const provider& verbs() const = 0;
  virtual const std::string& name() const = 0;
  /// Virtual time: not the number of before when completions or async events may have come to its devices.
  virtual std::uint64_t arrivals() const = 0;
};

/// Memory that peers in other processes reach without a system call: a shared mapping, backed by a memfd. Any
/// other memory works too, by process_vm_readv/writev. nullptr when memory is exhausted.
void* allocate_shared(std::size_t length) noexcept;
void free_shared(void* addr, std::size_t length) noexcept;

} // namespace actor_rdma::verbs::soft
