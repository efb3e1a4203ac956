"""table.md: the targets beside what was measured, then every row. Nothing is in it that results.csv has not."""
import os
import platform

import jobs
import results

BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
GROWTH_LENGTH = 1 << 20


def processors():
    return len(os.sched_getaffinity(0))


def machine():
    """Processor and memory, from the system."""
    model, total = platform.machine(), 0
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
        with open("/proc/meminfo") as file:
            total = int(file.readline().split()[1]) >> 20
    except OSError:
        pass
    return f"{model}, {processors()} processors, {total} GiB"


# ---- choosing rows --------------------------------------------------------------------------------------------------

class Measured:
    """results.csv as numbers. A `pick` is the rows of one kind; at each shape our faster algorithm is the one that counts.
    Beside rows of full size those of --quick, with fewer states, do not count."""

    def __init__(self, rows):
        d_state = max((int(row["d_state"]) for row in rows), default=0)
        self.rows = [row for row in rows if row["ours_ns_per_sample"] and int(row["d_state"]) == d_state
                     and row["note"] != results.DIFFERS]

    def pick(self, **wanted):
        """Shape -> our best row there, smallest length first. Rows against ourselves, measured apart, where they are wanted."""
        best = {}
        for row in self.rows:
            if row["peer"] in jobs.ITSELF and "peer" not in wanted:
                continue
            if all(row[name] == str(value) for name, value in wanted.items()):
                shape = (int(row["length"]), int(row["batch"]), int(row["d_model"]), int(row["threads"]))
                if shape not in best or ours(row) < ours(best[shape]):
                    best[shape] = row
        return [best[shape] for shape in sorted(best)]

    def against(self, peer, **wanted):
        return [row for row in self.pick(peer=peer, **wanted) if row["ratio"]]

    def against_module(self, **wanted):
        """The published module where it was there, else the naive path; which one is said with the number."""
        return self.against("published S4", **wanted) or self.against("naive torch", **wanted)


def ours(row):
    return float(row["ours_ns_per_sample"])


def ratio(row):
    return float(row["ratio"])


def at(row):
    return f"L={row['length']}" + (f" {row['algorithm']}" if row["algorithm"] != "-" else "")


# ---- verdicts: (what was measured, how much of the target that is: 1 or more = reached) ------------------------------

def at_most(bound, rows, unit="ns"):
    if not rows:
        return None
    worst = max(rows, key=ours)
    best = min(rows, key=ours)
    span = f"{ours(worst):.3g} {unit} ({at(worst)})"
    if best is not worst:
        span = f"{ours(best):.3g} ({at(best)}) to " + span
    return span, bound / max(ours(worst), 1e-12)


def at_least(bound, rows):
    if not rows:
        return None
    worst, best = min(rows, key=ratio), max(rows, key=ratio)
    span = f"{ratio(worst):.3g} × {worst['peer']} ({at(worst)})"
    if best is not worst:
        span += f" to {ratio(best):.3g} × ({at(best)})"
    return span, ratio(worst) / bound


KINDS = tuple((mode, algorithm) for mode in ("dplr", "diagonal") for algorithm in ("fft", "chunked", "-"))


def two_threads(measured):
    """Ours with one thread over ours with two, in the same turns."""
    for work in ("forward", "training", "layer", "kernel", "setup", "step"):
        rows = [row for mode, algorithm in KINDS
                for row in measured.against(jobs.ONE_THREAD, work=work, mode=mode, algorithm=algorithm, threads=2)]
        if rows:
            low, high = min(rows, key=ratio), max(rows, key=ratio)
            few = [row for row in rows if ratio(row) < 1.8]
            yield (f"two cores against one: {work}", "≥ 1.8 ×",
                   (f"{ratio(low):.3g} × ({low['mode']} {at(low)}) to {ratio(high):.3g} ×; {len(rows) - len(few)} of "
                    f"{len(rows)} rows reach it", ratio(low) / 1.8))


def growth(measured):
    """Ours at a length over ours at a short one, in the same turns; as many samples in rows of the same batch."""
    for work in ("forward", "training"):
        for mode, algorithm in KINDS:
            rows = [row for row in measured.against(jobs.SHORT, work=work, mode=mode, threads=1, algorithm=algorithm)
                    if int(row["length"]) <= GROWTH_LENGTH]
            if rows:
                worst = min(rows, key=ratio)
                yield (f"growth from {jobs.SHORT_LENGTH} to {rows[-1]['length']}: {work} {mode} {algorithm}", "≤ 1.3 ×",
                       (f"{1 / ratio(worst):.3g} × (L={worst['length']})", 1.3 * ratio(worst)))


def over_planned(rows):
    """Measured memory over that of the plan, which a note of the row tells."""
    found = [(ours(row) / float(row["note"].split()[-1]), row) for row in rows if row["note"].startswith("planned")]
    if not found:
        return None
    share, row = max(found, key=lambda pair: pair[0])
    return f"{share:.3g} × ({at(row)})", 1 / share


def targets(m):
    """(what, target, verdict or None) in the order in which they are set."""
    one = {"threads": 1}
    for mode, forward, training in (("diagonal", 2.5, 8), ("dplr", 4.5, 14)):
        yield f"convolution forward, {mode}, one core", f"≤ {forward} ns", at_most(
            forward, m.pick(work="forward", mode=mode, **one))
        yield f"convolution forward and backward, {mode}, gradients of the parameters included", f"≤ {training} ns", at_most(
            training, m.pick(work="training", mode=mode, **one))
    for mode in ("diagonal", "dplr"):
        yield f"convolution forward, {mode}, against torch.fft", "≥ 3 ×", at_least(
            3, m.against("torch.fft", work="forward", mode=mode, **one))
        yield "the same against scipy.fft", "", at_least(1, m.against("scipy.fft", work="forward", mode=mode, **one))
        yield "the same against plain FFTW, L=4096", "≥ 2 ×", at_least(
            2, m.against("FFTW r2c row by row", work="forward", mode=mode, length=4096, **one))
        yield f"convolution forward and backward, {mode}, against torch.fft (without the parameters behind K)", "", at_least(
            1, m.against("torch.fft", work="training", mode=mode, **one))
    for what, wanted, bound in (
            ("DPLR kernel (double parameters)", {"work": "kernel", "mode": "dplr"}, 40),
            ("diagonal kernel (double parameters)", {"work": "kernel", "mode": "diagonal"}, 100),
            ("set-up (double)", {"work": "setup"}, 50),
            ("whole layer forward and backward, dplr", {"work": "layer", "mode": "dplr"}, 30),
            ("whole layer forward and backward, diagonal", {"work": "layer", "mode": "diagonal"}, 30)):
        yield what, f"≥ {bound} × published", at_least(bound, m.against_module(**wanted, **one))
    for mode, bound in (("diagonal", 25), ("dplr", 60)):
        yield f"step, {mode}, per (b,h)", f"≤ {bound} ns", at_most(bound, m.pick(work="step", mode=mode, **one))
        yield "the same against a step in torch", "", at_least(1, m.against_module(work="step", mode=mode, **one))
    for mode in ("diagonal", "dplr"):
        rows = m.pick(work="memory", mode=mode, **one)
        yield f"memory beyond u, y and their gradients, {mode}", "≤ 40 B per (b,h,l)", at_most(40, rows, "B")
        yield "the same over what the plan says", "1 ×", over_planned(rows)
        yield "the same against torch", "", at_least(1, m.against_module(work="memory", mode=mode, **one))
    yield from two_threads(m)
    yield from growth(m)


# ---- text -----------------------------------------------------------------------------------------------------------

def header(rows, found, quick):
    versions = sorted({row["versions"] for row in rows if row["versions"]})
    return [f"Machine: {machine()}. CPU level: {found['level']}. {found['libraries']}. {found['build']}.", "",
            *(f"Versions: {text}." for text in versions), "",
            "Median times of sides that took turns; ours is single precision over the sequence and double in what depends on "
            "parameters only, theirs is single precision throughout.",
            *(["Made with --quick: shows that everything runs, not how fast it is."] if quick else []), ""]


def target_lines(measured):
    yield "| | target | measured | of the target |"
    yield "|---|---|---|---|"
    for what, target, verdict in targets(measured):
        words, share = verdict or ("not measured", None)
        share = "" if share is None or not target else f"{share:.2f}" + (" ✓" if share >= 1 else "")
        yield f"| {what} | {target} | {words} | {share} |"


def cell(row, prefix, name):
    if not row[name]:
        return ""
    return f"{row[name]} ({row[prefix + '_q1']}–{row[prefix + '_q3']})"


def row_lines(rows):
    yield "| work | B, H, N, L | threads | algorithm | unit | ours | peer | theirs | ratio | difference | note |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        shape = ", ".join(row[name] for name in ("batch", "d_model", "d_state", "length"))
        cells = [row["work"] + " " + row["mode"], shape, row["threads"], row["algorithm"], row["unit"],
                 cell(row, "ours", "ours_ns_per_sample"), row["peer"], cell(row, "peer", "peer_ns_per_sample"),
                 cell(row, "ratio", "ratio"), row["difference"], row["note"]]
        yield "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def text_of(rows, found, quick):
    lines = header(rows, found, quick)
    lines += list(target_lines(Measured(rows)))
    lines += ["", "Above 1 in the last column, the target is reached. Against the published module where it was there, else "
              "against the naive torch path of this comparison; each number says which. "
              "Targets of the GPU are not measured here.", "",
              "Every row: median and quartiles; ratio is theirs over ours; difference is the largest one of what both "
              "computed, over the largest value.", ""]
    return "\n".join(lines + list(row_lines(rows))) + "\n"


def write_docs(path, text):
    page = path.read_text()
    before, _, rest = page.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise SystemExit(f"peers: {path} has no '{BEGIN}' followed by '{END}'")
    path.write_text(f"{before}{BEGIN}\n{text}{END}{after}")
