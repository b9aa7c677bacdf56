// SPDX-License-Identifier: Apache-2.0
//
// What comes from outside: files that somebody named, and words of theirs that a message repeats.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace actor_rdma::base {

/// In quotes, with bytes that are not printable as \x1b, and cut after `most` bytes: what a stranger wrote
/// may neither fill nor command the terminal of whoever reads the message. UTF-8 is not kept.
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t most = 60);

/// The whole of a regular file, which may be a symbolic link to one. A directory, a device without an end or
/// a FIFO into which nobody writes is refused and not waited for. Errors: not_found with errno when it cannot
/// be opened or read, invalid_argument when it is no regular file or has more than `most` bytes. Their text
/// has no layer; it begins with the path.
[[nodiscard]] expected<std::string> read_regular_file(const std::string& path, std::size_t most);

} // namespace actor_rdma::base
