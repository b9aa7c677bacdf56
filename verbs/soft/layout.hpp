// SPDX-License-Identifier: Apache-2.0
//
// What the hosts of a fabric share: one segment of fixed tables, mapped by every process of a named fabric.
// It holds no pointer (each process maps it elsewhere) and no lock that an operation of another process could
// need: words that several processes write are atomics, everything else has one writer, its owner, and is
// published by such a word. A slot is found by its index, and whoever remembers a slot also remembers its
// generation, so that a re-used slot is never taken for its predecessor. All memory is zero at first, and
// zero means free everywhere.
#pragma once

#include "verbs/soft/atomic_layout.hpp"
#include "verbs/soft/receive_layout.hpp"
#include "verbs/soft/wire_layout.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <pthread.h>

namespace actor_rdma::verbs::soft {

/// Nanoseconds of the fabric's clock. An integer, because shared tables hold it.
using nanos = std::int64_t;
inline constexpr nanos never = INT64_MAX;

namespace layout {

inline constexpr std::uint64_t magic = 0x6163746f724e4943; // "actorNIC"
inline constexpr std::uint32_t version = 10;               // changes with anything below

inline constexpr std::uint32_t max_processes = 128;
inline constexpr std::uint32_t max_devices = 1024;
inline constexpr std::uint32_t max_qps = 1U << 16;
inline constexpr std::uint32_t max_mrs = 1U << 15;
inline constexpr std::uint32_t max_cqs = 1U << 14;
inline constexpr std::uint32_t max_receive_units = 1U << 19; // 32 MiB, touched only as far as it is used
inline constexpr std::uint32_t units_per_block = 4;          // receive units are taken by blocks
inline constexpr std::uint32_t hazards_per_process =
    32; // threads of one process that execute work at one time
inline constexpr std::uint32_t log_capacity = 1U << 14;
inline constexpr std::uint32_t log_words = 16;
inline constexpr std::uint32_t max_name = 63;
inline constexpr std::uint32_t gids_per_port = 16;
inline constexpr std::uint32_t max_ports = 8; // of one device
inline constexpr std::uint32_t max_rules = 128;
inline constexpr std::uint32_t rule_text_words = 31;
inline constexpr std::uint32_t raised_capacity = 256;

/// A thread that executes work says here what it touches, before it checks that it may. Whoever takes a queue
/// pair or a memory region away marks it dead first and then waits for the slots that name it: one of the two
/// sees the other.
struct alignas(64) hazard_slot {
  std::atomic<std::uint32_t> taken;    // by a thread of the process
  std::atomic<std::uint64_t> sequence; // odd while work is executed
  std::atomic<std::uint64_t> target;   // (QP index + 1) << 32 | (MR index + 1)
};

struct alignas(64) process_entry {
  std::atomic<std::uint32_t> used;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint32_t> leaving;    // it is about to end: nobody waits for it
  std::atomic<std::uint64_t> start_time; // of the pid, in clock ticks since boot: pids are re-used
  /// Robust, held for life by the process's engine thread: the kernel marks the word when the thread dies.
  pthread_mutex_t life;
  /// Futex on which the engine sleeps; changed and woken when something in the tables needs it.
  alignas(64) std::atomic<std::uint32_t> attention;
  std::atomic<std::uint32_t>
      remote_errors;                   // a peer moved one of our queue pairs to ERR, or left a sign on it
  std::atomic<std::uint32_t> arrivals; // in a completion queue that waits, or a receive queue is at its limit
  std::atomic<std::uint32_t> atomics;  // there is mail for one of our queue pairs (atomic_layout.hpp)
  std::array<hazard_slot, hazards_per_process> hazards;
};

/// One place of a port's GID table. A new value is written beside the one that readers use, and `meta`, which
/// says which of the two holds, is written last: nobody waits for a writer that was stopped half-way.
struct gid_place {
  std::atomic<std::uint64_t> meta; // 0: empty from the start; see addressing.cpp
  std::array<std::array<std::atomic<std::uint64_t>, 2>, 2> value;
};

/// A device with one port; of one with several, one of its ports. What they share is in the first one's
/// entry: loss, objects, keys.
struct alignas(64) device_entry {
  std::atomic<std::uint32_t> used;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> process;       // index of the owner
  std::atomic<std::uint32_t> link_seq;      // counts changes: even is up
  std::atomic<std::uint64_t> quiet_changes; // bit (link_seq % 64): that change raises no event
  std::atomic<std::uint32_t> hang;          // hang_mode
  std::atomic<std::uint32_t> mode;
  std::atomic<nanos> delay;
  std::atomic<nanos> latency;
  std::atomic<std::uint32_t> bond_members;
  std::atomic<std::uint32_t> bond_turns; // queue pairs that were made so far
  std::atomic<std::uint32_t> memory_of;  // slot of the device whose `memory` is that of the host
  std::atomic<std::uint32_t> lanes;      // as the port says; they do not make the rate
  std::atomic<std::uint32_t> lane_speed; // as in ibv_port_attr
  std::atomic<std::uint32_t> gid_epoch;  // counts changes of the GID table
  std::atomic<std::uint32_t> lid_epoch;
  std::atomic<std::uint32_t> loss_seq; // counts changes: odd is lost. Contexts do not survive a change
  std::atomic<std::uint32_t> lid;
  std::atomic<std::uint32_t> link_layer;    // as in ibv_port_attr
  std::atomic<std::uint64_t> subnet_prefix; // InfiniBand
  std::atomic<std::uint32_t> mtu;           // active MTU of the port, bytes
  std::array<wire_entry, max_bond_members> wires;
  memory_entry memory;
  alignas(64) std::atomic<std::uint64_t> bytes_sent;
  std::atomic<std::uint64_t> stuck_wrs;
  std::atomic<std::uint32_t> open_qps;
  std::atomic<std::uint32_t> open_mrs;
  std::atomic<std::uint32_t> port;       // its number, from 1
  std::atomic<std::uint32_t> first_port; // entry of the device's port 1
  std::array<char, max_name + 1>
      name; // "host/soft0", of a further port "host/soft0:2"; written before `used`
  std::array<gid_place, gids_per_port> gids;
};

/// `word` is generation << 8 | state, where state is 0 (absent) or 1 + ibv_qp_state. The owner writes all of
/// it, but a peer whose request was refused moves RTR and RTS to ERR.
struct alignas(64) qp_entry {
  std::atomic<std::uint32_t> owner; // process index + 1, 0: free
  std::atomic<std::uint32_t> qpn;
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint32_t> device;
  std::atomic<std::uint32_t> pd;
  std::atomic<std::uint32_t> dest_qpn;
  std::atomic<std::uint32_t> dest_path; // see routing.hpp
  std::atomic<std::uint32_t> access;
  std::atomic<std::uint8_t> max_dest_reads;
  std::atomic<std::uint8_t> rnr_timer;      // as in ibv_qp_attr
  std::atomic<std::uint16_t> path_mtu;      // bytes
  std::atomic<std::uint32_t> expected_psn;  // advanced by whoever executes the connected requester's work
  std::atomic<std::uint32_t> signs;         // qp_sign bits that requesters leave for the owner
  std::atomic<std::uint32_t> receive_queue; // its first unit, 0: none yet
  std::atomic<std::uint32_t> receive_cq;    // index + 1
  /// The message that is being received: generation << 32 | slot's unit << 1 | whether somebody is at work on
  /// it. 0, or another generation, is none. The lock of one connection's receiving, which is only ever tried.
  std::atomic<std::uint64_t> receiving;
};

enum qp_sign : std::uint32_t {
  established = 1,     ///< a message arrived in RTR
  invalid_request = 2, ///< why it is in ERR: if nothing is said, an access error
  told_by_receive = 4, ///< why it is in ERR: the completion of a receive says it
  no_room = 8          ///< why it is in ERR: a receive's completion found its queue full
};

/// `state` is generation << 32 | rkey while the region lives, and 0 when it does not.
struct alignas(64) mr_entry {
  std::atomic<std::uint32_t> owner; // process index + 1, 0: free
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint64_t> state;
  std::atomic<std::uint32_t> lkey;
  std::atomic<std::uint32_t> access;
  std::atomic<std::uint32_t> pd;
  std::atomic<std::uint32_t> device;
  std::atomic<std::uint64_t> addr;
  std::atomic<std::uint64_t> length;
};

/// One entry of the event log as words, so that a reader may meet a writer.
struct log_slot {
  std::atomic<std::uint64_t> sequence; // entry number + 1 when complete
  std::array<std::atomic<std::uint64_t>, log_words> words;
};

/// A fault rule as its text, which every process reads for itself, and how often it matched and hit.
struct alignas(64) rule_slot {
  std::atomic<std::uint32_t> state; // rule_free, rule_written, rule_live
  std::atomic<std::uint32_t> id;
  std::atomic<nanos> added_at;
  std::atomic<std::uint64_t> matches;
  std::atomic<std::uint64_t> hits;
  std::array<std::atomic<std::uint64_t>, rule_text_words> text;
};
inline constexpr std::uint32_t rule_free = 0;
inline constexpr std::uint32_t rule_written = 1;
inline constexpr std::uint32_t rule_live = 2;

/// An async event that somebody asked for, until the device's process has seen it.
struct raised_slot {
  std::atomic<std::uint64_t> sequence; // entry number + 1 when complete
  std::atomic<std::uint64_t> what;     // device << 32 | event type
  std::atomic<std::uint64_t> how;      // QP number << 32 | repetitions
};

struct alignas(64) header {
  std::atomic<std::uint64_t> magic; // written last
  std::uint32_t version;
  std::uint32_t bytes_low; // of the whole segment: another build's tables differ
  std::uint64_t seed;
  std::uint32_t qp_scatter; // what indices are combined with to become numbers
  std::uint32_t mr_scatter;
  std::atomic<std::uint32_t> next_qp; // where the search for a free slot begins: not soon where one was freed
  std::atomic<std::uint32_t> next_mr;
  std::atomic<std::uint32_t> next_cq;
  std::atomic<std::uint32_t> first_free_block; // a hint: none is free before it
  std::atomic<std::uint32_t> next_pd;
  std::atomic<std::uint32_t> device_slots;             // no slot from here on has ever been used
  alignas(64) std::atomic<std::uint32_t> change_epoch; // counts control changes
  std::atomic<nanos> log_posts_until;                  // 0: never, `never`: while a fault is set
  std::atomic<std::uint32_t> rules_epoch;              // counts changes of the rules
  std::atomic<std::uint32_t> next_rule;
  std::atomic<std::uint64_t> raised_head;
  alignas(64) std::atomic<std::uint64_t> log_head;
};

struct tables {
  header head;
  std::array<process_entry, max_processes> processes;
  std::array<device_entry, max_devices> devices;
  std::array<qp_entry, max_qps> qps;
  std::array<std::atomic<std::uint32_t>, max_qps> bond_turns; // by queue pair, see bond.hpp
  std::array<mr_entry, max_mrs> mrs;
  std::array<cq_entry, max_cqs> cqs;
  std::array<std::atomic<std::uint32_t>, max_receive_units / units_per_block> block_owners; // process + 1
  std::array<log_slot, log_capacity> log;
  std::array<rule_slot, max_rules> rules;
  std::array<raised_slot, raised_capacity> raised;
  // The rest has no pages until they are asked for.
  alignas(4096) std::array<receive_unit, max_receive_units> receive_units;
  alignas(4096) std::array<atomic_entry, max_qps> atomics; // by queue pair
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(hazard_slot) == 64 && sizeof(qp_entry) == 64 && sizeof(mr_entry) == 64);
static_assert(offsetof(tables, receive_units) < (16U << 20) && sizeof(tables) < (72U << 20));

} // namespace layout
} // namespace actor_rdma::verbs::soft
