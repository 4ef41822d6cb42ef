#!/usr/bin/env python3
"""Compiles every program of measured.csv for a v6e again: pip install jax libtpu; python make.py (half an hour)."""
import os
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
capture = os.path.join(here, "..", "capture")
with open(os.path.join(here, "measured.csv")) as table:
    names = [line.split(",")[0] for line in table if line[0] != "#"][1:]
for name in names:
    kept = os.path.join(here, name + ".hlo.txt.gz")
    if os.path.exists(kept):
        continue
    part, sizes = name.rsplit("_", 1)
    rows, k, n = sizes.split("x")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "compile.py", "examples/transformer_parts.py", "--chip", "v6e", "-o", folder, "--set", "part=" + part, "--set", "rows=" + rows,
                        "--set", "k=" + k, "--set", "n=" + n], cwd=capture, check=True, stdout=subprocess.DEVNULL)
        shutil.copy(os.path.join(folder, "program.hlo.txt.gz"), kept)
    print(name, flush=True)
