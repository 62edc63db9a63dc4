"""Every limit, with its unit, and the relations between the limits."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# What a caller may send.
TOPIC_NAME_CHARS_MAX: Final = 255
TAG_BYTES_MAX: Final = 256
NODE_BYTES_MAX: Final = 128
KEY_BYTES_MAX: Final = 256
META_BYTES_MAX: Final = 16 * KIB
META_KEYS_MAX: Final = 64
JSON_DEPTH_MAX: Final = 128  # levels of data, and of meta; counted as said below
BODY_DEPTH_MAX: Final = 256  # levels of a request's whole body, its records included
RECORD_BYTES_MAX: Final = 1 * MIB
BATCH_RECORDS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 64 * MIB
BATCH_WRITES_MAX: Final = 64  # topics of one `POST /v0/batch`
WATCH_TOPICS_MAX: Final = 256  # names and prefixes of one watch session
TOPICS_MAX: Final = 100_000
TOPIC_ID_OWN: Final = 1 << 63  # from here on ids are for topics of the log's own
ROUTERS_MAX: Final = 10_000
HOPS_MAX: Final = 8  # copies of copies; a frame has room for 15
POSITIONS_MAX: Final = 1000  # consumer positions of a topic
FEATURE_SCAN_MAX: Final = 10_000  # rows of one page
PROJECTIONS_MAX: Final = 1000  # tables, and parts of feature tables
PROJECTION_BYTES_MAX: Final = 1024 * MIB  # of memory, of one of them, unless it is given another
TABLE_KEY_BYTES_MAX: Final = 256
FEATURE_BYTES_MAX: Final = 2048 * MIB  # of memory, of all feature tables without `memory_max`
TABLE_MEMORY_MIN: Final = 1 * MIB  # of one feature table
TABLE_MEMORY_MAX: Final = 1 << 44

# What a reader may ask for.
READ_RECORDS_DEFAULT: Final = 256
READ_RECORDS_MAX: Final = 10_000
READ_BYTES_MAX: Final = 8 * MIB
READ_SCAN_MAX: Final = 1_000_000  # records one read may walk past filters

# What a worker may ask for.
QUEUE_JOBS_MAX: Final = 1000  # in one claim, ack, nack or extend
LEASE_MS: Final = (100, 86_400_000)
DELAY_MS_MAX: Final = 366 * 86_400_000  # of a record when it is appended
DELAYED_BATCHES_MAX: Final = 1_000_000  # batches of a log whose time has not come
DELAYED_BYTES_MAX: Final = 4096 * MIB
TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999
NACK_DELAY_MS: Final = (0, 86_400_000)

# What a router does in one step.
ROUTE_RECORDS_MAX: Final = 4096
ROUTE_BYTES_MAX: Final = 4 * MIB

# The WAL.
WAL_FILE_BYTES: Final = 64 * MIB
WAL_SHARDS_MAX: Final = 64
SHARD_QUEUE_SUBMISSIONS_MAX: Final = 4096
SHARD_QUEUE_BYTES_MAX: Final = 256 * MIB
AHEAD_OF_SYNC_BYTES_MAX: Final = 32 * MIB  # written under load while a sync is under way
WRITE_BYTES_MAX: Final = 8 * MIB  # one write call; a larger batch goes alone
COMMIT_WINDOW_MIN_S: Final = 0.0005
COMMIT_WINDOW_MAX_S: Final = 0.010
SYNC_TICK_MS: Final = 50  # how long a `disk` record may wait for its sync
SEQ_RESERVE: Final = 1 << 20  # seqs promised ahead by one HeadWatermark

# Segments and checkpoints.
SEGMENT_RECORDS_MAX: Final = 500_000
SEGMENT_BYTES_MAX: Final = 64 * MIB
SEGMENT_AGE_MS_MAX: Final = 3_600_000
CHECKPOINT_WAL_BYTES: Final = 64 * MIB
CHECKPOINT_WAL_FILES: Final = 16
SEAL_BYTES_MIN: Final = 256 * KIB  # smaller tails travel inside the snapshot
SNAPSHOT_TAIL_BYTES_MAX: Final = 32 * MIB
UNABSORBED_BYTES_MAX: Final = 1024 * MIB  # appends wait when checkpoints cannot keep up
EPHEMERAL_BYTES_MAX: Final = 64 * MIB  # per topic; beyond it the oldest go, with a tombstone
MAPPED_FILES_MAX: Final = 256  # each holds a descriptor
HOT_RETAIN_SEGMENTS: Final = 4  # newest sealed ones of a topic that never go to a cold tier
COLD_CACHE_BYTES: Final = 1024 * MIB  # objects fetched from a store and kept as files for a while
COLD_INTERVAL_MS: Final = 5000  # between two looks at what could go to a cold tier
REWRITE_DEAD_SHARE: Final = 0.5
IDEMPOTENCY_KEYS_MAX: Final = 1_000_000  # per topic
PRODUCERS_MAX: Final = 10_000  # senders whose last frame a topic remembers; each start is a new one


# How JSON_DEPTH_MAX counts. A level is an array or an object that is open: a scalar has depth 0,
# `[]` and `{}` have depth 1, `[{}]` has depth 2. Brackets in strings do not count. Data and meta
# are counted each by itself: the request, frame or page around them does not count, and neither
# does what a router adds to the meta of a copy. The limit holds for writes. Stored records that
# nest deeper are read as they are.

# Every supported interpreter parses this many levels without a RecursionError. Above that it
# depends on the interpreter and on the stack of the caller.
_DEPTH_PARSED_EVERYWHERE: Final = 500
_ENVELOPE_LEVELS_MAX: Final = 5  # {"writes":[{"records":[{"data":


def check() -> None:
    """Check the relations between the limits. Called by a test and at import."""
    relations = {
        "a record fits a batch": RECORD_BYTES_MAX <= BATCH_BYTES_MAX,
        "every part of a feature table can have its least": (
            PROJECTIONS_MAX * TABLE_MEMORY_MIN <= FEATURE_BYTES_MAX
        ),
        "meta fits a record": META_BYTES_MAX <= RECORD_BYTES_MAX,
        "a batch fits a shard queue": BATCH_BYTES_MAX * 2 <= SHARD_QUEUE_BYTES_MAX,
        "offsets fit 32 bits": SEGMENT_BYTES_MAX + 4 * BATCH_BYTES_MAX < 1 << 32,
        "a checkpoint starts before appends wait": CHECKPOINT_WAL_BYTES < UNABSORBED_BYTES_MAX,
        "a largest batch leaves half a reservation": BATCH_RECORDS_MAX * 2 <= SEQ_RESERVE,
        "the window has a floor and a ceiling": 0 < COMMIT_WINDOW_MIN_S < COMMIT_WINDOW_MAX_S,
        "tag and node lengths fit 16 bits": max(TAG_BYTES_MAX, NODE_BYTES_MAX) < 1 << 16,
        "the deepest data fits a body": JSON_DEPTH_MAX + _ENVELOPE_LEVELS_MAX <= BODY_DEPTH_MAX,
        "every interpreter parses a body": BODY_DEPTH_MAX <= _DEPTH_PARSED_EVERYWHERE,
    }
    for claim, holds in relations.items():
        if not holds:
            raise AssertionError(f"limits disagree: {claim}")


check()
