"""Everything a store keeps beside samples, each kind by who knows its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.store.access import AuditRecords, TokenRecords
from trilens.store.events import EventRecords
from trilens.store.findings import FindingRecords
from trilens.store.fixes import FixRecords
from trilens.store.gpus import GpuRecords
from trilens.store.imports import ImportRecords
from trilens.store.incidents import IncidentRecords
from trilens.store.ledger import Ledger
from trilens.store.ledger_facts import LedgerFacts
from trilens.store.machines import MachineRecords
from trilens.store.notifications import NotificationRecords
from trilens.store.remembered_reads import RememberedReads
from trilens.store.runs import RunRecords
from trilens.store.step_grids import StepGrids
from trilens.store.tracked_runs import TrackedRunRecords
from trilens.store.workloads import WorkloadRecords

if TYPE_CHECKING:
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter


class KeptRecords:
    """Thread-safe."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        reads = RememberedReads(engine)
        self.workloads = WorkloadRecords(engine, writer, reads)
        self.gpus = GpuRecords(engine, writer, reads)
        self.events = EventRecords(engine, writer, reads)
        self.findings = FindingRecords(engine, writer, reads)
        self.incidents = IncidentRecords(engine, writer, reads)
        self.fixes = FixRecords(engine, writer)
        self.tokens = TokenRecords(engine, writer)
        self.audit = AuditRecords(engine, writer)
        self.notifications = NotificationRecords(engine)
        self.runs = RunRecords(engine, reads)
        self.step_grids = StepGrids(engine)
        self.machines = MachineRecords(engine, writer)
        self.imports = ImportRecords(engine)
        self.ledger = Ledger(engine)
        self.ledger_facts = LedgerFacts(engine, self.runs, self.machines, self.imports, self.ledger)
        self.tracked_runs = TrackedRunRecords(engine, writer, reads)
