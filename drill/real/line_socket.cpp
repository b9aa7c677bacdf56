// SPDX-License-Identifier: Apache-2.0
// Lines in two buffers.
#include "drill/real/line_socket.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace actor_rdma::drill {

line_socket::line_socket(int fd) : fd_(fd) {}

line_socket::~line_socket() {
  if (fd_ >= 0)
    ::close(fd_);
}

line_socket::line_socket(line_socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), out_(std::move(other.out_)), in_(std::move(other.in_)) {}

line_socket& line_socket::operator=(line_socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(out_, other.out_);
  std::swap(in_, other.in_);
  return *this;
}

void line_socket::send(const nlohmann::json& what) {
  out_ += what.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  flush();
}

void line_socket::flush() {
  std::size_t done = 0;
  while (done < out_.size()) {
    const auto n = ::send(fd_, out_.data() + done, out_.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno != EAGAIN)
      done = out_.size(); // nobody is there any more, which receive() says too
    if (n < 0)
      break;
    done += static_cast<std::size_t>(n);
  }
  out_.erase(0, done);
}

std::vector<nlohmann::json> line_socket::receive(bool& ended) {
  std::array<char, 65536> part{};
  for (;;) {
    const auto n = ::recv(fd_, part.data(), part.size(), MSG_DONTWAIT);
    if (n > 0) {
      in_.append(part.data(), static_cast<std::size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR)
      continue;
    ended = n == 0 || errno != EAGAIN;
    break;
  }
  std::vector<nlohmann::json> all;
  std::size_t at = 0;
  for (auto end = in_.find('\n', at); end != std::string::npos; end = in_.find('\n', at)) {
    all.push_back(nlohmann::json::parse(in_.begin() + static_cast<std::ptrdiff_t>(at),
                                        in_.begin() + static_cast<std::ptrdiff_t>(end)));
    at = end + 1;
  }
  in_.erase(0, at);
  return all;
}

} // namespace actor_rdma::drill
