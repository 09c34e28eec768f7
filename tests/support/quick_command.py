"""`regard` without waiting for torch: one process imports it, and each command is a fork of that process.

`python quick_command.py serve SOCKET` is that process; `write_commands` makes programs called `regard` and `torchrun`
that ask it. The command's own code runs, with the caller's files, folder and environment.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

CLIENT = """#!{python} -SE
import json, os, signal, socket, sys
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect({address!r})
surroundings = dict(os.environ)
tell = surroundings.pop("QUICK_TELL", None)
request = {{"arguments": [{name!r}, *sys.argv[1:]], "folder": os.getcwd(), "environment": surroundings}}
socket.send_fds(asked, [json.dumps(request).encode()], [0, 1, 2])
process = int(asked.recv(64))
if tell:
    os.write(int(tell), str(process).encode())
    os.close(int(tell))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(process, number))
code = int(asked.recv(64) or 70)
if code < 0:  # what ended the command ends this
    if -code in (signal.SIGTERM, signal.SIGINT):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def write_commands(folder: Path, address: Path) -> None:
    """`folder/regard` and `folder/torchrun`, for a PATH."""
    for name in ("regard", "torchrun"):
        program = folder / name
        program.write_text(CLIENT.format(python=sys.executable, address=str(address), name=name))
        program.chmod(0o755)


class QuickProcess(subprocess.Popen[str]):
    """A command of `write_commands` that can be signalled as one started anew: also killed, and stopped.

    `first` is code that the command runs before its own.
    """

    def __init__(self, command: list[str], env: dict[str, str], first: str = "", **options) -> None:
        read, write = os.pipe()
        surroundings = {**env, "QUICK_TELL": str(write), "QUICK_FIRST": first}
        super().__init__(command, env=surroundings, pass_fds=[write], encoding="utf-8", **options)
        os.close(write)
        with os.fdopen(read) as told:
            self.number = int(told.read())  # of the command; `pid` is that of the program which asked for it

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.number, number)


def serve(address: str) -> None:
    # What commands import is imported once; nothing is computed here, for threads do not live through a fork.
    import matplotlib.figure  # noqa: F401
    import sacrebleu  # noqa: F401
    import torch
    import torch.distributed.run

    import regard.cli.main
    import regard.cli.output
    import regard.cli.terminal
    import regard.tasks.diffusion.model
    import regard.tasks.engines
    import regard.tasks.image_classification.export
    import regard.tasks.language_modeling.export
    import regard.tasks.question_answering.model
    import regard.tasks.tagging.model
    import regard.tasks.translation.export
    import regard.viz.analysis
    import regard.viz.heatmaps
    import regard.viz.html_page
    import regard.viz.image_attention
    import regard.viz.terminal  # noqa: F401

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
    """Run one command in a process of its own, and tell its number and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    process = os.fork()
    if process == 0:
        asked.close()
        run(json.loads(message), files)
    for file in files:
        os.close(file)  # whoever reads what the command prints is told when it ends
    asked.send(str(process).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):  # who asked may be gone
        asked.send(str(code).encode())
    os._exit(0)


def run(request: dict, files: list[int]) -> None:
    """Become the command."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = request["arguments"]
    import torch

    if threads := os.environ.get("OMP_NUM_THREADS"):  # OpenMP read that of the process which was forked
        torch.set_num_threads(int(threads))
    exec(os.environ.get("QUICK_FIRST", ""), {})
    from torch.distributed.run import main as torchrun

    from regard.cli.main import main as regard

    code = 70
    try:
        torchrun() if sys.argv[0] == "torchrun" else regard()
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
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[2])
