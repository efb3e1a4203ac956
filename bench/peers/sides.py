"""One side of a comparison: what is called, and what it computed. Sides of one job get the same numbers."""
import dataclasses
import typing

import numpy


@dataclasses.dataclass
class Side:
    name: str
    call: typing.Callable                       # may return the nanoseconds it took by a clock of its own
    result: typing.Callable = lambda: []        # arrays, in the same order on every side of a job
    prepare: typing.Callable = lambda: None     # before each call, not timed
    close: typing.Callable = lambda: None
    planned_bytes: int = 0                      # ours: memory of the plan


def inputs(job):
    """u, dy (B,H,L) in single precision."""
    random = numpy.random.default_rng(7)
    pair = [random.random((job.batch, job.d_model, job.length), numpy.float32) for _ in range(2)]
    for array in pair:
        array -= 0.5
    return pair


def largest_difference(ours, theirs):
    """Over the largest value, of all arrays; None where one side shows nothing."""
    pairs = list(zip(ours, theirs))
    return max((float(abs(a - b).max() / abs(a).max()) for a, b in pairs), default=None)
