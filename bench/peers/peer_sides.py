"""Their sides, by kind of work. Each maker gets (job, what) with what.k, what.parameters, what.tools, and makes a Side; it
imports what it needs, and what cannot be imported or is too large for this machine becomes a note."""
import subprocess

from sides import Side, inputs


class NotHere(Exception):
    """This peer is not to be had for this job, and why."""


# ---- convolution with a kernel that is there: its spectrum is made before, on every side -----------------------------

def torch_forward(job, what):
    import torch
    from naive_torch import convolve
    torch.set_num_threads(job.threads)
    u, skip = torch.tensor(inputs(job)[0]), torch.tensor(what.parameters["D"].T, dtype=torch.float32)
    spectrum, kept = torch.fft.rfft(torch.tensor(what.k), n=2 * job.length), {}

    def call():
        with torch.no_grad():
            kept["y"] = convolve(u, spectrum, skip)
    return Side("torch.fft", call, lambda: [kept["y"].numpy()])


def scipy_forward(job, what):
    import scipy.fft
    u, n = inputs(job)[0], 2 * job.length
    skip = what.parameters["D"].T.astype(u.dtype)
    spectrum, kept = scipy.fft.rfft(what.k, n=n), {}

    def call():
        product = scipy.fft.rfft(u, n=n, workers=job.threads)
        product *= spectrum
        y = scipy.fft.irfft(product, n=n, workers=job.threads)[..., :job.length]
        y += skip * u
        kept["y"] = y
    return Side("scipy.fft", call, lambda: [kept["y"]])


def fftw_forward(job, what):
    if not what.tools.fftw:
        raise NotHere("fftw_row was not built")
    process = subprocess.Popen([what.tools.fftw, str(job.batch * job.d_model), str(job.length), str(job.threads)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call():
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    def close():
        process.stdin.close()
        process.wait()
        process.stdout.close()
    return Side("FFTW r2c row by row", call, close=close)


def torch_training(job, what):
    """Gradients of u, K and D by autograd; those of the parameters behind K are not in it."""
    import torch
    from naive_torch import convolve
    torch.set_num_threads(job.threads)
    u, dy = (torch.tensor(x) for x in inputs(job))
    skip = torch.tensor(what.parameters["D"].T, dtype=torch.float32, requires_grad=True)
    k = torch.tensor(what.k, requires_grad=True)
    u.requires_grad_()
    kept = {}

    def call():
        u.grad = k.grad = skip.grad = None
        kept["y"] = convolve(u, torch.fft.rfft(k, n=2 * job.length), skip)
        kept["y"].backward(dy)
    return Side("torch.fft", call, lambda: [kept["y"].detach().numpy(), u.grad.numpy()])


# ---- the naive path, and the published module -----------------------------------------------------------------------

def check_memory(job, bytes_of_sums):
    """The naive sums live in memory as a whole, several times."""
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    if bytes_of_sums > free // 2:
        raise NotHere(f"needs about {bytes_of_sums >> 20} MiB, of which there are {free >> 20}")


def check_naive_memory(job, gradients):
    per_entry = 120 if job.mode == "dplr" else 70 # bytes per (h, stored mode, l), as measured; twice with gradients
    check_memory(job, job.d_model * job.d_state // 2 * job.length * per_entry * (2 if gradients else 1))


def naive_layer(job, what):
    import torch
    from naive_torch import Layer
    torch.set_num_threads(job.threads)
    return torch, Layer(job.mode, what.parameters)


def published_layer(job, what, l_kernel):
    if not what.tools.s4:
        return None
    import torch
    import published
    torch.set_num_threads(job.threads)
    return torch, published.layer(published.load(what.tools.s4), job.mode, what.parameters, max(job.length, 1), l_kernel)


def needs_published(made):
    if made is None:
        raise NotHere("")
    return made


def naive_kernel(job, what):
    check_naive_memory(job, gradients=False)
    torch, layer = naive_layer(job, what)
    return without_gradients(torch, NAIVE, lambda: layer.kernel(job.length))


def published_kernel(job, what):
    torch, layer = needs_published(published_layer(job, what, job.length))
    check_naive_memory(job, gradients=False)
    return without_gradients(torch, PUBLISHED, lambda: layer.kernel(L=job.length)[0][0])


def naive_setup(job, what):
    torch, layer = naive_layer(job, what)
    return without_gradients(torch, NAIVE, lambda: torch.view_as_real(layer.set_up(job.length)))


def published_setup(job, what):
    import published
    torch, layer = needs_published(published_layer(job, what, 0))
    side = without_gradients(torch, PUBLISHED, lambda: layer.kernel._setup_C(job.length))
    side.prepare = lambda: published.put(layer.kernel, what.parameters, 0)
    side.result = lambda: [layer.kernel.C.detach()[0].numpy()]
    return side


def naive_step(job, what):
    torch, layer = naive_layer(job, what)
    step, modes = layer.stepper()
    return stepping(torch, NAIVE, job, step, torch.zeros(job.batch, job.d_model, modes, dtype=torch.complex64))


def published_step(job, what):
    torch, layer = needs_published(published_layer(job, what, 0))
    with torch.no_grad():
        layer.setup_step()
    return stepping(torch, PUBLISHED, job, layer.step, layer.default_state(job.batch))


def naive_whole_layer(job, what):
    check_naive_memory(job, gradients=True)
    torch, layer = naive_layer(job, what)
    return forward_and_backward(torch, NAIVE, job, layer, layer)


def published_whole_layer(job, what):
    torch, layer = needs_published(published_layer(job, what, job.length))
    check_naive_memory(job, gradients=True)
    return forward_and_backward(torch, PUBLISHED, job, layer, lambda u: layer(u)[0])


def without_gradients(torch, name, function):
    kept = {}

    def call():
        with torch.no_grad():
            kept["value"] = function()
    return Side(name, call, lambda: [kept["value"].numpy()])


def stepping(torch, name, job, step, zero):
    u = torch.tensor(inputs(job)[0][..., 0].copy())
    kept = {"state": zero}

    def call():
        with torch.no_grad():
            kept["y"], kept["state"] = step(u, kept["state"])

    def first():
        with torch.no_grad():
            return [step(u, zero)[0].numpy()]
    return Side(name, call, first)


def forward_and_backward(torch, name, job, module, function):
    u, dy = (torch.tensor(x) for x in inputs(job))
    u.requires_grad_()
    kept = {}

    def call():
        u.grad = None
        module.zero_grad(set_to_none=True)
        kept["y"] = function(u)
        kept["y"].backward(dy)
    return Side(name, call, lambda: [kept["y"].detach().numpy(), u.grad.numpy()])


NAIVE, PUBLISHED = "naive torch", "published S4"
MAKERS = {
    "forward": (("torch.fft", torch_forward), ("scipy.fft", scipy_forward), ("FFTW r2c row by row", fftw_forward)),
    "training": (("torch.fft", torch_training),),
    "kernel": ((NAIVE, naive_kernel), (PUBLISHED, published_kernel)),
    "setup": ((NAIVE, naive_setup), (PUBLISHED, published_setup)),
    "step": ((NAIVE, naive_step), (PUBLISHED, published_step)),
    "layer": ((NAIVE, naive_whole_layer), (PUBLISHED, published_whole_layer)),
    "memory": ((NAIVE, naive_whole_layer), (PUBLISHED, published_whole_layer)),
}
