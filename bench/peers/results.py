"""results.csv: one row for each of our algorithms against each peer at one job. Written whole or left as it was."""
import csv
import os
import statistics

KEY = ("work", "mode", "length", "threads", "batch", "d_model", "d_state")
COLUMNS = KEY + (
    "algorithm", "unit", "ours_ns_per_sample", "ours_q1", "ours_q3", "peer", "peer_ns_per_sample", "peer_q1", "peer_q3",
    "ratio", "ratio_q1", "ratio_q3", "repeats", "difference", "note", "versions")

SAME = 1e-2 # single precision against double at a length of millions stays far below
DIFFERS = "differs: the two sides have not computed the same"


class Results:
    def __init__(self, path):
        self.path, self.rows = path, []
        if os.path.exists(path):
            with open(path, newline="") as file:
                self.rows = list(csv.DictReader(file))

    def has(self, job):
        """A job that failed is taken up again; what the library refused is not."""
        mine = [row for row in self.rows if key_of(row) == job.key()]
        return bool(mine) and not any(row["note"].startswith("failed") for row in mine)

    def put(self, job, rows):
        self.rows = [row for row in self.rows if key_of(row) != job.key()]
        self.rows += [{**dict.fromkeys(COLUMNS, ""), **dict(zip(KEY, job.key())), **row} for row in rows]
        with open(self.path + ".new", "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows)
        os.replace(self.path + ".new", self.path)


def key_of(row):
    return tuple(row[name] for name in KEY)


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def number(value):
    return f"{value:.4g}"


def spread(prefix, values):
    """Columns of a median and its quartiles."""
    low, middle, high = quartiles(values)
    name = {"ours": "ours_ns_per_sample", "peer": "peer_ns_per_sample", "ratio": "ratio"}[prefix]
    return {name: number(middle), prefix + "_q1": number(low), prefix + "_q3": number(high)}


def against(peer, ours, theirs):
    """Columns of a peer. ratio: of the medians; its quartiles are those of the ratios of neighbouring repetitions."""
    row = {"peer": peer, **spread("peer", theirs), **spread("ratio", [b / a for a, b in zip(ours, theirs)])}
    return {**row, "ratio": number(statistics.median(theirs) / statistics.median(ours))}


def rows_of_answer(job, answer, versions):
    """From what the worker measured; times of one call become times of a unit."""
    units, unit = job.units()
    common = {"unit": unit, "versions": versions}
    differences = {(ours, peer): value for ours, peer, value in answer["differences"]}
    rows = [{**common, "algorithm": name, "note": note} for name, note in answer["our_notes"].items()]
    for algorithm, times in answer["ours"].items():
        ours = [value / units for value in times]
        mine = {**common, "algorithm": algorithm, "repeats": len(ours), **spread("ours", ours)}
        if not answer["peers"]:
            rows.append(mine)
        for peer, peer_times in answer["peers"].items():
            row = {**mine, **against(peer, ours, [value / units for value in peer_times])}
            difference = differences.get((algorithm, peer))
            if difference is not None:
                row["difference"] = f"{difference:.1e}"
                row["note"] = "" if difference <= SAME else DIFFERS # not a number differs, too
            rows.append(row)
    rows += [{**common, "peer": name, "note": note} for name, note in answer["peer_notes"].items()]
    return rows


def rows_of_itself(job, answer, versions):
    """From times of ours and of ours in other circumstances; of as many units."""
    units, unit = job.units()
    rows = []
    for algorithm, names in answer["itself"].items():
        for name, both in names.items():
            ours, theirs = ([value / units for value in times] for times in both)
            rows.append({"unit": unit, "versions": versions, "algorithm": algorithm, "repeats": len(ours),
                         **spread("ours", ours), **against(name, ours, theirs)})
    return rows


def rows_of_memory(job, ours, peers, versions):
    """From what processes of one side each have grown by: ours and peers are name -> answer."""
    units, unit = job.units()
    rows = []
    for side, answers in (("algorithm", ours), ("peer", peers)):
        rows += [{side: name, "unit": unit, "note": answer["note"], "versions": versions}
                 for name, answer in answers.items() if answer.get("note")]
    measured = {name: answer for name, answer in peers.items() if "bytes" in answer} or {"": None}
    for algorithm, mine in ours.items():
        if "bytes" not in mine:
            continue
        for peer, theirs in measured.items():
            row = {"algorithm": algorithm, "unit": unit, "repeats": 1, "versions": versions, "peer": peer,
                   "note": f"planned {mine['planned'] / units:.4g}", **spread("ours", [mine["bytes"] / units])}
            if theirs:
                row.update(spread("peer", [theirs["bytes"] / units]))
                row["ratio"] = number(theirs["bytes"] / max(1, mine["bytes"]))
            rows.append(row)
    return rows
