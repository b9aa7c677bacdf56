// SPDX-License-Identifier: Apache-2.0
//
// The tables of words.
#include "verbs/soft/rules/rule_words.hpp"

#include "base/input.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace actor_rdma::verbs::soft {

namespace {

constexpr const char* layer = "soft NIC rule";

template <class Enum>
constexpr rule_word word(const char* name, Enum value) {
  return {name, static_cast<std::uint32_t>(value)};
}

constexpr std::array actions{
    word("drop", rule_action::drop),         word("delay", rule_action::delay),
    word("reorder", rule_action::reorder),   word("duplicate", rule_action::duplicate),
    word("status", rule_action::status),     word("hold_cqe", rule_action::hold_cqe),
    word("hold_dma", rule_action::hold_dma), word("cqe_behind", rule_action::cqe_behind),
    word("hang", rule_action::hang),         word("no_flush", rule_action::no_flush),
    word("errno", rule_action::fail),        word("ignore", rule_action::ignore),
    word("late_cqe", rule_action::late_cqe), word("swallow", rule_action::swallow),
    word("burst", rule_action::burst),       word("raise", rule_action::raise),
    word("link", rule_action::link),         word("half", rule_action::half),
    word("hold", rule_action::hold),
};

constexpr std::array ops{word("send", work_op::send), word("write", work_op::write),
                         word("read", work_op::read), word("atomic", work_op::atomic),
                         word("recv", work_op::recv)};

constexpr std::array verbs{
    word("open_device", verb::open_device),
    word("close_device", verb::close_device),
    word("query_device", verb::query_device),
    word("query_port", verb::query_port),
    word("query_gid", verb::query_gid),
    word("alloc_pd", verb::alloc_pd),
    word("dealloc_pd", verb::dealloc_pd),
    word("reg_mr", verb::reg_mr),
    word("dereg_mr", verb::dereg_mr),
    word("create_comp_channel", verb::create_comp_channel),
    word("destroy_comp_channel", verb::destroy_comp_channel),
    word("create_cq", verb::create_cq),
    word("resize_cq", verb::resize_cq),
    word("destroy_cq", verb::destroy_cq),
    word("create_srq", verb::create_srq),
    word("modify_srq", verb::modify_srq),
    word("query_srq", verb::query_srq),
    word("destroy_srq", verb::destroy_srq),
    word("create_ah", verb::create_ah),
    word("destroy_ah", verb::destroy_ah),
    word("create_qp", verb::create_qp),
    word("modify_qp", verb::modify_qp),
    word("query_qp", verb::query_qp),
    word("destroy_qp", verb::destroy_qp),
    word("post_send", verb::post_send),
    word("post_recv", verb::post_recv),
    word("post_srq_recv", verb::post_srq_recv),
    word("poll_cq", verb::poll_cq),
    word("req_notify_cq", verb::req_notify_cq),
    word("get_cq_event", verb::get_cq_event),
    word("get_async_event", verb::get_async_event),
};
static_assert(verbs.size() == static_cast<std::size_t>(verb::count));

constexpr std::array states{word("RESET", IBV_QPS_RESET), word("INIT", IBV_QPS_INIT),
                            word("RTR", IBV_QPS_RTR),     word("RTS", IBV_QPS_RTS),
                            word("SQD", IBV_QPS_SQD),     word("SQE", IBV_QPS_SQE),
                            word("ERR", IBV_QPS_ERR)};

constexpr std::array statuses{
    word("SUCCESS", IBV_WC_SUCCESS),
    word("LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR),
    word("LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR),
    word("LOC_EEC_OP_ERR", IBV_WC_LOC_EEC_OP_ERR),
    word("LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR),
    word("WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR),
    word("MW_BIND_ERR", IBV_WC_MW_BIND_ERR),
    word("BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR),
    word("LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR),
    word("REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR),
    word("REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR),
    word("REM_OP_ERR", IBV_WC_REM_OP_ERR),
    word("RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR),
    word("RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR),
    word("LOC_RDD_VIOL_ERR", IBV_WC_LOC_RDD_VIOL_ERR),
    word("REM_INV_RD_REQ_ERR", IBV_WC_REM_INV_RD_REQ_ERR),
    word("REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR),
    word("INV_EECN_ERR", IBV_WC_INV_EECN_ERR),
    word("INV_EEC_STATE_ERR", IBV_WC_INV_EEC_STATE_ERR),
    word("FATAL_ERR", IBV_WC_FATAL_ERR),
    word("RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR),
    word("GENERAL_ERR", IBV_WC_GENERAL_ERR),
};

/// Those that the device can tell about one of its ports, queue pairs or completion queues, or about itself.
constexpr std::array events{
    word("CQ_ERR", IBV_EVENT_CQ_ERR),
    word("QP_FATAL", IBV_EVENT_QP_FATAL),
    word("QP_REQ_ERR", IBV_EVENT_QP_REQ_ERR),
    word("QP_ACCESS_ERR", IBV_EVENT_QP_ACCESS_ERR),
    word("COMM_EST", IBV_EVENT_COMM_EST),
    word("SQ_DRAINED", IBV_EVENT_SQ_DRAINED),
    word("PATH_MIG", IBV_EVENT_PATH_MIG),
    word("PATH_MIG_ERR", IBV_EVENT_PATH_MIG_ERR),
    word("QP_LAST_WQE_REACHED", IBV_EVENT_QP_LAST_WQE_REACHED),
    word("DEVICE_FATAL", IBV_EVENT_DEVICE_FATAL),
    word("PORT_ACTIVE", IBV_EVENT_PORT_ACTIVE),
    word("PORT_ERR", IBV_EVENT_PORT_ERR),
    word("LID_CHANGE", IBV_EVENT_LID_CHANGE),
    word("PKEY_CHANGE", IBV_EVENT_PKEY_CHANGE),
    word("SM_CHANGE", IBV_EVENT_SM_CHANGE),
    word("CLIENT_REREGISTER", IBV_EVENT_CLIENT_REREGISTER),
    word("GID_CHANGE", IBV_EVENT_GID_CHANGE),
    word("SRQ_ERR", IBV_EVENT_SRQ_ERR),
    word("SRQ_LIMIT_REACHED", IBV_EVENT_SRQ_LIMIT_REACHED),
};

constexpr std::array errnos{
    rule_word{"EPERM", EPERM},
    rule_word{"EINTR", EINTR},
    rule_word{"EIO", EIO},
    rule_word{"EAGAIN", EAGAIN},
    rule_word{"ENOMEM", ENOMEM},
    rule_word{"EACCES", EACCES},
    rule_word{"EFAULT", EFAULT},
    rule_word{"EBUSY", EBUSY},
    rule_word{"ENODEV", ENODEV},
    rule_word{"EINVAL", EINVAL},
    rule_word{"EMFILE", EMFILE},
    rule_word{"ENOSPC", ENOSPC},
    rule_word{"ENOSYS", ENOSYS},
    rule_word{"ENODATA", ENODATA},
    rule_word{"ENOENT", ENOENT},
    rule_word{"ENOBUFS", ENOBUFS},
    rule_word{"EOPNOTSUPP", EOPNOTSUPP},
    rule_word{"ETIMEDOUT", ETIMEDOUT},
    rule_word{"ENETDOWN", ENETDOWN},
    rule_word{"ENETUNREACH", ENETUNREACH},
    rule_word{"EHOSTDOWN", EHOSTDOWN},
    rule_word{"EOVERFLOW", EOVERFLOW},
};

} // namespace

std::span<const rule_word> action_words() noexcept {
  return actions;
}
std::span<const rule_word> op_words() noexcept {
  return ops;
}
std::span<const rule_word> verb_words() noexcept {
  return verbs;
}
std::span<const rule_word> state_words() noexcept {
  return states;
}
std::span<const rule_word> status_words() noexcept {
  return statuses;
}
std::span<const rule_word> event_words() noexcept {
  return events;
}
std::span<const rule_word> errno_words() noexcept {
  return errnos;
}

base::expected<std::uint32_t> find_word(std::span<const rule_word> words, std::string_view kind,
                                        std::string_view name) {
  std::string accepted;
  for (const auto& w : words) {
    if (name == w.name)
      return w.value;
    accepted += accepted.empty() ? "" : ", ";
    accepted += w.name;
  }
  return base::fail(base::reason::invalid_argument, layer,
                    base::in_quotes(name) + " is no " + std::string{kind} + ": say one of " + accepted);
}

const char* name_of(std::span<const rule_word> words, std::uint32_t value) noexcept {
  for (const auto& w : words)
    if (w.value == value)
      return w.name;
  return "unknown";
}

base::expected<nanos> parse_span(std::string_view text) {
  const std::string copy{text};
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  const std::string_view unit{end};
  const double scale = unit == "s" ? 1e9 : unit == "ms" ? 1e6 : unit == "us" ? 1e3 : unit == "ns" ? 1 : 0;
  const bool is_zero = number == 0 && end != copy.c_str() && unit.empty();
  if (!is_zero && (end == copy.c_str() || scale == 0 || !(number >= 0) || number * scale > 1e18))
    return base::fail(base::reason::invalid_argument, layer,
                      base::in_quotes(copy) + " is no span of time: say 250us, 20ms, 1.5s or 0");
  return static_cast<nanos>(number * scale);
}

base::expected<std::uint64_t> parse_number(std::string_view key, std::string_view text) {
  std::uint64_t number = 0;
  const bool is_hex = text.starts_with("0x");
  const auto digits = is_hex ? text.substr(2) : text;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, is_hex ? 16 : 10);
  if (error != std::errc{} || digits.empty() || end != digits.data() + digits.size())
    return base::fail(base::reason::invalid_argument, layer,
                      std::string{key} + "=" + base::in_quotes(text) + " is no number");
  return number;
}

base::expected<ibv_event_type> parse_event(std::string_view name) {
  constexpr std::string_view prefix{"IBV_EVENT_"};
  if (name.starts_with(prefix))
    name.remove_prefix(prefix.size());
  const auto found = find_word(events, "event", name);
  if (!found)
    return base::fail(found.error());
  return static_cast<ibv_event_type>(*found);
}

} // namespace actor_rdma::verbs::soft
