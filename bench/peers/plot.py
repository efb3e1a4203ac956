"""plot.png: nanoseconds per sample over the length, both axes logarithmic; forward and training, one thread."""
import matplotlib

import jobs

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402

PANELS = (("forward", "convolution forward"), ("training", "convolution forward and backward"))
STYLES = {"fft": ("o", "-"), "chunked": ("s", "-")}
COLOURS = {"dplr": "tab:blue", "diagonal": "tab:green", "torch.fft": "tab:red", "scipy.fft": "tab:orange",
           "FFTW r2c row by row": "tab:purple"}


def lines(rows, work):
    """label -> how it is drawn, and sorted (length, ns). A peer's cost does not depend on our mode: the DPLR rows' is drawn."""
    found = {}
    for row in rows:
        if row["work"] != work or row["threads"] != "1" or not row["ours_ns_per_sample"] or row["peer"] in jobs.ITSELF:
            continue
        length = int(row["length"])
        label = f"ours, {row['mode']}, {row['algorithm']}"
        style = (COLOURS[row["mode"]],) + STYLES[row["algorithm"]]
        found.setdefault(label, (style, {}))[1][length] = float(row["ours_ns_per_sample"])
        if row["peer_ns_per_sample"] and row["mode"] == "dplr":
            style = (COLOURS.get(row["peer"], "tab:grey"), "x", "--")
            found.setdefault(row["peer"], (style, {}))[1][length] = float(row["peer_ns_per_sample"])
    return {label: (style, sorted(points.items())) for label, (style, points) in found.items()}


def draw(rows, path):
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(12, 5), sharey=True, constrained_layout=True)
    for axes, (work, title) in zip(panels, PANELS):
        for label, ((colour, marker, dash), points) in lines(rows, work).items():
            axes.plot(*zip(*points), color=colour, marker=marker, linestyle=dash, label=label)
        axes.set(xscale="log", yscale="log", title=title + ", one thread", xlabel="length L", ylabel="ns per (b,h,l)")
        axes.set_xscale("log", base=2)
        axes.grid(True, which="both", alpha=0.25)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
