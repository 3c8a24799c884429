"""What bench/snapshots measures of one kernel with one number of threads."""

import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

# Name: steps that take about a second, to begin with.
KERNELS = {"bodies": 40, "lu": 64, "fft": 150, "jacobi": 400, "sort": 130, "updates": 100,
           "join": 120, "sparse": 25}
LEAST_STEPS = 21
SNAPSHOTS = 10
# The kernel that gcore is tried with, and how many of its threads.
GCORE_KERNEL, GCORE_THREADS = "sparse", 2


class WrongResult(Exception):
    """A program that has not done with snapshots what it does without them."""


def run(argv, prefix=()):
    """What a run of the kernel says of itself, and the seconds until all was over."""
    start, before = time.perf_counter(), children_processor_s()
    done = subprocess.run([*prefix, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    elapsed = time.perf_counter() - start
    if done.returncode != 0:
        raise WrongResult("%s: %s" % (" ".join(argv), done.stderr or done.returncode))
    result = parse(done.stdout, elapsed)
    # What is not the steps of the kernel: its set-up, and the capturer.
    result["other_processor_s"] = children_processor_s() - before - result["processor_s"]
    return result


def parse(text, elapsed):
    said = dict(line.split() for line in text.splitlines())
    return {"seconds": float(said["seconds"]), "processor_s": float(said["processor"]),
            "sum": said["sum"], "elapsed_s": elapsed}


def steps_for(program, kernel, threads, seconds):
    """So many that a native run takes about so long. Warms the page cache as well."""
    steps = KERNELS[kernel]
    took = run([program, kernel, str(threads), str(steps)])["seconds"]
    return max(LEAST_STEPS, round(steps * seconds / took))


def children_processor_s():
    times = os.times()
    return times.children_user + times.children_system


def snap(hindsight, argv, directory):
    """The same under `hindsight snap`, and what `info` says of the snapshots."""
    trace = os.path.join(directory, "trace")
    result = run(argv, [hindsight, "snap", "--quiet", "--level=2", "-o", trace, "--"])
    info = json.loads(subprocess.run([hindsight, "info", trace, "--json"], check=True,
                                     stdout=subprocess.PIPE).stdout)
    taken = info["snapshots"]
    if len(taken) != SNAPSHOTS:
        raise WrongResult("%s: %d snapshots in place of %d" % (argv[1], len(taken), SNAPSHOTS))
    result["stop_ms"] = [one["stopNs"] / 1e6 for one in taken]
    result["skew_ms"] = [one["skewNs"] / 1e6 for one in taken]
    result["bytes"] = [os.path.getsize(os.path.join(trace, "full", str(one["number"])))
                       for one in taken]
    result["memory"] = taken[0]["pages"] * 4096
    shutil.rmtree(trace)
    return result


def percent(pairs, value):
    """The median of how much more the second of each pair takes."""
    return statistics.median(100 * (value(snapped) / value(native) - 1)
                             for native, snapped in pairs)


def measure(hindsight, program, kernel, threads, seconds, pairs, progress):
    """Pairs of runs, native and with snapshots, in turn; one row of the table."""
    directory = tempfile.mkdtemp(prefix="hindsight_bench_")
    try:
        progress("how long it takes")
        argv = [program, kernel, str(threads),
                str(steps_for(program, kernel, threads, seconds))]
        done = []
        for number in range(pairs):
            progress("pair %d of %d" % (number + 1, pairs))
            # Who comes first has the machine as the run before has left it.
            order = [lambda: run(argv), lambda: snap(hindsight, argv, directory)]
            results = [order[number % 2](), order[1 - number % 2]()]
            native, snapped = results if number % 2 == 0 else reversed(results)
            if native["sum"] != snapped["sum"]:
                raise WrongResult("%s: another result with snapshots" % kernel)
            done.append((native, snapped))
        return row(kernel, threads, done)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def row(kernel, threads, pairs):
    snapped = [second for _, second in pairs]
    stops = [ms for one in snapped for ms in one["stop_ms"]]
    skews = [ms for one in snapped for ms in one["skew_ms"]]
    first = statistics.median(one["bytes"][0] for one in snapped)
    later = statistics.median(statistics.mean(one["bytes"][1:]) for one in snapped)
    return {
        "kernel": kernel,
        "threads": threads,
        "memory_bytes": max(one["memory"] for one in snapped),
        "native_s": statistics.median(native["seconds"] for native, _ in pairs),
        "snapped_s": statistics.median(one["seconds"] for one in snapped),
        "overhead_percent": percent(pairs, lambda one: one["seconds"]),
        "overheads_percent": [100 * (b["seconds"] / a["seconds"] - 1) for a, b in pairs],
        "until_written_percent": percent(pairs, lambda one: one["elapsed_s"]),
        "processor_percent": percent(pairs, lambda one: one["processor_s"]),
        "capturer_processor_s": statistics.median(
            one["other_processor_s"] - native["other_processor_s"] for native, one in pairs),
        "stop_median_ms": statistics.median(stops),
        "stop_worst_ms": max(stops),
        "skew_median_ms": statistics.median(skews),
        "skew_worst_ms": max(skews),
        "full_bytes": first,
        "later_bytes": later,
        "later_percent": 100 * later / first,
    }


def gcore(program, seconds, progress):
    """Ten cores of a kernel by gdb's gcore, spread over a run as the snapshots are."""
    kernel, threads = GCORE_KERNEL, GCORE_THREADS
    argv = [program, kernel, str(threads), str(steps_for(program, kernel, threads, seconds))]
    native = run(argv)
    directory = tempfile.mkdtemp(prefix="hindsight_bench_")
    times, sizes = [], []
    try:
        start = time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
            time.sleep(native["elapsed_s"] - native["seconds"])  # it fills its memory
            for number in range(SNAPSHOTS):
                # It runs on while gdb starts.
                time.sleep(native["seconds"] / (SNAPSHOTS + 1) / 2)
                progress("gcore %d of %d" % (number + 1, SNAPSHOTS))
                core = os.path.join(directory, "core")
                before = time.perf_counter()
                made = subprocess.run(["gcore", "-o", core, str(child.pid)], check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                path = "%s.%d" % (core, child.pid)
                if made.returncode != 0 or not os.path.exists(path):
                    break  # it has ended
                times.append(time.perf_counter() - before)
                sizes.append(os.path.getsize(path))
                os.remove(path)
            result = parse(child.communicate()[0], time.perf_counter() - start)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {"kernel": kernel, "threads": threads, "cores": len(times),
            "median_s": statistics.median(times), "worst_s": max(times), "bytes": sum(sizes),
            "native_s": native["seconds"], "with_cores_s": result["seconds"],
            "overhead_percent": 100 * (result["seconds"] / native["seconds"] - 1)}


def gdb_version():
    try:
        text = subprocess.run(["gdb", "--version"], stdout=subprocess.PIPE, text=True,
                              check=False).stdout
    except FileNotFoundError:
        return None
    found = re.search(r"(\d+[.]\d+)\s*$", text.splitlines()[0])
    return found.group(1) if found and shutil.which("gcore") else None
