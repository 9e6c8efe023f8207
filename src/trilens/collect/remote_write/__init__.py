"""Prometheus remote write, 1.0 and 2.0: the receiver, and a small encoder for sending."""

from trilens.collect.remote_write.encode import encode
from trilens.collect.remote_write.receiver import RemoteWriteReceiver, WriteResult

__all__ = ["RemoteWriteReceiver", "WriteResult", "encode"]
