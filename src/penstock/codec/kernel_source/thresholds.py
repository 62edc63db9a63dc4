"""Limits of the kernel that are no part of a format."""

DEPTH_MAX = 128  # limits.JSON_DEPTH_MAX; `is_plain_json` has one bit for each level, in two words

# Below them, releasing the GIL costs more than the work does.
NOGIL_BYTES_MIN = 65536
NOGIL_RECORDS_MIN = 64

WORKSPACE_KEPT_BYTES_MAX = 1 << 22  # a larger workspace of `project` is freed
COLUMN_COUNT = 4  # node, tag, meta, data
COLUMN_BYTES_MAX = 0x7FFFFFFF  # the offsets of Arrow have a sign
JSON_RECORD_BYTES_MIN = 10  # of the shortest record in a JSON body: {"data":1}
JSON_ELEMENT_BYTES_MIN = 2  # of the shortest element of a JSON array, with what follows it
