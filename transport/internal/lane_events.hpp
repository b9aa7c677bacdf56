// SPDX-License-Identifier: Apache-2.0
// What lanes say about themselves, as events.
#pragma once

#include "actors/lane_options.hpp"
#include "observe/events.hpp"

#include <memory>
#include <string>

namespace actor_rdma::detail {

class lane_events final : public actors::lane_observer {
public:
  lane_events(std::string node, std::shared_ptr<observe::event_sink> sink)
      : node_(std::move(node)), sink_(std::move(sink)) {}
  void on_gap(const actors::lane& where, base::duration gap) noexcept override;
  void on_internal_fault(const actors::lane& where, std::string_view text) noexcept override;

private:
  void emit(const actors::lane& where, observe::event_kind kind, std::string detail,
            std::uint64_t value) noexcept;

  std::string node_;
  std::shared_ptr<observe::event_sink> sink_;
};

} // namespace actor_rdma::detail
