#!/usr/bin/env python3
"""What a window costs, by transformers with explicit masks: the golden for `bifocal perplexity`.

    tools/golden/window_cost.py [--model FILE.gguf] [--text FILE] [--tokens 2048] [--out FILE.json]

The model is dequantised to FP32 by transformers. One pass over the first tokens of the text per layout; the
attention mask is written out: query t sees key j iff j <= t and (t - j < window or j < sink_tokens), positions
absolute. Stores the mean negative log-likelihood in nats of tokens 1.. given what precedes them, and the log-probability
of every 64th token, so that a difference can be located.
"""

import argparse
import json
import os

import torch
import transformers

LAYOUTS = {
    "full": (None, 0),
    "sliding_window:window=512": (512, 0),
    "sliding_window:window=508,sink_tokens=4": (508, 4),
}


def mask(n, window, sinks):
    """[1, 1, n, n] additive: 0 where visible, the dtype's minimum elsewhere."""
    query, key = torch.arange(n)[:, None], torch.arange(n)[None, :]
    visible = key <= query
    if window is not None:
        visible &= (query - key < window) | (key < sinks)
    return torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None]


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.path.join(root, ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--text", default=os.path.join(root, "examples/long_text.txt"))
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--out", default=os.path.join(root, "tests/golden/models/window_cost.json"))
    options = parser.parse_args()

    folder, name = os.path.split(os.path.realpath(options.model))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    with open(options.text, encoding="utf-8") as file:
        ids = tokenizer(file.read(), add_special_tokens=False)["input_ids"]
    print(f"{len(ids)} tokens in {options.text}, scoring the first {options.tokens}")
    ids = torch.tensor([ids[:options.tokens]])
    n = ids.shape[1]

    result = {"written_by": f"transformers {transformers.__version__}, torch {torch.__version__}",
              "text": os.path.relpath(options.text, root), "tokens": n, "first_ids": ids[0, :16].tolist(), "layouts": {}}
    for layout, (window, sinks) in LAYOUTS.items():
        with torch.no_grad():
            logits = model(ids, attention_mask=mask(n, window, sinks),
                           position_ids=torch.arange(n)[None]).logits[0]
        logp = torch.log_softmax(logits.double(), -1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
        result["layouts"][layout] = {"nll": -logp.mean().item(), "every_64th": [round(x, 5) for x in logp[63::64].tolist()]}
        print(f"{layout:45} {-logp.mean().item():.5f}")
    os.makedirs(os.path.dirname(options.out), exist_ok=True)
    with open(options.out, "w") as out:
        json.dump(result, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
