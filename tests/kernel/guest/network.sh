#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Two hosts, a and b, in one guest, with GUEST_DEVICES rxe devices each; device I of a reaches device I of b. Interfaces are numbered
# through: device I of a is rxe(2I) on n(2I), that of b rxe(2I+1) on n(2I+1).
#   veth     n0 and n1 are the two ends of one cable
#   bridge   each has a cable (sw0, sw1) to a switch of the rail (br0): sw0 down = a's cable cut, sw1 down = b's
#   bond     as bridge, but n0 is bond0, active-backup over m0 and m1, whose cables are sw0 and sw2
#   pair     a and b are two guests (GUEST_HOST says which this is): n0 here and n1 there are network cards with a cable in between,
#            and "control", 10.8.0.1 and 10.8.0.2, is for everything else
#   none     only the modules
# In the end /run/devices.json says what there is. GUEST_FAMILY is 4 (10.7.I.1/24), 6 (fd07:0:0:I::1/64 and no IPv4 address) or both.
set -eu
shape="${GUEST_SHAPE:=veth}"
rails="${GUEST_DEVICES:=1}"
family="${GUEST_FAMILY:=4}"

ip=/sbin/ip # busybox has one of that name that comes first
for module in crc32_generic crc32-pclmul rdma_rxe rdma_ucm ib_uverbs veth bridge sch_ingress cls_matchall act_gact; do
  modprobe "$module" 2> /dev/null || true # some kernels have them built in
done
[ -d /sys/module/rdma_rxe ] || {
  echo "guest: there is no rdma_rxe in this kernel"
  exit 1
}
ulimit -l unlimited || true
$ip link set lo up
# Both ends of a cable are in one network namespace: an address of ours is heard from outside, and each interface answers for itself.
for what in all default; do
  cd "/proc/sys/net/ipv4/conf/$what"
  echo 1 > accept_local
  echo 0 > rp_filter
  echo 1 > arp_ignore
  echo 2 > arp_announce
  echo 1 > promote_secondaries
done
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad
cd /
if [ "$family" != 4 ]; then
  $ip -6 rule add pref 20 lookup local
  $ip -6 rule del pref 0
fi

cable() { # END SWITCH_END RAIL: a cable with one end in the rail's switch
  $ip link add "$1" mtu "$mtu" type veth peer name "$2" mtu "$mtu"
  $ip link set "$2" master "br$3" up
  $ip link set "$1" up
}
mtu="${GUEST_MTU:-1500}"

switch() { # RAIL
  $ip link add "br$1" mtu "$mtu" type bridge forward_delay 0 stp_state 0 mcast_snooping 0
  $ip link set "br$1" up
}

address() { # INTERFACE RAIL HOST
  addresses=
  if [ "$family" != 6 ]; then
    $ip addr add "10.7.$2.$3/24" dev "$1"
    addresses="\"10.7.$2.$3/24\""
  fi
  if [ "$family" != 4 ]; then
    $ip addr add "fd07:0:0:$2::$3/64" dev "$1" nodad
    # Both ends are ours, and IPv6 prefers to deliver what is for us itself: what is to leave by this interface has to.
    table=$((1000 + 10 * $2 + $3))
    $ip -6 route add "fd07:0:0:$2::/64" dev "$1" table "$table"
    $ip -6 rule add pref 10 oif "$1" lookup "$table"
    addresses="${addresses:+$addresses, }\"fd07:0:0:$2::$3/64\""
  fi
}

entry() { # HOST RAIL DEVICE INTERFACE MORE
  devices="${devices:+$devices,
}  \"$1/soft$2\": {\"device\": \"$3\", \"netdev\": \"$4\", $5\"addresses\": [$addresses]}"
}

devices=
rail=0
if [ "$shape" = pair ]; then
  modprobe virtio_pci
  modprobe virtio_net
  # By their MAC addresses: 52:54:00:07:HOST:RAIL, ff for "control".
  [ "$GUEST_HOST" = a ] && number=1 || number=2
  for what in /sys/class/net/*; do
    read -r mac < "$what/address"
    case "$mac" in
      52:54:00:07:0$number:ff) name=control ;;
      52:54:00:07:0$number:*) name="n$((2 * ${mac##*:} + number - 1))" ;;
      *) continue ;;
    esac
    $ip link set "${what##*/}" name "$name"
    $ip link set "$name" mtu "$mtu" up
  done
  $ip addr add "10.8.0.$number/24" dev control
  while [ "$rail" -lt "$rails" ]; do
    mine="$((2 * rail + number - 1))"
    address "n$mine" "$rail" "$number"
    entry "$GUEST_HOST" "$rail" "rxe$mine" "n$mine" ""
    /sbin/rdma link add "rxe$mine" type rxe netdev "n$mine"
    rail=$((rail + 1))
  done
fi
while [ "$shape" != none ] && [ "$shape" != pair ] && [ "$rail" -lt "$rails" ]; do
  a=$((2 * rail))
  b=$((a + 1))
  near="n$a"
  more_a="\"cable\": \"sw$a\", "
  more_b="\"cable\": \"sw$b\", "
  case "$shape" in
    veth)
      $ip link add "n$a" mtu "$mtu" type veth peer name "n$b" mtu "$mtu"
      $ip link set "n$a" up
      more_a=
      more_b=
      ;;
    bridge)
      switch "$rail"
      cable "n$a" "sw$a" "$rail"
      cable "n$b" "sw$b" "$rail"
      ;;
    bond)
      [ "$rails" -eq 1 ] || {
        echo "guest: the shape bond has one device per host"
        exit 1
      }
      switch 0
      cable m0 sw0 0
      cable n1 sw1 0
      cable m1 sw2 0
      near=bond0
      modprobe bonding max_bonds=0
      $ip link add bond0 type bond mode active-backup miimon 10
      for member in m0 m1; do
        $ip link set "$member" down
        $ip link set "$member" master bond0
      done
      $ip link set bond0 mtu "$mtu"
      more_a='"members": [{"netdev": "m0", "cable": "sw0"}, {"netdev": "m1", "cable": "sw2"}], '
      ;;
    *)
      echo "guest: there is no shape $shape: veth, bridge, bond, pair, none"
      exit 1
      ;;
  esac
  $ip link set "$near" up
  $ip link set "n$b" up
  for what in "$near" "n$b"; do
    echo 1 > "/proc/sys/net/ipv4/conf/$what/accept_local"
    echo 0 > "/proc/sys/net/ipv4/conf/$what/rp_filter"
  done
  address "$near" "$rail" 1
  entry a "$rail" "rxe$a" "$near" "$more_a"
  address "n$b" "$rail" 2
  entry b "$rail" "rxe$b" "n$b" "$more_b"
  /sbin/rdma link add "rxe$a" type rxe netdev "$near"
  /sbin/rdma link add "rxe$b" type rxe netdev "n$b"
  rail=$((rail + 1))
done
printf '{"devices": {\n%s\n}}\n' "$devices" > /run/devices.json

meet() { # INTERFACE ADDRESS: the ping itself has no answer, its source being the same as its destination
  ping -6 -q -c 1 -W 1 -I "$1" "$2" > /dev/null || true
  $ip -6 neigh show to "$2" dev "$1" | grep -q lladdr
}

# An RTR towards a neighbour that is not known yet takes a second (the answer comes before anybody waits for it): known ones are
# the rule in practice. A test that wants that second flushes the neighbours.
rail=0
if [ "$shape" = pair ]; then
  peer=$((3 - number))
  while [ "$rail" -lt "$rails" ]; do
    mine="n$((2 * rail + number - 1))"
    there="10.7.$rail.$peer"
    [ "$family" != 6 ] || there="fd07:0:0:$rail::$peer"
    tries=0
    until ping -q -c 1 -W 1 -I "$mine" "$there" > /dev/null; do # the other guest may take longer to get here
      tries=$((tries + 1))
      [ "$tries" -lt 60 ] || {
        echo "guest: $there does not answer"
        exit 1
      }
    done
    rail=$((rail + 1))
  done
fi
while [ "$shape" != none ] && [ "$shape" != pair ] && [ "$rail" -lt "$rails" ]; do
  near="n$((2 * rail))"
  [ "$shape" != bond ] || near=bond0
  far="n$((2 * rail + 1))"
  if [ "$family" != 6 ]; then
    ping -q -c 1 -W 5 -I "$near" "10.7.$rail.2" > /dev/null
    ping -q -c 1 -W 5 -I "$far" "10.7.$rail.1" > /dev/null
  else
    meet "$near" "fd07:0:0:$rail::2"
    meet "$far" "fd07:0:0:$rail::1"
  fi
  rail=$((rail + 1))
done
