"""The schema says nothing twice."""

from __future__ import annotations

from collections import Counter

from trilens.serve.openapi import document


def test_no_operation_has_two_parameters_of_one_name_in_one_place() -> None:
    operations = [
        (path, method, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(operations) > 50
    twice = [
        (path, method, name)
        for path, method, operation in operations
        for name, count in Counter((one["in"], one["name"]) for one in operation["parameters"]).items()
        if count > 1
    ]
    assert twice == []
