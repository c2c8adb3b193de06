#!/usr/bin/env python3
"""Makes every named student of one teacher, asks each a question and holds its paths together.

    tools/students.py [--bifocal PROGRAM] [--model FILE] [--only WORD] [--tokens 256] [--work FOLDER]

For each layout: `bifocal convert`, `run` with a question, `verify --exact`; prints what was made, its state bytes, its answer
and the largest mean KL between its paths. Students other than windows have untrained weights and may talk nonsense.
Each is deleted before the next is made. Status 1 if a command failed or a path disagreed.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

STUDENTS = {
    "window 512": "sliding_window:window=512",
    "window 508 and 4 sink tokens": "sliding_window:window=508,sink_tokens=4",
    "window 512, learned sink": "sliding_window:window=512,sink=learned",
    "Bifocal, state per kv head, 512 tokens' worth": "bifocal:window=448,far=mlstm,state_heads=kv,sink=learned",
    "Bifocal, state per query head, 512": "bifocal:window=320,far=mlstm,state_heads=q,sink=learned",
    "Bifocal, state per kv head, 288": "bifocal:window=224,far=mlstm,state_heads=kv,sink=learned",
    "Bifocal, state per query head, 288": "bifocal:window=96,far=mlstm,state_heads=q,sink=learned",
    "Gated DeltaNet": "linear:rule=gdn",
    "mLSTM alone": "linear:rule=mlstm",
    "GLA": "linear:rule=gla",
    "Liger-GLA": "bifocal:window=64,far=liger,mix=half",
    "LoLCATs": "lolcats:window=64",
    "RAD-RWKV6": "linear:rule=rad_rwkv6",
    "RWKV-6": "linear:rule=rwkv6",
    "Mamba-2": "linear:rule=mamba2",
    "DiJiang": "linear:rule=dijiang",
    "KDA": "linear:rule=kda",
    "Lightning": "linear:rule=lightning",
}
QUESTION = "Question: What is the capital of France?\nAnswer: The capital of France is"
CALIBRATION = "examples/long_text.txt"  # for learned sinks


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def make(options, layout, folder):
    more = ["--calibrate", CALIBRATION] if "sink=learned" in layout else []
    call(options.bifocal, "convert", "-m", options.model, "--attention", layout, "-o", folder, *more)
    seen = json.loads(call(options.bifocal, "inspect", "-m", folder, "--json"))
    ran = json.loads(call(options.bifocal, "run", "-m", folder, "-p", QUESTION, "-n", "12", "--temp", "0", "--json"))
    checked = json.loads(call(options.bifocal, "verify", "-m", folder, "-f", CALIBRATION, "--tokens", str(options.tokens),
                              "--exact", "--json"))
    agrees = all(path["agrees"] for path in checked["paths"])
    worst = max(path["mean_kl"] for path in checked["paths"])
    return seen["state_bytes"], ran["text"], agrees, worst


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.chdir(root)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bifocal", default="build/release/bifocal")
    parser.add_argument("--model", default=".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--only", default="", help="students whose name or layout holds this")
    parser.add_argument("--tokens", type=int, default=256, help="of the text that paths are held together on")
    parser.add_argument("--work", help="where students are written; default: a temporary folder")
    options = parser.parse_args()
    failures = 0
    if options.work:
        os.makedirs(options.work, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        for name, layout in STUDENTS.items():
            if options.only not in name and options.only not in layout:
                continue
            folder = os.path.join(work, "student")
            try:
                state, text, agrees, worst = make(options, layout, folder)
                failures += not agrees
                print(f"{name}\n  {layout}\n  state {state:,} bytes; paths {'agree' if agrees else 'DISAGREE'}, "
                      f"largest mean KL {worst:.2g}\n  {text!r}", flush=True)
            except (RuntimeError, KeyError) as error:
                failures += 1
                print(f"{name}\n  {layout}\n  FAILED: {error}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
