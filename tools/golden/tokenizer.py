#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/: small tokenizers of every family, trained here, and what the PyPI
package `tokenizers` makes of a fixed corpus and of 40,000 generated strings with each.

    python tools/golden/tokenizer.py [--gguf SmolLM2.gguf]

With --gguf also smollm2_gguf.json: the same for the vocabulary of that file.
"""
import argparse
import json
import pathlib

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

import tokenizer_corpus as corpus

OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden/tokenizer"
GENERATED, BLOCK = 40_000, 100

C = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
P = r"[^\r\n\p{L}\p{N}]?"
S = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
U, L = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = C + "|" + P + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + S
QWEN2 = C + "|" + P + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + S
QWEN35 = C + "|" + P + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + S
O200K = (f"{P}{U}*{L}+{C}?|{P}{U}+{L}*{C}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + S)
TEKKEN = f"{P}{U}*{L}+|{P}{U}+{L}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + S
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|"
          r"\s*[\r\n]|\s+(?!\S)|\s+")

TEXT = corpus.SENTENCES * 3 + [
    "A window over the last tokens and a summary of all the others: that is the whole idea.",
    "The sum of the parts is the same as the whole when the parts do not overlap.",
    "When the night comes the lamps are lit one by one, and the street keeps its shape.",
    "for (int i = 0; i < count; ++i) {\n    total += values[i];\n}\nreturn total;\n",
    "Der Fluss behält seinen Namen, während sich das Wasser ändert. Die Straße ist lang.",
    "La rivière garde son nom pendant que l'eau change; l'été, elle est presque à sec.",
    "Река хранит имя, пока меняется вода. Улица длинная, и фонари горят всю ночь.",
    "2024-01-31 12:45:09 [INFO] 17 files, 3.5 MB, 100% done",
    "INSTALL README TODO HTTPServer parseJSON toString getValue setValue",
] * 5


def byte_level(regex=None, behavior="isolated", invert=False):
    if regex is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), behavior, invert=invert),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(pre, normalizer=None, vocab_size=900, specials=(), alphabet=True, model=None):
    t = Tokenizer(model or models.BPE())
    t.pre_tokenizer = pre
    if normalizer is not None:
        t.normalizer = normalizer
    t.train_from_iterator(TEXT, trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else []))
    return t


def special(text, **flags):
    return AddedToken(text, special=True, **{"normalized": False, **flags})


def family_byte_level(pre, normalizer=None, specials=(), added=(), ignore_merges=False, bos=None):
    t = train(pre, normalizer)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([special(s) if isinstance(s, str) else s for s in specials])
    t.add_tokens([AddedToken(a, normalized=False) if isinstance(a, str) else a for a in added])
    if bos:
        t.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
                                          special_tokens=[(bos, t.token_to_id(bos))])])
    t.model.ignore_merges = ignore_merges
    return t


def family_spm(normalizer, pre, decoder, specials=("<unk>", "<s>", "</s>")):
    """Trains with the pipeline, then puts 256 byte tokens in front of the trained ones."""
    trained = train(pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
                    vocab_size=700, alphabet=False)
    model = json.loads(trained.to_str())["model"]
    names = list(specials) + [f"<0x{b:02X}>" for b in range(256)]
    names += [t for t, _ in sorted(model["vocab"].items(), key=lambda kv: kv[1])]
    vocab = {name: i for i, name in enumerate(names)}
    t = Tokenizer(models.BPE(vocab, [tuple(m) for m in model["merges"]], unk_token="<unk>",
                             fuse_unk=True, byte_fallback=True))
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    t.decoder = decoder
    t.add_special_tokens([special(s) for s in specials])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def spm_decoder():
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                              decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def flags_family():
    """Every flag of added tokens, an unknown token, odd normalizers and behaviours."""
    trained = train(pre_tokenizers.Whitespace(), vocab_size=400, alphabet=False)
    model = json.loads(trained.to_str())["model"]
    # U+00E9 and the digit 7 are left out of the vocabulary, so that there is something unknown.
    merges = [m for m in model["merges"] if not any("7" in s or "\u00e9" in s for s in m)]
    names = ["<unk>"] + [t for t in model["vocab"] if "7" not in t and "\u00e9" not in t]
    t = Tokenizer(models.BPE({n: i for i, n in enumerate(names)}, [tuple(m) for m in merges],
                             unk_token="<unk>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(),
                                         normalizers.Replace(Regex(r"[#$]+\s?"), "%"),
                                         normalizers.Strip(left=False, right=True)])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("-", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[(){}]"), "merged_with_next"),
        pre_tokenizers.Split(Regex(r"="), "contiguous"),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.WhitespaceSplit()])
    t.decoder = decoders.Sequence([decoders.Replace("_", " "), decoders.Strip("a", 1, 0), decoders.Fuse()])
    t.add_special_tokens([special("<unk>")])
    t.add_tokens([AddedToken("~w~", single_word=True, normalized=False),
                  AddedToken("~l~", lstrip=True, normalized=False),
                  AddedToken("~r~", rstrip=True, normalized=False),
                  AddedToken("\n\n", normalized=False), AddedToken("@@", normalized=False),
                  AddedToken("@@@", single_word=True, normalized=False),
                  AddedToken("THE", normalized=True), AddedToken("\u00bd", normalized=True, rstrip=True)])
    return t


def prefix_family():
    """ByteLevel with a prefix space, followed by a step that sees mapped text; Metaspace decoder apart."""
    t = train(pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True),
                                       pre_tokenizers.Split(Regex("[0-9]"), "isolated")]))
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([special("<s>"), special("</s>", rstrip=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A $B", special_tokens=[("<s>", t.token_to_id("<s>")), ("</s>", t.token_to_id("</s>"))])
    return t


def families():
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tools = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
    smol = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    yield "gpt2", family_byte_level(byte_level(), specials=[special("<|endoftext|>", normalized=True)])
    yield "smollm", family_byte_level(smol, specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    yield "llama3", family_byte_level(byte_level(LLAMA3), ignore_merges=True, bos="<|begin_of_text|>", specials=[
        "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"])
    yield "qwen2", family_byte_level(byte_level(QWEN2), normalizers.NFC(), qwen, tools)
    yield "qwen35", family_byte_level(byte_level(QWEN35), normalizers.NFC(), qwen, tools)
    yield "o200k", family_byte_level(byte_level(O200K), specials=["<|endoftext|>", "<|start|>"])
    yield "tekken", family_byte_level(byte_level(TEKKEN, "removed", True), ignore_merges=True, bos="<s>",
                                      specials=["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])
    yield "cl100k", family_byte_level(byte_level(CL100K), specials=qwen)
    yield "spm_prepend", family_spm(
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None, spm_decoder())
    yield "spm_metaspace", family_spm(
        None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        decoders.Sequence([decoders.Metaspace(prepend_scheme="first"), decoders.ByteFallback(), decoders.Fuse()]))
    yield "flags", flags_family()
    yield "prefix", prefix_family()


def utf8(text):
    return text.encode("utf-8")


def goldens(t):
    """ids and decodes of the corpus; hashes of generated strings, of single ids and of pairs."""
    fixed = []
    for text in corpus.cases():
        ids = t.encode(text).ids
        case = {"ids": ids}
        decoded = t.decode(ids, skip_special_tokens=True)
        whole = t.decode(ids, skip_special_tokens=False)
        if decoded != text:
            case["decoded"] = decoded
        if whole != decoded:
            case["with_special"] = whole
        fixed.append(case)
    pool, id_hashes, text_hashes = corpus.atoms(), [], []
    for begin in range(0, GENERATED, BLOCK):
        ids_hash, text_hash = corpus.Hash(), corpus.Hash()
        for i in range(begin, begin + BLOCK):
            ids = t.encode(corpus.generated(i, pool)).ids
            ids_hash.add(ids)
            text_hash.add(utf8(t.decode(ids, skip_special_tokens=False)))
        id_hashes.append(ids_hash.hex())
        text_hashes.append(text_hash.hex())
    size = t.get_vocab_size()
    alone = corpus.Hash()
    for i in range(size):
        alone.add(utf8(t.decode([i], skip_special_tokens=False)))
        alone.add(utf8(t.decode([i, (i * 7 + 13) % size], skip_special_tokens=False)))
    return {"versions": {"tokenizers": tokenizers.__version__}, "vocab_size": size, "cases": fixed,
            "generated_ids": id_hashes, "generated_texts": text_hashes, "singles_and_pairs": alone.hex()}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def from_gguf(path):
    """The SmolLM2 pipeline over the vocabulary of a GGUF file."""
    import gguf
    reader = gguf.GGUFReader(path)
    strings = lambda key: [bytes(reader.fields[key].parts[i]).decode() for i in reader.fields[key].data]
    tokens, merges = strings("tokenizer.ggml.tokens"), strings("tokenizer.ggml.merges")
    field = reader.fields["tokenizer.ggml.token_type"]
    types = [int(field.parts[i][0]) for i in field.data]
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)}, [tuple(m.split(" ", 1)) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([special(s) for s, kind in zip(tokens, types) if kind == 3])
    return t


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf")
    parser.add_argument("--only", help="write this family only")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    write(OUT / "corpus.json", {"cases": corpus.cases(), "atoms": corpus.atoms(),
                                "samples": [corpus.generated(i, corpus.atoms()) for i in range(3)]})
    for name, t in families():
        if args.only and name != args.only:
            continue
        path = OUT / f"{name}_tokenizer.json"
        value = json.loads(t.to_str())
        if name == "o200k":  # the older spelling of merges
            value["model"]["merges"] = [" ".join(m) for m in value["model"]["merges"]]
        path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
        write(OUT / f"{name}.json", goldens(Tokenizer.from_file(str(path))))
        print(name, t.get_vocab_size())
    if args.gguf:
        write(OUT / "smollm2_gguf.json", goldens(from_gguf(args.gguf)))
        print("smollm2_gguf")


if __name__ == "__main__":
    main()
