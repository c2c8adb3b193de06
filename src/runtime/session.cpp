// The session: prompt in chunks, then token by token. Read Session::prefill and Session::decode
// first, then Engine::Impl::forward, which hands everything to the decoder.
#include "runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/cpu_features.h"
#include "mixers/mixer.h"
#include "model/layout.h"

namespace bifocal {

DType kv_dtype(KvType type) {
    return type == KvType::f32 ? DType::f32 : DType::bf16;
}

Status check_budget(const StatePlan& plan, const CheckpointPlan& checkpoints,
                    const EngineOptions& options) {
    const auto bytes = static_cast<int64_t>(plan.bytes + checkpoints.bytes());
    if (options.max_bytes_per_sequence == 0 || bytes <= options.max_bytes_per_sequence) return {};
    return Error{
        .what = "the layout does not fit the budget",
        .expected = fmt::format("at most {} bytes per sequence", options.max_bytes_per_sequence),
        .got = checkpoints.n_states == 0
                   ? fmt::format("{}", bytes)
                   : fmt::format("{}, {} of them for checkpoints", bytes, checkpoints.bytes()),
        .hint = "give --mem-per-seq without a window to get the largest one that fits"};
}

int64_t full_attention_bytes(const ModelSpec& spec, KvType kv_type, int64_t n_tokens) {
    if (n_tokens == 0) return 0;
    int64_t bytes = 0;
    const std::vector<MixerSpec> layout = layout_with(spec, {"full_attention"});
    for (size_t i = 0; i < layout.size(); ++i) {
        const auto mixer = make_mixer(layout[i], spec.layers[i].context);
        BIFOCAL_CHECK(mixer.ok(), "{}", mixer.error().message());
        bytes += static_cast<int64_t>((*mixer)->state_layout({n_tokens, kv_dtype(kv_type)}).bytes);
    }
    return bytes;
}

Engine::Impl::Impl(const Decoder& decoder_, uint64_t identity_, const EngineOptions& options_,
                   StatePlan plan_, const CheckpointPlan& checkpoints_, size_t workspace_bytes)
    : decoder(decoder_),
      identity(identity_),
      options(options_),
      plan(std::move(plan_)),
      checkpoints(checkpoints_),
      threads(options_.n_threads),
      workspace(workspace_bytes),
      pool(plan.bytes, options_.max_sessions),
      batch_pos(static_cast<size_t>(options_.max_batch)),
      batch_states(static_cast<size_t>(options_.max_batch)),
      batch(static_cast<size_t>(options_.max_batch)) {
    const int64_t vocab = decoder.spec.vocab_size;
    if (options.max_batch > 1) batch_logits.resize(static_cast<size_t>(options.max_batch * vocab));
    if (checkpoints.n_states > 0) replayed.resize(static_cast<size_t>(options.chunk));
    if (options.scores) chunk_logits.resize(static_cast<size_t>(options.chunk * vocab));
}

void Engine::Impl::forward(std::span<Session::Impl* const> sessions, View<const int32_t, 2> tokens,
                           Step::Logits wanted, View<float, 2> logits) {
    const size_t n = sessions.size();
    const auto T = static_cast<size_t>(tokens.shape[1]);
    for (size_t b = 0; b < n; ++b) {
        batch_pos[b] = sessions[b]->pos;
        batch_states[b] = sessions[b]->state();
    }
    Exec exec{threads, workspace};
    decoder.forward({tokens, {batch_pos.data(), n}, {batch_states.data(), n}, wanted}, plan, logits,
                    exec);
    for (size_t b = 0; b < n; ++b) {
        Session::Impl& session = *sessions[b];
        session.pos += tokens.shape[1];
        session.furthest = std::max(session.furthest, session.pos);
        session.has_logits = false;
        pool.check_guard(session.slot);
        session.checkpoints.add({tokens.data + b * T, T}, session.pos, session.furthest,
                                session.state());
    }
}

int64_t Engine::Impl::max_tokens() const {
    if (options.max_tokens < 0 || plan.max_tokens < 0)
        return std::max(options.max_tokens, plan.max_tokens);
    return std::min(options.max_tokens, plan.max_tokens);
}

Status Engine::Impl::check_room(const Session::Impl& session,
                                std::span<const int32_t> tokens) const {
    const auto n = static_cast<int64_t>(tokens.size());
    const int64_t needed = session.pos + n, most = max_tokens();
    if (most >= 0 && needed > most) {
        const bool is_full = plan.max_tokens == most;  // of a layout that has an end
        return Error{
            .what = session.pos == 0
                        ? fmt::format("a prompt of {} tokens does not fit", n)
                        : fmt::format("{} more tokens after {} do not fit", n, session.pos),
            .expected = fmt::format("at most {} tokens{}", most,
                                    is_full ? ", the capacity of full attention" : " (-c)"),
            .hint = fmt::format("-c {} makes room for them{}", needed,
                                is_full ? ", --attention sliding_window:window=508,sink_tokens=4 "
                                          "reads any length"
                                        : "")};
    }
    for (const int32_t token : tokens)
        if (token < 0 || token >= decoder.spec.vocab_size)
            return Error{.what = "token id outside the vocabulary",
                         .expected = fmt::format("0 to {}", decoder.spec.vocab_size - 1),
                         .got = fmt::format("{}", token)};
    return {};
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::make(const Model& model, const EngineOptions& options) {
    EngineOptions filled = options;
    if (filled.capacity == 0) filled.capacity = model.context_length();
    return make(model.decoder(), model.identity(), filled);
}

static Status check_options(const EngineOptions& options) {
    struct Bound {
        const char* name;
        int64_t value, least;
    };
    for (const Bound& bound :
         {Bound{"capacity", options.capacity, 1}, Bound{"max_sessions", options.max_sessions, 1},
          Bound{"max_batch", options.max_batch, 1}, Bound{"chunk", options.chunk, 1},
          Bound{"n_threads", options.n_threads, 0},
          Bound{"checkpoint_bytes", options.checkpoint_bytes, 0},
          Bound{"checkpoint_every", options.checkpoint_every, 1},
          Bound{"max_bytes_per_sequence", options.max_bytes_per_sequence, 0}})
        if (bound.value < bound.least)
            return Error{.what = fmt::format("{} is too small", bound.name),
                         .expected = fmt::format("at least {}", bound.least),
                         .got = fmt::format("{}", bound.value),
                         .kind = ErrorKind::usage};
    return {};
}

Result<Engine> Engine::make(const Decoder& decoder, uint64_t identity,
                            const EngineOptions& options) {
    EngineOptions filled = options;
    if (filled.capacity == 0) filled.capacity = decoder.spec.context_length;
    BIFOCAL_TRY_STATUS(check_options(filled));
    StatePlan plan = decoder.plan_states({filled.capacity, kv_dtype(filled.kv_type)});
    const bool keeps_all =
        plan.max_tokens >= 0 && decoder.rewind_limit(plan, plan.max_tokens) == plan.max_tokens;
    if (keeps_all && filled.checkpoint_bytes > 0)
        return Error{.what = "checkpoints are of no use to this layout",
                     .expected = "a layer that forgets",
                     .got = "layers that can go back to any token by themselves",
                     .kind = ErrorKind::usage};
    BIFOCAL_TRY(const CheckpointPlan checkpoints, plan_checkpoints(filled, plan.bytes));
    BIFOCAL_TRY_STATUS(check_budget(plan, checkpoints, filled));
    if (filled.n_threads == 0) filled.n_threads = available_cores();
    const auto scratch = [&](int64_t batch, int64_t n_tokens, Step::Logits logits) {
        return decoder.workspace_bytes(plan, batch, n_tokens, logits, filled.n_threads);
    };
    const size_t workspace =
        std::max(scratch(filled.max_batch, filled.chunk, Step::Logits::last),
                 filled.scores ? scratch(1, filled.chunk, Step::Logits::all) : 0);
    return Engine(
        std::make_unique<Impl>(decoder, identity, filled, std::move(plan), checkpoints, workspace));
}

Result<Session> Engine::new_session() {
    BIFOCAL_TRY(const int64_t slot, impl_->pool.acquire());
    Session session(std::make_unique<Session::Impl>(*impl_, slot));
    session.reset();
    return session;
}

Status Engine::step(std::span<Session* const> sessions, std::span<const int32_t> tokens) {
    const auto B = static_cast<int64_t>(sessions.size());
    BIFOCAL_CHECK(B > 0 && B <= impl_->options.max_batch, "a step of {} sequences, at most {}", B,
                  impl_->options.max_batch);
    const auto T = static_cast<int64_t>(tokens.size()) / B;
    BIFOCAL_CHECK(T > 0 && T <= impl_->options.chunk && T * B == std::ssize(tokens),
                  "{} tokens for {} sequences, chunks of at most {}", tokens.size(), B,
                  impl_->options.chunk);
    for (int64_t b = 0; b < B; ++b)
        BIFOCAL_TRY_STATUS(impl_->check_room(*sessions[b]->impl_, tokens.subspan(b * T, T)));
    const std::span<Session::Impl*> impls(impl_->batch.data(), sessions.size());
    for (int64_t b = 0; b < B; ++b) impls[b] = sessions[b]->impl_.get();
    const int64_t vocab = vocab_size();
    if (B == 1) return sessions[0]->prefill(tokens);
    impl_->forward(impls, {tokens.data(), {B, T}}, Step::Logits::last,
                   {impl_->batch_logits.data(), {B, vocab}});
    for (int64_t b = 0; b < B; ++b) {
        const auto row = impl_->batch_logits.begin() + b * vocab;
        std::copy(row, row + vocab, impls[b]->logits.begin());
        impls[b]->has_logits = true;
    }
    return {};
}

const EngineOptions& Engine::options() const {
    return impl_->options;
}
int64_t Engine::vocab_size() const {
    return impl_->decoder.spec.vocab_size;
}
int64_t Engine::state_bytes() const {
    return static_cast<int64_t>(impl_->plan.bytes);
}

int64_t Engine::bytes_per_sequence() const {
    return state_bytes() + static_cast<int64_t>(impl_->checkpoints.bytes());
}

Session::Impl::Impl(Engine::Impl& engine_, int64_t slot_)
    : engine(engine_),
      slot(slot_),
      logits(static_cast<size_t>(engine_.decoder.spec.vocab_size)),
      checkpoints(engine_.checkpoints) {}

Session::Impl::~Impl() {
    engine.pool.release(slot);
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Status Session::prefill(std::span<const int32_t> tokens, const StepCallback& progress) {
    Engine::Impl& engine = impl_->engine;
    BIFOCAL_TRY_STATUS(engine.check_room(*impl_, tokens));
    const int64_t n = std::ssize(tokens), vocab = engine.decoder.spec.vocab_size;
    Session::Impl* const self = impl_.get();
    for (int64_t begin = 0; begin < n; begin += engine.options.chunk) {
        const int64_t T = std::min(engine.options.chunk, n - begin);
        const bool is_last = begin + T == n;
        engine.forward({&self, 1}, {tokens.data() + begin, {1, T}},
                       is_last ? Step::Logits::last : Step::Logits::none,
                       {impl_->logits.data(), {1, vocab}});
        impl_->has_logits = is_last;
        if (progress && !progress(begin + T) && !is_last)
            return Error{.what = fmt::format("stopped after {} of {} tokens", begin + T, n)};
    }
    return {};
}

Status Session::decode(int32_t token) {
    Engine::Impl& engine = impl_->engine;
    BIFOCAL_TRY_STATUS(engine.check_room(*impl_, {&token, 1}));
    Session::Impl* const self = impl_.get();
    engine.forward({&self, 1}, {&token, {1, 1}}, Step::Logits::last,
                   {impl_->logits.data(), {1, engine.decoder.spec.vocab_size}});
    impl_->has_logits = true;
    return {};
}

Status Session::score(std::span<const int32_t> tokens, const ScoreCallback& scores) {
    Engine::Impl& engine = impl_->engine;
    BIFOCAL_CHECK(engine.options.scores, "the engine was made without options.scores");
    BIFOCAL_TRY_STATUS(engine.check_room(*impl_, tokens));
    const int64_t n = std::ssize(tokens), vocab = engine.decoder.spec.vocab_size;
    Session::Impl* const self = impl_.get();
    for (int64_t begin = 0; begin < n; begin += engine.options.chunk) {
        const int64_t T = std::min(engine.options.chunk, n - begin);
        engine.forward({&self, 1}, {tokens.data() + begin, {1, T}}, Step::Logits::all,
                       {engine.chunk_logits.data(), {T, vocab}});
        const auto last = engine.chunk_logits.begin() + (T - 1) * vocab;
        std::copy(last, last + vocab, impl_->logits.begin());
        impl_->has_logits = true;
        if (!scores(begin, {engine.chunk_logits.data(), static_cast<size_t>(T * vocab)}) &&
            begin + T < n)
            return Error{.what = fmt::format("stopped after {} of {} tokens", begin + T, n)};
    }
    return {};
}

std::span<float> Session::logits() {
    return {impl_->logits.data(), impl_->has_logits ? impl_->logits.size() : 0};
}
std::span<const float> Session::logits() const {
    return {impl_->logits.data(), impl_->has_logits ? impl_->logits.size() : 0};
}
int64_t Session::position() const {
    return impl_->pos;
}

int64_t Session::Impl::movable() const {
    const int64_t limit = engine.decoder.rewind_limit(engine.plan, furthest);
    return std::clamp<int64_t>(limit - (furthest - pos), 0, pos);
}

void Session::Impl::replay_until(int64_t position) {
    const Checkpoint from = checkpoints.newest_until(position);
    std::memcpy(state(), checkpoints.state(from), engine.plan.bytes);
    pos = from.pos;
    furthest = from.furthest;
    checkpoints.take_back(pos, furthest, state());
    Session::Impl* const self = this;
    while (pos < position) {
        const int64_t T = checkpoints.read_call(pos, position, engine.replayed);
        engine.forward({&self, 1}, {engine.replayed.data(), {1, T}}, Step::Logits::none, {});
    }
}

int64_t Session::rewind_limit() const {
    const int64_t first = impl_->checkpoints.first_position();
    return std::max(impl_->movable(), first < 0 ? 0 : impl_->pos - first);
}

Status Session::rewind(int64_t n) {
    BIFOCAL_CHECK(n >= 0, "rewind by {}", n);
    const int64_t limit = rewind_limit(), pos = impl_->pos, left = pos - n;
    if (n > limit)
        return Error{.what = fmt::format("cannot take back {} of {} tokens", n, pos),
                     .expected = fmt::format("at least {} tokens to stay", pos - limit),
                     .got = fmt::format("{}", left),
                     .hint =
                         "fork or save the session before going on, or give it more bytes for "
                         "checkpoints"};
    if (n == 0) return {};
    if (n <= impl_->movable()) {
        impl_->pos = left;
        impl_->checkpoints.take_back(left, impl_->furthest, impl_->state());
    } else {
        impl_->replay_until(left);
    }
    impl_->has_logits = false;
    return {};
}

Result<Session> Session::fork() const {
    StatePool& pool = impl_->engine.pool;
    BIFOCAL_TRY(const int64_t slot, pool.acquire());
    auto copy = std::make_unique<Impl>(impl_->engine, slot);
    std::memcpy(copy->state(), impl_->state(), pool.slot_bytes());
    copy->pos = impl_->pos;
    copy->furthest = impl_->furthest;
    copy->logits = impl_->logits;
    copy->has_logits = impl_->has_logits;
    copy->checkpoints.copy_from(impl_->checkpoints);
    return Session(std::move(copy));
}

void Session::reset() {
    // Zeroed first, so that equal histories have equal bytes, padding included.
    std::memset(impl_->state(), 0, impl_->engine.pool.slot_bytes());
    impl_->engine.decoder.init_states(impl_->engine.plan, impl_->state());
    impl_->pos = impl_->furthest = 0;
    impl_->has_logits = false;
    impl_->checkpoints.restart(0, 0, impl_->state());
}

MemoryReport Session::memory() const {
    const Engine::Impl& engine = impl_->engine;
    MemoryReport report;
    report.position = impl_->pos;
    report.state_bytes = static_cast<int64_t>(engine.plan.bytes);
    report.checkpoint_bytes = static_cast<int64_t>(engine.checkpoints.bytes());
    report.allocated_bytes =
        static_cast<int64_t>(engine.pool.allocated_bytes(impl_->slot) + impl_->checkpoints.bytes());
    report.full_attention_bytes =
        full_attention_bytes(engine.decoder.spec, engine.options.kv_type, impl_->pos);
    report.tokens_visible = engine.decoder.tokens_visible(engine.plan, impl_->pos);
    report.tokens_left = impl_->pos - report.tokens_visible;
    report.rewind_limit = rewind_limit();
    report.capacity = engine.max_tokens();
    report.logits_bytes = static_cast<int64_t>(impl_->logits.size() * sizeof(float));
    report.workspace_bytes = static_cast<int64_t>(engine.workspace.size());
    return report;
}

}  // namespace bifocal
