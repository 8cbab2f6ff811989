#!/usr/bin/env python3
"""A link that loses and delays packets, where the kernel has no netem: a relay between two TUN devices.

    tools/lossy_link.py NAME0 NAME1 LOSS DELAY_MS

Makes both devices in its own network namespace, says "ready", and carries packets between them for as long as it lives:
each is lost by the probability LOSS, the others arrive DELAY_MS later, in order. The devices may be moved to other
namespaces. Root is needed.
"""
import collections
import fcntl
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
LONGEST = 65536


def tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def packets(device):
    """What lies there now; of a device that is down nothing."""
    while True:
        try:
            yield os.read(device, LONGEST)
        except OSError:
            return


def write(device, packet):
    try:
        os.write(device, packet)
    except OSError:  # it is down, or full: the packet is lost
        pass


def main():
    names, loss, delay = sys.argv[1:3], float(sys.argv[3]), float(sys.argv[4]) / 1e3
    ends = [tun(name) for name in names]
    print("ready", flush=True)
    chance, under_way = random.Random(1), collections.deque()  # when, to which end, packet
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else 1.0
        readable, _, _ = select.select(ends, [], [], wait)
        now = time.monotonic()
        for device in readable:
            other = ends[1] if device == ends[0] else ends[0]
            under_way.extend((now + delay, other, packet) for packet in packets(device) if chance.random() >= loss)
        while under_way and under_way[0][0] <= time.monotonic():
            _, other, packet = under_way.popleft()
            write(other, packet)


if __name__ == "__main__":
    main()
