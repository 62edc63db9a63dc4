"""The types of fields that `json_fields` decodes, and why it refuses a record."""

FIELD_I64 = 0
FIELD_F64 = 1
FIELD_BOOL = 2
FIELD_STR = 3
FIELD_JSON = 4
FIELD_OPTIONAL = 8  # added to the type
FIELD_TYPES = 7  # the bits of the type alone

# What one record has of one field.
VALUE_ABSENT = 0
VALUE_PRESENT = 1
VALUE_WRONG = 2

BAD_OBJECT = 1
BAD_MISSING = 2
BAD_TYPE = 3

FIELD_GUESSES = 64  # positions in a record whose field is guessed from the record before
BAD_VALUE_BYTES_MAX = 200  # of a wrong value, to show
