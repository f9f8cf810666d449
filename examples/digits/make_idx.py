#!/usr/bin/env python3
"""Makes the IDX files in data/ from the digits that scikit-learn carries. Needs nothing but Python; building and running do not need it.

    pip download --no-deps scikit-learn -d /tmp/digits
    unzip -d /tmp/digits /tmp/digits/scikit_learn*.whl 'sklearn/datasets/data/digits.csv.gz'
    python3 examples/digits/make_idx.py /tmp/digits/sklearn/datasets/data/digits.csv.gz

Every fifth image is for testing, so that each part has digits of all writers. Pixels, 0 to 16 in the source, become 0 to 255.
"""
import csv
import gzip
import pathlib
import struct
import sys

DATA = pathlib.Path(__file__).parent / "data"


def write(name, dims, values):
    # 0, 0, type (8: unsigned bytes), rank; the sizes, big-endian; the elements (http://yann.lecun.com/exdb/mnist/).
    (DATA / name).write_bytes(struct.pack(">BBBB", 0, 0, 8, len(dims)) + struct.pack(f">{len(dims)}I", *dims) + bytes(values))
    print(name, dims)


with gzip.open(sys.argv[1], "rt") as file:
    rows = [[round(float(field)) for field in row] for row in csv.reader(file)]
DATA.mkdir(exist_ok=True)
for part, wanted in (("train", lambda i: i % 5 != 4), ("t10k", lambda i: i % 5 == 4)):
    some = [row for i, row in enumerate(rows) if wanted(i)]
    write(f"{part}-images-idx3-ubyte", (len(some), 8, 8), [round(pixel * 255 / 16) for row in some for pixel in row[:64]])
    write(f"{part}-labels-idx1-ubyte", (len(some),), [row[64] for row in some])
