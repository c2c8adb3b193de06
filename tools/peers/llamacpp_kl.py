#!/usr/bin/env python3
"""llama.cpp's own distance to FP32: mean KL divergence of its next-token distributions from those that
transformers computes with the same weights dequantised to FP32.

    tools/peers/llamacpp_kl.py [--model FILE.gguf] [--text FILE] [--threads N]

Needs llama-cpp-python, transformers, torch and gguf. The text and its 512 tokens are those of
tools/golden/real_model.py. The two run in processes of their own: their thread libraries do not share one.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def write_reference(model_path, text_path, out):
    sys.path.insert(0, os.path.join(ROOT, "tools/golden"))
    import real_model
    import torch
    model, tokenizer = real_model.load(model_path)
    with open(text_path, encoding="utf-8") as file:
        tokens = tokenizer(file.read(), add_special_tokens=False,
                           return_tensors="pt").input_ids[:, :real_model.TOKENS]
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits[0]
    np.savez(out, tokens=tokens[0].numpy(), logits=logits.float().numpy())


def write_llamacpp(model_path, threads, tokens, out):
    import llama_cpp
    llama_cpp.llama_backend_init()
    load = llama_cpp.llama_model_default_params()
    # Its AMX path faults on virtual machines that announce AMX without granting it.
    load.use_extra_bufts = False
    model = llama_cpp.llama_model_load_from_file(os.path.realpath(model_path).encode(), load)
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, 512, 512
    params.n_threads = params.n_threads_batch = threads
    context = llama_cpp.llama_init_from_model(model, params)
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if llama_cpp.llama_decode(context, batch) != 0:
        sys.exit("llama_decode failed")
    n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), shape=(len(tokens), n_vocab))
    np.savez(out, logits=logits, version=llama_cpp.__version__)


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def run(target, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        sys.exit(f"{target.__name__} failed with {process.exitcode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.path.join(ROOT, ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--text", default=os.path.join(ROOT, "examples/long_text.txt"))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = os.path.join(folder, "reference.npz"), os.path.join(folder, "llamacpp.npz")
        run(write_reference, arguments.model, arguments.text, ours)
        reference = np.load(ours)
        run(write_llamacpp, arguments.model, arguments.threads, reference["tokens"].tolist(), theirs)
        llamacpp = np.load(theirs)
        p, q = log_softmax(reference["logits"]), log_softmax(llamacpp["logits"])
        kl = (np.exp(p) * (p - q)).sum(-1)
        same = (p.argmax(-1) == q.argmax(-1)).mean()
        print(f"llama-cpp-python {llamacpp['version']}, {len(kl)} tokens: mean KL {kl.mean():.6f} nats, "
              f"largest {kl.max():.6f}, top token equal at {100 * same:.2f} %")


if __name__ == "__main__":
    main()
