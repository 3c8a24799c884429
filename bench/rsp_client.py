"""A client of the GDB remote serial protocol, with what the measurements need."""

import socket


class RspClient:
    """One connection to a server on a Unix socket. Raises OSError or ValueError on failure."""

    def __init__(self, path, timeout_s=600):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        self._socket.connect(path)
        self._pending = b""
        self._ack = True
        self.ask("qSupported:swbreak+;hwbreak+;vContSupported+")
        if self.ask("QStartNoAckMode") == "OK":
            self._ack = False
        self.ask("?")

    def close(self):
        self._socket.close()

    def send(self, text):
        body = text.encode("latin-1")
        self._socket.sendall(b"$%s#%02x" % (body, sum(body) & 0xFF))

    def receive(self):
        """The next packet from the server that is not console output."""
        while True:
            start = self._pending.find(b"$")
            end = self._pending.find(b"#", start)
            if start < 0 or end < 0 or len(self._pending) < end + 3:
                got = self._socket.recv(1 << 16)
                if not got:
                    raise OSError("the server closed the connection")
                self._pending += got
                continue
            body = self._pending[start + 1:end]
            self._pending = self._pending[end + 3:]
            if self._ack:
                self._socket.sendall(b"+")
            if body[:1] == b"O" and body != b"OK":
                continue
            return body.decode("latin-1")

    def ask(self, text):
        self.send(text)
        return self.receive()

    def monitor(self, command):
        reply = self.ask("qRcmd," + command.encode().hex())
        if reply.startswith("E"):
            raise ValueError("monitor %s: %s" % (command, reply))

    def general_register(self, number):
        """Registers 0 to 15 in gdb's order: rax rbx rcx rdx rsi rdi rbp rsp r8 ... r15."""
        text = self.ask("g")[16 * number:16 * number + 16]
        return int.from_bytes(bytes.fromhex(text), "little")

    def pass_signals(self, on):
        """Whether signals are passed without a stop, as by gdb's `handle all pass nostop`."""
        numbers = ";".join("%x" % number for number in range(1, 150)) if on else ""
        if self.ask("QPassSignals:" + numbers) != "OK":
            raise ValueError("QPassSignals is refused")

    def run_to_end(self, packet):
        """Resumes by `packet` until an end of the recording; how often it stopped before."""
        for stops in range(1000000):
            reply = self.ask(packet)
            if "replaylog" in reply:
                return stops
            if reply[:1] not in "TS":
                raise ValueError("%s: %s" % (packet, reply))
        raise ValueError("%s: does not end" % packet)
