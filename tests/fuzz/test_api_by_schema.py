"""Every operation of the HTTP API as its own schema says: a few requests to each here, ten minutes of them in
the torture table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from long_form import rounds
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import APIOperation, Case

pytestmark = [pytest.mark.long, pytest.mark.hunt]

CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance]
A_FEW = settings(
    max_examples=rounds(short=2, long=50),
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[*HealthCheck],
)


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[APIOperation]]:
    with server(tmp_path_factory.mktemp("server")) as (url, _):
        schema = schemathesis.openapi.from_url(f"{url}/api/openapi.json", timeout=60)
        yield [found.ok() for found in schema.get_all_operations()]


def test_no_operation_fails_and_every_answer_is_what_its_schema_says(operations: list[APIOperation]) -> None:
    assert len(operations) > 50
    for operation in operations:

        @A_FEW
        @given(operation.as_strategy())
        def asked(case: Case) -> None:
            case.call_and_validate(checks=CHECKS, timeout=60)

        asked()
