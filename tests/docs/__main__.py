"""Write the pages and draw the pictures anew; with `record`, first the run that they are about."""

from __future__ import annotations

import sys

from tests.docs.pages import LOG, write
from tests.docs.pictures import draw_all
from tests.docs.recording import record

if sys.argv[1:] == ["record"]:
    LOG.unlink(missing_ok=True)
    record(LOG)
print(*write(), *draw_all(), sep="\n")
