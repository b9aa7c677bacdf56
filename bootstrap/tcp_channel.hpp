// SPDX-License-Identifier: Apache-2.0
//
// The control channel over TCP. One thread serves all links of a channel; names are looked up on others, so
// that no dead name server and no silent peer delays anyone else. A link that misbehaves is closed with a
// logged reason and takes nothing with it. link_end.hpp lists the reasons that on_closed gives.
#pragma once

#include "bootstrap/channel.hpp"
#include "bootstrap/tcp_options.hpp"

#include <memory>
#include <string>
#include <thread>

namespace actor_rdma::bootstrap {

namespace tcp {
class loop;
class mailbox;
} // namespace tcp
class name_resolver;
class unique_fd;

class tcp_channel final : public channel {
public:
  static base::expected<std::unique_ptr<tcp_channel>> create(tcp_options options = {});
  ~tcp_channel() override;

  void start(channel_handler& handler) override;
  /// "host:port"; an empty host is 127.0.0.1, port 0 is any. A host name is looked up here and now.
  base::expected<std::string> listen(const std::string& address) override;
  link_id dial(const std::string& address) override;
  bool send(link_id link, const message& what) override;
  void close(link_id link) override;
  /// Must not be called from the handler. A link that dial() names after this never comes up nor ends.
  void stop() override;

private:
  tcp_channel(tcp_options options, std::shared_ptr<tcp::mailbox> mail, unique_fd epoll);

  const tcp_options options_;
  const std::shared_ptr<tcp::mailbox> mail_; // shared, since a lookup that was left behind may end later
  std::unique_ptr<unique_fd> epoll_;         // until start()
  std::unique_ptr<name_resolver> names_;
  std::unique_ptr<tcp::loop> loop_;
  std::thread thread_;
};

} // namespace actor_rdma::bootstrap
