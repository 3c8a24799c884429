"""Commands for gdb that jump within a recording.

`monitor goto` moves the program without gdb's knowledge: gdb would continue to show the registers
and memory it has cached. These commands run the monitor command, make gdb read all that again, and
show where the program is; after a plain `monitor goto` gdb reads it again, too.

    hindsight goto start | end | POSITION | PERCENT% | snapshot N | bookmark NAME | thread TID [end]
    hindsight start, hindsight end, hindsight back, hindsight forward
    hindsight bookmark NAME, hindsight bookmarks, hindsight unbookmark NAME
    hindsight when, hindsight threads, hindsight processes, hindsight snapshots, hindsight events
    hindsight discard, hindsight edits, hindsight save edits FILE

Besides, what gdb does not do by itself: `monitor` commands are about the thread that is selected,
libraries read through the connection get the pretty printers installed for them, and who writes to
the program is told that it is a copy.
"""

import glob
import os
import re
import tempfile

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


def _selected_thread():
    """gdb's selected thread; None also if it does not live at this position."""
    try:
        thread = gdb.selected_thread()
    except SystemError:
        return None  # gdb has forgotten it
    return thread if thread is not None and thread.is_valid() else None


def _forget(tid):
    """Flushes gdb's caches of the program's state and selects the thread `tid`."""
    _copy.left()
    gdb.execute("maintenance flush register-cache", to_string=True)
    gdb.execute("maintenance flush dcache", to_string=True)
    # Threads may have started and ended; this lists them again.
    gdb.execute("info threads", to_string=True)
    _select_thread(tid)
    selected = _selected_thread()
    if selected is None or selected.is_exited():
        for thread in gdb.selected_inferior().threads()[:1]:
            thread.switch()
    # Breakpoint conditions and `finish` results may hang on to a frame that is gone.
    try:
        gdb.newest_frame().select()
    except gdb.error:
        pass  # nothing to select; the next command will say why


class _Copy:
    """Says once at each place that what is written goes to a copy."""

    def __init__(self):
        self._told = False
        for name in ("memory_changed", "register_changed"):
            registry = getattr(gdb.events, name, None)
            if registry is not None:
                registry.connect(self._written)

    def _written(self, _event):
        if not self._told:
            gdb.write("hindsight: this is a throw-away copy now; what is recorded stays as it is "
                      "(`hindsight discard` returns to it)\n")
        self._told = True

    def left(self):
        self._told = False


_copy = _Copy()
_going = False  # a command of ours moves the program, and does what is to be done then


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


def _go(command):
    global _going
    _going = True
    try:
        output, moved = _monitor(command)
    finally:
        _going = False
    if not moved:
        raise gdb.GdbError(output.strip())
    place = re.search(r"thread (\d+)", output)
    _forget(int(place.group(1)) if place else 0)
    _refresh_libraries()
    _show_frame()
    # Where it is the frame shows; what else there is to say follows that.
    for line in output.splitlines()[1:]:
        print("hindsight: " + line)
    # Expressions under `display` are shown after each stop; a jump is one.
    try:
        gdb.execute("display")
    except gdb.error:
        pass


class Hindsight(gdb.Command):
    """Walk within the recording. Alone, `hindsight` lists what it can do."""

    def __init__(self):
        super().__init__("hindsight", gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE, prefix=True)

    def invoke(self, argument, from_tty):
        if argument.strip():
            raise gdb.GdbError("There is no `hindsight %s`; `hindsight` alone lists what there is."
                               % argument.strip())
        gdb.execute("help hindsight")


class Goto(gdb.Command):
    """Jump to another position of the recording.

hindsight goto start           its first instruction
hindsight goto end             its last one
hindsight goto 12A:3F          a position, as `hindsight when` prints them
hindsight goto 50%             so far through the recording
hindsight goto snapshot 3      a snapshot, as `hindsight snapshots` lists them
hindsight goto bookmark HERE   a place named with `hindsight bookmark HERE`
hindsight goto thread 4711     where a thread begins, as `hindsight threads` lists them
hindsight goto thread 4711 end where it ends"""

    PLACES = ("start", "end", "snapshot", "bookmark", "thread")

    def __init__(self):
        super().__init__("hindsight goto", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        if not argument.strip():
            raise gdb.GdbError(
                "Where to? start, end, POSITION, PERCENT%, snapshot N, bookmark NAME or thread TID")
        _bookmarks.load()
        _go("goto " + argument.strip())

    def complete(self, text, word):
        return [place for place in self.PLACES if place.startswith(text)]


class Jump(gdb.Command):
    """Jump within the recording."""

    def __init__(self, name, command, documentation):
        self._command = command
        self.__doc__ = documentation
        super().__init__("hindsight " + name, gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        _go(self._command)


class Discard(gdb.Command):
    """Throw away the copy that writing to memory or registers has made."""

    def __init__(self):
        super().__init__("hindsight discard", gdb.COMMAND_RUNNING, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        thread = _selected_thread()
        output, _ = _monitor("discard")
        gdb.write(output)
        _forget(thread.ptid[1] if thread else 0)
        _show_frame()


class _Bookmarks:
    """The recording's bookmarks, which the server knows while it runs, as a file in the trace. The
    server can write none."""

    _LINE = re.compile(r"([\w.-]{1,64}): position ([0-9A-Fa-f]+:[0-9A-Fa-f]+)$", re.ASCII)
    _LARGEST_FILE_BYTES = 1 << 20

    def __init__(self):
        self._path = None  # until it is known
        self._loaded = False
        # Lines of the file that the server did not take, by name: they stay there.
        self._refused = {}

    def _find(self):
        """The file of this process's trace, if that is on this machine."""
        trace = re.match(r"trace (.*)", _monitor("info")[0])
        directory = os.path.abspath(trace.group(1)) if trace else ""
        if os.path.isfile(os.path.join(directory, "manifest")):
            self._path = os.path.join(directory, "bookmarks")

    def load(self):
        """Sends those in the file to the server, once."""
        if self._loaded:
            return
        self._loaded = True
        self._find()
        try:
            # The trace may be anybody's.
            file = os.open(self._path or "", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(file, errors="replace") as lines:
                text = lines.read(self._LARGEST_FILE_BYTES)
        except OSError:
            return
        known = _monitor("bookmarks")[0]
        for line in text.splitlines():
            match = self._LINE.match(line)
            if match and not re.search("^%s: " % re.escape(match.group(1)), known, re.M):
                answer, done = _monitor("bookmark %s %s" % match.groups())
                if not done:
                    self._refused[match.group(1)] = line
                    gdb.write("Bookmark %s is left out: %s\n" % (match.group(1), answer.strip()))

    def forget_refused(self, name):
        """Whether there was one."""
        return self._refused.pop(name, None) is not None

    def save(self):
        if self._path is None:
            gdb.write("The trace is not here: the server alone knows it, as long as it runs.\n")
            return
        lines = [line for line in _monitor("bookmarks")[0].splitlines() if self._LINE.match(line)]
        taken = {line.split(":")[0] for line in lines}
        lines += [line for name, line in self._refused.items() if name not in taken]
        try:
            file, name = tempfile.mkstemp(dir=os.path.dirname(self._path))
            with os.fdopen(file, "w") as out:
                out.write("".join(line + "\n" for line in lines))
            os.chmod(name, 0o644)
            os.replace(name, self._path)
        except OSError as error:
            gdb.write("It lasts as long as the server runs: %s\n" % error)


_bookmarks = _Bookmarks()


class Bookmark(gdb.Command):
    """Give the position of the selected thread a name, or take the name away."""

    def __init__(self, name, documentation):
        self._name = name
        self.__doc__ = documentation
        super().__init__("hindsight " + name, gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        _bookmarks.load()
        name = argument.strip()
        output, done = _monitor(self._name + " " + name)
        forgotten = self._name == "unbookmark" and _bookmarks.forget_refused(name)
        if not done and not forgotten:
            raise gdb.GdbError(output.strip())
        gdb.write(output if done else "")
        _bookmarks.save()


class Question(gdb.Command):
    """Ask the recording."""

    def __init__(self, question, documentation):
        self._question = question
        self.__doc__ = documentation
        super().__init__("hindsight " + question, gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        if self._question == "bookmarks":
            _bookmarks.load()
        output, _ = _monitor((self._question + " " + argument).strip())
        gdb.write(output)


class When(gdb.Command):
    """Show the position of the selected thread in the recording."""

    def __init__(self):
        super().__init__("hindsight when", gdb.COMMAND_STATUS, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        # gdb sends its selected thread only with packets that need it.
        thread = _selected_thread()
        tid = argument.strip() or (str(thread.ptid[1]) if thread else "")
        output, _ = _monitor(("when " + tid).strip())
        gdb.write(output)


def _name_selected_thread():
    """Makes gdb send its selected thread to the server, before a `monitor` command.

    It does not with those commands, and the server would assume the thread that gdb asked about
    last: after `info threads` and `thread apply`, any. A read that no cache answers sends it."""
    thread = _selected_thread()
    if thread is None or not thread.is_stopped():
        return
    try:
        pc = gdb.newest_frame().pc()
        gdb.selected_inferior().read_memory(pc, 1)
    except gdb.error:
        pass  # what is read does not matter


def _define_hook(hook, call):
    try:
        gdb.execute("show user " + hook, to_string=True)
    except gdb.error:
        gdb.execute("define %s\npython %s\nend" % (hook, call))
    # The user's own hook, or ours if this file is loaded again.


def _send(packet):
    """Whether the server knows this packet, which others do not."""
    connection = gdb.selected_inferior().connection
    send = getattr(connection, "send_packet", None)  # gdb 12, of a remote connection
    return send is not None and send(packet) == b"OK"


def _notice_move():
    """After a `monitor` command, which gdb expects to leave the program where it is."""
    if _send("qHindsightMoved") and not _going:
        _forget(0)
        _refresh_libraries()


def _note_visit(event):
    _copy.left()
    _send("QHindsightVisit")  # for `hindsight back`


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
    else:  # which file a link leads to is not known, nor whether /lib is one
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


_define_hook("hook-monitor", "_name_selected_thread()")
_define_hook("hookpost-monitor", "_notice_move()")
gdb.events.stop.connect(_note_visit)
_auto_load_all()

Hindsight()
Goto()
Jump("start", "goto start", "Jump to the beginning of the recording.")
Jump("end", "goto end", "Jump to the end of the recording.")
Jump("back", "back", "Return to the place where the last command before was given.")
Jump("forward", "forward", "Return to where `hindsight back` was given.")
Bookmark("bookmark", "Give the position of the selected thread a name.\n\nhindsight bookmark NAME")
Bookmark("unbookmark", "Forget the name of a position.\n\nhindsight unbookmark NAME")
Question("bookmarks", "List the named positions of the recording.")
Discard()
When()
Question("threads", "List all threads of the recording, and where each began and ended.")
Question("processes", "List all processes of the recording.")
Question("snapshots", "List the full keyframes of the recording, numbered.")
Question("edits", "List what was written to the copy of this snapshot.")
Question("save", """Write what `hindsight edits` lists to a file, for `hindsight refine`.

hindsight save edits FILE""")
Question("events", """List the events of the recording around the present position.

hindsight events [N] [thread TID] [syscall | signal | fork | exec | thread | snapshot]...""")
