"""The published S4 module, where the user has it: `path` is its s4.py, or a folder that holds it as s4.py or
models/s4/s4.py (version 4 of its code). Given the parameters of our layer, so that both compute the same."""
import importlib.util
import pathlib
import sys

import torch


def load(path):
    root = pathlib.Path(path)
    for file in (root, root / "s4.py", root / "models" / "s4" / "s4.py"):
        if file.is_file():
            sys.path.insert(0, str(root if root.is_dir() else file.parent))
            spec = importlib.util.spec_from_file_location("published_s4", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise FileNotFoundError(f"no s4.py in {path}")


def layer(module, mode, parameters, length, l_kernel):
    """Its convolution layer without activation; .kernel is the part that makes K. l_kernel: what C belongs to, 0 = plain."""
    _, d_model, modes, _ = parameters["C"].shape
    made = module.FFTConv(
        d_model, l_max=length, activation=None, mode="diag" if mode == "diagonal" else "dplr", d_state=2 * modes,
        init="diag-lin" if mode == "diagonal" else "legs", backend="naive", verbose=False)
    with torch.no_grad():
        made.D.copy_(torch.tensor(parameters["D"]))
        put(made.kernel, parameters, l_kernel)
    return made


def put(kernel, parameters, l_kernel):
    with torch.no_grad():
        for ours, theirs in (("INV_DT", "inv_dt"), ("A_REAL", "A_real"), ("A_IMAG", "A_imag"), ("B", "B"), ("P", "P"),
                             ("C", "C")):
            if parameters[ours] is not None:
                getattr(kernel, theirs).copy_(torch.tensor(parameters[ours]))
        if hasattr(kernel, "l_kernel"):
            kernel.l_kernel.fill_(l_kernel)
