// SPDX-License-Identifier: Apache-2.0
// What two nodes say to each other over the control channel, as plain structs. The codec turns them into
// msgpack maps and back; the actors only ever see these types. An endpoint is named by its initiator:
// (initiator's incarnation, relation, number). Only the side that opened an endpoint posts work on it, so
// that two nodes which connect to each other at the same time need no tie-break. A message whose incarnations
// are not those of the two living ends is dropped.
#pragma once

#include "base/error.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace actor_rdma::bootstrap {

inline constexpr std::uint16_t protocol_version = 1;

/// Bits of hello.features: what its sender understands beyond the first version's messages.
inline constexpr std::uint64_t feature_notices = 1; ///< it takes `notice` and answers with `noticed`

using incarnation = std::uint64_t; ///< random id of one process life, never 0
using gid_bytes = std::array<std::uint8_t, 16>;

/// Why a peer refused; the value goes on the wire, so numbers are never reused.
enum class reject_code : std::uint16_t {
  none = 0,
  wrong_version = 1,
  unknown_device = 2,
  shutting_down = 3,
  device_not_ready = 4,
  bad_request = 5,
  busy = 6,
  stale_generation = 7,
  unknown_endpoint = 8,
  resources = 9,
  wrong_incarnation = 10,
  internal = 11,
};
const char* to_string(reject_code code) noexcept;

/// Address of one device's port, as the peer must put it into its address handle.
struct port_address {
  std::string device;
  gid_bytes gid{};
  std::uint16_t lid = 0;
  std::uint8_t gid_type = 0;    ///< ibv_gid_type
  std::uint32_t mtu = 1024;     ///< active path MTU in bytes
  std::uint8_t read_depth = 16; ///< READs that this end serves at once
  // What peers of earlier builds do not say: they send and expect a GRH always.
  std::uint8_t link_layer = 0; ///< as in ibv_port_attr; 0: not said
  bool grh = true;             ///< packets from and to it carry a GRH within its subnet too; RoCE: always
  friend bool operator==(const port_address&, const port_address&) = default;
};

struct qp_address {
  std::uint16_t index = 0; ///< position in the endpoint
  std::uint32_t qp_num = 0;
  std::uint32_t psn = 0; ///< first PSN that this end sends, 24 bits
  std::uint16_t generation = 0;
  friend bool operator==(const qp_address&, const qp_address&) = default;
};

/// A registered buffer that the peer may name in transfers; rkeys in the order of segment::devices (0: not
/// there).
struct remote_buffer {
  std::uint64_t id = 0;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  bool writable = true;
  std::vector<std::uint32_t> rkeys;
  friend bool operator==(const remote_buffer&, const remote_buffer&) = default;
};

/// The memory that a node publishes, with the 8-byte word that holds its incarnation (target of probe READs).
struct segment {
  std::string name;
  std::uint64_t version = 0; ///< grows with every change
  std::vector<port_address> devices;
  std::vector<remote_buffer> buffers;
  std::uint64_t probe_addr = 0;
  std::vector<std::uint32_t> probe_rkeys;
  friend bool operator==(const segment&, const segment&) = default;
};

/// First message of both ends of a new control connection.
struct hello {
  std::string node; ///< name for people
  std::string build_id;
  std::uint64_t features = 0;
  std::string auth; ///< HMAC of the shared key, empty when none is configured
  /// The dialling side's number for what it dials, the same on every new connection to it. Connections of one
  /// incarnation with the same number follow each other; with different numbers they are strangers.
  std::uint32_t relation = 0;
  /// The accepting side's: every endpoint of this relation of which it has queue pairs, by the dialling
  /// side's number. Nothing: not said, as by ends of earlier builds.
  std::optional<std::vector<std::uint32_t>> endpoints = std::nullopt;
  friend bool operator==(const hello&, const hello&) = default;
};
/// Who dialled us: a process, by one of the addresses under which it may know us.
struct caller {
  incarnation who = 0;
  std::uint32_t relation = 0;
  friend auto operator<=>(const caller&, const caller&) = default; // NOLINT(modernize-use-nullptr): 14 errs
};
/// Sent once after hello, and again whenever what it says has changed.
struct publish {
  segment published;
  friend bool operator==(const publish&, const publish&) = default;
};
struct connect {
  std::uint32_t endpoint = 0;
  port_address local;      ///< the initiator's port
  std::string peer_device; ///< which of the acceptor's devices
  std::vector<qp_address> qps;
  friend bool operator==(const connect&, const connect&) = default;
};
struct accept {
  std::uint32_t endpoint = 0;
  port_address local; ///< the acceptor's port
  std::vector<qp_address> qps;
  friend bool operator==(const accept&, const accept&) = default;
};
/// One QP of a living endpoint is replaced. The acceptor fences its QP of every older generation first, so
/// that its `rebuilt` is also the confirmation that those generations are retired.
struct rebuild {
  std::uint32_t endpoint = 0;
  port_address local; ///< may have changed since connect
  qp_address qp;
  friend bool operator==(const rebuild&, const rebuild&) = default;
};
struct rebuilt {
  std::uint32_t endpoint = 0;
  port_address local;
  qp_address qp;
  friend bool operator==(const rebuilt&, const rebuilt&) = default;
};
/// The initiator gave up generations <= `generation` of one QP; the acceptor puts its QP to ERR and destroys
/// it.
struct retire {
  std::uint32_t endpoint = 0;
  std::uint16_t qp_index = 0;
  std::uint16_t generation = 0;
  bool whole_endpoint = false; ///< all QPs; qp_index and generation are ignored
  std::string cause;
  friend bool operator==(const retire&, const retire&) = default;
};
/// Nothing of those generations can touch the acceptor's memory any more (remote fence).
struct retired {
  std::uint32_t endpoint = 0;
  std::uint16_t qp_index = 0;
  std::uint16_t generation = 0;
  bool whole_endpoint = false;
  friend bool operator==(const retired&, const retired&) = default;
};
/// Answer to connect or rebuild, or to a hello (endpoint 0) before the connection is closed.
struct reject {
  std::uint32_t endpoint = 0;
  std::uint16_t qp_index = 0;
  std::uint16_t generation = 0;
  reject_code code = reject_code::internal;
  std::string text;
  std::uint32_t retry_after_ms = 0; ///< 0: no advice
  friend bool operator==(const reject&, const reject&) = default;
};
struct ping {
  std::uint64_t token = 0;
  friend bool operator==(const ping&, const ping&) = default;
};
struct pong {
  std::uint64_t token = 0;
  /// Of what the sender published last: who has an older one has missed it. 0: not said, as by earlier
  /// builds.
  std::uint64_t segment_version = 0;
  friend bool operator==(const pong&, const pong&) = default;
};
/// The sender shuts down in good order; what it confirmed stays confirmed.
struct goodbye {
  std::string cause;
  friend bool operator==(const goodbye&, const goodbye&) = default;
};

/// A small message to the program behind the peer. The initiator numbers them 1, 2, 3... within a session, so
/// that the acceptor can tell a repetition on a new link from a new one.
struct notice {
  std::uint64_t session = 0; ///< random, the initiator's choice; another one starts again at 1
  std::uint64_t sequence = 0;
  std::string name;
  std::vector<std::uint8_t> payload;
  friend bool operator==(const notice&, const notice&) = default;
};
/// How far the acceptor has come with the notices of a session.
struct noticed {
  std::uint64_t session = 0;
  std::uint64_t upto = 0;  ///< all up to this one are in the receiving program's inbox
  std::uint64_t limit = 0; ///< none above this one may be sent yet
  bool again = false;      ///< some above `upto` found no room and were thrown away: send them once more
  bool forgotten = false;  ///< the acceptor knows nothing of this session any more; the numbers mean nothing
  friend bool operator==(const noticed&, const noticed&) = default;
};

using body = std::variant<hello, publish, connect, accept, rebuild, rebuilt, retire, retired, reject, ping,
                          pong, goodbye, notice, noticed>;

struct message {
  std::uint16_t version = protocol_version;
  incarnation from = 0;
  incarnation to = 0; ///< 0 in the first hello of the dialling side, which does not know it yet
  body what;
  friend bool operator==(const message&, const message&) = default;
};

/// Name of the body's type on the wire and in logs ("connect").
const char* type_name(const body& what) noexcept;

} // namespace actor_rdma::bootstrap
