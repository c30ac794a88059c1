"""What catches an error goes on catching it: each class of the tree is caught by these, and by no other class of ours."""

from __future__ import annotations

import pytest

from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import OrchestratorError

TREE = """
harnesses.errors:HarnessError
harnesses.errors:ScopeError                                  HarnessError
harnesses.errors:StepTimeout                                 HarnessError
harnesses.errors:DeadlineExceeded                            HarnessError
harnesses.errors:MailboxFull                                 HarnessError
harnesses.errors:AskTimeout                                  HarnessError
harnesses.errors:BudgetExhausted                             HarnessError
harnesses.errors:NoRestart                                   HarnessError
harnesses.errors:HarnessMisuse                               NoRestart HarnessError
harnesses.messages.requests:WrongMessage                     HarnessMisuse NoRestart HarnessError
harnesses.governance.errors:GuardrailError                   HarnessMisuse NoRestart HarnessError
harnesses.errors:StateError                                  NoRestart HarnessError
harnesses.errors:Unstorable                                  NoRestart HarnessError
harnesses.errors:RecordTooLarge                              Unstorable NoRestart HarnessError
harnesses.pipeline.plan.ids:PipelineInvalid                    NoRestart HarnessError
harnesses.errors:Refused                                     HarnessError
harnesses.errors:ApprovalDenied                              Refused HarnessError
harnesses.governance.approved_commands:CommandRefused        Refused HarnessError
harnesses.trading.market.broker:OrderRefused                 Refused HarnessError
harnesses.errors:Waiting                                     HarnessError
harnesses.errors:NotReady                                    Waiting HarnessError
harnesses.errors:UnknownOutcome                              Waiting HarnessError
harnesses.errors:Latched                                     Waiting HarnessError
harnesses.errors:ApprovalExpired                             Waiting HarnessError
harnesses.errors:ApprovalInvalid                             Waiting HarnessError
harnesses.governance.errors:GuardrailTripped                 Waiting HarnessError
harnesses.trading.trading_harness:BooksDiffer                Waiting HarnessError
harnesses.agents.errors:AgentFailed                          HarnessError
harnesses.agents.errors:AgentTimedOut                        AgentFailed HarnessError
harnesses.governance.limits.counted_agent:AgentStopped       AgentFailed HarnessError
harnesses.agents.errors:AgentMissing                         AgentFailed NotReady Waiting HarnessError
harnesses.agents.errors:AgentUnavailable                     AgentFailed NotReady Waiting HarnessError
harnesses.features.errors:FeatureError                       HarnessError
harnesses.features.errors:ChatFailed                         FeatureError HarnessError
harnesses.features.errors:HealthCheckFailed                  FeatureError HarnessError
harnesses.features.errors:InvalidRequest                     FeatureError NoRestart HarnessError
harnesses.coding.sources.problems:NothingToDo                InvalidRequest FeatureError NoRestart HarnessError
harnesses.features.errors:MemoryFailed                       FeatureError HarnessError
harnesses.coding.git:GitError                                MemoryFailed FeatureError HarnessError
harnesses.features.errors:NotReady                           FeatureError NotReady Waiting HarnessError
harnesses.features.errors:ValidationFailed                   FeatureError HarnessError
harnesses.governance.errors:ContractError                    HarnessError
harnesses.governance.errors:NotClaimed                       ContractError HarnessError
harnesses.governance.errors:EvidenceError                    HarnessError
harnesses.governance.errors:NoProgressMade                   HarnessError
harnesses.memory.memory_model:MemoryUnusable                 HarnessError
harnesses.memory.memory_model:EmbedderMissing                MemoryUnusable NotReady Waiting HarnessError
harnesses.errors:UsageError
harnesses.errors:UnknownHarness                              UsageError
orchestrator.errors:AlreadyRunning                           UsageError
orchestrator.errors:StateChanged                             UsageError
orchestrator.errors:HarnessFailed
orchestrator.errors:GaveUp                                   HarnessFailed
orchestrator.errors:OwnershipError
orchestrator.errors:OwnedElsewhere                           OwnershipError
orchestrator.errors:OwnershipLost                            OwnershipError
orchestrator.errors:StoreError
orchestrator.errors:StoreBusy                                StoreError
orchestrator.errors:StoreCorrupt                             StoreError
orchestrator.errors:StoreLost                                StoreError
orchestrator.errors:StoreUnusable                            StoreError
orchestrator.errors:SystemTaskFailed
orchestrator.errors:IllegalTransition
harnesses.trading.market.bars:BadMarketData
harnesses.trading.market.broker:BrokerUnavailable
harnesses.trading.market.feed:FeedUnavailable
"""
"""Each class, and the classes between it and `OrchestratorError`, which catches all."""


@pytest.mark.parametrize("row", TREE.strip().splitlines(), ids=lambda row: row.split()[0])
def test_an_error_is_caught_by_the_same_classes(row: str) -> None:
    place, *wanted = row.split()
    above = [kind for kind in load_object(place).__mro__[1:] if issubclass(kind, OrchestratorError)]

    assert sorted(kind.__name__ for kind in above) == sorted([*wanted, "OrchestratorError"])
