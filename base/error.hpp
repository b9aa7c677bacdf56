// SPDX-License-Identifier: Apache-2.0
//
// Errors as values. An error names the layer, device, rail and peer it speaks of, so that whoever prints it
// needs nothing else; its reason is what a program decides by. Exceptions are for the impossible, never for
// control flow.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace actor_rdma::base {

enum class reason : std::uint8_t {
  none,
  invalid_argument, // the caller's mistake
  not_found,
  busy,
  would_block,
  unsupported, // this build, device or peer cannot do it
  out_of_range,
  permission,
  local_device,  // our device failed
  path,          // the way between two healthy ends failed
  peer_dead,     // the peer is known to be gone
  peer_rejected, // the peer answered, and the answer was no
  peer_silent,   // the peer did not answer
  protocol,      // the peer sent what it must not send
  timeout,
  cancelled,
  request_fault, // the request itself was refused by a device: bad key, bad range
  resource,      // memory, descriptors, queue places or regions are not there
  shutting_down,
  internal, // our own mistake
  count
};

[[nodiscard]] const char* to_string(reason why) noexcept;
/// "Cannot allocate memory" for ENOMEM.
[[nodiscard]] std::string errno_text(int sys_errno);

struct error {
  reason why = reason::internal;
  std::string layer{};
  std::string device{};
  std::string rail{};
  std::string peer{};
  std::string what{};
  int sys_errno = 0;

  /// "verbs: cannot create QP (device mlx5_0, peer host7): Cannot allocate memory", without the parts that
  /// are empty. An error without text is named by its reason.
  [[nodiscard]] std::string to_string() const;
};

template <class T>
using expected = tl::expected<T, error>;

/// return fail(reason::not_found, "verbs", "no such device");
[[nodiscard]] inline tl::unexpected<error> fail(reason why, std::string layer, std::string what,
                                                int sys_errno = 0) {
  error e;
  e.why = why;
  e.layer = std::move(layer);
  e.what = std::move(what);
  e.sys_errno = sys_errno;
  return tl::unexpected<error>{std::move(e)};
}

[[nodiscard]] inline tl::unexpected<error> fail(error e) {
  return tl::unexpected<error>{std::move(e)};
}

} // namespace actor_rdma::base
