// SPDX-License-Identifier: Apache-2.0
// A lane-owned object and the actor that is its handle. Ledgers, verbs objects and counters live in the
// object; the actor only carries messages to it. So an exception in a handler becomes an event of the object
// and not the death of what it owns, and an actor that ends loses no WR. Objects are kept alive by the engine
// until they report that nothing of theirs is left.
#pragma once

#include "actors/lane_actor.hpp"

#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/behavior.hpp>
#include <caf/send.hpp>

namespace actor_rdma::actors {

class lane_object : public std::enable_shared_from_this<lane_object> {
public:
  explicit lane_object(lane_env& env) : env_(env) {}
  lane_object(const lane_object&) = delete;
  lane_object& operator=(const lane_object&) = delete;
  virtual ~lane_object() = default;

  /// The object's message handlers; called once, on the lane, with the actor already addressable as me().
  virtual caf::behavior make_behavior() = 0;
  /// An exception left one of the object's handlers.
  virtual void on_fault(const std::string& what) = 0;

  const caf::actor& me() const noexcept { return handle_; }
  /// Lets go of the actor; the object lives on while anybody holds it.
  void end_actor() {
    if (handle_)
      caf::anon_send_exit(handle_, caf::exit_reason::user_shutdown);
    handle_ = nullptr;
  }

protected:
  lane_env& env() const noexcept { return env_; }
  template <class Self>
  std::shared_ptr<Self> shared(Self* self) {
    (void)self;
    return std::static_pointer_cast<Self>(shared_from_this());
  }
  /// True if nothing was thrown; else it has been told.
  template <class Body>
  bool guarded(Body&& body) noexcept {
    try {
      body();
      return true;
    } catch (const std::exception& e) {
      tell_fault(e.what());
    } catch (...) {
      tell_fault("unknown exception");
    }
    return false;
  }
  /// A handler of messages of type M that cannot throw into CAF. If it throws, and the message carries what
  /// somebody waits for, `salvage` sees to what the handler has left in it. That is the handler itself where
  /// what it has done already does no harm when it is done again.
  template <class M, class Self>
  auto on(void (Self::*member)(M&), std::type_identity_t<void (Self::*)(M&)> salvage = nullptr) {
    return [this, member, salvage](M& message) {
      const bool good = guarded([&] {
        env_.handling(typeid(M));
        (static_cast<Self*>(this)->*member)(message);
      });
      if (!good && salvage != nullptr)
        guarded([&] { (static_cast<Self*>(this)->*salvage)(message); });
    };
  }

private:
  template <class T>
  friend caf::actor launch(const std::shared_ptr<T>& object);
  friend class lane_object_actor;

  /// On the lane, when its actor takes no message any more: a deadline that is armed still would find nobody.
  void leave() {
    if (const auto* const sink = dynamic_cast<const deadline_sink*>(this))
      env_.cancel_all(*sink);
  }

  /// What is thrown while a fault is told has nobody left to go to.
  void tell_fault(const char* what) noexcept {
    try {
      on_fault(what);
    } catch (...) {
    }
  }

  lane_env& env_;
  caf::actor handle_;
};

class lane_object_actor final : public lane_actor {
public:
  lane_object_actor(caf::actor_config& cfg, lane_env& env, std::shared_ptr<lane_object> object)
      : lane_actor(cfg, env), object_(std::move(object)) {}
  /// On the lane, and perhaps before spawn() has returned to whoever called it on another thread.
  caf::behavior make_behavior() override {
    object_->handle_ = caf::actor{this};
    return object_->make_behavior();
  }
  void on_exit() override {
    object_->leave();
    object_.reset();
  }

private:
  std::shared_ptr<lane_object> object_;
};

/// Spawns the actor of `object` on the object's lane.
template <class T>
caf::actor launch(const std::shared_ptr<T>& object) {
  lane_object& base = *object;
  caf::actor made = base.env_.system().template spawn<lane_object_actor>(base.env_, object);
  base.env_.launched(made);
  return made;
}

} // namespace actor_rdma::actors
