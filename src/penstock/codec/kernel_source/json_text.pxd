# Searching in JSON texts, sixteen or sixty-four bytes at a time where the machine can.

cdef extern from *:
    """
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

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
    #if defined(__GNUC__) || defined(__clang__)
    #define PK_APART __attribute__((noinline))
    #else
    #define PK_APART
    #endif
    /* The last few letters, and all of them without SSE2. Apart, because its constants would be
       loaded for every string otherwise. */
    static PK_APART int64_t pk_last_letters_end(const unsigned char *p, int64_t at, int64_t end) {
        uint64_t marks;
        while (end - at >= 8) {
            marks = pk_marks(pk_u64(p, at));
            if (marks) return at + pk_first_mark(marks);
            at += 8;
        }
        while (at < end && p[at] != 34 && p[at] != 92 && p[at] >= 32 && p[at] < 128) at++;
        return at;
    }
    /* Where the letters from `at` on end: the first byte that is one of the marks above, or `end`.
       Compared with a sign, bytes above 127 are below 32 too. */
    static inline int64_t pk_letters_end(const unsigned char *p, int64_t at, int64_t end) {
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
        return pk_last_letters_end(p, at, end);
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
    """
    int64_t letters_end "pk_letters_end"(ReadPointer p, int64_t at, int64_t end) noexcept nogil
    int64_t nesting_of "pk_nesting"(ReadPointer p, int64_t end, int64_t most) noexcept nogil


cdef int64_t string_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t escaped_string_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef bint is_hex(int c) noexcept nogil
cdef int64_t digits_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t number_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t word_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t blanks_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t plain_value_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef bint is_plain_json(ReadPointer p, int64_t at, int64_t end) noexcept nogil
