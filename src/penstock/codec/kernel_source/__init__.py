"""The inner loops, once for each record: encode, scan and project frames.

One source, two forms. For the compiled form, setup.py joins the files of this package into one
module, which Cython translates to C: one translation unit, so that the C compiler inlines across
the files. It works on pointers and releases the GIL. Without a compiler the interpreter runs the
same files as ordinary modules, with `struct` and `xxhash`, and returns the same bytes. Where one
text cannot serve both forms, a function has two bodies and tests `cython.compiled`. Names of C
types and C functions come from the .pxd files. `codec/kernel.py` chooses the form.

Frames may come from a damaged disk: no function reads outside the buffers it was given, whatever
the bytes. `scan` and `project` return damage as a value. The other functions raise ValueError
naming the record when a frame is not whole inside the buffer, and IndexError when a range of
records exceeds the offset table. The layout is in docs/format/frame.md.
"""
