"""The whole tree of settings, and its leaves by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, PrivateAttr, model_validator

from trilens.settings.access import AccessSettings
from trilens.settings.agent import AgentSettings
from trilens.settings.agents import AgentsSettings
from trilens.settings.alerting import AlertingSettings
from trilens.settings.budgets import BudgetsSettings
from trilens.settings.cure import CureSettings
from trilens.settings.endpoint import OtlpSettings, RemoteWriteSettings, SourceSettings
from trilens.settings.group import Group
from trilens.settings.kubernetes import KubernetesSettings
from trilens.settings.ledger import LedgerSettings
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.prices import PricesSettings
from trilens.settings.query import QuerySettings
from trilens.settings.replicas import ReplicasSettings
from trilens.settings.rules import RulesSettings
from trilens.settings.scrape import ScrapeSettings
from trilens.settings.server import ServerSettings
from trilens.settings.storage import StorageSettings
from trilens.settings.topology import TopologySettings
from trilens.settings.trackers import MlflowSettings, TensorboardSettings, WandbSettings
from trilens.settings.yaml_file import Place, YamlFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

ENVIRONMENT_PREFIX = "TRILENS_"


class Settings(Group):
    server: ServerSettings = Field(default_factory=ServerSettings, description="Listening, access, logs.")
    access: AccessSettings = Field(
        default_factory=AccessSettings,
        description="Who may come in, and do what: [security.md](security.md).",
    )
    storage: StorageSettings = Field(default_factory=StorageSettings, description="Where samples are kept.")
    replicas: ReplicasSettings = Field(
        default_factory=ReplicasSettings,
        description="Several servers of which one works at a time: [scale.md](scale.md#several-servers).",
    )
    query: QuerySettings = Field(default_factory=QuerySettings, description="Limits of a query.")
    scrape: ScrapeSettings = Field(default_factory=ScrapeSettings, description="What is scraped.")
    rules: RulesSettings = Field(default_factory=RulesSettings, description="Recording and alerting rules.")
    alerting: AlertingSettings = Field(
        default_factory=AlertingSettings, description="Who is told of incidents: [delivery.md](delivery.md)."
    )
    source: SourceSettings = Field(
        default_factory=SourceSettings, description="An existing server to send queries to."
    )
    remote_write: RemoteWriteSettings = Field(
        default_factory=RemoteWriteSettings, description="A server to send Trilens's own series to."
    )
    otlp: OtlpSettings = Field(
        default_factory=OtlpSettings, description="A collector to send steps to: [otlp.md](otlp.md)."
    )

    agent: AgentSettings = Field(
        default_factory=AgentSettings,
        description="What `trilens agent` reads on its node, and where it listens.",
    )
    agents: AgentsSettings = Field(
        default_factory=AgentsSettings, description="The agents that the server asks: [agent.md](agent.md)."
    )

    kubernetes: KubernetesSettings = Field(
        default_factory=KubernetesSettings, description="Which clusters are watched."
    )
    ownership: OwnershipSettings = Field(
        default_factory=OwnershipSettings,
        description="Which team, cost centre, experiment and queue a workload belongs to.",
    )
    topology: TopologySettings = Field(
        default_factory=TopologySettings,
        description="Node labels that tell where a node stands, and how it was bought.",
    )

    ledger: LedgerSettings = Field(
        default_factory=LedgerSettings, description="How GPU time is booked: [ledger.md](ledger.md)."
    )
    prices: PricesSettings = Field(
        default_factory=PricesSettings, description="What GPUs and nodes cost: [prices.md](prices.md)."
    )
    budgets: BudgetsSettings = Field(
        default_factory=BudgetsSettings, description="What may be spent: [cost.md](cost.md)."
    )

    cure: CureSettings = Field(
        default_factory=CureSettings, description="What `trilens fix` may do: [fix.md](fix.md)."
    )

    mlflow: MlflowSettings = Field(
        default_factory=MlflowSettings, description="An MLflow server to follow: [trackers.md](trackers.md)."
    )
    wandb: WandbSettings = Field(default_factory=WandbSettings, description="Runs of W&B to follow.")
    tensorboard: TensorboardSettings = Field(
        default_factory=TensorboardSettings, description="Event files of TensorBoard to follow."
    )

    _document: YamlFile | None = PrivateAttr(default=None)

    def required_token(self) -> str | None:
        """The server's own token; raises ConfigError where anybody could come in."""
        return self.server.required_token(is_guarded=self.access.has_door, other_ways=self.access.ways_in)

    @property
    def base_dir(self) -> Path:
        """What relative paths inside the inline scrape configuration are relative to."""
        return self._document.file.parent if self._document is not None else Path()

    @property
    def scrape_place(self) -> Place:
        """Where the scrape configuration stands, for errors in it."""
        return Place(self._document, ("scrape",))

    def cluster_place(self, name: str, key: str) -> Place:
        """Where a key of a cluster stands, for errors in it."""
        return Place(self._document, ("kubernetes", "clusters", name, key))

    @property
    def agents_place(self) -> Place:
        """Where the agents are named, for errors in it."""
        return Place(self._document, ("agents", "scrape_config"))

    @property
    def alerting_place(self) -> Place:
        """Where receivers and routes stand, for errors in them."""
        return Place(self._document, ("alerting",))

    @property
    def from_empty_file(self) -> bool:
        return self._document is not None and not self._document.tree

    def read_from(self, document: YamlFile | None) -> Settings:
        """Remember the file these settings came from."""
        self._document = document
        return self

    @model_validator(mode="after")
    def _scrapes_are_readable(self) -> Settings:
        if self.source.url is not None and self.scrape.anything:
            raise ValueError(
                "scrape is set, but source.url sends every query to another server, where the scraped "
                "samples would never be seen; let that server scrape, or leave source.url out"
            )
        asked = [name for name, cluster in self.kubernetes.clusters.items() if cluster.scrapes]
        if self.source.url is not None and asked:
            raise ValueError(
                f"exporters, annotations or monitors of the cluster {asked[0]!r} are to be scraped, but "
                "source.url sends every query to another server; let that one scrape, or leave source.url out"
            )
        return self

    @model_validator(mode="after")
    def _replicas_find_the_data(self) -> Settings:
        if self.replicas.lease is not None and self.storage.url is None:
            raise ValueError(
                "replicas.lease is set, but each server would have its own data: name a ClickHouse server in "
                "storage.url"
            )
        return self

    @model_validator(mode="after")
    def _names_are_different(self) -> Settings:
        if self.agents.cluster in self.kubernetes.clusters:
            raise ValueError(
                f"agents.cluster: {self.agents.cluster!r} is the name of a watched cluster; choose another"
            )
        return self

    @model_validator(mode="after")
    def _rules_are_evaluated(self) -> Settings:
        for name in ("files", "slo_files"):
            if self.source.url is not None and getattr(self.rules, name):
                raise ValueError(
                    f"rules.{name} is set, but with source.url no rules are evaluated here; give the rules "
                    "to that server, or leave source.url out"
                )
        return self

    @model_validator(mode="after")
    def _there_are_alerts(self) -> Settings:
        named = [name for name, one in self.alerting.receivers.items() if one.alertmanager is not None]
        if self.source.url is not None and named:
            raise ValueError(
                f"alerting.receivers.{named[0]}: with source.url no rules are evaluated here, so there are "
                "no alerts to send to an Alertmanager; name it in that server's settings"
            )
        return self


class Leaf(NamedTuple):
    """One setting: `storage.data_dir`, also `TRILENS_STORAGE_DATA_DIR`."""

    group: str
    key: str
    field: FieldInfo

    @property
    def path(self) -> str:
        return f"{self.group}.{self.key}"

    @property
    def environment_name(self) -> str:
        return f"{ENVIRONMENT_PREFIX}{self.group}_{self.key}".upper()


def leaves() -> Iterator[Leaf]:
    """Every setting, in the order of declaration."""
    for group, info in Settings.model_fields.items():
        model = info.annotation
        assert isinstance(model, type)
        assert issubclass(model, Group)
        for name, field in model.model_fields.items():
            yield Leaf(group, field.alias or name, field)
