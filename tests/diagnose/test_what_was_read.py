"""What is not in a case is not there only where the whole cluster was asked for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from whole_case import CASE

from trilens.diagnose.case import Case
from trilens.diagnose.daemons import Daemon, DaemonState, on_node


@pytest.mark.parametrize("daemon", Daemon)
def test_a_daemon_of_which_nothing_is_known(daemon: Daemon) -> None:
    asked = on_node(Case(CASE), daemon, "n1")
    assert (asked.state, bool(asked.repair)) == (DaemonState.MISSING, True)
    assert on_node(Case(replace(CASE, kinds=())), daemon, "n1").state is DaemonState.UNTOLD
