"""What went wrong, as exceptions. Each is also the built-in exception that fits, so `except ValueError` works."""


class Error(Exception):
    """Any error of bantam. The message is one line that names the place, what was expected and what was found."""

    __module__ = "bantam"


class InvalidArgument(Error, ValueError):
    """The caller asked for something that makes no sense."""


class NotFound(Error, FileNotFoundError):
    """A file, tensor, key or name does not exist."""


class FileError(Error, OSError):
    """The operating system refused a read or a write."""


class Corrupt(Error, ValueError):
    """Bytes from outside break their format."""


class Unsupported(Error, NotImplementedError):
    """Well-formed, but nothing here can handle it (yet)."""


class OutOfMemory(Error, MemoryError):
    """There is no room."""


class Cancelled(Error):
    """Session.cancel() or a progress callable asked to stop."""


# By the library's frozen codes.
BY_CODE = {1: InvalidArgument, 2: NotFound, 3: FileError, 4: Corrupt, 5: Unsupported, 6: OutOfMemory, 7: Cancelled}
