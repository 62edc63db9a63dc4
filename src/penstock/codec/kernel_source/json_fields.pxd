# Decimal numbers that a float holds after one exact operation, and arrays at an address.

from libc.math cimport NAN, floor, isinf, isnan

cdef extern from *:
    """
    static inline int64_t *pk_longs(const unsigned char *p) { return (int64_t *)p; }
    static inline double *pk_doubles(const unsigned char *p) { return (double *)p; }

    static inline unsigned char *pk_writable(const unsigned char *p) { return (unsigned char *)p; }
    static inline int64_t pk_whole(double x) { return (int64_t)x; }
    static inline int pk_equal(const unsigned char *p, int64_t at, const unsigned char *q, int64_t start, int64_t n) {
        return memcmp(p + at, q + start, (size_t)n) == 0;
    }
    #define pk_ascii(p, at, end) PyUnicode_DecodeASCII((const char *)(p) + (at), (end) - (at), NULL)

    static const double pk_tens[23] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
        1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
    };
    /* The number at p[at:end], which is a JSON number. NAN when its digits or its exponent are too
       large for one multiplication or division of two exact floats, which rounds correctly. */
    static inline double pk_short_float(const unsigned char *p, int64_t at, int64_t end) {
        int negative = p[at] == '-', digits = 0;
        int64_t exponent = 0, written = 0;
        uint64_t whole = 0;
        double x;
        at += negative;
        while (at < end && p[at] >= '0' && p[at] <= '9') {
            whole = whole * 10 + (p[at++] - '0');
            digits += whole != 0;
            if (digits > 18) return NAN;
        }
        if (at < end && p[at] == '.') {
            at++;
            while (at < end && p[at] >= '0' && p[at] <= '9') {
                whole = whole * 10 + (p[at++] - '0');
                digits += whole != 0;
                exponent--;
                if (digits > 18) return NAN;
            }
        }
        if (at < end) {
            int down = 0;
            at++;
            if (p[at] == '+' || p[at] == '-') down = p[at++] == '-';
            while (at < end) {
                written = written * 10 + (p[at++] - '0');
                if (written > 400) return NAN;
            }
            exponent += down ? -written : written;
        }
        if (whole > 9007199254740992ULL || exponent < -22 || exponent > 22) return NAN;
        x = (double)whole;
        if (exponent < 0) x /= pk_tens[-exponent];
        else x *= pk_tens[exponent];
        return negative ? -x : x;
    }
    """
    int64_t *longs_at "pk_longs"(ReadPointer p) noexcept nogil
    double *doubles_at "pk_doubles"(ReadPointer p) noexcept nogil
    WritePointer writable_at "pk_writable"(ReadPointer p) noexcept nogil
    int64_t whole_of "pk_whole"(double x) noexcept nogil
    bint equal_at "pk_equal"(ReadPointer p, int64_t at, ReadPointer q, int64_t start, int64_t n) noexcept nogil
    object ascii_text "pk_ascii"(ReadPointer p, int64_t at, int64_t end)
    double short_float "pk_short_float"(ReadPointer p, int64_t at, int64_t end) noexcept nogil


cdef int64_t text_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t nested_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t any_value_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef bint is_whole(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef bint fits_long(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t long_of(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef double float_of(ReadPointer p, int64_t at, int64_t end) except? -1
cdef int64_t field_of(ReadPointer p, int64_t at, int64_t size, ReadPointer names, int64_t *starts, int64_t count, int64_t guess) noexcept nogil
