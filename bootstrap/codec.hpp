// SPDX-License-Identifier: Apache-2.0
//
// Messages to bytes and back. A message is a msgpack map with the keys version, from, to, type and body; body
// is the map of the fields that wire_fields.hpp names. Keys that a decoder does not know are skipped, so that
// later versions can add some; a field that is missing, has another type or exceeds a bound of limits.hpp
// refuses the message, by name. Bytes from a stranger cost at most a few times their own size in memory.
#pragma once

#include "base/error.hpp"
#include "bootstrap/messages.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace actor_rdma::bootstrap {

using byte_view = std::span<const std::uint8_t>;

/// Fails only for a struct that exceeds a bound (reason::invalid_argument, which names the field). Words for
/// people (cause, text) are cut to their bound instead.
[[nodiscard]] base::expected<std::vector<std::uint8_t>> encode(const message& what);

struct decode_failure {
  std::string text; ///< "connect.qps[2].psn: missing"
  /// Set when the sender speaks another version, so that its message was not looked into any further.
  std::optional<std::uint16_t> other_version;
  incarnation from = 0; ///< the sender, where the message says it
};

/// Never throws for any bytes. A reject is understood in every version, so that both ends can say why they
/// part.
[[nodiscard]] tl::expected<message, decode_failure> decode(byte_view bytes);

/// What a channel answers to a message of another version, before it closes. Its `from` is 0: a channel does
/// not know whom it works for.
[[nodiscard]] message wrong_version_answer(const decode_failure& failure);

} // namespace actor_rdma::bootstrap
