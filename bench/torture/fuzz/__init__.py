"""Inputs that nobody should send: one target for each thing that is read from outside.

target.py    what a target is, and what happens to one input
exposition.py ... bundle.py   a target each
targets.py   all of them
mutation.py  inputs made of others, by a seed: the short runs of `make test`, and the soak
session.py   one process that fuzzes, with atheris; campaign.py starts it again until its time is over
http_api.py  the whole HTTP API, by its OpenAPI schema, with schemathesis
"""
