# The C signatures of sample_folds.py.

cdef int _put_value(
    RowBlocks blocks, int64_t row, uint64_t number, uint64_t place, uint64_t word, bint is_text
) except -1
