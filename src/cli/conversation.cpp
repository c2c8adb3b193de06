#include "cli/conversation.h"

#include <fmt/format.h>

#include <chrono>

#include "core/json/json.h"
#include "runtime/checksum.h"
#include "runtime/snapshot.h"

namespace bifocal::cli {
namespace {

uint64_t hash_of(std::string_view text) {
    return checksum(std::as_bytes(std::span(text)));
}

}  // namespace

Conversation::Conversation(Session session, const ChatPrompt& prompt, const Model& model,
                           const ops::SamplingOptions& sampling, const std::string& system)
    : session_(std::move(session)),
      prompt_(&prompt),
      model_(&model),
      sampler_(sampling),
      system_(system) {
    reset();
}

void Conversation::reset() {
    session_.reset();
    messages_ = nlohmann::ordered_json::array();
    if (!system_.empty()) messages_.push_back(chat_message("system", system_));
    held_ = {};
}

bool Conversation::extends_held(const std::string& text) const {
    return text.size() > held_.bytes &&
           hash_of(std::string_view(text).substr(0, held_.bytes)) == held_.hash;
}

void Conversation::hold(const std::string& text) {
    held_ = {text.size(), hash_of(text)};
}

Result<Reply> Conversation::say(const std::string& text, const ReplyOptions& options) {
    nlohmann::ordered_json messages = messages_;
    messages.push_back(chat_message("user", text));
    BIFOCAL_TRY(const Rendered rendered, prompt_->render(messages, true));

    Reply reply;
    size_t begin = 0;
    if (session_.position() > 0) {
        if (extends_held(rendered.text)) {
            begin = held_.bytes;
        } else {
            reply.reread = true;
            session_.reset();
        }
    }
    BIFOCAL_TRY(const std::vector<int32_t> tokens, prompt_->encode(rendered, begin));
    reply.read_tokens = std::ssize(tokens);
    const auto start = std::chrono::steady_clock::now();
    const int64_t before = session_.position();
    const Status read = session_.prefill(tokens, [&](int64_t done) {
        return !options.on_read || options.on_read(done, reply.read_tokens);
    });
    if (!read.ok()) {
        // A session that stopped halfway holds a text that nobody knows: read all again next time.
        if (session_.position() != before) session_.reset();
        return read.error();
    }
    reply.read_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const int32_t token : tokens) sampler_.accept(token);

    tokenizer::StreamingDecoder stream(*model_->tokenizer(), true);
    GenerateOptions generation;
    generation.max_tokens = options.max_tokens;
    generation.stop_tokens = model_->stop_tokens();
    generation.never_stops = options.never_stops;
    generation.should_stop = options.should_stop;
    const auto emit = [&](std::string_view piece) {
        reply.text += piece;
        if (options.on_text && !piece.empty()) options.on_text(piece);
    };
    generation.on_text = emit;
    BIFOCAL_TRY(reply.generation, generate(session_, sampler_, stream, generation));
    emit(stream.flush());

    messages.push_back(chat_message("assistant", reply.text));
    messages_ = std::move(messages);
    std::string held = rendered.text + reply.text;
    BIFOCAL_TRY_STATUS(read_last_token(reply, held));
    hold(held);
    return reply;
}

// The token that generate() gave out last is not in the session yet. One that ends the turn is read
// only if the template writes the same there.
Status Conversation::read_last_token(const Reply& reply, std::string& text) {
    const std::vector<int32_t>& tokens = reply.generation.tokens;
    if (reply.generation.n_steps == std::ssize(tokens)) return {};
    if (reply.generation.reason == StopReason::stop_token) {
        const std::string with_stop = text + std::string(model_->tokenizer()->token(tokens.back()));
        BIFOCAL_TRY(const Rendered next, prompt_->render(messages_, false));
        if (!next.text.starts_with(with_stop)) return {};
        text = with_stop;
    }
    return session_.decode(tokens.back());
}

Result<Conversation> Conversation::fork() const {
    BIFOCAL_TRY(Session session, session_.fork());
    Conversation copy(std::move(session), *this);
    return copy;
}

Conversation::Conversation(Session session, const Conversation& other)
    : session_(std::move(session)),
      prompt_(other.prompt_),
      model_(other.model_),
      sampler_(other.sampler_),
      messages_(other.messages_),
      system_(other.system_),
      held_(other.held_) {}

Status Conversation::save(const std::string& path) const {
    GenerationState around;
    around.sampler = sampler_;
    around.tokenizer_identity = model_->tokenizer()->identity();
    around.transcript =
        json::to_text(nlohmann::ordered_json{{"messages", messages_},
                                             {"held_bytes", held_.bytes},
                                             {"held_hash", fmt::format("{:016x}", held_.hash)}});
    return save_snapshot(session_, around, path);
}

Status Conversation::load(const std::string& path) {
    // Into a copy first: what is wrong with the transcript shows only after the states were read.
    BIFOCAL_TRY(Session session, session_.fork());
    BIFOCAL_TRY(GenerationState around,
                load_snapshot(session, path, model_->tokenizer()->identity()));
    if (around.transcript.empty())
        return Error{.what = "the snapshot holds no conversation",
                     .where = path,
                     .hint = "'bifocal run --load-state' goes on with it"};
    const std::string where = path + ", transcript";
    BIFOCAL_TRY(const json::OrderedJson transcript, json::parse_ordered(around.transcript, where));
    const auto bad = [&](const char* what) {
        return Error{.what = what, .where = where, .hint = "the file was not saved by /save"};
    };
    if (!transcript.is_object() || !transcript.contains("messages") ||
        !transcript["messages"].is_array() || !transcript.contains("held_bytes") ||
        !transcript["held_bytes"].is_number_unsigned() || !transcript.contains("held_hash") ||
        !transcript["held_hash"].is_string())
        return bad("not a transcript");
    for (const auto& message : transcript["messages"])
        if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
            !message.contains("content") || !message["content"].is_string())
            return bad("not a message");
    const std::string hash = transcript["held_hash"].get<std::string>();
    session_ = std::move(session);
    messages_ = transcript["messages"];
    held_ = {transcript["held_bytes"].get<size_t>(), std::strtoull(hash.c_str(), nullptr, 16)};
    if (around.sampler) sampler_ = std::move(*around.sampler);
    return {};
}

}  // namespace bifocal::cli
