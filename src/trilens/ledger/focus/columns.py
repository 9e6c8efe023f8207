"""The columns of the export: types, what may be missing and which values there are, as FOCUS 1.2 has them.

Columns of FOCUS come first, in the order of the alphabet, then our own, which begin with `x_`. What FOCUS
wants only of providers with commitments, capacity reservations, invoices or several currencies is not here.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import pyarrow as pa

COST_SCALE: Final = 9  # the ledger's quantum
FINE_SCALE: Final = 15  # of quantities and prices: a millisecond of an hour has no end in decimals


class Kind(Enum):
    STRING = "String"
    DECIMAL = "Decimal"
    TIME = "Date/Time"
    JSON = "JSON"
    INTEGER = "Integer"  # only of our own columns


class Column(NamedTuple):
    name: str
    kind: Kind
    nullable: bool = False
    allowed: tuple[str, ...] = ()
    scale: int = COST_SCALE

    @property
    def arrow(self) -> pa.DataType:
        match self.kind:
            case Kind.DECIMAL:
                return pa.decimal128(38, self.scale)
            case Kind.TIME:
                return pa.timestamp("ms", "UTC")
            case Kind.INTEGER:
                return pa.int64()
            case _:
                return pa.string()


SERVICE_NAME: Final = "GPU Compute"
SERVICE_CATEGORY: Final = "Compute"
SERVICE_SUBCATEGORY: Final = "Other (Compute)"
USAGE: Final = "Usage"
USAGE_BASED: Final = "Usage-Based"
UNIT: Final = "GPU-Hours"
# How a price came about. A reserved price is a rate that was agreed on: without the purchase of the
# reservation in the same data, it is no commitment in the sense of FOCUS. x_Purchase has our own word.
PRICING: Final = {"on-demand": "Standard", "reserved": "Standard", "spot": "Dynamic"}
OTHER_PRICING: Final = "Other"  # owned hardware, and what a price book calls by a name of its own

_FOCUS: Final = (
    Column("BilledCost", Kind.DECIMAL),
    Column("BillingAccountId", Kind.STRING),
    Column("BillingAccountName", Kind.STRING),
    Column("BillingAccountType", Kind.STRING),
    Column("BillingCurrency", Kind.STRING),
    Column("BillingPeriodEnd", Kind.TIME),
    Column("BillingPeriodStart", Kind.TIME),
    Column("ChargeCategory", Kind.STRING, allowed=(USAGE,)),
    Column("ChargeClass", Kind.STRING, nullable=True, allowed=("Correction",)),
    Column("ChargeDescription", Kind.STRING),
    Column("ChargeFrequency", Kind.STRING, allowed=(USAGE_BASED,)),
    Column("ChargePeriodEnd", Kind.TIME),
    Column("ChargePeriodStart", Kind.TIME),
    Column("ConsumedQuantity", Kind.DECIMAL, scale=FINE_SCALE),
    Column("ConsumedUnit", Kind.STRING, allowed=(UNIT,)),
    Column("ContractedCost", Kind.DECIMAL),
    Column("ContractedUnitPrice", Kind.DECIMAL, scale=FINE_SCALE),
    Column("EffectiveCost", Kind.DECIMAL),
    Column("InvoiceIssuerName", Kind.STRING),
    Column("ListCost", Kind.DECIMAL),
    Column("ListUnitPrice", Kind.DECIMAL, scale=FINE_SCALE),
    Column("PricingCategory", Kind.STRING, allowed=("Standard", "Dynamic", OTHER_PRICING)),
    Column("PricingQuantity", Kind.DECIMAL, scale=FINE_SCALE),
    Column("PricingUnit", Kind.STRING, allowed=(UNIT,)),
    Column("ProviderName", Kind.STRING),
    Column("PublisherName", Kind.STRING),
    Column("RegionId", Kind.STRING, nullable=True),
    Column("RegionName", Kind.STRING, nullable=True),
    Column("ResourceId", Kind.STRING),
    Column("ResourceName", Kind.STRING, nullable=True),
    Column("ResourceType", Kind.STRING, allowed=("GPU", "GPU Node")),
    Column("ServiceCategory", Kind.STRING, allowed=(SERVICE_CATEGORY,)),
    Column("ServiceName", Kind.STRING, allowed=(SERVICE_NAME,)),
    Column("ServiceSubcategory", Kind.STRING, allowed=(SERVICE_SUBCATEGORY,)),
    Column("SkuId", Kind.STRING),
    Column("SkuMeter", Kind.STRING),
    Column("SkuPriceDetails", Kind.JSON),
    Column("SkuPriceId", Kind.STRING),
    Column("SubAccountId", Kind.STRING, nullable=True),
    Column("SubAccountName", Kind.STRING, nullable=True),
    Column("SubAccountType", Kind.STRING, nullable=True),
    Column("Tags", Kind.JSON),
)
# Our own columns, and what they are called in the ledger's table.
OWN: Final = {
    "x_Basis": "basis",
    "x_Bucket": "bucket",
    "x_Cause": "cause",
    "x_CostCentre": "cost_centre",
    "x_Experiment": "experiment",
    "x_GpuModel": "model",
    "x_Namespace": "namespace",
    "x_Node": "node",
    "x_Purchase": "purchase",
    "x_Queue": "queue",
    "x_Run": "run",
    "x_Team": "team",
    "x_Workload": "workload_name",
    "x_WorkloadKind": "workload_kind",
}
OWN_TIMES: Final = {
    "x_GpuMilliseconds": "gpu_ms",
    "x_ThrottledGpuMilliseconds": "throttled_ms",
}
USEFUL: Final = "x_UsefulGpuMilliseconds"
SIGNAL: Final = "x_SignalGpuMilliseconds"

COLUMNS: Final = (
    *_FOCUS,
    *(Column(name, Kind.STRING, nullable=name not in ("x_Basis", "x_Bucket", "x_Cause")) for name in OWN),
    *(Column(name, Kind.INTEGER) for name in (*OWN_TIMES, USEFUL, SIGNAL)),
)
SCHEMA: Final = pa.schema(
    [pa.field(column.name, column.arrow, nullable=column.nullable) for column in COLUMNS],
    metadata={"focus_version": "1.2", "dataset": "CostAndUsage"},
)
