// SPDX-License-Identifier: Apache-2.0
// Tells CAF that the messages never leave the process. Included by messages.hpp, at its end: CAF wants it
// after the types and before any handler of them.
#pragma once

#include "actors/messages.hpp"

#include <caf/allowed_unsafe_message_type.hpp>

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::submit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::cancel)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::cancel_buffer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::post)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::suspected)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::slot_state_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::remote_fence_settled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::fence_batch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::qp_begin)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::qp_connect)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::qp_hold)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::qp_fence)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::qp_probe)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::qp_rail_answers)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::qp_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::device_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::device_added)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::memory_registered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::memory_released)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::subscribe)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::unsubscribe)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::dial_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::dial_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::link_opened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::link_closed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::control)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::adopt_link)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::guest_left)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::notice_ack)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::notice_room)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::peer_link)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::rail_refused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::published)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::import_peer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::register_buffer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::deregister_buffer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::snapshot_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::stop)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(actor_rdma::actors::stopped)
