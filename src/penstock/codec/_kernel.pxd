# The C side of _kernel.py: loads and stores that are safe at any address and on any byte order,
# the constants of XXH3, and the C signatures of the kernel's inner functions.

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

ctypedef const unsigned char *Bytes
ctypedef unsigned char *Room

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define PK_LE16(v) __builtin_bswap16(v)
    #define PK_LE32(v) __builtin_bswap32(v)
    #define PK_LE64(v) __builtin_bswap64(v)
    #else
    #define PK_LE16(v) (v)
    #define PK_LE32(v) (v)
    #define PK_LE64(v) (v)
    #endif

    static inline uint16_t pk_u16(const unsigned char *p, int64_t at) {
        uint16_t v; memcpy(&v, p + at, 2); return PK_LE16(v);
    }
    static inline uint32_t pk_u32(const unsigned char *p, int64_t at) {
        uint32_t v; memcpy(&v, p + at, 4); return PK_LE32(v);
    }
    static inline uint64_t pk_u64(const unsigned char *p, int64_t at) {
        uint64_t v; memcpy(&v, p + at, 8); return PK_LE64(v);
    }
    static inline void pk_put16(unsigned char *p, int64_t at, uint16_t v) {
        v = PK_LE16(v); memcpy(p + at, &v, 2);
    }
    static inline void pk_put32(unsigned char *p, int64_t at, uint32_t v) {
        v = PK_LE32(v); memcpy(p + at, &v, 4);
    }
    static inline void pk_put64(unsigned char *p, int64_t at, uint64_t v) {
        v = PK_LE64(v); memcpy(p + at, &v, 8);
    }
    static inline void pk_copy(unsigned char *to, int64_t at, const unsigned char *p, int64_t from, int64_t n) {
        memcpy(to + at, p + from, (size_t)n);
    }
    static inline void pk_clear(unsigned char *p, int64_t at, int64_t n) {
        memset(p + at, 0, (size_t)n);
    }
    static inline uint64_t pk_swap64(uint64_t v) {
        v = ((v & 0x00FF00FF00FF00FFULL) << 8) | ((v >> 8) & 0x00FF00FF00FF00FFULL);
        v = ((v & 0x0000FFFF0000FFFFULL) << 16) | ((v >> 16) & 0x0000FFFF0000FFFFULL);
        return (v << 32) | (v >> 32);
    }
    /* The top bit of every byte that is a quote, a backslash, below 32 or above 127; of those
       behind the first perhaps more. */
    static inline uint64_t pk_marks(uint64_t w) {
        const uint64_t ones = 0x0101010101010101ULL;
        uint64_t quote = w ^ (34 * ones), slash = w ^ (92 * ones);
        uint64_t found = ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
        return (found | ((w - 32 * ones) & ~w) | w) & (128 * ones);
    }
    static inline int pk_first_mark(uint64_t marks) {
    #if defined(__GNUC__) || defined(__clang__)
        return __builtin_ctzll(marks) >> 3;
    #else
        int at = 0;
        while (!(marks & 255)) { marks >>= 8; at++; }
        return at;
    #endif
    }
    /* Where the letters from `at` on end: the first byte that is one of the marks above, or `end`.
       Compared with a sign, bytes above 127 are below 32 too. */
    static inline int64_t pk_letters_end(const unsigned char *p, int64_t at, int64_t end) {
        uint64_t marks;
    #if defined(__SSE2__)
        const __m128i quote = _mm_set1_epi8(34), slash = _mm_set1_epi8(92);
        const __m128i space = _mm_set1_epi8(32);
        while (end - at >= 16) {
            __m128i w = _mm_loadu_si128((const __m128i *)(p + at));
            __m128i either = _mm_or_si128(_mm_cmpeq_epi8(w, quote), _mm_cmpeq_epi8(w, slash));
            int found = _mm_movemask_epi8(_mm_or_si128(either, _mm_cmplt_epi8(w, space)));
            if (found) return at + __builtin_ctz((unsigned int)found);
            at += 16;
        }
    #endif
        while (end - at >= 8) {
            marks = pk_marks(pk_u64(p, at));
            if (marks) return at + pk_first_mark(marks);
            at += 8;
        }
        while (at < end && p[at] != 34 && p[at] != 92 && p[at] >= 32 && p[at] < 128) at++;
        return at;
    }
    /* How deep a JSON text nests, as far as it was read. Brackets of arrays and of objects differ
       by one bit. */
    typedef struct { int64_t at, depth, deepest; int is_string; } pk_nest;

    static inline void pk_nest_open(pk_nest *n) {
        if (++n->depth > n->deepest) n->deepest = n->depth;
    }
    /* Byte by byte up to `stop`, or to one byte further when that is escaped. */
    static inline void pk_nest_bytes(pk_nest *n, const unsigned char *p, int64_t stop) {
        while (n->at < stop) {
            int c = p[n->at++];
            if (n->is_string) {
                if (c == 92) n->at++;
                else if (c == 34) n->is_string = 0;
            }
            else if (c == 34) n->is_string = 1;
            else if ((c | 32) == 123) pk_nest_open(n);
            else if ((c | 32) == 125) n->depth--;
        }
    }
    #if defined(__SSE2__)
    /* Which of 64 bytes, with `bits` set, are `c`. */
    static inline uint64_t pk_equal64(const unsigned char *p, char bits, char c) {
        const __m128i set = _mm_set1_epi8(bits), wanted = _mm_set1_epi8(c);
        uint64_t found = 0;
        int i;
        for (i = 0; i < 4; i++) {
            __m128i w = _mm_or_si128(_mm_loadu_si128((const __m128i *)(p + 16 * i)), set);
            found |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(w, wanted)) << (16 * i);
        }
        return found;
    }
    /* 64 bytes without a backslash: a byte is in a string when the quotes up to it are odd. */
    static inline void pk_nest_block(pk_nest *n, const unsigned char *p) {
        uint64_t inside = pk_equal64(p, 0, 34), opening, closing, both;
        int shift;
        for (shift = 1; shift < 64; shift *= 2) inside ^= inside << shift;
        if (n->is_string) inside = ~inside;
        n->is_string = (int)(inside >> 63);
        opening = pk_equal64(p, 32, 123) & ~inside;
        closing = pk_equal64(p, 32, 125) & ~inside;
        if (n->depth + __builtin_popcountll(opening) <= n->deepest) {  /* no matter in which order */
            n->depth += __builtin_popcountll(opening) - __builtin_popcountll(closing);
            return;
        }
        for (both = opening | closing; both; both &= both - 1) {
            if (opening & both & (~both + 1)) pk_nest_open(n);
            else n->depth--;
        }
    }
    #endif
    /* The most brackets that are open at once outside of strings. The count may end when they are
       more than `most`. */
    static inline int64_t pk_nesting(const unsigned char *p, int64_t end, int64_t most) {
        pk_nest n = {0, 0, 0, 0};
    #if defined(__SSE2__)
        while (end - n.at >= 64 && n.deepest <= most) {
            if (pk_equal64(p + n.at, 0, 92)) {
                pk_nest_bytes(&n, p, n.at + 64);
            } else {
                pk_nest_block(&n, p + n.at);
                n.at += 64;
            }
        }
    #endif
        if (n.deepest <= most) pk_nest_bytes(&n, p, end);
        return n.deepest;
    }
    static inline uint64_t pk_rotl64(uint64_t v, int bits) {
        return (v << bits) | (v >> (64 - bits));
    }
    static inline uint64_t pk_mul32(uint64_t a, uint64_t b) {
        return (uint64_t)(uint32_t)a * (uint32_t)b;
    }
    /* The 128-bit product of two words, its halves combined by xor. */
    static inline uint64_t pk_mul128_fold64(uint64_t a, uint64_t b) {
    #if defined(__SIZEOF_INT128__)
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    #else
        uint64_t low = pk_mul32(a, b), high = pk_mul32(a >> 32, b >> 32);
        uint64_t left = pk_mul32(a >> 32, b), right = pk_mul32(a, b >> 32);
        uint64_t cross = (low >> 32) + (left & 0xFFFFFFFFULL) + right;
        return ((cross << 32) | (low & 0xFFFFFFFFULL)) ^ ((left >> 32) + (cross >> 32) + high);
    #endif
    }

    #define PK_P32_1 0x9E3779B1ULL
    #define PK_P32_2 0x85EBCA77ULL
    #define PK_P32_3 0xC2B2AE3DULL
    #define PK_P64_1 0x9E3779B185EBCA87ULL
    #define PK_P64_2 0xC2B2AE3D27D4EB4FULL
    #define PK_P64_3 0x165667B19E3779F9ULL
    #define PK_P64_4 0x85EBCA77C2B2AE63ULL
    #define PK_P64_5 0x27D4EB2F165667C5ULL
    #define PK_MX_1 0x165667919E3779F9ULL
    #define PK_MX_2 0x9FB21C651E98DF25ULL

    static const unsigned char pk_secret[192] = {
        0xb8,0xfe,0x6c,0x39,0x23,0xa4,0x4b,0xbe,0x7c,0x01,0x81,0x2c,0xf7,0x21,0xad,0x1c,
        0xde,0xd4,0x6d,0xe9,0x83,0x90,0x97,0xdb,0x72,0x40,0xa4,0xa4,0xb7,0xb3,0x67,0x1f,
        0xcb,0x79,0xe6,0x4e,0xcc,0xc0,0xe5,0x78,0x82,0x5a,0xd0,0x7d,0xcc,0xff,0x72,0x21,
        0xb8,0x08,0x46,0x74,0xf7,0x43,0x24,0x8e,0xe0,0x35,0x90,0xe6,0x81,0x3a,0x26,0x4c,
        0x3c,0x28,0x52,0xbb,0x91,0xc3,0x00,0xcb,0x88,0xd0,0x65,0x8b,0x1b,0x53,0x2e,0xa3,
        0x71,0x64,0x48,0x97,0xa2,0x0d,0xf9,0x4e,0x38,0x19,0xef,0x46,0xa9,0xde,0xac,0xd8,
        0xa8,0xfa,0x76,0x3f,0xe3,0x9c,0x34,0x3f,0xf9,0xdc,0xbb,0xc7,0xc7,0x0b,0x4f,0x1d,
        0x8a,0x51,0xe0,0x4b,0xcd,0xb4,0x59,0x31,0xc8,0x9f,0x7e,0xc9,0xd9,0x78,0x73,0x64,
        0xea,0xc5,0xac,0x83,0x34,0xd3,0xeb,0xc3,0xc5,0x81,0xa0,0xff,0xfa,0x13,0x63,0xeb,
        0x17,0x0d,0xdd,0x51,0xb7,0xf0,0xda,0x49,0xd3,0x16,0x55,0x26,0x29,0xd4,0x68,0x9e,
        0x2b,0x16,0xbe,0x58,0x7d,0x47,0xa1,0xfc,0x8f,0xf8,0xb8,0xd1,0x7a,0xd0,0x31,0xce,
        0x45,0xcb,0x3a,0x8f,0x95,0x16,0x04,0x28,0xaf,0xd7,0xfb,0xca,0xbb,0x4b,0x40,0x7e};

    static const unsigned char pk_pairs[201] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    """
    uint16_t u16 "pk_u16"(const unsigned char *p, int64_t at) noexcept nogil
    uint32_t u32 "pk_u32"(const unsigned char *p, int64_t at) noexcept nogil
    int64_t letters_end "pk_letters_end"(Bytes p, int64_t at, int64_t end) noexcept nogil
    int64_t nesting_of "pk_nesting"(Bytes p, int64_t end, int64_t most) noexcept nogil
    uint64_t u64 "pk_u64"(const unsigned char *p, int64_t at) noexcept nogil
    void put16 "pk_put16"(unsigned char *p, int64_t at, uint16_t v) noexcept nogil
    void put32 "pk_put32"(unsigned char *p, int64_t at, uint32_t v) noexcept nogil
    void put64 "pk_put64"(unsigned char *p, int64_t at, uint64_t v) noexcept nogil
    void copy "pk_copy"(Room to, int64_t at, Bytes p, int64_t start, int64_t n) noexcept nogil
    void clear "pk_clear"(Room p, int64_t at, int64_t n) noexcept nogil
    uint64_t swap64 "pk_swap64"(uint64_t v) noexcept nogil
    uint64_t rotl64 "pk_rotl64"(uint64_t v, int bits) noexcept nogil
    uint64_t mul32 "pk_mul32"(uint64_t a, uint64_t b) noexcept nogil
    uint64_t mul128_fold64 "pk_mul128_fold64"(uint64_t a, uint64_t b) noexcept nogil
    const unsigned char *SECRET "pk_secret"
    const unsigned char *PAIRS "pk_pairs"
    const uint64_t P32_1 "PK_P32_1", P32_2 "PK_P32_2", P32_3 "PK_P32_3"
    const uint64_t P64_1 "PK_P64_1", P64_2 "PK_P64_2", P64_3 "PK_P64_3"
    const uint64_t P64_4 "PK_P64_4", P64_5 "PK_P64_5", MX_1 "PK_MX_1", MX_2 "PK_MX_2"


# What `scan` and `project` answer about a frame; ABSENT is a record that is not there at all.
cdef enum:
    CLEAN = 0
    TORN = 1
    CHECKSUM = 2
    MALFORMED = 3
    STRANGER = 4
    ABSENT = 9

# The first four bytes of a body without meta, with meta, and of what follows a meta value.
cdef enum:
    DATA_FIRST = 0x2264227B
    META_FIRST = 0x226D227B
    DATA_NEXT = 0x2264222C

# How deep plain JSON may nest: limits.JSON_DEPTH_MAX. `is_plain_json` has one bit for each level, in two words.
cdef enum:
    DEPTH_MAX = 128

# Options of `project`.
cdef enum:
    WITH_TAG = 1
    WITH_META = 2
    WITH_DATA = 4
    DOLLAR = 8
    VERIFY = 16
    ARRAY = 32
    FRAMES = 64


# Any object with a buffer, held open for as long as the view lives.
@cython.final
cdef class View:
    cdef Py_buffer raw
    cdef Bytes at
    cdef int64_t size


# Room for a bytes object of known size, filled through a pointer and then given away.
@cython.final
cdef class Block:
    cdef bytes owner
    cdef Room at


# A text somewhere in memory that another object keeps alive.
ctypedef struct Text:
    Bytes at
    int64_t size


# One record to encode.
ctypedef struct Parts:
    Text data
    Text meta
    Text tag
    Text node


# Frames that belong together in the answer of a scan.
ctypedef struct Run:
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


# Where a scan stands. `runs` and `offsets` are owned by whoever started it.
ctypedef struct Walk:
    Run *runs
    int64_t run_count
    int64_t run_room
    Room offsets
    int64_t offset_count
    int64_t offset_room
    int64_t at
    int reason
    bint out_of_memory


# What a projection is asked for, and how far it came. `out` is owned by whoever asked.
ctypedef struct Page:
    Bytes frames
    int64_t size
    Bytes table
    int64_t stride
    Bytes dead
    int64_t dead_size
    Text *nodes
    int64_t node_count
    Text tag
    bint has_tag
    bint tag_prefix
    int64_t i
    int64_t i1
    int64_t limit
    int64_t budget
    int options
    uint64_t first_seq
    uint64_t topic_id
    Room out
    int64_t used
    int64_t room
    int64_t delivered
    int status
    bint out_of_memory


cdef uint64_t short_avalanche(uint64_t h) noexcept nogil
cdef uint64_t avalanche(uint64_t h) noexcept nogil
cdef uint64_t mix16(Bytes p, int64_t at, int64_t secret_at) noexcept nogil
cdef uint64_t hash_to_16(Bytes p, int64_t size) noexcept nogil
cdef uint64_t hash_to_128(Bytes p, int64_t size) noexcept nogil
cdef uint64_t hash_to_240(Bytes p, int64_t size) noexcept nogil
cdef void accumulate(uint64_t *acc, Bytes p, Bytes secret) noexcept nogil
cdef uint64_t hash_long(Bytes p, int64_t size) noexcept nogil
cdef uint64_t hash64(Bytes p, int64_t at, int64_t size) noexcept nogil

cdef int frame_fault(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef bint checksum_holds(Bytes p, int64_t at) noexcept nogil
cdef int64_t payload_of(Bytes p, int64_t at) noexcept nogil
cdef int64_t value_end(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef int64_t meta_of(Bytes p, int64_t body, int64_t size) noexcept nogil
cdef int64_t locate(Bytes frames, int64_t size, Bytes table, int64_t stride, int64_t i) noexcept nogil
cdef bint is_dead(Bytes dead, int64_t size, int64_t i) noexcept nogil
cdef int64_t live_at(Bytes frames, int64_t size, Bytes table, int64_t stride, Bytes dead, int64_t dead_size, int64_t i) noexcept nogil

cdef int64_t payload_at(Bytes frames, int64_t size, Bytes table, int64_t stride, int64_t i) noexcept nogil

cdef Text text_of(object item, str what, int64_t i) except *
cdef int64_t put_head(Room out, int64_t at, int kind, int flags, uint64_t topic_id, uint64_t seq, uint64_t ts, int64_t node_size, int64_t tag_size, int64_t data_size) noexcept nogil
cdef int64_t put_checksum(Room out, int64_t start, int64_t at) noexcept nogil
cdef void fill_appends(Room out, Room offsets, Parts *parts, int64_t count, uint64_t topic_id, uint64_t seq, uint64_t ts, int flags) noexcept nogil
cdef void *roomier(void *block, int64_t *room, int64_t needed, int64_t width) noexcept nogil
cdef bint take(Walk *w, Bytes p, int64_t frame_end) noexcept nogil
cdef int end_of_log(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef void walk(Walk *w, Bytes p, int64_t end) noexcept nogil
cdef int64_t put_decimal(Room out, int64_t at, uint64_t value) noexcept nogil
cdef int64_t put_escaped(Room out, int64_t at, Bytes p, int64_t start, int64_t size) noexcept nogil
cdef bint is_among(Text *nodes, int64_t count, Bytes p, int64_t start, int64_t size) noexcept nogil
cdef int64_t put_object(Page *page, int64_t at, int64_t start, int64_t meta) noexcept nogil
cdef int64_t judge(Page *page) noexcept nogil
cdef void fill_page(Page *page) noexcept nogil
cdef Room spare_block
cdef int64_t spare_bytes
cdef Room take_spare() noexcept
cdef void give_spare(Room block, int64_t room) noexcept
cdef void put_entry(Room out, int64_t at, uint64_t offset, Bytes p, int64_t start) noexcept nogil
cdef bint tag_matches(Bytes p, int64_t start, Bytes pattern, int64_t size, bint prefix) noexcept nogil
cdef int64_t string_end(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef bint is_hex(int c) noexcept nogil
cdef int64_t digits_end(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef int64_t number_end(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef int64_t word_end(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef int64_t blanks_end(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef bint is_plain_json(Bytes p, int64_t at, int64_t end) noexcept nogil
cdef int64_t record_at(Parts *one, Bytes p, int64_t at, int64_t end) noexcept nogil
cdef bint is_ascii(Bytes p, int64_t size) noexcept nogil
cdef int64_t weigh_records(Bytes p, int64_t at, int64_t end, int64_t count, int64_t tag_max, int64_t node_max, int64_t *largest) noexcept nogil
cdef void choose(Page *page, int64_t *starts, int64_t *metas, int64_t *sums) noexcept nogil
cdef int64_t place_of_text(Page *page, int which, int64_t start, int64_t meta) noexcept nogil
cdef int64_t size_of_text(Page *page, int which, int64_t start, int64_t meta) noexcept nogil
cdef void fill_texts(Page *page, int which, int64_t *starts, int64_t *metas, Room offsets, Room texts, Room bits) noexcept nogil
cdef void fill_numbers(Page *page, int64_t *starts, Room seqs, Room tss) noexcept nogil
