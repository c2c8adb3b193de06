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
    marks_.clear();
}

Status Conversation::undo() {
    const auto is_turn = [](const auto& message) { return message["role"] == "assistant"; };
    if (messages_.size() < 2 || !is_turn(messages_.back()))
        return Error{.what = "there is no turn to take back"};
    messages_.erase(messages_.size() - 1);
    messages_.erase(messages_.size() - 1);
    return {};  // the next turn finds out how far the session must go back
}

bool Conversation::extends(const Mark& mark, const std::string& text) const {
    return text.size() > mark.bytes &&
           hash_of(std::string_view(text).substr(0, mark.bytes)) == mark.hash;
}

// The session has read all of `text`.
void Conversation::add_mark(const std::string& text) {
    marks_.push_back({text.size(), hash_of(text), session_.position()});
}

// Brings the session to the last mark that `text` goes on from and that it can go back to. False:
// it had to begin again.
bool Conversation::go_to_common_part(const std::string& text) {
    while (!marks_.empty()) {
        const Mark& mark = marks_.back();
        if (extends(mark, text) && session_.rewind(session_.position() - mark.position).ok())
            return true;
        marks_.pop_back();
    }
    const bool was_fresh = session_.position() == 0;
    session_.reset();
    return was_fresh;
}

Result<Reply> Conversation::say(const std::string& text, const ReplyOptions& options) {
    nlohmann::ordered_json messages = messages_;
    messages.push_back(chat_message("user", text));
    BIFOCAL_TRY(const Rendered rendered, prompt_->render(messages, true));

    Reply reply;
    reply.reread = !go_to_common_part(rendered.text);
    const size_t begin = marks_.empty() ? 0 : marks_.back().bytes;
    BIFOCAL_TRY(const std::vector<int32_t> tokens, prompt_->encode(rendered, begin));
    reply.read_tokens = std::ssize(tokens);
    const auto start = std::chrono::steady_clock::now();
    const int64_t before = session_.position();
    const Status read = session_.prefill(tokens, [&](int64_t done) {
        return !options.on_read || options.on_read(done, reply.read_tokens);
    });
    if (!read.ok()) {
        // Halfway the session holds a text that nobody knows. One that cannot go back reads all
        // again next time.
        if (!session_.rewind(session_.position() - before).ok()) {
            session_.reset();
            marks_.clear();
        }
        return read.error();
    }
    add_mark(rendered.text);
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
    add_mark(held);
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
      marks_(other.marks_) {}

Status Conversation::save(const std::string& path) const {
    GenerationState around;
    around.sampler = sampler_;
    around.tokenizer_identity = model_->tokenizer()->identity();
    // A turn that failed halfway left tokens that no mark knows.
    const bool is_known = !marks_.empty() && marks_.back().position == session_.position();
    const Mark held = is_known ? marks_.back() : Mark{};
    around.transcript =
        json::to_text(nlohmann::ordered_json{{"messages", messages_},
                                             {"held_bytes", held.bytes},
                                             {"held_hash", fmt::format("{:016x}", held.hash)}});
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
    marks_ = {{transcript["held_bytes"].get<size_t>(), std::strtoull(hash.c_str(), nullptr, 16),
               session_.position()}};
    if (around.sampler) sampler_ = std::move(*around.sampler);
    return {};
}

}  // namespace bifocal::cli
