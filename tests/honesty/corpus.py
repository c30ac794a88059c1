"""All agents of the corpus."""

from __future__ import annotations

from tests.honesty.bending import BENDING
from tests.honesty.cheating import CHEATS
from tests.honesty.everyday import EVERYDAY
from tests.honesty.honest import HONEST
from tests.honesty.outside import OUTSIDE

ALL_CHEATS = tuple(dict.fromkeys((*CHEATS, *BENDING, *OUTSIDE)))
ALL_HONEST = tuple(dict.fromkeys((*HONEST, *EVERYDAY)))
