#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forks, stopped peers and ends of processes on the drop-in library, through pyverbs.

lifecycle.py fork | stop
"""
import os
import signal
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

BYTES = 1 << 20
GID_INDEX = 1
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


class End:
    """One queue pair with a buffer."""

    def __init__(self):
        self.ctx = Context(name="soft0")
        self.pd = PD(self.ctx)
        self.mr = MR(self.pd, BYTES, ACCESS)
        self.cq = CQ(self.ctx, 100)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq,
                                         cap=QPCap(max_send_wr=64, max_recv_wr=1)))

    def where(self):
        return (self.qp.qp_num, self.mr.rkey, self.mr.buf, self.ctx.query_gid(1, GID_INDEX).gid)

    def connect(self, there):
        route = GlobalRoute(dgid=GID(there[3]), sgid_index=GID_INDEX)
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = ACCESS
        attributes.dest_qp_num = there[0]
        attributes.path_mtu = e.IBV_MTU_1024
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.timeout = 14
        attributes.retry_cnt = attributes.rnr_retry = 7
        attributes.min_rnr_timer = 12
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self.qp.to_rts(attributes)

    def write(self, there, length=BYTES):
        wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(self.mr.buf, length, self.mr.lkey)])
        wr.set_wr_rdma(there[1], there[2])
        self.qp.post_send(wr)

    def complete(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            count, completions = self.cq.poll(1)
            if count:
                return completions[0].status
        raise TimeoutError("no completion within 10 s")


def send(pipe, what):
    os.write(pipe, (repr(what) + "\n").encode())


def receive(pipe):
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(pipe, 1)
        if not part:
            raise EOFError("the other process has ended")
        line += part
    return eval(line)  # of our own child


def in_child(work):
    """Forks. (pid, pipe from the child, pipe to the child)"""
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work(from_parent, to_parent)
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(to_parent)
    os.close(from_parent)
    return pid, from_child, to_child


def talk(child_pipe, parent_pipe, mine):
    """The child's half of a connection, up to one write of its own."""
    send(parent_pipe, mine.where())
    there = receive(child_pipe)
    mine.connect(there)
    receive(child_pipe)
    mine.write(there)
    assert mine.complete() == e.IBV_WC_SUCCESS
    send(parent_pipe, "written")


def exchange(from_child, to_child, mine, text):
    there = receive(from_child)
    mine.mr.write("\0" * len(text), len(text))
    send(to_child, mine.where())
    mine.connect(there)
    send(to_child, "go")
    assert receive(from_child) == "written"
    got = mine.mr.read(len(text), 0)
    assert got == text.encode(), got


def fork_test():
    """A list before the fork, a device that is open during the fork: parent and child each have their own NIC."""
    assert [d.name for d in get_device_list()] == [b"soft0"]

    def child(child_pipe, parent_pipe):
        mine = End()
        mine.mr.write("child one", 9)
        talk(child_pipe, parent_pipe, mine)

    pid, from_child, to_child = in_child(child)
    mine = End()
    exchange(from_child, to_child, mine, "child one")
    assert os.waitpid(pid, 0)[1] == 0

    inherited = End()

    def second(child_pipe, parent_pipe):
        own = End()
        own.mr.write("child two", 9)
        talk(child_pipe, parent_pipe, own)
        inherited.qp.close()  # the parent's: nothing happens to it
        inherited.ctx.close()

    pid, from_child, to_child = in_child(second)
    exchange(from_child, to_child, inherited, "child two")
    assert os.waitpid(pid, 0)[1] == 0

    def third(child_pipe, parent_pipe):
        own = End()
        own.mr.write("child three", 11)
        talk(child_pipe, parent_pipe, own)

    # What the second child closed still works here: its queue pair is reset and used again.
    inherited.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
    pid, from_child, to_child = in_child(third)
    exchange(from_child, to_child, inherited, "child three")
    assert os.waitpid(pid, 0)[1] == 0
    print("fork: done")


def stop_test(trials=10, bound_s=0.2):
    """The initiator is stopped at some moment of its writing; the target takes its objects away all the same."""
    busy = 0
    for trial in range(trials):
        def initiator(child_pipe, parent_pipe):
            mine = End()
            send(parent_pipe, mine.where())
            there = receive(child_pipe)
            mine.connect(there)
            send(parent_pipe, "connected")
            while True:
                try:
                    mine.write(there)
                    mine.complete()
                except PyverbsRDMAError:
                    return

        pid, from_child, to_child = in_child(initiator)
        mine = End()
        there = receive(from_child)
        mine.connect(there)
        send(to_child, mine.where())
        receive(from_child)
        time.sleep(0.002 + 0.0013 * trial)
        os.kill(pid, signal.SIGSTOP)
        for what in (mine.qp, mine.mr):
            begin = time.monotonic()
            try:
                what.close()
            except PyverbsRDMAError as error:
                assert error.error_code == 16, error  # EBUSY: it is inside the memory
                busy += 1
            took = time.monotonic() - begin
            assert took < bound_s, f"{type(what).__name__} was not gone after {took:.3f} s"
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        mine.ctx.close()
    print(f"stop: done, {trials} trials, {busy} times EBUSY")


{"fork": fork_test, "stop": stop_test}[sys.argv[1]]()
