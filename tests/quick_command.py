"""`regard` without waiting for torch: one process imports it, and each command is a fork of that process.

`python quick_command.py serve SOCKET` is that process; `write_command` makes a program called `regard` that asks it.
The command's own code runs, with the caller's files, folder and environment.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

CLIENT = """#!{python} -SE
import json, os, signal, socket, sys
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect({address!r})
request = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(asked, [json.dumps(request).encode()], [0, 1, 2])
process = int(asked.recv(64))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(process, number))
code = asked.recv(64)
sys.exit(int(code) if code else 70)
"""


def write_command(folder: Path, address: Path) -> None:
    """`folder/regard`, for a PATH."""
    program = folder / "regard"
    program.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)


def serve(address: str) -> None:
    # What commands import is imported once; nothing is computed here, for threads do not live through a fork.
    import matplotlib.figure  # noqa: F401
    import sacrebleu  # noqa: F401
    import torch

    import regard.app.cli
    import regard.app.looking
    import regard.app.results
    import regard.jobs
    import regard.jobs.engines  # noqa: F401

    with torch.device("meta"):
        torch.empty(1).normal_()  # what opening a run asks for first; PyTorch imports 800 modules to answer

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(address)
        door.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever asked is told by the child itself
        print("ready", flush=True)
        while True:
            asked, _ = door.accept()
            if os.fork() == 0:
                door.close()
                answer(asked)
            asked.close()


def answer(asked: socket.socket) -> None:
    """Run one command, and tell its process and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    request = json.loads(message)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["regard", *request["arguments"]]
    asked.send(str(os.getpid()).encode())
    from regard.app.cli import main

    code = 70
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        asked.send(str(code).encode())
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[2])
