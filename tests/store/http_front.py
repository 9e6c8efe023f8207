"""ClickHouse's HTTP interface over chDB, as far as the real clickhouse-connect client needs it.

    python http_front.py DIRECTORY [CLUSTER]

prints the port it listens on (loopback only) and serves until its standard input closes. With it the code
path for a ClickHouse server is tested without one. It runs in a process of its own: a process holds one
chDB directory.

With the name of a cluster it is the only node of one, whose Distributed tables are the engine's own. What
needs a keeper is left out of statements (`on_one_node`) once the engine's parser has read them: replicated
tables are plain ones here.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import chdb

# Understood by the real server's HTTP layer; everything else in a URL is a setting of the query.
TRANSPORT = {
    "query", "database", "query_id", "session_id", "compress", "decompress", "default_format", "user",
    "password", "wait_end_of_query", "client_protocol_version", "enable_http_compression", "role",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms", "quota_key", "buffer_size",
}  # fmt: skip
INSERT = re.compile(r"\s*(INSERT\s+INTO\s.+?)\s+FORMAT\s+(\w+)\s*", re.IGNORECASE | re.DOTALL)


# One shard with one replica, which is the engine itself: it knows it by the port.
CONFIG = """<clickhouse>
<tcp_port>9000</tcp_port>
<macros><shard>1</shard><replica>1</replica></macros>
<remote_servers><{name}><shard>
  <internal_replication>true</internal_replication>
  <replica><host>127.0.0.1</host><port>9000</port></replica>
</shard></{name}></remote_servers>
</clickhouse>
"""
ON_CLUSTER = re.compile(r" ON CLUSTER `\w+`")
REPLICATED = re.compile(r"ENGINE = Replicated(\w*MergeTree)\('[^']*', '[^']*'(?:, ([^()]*))?\)")


def read(connection: chdb.Connection, statement: str) -> None:
    """By the engine's parser, as a cluster is told it: it raises where it finds no sense."""
    quoted = statement.replace("\\", "\\\\").replace("'", "\\'")
    connection.query(f"SELECT formatQuery('{quoted}')")


def on_one_node(statement: str) -> str:
    plain = REPLICATED.sub(lambda found: f"ENGINE = {found[1]}({found[2] or ''})", statement)
    return ON_CLUSTER.sub("", plain)


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer's body waits 40 ms for its header to be acknowledged
    directory = ""
    options: ClassVar[dict[str, str]] = {}  # of the engine

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body: bytes) -> None:
        if self.path == "/ping":
            return self._send(200, b"Ok.\n")
        params = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        try:
            return self._send(200, self._run(params, body))
        except Exception as e:
            code = re.search(r"Code: (\d+)", str(e))
            extra = {"X-ClickHouse-Exception-Code": code.group(1)} if code else {}
            return self._send(500, str(e).encode(), extra)

    def _run(self, params: dict[str, str], body: bytes) -> bytes:
        settings = {k: v for k, v in params.items() if k not in TRANSPORT} | self.options
        with chdb.connect(f"{self.directory}?{urlencode(settings)}") as connection:
            if database := params.get("database"):
                connection.query(f"USE `{database}`")
            if insert := INSERT.fullmatch(params.get("query", "")):
                with tempfile.NamedTemporaryFile() as file:
                    file.write(body)
                    file.flush()
                    connection.query(f"{insert.group(1)} FROM INFILE '{file.name}' FORMAT {insert.group(2)}")
                return b""
            statement = "\n".join(part for part in (params.get("query", ""), body.decode()) if part)
            if self.options and ON_CLUSTER.search(statement):
                read(connection, statement)
                statement = on_one_node(statement)
            return connection.query(statement, params.get("default_format", "TabSeparated")).bytes() or b""

    def _send(self, status: int, body: bytes, extra: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {
            "Content-Length": str(len(body)),
            "X-ClickHouse-Query-Id": str(uuid.uuid4()),
            "X-ClickHouse-Timezone": "UTC",
            "X-ClickHouse-Summary": "{}",
            **(extra or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    Front.directory = sys.argv[1]
    if len(sys.argv) > 2:
        config = Path(Front.directory).parent / f"{Path(Front.directory).name}.xml"
        config.write_text(CONFIG.format(name=sys.argv[2]))
        Front.options = {"config-file": str(config)}
    keep_open = chdb.connect(
        f"{Front.directory}?{urlencode(Front.options)}"
    )  # the engine lives as long as one connection does
    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    server.shutdown()
    keep_open.close()


if __name__ == "__main__":
    main()
