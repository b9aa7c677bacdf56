// SPDX-License-Identifier: Apache-2.0
// The device's machine, its completions, and the reading of its port.
#include "actors/device.hpp"

#include "actors/device_port.hpp"
#include "actors/port_path.hpp"
#include "actors/qp.hpp"
#include "actors/qp_connect.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace actor_rdma::actors {

device::device(lane_env& env, const settings& config, observer& watch, std::uint16_t number,
               open_device parts, bool is_late)
    : lane_object(env), config_(config), watch_(watch), number_(number), recipe_(parts.recipe),
      max_region_bytes_(parts.max_region_bytes), parts_(std::make_shared<open_device>(std::move(parts))),
      opening_(1), name_(recipe_.name), machine_(device_state::rebuilding, env.now()),
      breaker_(config.breaker_hold) {
  address_.device = name_;
  address_.link_layer = link_layer();
  address_.grh = link_layer() != IBV_LINK_LAYER_INFINIBAND || config.ib_grh;
  memory_ready_ = !is_late;
}

device::~device() = default;

caf::behavior device::make_behavior() {
  watch();
  read_port();
  return {on<subscribe>(&device::handle, &device::handle),
          on<unsubscribe>(&device::handle, &device::handle),
          on<memory_registered>(&device::handle, &device::handle),
          on<memory_released>(&device::handle, &device::handle),
          on<stop>(&device::handle),
          on<snapshot_request>(&device::handle)};
}

void device::on_fault(const std::string& what) {
  note(observe::event_kind::internal_fault, what, 0, base::level::error);
}

// -- messages -------------------------------------------------------------------------------------

void device::handle(subscribe& m) {
  if (std::find(subscribers_.begin(), subscribers_.end(), m.who) == subscribers_.end())
    subscribers_.push_back(m.who);
  caf::anon_send(m.who, present());
}

void device::handle(unsubscribe& m) {
  std::erase(subscribers_, m.who);
}

void device::handle(stop& m) {
  stop_asked_by_ = m.answer_to;
  raise(device_event::drain, m.cause);
}

void device::handle(memory_registered& m) {
  if (m.opening != opening_ || lost_)
    return; // of an opening that is over
  memory_ready_ = true;
  raise(device_event::memory_ready, "its memory is registered");
}

void device::handle(memory_released& m) {
  if (m.opening != opening_ || !being_closed_ || memory_released_)
    return;
  (m.all ? memory_released_ : memory_refused_) = true;
  try_to_close();
}

void device::handle(snapshot_request& m) {
  observe::actor_snapshot s;
  s.kind = "device";
  s.name = config_.node + "/" + name();
  machine_.fill(s, env().now());
  s.outstanding = static_cast<std::uint64_t>(
      std::count_if(qps_.begin(), qps_.end(), [](auto* q) { return q != nullptr; }));
  s.queued = undead_.size();
  s.generation = opening_;
  s.cause = cause_;
  s.ignored_events += stale_completions_;
  m.into->add(std::move(s));
}

device_changed device::present() const {
  device_changed c;
  c.device = number_;
  c.active = machine_.state() == device_state::active;
  c.gone = is_ending() && !lost_;
  c.lost = lost_;
  if (!lost_ || !being_closed_)
    c.open = parts_;
  c.opening = opening_;
  c.address = address_;
  return c;
}

void device::announce() {
  for (const auto& who : subscribers_)
    caf::anon_send(who, present());
}

// -- machine --------------------------------------------------------------------------------------

void device::raise(device_event event, std::string cause) {
  const auto before = machine_.state();
  const auto outcome = machine_.apply(event, env().now());
  if (outcome.is_ignored())
    return;
  if (before != machine_.state()) {
    cause_ = cause;
    observe::event e;
    e.at = env().now();
    e.subject = config_.node + "/" + name();
    e.from = to_string(before);
    e.to = to_string(machine_.state());
    e.detail = std::move(cause);
    watch_.emit(std::move(e),
                stop_asked_by_ ? base::level::debug : base::level::info); // an end in good order
  }
  perform(outcome.act);
}

void device::perform(device_action action) {
  switch (action) {
  case device_action::none: break;
  case device_action::announce: announce(); break;
  case device_action::read_port: read_port(); break;
  case device_action::announce_and_read:
    announce();
    read_port();
    break;
  case device_action::drain:
    announce();
    try_to_close();
    break;
  case device_action::finish: close(); break;
  case device_action::open: open(); break;
  case device_action::open_later: open_later(); break;
  case device_action::count: break;
  }
}

void device::on_deadline(std::uint64_t token) {
  guarded([&] {
    switch (static_cast<timer>(token)) {
    case timer::read:
      poll_ = deadline_id::none;
      for (const auto& dead : std::vector(undead_))
        dig(dead);
      if (is_ending())
        try_to_close();
      else
        raise(device_event::deadline, "the port is read periodically");
      break;
    case timer::open:
      open_timer_ = deadline_id::none;
      raise(device_event::open_due, "it is opened again");
      break;
    case timer::attempt:
      open_timer_ = deadline_id::none;
      cause_ = "the attempt to open it again does not return";
      note(observe::event_kind::attempt_failed, cause_, schedule_.attempts(), base::level::warn);
      break;
    }
  });
}

void device::next_read(base::duration in) {
  if (poll_ != deadline_id::none)
    env().cancel(poll_);
  poll_ = env().arm(env().now() + in, *this, static_cast<std::uint64_t>(timer::read));
}

void device::note(observe::event_kind kind, std::string detail, std::uint64_t value, base::level at) {
  observe::event e;
  e.at = env().now();
  e.kind = kind;
  e.subject = config_.node + "/" + name();
  e.detail = std::move(detail);
  e.value = value;
  watch_.emit(std::move(e), at);
}

// -- QPs ------------------------------------------------------------------------------------------

std::optional<std::uint16_t> device::add_qp(qp& who, std::uint32_t wrs) {
  if (!parts() || cq_reserved_ + wrs > parts_->cq_entries || qps_.size() >= recipe_.landing().size())
    return std::nullopt;
  auto at = std::find(qps_.begin(), qps_.end(), nullptr);
  if (at == qps_.end())
    at = qps_.insert(qps_.end(), nullptr);
  *at = &who;
  cq_reserved_ += wrs;
  return static_cast<std::uint16_t>(at - qps_.begin());
}

std::uint32_t device::room_for_qps(std::uint32_t wrs) const noexcept {
  return parts() ? (parts_->cq_entries - cq_reserved_) / wrs : 0;
}

std::uint8_t device::take_reads(std::uint8_t wanted) noexcept {
  constexpr std::uint32_t share = 8;
  if (!parts())
    return 0;
  const auto left = parts_->max_served_reads - std::min(parts_->max_served_reads, served_reads_);
  const auto most = std::min<std::uint32_t>(wanted, std::max(1u, left / share));
  const auto taken = static_cast<std::uint8_t>(std::min(most, left));
  served_reads_ += taken;
  return taken;
}

void device::remove_qp(std::uint16_t index, std::uint32_t wrs) {
  qps_.at(index) = nullptr;
  cq_reserved_ -= wrs;
}

void device::bury(const std::shared_ptr<qp_incarnation>& dead) {
  if (std::exchange(dead->buried, true))
    return;
  undead_.push_back(dead);
  dig(dead);
}

void device::dig(const std::shared_ptr<qp_incarnation>& dead) {
  if (std::exchange(dead->being_destroyed, true))
    return;
  env().run_slow(
      number_, [dead] { destroy_qp(*dead); },
      [self = shared(this), dead] {
        dead->being_destroyed = false;
        dead->refused = !dead->destroyed;
        if (dead->refused) // once more at the next reading of the port
          return self->destroy_refused();
        self->give_reads(std::exchange(dead->reads, std::uint8_t{0}));
        std::erase(self->undead_, dead);
      });
}

void device::on_completions(std::span<const ibv_wc> wcs) {
  std::size_t from = 0;
  while (from < wcs.size()) {
    const auto index = unpack(wcs[from].wr_id).qp_index;
    auto to = from + 1;
    while (to < wcs.size() && unpack(wcs[to].wr_id).qp_index == index)
      ++to;
    if (index < qps_.size() && qps_[index] != nullptr)
      qps_[index]->on_completions(wcs.subspan(from, to - from));
    else
      stale_completions_ += to - from;
    from = to;
  }
}

void device::on_cq_failed(int error) {
  guarded([&] { lose("ibv_poll_cq: " + base::errno_text(error)); });
}

// -- async events and the port --------------------------------------------------------------------

void device::on_readable(int) {
  guarded([&] {
    for (;;) {
      auto next = parts_->ctx.next_async_event();
      if (!next)
        return lose(next.error().to_string());
      if (!*next)
        return;
      ++async_events_;
      on_async(**next);
      if (!watches_events_)
        return; // the device is lost
    }
  });
}

void device::on_async(const verbs::async_event& event) {
  // Ports of one device share its event queue: what counts is the port that the event names.
  if (event.port != 0 && event.port != recipe_.port) {
    ++other_ports_events_;
    return;
  }
  const bool is_fatal = event.type == IBV_EVENT_DEVICE_FATAL || event.type == IBV_EVENT_CQ_ERR;
  if (!memory_ready_ && !is_fatal)
    return; // the port is read when there is something to serve with
  switch (event.type) {
  case IBV_EVENT_PORT_ERR:
    raise(device_event::port_down, "async event: port error");
    if (machine_.state() == device_state::paused)
      next_read(config_.port_poll); // until then it was read at the pace of a port that works
    break;
  case IBV_EVENT_PORT_ACTIVE: raise(device_event::port_up, "async event: port active"); break;
  case IBV_EVENT_LID_CHANGE:
  case IBV_EVENT_GID_CHANGE:
  case IBV_EVENT_PKEY_CHANGE:
  case IBV_EVENT_SM_CHANGE:
  case IBV_EVENT_CLIENT_REREGISTER: read_port(); break;
  case IBV_EVENT_DEVICE_FATAL:
  case IBV_EVENT_CQ_ERR: lose(event_text(event.type)); break;
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_PATH_MIG_ERR:
    for (auto* q : qps_)
      if (q != nullptr && q->number() == event.qp_num)
        q->on_async(event.type);
    break;
  default: break;
  }
}

/// Level, not edge: what the port says now is what counts.
void device::read_port() {
  if (machine_.state() == device_state::draining || machine_.state() == device_state::retired || lost_)
    return;
  if (!memory_ready_) // it may not serve yet, whatever the port says
    return next_read(10 * config_.port_poll);
  if (std::exchange(reading_, true)) {
    read_again_ = true;
    return;
  }
  auto seen = std::make_shared<port_reading>();
  env().run_slow(
      number_,
      [parts = parts_, seen, depth = config_.read_depth, grh = config_.ib_grh] {
        *seen = port_reading::take(*parts, depth, grh);
      },
      [self = shared(this), seen] { self->guarded([&] { self->port_read(*seen); }); });
}

void device::port_read(const port_reading& seen) {
  reading_ = false;
  if (machine_.state() == device_state::draining)
    return try_to_close(); // it waited for this
  if (std::exchange(read_again_, false))
    return read_port();
  next_read(machine_.state() == device_state::active ? 10 * config_.port_poll : config_.port_poll);
  if (seen.failure.why != base::reason::none)
    return raise(device_event::read_failed, seen.failure.to_string());
  take_port_rate(seen); // width and speed change with the members of a bond
  if (seen.address.link_layer != link_layer())
    return raise(device_event::port_down,
                 fmt::format("the port's link layer is {} now, and the rails were made for {}",
                             link_layer_text(seen.address.link_layer), link_layer_text(link_layer())));
  if (!seen.up)
    return raise(device_event::port_down, "the port is down");
  gid_wish wish;
  wish.index = config_.gid_index;
  if (!gids_.empty())
    wish.present = gid_address{address_.gid, address_.gid_type};
  const auto choice = choose_gid(seen.gids, wish);
  if (!choice) // an address may come yet; until then there is nothing to serve with
    return raise(device_event::port_down, choice.error().to_string());
  if (machine_.state() != device_state::active) {
    if (std::exchange(room_told_, opening_) != opening_ && parts_->cq_entries < parts_->cq_asked)
      note(observe::event_kind::less_room,
           fmt::format("a CQ of {} was asked for, and one of {} was made", parts_->cq_asked,
                       parts_->cq_entries),
           parts_->cq_entries, base::level::warn);
    adopt(seen, *choice);
    schedule_.serves(env().now());
    breaker_.close();
    return raise(device_event::address_ready, "the port is up");
  }
  // The GID is compared by value and by place: QPs name the place.
  if (choice->chosen.gid != address_.gid || choice->chosen.type != address_.gid_type ||
      choice->chosen.index != gid_index_ || seen.address.lid != address_.lid ||
      seen.address.mtu != address_.mtu || seen.address.grh != address_.grh)
    return raise(device_event::address_changed,
                 fmt::format("GID {} {}, LID {}, MTU {} became GID {} {}, LID {}, MTU {}", gid_index_,
                             gid_text(address_.gid), address_.lid, address_.mtu, choice->chosen.index,
                             gid_text(choice->chosen.gid), seen.address.lid, seen.address.mtu));
  if (gids_ != seen.gids) { // endpoints may use another GID than the published one
    gids_ = seen.gids;
    announce();
  }
}

void device::adopt(const port_reading& seen, const gid_choice& choice) {
  const bool news = gids_.empty() || choice.chosen.gid != address_.gid || choice.chosen.index != gid_index_;
  address_ = seen.address;
  address_.gid = choice.chosen.gid;
  address_.gid_type = choice.chosen.type;
  gid_index_ = choice.chosen.index;
  gids_ = seen.gids;
  if (!news)
    return;
  note(observe::event_kind::address_chosen, choice.reasons, gid_index_, base::level::info);
}

} // namespace actor_rdma::actors
