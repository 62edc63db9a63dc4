# The C signatures of distinct_folds.py.

cdef int _add_distinct(RowBlocks blocks, int64_t row, uint64_t hash) except -1
cdef int _to_registers(RowBlocks blocks, int64_t row) except -1
cdef void _add_to_registers(RowBlocks blocks, int64_t at, uint64_t hash) noexcept
cdef void _raise_register(RowBlocks blocks, int64_t at, uint64_t number, uint64_t rank) noexcept
cdef int _merge_registers(RowBlocks blocks, int64_t row, RowBlocks others, int64_t at) except -1
cdef int _to_filter(
    RowBlocks blocks, int64_t row, int64_t filter_words, int64_t probes
) except -1
cdef int64_t _add_to_filter(
    RowBlocks blocks, int64_t at, uint64_t filter_words, int64_t probes, uint64_t hash
) noexcept
