// SPDX-License-Identifier: Apache-2.0
//
// A shared receive queue: receives that several queue pairs take from, and the event that says that few are
// left.
#pragma once

#include "verbs/soft/receive_queue.hpp"
#include "verbs/soft/resources.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <infiniband/verbs.h>

namespace actor_rdma::verbs::soft {

class soft_srq : public ibv_srq,
                 public owned_object,
                 public watched,
                 public std::enable_shared_from_this<soft_srq> {
public:
  soft_srq(soft_context& owner, soft_pd& domain, const ibv_srq_init_attr& init);
  ~soft_srq() override;
  [[nodiscard]] static soft_srq& of(ibv_srq* srq) noexcept { return *static_cast<soft_srq*>(srq); }

  /// Takes the room for the receives. False when the fabric has none left; then it is not used further.
  [[nodiscard]] bool open();
  [[nodiscard]] int post(ibv_recv_wr* first, ibv_recv_wr** bad);
  [[nodiscard]] int modify(const ibv_srq_attr& wanted, int mask);
  void query(ibv_srq_attr& out) const;
  [[nodiscard]] std::uint32_t dependents() const noexcept override { return users.load(); }
  [[nodiscard]] int retire(bool forced) override;
  /// Raises the event when the limit was reached.
  void look() override;
  void raise_on_demand(ibv_event_type type, std::uint32_t device, std::uint32_t times) override;
  [[nodiscard]] bool may_be_ruled() const noexcept { return rt_.rules().epoch() != 0; }

  [[nodiscard]] receive_queue& receives() noexcept { return receives_; }
  std::atomic<std::uint32_t> users{0}; // queue pairs
  event_ledger async_events;

private:
  /// With the lock.
  void raise(ibv_event_type type);

  soft_context& context_; // may be gone when somebody still looks here after the end
  runtime& rt_;
  soft_pd& pd_;
  const ibv_srq_attr attributes_; // what was granted
  receive_queue receives_;
  std::mutex mutex_;       // of events and of the end
  bool is_ending_ = false; // no event of it is raised any more
  bool has_ended_ = false;
};

} // namespace actor_rdma::verbs::soft
