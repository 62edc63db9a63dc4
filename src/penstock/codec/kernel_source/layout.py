"""Offsets and sizes, in bytes, of the fields of a frame, of its body, of a segment index entry and
of a length-prefixed record.

The norms are docs/format/frame.md, docs/format/segment.md and docs/format/batch.md.
"""

# The header of a frame.
FRAME_LEN = 0
FRAME_TYPE = 4
FRAME_FLAGS = 5
FRAME_TOPIC_ID = 6
FRAME_SEQ = 14
FRAME_TS = 22
FRAME_NODE_LEN = 30
FRAME_TAG_LEN = 32
FRAME_DATA_LEN = 34
FRAME_HEADER_BYTES = 38

FRAME_LEN_BYTES = 4  # `frame_len` counts the bytes behind itself, and the checksum covers them
CHECKSUM_BYTES = 8
FRAME_BYTES_MIN = FRAME_HEADER_BYTES + CHECKSUM_BYTES
FRAME_LEN_MIN = FRAME_BYTES_MIN - FRAME_LEN_BYTES
FRAME_TYPE_MAX = 63
LABEL_BYTES_MAX = 65535  # of a node or tag

# Frame types that the kernel writes by itself.
APPEND = 1
BATCH = 12

FLAGS_GIVEN = 0xFC  # the other two bits follow from the lengths of node and tag
FLAGS_HOPS_SHIFT = 4

# The body of an Append frame: {"d":<data>} or {"m":<meta>,"d":<data>}
BODY_KEY_BYTES = 5
BODY_KEY_COLON = 4
BODY_EXTRA_BYTES = 6
BODY_EXTRA_BYTES_WITH_META = 11
DATA_FIRST = 0x2264227B  # {"d"
META_FIRST = 0x226D227B  # {"m"
DATA_NEXT = 0x2264222C  # ,"d"

# The body of a Batch frame: the number of records.
BATCH_BODY_BYTES = 4
BATCH_FRAME_BYTES_MIN = FRAME_BYTES_MIN + BATCH_BODY_BYTES

# An entry of a segment index.
ENTRY_OFFSET = 0
ENTRY_FRAME_BYTES = 4
ENTRY_TS = 8
ENTRY_PAYLOAD_BYTES = 16
ENTRY_FLAGS = 20
ENTRY_BYTES = 24

# A length-prefixed record.
RECORD_DATA_LEN = 0
RECORD_META_LEN = 4
RECORD_TAG_LEN = 8
RECORD_NODE_LEN = 10
RECORD_HEADER_BYTES = 12

# An entry of a table of record spans: where the texts of a record lie in a buffer.
SPAN_DATA = 0
SPAN_DATA_LEN = 4
SPAN_TAG = 8
SPAN_TAG_LEN = 12
SPAN_NODE = 16
SPAN_NODE_LEN = 20
SPAN_BYTES = 24

OFFSET_BYTES = 4  # of one entry in a table of offsets or record numbers
NUMBER_BYTES = 8  # of one entry in a column of seqs or times

# The frame of a WebSocket client with a whole message: its first byte, and the second, which has
# the length or says that two or eight bytes of length follow.
MESSAGE_TEXT = 0x81
MESSAGE_BINARY = 0x82
MESSAGE_MASKED = 0x80
MESSAGE_LONG = 126
MESSAGE_LONGEST = 127
