cimport cython
from libc.math cimport asin, atan2, cos, exp, exp2, fabs, floor, isfinite, isnan, log, pow, sin, sqrt
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<stdint.h>":
    const int32_t INT32_MIN
    const int64_t INT64_MIN
    const int64_t INT64_MAX
