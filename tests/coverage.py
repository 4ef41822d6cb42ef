#!/usr/bin/env python3
"""What the tests of the coverage preset have not run: lines a folder, the files with most of them, functions never called.

usage: cmake --preset coverage && cmake --build --preset coverage && ctest --preset coverage; tests/coverage.py [BUILD]
Code that runs only in a child which ends by _exit (the SimGrid worker) counts as not run.
"""
import collections
import json
import os
import signal
import subprocess
import sys

signal.signal(signal.SIGPIPE, signal.SIG_DFL)
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "build", "coverage"))
lines = collections.defaultdict(dict)  # file -> line -> times run
calls = collections.Counter()
for folder, _, names in os.walk(os.path.join(build, "CMakeFiles", "ech_objects.dir")):
    for name in names:
        if not name.endswith(".gcda"):
            continue
        printed = subprocess.run(["gcov", "--json-format", "--stdout", os.path.join(folder, name)], capture_output=True, check=True, cwd=build).stdout
        for document in printed.splitlines():
            for file in json.loads(document)["files"]:
                path = os.path.relpath(os.path.join(build, file["file"]), root)
                if path.startswith("..") or path.startswith("build"):
                    continue
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[path][number] = lines[path].get(number, 0) + line["count"]
                for function in file["functions"]:
                    calls[path, function["name"]] += function["execution_count"]
if not lines:
    sys.exit(f"{build}: no test has run there; see the usage in this file")
missed = {path: sum(count == 0 for count in of.values()) for path, of in lines.items()}


def row(name, total, without):
    print(f"{name:<44} {without:6} of {total:6} lines not run, {100 * (total - without) / total:5.1f} % run")


folders = collections.defaultdict(lambda: [0, 0])
for path, of in lines.items():
    for name in (os.path.dirname(path), "all"):
        folders[name][0] += len(of)
        folders[name][1] += missed[path]
for name in sorted(folders):
    row(name, *folders[name])
print("\nmost")
for path in sorted(missed, key=lambda path: -missed[path])[:25]:
    row(path, len(lines[path]), missed[path])
print("\nnever called")
for (path, name), count in sorted(calls.items()):
    if count == 0:
        print(f"{path} {name}")
