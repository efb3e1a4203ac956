"""The comparison with peers: runs the jobs in order of importance within a budget of time, writes results.csv, table.md and
plot.png. run.sh makes the environment and calls this."""
import argparse
import dataclasses
import json
import pathlib
import select
import signal
import subprocess
import sys
import time

import jobs
import results
import table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORKS = ("forward", "training", "layer", "kernel", "setup", "step", "memory")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Worker:
    """worker.py, started when it is needed, and again after it has failed."""

    def __init__(self, command):
        self.command, self.process = command, None

    def ask(self, request, limit_s):
        """Its answer; {"failed": why} if it died or took longer than limit_s."""
        if not self.process:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.fail("the measuring process ended")
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        if not ready:
            return self.fail(f"took longer than {limit_s:.0f} s")
        line = self.process.stdout.readline()
        return json.loads(line) if line else self.fail("the measuring process ended")

    def fail(self, why):
        code = self.stop()
        return {"failed": why + (f" ({signal.Signals(-code).name})" if code and code < 0 else "")}

    def stop(self):
        """Ends the process; its exit code if it had ended by itself."""
        if not self.process:
            return None
        try:
            code = self.process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None
        return code


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="run.sh", description="ours against peers; also --env DIR, --index URL")
    parser.add_argument("outdir", type=pathlib.Path, help="receives results.csv, table.md, plot.png")
    parser.add_argument("--seconds", type=float, default=600, help="total time budget (600)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument("--only", choices=WORKS, action="append", help="this kind of work only; may be repeated")
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build/lib/libs4.so", help="libs4.so to measure")
    parser.add_argument("--headers", type=pathlib.Path, default=ROOT / "include", help="its public headers")
    parser.add_argument("--s4", type=pathlib.Path, help="the published S4 module: s4.py, or the folder it is in")
    parser.add_argument("--threads", type=int, choices=(1, 2), help="most threads of each side (2 where there are two)")
    parser.add_argument("--repeats", type=int, help="repetitions of each side (9; quick: 3)")
    parser.add_argument("--again", action="store_true", help="measure anew what results.csv has already")
    parser.add_argument("--write-docs", action="store_true", help="put table.md into docs/performance.md")
    parser.add_argument("--fftw", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.threads = options.threads or min(2, table.processors())
    options.repeats = options.repeats or (3 if options.quick else 9)
    if not options.library.is_file():
        parser.error(f"no library at {options.library}: build it, or say --library PATH")
    return options


def measure(worker, alone, job, options, left_s, versions):
    """Rows of one job. alone: a process that no peer was in."""
    limit_s = 2 if options.quick else max(4, min(20, left_s / 2))
    patience_s = min(60 + 6 * limit_s, left_s + 30) # for what must be made before, and a slow side's last turn
    request = {"job": dataclasses.asdict(job)}
    if job.work == "memory":
        return memory(job, options, request, patience_s, versions)
    request.update(limit_s=limit_s, repeats=options.repeats, turn_s=0.002 if options.quick else 0.05)

    def ask(process, rows_of, request):
        answer = process.ask(request, patience_s)
        if "failed" in answer:
            return [{"note": "failed: " + answer["failed"], "unit": job.units()[1], "versions": versions}]
        return rows_of(job, answer, versions)
    rows = ask(worker, results.rows_of_answer, request)
    return rows + ask(alone, results.rows_of_itself, {**request, "itself": True}) if job.itself() else rows


def memory(job, options, request, patience_s, versions):
    """A process for each side, so that nothing is there from another."""
    import our_sides # needs numpy, which --help does not
    import peer_sides

    def grown(name):
        one = Worker(worker_command(options))
        answer = one.ask({**request, "side": name}, patience_s)
        one.stop()
        return {"note": "failed: " + answer["failed"]} if "failed" in answer else answer
    ours = {name: grown(name) for name in our_sides.algorithms(job.work)}
    peers = {name: grown(name) for name, _ in peer_sides.MAKERS[job.work]
             if name != peer_sides.PUBLISHED or options.s4}
    return results.rows_of_memory(job, ours, peers, versions)


def worker_command(options):
    command = [sys.executable, str(HERE / "worker.py"), "--library", str(options.library), "--headers",
               str(options.headers)]
    for name in ("fftw", "s4"):
        if getattr(options, name):
            command += ["--" + name, str(getattr(options, name))]
    return command


def versions_text(found, fftw):
    parts = [f"libs4 {found['libs4']} ({found['level']})"]
    parts += [f"{name} {found[name]}" for name in ("torch", "numpy", "scipy") if found.get(name)]
    if fftw:
        parts.append(subprocess.run([fftw, "version"], capture_output=True, text=True).stdout.strip())
    return "; ".join(parts + [f"python {found['python']}"])


def short(rows):
    """A job's rows on one line of progress."""
    parts = [f"{row['algorithm']} {row['ours_ns_per_sample']}" for row in
             {row["algorithm"]: row for row in rows if row.get("ours_ns_per_sample")}.values()]
    parts += [f"{row['peer']} {row['peer_ns_per_sample']}" for row in
              {row["peer"]: row for row in rows if row.get("peer_ns_per_sample")}.values()]
    parts += [f"{row.get('algorithm') or row.get('peer') or ''} {row['note']}".strip() for row in rows
              if row.get("note") and not row.get("ours_ns_per_sample")]
    return ", ".join(parts)


def run(options, saved, started):
    worker, alone = Worker(worker_command(options)), Worker(worker_command(options))
    found = worker.ask({}, 120)
    if "failed" in found:
        say(f"peers: the library cannot be used: {found['failed']}")
        return None
    versions = versions_text(found, options.fftw)
    say(f"peers: {versions}")
    todo = [job for job in jobs.rows(options.quick, options.threads) if not options.only or job.work in options.only]
    for number, job in enumerate(todo, 1):
        left_s = options.seconds - (time.monotonic() - started)
        if not options.again and saved.has(job):
            continue
        if left_s <= 0:
            say(f"peers: the time is used up; {len(todo) - number + 1} of {len(todo)} rows may be missing: run it again")
            break
        rows = measure(worker, alone, job, options, left_s, versions)
        saved.put(job, rows)
        say(f"[{number}/{len(todo)}, {left_s:.0f} s left] {job.text()}: {short(rows)}")
    worker.stop()
    alone.stop()
    return found


def main(arguments):
    started = time.monotonic()
    options = options_of(arguments)
    options.outdir.mkdir(parents=True, exist_ok=True)
    saved = results.Results(str(options.outdir / "results.csv"))
    found = run(options, saved, started)
    if found is None:
        return 1
    text = table.text_of(saved.rows, found, options.quick)
    (options.outdir / "table.md").write_text(text)
    if options.write_docs:
        table.write_docs(ROOT / "docs/performance.md", text)
    try:
        import plot
        plot.draw(saved.rows, options.outdir / "plot.png")
    except ImportError as missing:
        say(f"peers: no plot.png: {missing}")
    say(f"peers: {options.outdir}/results.csv, table.md, plot.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
