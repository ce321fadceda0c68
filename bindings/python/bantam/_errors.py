"""What went wrong, as exceptions. Each is also the built-in exception that fits, so `except ValueError` works."""

import os


class Error(Exception):
    """Any error of bantam. The message is one line that names the place, what was expected and what was found."""

    __module__ = "bantam"


class _OfFile(Error):
    """Of a file: `errno`, `strerror` and `filename` as OSError has them, where they are known. The text stays the message."""

    __module__ = "bantam"

    def __init__(self, message, errno=None, filename=None):
        super().__init__(message)
        self.message = message
        self.errno = errno
        self.strerror = os.strerror(errno) if errno is not None else None
        self.filename = filename

    def __str__(self):
        return self.message

    def __reduce__(self):
        return type(self), (self.message, self.errno, self.filename)


class InvalidArgument(Error, ValueError):
    """The caller asked for something that makes no sense."""

    __module__ = "bantam"


class NotFound(_OfFile, FileNotFoundError):
    """A file, tensor, key or name does not exist."""

    __module__ = "bantam"


class FileError(_OfFile, OSError):
    """The operating system refused a read or a write."""

    __module__ = "bantam"


class Corrupt(Error, ValueError):
    """Bytes from outside break their format."""

    __module__ = "bantam"


class Unsupported(Error, NotImplementedError):
    """Well-formed, but nothing here can handle it (yet)."""

    __module__ = "bantam"


class GrammarError(Unsupported):
    """A text cannot go on under its grammar: the vocabulary has no token for what is next, or there are too many ways to read it."""

    __module__ = "bantam"


class OutOfMemory(Error, MemoryError):
    """There is no room."""

    __module__ = "bantam"


class Cancelled(Error):
    """cancel() or a progress callable asked to stop."""

    __module__ = "bantam"


class Late(Error, TimeoutError):
    """A request took longer than its timeout."""

    __module__ = "bantam"


class QueueFull(Error):
    """A scheduler has as many requests as it takes; ask again later."""

    __module__ = "bantam"


# By the library's frozen codes.
BY_CODE = {1: InvalidArgument, 2: NotFound, 3: FileError, 4: Corrupt, 5: Unsupported, 6: OutOfMemory, 7: Cancelled, 9: GrammarError}
