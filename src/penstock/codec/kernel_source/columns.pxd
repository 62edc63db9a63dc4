cdef void select_records(PageState *page, int64_t *starts, int64_t *metas, int64_t *sums) noexcept nogil
cdef int64_t text_start(PageState *page, int which, int64_t start, int64_t meta) noexcept nogil
cdef int64_t text_size(PageState *page, int which, int64_t start, int64_t meta) noexcept nogil
cdef void fill_texts(PageState *page, int which, int64_t *starts, int64_t *metas, WritePointer offsets, WritePointer texts, WritePointer bits) noexcept nogil
cdef void fill_numbers(PageState *page, int64_t *starts, WritePointer seqs, WritePointer tss) noexcept nogil
