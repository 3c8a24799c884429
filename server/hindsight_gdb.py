"""Commands for gdb that jump within a recording.

`monitor goto` moves the program behind gdb's back: gdb goes on showing the registers and memory it
has cached. These commands run the monitor command and then make gdb look again.

    hindsight goto start | end | POSITION | PERCENT% | snapshot N
    hindsight start, hindsight end
    hindsight when, hindsight snapshots, hindsight events
"""

import gdb


def _monitor(command):
    """Runs `monitor COMMAND`. Returns (output, whether it succeeded)."""
    output = gdb.execute("monitor " + command, to_string=True)
    return output, not output.startswith("hindsight: ")


def _forget():
    """Makes gdb forget all it knows of the program's state."""
    gdb.execute("maintenance flush register-cache", to_string=True)
    gdb.execute("maintenance flush dcache", to_string=True)
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
    _forget()
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
hindsight goto snapshot 3      a snapshot, as `hindsight snapshots` lists them"""

    PLACES = ("start", "end", "snapshot")

    def __init__(self):
        super().__init__("hindsight goto", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        if not argument.strip():
            raise gdb.GdbError("Where to? start, end, POSITION, PERCENT% or snapshot N")
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


Hindsight()
Goto()
Jump("start")
Jump("end")
Question("when", "Show the present position in the recording.")
Question("snapshots", "List the full keyframes of the recording, numbered.")
Question("events", "List the events of the recording.")
