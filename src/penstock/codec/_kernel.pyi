"""The types of the kernel's functions, in both forms. Their docstrings are in `kernel_source`."""

from collections.abc import Sequence

from typing_extensions import Buffer

COMPILED: bool

def xxh3_64(data: Buffer) -> int: ...
def hash_texts(texts: list[str | None]) -> bytes: ...
def encode_appends(
    topic_id: int,
    first_seq: int,
    ts: int,
    flags: int,
    datas: Sequence[bytes],
    metas: Sequence[bytes | None] | None,
    tags: Sequence[bytes | None] | None,
    nodes: Sequence[bytes | None] | None,
    tag: bytes | None,
    node: bytes | None,
    batch_key: bytes | None = None,
) -> tuple[bytes, bytes, int]: ...
def encode_control(
    type: int, flags: int, topic_id: int, seq: int, ts: int, node: bytes, tag: bytes, data: bytes
) -> bytes: ...
def scan(
    buf: Buffer, start: int, end: int
) -> tuple[list[tuple[int, int, int, int, int, int, int, int, bytes, int]], int, int]: ...
def count_frames(buf: Buffer) -> int: ...
def resync(buf: Buffer, start: int, end: int) -> int: ...
def project(
    buf: Buffer,
    offsets: Buffer,
    stride: int,
    i0: int,
    i1: int,
    dead: Buffer | None,
    nodes: Sequence[bytes] | None,
    limit: int,
    budget: int,
    options: int,
    first_seq: int,
    topic_id: int,
    tag: bytes | None = None,
    prefix: bool = False,
) -> tuple[bytes, int, int, int]: ...
def find_tags(
    buf: Buffer,
    offsets: Buffer,
    stride: int,
    i0: int,
    i1: int,
    dead: Buffer | None,
    pattern: bytes,
    prefix: bool,
) -> bytes: ...
def measure(
    buf: Buffer, offsets: Buffer, stride: int, i0: int, i1: int, dead: Buffer | None
) -> tuple[int, int]: ...
def measure_some(buf: Buffer, offsets: Buffer, stride: int, indices: Buffer) -> int: ...
def filter_indices(indices: Buffer, start: int, stop: int, dead: Buffer | None) -> bytes: ...
def readdress(
    buf: Buffer,
    topic_id: int,
    first_seq: int,
    ts: int,
    flags: int,
    keep_node: bool,
    keep_tag: bool,
    hops_max: int,
) -> tuple[bytes, bytes, int, bytes]: ...
def columns(
    buf: Buffer,
    offsets: Buffer,
    stride: int,
    i0: int,
    i1: int,
    dead: Buffer | None,
    limit: int,
    budget: int,
    wanted: int,
    first_seq: int,
    topic_id: int,
    tag: bytes | None = None,
    prefix: bool = False,
) -> tuple[int, int, int, bytes, bytes, list[tuple[bytes, bytes, bytes] | None]]: ...
def shift_offsets(offsets: Buffer, by: int) -> bytes: ...
def join_frames(parts: list[Buffer], tables: list[Buffer]) -> tuple[bytes, bytes]: ...
def build_index(buf: Buffer, offsets: Buffer, count: int, base: int) -> bytes: ...
def copy_live(
    buf: Buffer, offsets: Buffer, stride: int, i0: int, i1: int, dead: Buffer | None, base: int
) -> tuple[bytes, bytes]: ...
def ts_bound(index: Buffer, count: int, ts: int) -> int: ...
def group_tags(
    buf: Buffer,
    offsets: Buffer,
    stride: int,
    i0: int,
    i1: int,
    dead: Buffer | None,
    base_index: int,
    groups: dict[bytes, bytearray],
) -> int: ...
def frame_ts(buf: Buffer, offsets: Buffer, stride: int, i: int) -> int: ...
def frame_at(
    buf: Buffer, offsets: Buffer, stride: int, i: int
) -> tuple[int, int, bytes, bytes, bytes, bytes | None]: ...
def sizes(texts: list[bytes]) -> tuple[int, int]: ...
def are_plain_json(texts: list[bytes]) -> bool: ...
def is_plain_text(text: object) -> bool: ...
def nesting(text: bytes) -> int: ...
def first_deep(texts: Sequence[bytes | None], most: int) -> int: ...
def masked_messages(
    data: bytes, at: int, bytes_max: int
) -> tuple[list[tuple[bytes, bool]], int]: ...
def pack_records(texts: list[bytes], tag: bytes, node: bytes) -> bytes: ...
def texts_of(values: Sequence[Buffer]) -> list[bytes]: ...
def split_records(
    buf: bytes, offset: int, count: int
) -> tuple[
    list[bytes],
    list[bytes | None] | None,
    list[bytes | None] | None,
    list[bytes | None] | None,
    int,
]: ...
def packed_spans(
    buf: Buffer, offset: int, count: int, tag_max: int, node_max: int
) -> bytes | None: ...
def json_fields(
    offsets: Buffer,
    texts: Buffer,
    bits: Buffer,
    count: int,
    names: list[bytes],
    types: bytes,
    numbers: Buffer,
    present: Buffer,
    indices: Buffer,
    bad_max: int,
    are_spans: bool = ...,
    with_texts: bool = ...,
) -> tuple[
    int, list[list[str | None] | list[bytes | None] | None], list[tuple[int, int, int, bytes]], int
]: ...
def json_spans(
    body: Buffer, records_max: int, tag_max: int, node_max: int
) -> tuple[bytes, int, int] | None: ...
def element_spans(body: Buffer, records_max: int) -> tuple[bytes, int] | None: ...
def span_sizes(table: Buffer) -> tuple[int, int]: ...
def encode_spans(
    topic_id: int,
    first_seq: int,
    ts: int,
    flags: int,
    texts: Sequence[Buffer],
    tables: Sequence[Buffer],
    node: bytes | None,
    batch_key: bytes | None = None,
) -> tuple[bytes, bytes, int]: ...
