cdef extern from *:
    """
    static const unsigned char pk_pairs[201] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    """
    const unsigned char *PAIRS "pk_pairs"


# What a projection has to deliver, and how far it has come. The caller owns `out`.
ctypedef struct PageState:
    ReadPointer frames
    int64_t size
    ReadPointer table
    int64_t stride
    ReadPointer dead
    int64_t dead_size
    TextSpan *nodes
    int64_t node_count
    TextSpan tag
    bint has_tag
    bint tag_prefix
    int64_t i
    int64_t i1
    int64_t limit
    int64_t budget
    int options
    uint64_t first_seq
    uint64_t topic_id
    WritePointer out
    int64_t used
    int64_t capacity
    int64_t delivered
    int status
    bint out_of_memory


cdef int64_t put_decimal(WritePointer out, int64_t at, uint64_t value) noexcept nogil
cdef int64_t put_escaped(WritePointer out, int64_t at, ReadPointer p, int64_t start, int64_t size) noexcept nogil
cdef int64_t put_object(PageState *page, int64_t at, int64_t start, int64_t meta) noexcept nogil
