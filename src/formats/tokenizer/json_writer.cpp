#include "formats/tokenizer/json_writer.h"

#include "core/json/json.h"
#include "formats/tokenizer/added_tokens.h"
#include "formats/tokenizer/parts.h"
#include "formats/tokenizer/pre_names.h"

namespace bifocal::tokenizer {
namespace {

using json::OrderedJson;

OrderedJson byte_level(bool use_regex) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", use_regex}};
}

OrderedJson pre_tokenizer(const PreName& pre) {
    OrderedJson steps = OrderedJson::array();
    if (pre.digits_first) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    if (pre.family != Family::gpt2) {
        steps.push_back({{"type", "Split"},
                         {"pattern", {{"Regex", std::string(family_pattern(pre.family))}}},
                         {"behavior", "Isolated"},
                         {"invert", false}});
    }
    steps.push_back(byte_level(pre.family == Family::gpt2));
    return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

OrderedJson post_processor(const GgufVocab& vocab, const PreName& pre) {
    const bool bos = vocab.add_bos.value_or(pre.add_bos) && vocab.bos;
    const bool eos = vocab.add_eos.value_or(false) && vocab.eos;
    if (!bos && !eos) return nullptr;
    OrderedJson single = OrderedJson::array(), specials = OrderedJson::object();
    const auto add = [&](int64_t id) {
        const std::string& token = vocab.tokens[static_cast<size_t>(id)];
        single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
        specials[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    };
    if (bos) add(*vocab.bos);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (eos) add(*vocab.eos);
    OrderedJson pair = single;
    pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", pair},
            {"special_tokens", specials}};
}

}  // namespace

Result<std::string> to_tokenizer_json(const GgufVocab& vocab, const std::string& where) {
    if (!vocab.huggingface_json.empty()) return vocab.huggingface_json;
    // What is wrong with the vocabulary itself, the reader says.
    BIFOCAL_TRY(const Tokenizer checked, Tokenizer::from_gguf(vocab, where));
    const PreName* const pre = find_pre_name(vocab.pre);
    if (vocab.model != "gpt2" || !pre)
        return Error{.what = "this tokenizer cannot be written as tokenizer.json",
                     .where = where + ", tokenizer.ggml.model",
                     .expected = "gpt2 (byte-level BPE)",
                     .got = vocab.model,
                     .hint = "convert from the Hugging Face folder of this model instead"};
    OrderedJson added = OrderedJson::array(), words = OrderedJson::object(),
                merges = OrderedJson::array();
    for (size_t id = 0; id < vocab.tokens.size(); ++id) {
        const std::string& token = vocab.tokens[id];
        const auto type = vocab.token_type.empty() ? TokenType::normal
                                                   : static_cast<TokenType>(vocab.token_type[id]);
        const bool control = type == TokenType::control || type == TokenType::unknown;
        if (control || type == TokenType::user_defined) {
            added.push_back({{"id", id},
                             {"content", token},
                             {"single_word", false},
                             {"lstrip", false},
                             {"rstrip", false},
                             {"normalized", false},
                             {"special", control}});
        }
        if (!words.contains(token)) words[token] = id;
    }
    for (const std::string& line : vocab.merges) {
        const size_t space = line.find(' ', 1);
        merges.push_back({line.substr(0, space), line.substr(space + 1)});
    }
    const bool nfc = pre->nfc && vocab.nfc;
    const OrderedJson tokenizer = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", added},
        {"normalizer", nfc ? OrderedJson{{"type", "NFC"}} : OrderedJson(nullptr)},
        {"pre_tokenizer", pre_tokenizer(*pre)},
        {"post_processor", post_processor(vocab, *pre)},
        {"decoder", byte_level(true)},
        {"model",
         {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", pre->ignore_merges},
          {"vocab", words},
          {"merges", merges}}}};
    return json::to_text(tokenizer);
}

}  // namespace bifocal::tokenizer
