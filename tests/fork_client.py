"""A command that a server of `tests.forks` runs: it starts in a hundredth of a second, because it
imports only what Python has built in.
"""

import _signal as signals  # type: ignore[import-not-found]
import _socket as sockets
import marshal
import posix
import sys

server = sockets.socket(sockets.AF_UNIX)
server.connect(sys.argv[1])
request = marshal.dumps((sys.argv[2:], dict(posix.environ), posix.getcwd(), posix.getpid()))
server.sendall(len(request).to_bytes(4, "little"))
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
sent = server.sendmsg([request], [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, files)])
server.sendall(request[sent:])
# Only the job writes to these, so that whoever reads sees its end.
for number in range(3):
    posix.close(number)
code = int.from_bytes(server.recv(4), "little", signed=True)
if code < 0:
    if -code != signals.SIGKILL:
        signals.signal(-code, signals.SIG_DFL)
    posix.kill(posix.getpid(), -code)
posix._exit(code)
