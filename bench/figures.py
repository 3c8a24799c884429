"""Measuring and printing that the tables of bench/run have in common."""

import json
import os
import subprocess
import time

NATIVE_RUNS = 7
RECORDINGS = 3
# Enough of recording one program: no more recordings then.
RECORDING_S = 8


def timed(argv):
    start = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def fastest_native(argv):
    timed(argv)  # Warms the page cache.
    return min(timed(argv) for _ in range(NATIVE_RUNS))


def record(hindsight, argv, directory, engine):
    """The seconds of the fastest of several recordings, and the trace of the last."""
    times = []
    while len(times) < RECORDINGS and sum(times) < RECORDING_S:
        trace = os.path.join(directory, "%s%d" % (engine, len(times)))
        times.append(timed([hindsight, "record", "--quiet", "--engine=" + engine, "-o", trace,
                            "--"] + argv))
    return min(times), trace


def trace_info(hindsight, trace):
    return json.loads(subprocess.run([hindsight, "info", trace, "--json"], check=True,
                                     stdout=subprocess.PIPE).stdout)


def measure_translated(hindsight, argv, directory):
    """Nothing of a program that this engine does not record to its end."""
    seconds, trace = record(hindsight, argv, directory, "translate")
    info = trace_info(hindsight, trace)
    if info["endReason"]:
        return {}
    subprocess.run([hindsight, "verify", trace], check=True, stdout=subprocess.DEVNULL)
    return {"translate_s": seconds, "translate_bits": info["bitsPerInstruction"]}


def print_table(table, markdown):
    """A table of texts, row by row: the first row is the head, the first column the names."""
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for number, line in enumerate(table):
        cells = [line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:])]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells))
        if markdown and number == 0:
            print("| " + " | ".join(["---"] + ["---:"] * (len(line) - 1)) + " |")
    print()
