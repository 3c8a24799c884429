"""The table of bench/run that compares the engines: native, translate, emulate, in one run."""

import math
import os
import shutil
import subprocess
import sys
import tempfile

from figures import fastest_native, measure_translated, print_table, record
from inputs import make_c_file, make_makefile, make_text

PYTHON_LOOP = "s = 0\nfor i in range(3000000): s += i * i % 7"
SQL = ("create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c "
       "where x < 200000) insert into t select x, x * 7 % 1000 from c; "
       "select count(*), sum(b) from t where b > 500;")
LUA = "local s = 0 for i = 1, 20000000 do s = s + i % 7 * 1.5 end print(s)"

# Limited by the processor, not by memory, the kernel or starting up.
CPU_BOUND = ("bzip2", "gzip", "xz", "luajit", "python3", "sqlite3", "gcc", "nbody", "fft")
PARALLEL = ("lu", "sort", "fft", "locks", "barriers")
THREADS = (1, 2, 4)


def programs(binaries, directory):
    """(name, argv) of what is installed. Creates the input files."""
    small, large, c_file, tree = (os.path.join(directory, name)
                                  for name in ("5MB", "8MB", "large.c", "tree"))
    make_text(small, 5000000)
    make_text(large, 8000000)
    make_c_file(c_file)
    make_makefile(tree)
    kernels, bench = binaries + "/bench/kernels", binaries + "/bench/"
    lines = [
        ("bzip2", ["bzip2", "-c", large]),
        ("gzip", ["gzip", "-9c", small]),
        ("xz", ["xz", "-1", "-T1", "-c", large]),
        ("luajit", ["luajit", "-joff", "-e", LUA]),
        ("python3", ["/usr/bin/python3", "-c", PYTHON_LOOP]),
        ("sqlite3", ["sqlite3", ":memory:", SQL]),
        ("gcc", ["gcc", "-O2", "-fpreprocessed", "-c", c_file, "-o", "/dev/null"]),
        ("nbody", [kernels, "nbody"]),
        ("fft", [kernels, "fft"]),
        ("stream", [kernels, "stream"]),
        ("updates", [kernels, "updates"]),
        ("syscalls", [bench + "syscalls"]),
        ("signals", [bench + "signals"]),
        ("true", ["/bin/true"]),
        ("python3 -c pass", ["/usr/bin/python3", "-c", "pass"]),
        ("make -j2", ["make", "-j2", "-s", "-B", "-C", tree]),
    ]
    lines += [("%s, %d threads" % (name, threads), [kernels, name, str(threads)])
              for name in PARALLEL for threads in THREADS]
    return [(name, argv) for name, argv in lines if shutil.which(argv[0])]


def measure(hindsight, name, argv):
    directory = tempfile.mkdtemp(prefix="hindsight_bench_")
    try:
        row = {"name": name, "native_s": fastest_native(argv)}
        try:
            row.update(measure_translated(hindsight, argv, directory))
            row["emulate_s"], _ = record(hindsight, argv, directory, "emulate")
        except subprocess.CalledProcessError as error:
            print("%s: %s" % (name, error), file=sys.stderr)
        return row
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def ratio(row, engine):
    seconds = row.get(engine + "_s")
    return "%.1f x" % (seconds / row["native_s"]) if seconds else "-"


def seconds_of(row, what):
    return "%.3f" % row[what] if what in row else "-"


def print_mean(rows):
    ratios = [row["translate_s"] / row["native_s"] for row in rows
              if row["name"] in CPU_BOUND and "translate_s" in row]
    if ratios:
        mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
        print("translate, geometric mean of the %d programs limited by the processor: %.2f x"
              % (len(ratios), mean))
    bits = [row["translate_bits"] for row in rows if "translate_bits" in row]
    if bits:
        print("bits per instruction, mean of %d programs: %.3f"
              % (len(bits), sum(bits) / len(bits)))


def compare(hindsight, binaries, only, markdown):
    """Measures and prints. `only`: names of programs; none: all."""
    with tempfile.TemporaryDirectory(prefix="hindsight_bench_") as directory:
        rows = [measure(hindsight, name, argv)
                for name, argv in programs(binaries, directory)
                if not only or name in only]
    head = ["engines", "native s", "translate s", "emulate s", "translate", "emulate",
            "bits/instr, translate"]
    print_table([head] + [[row["name"], seconds_of(row, "native_s"),
                           seconds_of(row, "translate_s"), seconds_of(row, "emulate_s"),
                           ratio(row, "translate"), ratio(row, "emulate"),
                           seconds_of(row, "translate_bits")] for row in rows], markdown)
    print_mean(rows)
