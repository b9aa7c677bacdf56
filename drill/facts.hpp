// SPDX-License-Identifier: Apache-2.0
// What a run recorded: plain values, with times counted as the scenario counts them, from which all checks
// are made afterwards. Nothing here has an address, a process number or a time of the day in it, so that two
// runs with the same seed record the same.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "observe/events.hpp"
#include "observe/notice.hpp"
#include "observe/transfer.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace actor_rdma::drill {

/// One transfer that the transport accepted.
struct transfer_fact {
  std::string traffic;
  std::uint64_t number = 0; ///< within its traffic
  std::string from;
  std::string to;
  std::uint64_t bytes = 0;
  base::duration submitted{};
  base::duration deadline{};           ///< when it has to have ended, before any grace
  base::duration allowance{};          ///< what its host's settings add: grace, drain, remote fence
  std::optional<base::duration> ended; ///< when its end was told
  std::uint32_t ends = 0;              ///< how often it was told
  transfer_status status = transfer_status::pending;
  transfer_status final_status = transfer_status::pending; ///< looked at again at the end of the run
  base::reason cause = base::reason::none;
  bool unconfirmed = false;      ///< told that the peer did not confirm its fence
  bool is_after_traffic = false; ///< of the runner's own, to see whether every rail carries again
  bool host_died = false;        ///< its process was killed before its end: nobody was left to be told
  std::optional<std::string> wrong_content; ///< completed, but bytes are wrong: where
  std::optional<std::string> wrong_receipt; ///< what in its receipt cannot be
};

/// A byte that landed or changed after the end of the transfer it belongs to had been told.
struct late_byte {
  base::duration seen{};
  std::string traffic;
  std::uint64_t number = 0;
  std::string what;
};

/// A notice as the programs at both ends saw it.
struct notice_fact {
  std::string name; ///< "main/17", of no other notice of the run
  std::string traffic;
  std::string from;
  std::string to;
  std::uint64_t first_transfer = 0; ///< number of the first of its batch, within the traffic
  std::uint64_t transfers = 0;      ///< how many of them it stands behind
  base::duration limit{};           ///< when its end has to have been told
  notice_status status = notice_status::pending;
  base::reason cause = base::reason::none;
  std::optional<base::duration> told;                  ///< when its sender was told its end
  std::uint32_t ends = 0;                              ///< how often it was told
  notice_status final_status = notice_status::pending; ///< looked at again at the end of the run
  std::uint32_t seen = 0;                              ///< how often a program took it from an inbox
  std::optional<base::duration> first_seen;
  std::optional<std::string>
      wrong;                ///< what was not right when it was seen: its data, its words, or who saw it
  bool sender_died = false; ///< before it was told
};

struct event_fact {
  std::string host;
  base::duration at{};
  observe::event what;
  bool in_shutdown = false; ///< after everything was checked but what is left
};

/// Something that was done to the stage.
struct fault_fact {
  base::duration at{};
  std::string text;
  std::size_t which = 0; ///< its place in the scenario
  bool is_over = false;  ///< it was undone
};

/// A fault, or its undoing, that found nothing it could befall.
struct void_fault_fact {
  base::duration at{};
  std::string text;
  std::size_t which = 0; ///< its place in the scenario
  bool is_over = false;  ///< it was to be undone
  std::string why;       ///< "the process on b is gone"
};

/// The machine let a thread wait that had to run: only in real time.
struct gap_fact {
  base::duration at{};
  base::duration lasted{};
};

/// A decision of a rule of the software NIC.
struct verdict_fact {
  base::duration at{};
  std::string device;
  std::string op;      ///< "write", "reg_mr", "PORT_ERR"
  std::string verdict; ///< "drop", "status:LOC_LEN_ERR"
  std::uint32_t rule = 0;
};

/// What must be the same again in the end.
struct counter_fact {
  std::string name; ///< "open QPs of a/soft0"
  std::uint64_t at_start = 0;
  std::uint64_t at_end = 0;
};

/// Memory of a process that was watched for long enough, in real time.
struct growth_fact {
  std::string host;
  base::duration watched{};
  std::uint64_t early_bytes = 0;
  std::uint64_t late_bytes = 0;
};

/// Bytes that a device had sent at a time.
struct byte_sample {
  base::duration at{};
  std::string device;
  std::uint64_t sent = 0;
};

struct rail_fact {
  std::string name;                            ///< "a/soft0>b/soft0"
  bool must_carry = true;                      ///< no fault lasts on it
  std::optional<base::duration> carried_after; ///< so long after the last fault was over
};

struct log_fact {
  base::duration at{};
  std::string text;
};

struct progress_fact {
  base::duration at{};
  std::string what; ///< "verbs call create_qp on the lane of a", "100000 steps in 20 ms and no byte moved"
};

struct run_facts {
  std::uint64_t seed = 0;
  bool in_real_time = false;             ///< across processes; nothing repeats exactly
  std::string devices_file;              ///< of the kernel's devices, if they are used
  std::vector<std::string> not_checked;  ///< invariants of which this run can tell nothing
  std::optional<std::string> unfinished; ///< why, if the run did not come to its end
  base::duration ended{};
  base::duration last_fault{};     ///< when the last fault began or was undone
  base::duration converge_until{}; ///< until when rails were waited for
  std::vector<transfer_fact> transfers;
  std::uint64_t refused_submits = 0; ///< nobody to send to, said at once
  std::vector<late_byte> late_bytes;
  std::vector<notice_fact> notices;
  std::vector<event_fact> events;
  std::vector<fault_fact> faults;
  std::vector<void_fault_fact> void_faults;
  std::vector<verdict_fact> verdicts;
  std::vector<std::string> faulted_hosts; ///< that some fault touches
  std::vector<counter_fact> counters;
  std::vector<byte_sample> bytes;
  std::vector<rail_fact> rails;
  std::vector<event_fact> made_qps; ///< subject: the device; one for each QP made
  std::vector<log_fact> log;        ///< at info and above
  std::vector<progress_fact> progress;
  std::vector<gap_fact> machine_gaps;
  std::vector<growth_fact> growth;
  std::vector<std::string> trace;
  std::uint64_t fingerprint = 0;
  std::uint64_t steps = 0;
};

} // namespace actor_rdma::drill
