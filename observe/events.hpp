// SPDX-License-Identifier: Apache-2.0
// Events that leave the actors: what an operator, a metric or a test wants to know happened. They are
// structs; a log line is one reader of them among others, never the API. A sink is called on the thread where
// the event happened (a lane most of the time), must not block and must not throw.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <string>

namespace actor_rdma::observe {

enum class event_kind : std::uint8_t {
  transition,      ///< any actor changed its state: subject, from, to, detail = event
  stall_suspected, ///< a QP made no progress; value = outstanding WRs
  false_alarm,     ///< it did after all
  fences_put_off,  ///< most peers of a device fell silent at once: a breaker opened; value = how many
  reissued,        ///< slices were issued a second time elsewhere; value = how many
  fenced,          ///< a QP generation can no longer touch our memory; value = generation
  remote_fence,    ///< the peer confirmed (or did not, see detail) a retired generation
  quarantined,     ///< a verbs object could not be destroyed; it is kept and retried
  peer_up,
  peer_lost,
  peer_dead,
  rejected,       ///< a peer refused, detail = its own words
  attempt_failed, ///< a QP or region could not be made and is tried again; detail = which, and why
  wr_error,       ///< an error completion that was not a flush; value = wr_id
  batch_failed,   ///< not all transfers of a batch completed; value = how many did not, detail = of how many,
                  ///< and how the first of them ended
  stale_completion, ///< a completion of an unknown generation was dropped
  stuck,    ///< a transfer is older than stuck_after; detail names the actor that holds it and that actor's
            ///< state
  lane_gap, ///< a lane lost time; value = nanoseconds
  notice_sent,      ///< a notice was handed to the control link, `from` = "again" when it was before; detail
                    ///< = its name, value = its number
  notice_delivered, ///< the peer has it; detail, value as above
  notice_lost,      ///< it ended in another way: `to` = which, detail = name and cause, value = its number,
                    ///< 0 if it was not sent
  notice_received,  ///< a peer's notice is in our inbox; detail, value as above
  keys_refreshed,   ///< the peer refused a key and its published memory was read again; value = transfers
                    ///< that go on. Of a node: a buffer has got regions on a device that was without
  address_chosen,   ///< which GID a device or an endpoint sends from, and why; value = its index
  barred,         ///< a source of refused requests gets no more of them posted for a while; value = refusals
  memory_avoided, ///< a device does not reach some memory: the two are avoided for a while; value = ms until
                  ///< a request tries them again
  memory_reached, ///< such a request succeeded
  device_lost,    ///< a device is gone with all that was made of it; it is opened again
  device_opened,  ///< and there it is; value = attempts, detail = these, and how long it was away
  no_rail,    ///< a device of ours or of the peer's has no rail, because the other side has none of its link
              ///< layer
  less_room,  ///< a QP or a CQ was made with less room than was asked for, and does with it; value = what it
              ///< got
  port_speed, ///< a port's width or speed is another one; detail = which became which, value = Mbit/s now
  internal_fault,
};
const char* to_string(event_kind kind) noexcept;

struct event {
  base::time_point at;
  event_kind kind = event_kind::transition;
  std::string subject; ///< name of the actor
  std::string from;
  std::string to;
  std::string detail;
  std::uint64_t value = 0;
  std::uint64_t trace =
      0; ///< of the batch that it is about (submit_options::trace); 0: of none, or of several
};

class event_sink {
public:
  virtual ~event_sink() = default;
  virtual void on_event(const event& what) = 0;
};

} // namespace actor_rdma::observe
