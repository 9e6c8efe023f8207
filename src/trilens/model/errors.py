"""Every error Trilens raises on purpose.

TrilensError
├── ConfigError                a setting, a file of settings, or a command line
│   └── UnknownSetting         ... that nobody knows, with the nearest known one
├── RequestError               an API request whose parameters make no sense
│   ├── NotFound               ... that asks for something that is not there
│   ├── InvalidQuery           ... whose query is not PromQL, with the position
│   ├── NotReadYet             ... that asks for something that is not known yet
│   ├── Unidentified           ... from nobody that we know
│   ├── Forbidden              ... from somebody who may not
│   │   └── LoginRefused       ... log in
│   └── TooManyRequests        ... from somebody who asks too often
├── IntakeError                something sent to us that we cannot take
│   ├── ExpositionError        a scraped text that is not Prometheus text or OpenMetrics
│   ├── ScrapeError            a target that did not answer as it should
│   │   └── ScrapeLimitExceeded
│   ├── DiscoveryError         a list of targets that cannot be read
│   ├── KubeApiError           a Kubernetes API server that did not answer as it should
│   ├── FlightRecorderError    a dump of PyTorch's flight recorder that cannot be read
│   │   └── UnsafePickle       ... because it holds more than plain data, or too much of it
│   ├── BundleError            a bundle of a case that cannot be read
│   ├── OtlpError              an OTLP body that does not decode
│   │   └── OtlpUnsupported    ... in an encoding that Trilens does not speak
│   ├── NothingWritten         a backfill of which no sample was kept
│   ├── RunRecordsError        records of a run that cannot be read
│   │   ├── RunRecordsTooLarge ... because there are too many at once
│   │   └── RunIntakeBusy      ... now: there are more than can be written
│   └── RemoteWriteError       a remote-write body that does not decode
│       └── RemoteWriteUnsupported   ... in an encoding or a version that Trilens does not speak
├── QueryError
│   ├── PromQLSyntaxError      with its position
│   ├── PromQLUnsupported      valid PromQL that Trilens does not evaluate
│   ├── PromQLEvalError        a valid query that this data cannot answer
│   ├── PromQLScriptError      an evaluation script that cannot be read
│   ├── QueryTooLarge
│   ├── QueryTimeout
│   └── QueryCancelled
├── TemplateError              a template of an alert that cannot be parsed, or executed with its data
├── StoreError
│   ├── DataDirInUse           another process holds the directory
│   ├── StoreReadOnly          the disk is full: reads go on, writes are refused
│   ├── StoreDamaged           a part on disk does not read back
│   ├── SchemaTooNew           written by a newer Trilens
│   ├── NoDataDirectory        what was named as one is something else, or cannot be made
│   └── BackupError            a backup that cannot be made, or from which nothing can be restored
│       ├── BackupNotNow       ... here, or while another is being made
│       └── BackupMisnamed     ... because what was named is none, or no place for one
├── RanksMissing               a barrier to which not all ranks came, where the program asked to be told so
├── PreflightError             a preflight that could not be made
├── NodeError                  something of this machine that the agent cannot read
├── SourceError                the user's own Prometheus did not answer
├── ProviderAway               a provider of logins did not answer as it should
├── DeliveryError              a receiver of notifications did not take one
│   ├── ReceiverAway           ... now: it is sent again
│   └── NotificationRefused    ... and will not
├── TrackerError               an experiment tracker did not answer, or its file cannot be read
└── ServerError                a Trilens server did not answer a client command, or refused
    └── ServerSilent           ... for so long that nobody waits any more

An error knows how it leaves the program: its exit code on the command line, its HTTP status and
Prometheus error type on the API, and a hint that says what to do.
"""

from __future__ import annotations


class TrilensError(Exception):
    """Base of all errors that are meant to be read by a person."""

    exit_code = 2
    http_status = 500
    prometheus_type = "internal"
    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigError(TrilensError):
    """`where` is the file, line and column that is wrong, or the option or variable."""

    http_status = 400
    prometheus_type = "bad_data"

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        self.where = where
        super().__init__(f"{where}: {message}" if where else message, hint=hint)


class UnknownSetting(ConfigError):
    """A key that no setting has."""

    def __init__(self, path: str, nearest: str | None, *, where: str | None = None) -> None:
        self.path = path
        self.nearest = nearest
        hint = f"did you mean {nearest!r}?" if nearest else "see docs/settings.md for every setting"
        super().__init__(f"unknown setting {path!r}", hint=hint, where=where)


class RequestError(TrilensError):
    http_status = 400
    prometheus_type = "bad_data"


class NotFound(RequestError):
    http_status = 404
    prometheus_type = "not_found"


class NotReadYet(RequestError):
    http_status = 503
    prometheus_type = "unavailable"


class Unidentified(RequestError):
    http_status = 401
    prometheus_type = "unauthorized"


class Forbidden(RequestError):
    http_status = 403
    prometheus_type = "forbidden"


class LoginRefused(Forbidden):
    pass


class TooManyRequests(RequestError):
    http_status = 429
    prometheus_type = "too_many_requests"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message, hint=f"try again in {retry_after_s} s")


class IntakeError(TrilensError):
    http_status = 400
    prometheus_type = "bad_data"


class ExpositionError(IntakeError):
    """A scraped text that does not parse; `line` counts from 1."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        self.line = line
        super().__init__(f"line {line}: {message}" if line is not None else message)


class ScrapeError(IntakeError):
    http_status = 502


class ScrapeLimitExceeded(ScrapeError):
    """More of something than the scrape config allows; `limit` names the setting."""

    def __init__(self, limit: str, allowed: int, found: str) -> None:
        self.limit = limit
        super().__init__(f"{limit} of {allowed} exceeded: {found}")


class DiscoveryError(IntakeError):
    http_status = 502


class KubeApiError(IntakeError):
    """`status` is the HTTP status it answered with; None where there was no answer."""

    http_status = 502

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        super().__init__(message)


class FlightRecorderError(IntakeError):
    pass


class UnsafePickle(FlightRecorderError):
    hint = "nothing of it was run; where does the file come from?"


class NothingWritten(IntakeError):
    exit_code = 1


class RunRecordsError(IntakeError):
    """`seq` is the batch that is wrong, where that can be read; those before it are taken."""

    def __init__(self, message: str, *, seq: int | None = None) -> None:
        self.seq = seq
        super().__init__(f"seq {seq}: {message}" if seq is not None else message)


class RunRecordsTooLarge(RunRecordsError):
    http_status = 413
    hint = "send fewer batches at once"


class RunIntakeBusy(RunRecordsError):
    http_status = 503
    prometheus_type = "unavailable"
    retry_after_s = 2


class BundleError(IntakeError):
    hint = "trilens bundle writes one"


class OtlpError(IntakeError):
    pass


class OtlpUnsupported(OtlpError):
    http_status = 415


class RemoteWriteError(IntakeError):
    pass


class RemoteWriteUnsupported(RemoteWriteError):
    http_status = 415


class QueryError(TrilensError):
    http_status = 422
    prometheus_type = "execution"


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Both counted from 1, the column in characters."""
    before = text[:position]
    return before.count("\n") + 1, position - before.rfind("\n")


class PromQLSyntaxError(QueryError):
    """Not PromQL; `position` is the offset in characters where reading stopped making sense."""

    http_status = 400
    prometheus_type = "bad_data"

    def __init__(self, message: str, *, query: str, position: int | None = None) -> None:
        self.query = query
        self.position = position
        self.reason = message
        if position is not None:
            line, column = line_and_column(query, position)
            message = f"{line}:{column}: parse error: {message}"
        super().__init__(message)


class InvalidQuery(RequestError):
    """`position` is that of the syntax error."""

    def __init__(self, error: PromQLSyntaxError) -> None:
        self.position = error.position
        super().__init__(f'invalid parameter "query": {error}')


class PromQLUnsupported(QueryError):
    http_status = 422


class PromQLEvalError(QueryError):
    pass


class PromQLScriptError(QueryError):
    http_status = 400
    prometheus_type = "bad_data"


class QueryTooLarge(QueryError):
    hint = "narrow the range, widen the step, or raise the limit in the query settings"


class QueryTimeout(QueryError):
    http_status = 503
    prometheus_type = "timeout"
    hint = "narrow the range or raise query.timeout"


class QueryCancelled(QueryError):
    http_status = 503
    prometheus_type = "canceled"


class TemplateError(TrilensError):
    """Worded as Go's text/template does."""

    http_status = 400
    prometheus_type = "bad_data"


class StoreError(TrilensError):
    http_status = 503
    prometheus_type = "unavailable"
    exit_code = 1


class DataDirInUse(StoreError):
    hint = "stop that process, or choose another directory with --data"


class StoreReadOnly(StoreError):
    hint = "free some disk space; writes are taken again by themselves"


class StoreDamaged(StoreError):
    """Part `part` of `table` does not read back."""

    hint = "the embedded engine sets such a part aside by itself; on a server, ask its operator to repair it"

    def __init__(self, table: str, part: str, reason: str) -> None:
        self.table = table
        self.part = part
        self.reason = reason
        super().__init__(f"part {part} of table {table} is damaged: {reason}")


class SchemaTooNew(StoreError):
    hint = "use a Trilens at least as new as the one that wrote this data"


class NoDataDirectory(StoreError):
    exit_code = 2


class BackupError(StoreError):
    pass


class BackupNotNow(BackupError):
    http_status = 409
    prometheus_type = "conflict"


class BackupMisnamed(BackupError):
    exit_code = 2


class RanksMissing(TrilensError):
    """`ranks` did not come in time; `unknown` says why nobody can tell which."""

    exit_code = 1

    def __init__(self, ranks: tuple[int, ...], unknown: str | None = None) -> None:
        self.ranks = tuple(ranks)
        self.unknown = unknown
        named = ", ".join(map(str, self.ranks))
        super().__init__(
            f"ranks that did not come to the barrier: {named}"
            if self.ranks
            else f"nobody can tell which ranks came to the barrier: {unknown}"
        )


class PreflightError(TrilensError):
    exit_code = 1


class NodeError(TrilensError):
    http_status = 503
    prometheus_type = "unavailable"
    exit_code = 1


class SourceError(TrilensError):
    http_status = 502
    prometheus_type = "unavailable"
    exit_code = 1


class ProviderAway(TrilensError):
    http_status = 502
    prometheus_type = "unavailable"
    exit_code = 1


class DeliveryError(TrilensError):
    http_status = 502
    prometheus_type = "unavailable"
    exit_code = 1


class ReceiverAway(DeliveryError):
    """`wait_s` is how long it asked to be left alone, if it did."""

    def __init__(self, message: str, *, wait_s: float | None = None) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class NotificationRefused(DeliveryError):
    pass


class TrackerError(TrilensError):
    http_status = 502
    prometheus_type = "unavailable"
    exit_code = 1


class TrackerAway(TrackerError):
    """Nothing else of it can be read either: it does not answer, or not to us."""


class ServerError(TrilensError):
    exit_code = 1


class ServerSilent(ServerError):
    pass
