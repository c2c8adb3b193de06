// A conversation and the session that remembers it. Each turn reads only what is new: the
// conversation knows how much of the rendered text its session holds, by length and hash, and where
// earlier turns ended, so that a session that can go back reads no more than what changed.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bifocal/session.h"
#include "cli/chat_prompt.h"
#include "ops/sampling.h"
#include "runtime/generate.h"

namespace bifocal::cli {

struct Reply {
    std::string text;
    Generation generation;
    int64_t read_tokens = 0;  // of the prompt
    double read_seconds = 0;
    bool reread = false;  // earlier turns changed and all of them were read again
};

struct ReplyOptions {
    int64_t max_tokens = -1;
    bool never_stops = false;  // only max_tokens or should_stop end the answer
    std::function<void(std::string_view)> on_text;
    std::function<bool(int64_t done, int64_t total)> on_read;  // progress of the prompt
    std::function<bool()> should_stop;
};

class Conversation {
  public:
    // `prompt` and `model` outlive it.
    Conversation(Session session, const ChatPrompt& prompt, const Model& model,
                 const ops::SamplingOptions& sampling, const std::string& system);

    // One turn. When it fails the conversation is as before, but may have to be read again.
    Result<Reply> say(const std::string& text, const ReplyOptions& options);

    void reset();   // back to the system message
    Status undo();  // without the last turn
    Result<Conversation> fork() const;
    Status save(const std::string& path) const;
    Status load(const std::string& path);

    const Session& session() const { return session_; }
    int64_t n_messages() const { return std::ssize(messages_); }

  private:
    Conversation(Session session, const Conversation& other);
    // What of the rendered text the session had read at a position.
    struct Mark {
        size_t bytes = 0;
        uint64_t hash = 0;
        int64_t position = 0;
    };
    bool extends(const Mark& mark, const std::string& text) const;
    void add_mark(const std::string& text);
    Status take_back_to(int64_t position);
    bool go_to_common_part(const std::string& text);
    Status read_last_token(const Reply& reply, std::string& text);

    Session session_;
    const ChatPrompt* prompt_;
    const Model* model_;
    ops::Sampler sampler_;
    nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
    std::string system_;
    std::vector<Mark> marks_;  // oldest first, the session's position last; none: no tokens
};

}  // namespace bifocal::cli
