cdef double _radians(double degrees) noexcept nogil
cdef bint _is_place(double lat, double lon) noexcept nogil
cdef double _turn(double degrees) noexcept nogil
cdef double _arc_km(double lat, double lon, double cos_lat, double other_lat, double other_lon, double other_cos_lat) noexcept nogil
