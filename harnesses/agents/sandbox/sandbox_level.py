"""The levels of a sandbox, from nothing upwards."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """What confines a command. A higher level holds everything that a lower one holds."""

    NONE = "none"
    """Nothing: a command can do what its user can."""
    LANDLOCK = "landlock"
    """The kernel restricts files, TCP, signals and abstract sockets; limits of resources; no privileges. Linux 6.12."""
    BUBBLEWRAP = "bubblewrap"
    """Namespaces of its own for files, processes, users, IPC and the network, and all of the above. Linux with bubblewrap."""

    def reaches(self, demanded: Level) -> bool:
        """Return whether this level is at least the demanded one."""
        order = tuple(Level)
        return order.index(self) >= order.index(demanded)
