// SPDX-License-Identifier: Apache-2.0
// A node that dialled us: one relation of one incarnation, its link, and our ends of the endpoints that it
// opened. It only answers. When the link is lost the same incarnation may come back within a while on a new
// one; if it does not, it is taken for dead and our QPs towards it are fenced and destroyed. If it comes
// after all, it is served anew, even while one of those QPs cannot be destroyed.
#pragma once

#include "actors/endpoint.hpp"
#include "actors/lane_object.hpp"
#include "actors/messages.hpp"
#include "actors/notice_inbox.hpp"
#include "actors/observer.hpp"
#include "actors/peer.hpp"
#include "actors/settings.hpp"
#include "bootstrap/channel.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace actor_rdma::actors {

class guest final : public lane_object, public deadline_sink {
public:
  struct place {
    std::string name; ///< the node's own, for people
    bootstrap::incarnation who = 0;
    std::uint32_t relation = 0; ///< `who` may have several links to us, by several of our addresses
    bootstrap::incarnation self = 0;
    bootstrap::channel* channel = nullptr;
    caf::actor node;
    std::vector<peer::device_ref> devices;
    std::shared_ptr<notice_inbox> inbox;
    receive_window notices; ///< from an earlier life of ours with this incarnation
  };
  guest(lane_env& env, const settings& config, observer& watch, place where);

  /// "node-b<node-a"; fixed, any thread.
  const std::string& name() const noexcept { return title_; }
  caf::behavior make_behavior() override;
  void on_fault(const std::string& what) override;
  void on_deadline(std::uint64_t token) override;

private:
  struct served {
    std::shared_ptr<endpoint> object;
    caf::actor handle;
    bool ending = false; ///< it was told that the peer is dead, and has not stopped yet
  };

  void handle(adopt_link& m);
  void handle(link_closed& m);
  void handle(control& m);
  void handle(published& m);
  void handle(device_added& m);
  void handle(notice_ack& m);
  void handle(notice_room& m);
  void handle(room_wanted& m);
  void handle(stop& m);
  void handle(stopped& m);
  void handle(snapshot_request& m);

  void on_connect(const control& m);
  void on_notice(bootstrap::notice& m);
  void send_noticed(bool again);
  void leave(const std::string& cause);
  void gone();
  void send(bootstrap::body what);
  void refuse(std::uint32_t endpoint, std::uint16_t qp_index, std::uint16_t generation,
              bootstrap::reject_code code, const std::string& text);
  void ask(const served& whom, const control& m, std::uint32_t endpoint, std::uint16_t qp_index,
           std::uint16_t generation);
  void note(observe::event_kind kind, std::string detail, base::level at);

  const settings& config_;
  observer& watch_;
  place where_;
  const std::string title_;
  bootstrap::link_id link_ = 0;
  std::map<std::uint32_t, served> endpoints_; ///< by the initiator's number
  std::uint64_t version_ = 0;                 ///< of what the peer was told last that we publish
  base::time_point since_{};
  bool leaving_ = false;
  std::string cause_;
  deadline_id window_ = deadline_id::none;
  caf::actor stop_asked_by_;
  receive_window notices_;
  std::shared_ptr<notice_inbox::source> source_; ///< once a notice has come
  bool ack_due_ = false;
};

} // namespace actor_rdma::actors
