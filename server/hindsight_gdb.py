"""Commands for gdb that jump within a recording.

`monitor goto` moves the program behind gdb's back: gdb goes on showing the registers and memory it
has cached. These commands run the monitor command and then make gdb look again.

    hindsight goto start | end | POSITION | PERCENT% | snapshot N | thread TID [end]
    hindsight start, hindsight end
    hindsight when, hindsight threads, hindsight processes, hindsight snapshots, hindsight events

Besides, two things that gdb does not do by itself: `monitor` commands are about the thread that is
selected, and libraries read through the connection get the pretty printers installed for them.
"""

import glob
import os
import re

import gdb


def _monitor(command):
    """Runs `monitor COMMAND`. Returns (output, whether it succeeded)."""
    output = gdb.execute("monitor " + command, to_string=True)
    return output, not output.startswith("hindsight: ")


def _select_thread(tid):
    """Makes the thread with the system's number `tid` gdb's selected one, if gdb knows it."""
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == tid and not thread.is_exited():
            thread.switch()
            return


def _forget(tid):
    """Makes gdb forget all it knows of the program's state, and look at the thread `tid`."""
    gdb.execute("maintenance flush register-cache", to_string=True)
    gdb.execute("maintenance flush dcache", to_string=True)
    # Threads may have come and gone; this asks for them.
    gdb.execute("info threads", to_string=True)
    _select_thread(tid)
    # Breakpoint conditions and `finish` results may hang on to a frame that is gone.
    try:
        gdb.newest_frame().select()
    except gdb.error:
        pass  # nothing to select; the next command will say why


def _refresh_libraries():
    """Libraries may have been loaded or unloaded between the two positions."""
    try:
        gdb.execute("sharedlibrary", to_string=True)
    except gdb.error:
        pass


def _show_frame():
    try:
        gdb.execute("frame 0")
    except gdb.error as error:
        gdb.write(str(error) + "\n")


def _go(where):
    output, moved = _monitor("goto " + where)
    if not moved:
        raise gdb.GdbError(output.strip())
    place = re.search(r"thread (\d+)", output)
    _forget(int(place.group(1)) if place else 0)
    _refresh_libraries()
    _show_frame()
    # Expressions under `display` are shown after each stop; a jump is one.
    try:
        gdb.execute("display")
    except gdb.error:
        pass


class Hindsight(gdb.Command):
    """Walk within the recording."""

    def __init__(self):
        super().__init__("hindsight", gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE, prefix=True)


class Goto(gdb.Command):
    """Jump to another position of the recording.

hindsight goto start           its first instruction
hindsight goto end             its last one
hindsight goto 12A:3F          a position, as `hindsight when` prints them
hindsight goto 50%             so far through the recording
hindsight goto snapshot 3      a snapshot, as `hindsight snapshots` lists them
hindsight goto thread 4711     where a thread begins, as `hindsight threads` lists them
hindsight goto thread 4711 end where it ends"""

    PLACES = ("start", "end", "snapshot", "thread")

    def __init__(self):
        super().__init__("hindsight goto", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        if not argument.strip():
            raise gdb.GdbError(
                "Where to? start, end, POSITION, PERCENT%, snapshot N or thread TID")
        _go(argument.strip())

    def complete(self, text, word):
        return [place for place in self.PLACES if place.startswith(text)]


class Jump(gdb.Command):
    """Jump to one end of the recording."""

    def __init__(self, where):
        self._where = where
        super().__init__("hindsight " + where, gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        _go(self._where)


class Question(gdb.Command):
    """Ask the recording."""

    def __init__(self, question, documentation):
        self._question = question
        self.__doc__ = documentation
        super().__init__("hindsight " + question, gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        output, _ = _monitor((self._question + " " + argument).strip())
        gdb.write(output)


class When(gdb.Command):
    """Show the position of the selected thread in the recording."""

    def __init__(self):
        super().__init__("hindsight when", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        # gdb does not tell the server which thread the user has selected before it must.
        thread = gdb.selected_thread()
        tid = argument.strip() or (str(thread.ptid[1]) if thread else "")
        output, _ = _monitor(("when " + tid).strip())
        gdb.write(output)


def _name_selected_thread():
    """Makes gdb tell the server which thread is selected, before a `monitor` command.

    With those commands it does not, so that the server would go by the thread it was asked about
    last: after `info threads` and `thread apply`, any. A read that no cache answers does it."""
    thread = gdb.selected_thread()
    if thread is None or not thread.is_stopped():
        return
    try:
        pc = gdb.newest_frame().pc()
        gdb.selected_inferior().read_memory(pc, 1)
    except gdb.error:
        pass  # what is read does not matter


def _define_hook():
    try:
        gdb.execute("show user hook-monitor", to_string=True)
    except gdb.error:
        gdb.execute("define hook-monitor\npython _name_selected_thread()\nend")
    # The user's own hook, or ours if this file is loaded again.


class _ObjfileHere:
    """A library read through the connection, as if it were the file `filename` of this machine:
    that is where its auto-load script looks for the modules it needs."""

    def __init__(self, objfile, filename):
        self.__dict__.update(_objfile=objfile, filename=filename)

    def __getattr__(self, name):
        return getattr(self._objfile, name)

    def __setattr__(self, name, value):
        setattr(self._objfile, name, value)


def _directories(setting):
    """The directories of a setting of gdb's, absolute and without links."""
    directories = []
    for directory in gdb.parameter(setting).split(":"):
        directory = directory.replace("$datadir", gdb.parameter("data-directory"))
        # There may be several of these.
        for debug in gdb.parameter("debug-file-directory").split(":"):
            path = os.path.realpath(directory.replace("$debugdir", debug))
            if path not in directories:
                directories.append(path)
    return directories


def _is_safe(script):
    return any(script.startswith(os.path.join(directory, ""))
               for directory in _directories("auto-load safe-path"))


def _auto_load_scripts(name):
    """gdb's scripts for the library that the program loaded as `name`, as (script, the file's own
    name). Only such as gdb would load for a file of this machine."""
    if os.path.exists(name):
        patterns = [glob.escape(path) for path in {name, os.path.realpath(name)}]
    else:  # which file is behind the link is not known, nor whether /lib is one
        patterns = [prefix + glob.escape(name) + "*" for prefix in ("", "/usr")]
    for directory in _directories("auto-load scripts-directory"):
        for pattern in patterns:
            for script in glob.glob(glob.escape(directory) + pattern + "-gdb.py"):
                if _is_safe(os.path.realpath(script)):
                    yield script, script[len(directory):-len("-gdb.py")]


def _load_script(script, objfile):
    find_current = gdb.current_objfile
    gdb.current_objfile = lambda: objfile
    try:
        with open(script) as file:
            code = compile(file.read(), script, "exec")
        exec(code, {"__name__": "__main__", "__file__": script})
    except Exception as error:  # pylint: disable=broad-except; it is not ours
        gdb.write("warning: %s: %s\n" % (script, error), gdb.STDERR)
    finally:
        gdb.current_objfile = find_current


def _auto_load(objfile):
    """gdb looks for the scripts of "target:/lib/..." under that very name, where none are."""
    name = objfile.filename or ""
    if not name.startswith("target:/") or not gdb.parameter("auto-load python-scripts"):
        return
    if getattr(objfile, "hindsight_auto_loaded", False):
        return
    objfile.hindsight_auto_loaded = True
    for script, filename in _auto_load_scripts(name[len("target:"):]):
        _load_script(script, _ObjfileHere(objfile, filename))


def _auto_load_all():
    for objfile in gdb.objfiles():
        _auto_load(objfile)
    gdb.events.new_objfile.connect(lambda event: _auto_load(event.new_objfile))


_define_hook()
_auto_load_all()

Hindsight()
Goto()
Jump("start")
Jump("end")
When()
Question("threads", "List all threads of the recording, and from where to where they lived.")
Question("processes", "List all processes of the recording.")
Question("snapshots", "List the full keyframes of the recording, numbered.")
Question("events", """List the events of the recording around the present position.

hindsight events [N] [thread TID] [syscall | signal | fork | exec | thread | snapshot]...""")
