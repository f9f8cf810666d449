"""The loop of a peer that has cases; the protocol is that of contestant.h."""
import os
import sys
import time
import traceback

import torch

LONGEST = 300  # reason that is told, in characters
DEVICE = os.environ.get("WEFT_PEERS_DEVICE", "cpu")  # PyTorch's name of what the peers run on


class Absent(Exception):
    """A case that the peer does not have, and why."""


def reason_of(error):
    """In one line."""
    return " ".join((str(error) or type(error).__name__).split())[:LONGEST]


def made_on_device(make_case, name):
    """Only what is made here goes to the device by itself: a default device costs each call some time."""
    if DEVICE == "cpu":
        return make_case(name)
    with torch.device(DEVICE):
        return make_case(name)


def wait():
    """A device's work ends when it is waited for."""
    if DEVICE != "cpu":
        torch.accelerator.synchronize()


def serve(make_case, threads):
    """make_case(name) gives what is measured, or None where the peer has no such case.

    A case that the peer fails to get ready is none that it has: it says why, and the suite goes on.
    """
    torch.set_num_threads(threads)
    work = None
    print("ready 0", flush=True)
    for line in sys.stdin:
        word, argument = line.split()
        start = time.perf_counter()
        if word == "case":
            work, reason = None, ""  # the case before goes first
            try:
                work = made_on_device(make_case, argument)
                for _ in range(3 if work else 0):
                    work()
                    wait()
            except Exception as error:
                work, reason = None, reason_of(error)
                if not isinstance(error, Absent):
                    print(f"{' '.join(sys.argv)} has no {argument}:", file=sys.stderr)
                    traceback.print_exc()
            if work is None:
                print("none", reason, flush=True)
                continue
            print("ready", time.perf_counter() - start, flush=True)
        else:
            for _ in range(int(argument)):
                work()
                wait()
            print(time.perf_counter() - start, flush=True)
