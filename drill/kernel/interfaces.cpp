// SPDX-License-Identifier: Apache-2.0
// netdevice(7), rtnetlink(7), and the RDMA subsystem's netlink family.
#include "drill/kernel/interfaces.hpp"

#include "drill/kernel/netlink.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_gact.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <rdma/rdma_netlink.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace actor_rdma::drill::interfaces {

namespace {

tl::unexpected<base::error> wrong(const std::string& netdev, const std::string& what, int sys_errno) {
  return base::fail(base::reason::local_device, "network", what + " of " + netdev, sys_errno);
}

/// One ioctl about an interface; `what` begins the error.
done about(const std::string& netdev, unsigned long request, ifreq& with, const std::string& what) {
  if (netdev.size() >= IFNAMSIZ)
    return wrong(netdev, what, ENODEV);
  std::memcpy(with.ifr_name, netdev.c_str(), netdev.size() + 1);
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool good = fd >= 0 && ::ioctl(fd, request, &with) == 0;
  const int why = errno;
  if (fd >= 0)
    ::close(fd);
  if (!good)
    return wrong(netdev, what, why);
  return {};
}

base::expected<unsigned> index_of(const std::string& netdev) {
  const auto index = ::if_nametoindex(netdev.c_str());
  if (index == 0)
    return wrong(netdev, "cannot find the index", errno);
  return index;
}

} // namespace

done set_up(const std::string& netdev, bool up) {
  ifreq with{};
  if (auto read = about(netdev, SIOCGIFFLAGS, with, "cannot read the flags"); !read)
    return read;
  with.ifr_flags = static_cast<short>(up ? with.ifr_flags | IFF_UP : with.ifr_flags & ~IFF_UP);
  return about(netdev, SIOCSIFFLAGS, with, up ? "cannot set the up flag" : "cannot take the up flag");
}

base::expected<std::string> mac(const std::string& netdev) {
  ifreq with{};
  if (auto read = about(netdev, SIOCGIFHWADDR, with, "cannot read the MAC address"); !read)
    return base::fail(read.error());
  std::string text;
  for (std::size_t i = 0; i < ETH_ALEN; ++i)
    text +=
        fmt::format("{}{:02x}", i == 0 ? "" : ":", static_cast<unsigned char>(with.ifr_hwaddr.sa_data[i]));
  return text;
}

done set_mac(const std::string& netdev, const std::string& text) {
  ifreq with{};
  with.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  const auto refused = [&] {
    return base::fail(base::reason::invalid_argument, "network",
                      "MAC address \"" + text + "\" for " + netdev +
                          ": accepted is one as 02:00:00:00:00:01");
  };
  if (text.size() != ETH_ALEN * 3 - 1)
    return refused();
  for (std::size_t i = 0; i < ETH_ALEN; ++i) {
    const auto* const at = text.data() + i * 3;
    unsigned byte = 0;
    if (std::from_chars(at, at + 2, byte, 16).ptr != at + 2 || (i + 1 < ETH_ALEN && at[2] != ':'))
      return refused();
    with.ifr_hwaddr.sa_data[i] = static_cast<char>(byte);
  }
  return about(netdev, SIOCSIFHWADDR, with, "cannot set the MAC address " + text);
}

base::expected<std::uint32_t> mtu(const std::string& netdev) {
  ifreq with{};
  if (auto read = about(netdev, SIOCGIFMTU, with, "cannot read the MTU"); !read)
    return base::fail(read.error());
  return static_cast<std::uint32_t>(with.ifr_mtu);
}

done set_mtu(const std::string& netdev, std::uint32_t bytes) {
  ifreq with{};
  with.ifr_mtu = static_cast<int>(bytes);
  return about(netdev, SIOCSIFMTU, with, fmt::format("cannot set the MTU {}", bytes));
}

done set_address(const std::string& netdev, const std::string& address, bool present) {
  const auto slash = address.find('/');
  const auto host = address.substr(0, slash);
  std::array<unsigned char, sizeof(in6_addr)> raw{};
  const int family = host.find(':') != std::string::npos ? AF_INET6 : AF_INET;
  const unsigned bits = family == AF_INET6 ? 128 : 32;
  unsigned prefix = bits;
  const auto* const end = address.data() + address.size();
  if (::inet_pton(family, host.c_str(), raw.data()) != 1 ||
      (slash != std::string::npos &&
       (std::from_chars(address.data() + slash + 1, end, prefix).ptr != end || prefix > bits)))
    return base::fail(base::reason::invalid_argument, "network",
                      "address \"" + address + "\" for " + netdev +
                          ": accepted is one as 10.7.0.1/24 or fd00::1/64");
  const auto index = index_of(netdev);
  if (!index)
    return base::fail(index.error());
  ifaddrmsg head{};
  head.ifa_family = static_cast<unsigned char>(family);
  head.ifa_prefixlen = static_cast<unsigned char>(prefix);
  head.ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0;
  head.ifa_index = *index;
  netlink_message m(present ? RTM_NEWADDR : RTM_DELADDR,
                    static_cast<std::uint16_t>(NLM_F_ACK | (present ? NLM_F_CREATE | NLM_F_EXCL : 0)));
  m.header(head).bytes(IFA_LOCAL, raw.data(), bits / 8).bytes(IFA_ADDRESS, raw.data(), bits / 8);
  return netlink_ask(NETLINK_ROUTE, std::move(m),
                     fmt::format("cannot {} address {} {} {}", present ? "add" : "remove", address,
                                 present ? "to" : "from", netdev));
}

done set_dropping(const std::string& netdev, bool incoming, bool on) {
  const auto index = index_of(netdev);
  if (!index)
    return base::fail(index.error());
  tcmsg head{};
  head.tcm_family = AF_UNSPEC;
  head.tcm_ifindex = static_cast<int>(*index);
  if (on) { // a place for filters, which lets everything through without one
    auto place = head;
    place.tcm_parent = TC_H_CLSACT;
    place.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
    netlink_message m(RTM_NEWQDISC, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
    m.header(place).text(TCA_KIND, "clsact");
    auto made = netlink_ask(NETLINK_ROUTE, std::move(m), "cannot add the qdisc clsact to " + netdev);
    if (!made && made.error().sys_errno != EEXIST)
      return made;
  }
  constexpr std::uint32_t priority = 1;
  head.tcm_parent = TC_H_MAKE(TC_H_CLSACT, incoming ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS);
  head.tcm_info = TC_H_MAKE(priority << 16, htons(ETH_P_ALL));
  netlink_message m(on ? RTM_NEWTFILTER : RTM_DELTFILTER,
                    static_cast<std::uint16_t>(NLM_F_ACK | (on ? NLM_F_CREATE | NLM_F_EXCL : 0)));
  m.header(head).text(TCA_KIND, "matchall");
  if (on) {
    tc_gact act{};
    act.action = TC_ACT_SHOT;
    m.begin_nest(TCA_OPTIONS).begin_nest(TCA_MATCHALL_ACT).begin_nest(1);
    m.text(TCA_ACT_KIND, "gact").begin_nest(TCA_ACT_OPTIONS).bytes(TCA_GACT_PARMS, &act, sizeof act);
    m.end_nest().end_nest().end_nest().end_nest();
  }
  auto asked = netlink_ask(NETLINK_ROUTE, std::move(m),
                           fmt::format("cannot {} a filter for what goes {} {}", on ? "add" : "remove",
                                       incoming ? "into" : "out of", netdev));
  // A filter that is there (or not there) already; without clsact, EINVAL says that there is none to remove.
  if (!asked && (on ? asked.error().sys_errno == EEXIST
                    : asked.error().sys_errno == ENOENT || asked.error().sys_errno == EINVAL))
    return {};
  return asked;
}

base::expected<std::optional<std::uint32_t>> rdma_index(const std::string& device) {
  netlink_message m(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_DUMP);
  const auto all = netlink_list(NETLINK_RDMA, std::move(m), 0, "cannot list the RDMA devices");
  if (!all)
    return base::fail(all.error());
  for (const auto& one : *all) {
    const auto name = one.find(RDMA_NLDEV_ATTR_DEV_NAME);
    const auto index = one.find(RDMA_NLDEV_ATTR_DEV_INDEX);
    if (name == one.end() || index == one.end() || index->second.size() != sizeof(std::uint32_t) ||
        device != text_of(name->second))
      continue;
    std::uint32_t n = 0;
    std::memcpy(&n, index->second.data(), sizeof n);
    return n;
  }
  return std::nullopt;
}

base::expected<object_counts> rdma_objects(const std::string& device) {
  netlink_message m(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET), NLM_F_DUMP);
  const auto all = netlink_list(NETLINK_RDMA, std::move(m), 0, "cannot count the objects of RDMA devices");
  if (!all)
    return base::fail(all.error());
  object_counts counts;
  for (const auto& one : *all) {
    const auto name = one.find(RDMA_NLDEV_ATTR_DEV_NAME);
    const auto table = one.find(RDMA_NLDEV_ATTR_RES_SUMMARY);
    if (name == one.end() || table == one.end() || device != text_of(name->second))
      continue;
    each_attribute(table->second, [&](std::uint16_t, std::string_view entry) {
      const auto a = attributes_in(entry);
      const auto what = a.find(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME);
      const auto count = a.find(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
      if (what == a.end() || count == a.end() || count->second.size() != sizeof(std::uint64_t))
        return;
      const auto kind = text_of(what->second);
      if (kind == "qp")
        std::memcpy(&counts.qps, count->second.data(), sizeof counts.qps);
      else if (kind == "mr")
        std::memcpy(&counts.mrs, count->second.data(), sizeof counts.mrs);
    });
  }
  return counts;
}

done add_rxe(const std::string& device, const std::string& netdev) {
  netlink_message m(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK), NLM_F_ACK);
  m.text(RDMA_NLDEV_ATTR_DEV_NAME, device).text(RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
  m.text(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
  return netlink_ask(NETLINK_RDMA, std::move(m), "cannot add the RDMA device " + device + " on " + netdev);
}

done remove_rdma_link(const std::string& device) {
  const auto index = rdma_index(device);
  if (!index)
    return base::fail(index.error());
  if (!*index)
    return base::fail(base::reason::not_found, "network", "there is no RDMA device " + device, ENODEV);
  netlink_message m(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_DELLINK), NLM_F_ACK);
  m.u32(RDMA_NLDEV_ATTR_DEV_INDEX, **index);
  return netlink_ask(NETLINK_RDMA, std::move(m), "cannot remove the RDMA device " + device);
}

} // namespace actor_rdma::drill::interfaces
