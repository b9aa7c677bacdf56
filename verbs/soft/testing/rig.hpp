// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the NIC stand on: an end with one queue pair, one completion queue and one buffer, two of
// them connected, and short names for posting and polling.
#pragma once

#include "base/time.hpp"
#include "verbs/objects.hpp"
#include "verbs/soft/fabric.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace actor_rdma::verbs::soft::testing {

inline constexpr std::size_t buffer_bytes = 1U << 20;
inline constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct qp_options {
  std::uint32_t max_send_wr = 256;
  std::uint32_t max_inline = 64;
  int cq_entries = 1024;
  std::uint8_t timeout = 14; // 67 ms
  std::uint8_t retry_cnt = 1;
  std::uint32_t psn = 77;
  int access = all_access;
  ibv_mtu mtu = IBV_MTU_4096;
  std::uint8_t reads = 16;
  bool all_signaled = false;
  std::uint32_t max_sge = 4;
  std::uint32_t max_recv_wr = 64;
  std::uint8_t rnr_retry = 6;
  std::uint8_t rnr_timer = 12; // 640 us
  bool grh = true;
  std::uint8_t gid_index = 3;
};

/// What one end must know of the other.
struct address {
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint64_t addr = 0;
  std::uint32_t rkey = 0;
};

struct end {
  context ctx;
  protection_domain pd;
  completion_channel channel;
  completion_queue cq;
  memory_region mr;
  queue_pair qp;
  std::vector<std::byte> own_memory;
  std::byte* memory = nullptr;
  std::uint32_t lkey = 0; // stay what they were when the region goes
  std::uint32_t rkey = 0;
  qp_options options;

  static std::unique_ptr<end> open(host& on, std::size_t device = 0, qp_options options = {},
                                   std::byte* shared_memory = nullptr);
  /// The same on a device of any provider.
  static std::unique_ptr<end> open(const provider& table, ibv_device* device, qp_options options = {},
                                   std::byte* shared_memory = nullptr);
  ~end();
  void make_qp();
  ibv_srq* srq = nullptr; // not owned: of the queue pairs that are made from now on
  address where() const;
  int to_init();
  int to_rtr(const address& peer);
  int to_rts();
  void connect(const address& peer);
  ibv_qp_state state() const { return *qp.query_state(); }

  int post(std::span<ibv_send_wr> chain, std::size_t* accepted = nullptr);
  int write(std::uint64_t wr_id, const address& to, std::uint64_t local, std::uint64_t remote,
            std::uint32_t length, bool signaled = true);
  int read(std::uint64_t wr_id, const address& from, std::uint64_t local, std::uint64_t remote,
           std::uint32_t length);
  /// Posts a receive into the own buffer.
  int receive(std::uint64_t wr_id, std::uint64_t local, std::uint32_t length);
  /// A SEND of `opcode`, or a WRITE with immediate data to the peer's buffer at `remote`.
  int send(std::uint64_t wr_id, std::uint64_t local, std::uint32_t length, ibv_wr_opcode opcode = IBV_WR_SEND,
           std::uint32_t imm = 0, unsigned flags = IBV_SEND_SIGNALED);
  int write_imm(std::uint64_t wr_id, const address& to, std::uint64_t local, std::uint64_t remote,
                std::uint32_t length, std::uint32_t imm);
  std::vector<ibv_wc> poll(int limit = 1024);
  /// Polls until so many completions came, on a steady clock; fewer after the time-out.
  std::vector<ibv_wc> poll_for(std::size_t count, base::duration timeout = std::chrono::seconds{5});
};

/// Virtual time: everything that is due until then.
void advance_until(fabric& net, base::manual_clock& clock, base::time_point until);

/// Two hosts with one device each on a private fabric, an end on each, connected.
struct pair_rig {
  explicit pair_rig(nic_mode mode, bool is_virtual = false, qp_options options = {},
                    device_options device = {}, std::uint64_t seed = 1);
  void connect();
  void run_until(base::time_point until) { advance_until(*net, clock, until); }
  void run_for(base::duration span) { run_until(clock.now() + span); }
  std::vector<log_entry> log() const;
  std::size_t count(log_kind kind) const;

  base::manual_clock clock;
  std::shared_ptr<fabric> net;
  std::unique_ptr<host> host_a;
  std::unique_ptr<host> host_b;
  std::unique_ptr<end> a;
  std::unique_ptr<end> b;
};

void fill(std::byte* at, std::size_t length, unsigned seed);

} // namespace actor_rdma::verbs::soft::testing
