// Golden files of tests/golden/tokenizer/ and the generator of random strings behind them
// (tools/golden/tokenizer_corpus.py has the same one).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/testing/golden_hash.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {

inline std::string golden_path(const std::string& name) {
    return std::string(BIFOCAL_SOURCE_DIR "/tests/golden/tokenizer/") + name;
}

inline nlohmann::json read_golden(const std::string& name) {
    std::ifstream file(golden_path(name));
    EXPECT_TRUE(file.good()) << name;
    return nlohmann::json::parse(file);
}

class SplitMix {
  public:
    explicit SplitMix(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        state_ += 0x9E3779B97F4A7C15u;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

  private:
    uint64_t state_;
};

inline std::string generated(uint64_t index, const std::vector<std::string>& atoms) {
    SplitMix rng(index * 0x2545F4914F6CDD1Du + 12345);
    std::string out;
    for (uint64_t n = 1 + rng.next() % 20; n > 0; --n) {
        const uint64_t r = rng.next();
        if (r % 16 == 0) {
            const auto c = static_cast<char32_t>(rng.next() % 0x110000);
            unicode::append(out, c >= 0xD800 && c < 0xE000 ? U'\uFFFD' : c);
        } else {
            out += atoms[(r >> 8) % atoms.size()];
        }
    }
    return out;
}

// Compares `tokenizer` with a golden file: the corpus in full, 40,000 generated strings by the hash
// of each block of 100, and every id decoded alone and in a pair.
inline void compare_with_golden(const Tokenizer& tokenizer, const nlohmann::json& golden) {
    const nlohmann::json corpus = read_golden("corpus.json");
    const auto atoms = corpus["atoms"].get<std::vector<std::string>>();
    for (size_t i = 0; i < corpus["samples"].size(); ++i) {
        ASSERT_EQ(generated(i, atoms), corpus["samples"][i].get<std::string>());
    }
    ASSERT_EQ(corpus["cases"].size(), golden["cases"].size());
    for (size_t i = 0; i < golden["cases"].size(); ++i) {
        const auto text = corpus["cases"][i].get<std::string>();
        const nlohmann::json& expected = golden["cases"][i];
        auto ids = tokenizer.encode(text);
        ASSERT_TRUE(ids) << ids.error().message();
        ASSERT_EQ(*ids, expected["ids"].get<std::vector<int32_t>>())
            << "case " << i << ": " << text;
        const std::string decoded = expected.value("decoded", text);
        EXPECT_EQ(*tokenizer.decode(*ids), decoded) << "case " << i;
        EXPECT_EQ(*tokenizer.decode(*ids, false), expected.value("with_special", decoded));
    }
    size_t wrong_ids = 0, wrong_texts = 0;
    const size_t blocks = golden["generated_ids"].size();
    ASSERT_EQ(blocks, 400u);
    for (size_t block = 0; block < blocks; ++block) {
        GoldenHash ids_hash, text_hash;
        for (size_t i = block * 100; i < block * 100 + 100; ++i) {
            auto ids = tokenizer.encode(generated(i, atoms));
            ASSERT_TRUE(ids) << ids.error().message();
            ids_hash.add(*ids);
            text_hash.add(*tokenizer.decode(*ids, false));
        }
        if (ids_hash.hex() != golden["generated_ids"][block].get<std::string>()) {
            ++wrong_ids;
            if (wrong_ids <= 3) ADD_FAILURE() << "ids differ in strings " << block * 100 << "..";
        }
        if (text_hash.hex() != golden["generated_texts"][block].get<std::string>()) {
            ++wrong_texts;
            if (wrong_texts <= 3)
                ADD_FAILURE() << "texts differ in strings " << block * 100 << "..";
        }
    }
    EXPECT_EQ(wrong_ids, 0u) << "of " << blocks << " blocks";
    EXPECT_EQ(wrong_texts, 0u) << "of " << blocks << " blocks";
    const auto size = golden["vocab_size"].get<int32_t>();
    EXPECT_EQ(tokenizer.vocab_size(), size);
    GoldenHash alone;
    for (int32_t id = 0; id < size; ++id) {
        alone.add(*tokenizer.decode(std::vector<int32_t>{id}, false));
        const auto other = static_cast<int32_t>((int64_t{id} * 7 + 13) % size);
        alone.add(*tokenizer.decode(std::vector<int32_t>{id, other}, false));
    }
    EXPECT_EQ(alone.hex(), golden["singles_and_pairs"].get<std::string>());
}

}  // namespace bifocal::tokenizer
