"""The process that measures: one JSON request a line on standard input, one JSON answer a line on standard output.

A process of its own, so that a job that takes too long, runs out of memory or crashes costs its row only. Sides of a job
take turns; a turn is as many calls as take `turn_s`. For memory a process makes one side only: what its resident memory
grows by, after a tiny problem has made it load everything.
"""
import argparse
import ctypes
import dataclasses
import gc
import importlib
import json
import os
import platform
import sys
import time
import types

import our_sides
import peer_sides
from binding import Library, Refused
from jobs import Job
from sides import largest_difference

SETTLE_S, SETTLE_THREADS_S = 0.003, 0.1 # until the other side's threads are asleep: a pool of several spins for a while


def make_ours(library, job):
    sides, notes = [], {}
    for algorithm in our_sides.algorithms(job.work):
        try:
            sides.append(our_sides.MAKERS[job.work](library, job, algorithm))
        except Refused as refused:
            notes[algorithm] = f"{refused.status}: {refused}"
    return sides, notes


def make_peers(library, job, tools):
    what = types.SimpleNamespace(parameters=our_sides.parameters(library, job), tools=tools, k=None)
    if job.work in ("forward", "training"):
        what.k = our_sides.kernel_of(library, job)
    sides, notes = [], {}
    for name, maker in peer_sides.MAKERS[job.work]:
        try:
            sides.append(maker(job, what))
        except peer_sides.NotHere as reason:
            if str(reason):
                notes[name] = str(reason)
        except Exception as failure: # a peer's own failure is a row's note, whatever it is
            notes[name] = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return sides, notes


def timed(side):
    side.prepare()
    began = time.perf_counter_ns()
    own = side.call()
    return own if own is not None else time.perf_counter_ns() - began


def take_turns(sides, request):
    """Nanoseconds of one call, for every side and repetition. At least one repetition, however slow."""
    end, turn_ns = time.monotonic() + request["limit_s"], request["turn_s"] * 1e9
    settle_s = SETTLE_S if request["job"]["threads"] == 1 else SETTLE_THREADS_S

    def calls_of_a_turn(side):
        """The first call warms up; where it is short a second one tells more."""
        ns = timed(side)
        return max(1, int(turn_ns / max(1, ns if ns > 4 * turn_ns else timed(side))))
    calls = [calls_of_a_turn(side) for side in sides]
    times = [[] for _ in sides]
    for _ in range(request["repeats"]):
        for side, count, measured in zip(sides, calls, times):
            time.sleep(settle_s)
            measured.append(sum(timed(side) for _ in range(count)) / count)
        if time.monotonic() > end:
            break
    return times


def compare(library, job, tools, request):
    ours, our_notes = make_ours(library, job)
    peers, peer_notes = make_peers(library, job, tools) if ours else ([], {})
    times = take_turns(ours + peers, request)
    results = [side.result() for side in ours + peers]
    answer = {"ours": {}, "peers": {}, "differences": [], "our_notes": our_notes, "peer_notes": peer_notes}
    for side, measured in zip(ours + peers, times):
        answer["ours" if side in ours else "peers"][side.name] = measured
    for i, side in enumerate(ours):
        for j, peer in enumerate(peers):
            answer["differences"].append((side.name, peer.name, largest_difference(results[i], results[len(ours) + j])))
    for side in ours + peers:
        side.close()
    return answer


def compare_with_itself(options, job, request):
    """Our sides at what the job compares us with ourselves. In a process without peers, whose threads may spin."""
    libraries = {name: Library(options.library, options.headers, other.threads) for name, other in job.itself().items()}
    library = Library(options.library, options.headers, job.threads)
    answer = {"itself": {}}
    for algorithm in our_sides.algorithms(job.work):
        try:
            ours = our_sides.MAKERS[job.work](library, job, algorithm)
        except Refused:
            continue
        for name, other in job.itself().items():
            theirs = our_sides.MAKERS[other.work](libraries[name], other, algorithm)
            answer["itself"].setdefault(algorithm, {})[name] = take_turns([ours, theirs], request)
            theirs.close()
        ours.close()
    for one in [library, *libraries.values()]:
        one.close()
    return answer


# ---- memory ---------------------------------------------------------------------------------------------------------

def status_bytes(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def give_back_free_memory():
    """To the system, so that what is free in the process cannot hide growth."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def make_one(library, job, tools, name):
    if name in our_sides.algorithms(job.work):
        return our_sides.MAKERS[job.work](library, job, name)
    what = types.SimpleNamespace(parameters=our_sides.parameters(library, job), tools=tools, k=None)
    return dict(peer_sides.MAKERS[job.work])[name](job, what)


def grown(library, job, tools, name):
    """Bytes of one refresh, forward and backward beyond u, y and their gradients."""
    try:
        small = make_one(library, dataclasses.replace(job, length=16), tools, name)
        small.call()
        small.close()
        del small
        give_back_free_memory()
        with open("/proc/self/clear_refs", "w") as file: # the high-water mark starts again
            file.write("5")
        before = status_bytes("VmRSS")
        side = make_one(library, job, tools, name)
        side.call()
    except Refused as refused:
        return {"note": f"{refused.status}: {refused}"}
    except peer_sides.NotHere as reason:
        return {"note": str(reason)}
    tensors = 4 * 4 * job.batch * job.d_model * job.length # u, y, du, dy
    return {"bytes": max(0, status_bytes("VmHWM") - before - tensors), "planned": side.planned_bytes}


# ---- requests -------------------------------------------------------------------------------------------------------

def versions(library):
    found = {"python": platform.python_version(), "libs4": library.version(), "level": library.cpu().level.decode(),
             "libraries": library.cpu().libraries.decode(), "build": library.c.s4_build().decode()}
    for name in ("torch", "numpy", "scipy"):
        try:
            found[name] = importlib.import_module(name).__version__
        except Exception:
            found[name] = ""
    return found


def answer_of(request, options, tools):
    job = Job(**request["job"]) if "job" in request else None
    if request.get("itself"):
        return compare_with_itself(options, job, request)
    library = Library(options.library, options.headers, job.threads if job else 1)
    try:
        if not job:
            return versions(library)
        if "side" in request:
            return grown(library, job, tools, request["side"])
        return compare(library, job, tools, request)
    finally:
        library.close()


def main():
    parser = argparse.ArgumentParser()
    for name in ("--library", "--headers"):
        parser.add_argument(name, required=True)
    parser.add_argument("--fftw")
    parser.add_argument("--s4")
    options = parser.parse_args()
    tools = types.SimpleNamespace(fftw=options.fftw, s4=options.s4)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1) # what libraries print is no answer
    for line in sys.stdin:
        try:
            answer = answer_of(json.loads(line), options, tools)
        except Exception as failure:
            answer = {"failed": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
