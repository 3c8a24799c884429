"""What the scripts of the gdb tests use. Loaded into gdb before each of them.

Answers are lines "TAG: value", which the tests collect by tag (gdb.h).
"""

import gdb

_last_stop = None


def _on_stop(event):
    global _last_stop
    _last_stop = event


gdb.events.stop.connect(_on_stop)


def say(tag, value):
    gdb.write("\n%s: %s\n" % (tag, value))


def value(expression):
    return str(gdb.parse_and_eval(expression))


def pc():
    return int(gdb.parse_and_eval("(unsigned long)$pc"))


def line():
    return gdb.selected_frame().find_sal().line


def function():
    return gdb.selected_frame().name()


def caller():
    return gdb.selected_frame().older().name()


def instruction():
    """The mnemonic at pc."""
    return gdb.selected_frame().architecture().disassemble(pc())[0]["asm"].split()[0]


def run(command):
    """Runs a command that resumes; returns what stopped it.

    "breakpoint 3" (watchpoints too), "signal SIGSEGV", or "other": the ends of the recording and
    steps that are done.
    """
    global _last_stop
    _last_stop = None
    gdb.execute(command)
    if isinstance(_last_stop, gdb.BreakpointEvent):
        return "breakpoint %d" % _last_stop.breakpoints[0].number
    if isinstance(_last_stop, gdb.SignalEvent):
        return "signal " + _last_stop.stop_signal
    return "other" if _last_stop is not None else "nothing"


def collect(command, *expressions):
    """Repeats a resuming command until an end of the recording; the values at each stop."""
    found = []
    while run(command) != "other":
        found.append("/".join(value(expression) for expression in expressions))
        if len(found) > 10000:
            raise gdb.GdbError("does not end")
    return " ".join(found)


def general_registers():
    return gdb.execute("info registers", to_string=True)


def all_registers():
    """Every register the target has, in raw hexadecimal."""
    text = gdb.execute("maintenance print raw-registers", to_string=True)
    lines = [fields for fields in map(str.split, text.splitlines()) if len(fields) >= 6]
    return {fields[0]: fields[-1] for fields in lines if fields[-1].startswith("0x")}


def when():
    """`monitor when` of the selected thread: gdb tells the server which one that is only when it
    has to ask for its registers."""
    gdb.execute("maintenance flush register-cache", to_string=True)
    pc()
    return gdb.execute("monitor when", to_string=True).strip()


def threads():
    """{thread id: name} of all threads that live here."""
    gdb.execute("info threads", to_string=True)  # gdb asks for the list then
    return {thread.ptid[1]: thread.name for thread in gdb.selected_inferior().threads()}


def thread_name():
    return gdb.selected_thread().name


def switch_to(name):
    """Selects the first thread with this name."""
    gdb.execute("info threads", to_string=True)
    for thread in gdb.selected_inferior().threads():
        if thread.name == name:
            thread.switch()
            return
    raise gdb.GdbError("no thread " + name)


def functions():
    """The functions of the selected thread's stack, innermost first."""
    frame, names = gdb.newest_frame(), []
    while frame is not None and len(names) < 50:
        names.append(frame.name() or "?")
        frame = frame.older()
    return names
