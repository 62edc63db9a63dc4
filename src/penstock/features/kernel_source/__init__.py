"""The loops of features that run once for each event: folds of columns into arrays by row.

One source, two forms, as with `codec/kernel_source`: setup.py joins the files of this package into
one module for Cython; without a compiler the interpreter runs the same files. Both forms leave the
same bits in every array. `features/fold_kernel.py` chooses the form.

How to write a fold:
- Arrays of numbers are typed memoryviews (`int64_t[::1]`, `cython.double[::1]`), within
  `cython.const[...]` where they are only read. Booleans are `uint8_t`, arrays of Python objects are
  `object[::1]`. The caller passes numpy arrays that are contiguous; the interpreted form gets
  memoryviews of them, so that elements are Python numbers.
- An index beyond an array raises IndexError, a division by zero ZeroDivisionError, in both forms.
- Integers wrap when compiled and do not when interpreted: check before adding.
- Functions of C (`exp2`, `sqrt`) are imported from `math`; the compiled form takes those of libm,
  which c_types.pxd names. Helpers begin with an underscore and are declared in the .pxd file of
  their part; every other function is one of the kernel, and has its types in `_fold_kernel.pyi`.
"""
