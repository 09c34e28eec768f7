"""`regard` without the import time of torch: a server process imports it, and each command is a fork of it.

`python quick_command.py serve SOCKET` is the server; `write_commands` writes programs called `regard` and `torchrun`
that connect to it. The real command runs, with the caller's files, working directory and environment.
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
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect({address!r})
environment = dict(os.environ)
pid_pipe = environment.pop("QUICK_PID_PIPE", None)
request = {{"arguments": [{name!r}, *sys.argv[1:]], "folder": os.getcwd(), "environment": environment}}
socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
process = int(connection.recv(64))
if pid_pipe:
    os.write(int(pid_pipe), str(process).encode())
    os.close(int(pid_pipe))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(process, number))
code = int(connection.recv(64) or 70)
if code < 0:  # exit by the same signal as the command
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
    """A command of `write_commands` that can be signalled like a normal process, also with SIGKILL and SIGSTOP.

    `first` is code that the command runs before its own.
    """

    def __init__(self, command: list[str], env: dict[str, str], first: str = "", **options) -> None:
        read, write = os.pipe()
        environment = {**env, "QUICK_PID_PIPE": str(write), "QUICK_FIRST": first}
        super().__init__(command, env=environment, pass_fds=[write], encoding="utf-8", **options)
        os.close(write)
        with os.fdopen(read) as pipe:
            self.number = int(pipe.read())  # process id of the command; `pid` is that of the client program

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.number, number)


def serve(address: str) -> None:
    # Import what commands need, but compute nothing: threads do not survive a fork.
    import matplotlib.figure  # noqa: F401
    import sacrebleu  # noqa: F401
    import torch
    import torch.distributed.run

    import regard.cli.main
    import regard.cli.terminal
    import regard.tasks.diffusion.model
    import regard.tasks.image_classification.export
    import regard.tasks.language_modeling.export
    import regard.tasks.question_answering.model
    import regard.tasks.tagging.model
    import regard.tasks.translation.export
    import regard.tasks.translation.exported_translator
    import regard.viz.analysis
    import regard.viz.heatmaps
    import regard.viz.html_page
    import regard.viz.image_attention
    import regard.viz.terminal  # noqa: F401

    with torch.device("meta"):
        torch.empty(1).normal_()  # imports 800 modules of PyTorch that opening a run needs

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children report their exit codes themselves
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                serve_command(connection)
            connection.close()


def serve_command(connection: socket.socket) -> None:
    """Runs one command in a child process; sends its process id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    process = os.fork()
    if process == 0:
        connection.close()
        run(json.loads(message), files)
    for file in files:
        os.close(file)  # so that readers of the output see its end
    connection.send(str(process).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):  # the client may have exited
        connection.send(str(code).encode())
    os._exit(0)


def run(request: dict, files: list[int]) -> None:
    """Runs the command in this process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = request["arguments"]
    import torch

    if threads := os.environ.get("OMP_NUM_THREADS"):  # OpenMP read the value of the parent process
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
