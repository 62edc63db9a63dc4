# The keyed hash of the table of keys (SipHash-1-3), and prefetching.

from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #include <string.h>
    #define PF_ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
    #define PF_ROUND(a, b, c, d) do { \
        a += b; b = PF_ROTL(b, 13); b ^= a; a = PF_ROTL(a, 32); c += d; d = PF_ROTL(d, 16); d ^= c; \
        a += d; d = PF_ROTL(d, 21); d ^= a; c += b; b = PF_ROTL(b, 17); b ^= c; c = PF_ROTL(c, 32); \
    } while (0)
    static inline uint64_t pf_word(const unsigned char *p, int64_t size) {
        uint64_t w = 0;
        int64_t i;
        for (i = 0; i < size; i++) w |= (uint64_t)p[i] << (8 * i);
        return w;
    }
    static inline uint32_t pf_hash(const unsigned char *p, int64_t size, uint64_t k0, uint64_t k1) {
        uint64_t a = k0 ^ 0x736f6d6570736575ULL, b = k1 ^ 0x646f72616e646f6dULL;
        uint64_t c = k0 ^ 0x6c7967656e657261ULL, d = k1 ^ 0x7465646279746573ULL, w;
        int64_t at = 0;
        for (; size - at >= 8; at += 8) {
            memcpy(&w, p + at, 8);
            d ^= w; PF_ROUND(a, b, c, d); a ^= w;
        }
        w = pf_word(p + at, size - at) | ((uint64_t)size << 56);
        d ^= w; PF_ROUND(a, b, c, d); a ^= w;
        c ^= 0xff;
        PF_ROUND(a, b, c, d); PF_ROUND(a, b, c, d); PF_ROUND(a, b, c, d);
        a ^= b ^ c ^ d;
        return (uint32_t)(a ^ (a >> 32));
    }
    static inline int64_t pf_slot(uint64_t entry) { return (int64_t)(uint32_t)entry - 1; }
    #if defined(__GNUC__) || defined(__clang__)
    #define pf_prefetch(p) __builtin_prefetch(p)
    #else
    #define pf_prefetch(p) ((void)(p))
    #endif
    """
    uint32_t c_hash "pf_hash"(const uint8_t *p, int64_t size, uint64_t k0, uint64_t k1) noexcept nogil
    int64_t _slot_of "pf_slot"(uint64_t entry) noexcept nogil
    void c_prefetch "pf_prefetch"(const void *p) noexcept nogil

cdef enum:
    NO_KEY = -1
    FREE = -3
    LIVE = 0
    USED = 1
    NEXT_FREE = 2
    ARENA_END = 3
    GARBAGE = 4
    CREATED = 5
    RETIRED = 6


cdef uint32_t _key_hash(const uint8_t[::1] texts, int64_t at, int64_t size, uint64_t seed, uint64_t other) except? 1 nogil
cdef int64_t _key_size(const uint8_t[::1] arena, int64_t start) except? -1 nogil
cdef bint _is_key(const uint8_t[::1] arena, int64_t start, const uint8_t[::1] texts, int64_t at, int64_t size) except -1 nogil
cdef int _put_key(uint8_t[::1] arena, int64_t start, const uint8_t[::1] texts, int64_t at, int64_t size) except -1 nogil
cdef int _put_entry(uint64_t[::1] entries, uint32_t hashed, int64_t slot) except -1 nogil
cdef int64_t _utf8_size(object text) except -1
cdef int _put_utf8(uint8_t[::1] out, int64_t at, object text, int64_t size) except -1
