#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/sentencepiece.json: a small SentencePiece BPE vocabulary with scores,
trained here, and the ids that the PyPI package `sentencepiece` gives.

    python tools/golden/tokenizer_sentencepiece.py
"""
import io
import json
import pathlib

import sentencepiece as spm

import tokenizer as goldens
import tokenizer_corpus as corpus

OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden/tokenizer/sentencepiece.json"


def main():
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in goldens.TEXT for line in text.split("\n") if line]),
        model_writer=model, model_type="bpe", vocab_size=900, byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", add_dummy_prefix=True,
        remove_extra_whitespaces=False, hard_vocab_limit=False, minloglevel=2)
    sp = spm.SentencePieceProcessor(model_proto=model.getvalue())
    size = sp.get_piece_size()
    kind = lambda i: (2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1)
    pool, hashes = corpus.atoms(), []
    for begin in range(0, goldens.GENERATED, goldens.BLOCK):
        h = corpus.Hash()
        for i in range(begin, begin + goldens.BLOCK):
            h.add(sp.encode(corpus.generated(i, pool)))
        hashes.append(h.hex())
    OUT.write_text(json.dumps({
        "versions": {"sentencepiece": spm.__version__},
        "tokens": [sp.id_to_piece(i) for i in range(size)],
        "scores": [sp.get_score(i) for i in range(size)],
        "token_type": [kind(i) for i in range(size)],
        "cases": [sp.encode(text) for text in corpus.cases()],
        "generated_ids": hashes}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
