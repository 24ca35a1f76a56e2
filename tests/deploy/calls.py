"""Whether the unit's filter lets through every system call that a server made: calls.py STRACE_OUTPUT UNIT."""

import pathlib
import re
import subprocess
import sys


def expanded(name):
    """The calls of a set, which may have sets in it."""
    if not name.startswith("@"):
        return {name}
    told = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in told.stdout.splitlines()[1:]]
    calls = set()
    for line in lines:
        if line and not line.startswith("#"):
            calls |= expanded(line)
    return calls


def allowed(unit):
    calls = set()
    for line in pathlib.Path(unit).read_text().splitlines():
        if line.startswith("SystemCallFilter="):
            names = line.removeprefix("SystemCallFilter=")
            these = set().union(*(expanded(name) for name in names.removeprefix("~").split()))
            calls = calls - these if names.startswith("~") else calls | these
    return calls


def main():
    trace, unit = sys.argv[1:]
    made = set(re.findall(r"^\d+ +(?:<\.\.\. )?([a-z_0-9]+)(?:\(| resumed>)", pathlib.Path(trace).read_text(errors="replace"), re.M))
    # Of a run of real work, not of one that ended at once.
    assert {"mprotect", "accept4", "setpriority", "prlimit64", "execve"} <= made, made
    if refused := sorted(made - allowed(unit)):
        sys.exit(f"the unit's filter refuses {', '.join(refused)}")
    print(f"{len(made)} kinds of system calls were made, and the filter lets all of them through")


main()
