#!/usr/bin/env python3
"""What transformers computes for SmolLM2-135M-Instruct Q4_1, dequantised to FP32: the golden of the real model.

    tools/golden/real_model.py [--model FILE.gguf] [--text FILE] [--out FILE.safetensors]

Over the first 512 tokens of a text of ours: the token ids, at every position the most likely next token, the
logsumexp of the logits, and the logits of 64 ids spread over the vocabulary.
"""

import argparse
import json
import os

import safetensors.torch
import torch
import transformers

TOKENS = 512
COLUMNS = 64


def load(path):
    """The model with weights dequantised to FP32, and its tokenizer."""
    folder, file = os.path.split(os.path.realpath(path))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
    return model, tokenizer


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.path.join(root, ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--text", default=os.path.join(root, "examples/long_text.txt"))
    parser.add_argument("--out", default=os.path.join(root, "tests/golden/models/real_smollm2.safetensors"))
    arguments = parser.parse_args()

    model, tokenizer = load(arguments.model)
    with open(arguments.text, encoding="utf-8") as file:
        tokens = tokenizer(file.read(), add_special_tokens=False, return_tensors="pt").input_ids[:, :TOKENS]
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits[0].float()
    columns = torch.linspace(0, logits.shape[1] - 1, COLUMNS).long()
    golden = {
        "tokens": tokens[0].to(torch.int32),
        "top": logits.argmax(-1).to(torch.int32),
        "logsumexp": torch.logsumexp(logits.double(), -1).float(),
        "columns": columns.to(torch.int32),
        "logits": logits[:, columns].contiguous(),
    }
    about = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
             "model": os.path.basename(arguments.model), "text": os.path.basename(arguments.text)}
    safetensors.torch.save_file(golden, arguments.out,
                                metadata={"about": json.dumps(about)})  # one key: the order of several is random
    os.chmod(arguments.out, 0o644)
    top_two = logits.topk(2, -1).values
    print(f"{len(golden['tokens'])} tokens, logits within ±{logits.abs().max():.2f}, "
          f"smallest lead of a top token {(top_two[:, 0] - top_two[:, 1]).min():.5f}")


if __name__ == "__main__":
    main()
