"""A queue of jobs in PostgreSQL, claimed with `SKIP LOCKED` and acknowledged by deletion.

The cluster is made for one measurement, in a folder of the bench, and reached by a unix socket
alone. Its settings are those of a new cluster, so that each commit waits for its sync. If the
server or its driver is missing, or does not start, its figures give the reason; nothing fails.

It promises what our queue does: a claim gives each job a lease of its own with a deadline, and
counts the delivery; an acknowledgement holds only under that lease and while it lasts; the worker
gets its payload as a value. Where there is a choice, it is the one that favours PostgreSQL. The
claim walks the primary key: a partial index of what is ready would have to be written at each
claim. Pages are filled by half, so that a claimed row stays on its page and no index hears of it.
Payloads are bytes that the server never looks into. Statements are prepared, values travel as
binary, and the table is vacuumed whenever jobs were put, which is never measured.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from benchmarks.peers import Peer
from benchmarks.server_process import DidNotStart, Missing, process
from penstock.cli.figure import PAYLOAD

if TYPE_CHECKING:
    import psycopg

POSTGRES: Final = Peer("postgres", "postgresql", "--version")
NO_DRIVER: Final = Missing("no psycopg here; install it with: pip install 'psycopg[binary]'")

_USER = "postgres"  # who runs it in place of root, whom it refuses
_PORT = 5432  # no more than a part of the socket's name
_INITDB_TIMEOUT_S = 120
_NODE: Final = "bench"
_decode: Final = msgspec.json.Decoder().decode

_TABLE: Final = """
    CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        data bytea NOT NULL,
        free_at timestamptz NOT NULL DEFAULT '-infinity',
        deliveries integer NOT NULL DEFAULT 0,
        lease bigint NOT NULL DEFAULT 0,
        node text
    ) WITH (fillfactor = 50)
"""
_LEASES: Final = "CREATE SEQUENCE leases CACHE 1000"
_PUT: Final = "INSERT INTO jobs (data) SELECT %s FROM generate_series(1, %s)"
_CLAIM: Final = """
    UPDATE jobs SET
        free_at = now() + interval '60 seconds',
        deliveries = deliveries + 1,
        lease = nextval('leases'),
        node = %s
    WHERE id IN (
        SELECT id FROM jobs WHERE free_at <= now() ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    )
    RETURNING id, lease, deliveries, data
"""
_ACK: Final = """
    DELETE FROM jobs USING unnest(%s::bigint[], %s::bigint[]) AS held (id, lease)
    WHERE jobs.id = held.id AND jobs.lease = held.lease AND jobs.free_at > now()
"""


class Job(NamedTuple):
    """A job that a worker has claimed."""

    id: int
    lease: int
    deliveries: int
    data: Any


class Jobs:
    """The queue over one connection. Each statement is a transaction, committed when it returns."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        connection.execute(_TABLE)
        connection.execute(_LEASES)

    def put(self, count: int) -> None:
        self._connection.execute(_PUT, (PAYLOAD, count))
        self._connection.execute("VACUUM (ANALYZE) jobs")

    def claim(self, most: int) -> list[Job]:
        rows = self._cursor.execute(_CLAIM, (_NODE, most), prepare=True).fetchall()
        return [Job(id, lease, count, _decode(data)) for id, lease, count, data in rows]

    def ack(self, jobs: list[Job]) -> int:
        held = ([job.id for job in jobs], [job.lease for job in jobs])
        return self._cursor.execute(_ACK, held, prepare=True).rowcount

    def cycle(self, most: int) -> int:
        """Claim and acknowledge jobs. Return their number."""
        jobs = self.claim(most)
        return self.ack(jobs) if jobs else 0

    def setting(self, name: str) -> str:
        """The value of a setting in this connection."""
        row = self._connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        if row is None:
            raise AssertionError("a function without a result")
        return str(row[0])


@contextlib.contextmanager
def postgres(folder: str) -> Iterator[Jobs | Missing]:
    """A server in `folder`, stopped afterwards. The caller removes the folder.

    If this process runs as root, the server runs as the user `postgres`, who must be able to enter
    the folder.
    """
    program = POSTGRES.path
    if program is None:
        yield POSTGRES.missing
        return
    try:
        import psycopg  # noqa: F401
    except ImportError:
        yield NO_DRIVER
        return
    with contextlib.ExitStack() as held:
        # Not in the folder: a socket's path has 107 bytes at most.
        sockets = held.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
        try:
            found: Jobs | Missing = _start(os.path.realpath(program), folder, sockets, held)
        except DidNotStart as error:
            found = Missing(f"postgres did not start: {error}")
        yield found


def _start(program: str, folder: str, sockets: str, held: contextlib.ExitStack) -> Jobs:
    import psycopg

    data = os.path.join(folder, "cluster")
    os.mkdir(data, 0o700)
    user = _as_user(data, sockets)
    _initdb([*user, os.path.join(os.path.dirname(program), "initdb")], data, folder)
    command = [*user, program, "-D", data, "-k", sockets, "-p", str(_PORT)]
    command += ["-c", "listen_addresses=", "-c", "fsync=on"]

    def connect() -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=sockets,
            port=_PORT,
            user=_USER,
            dbname="postgres",
            autocommit=True,
            options="-c synchronous_commit=on",  # and not what PGOPTIONS may say
        )

    def ready() -> int | None:
        try:
            connect().close()
        except psycopg.OperationalError:
            return None
        return _PORT

    held.enter_context(process("postgres", command, folder, port=ready))
    return Jobs(held.enter_context(contextlib.closing(connect())))


def _as_user(*folders: str) -> list[str]:
    """The prefix of a command that must not run as root. Gives the folders to its user."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise DidNotStart("PostgreSQL refuses to run as root, and setpriv is not installed")
    try:
        for folder in folders:
            shutil.chown(folder, _USER, _USER)
    except LookupError:
        raise DidNotStart(
            f"PostgreSQL refuses to run as root, and there is no user {_USER}"
        ) from None
    return [setpriv, f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]


def _initdb(command: list[str], data: str, folder: str) -> None:
    options = ["-D", data, "-U", _USER, "--auth=trust", "--encoding=UTF8", "--locale=C"]
    try:
        made = subprocess.run(
            [*command, *options],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INITDB_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DidNotStart(f"initdb: {error}") from None
    if made.returncode:
        raise DidNotStart(
            "".join(made.stderr.strip().splitlines()[-1:]) or "initdb failed without a message"
        )
