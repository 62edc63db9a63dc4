cdef WritePointer spare_workspace
cdef int64_t spare_workspace_bytes

cdef bint is_among(TextSpan *nodes, int64_t count, ReadPointer p, int64_t start, int64_t size) noexcept nogil
cdef int64_t deliverable_at(PageState *page) noexcept nogil
cdef void fill_page(PageState *page) noexcept nogil
cdef WritePointer acquire_workspace() noexcept
cdef void release_workspace(WritePointer workspace, int64_t capacity) noexcept
