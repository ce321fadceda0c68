"""Control groups of Linux, in either version: what a process and the page cache behind it may take together."""

import os
import pathlib


def new_group(bound):
    """A control group of `bound` bytes, in the version that the machine has; None: it may not be made here."""
    for path, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(path) / f"bantam-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(bound))
            return group
        except OSError:
            group.rmdir()
    return None


def within(group, command):
    """The command line that enters the group and becomes `command`."""
    return ["sh", "-c", f"echo $$ > {group}/cgroup.procs && exec \"$@\"", "sh", *map(str, command)]
