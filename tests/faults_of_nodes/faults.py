"""All faults, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.faults_of_nodes.fleet_faults import FLEET_FAULTS
from tests.faults_of_nodes.network_faults import NETWORK_FAULTS
from tests.faults_of_nodes.node_faults import NODE_FAULTS
from tests.faults_of_nodes.server_faults import SERVER_FAULTS
from tests.faults_of_nodes.trial import Fault

FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in (*NODE_FAULTS, *FLEET_FAULTS, *NETWORK_FAULTS, *SERVER_FAULTS)}
