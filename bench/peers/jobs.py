"""What is compared, most important first: each job is one shape at which all sides run alternating.

Sizes are such that one call of the slower sides takes 0.05 to 1 s. `quick` has the same kinds of rows, tiny.
"""
import dataclasses

ITSELF = ONE_THREAD, SHORT = "itself, one thread", "itself, L=1024"
SHORT_LENGTH = 1024
LENGTHS = (4096, 1024, 16384, 262144, 1048576, 4194304)


@dataclasses.dataclass(frozen=True)
class Job:
    work: str  # forward, training, kernel, setup, step, layer, memory
    mode: str  # dplr, diagonal
    length: int
    threads: int = 1
    batch: int = 1
    d_model: int = 64
    d_state: int = 64

    def key(self):
        return tuple(str(value) for value in dataclasses.astuple(self))

    def text(self):
        return (f"{self.work} {self.mode} B={self.batch} H={self.d_model} N={self.d_state} L={self.length} "
                f"threads={self.threads}")

    def itself(self):
        """What our own sides are compared with in the same turns: with one thread; as many samples in short rows, of more
        channels and the same batch. Name -> job."""
        if self.threads > 1:
            return {ONE_THREAD: dataclasses.replace(self, threads=1)}
        if self.work in ("forward", "training") and self.length > SHORT_LENGTH:
            d_model = self.d_model * self.length // SHORT_LENGTH
            return {SHORT: dataclasses.replace(self, length=SHORT_LENGTH, d_model=d_model)}
        return {}

    def units(self):
        """How many of the things that a time is divided by, and their name."""
        modes = self.d_state // 2
        if self.work == "kernel" and self.mode == "dplr":
            return self.d_model * modes * (self.length // 2 + 1), "ns per (h, stored mode, frequency)"
        if self.work == "kernel":
            return self.d_model * modes * self.length, "ns per (h, stored mode, l)"
        if self.work == "setup":
            return self.d_model, "ns per h"
        if self.work == "step":
            return self.batch * self.d_model, "ns per (b,h)"
        samples = self.batch * self.d_model * self.length
        return samples, "bytes per (b,h,l)" if self.work == "memory" else "ns per (b,h,l)"


def sequence(work, mode, length, threads, samples, quick):
    """A job of about `samples` samples; two channels at least, so that two threads have work."""
    d_model = max(2, min(4 if quick else 64, samples // length))
    batch = max(1, samples // (d_model * length))
    return Job(work, mode, length, threads, batch, d_model, 16 if quick else 64)


def rows(quick, threads):
    """All jobs in order. `threads`: the most there are to be used, 1 or 2."""
    modes = ("dplr", "diagonal")
    small = {"d_state": 16} if quick else {}
    lengths = (1024, 256) if quick else LENGTHS
    forward, training = (1 << 13, 1 << 13) if quick else (1 << 22, 1 << 21)

    def convolutions(work, lengths, count):
        samples = forward if work == "forward" else training
        return [sequence(work, mode, length, count, samples, quick) for length in lengths for mode in modes]

    def layers(work, shapes, count=1):
        return [Job(work, mode, length, count, batch, d_model, **small)
                for length, batch, d_model in shapes for mode in modes]

    jobs = convolutions("forward", lengths[:2], 1) + convolutions("training", lengths[:1], 1)
    jobs += layers("layer", [(256, 2, 4)] if quick else [(4096, 4, 64)])
    jobs += layers("kernel", [(256, 1, 4)] if quick else [(1024, 1, 64)])
    jobs += [Job("setup", "dplr", 256 if quick else 1024, 1, 1, 4 if quick else 64, **small)]
    jobs += layers("step", [(1, 2, 8)] if quick else [(1, 32, 256)])
    jobs += convolutions("forward", lengths[2:4], 1)
    if threads > 1:
        jobs += convolutions("forward", lengths[:1], 2) + convolutions("training", lengths[:1], 2)
    jobs += layers("memory", [(256, 1, 4)] if quick else [(4096, 1, 64), (16384, 1, 16)])
    jobs += convolutions("forward", lengths[4:], 1) + convolutions("training", lengths[1:], 1)
    if not quick:
        jobs += layers("layer", [(1024, 4, 64), (16384, 1, 16)])
        jobs += layers("kernel", [(16384, 1, 16)]) + [Job("kernel", "diagonal", 65536, 1, 1, 8)]
        jobs += [Job("setup", "dplr", 16384)]
    if threads > 1 and not quick:
        jobs += layers("layer", [(4096, 4, 64)], 2)
        jobs += convolutions("forward", lengths[1:], 2) + convolutions("training", lengths[1:], 2)
        jobs += layers("kernel", [(1024, 1, 64), (16384, 1, 16)], 2) + [Job("setup", "dplr", 1024, 2)]
        jobs += layers("step", [(1, 32, 256)], 2)
    return jobs
