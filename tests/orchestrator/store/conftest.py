"""Have failed assertions of the conformance suite show their values."""

import pytest

pytest.register_assert_rewrite("orchestrator.store.conformance")
