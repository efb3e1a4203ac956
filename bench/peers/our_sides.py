"""Our sides: one function a kind of work, each from (library, job, algorithm)."""
import numpy

from binding import PARAMETERS, Layer, Plan
from sides import Side, inputs

ALGORITHMS = {"forward": ("fft", "chunked"), "training": ("fft", "chunked"), "layer": ("fft", "chunked"),
              "memory": ("fft", "chunked")}


def algorithms(work):
    return ALGORITHMS.get(work, ("-",))


def layer_of(library, job, algorithm):
    """DPLR layers train C~ by FFT, and plain C in chunks."""
    layer = Layer(library, job.mode, job.d_model, job.d_state)
    if job.mode == "dplr" and algorithm != "chunked":
        layer.setup(job.length)
    return layer


def forward(library, job, algorithm):
    layer = layer_of(library, job, algorithm)
    plan = Plan(library, layer, "forward", job.batch, job.length, algorithm, job.threads)
    plan.refresh()
    u, _ = inputs(job)
    y = numpy.zeros_like(u)
    return Side(algorithm, lambda: plan.forward(u, y), lambda: [y], close=closer(plan, layer))


def training(library, job, algorithm, refreshed_each_time=False):
    layer = layer_of(library, job, algorithm)
    plan = Plan(library, layer, "training", job.batch, job.length, algorithm, job.threads)
    plan.refresh()
    u, dy = inputs(job)
    y, du = numpy.zeros_like(u), numpy.zeros_like(u)

    def call():
        if refreshed_each_time:
            layer.changed()
            plan.refresh()
        plan.forward(u, y)
        plan.backward(u, dy, du)
    return Side(algorithm, call, lambda: [y, du], close=closer(plan, layer), planned_bytes=plan.planned_bytes())


def whole_layer(library, job, algorithm):
    return training(library, job, algorithm, refreshed_each_time=True)


def kernel(library, job, algorithm):
    layer = layer_of(library, job, algorithm)
    plan = Plan(library, layer, "kernel", 1, 0, threads=job.threads, kernel_length=job.length)
    k = numpy.zeros((job.d_model, job.length), numpy.float32)

    def call():
        plan.refresh()
        plan.kernel(k)
    return Side(algorithm, call, lambda: [k], prepare=layer.changed, close=closer(plan, layer))


def setup(library, job, algorithm):
    layer = Layer(library, job.mode, job.d_model, job.d_state)
    plain = layer.parameter("C").copy()
    return Side(algorithm, lambda: layer.setup(job.length), lambda: [layer.parameter("C")[0].copy()],
                prepare=lambda: layer.put_back(plain), close=layer.close)


def aligned_zeros(shape):
    """At the begin of a cache line, as torch's tensors are."""
    count = int(numpy.prod(shape))
    room = numpy.zeros(count + 8)
    first = -room.ctypes.data % 64 // 8
    return room[first:first + count].reshape(shape)


def step(library, job, algorithm):
    layer = Layer(library, job.mode, job.d_model, job.d_state)
    plan = Plan(library, layer, "step", job.batch, 1, threads=job.threads)
    plan.refresh()
    u, _ = inputs(job)
    y = numpy.zeros_like(u)
    state = aligned_zeros((job.batch, job.d_model, job.d_state // 2, 2))
    call = plan.stepper(u, y, state)

    def first():
        """From a zero state, so that both sides can be compared however often they were called."""
        state[...] = 0
        call()
        return [y[..., 0].copy()]
    return Side(algorithm, call, first, close=closer(plan, layer))


def closer(plan, layer):
    def close():
        plan.close()
        layer.close()
    return close


MAKERS = {"forward": forward, "training": training, "kernel": kernel, "setup": setup, "step": step,
          "layer": whole_layer, "memory": whole_layer}


def parameters(library, job):
    """The raw parameters that peers start from: C~ where the work by FFT starts from it, else plain C."""
    plain = job.work in ("setup", "step")
    layer = Layer(library, job.mode, job.d_model, job.d_state) if plain else layer_of(library, job, "fft")
    values = {name: layer.parameter(name) for name in PARAMETERS}
    values = {name: None if value is None else value.copy() for name, value in values.items()}
    layer.close()
    return values


def kernel_of(library, job):
    """K (H,L) for peers whose convolution starts from a kernel that is there."""
    side = kernel(library, job, "-")
    side.call()
    k = side.result()[0]
    side.close()
    return k
