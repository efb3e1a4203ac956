"""libs4 by ctypes: contexts, layers, plans with their workspace. numpy arrays in and out, C-contiguous."""
import ctypes

import numpy

from headers import Headers

PARAMETERS = ("INV_DT", "A_REAL", "A_IMAG", "B", "P", "C", "D")


class Refused(Exception):
    """A call that did not return S4_OK; `status` is the name of what it returned."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def address(array):
    return None if array is None else array.ctypes.data


class Library:
    """The shared library, its headers and one context of `threads` threads."""

    def __init__(self, path, headers, threads):
        self.c = ctypes.CDLL(str(path))
        self.headers = Headers(headers)
        for name in ("s4_version", "s4_build", "s4_last_error", "s4_status_name"):
            getattr(self.c, name).restype = ctypes.c_char_p
        self.c.s4_layer_length.restype = ctypes.c_int64
        for name in ("s4_context_destroy", "s4_layer_destroy", "s4_plan_destroy", "s4_workspace_destroy"):
            getattr(self.c, name).restype = None
            getattr(self.c, name).argtypes = [ctypes.c_void_p]
        self.context = ctypes.c_void_p()
        self.call("s4_context_create", ctypes.byref(self.make("s4_context_options", threads=threads)),
                  ctypes.byref(self.context))

    def make(self, name, **fields):
        return self.headers.make(name, **fields)

    def constant(self, name):
        return self.headers.constants[name]

    def call(self, name, *arguments):
        status = getattr(self.c, name)(*arguments)
        if status:
            raise Refused(self.c.s4_status_name(status).decode(), self.c.s4_last_error().decode())

    def cpu(self):
        info = self.make("s4_place_info")
        self.call("s4_context_place", self.context, self.constant("S4_PLACE_CPU"), ctypes.byref(info))
        return info

    def version(self):
        return self.c.s4_version().decode()

    def close(self):
        self.c.s4_context_destroy(self.context)


class Layer:
    """A fresh layer: legs (DPLR, bilinear) or lin (diagonal, zoh), plain C."""

    def __init__(self, library, mode, d_model, d_state, seed=1):
        self.library, self.pointer = library, ctypes.c_void_p()
        diagonal = mode == "diagonal"
        options = library.make(
            "s4_layer_options", mode=library.constant("S4_MODE_DIAG" if diagonal else "S4_MODE_DPLR"), d_model=d_model,
            d_state=d_state, discretisation=library.constant("S4_ZOH" if diagonal else "S4_BILINEAR"))
        library.call("s4_layer_create", ctypes.byref(options), ctypes.byref(self.pointer))
        init = library.make("s4_init_options", seed=seed,
                            init=library.constant("S4_INIT_DIAG_LIN" if diagonal else "S4_INIT_LEGS"))
        library.call("s4_layer_init", library.context, self.pointer, ctypes.byref(init))

    def parameter(self, name):
        """A view of the layer's own memory, shaped as s4_layer_parameter says."""
        view = self.library.make("s4_parameter_view")
        self.library.call("s4_layer_parameter", self.pointer, self.library.constant("S4_PARAMETER_" + name),
                          ctypes.byref(view))
        if not view.count:
            return None
        memory = (ctypes.c_double * view.count).from_address(view.data)
        return numpy.frombuffer(memory).reshape(tuple(view.shape)[:view.rank])

    def changed(self):
        self.library.call("s4_layer_changed", self.pointer, (1 << len(PARAMETERS)) - 1)

    def setup(self, length):
        self.library.call("s4_layer_setup", self.library.context, self.pointer, ctypes.c_int64(length))

    def put_back(self, c):
        """Plain C again, with nothing left of an earlier set-up."""
        self.parameter("C")[...] = c
        self.library.call("s4_layer_set_length", self.pointer, ctypes.c_int64(0))
        self.changed()

    def close(self):
        self.library.c.s4_layer_destroy(self.pointer)


class Plan:
    """A prepared plan of one layer with its workspace. Raises Refused where the library does not offer it."""

    def __init__(self, library, layer, direction, batch, length, algorithm="fft", threads=1, kernel_length=0):
        self.library, self.layer = library, layer
        options = library.make("s4_layer_options")
        library.call("s4_layer_describe", layer.pointer, ctypes.byref(options))
        problem = library.make(
            "s4_problem", direction=library.constant("S4_DIRECTION_" + direction.upper()), batch=batch, length=length,
            kernel_length=kernel_length, dtype=library.constant("S4_F32"), threads=threads,
            algorithm=library.constant("S4_ALGORITHM_" + algorithm.upper()),
            **{name: getattr(options, name) for name in ("mode", "d_model", "d_state", "rank", "n_ssm", "channels",
                                                         "discretisation")})
        self.plan, self.workspace = ctypes.c_void_p(), ctypes.c_void_p()
        library.call("s4_plan_create", ctypes.byref(problem), ctypes.byref(self.plan))
        try:
            library.call("s4_plan_prepare", self.plan, library.context)
            library.call("s4_workspace_create", self.plan, ctypes.byref(self.workspace))
        except Refused:
            self.close()
            raise
        self.gradients = {}

    def planned_bytes(self):
        info = self.library.make("s4_plan_info")
        self.library.call("s4_plan_describe", self.plan, ctypes.byref(info))
        return info.host_peak

    def _execute(self, name, *arguments):
        self.library.call(name, self.plan, self.layer.pointer, self.workspace, *arguments)

    def refresh(self):
        self._execute("s4_plan_refresh")

    def kernel(self, k):
        self._execute("s4_plan_kernel", ctypes.c_void_p(address(k)))

    def forward(self, u, y):
        self._execute("s4_plan_forward", ctypes.byref(self.library.make("s4_forward_io", u=address(u), y=address(y))))

    def backward(self, u, dy, du):
        """du, and the gradients of all parameters into self.gradients."""
        io = self.library.make("s4_backward_io", u=address(u), dy=address(dy), du=address(du))
        for which, name in enumerate(PARAMETERS):
            if name not in self.gradients:
                value = self.layer.parameter(name)
                self.gradients[name] = None if value is None else numpy.zeros_like(value)
            io.gradients.parameter[which] = address(self.gradients[name])
        self._execute("s4_plan_backward", ctypes.byref(io))

    def stepper(self, u, y, state):
        """A function that makes one step: calls are short, so nothing is made in them. It keeps the arrays alive."""
        io = self.library.make("s4_step_io", u=address(u), y=address(y), state=address(state))
        arguments = (self.plan, self.layer.pointer, self.workspace, ctypes.byref(io))
        function = self.library.c.s4_plan_step

        def step():
            if function(*arguments):
                self.library.call("s4_plan_step", *arguments)
        step.arrays = u, y, state
        return step

    def close(self):
        self.library.c.s4_workspace_destroy(self.workspace)
        self.library.c.s4_plan_destroy(self.plan)
