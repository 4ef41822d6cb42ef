#!/usr/bin/env python3
"""Compiles steps of maxtext.csv as MaxText itself makes them: python maxtext.py PROGRAM... (1 to 10 minutes each).

Wants `echelon` on PATH, python3 with the packages that the row names and MaxText's others, and two checkouts: MAXTEXT, AI-Hypercomputer/maxtext at the row's commit,
and RECIPES, AI-Hypercomputer/tpu-recipes."""
import csv
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "capture"))
import compile as capture  # traces/capture/compile.py

# What a recipe asks for besides its step.
BESIDES = re.compile(r"(steps|profile\w*|skip_first_n_steps_for_profiler|tokenizer\w*|gcs_metrics|enable_checkpointing|base_output_directory|output_dir|run_name)=")


def said(script, name):
    """The words of a recipe's variable."""
    return re.search(r'^%s="(.*?)"$' % name, script.replace("\\\n", " "), re.M)[1].split()


def compiled(row, folder):
    """The process group that compiles the step, and whose dumps lie in the folder."""
    maxtext = os.environ["MAXTEXT"]
    with open(os.path.join(os.environ["RECIPES"], "training", "ironwood", row["recipe"], "run_recipe.sh")) as file:
        script = file.read()
    new = os.path.exists(os.path.join(maxtext, "src", "maxtext", "trainers", "pre_train", "train.py"))  # where its parts lie since 2026
    module, config = ("maxtext.trainers.pre_train.train", "maxtext") if new else ("MaxText.train", "MaxText")
    arguments = [word for word in said(script, "MAXTEXT_ARGS") if not BESIDES.match(word)]
    environment = dict(os.environ, TMPDIR=folder, PYTHONPATH="src", JAX_PLATFORMS="tpu,cpu", ENABLE_PJRT_COMPATIBILITY="true",
                       LIBTPU_INIT_ARGS=" ".join(said(script, "XLA_FLAGS")))
    return subprocess.Popen(["echelon", "capture", "--pretend", row["device"], "--gpus", row["devices"], "-o", os.path.join(folder, "step"), "--", "python3", "-m",
                             module, f"src/{config}/configs/base.yml", *arguments, "steps=2", "enable_checkpointing=False", f"base_output_directory={folder}",
                             f"run_name={row['program']}"], cwd=maxtext, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)


with open(os.path.join(here, "maxtext.csv")) as table:
    rows = list(csv.DictReader(line for line in table if line[0] != "#"))
for row in (row for row in rows if row["program"] in sys.argv[1:]):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process, assignment = compiled(row, folder), []
        while not assignment:  # before the compiler generates code, which takes longest
            if process.poll() is not None:
                sys.exit(f"{row['program']}: MaxText ended, exit code {process.returncode}, before its step was compiled")
            time.sleep(1)
            assignment = glob.glob(os.path.join(folder, "*", "module_*.jit_train_step.*after_optimizations-buffer-assignment.txt"))
        time.sleep(3)  # for its end
        capture.keep(assignment[0].replace("-buffer-assignment", ""), os.path.join(here, row["program"] + ".hlo.txt.gz"))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    print(row["program"], flush=True)
