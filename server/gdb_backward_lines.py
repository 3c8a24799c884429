"""Lets reverse-next and reverse-step go back through a source line at once.

The second part of hindsight_gdb.py. gdb asks a remote server for one instruction after the other
and does not say how far it means to go, so this sends ahead which instructions each line of the
function has, and from where else control enters them.
"""

import re

import gdb

# Functions longer than this are not looked through for jumps: gdb disassembles 100 KB a second.
_LONGEST_FUNCTION_BYTES = 16384
_LONGEST_PACKET_BYTES = 100000
# A line that calls one of these is entered from elsewhere than its jumps and calls say.
_ENTERED_FROM_ELSEWHERE = re.compile(r"setjmp|getcontext|swapcontext|makecontext")
_INSTRUCTION = re.compile(r"(?:(?:bnd|notrack|data16|rep\w*|[cdefgs]s)\s+)*"
                          r"(?:(?P<jump>j\w+|loop\w*|xbegin)|(?P<call>l?call\w*))\S*\s*"
                          r"(?:0x(?P<target>[0-9a-f]+)\b)?")
# The server distinguishes the frame of a function from those it called by the stack pointer: within
# a line it must not rise above where it was in the line's first state.
_RAISES_STACK_POINTER = re.compile(
    r"(?:rep\w*\s+|bnd\s+)?(?:pop|leave|ret)"
    r"|(?:add|lea|mov|xchg)\w*\s+(?:rsp,|.*,\s*%rsp$)")


class _Line:
    """Instructions [start, end) of a source line, and those elsewhere that may jump into it."""

    def __init__(self, start, end):
        self.start, self.end = start, end
        self.entries, self.calls, self.plain = [], False, True  # plain: nothing unusual in it

    def __contains__(self, address):
        return self.start <= address < self.end


def _lines_between(symtab, start, end):
    lines = {}
    for entry in symtab.linetable():
        if start <= entry.pc < end:
            sal = gdb.find_pc_line(entry.pc)
            if sal.line and sal.last is not None:
                lines[sal.pc] = _Line(sal.pc, sal.last + 1)
    return list(lines.values())


def _lines_of_function(symtab, start, end, architecture):
    lines = _lines_between(symtab, start, end)
    for instruction in architecture.disassemble(start, end - 1):
        text, address = instruction["asm"].rstrip(), instruction["addr"]
        if _RAISES_STACK_POINTER.match(text):
            for line in lines:
                line.plain &= address not in line
        match = _INSTRUCTION.match(text)
        if not match:
            continue
        target = int(match.group("target"), 16) if match.group("target") else None
        for line in lines:
            if match.group("call"):
                line.calls |= address in line
                line.plain &= not (address in line and
                                   _ENTERED_FROM_ELSEWHERE.search(text))
            # Where an indirect jump goes is not known.
            elif address not in line and (target is None or target in line):
                line.entries.append(address)
    for line in lines:
        line.entries += [start] if line.start != start else []  # certainly not before that
    return [line for line in lines if line.plain]


class _BackwardLines:
    """Lets the server go backward through a whole line: reverse-next and reverse-step ask it for
    one instruction after the other, and do not say how far they mean to go."""

    def __init__(self):
        self._known = {}  # by range of the function
        self._told = False
        gdb.events.stop.connect(lambda event: self._tell([]) if self._told else None)
        gdb.events.new_objfile.connect(lambda event: self._known.clear())

    def _tell(self, lines):
        text = ";".join(",".join("%x" % number for number in [line.start, line.end] + line.entries)
                        for line in lines)
        if len(text) > _LONGEST_PACKET_BYTES:
            return
        self._told = _send("QHindsightBackwardLines:" + text) and bool(lines)

    def _lines_of(self, frame):
        """Of the function that the frame is in, inlined ones being parts of it."""
        try:
            block, function = frame.block(), None
        except RuntimeError:
            return []  # no symbols
        while block is not None and not block.is_static:
            function = block if block.function is not None else function
            block = block.superblock
        if function is None or function.end - function.start > _LONGEST_FUNCTION_BYTES:
            return []
        key = (function.start, function.end)
        if key not in self._known:
            self._known[key] = _lines_of_function(frame.find_sal().symtab, *key,
                                                  frame.architecture())
        return self._known[key]

    def announce(self, into_calls):
        """gdb is about to step backward over lines, or into what they call."""
        try:
            frame = gdb.newest_frame()
            lines = list(self._lines_of(frame))
            if frame.older() is not None:
                lines += [line for line in self._lines_of(frame.older()) if line not in lines]
            self._tell([line for line in lines if not (into_calls and line.calls)])
        except Exception:  # pylint: disable=broad-except; without this it steps, only slowly
            pass


_backward_lines = _BackwardLines()
_define_hook("hook-reverse-next", "_backward_lines.announce(into_calls=False)")
_define_hook("hook-reverse-step", "_backward_lines.announce(into_calls=True)")
