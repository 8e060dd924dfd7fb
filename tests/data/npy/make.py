"""Writes the .npy files of this folder with NumPy: element (i, j) of a 3 x 5 matrix is 10 i + j / 4."""

import numpy as np
from numpy.lib import format as npy

matrix = 10.0 * np.arange(3)[:, None] + np.arange(5)[None, :] / 4


def write(name, array, version=(1, 0)):
    with open(name + ".npy", "wb") as file:
        npy.write_array(file, array, version=version)


write("c_f4", matrix.astype("<f4"))
write("c_f8", matrix.astype("<f8"))
write("fortran_f4", np.asfortranarray(matrix.astype("<f4")))
write("fortran_f8", np.asfortranarray(matrix.astype("<f8")))
write("version2", matrix.astype("<f4"), version=(2, 0))
write("version3", matrix.astype("<f4"), version=(3, 0))
write("empty", np.zeros((0, 5), "<f4"))
write("big_endian", matrix.astype(">f4"))
write("int32", matrix.astype("<i4"))
write("half", matrix.astype("<f2"))
write("complex", matrix.astype("<c8"))
write("structured", np.zeros(3, dtype=[("a", "<f4"), ("b", "<f8")]))
write("scalar", np.array(1.5, "<f4"))
write("rank1", matrix[0].astype("<f4"))
write("rank3", matrix.astype("<f4").reshape(3, 5, 1))
