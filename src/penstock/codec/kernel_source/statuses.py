"""What the kernel answers about a frame, and the options of `project`."""

CLEAN = 0
TORN = 1
CHECKSUM = 2
MALFORMED = 3
OTHER_RECORD = 4
ABSENT = 9

WITH_TAG = 1
WITH_META = 2
WITH_DATA = 4
DOLLAR = 8
VERIFY = 16
ARRAY = 32
FRAMES = 64
