# Neighbouring frames that make one item in the answer of a scan.
ctypedef struct ScanRun:
    uint64_t topic_id
    uint64_t first_seq
    uint64_t next_seq
    uint64_t first_ts
    uint64_t last_ts
    int64_t start
    int64_t end
    int64_t count
    int64_t payload
    int64_t first_offset
    uint8_t kind


# How far a scan has come. The caller owns `runs` and `offsets`.
ctypedef struct ScanState:
    ScanRun *runs
    int64_t run_count
    int64_t run_capacity
    WritePointer offsets
    int64_t offset_count
    int64_t offset_capacity
    int64_t at
    int reason
    bint out_of_memory


cdef bint add_frame(ScanState *state, ReadPointer p, int64_t frame_end) noexcept nogil
cdef int end_of_log(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef void scan_frames(ScanState *state, ReadPointer p, int64_t end) noexcept nogil
