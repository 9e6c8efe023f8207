"""What a Prometheus tells of itself: its targets, rules and state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.serve.routes import route

if TYPE_CHECKING:
    from trilens.serve.programs import ProgramsApi
    from trilens.serve.routes import GuardedRoute
    from trilens.serve.rules import RulesApi
    from trilens.serve.status import StatusApi
    from trilens.serve.targets import TargetsApi


@dataclass(frozen=True, slots=True)
class PrometheusApis:
    targets: TargetsApi
    programs: ProgramsApi
    rules: RulesApi
    status: StatusApi

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/v1/targets", self.targets.targets),
            route("/api/v1/targets/metadata", self.targets.metadata),
            route("/api/v1/scrape_pools", self.targets.pools),
            route("/api/v1/sd/programs", self.programs.programs),
            route("/api/v1/rules", self.rules.rules, narrowed=True),
            route("/api/v1/alerts", self.rules.alerts, narrowed=True),
            route("/api/v1/status/buildinfo", self.status.buildinfo, narrowed=True),
            route("/api/v1/status/config", self.status.config),
            route("/api/v1/status/flags", self.status.flags),
            route("/api/v1/status/runtimeinfo", self.status.runtimeinfo),
            route("/api/v1/status/tsdb", self.status.tsdb),
            route("/api/v1/format_query", self.status.format_query, "GET", "POST", narrowed=True),
            route("/api/promql/check", self.status.check_query, narrowed=True),
        ]
