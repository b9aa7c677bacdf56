// SPDX-License-Identifier: Apache-2.0
// Turns a caller's requests into a batch: validates each against our registered buffers and the peer's
// published ones and copies it into the batch's own storage. Runs on the caller's thread and touches nothing
// that a lane writes.
#pragma once

#include "actors/batch.hpp"
#include "actors/node.hpp"
#include "base/error.hpp"

#include <memory>
#include <optional>
#include <span>

namespace actor_rdma::actors {

/// A batch of no transfers and one notice. Refused when the notice exceeds a bound or when the peer does not
/// take notices (reason::unsupported).
base::expected<std::shared_ptr<batch_state>> make_notice(const std::shared_ptr<const remote_memory>& theirs,
                                                         notice what, base::time_point now,
                                                         base::time_point deadline);

/// The whole batch or nothing: an error names the first bad request. On success every buffer of ours that it
/// uses counts one more open batch. `with` is sent when all of it has completed.
base::expected<std::shared_ptr<batch_state>> make_batch(const buffer_view& ours,
                                                        const std::shared_ptr<const remote_memory>& theirs,
                                                        std::span<const transfer_request> requests,
                                                        base::time_point now, base::time_point deadline,
                                                        std::optional<notice> with = std::nullopt);

} // namespace actor_rdma::actors
