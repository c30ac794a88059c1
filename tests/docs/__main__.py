"""Write the pages and draw the pictures anew; with `record`, first the runs that they are about."""

from __future__ import annotations

import sys

from tests.docs.architecture_pages import write_architecture
from tests.docs.log_samples import record as record_samples
from tests.docs.pages import LOG, write
from tests.docs.pictures import draw_all
from tests.docs.recording import record

if sys.argv[1:] == ["record"]:
    LOG.unlink(missing_ok=True)
    record(LOG)
    record_samples()
print(*write(), *write_architecture(), *draw_all(), sep="\n")
