"""How the words of a row are arranged, and the sizes at which that changes."""

# The head of a row: where its block begins, its count and mode, and a word for the operator.
HEAD_WORDS = 3
HEAD_BLOCK = 0
HEAD_SHAPE = 1  # the count shifted by MODE_BITS, plus the mode
HEAD_EXTRA = 2
MODE_BITS = 8
MODE_MASK = 255

# A mode below LIST_MODE is a table of 2**mode entries, those from it on a list of
# 2**(mode - LIST_MODE) words.
LIST_MODE = 64
REGISTERS_MODE = 128
FILTER_MODE = 129

BLOCK_SIZES = 64  # sizes of blocks that are kept apart after their release
BLOCK_SIZE_MAX = 1 << 30
LINEAR_MODE_MAX = 3  # up to 8 entries are searched from the first to the last

# Registers of HyperLogLog: one byte each, eight in a word.
DISTINCT_EXACT_MAX = 1024
REGISTER_BITS = 12
REGISTER_COUNT = 1 << REGISTER_BITS
REGISTER_WORDS = REGISTER_COUNT // 8
REGISTER_RANK_MAX = 64 - REGISTER_BITS + 1

# An entry of top_k is its key, its count, and its text together with the count it may have missed.
RANKED_WIDTH = 3
RANKED_COUNT_MAX = 1536
TEXT_BITS = 32

# A bucket of quantile is the sign and the upper bits of a float.
QUANTILE_EXACT_MAX = 256
BUCKET_COUNT_MAX = 1536
BUCKET_SHIFT = 46  # what is left: 11 bits of the exponent, 6 of the mantissa
BUCKET_UPPER_MASK = (1 << 17) - 1
BUCKET_SIGN_BIT = 20
BUCKET_MAGNITUDE_MASK = (1 << BUCKET_SIGN_BIT) - 1
