// Header and sections of a snapshot file. The order of the checks in open_file() is the order of
// docs/snapshot.md: what a user can act on comes before "damaged".
#include "runtime/snapshot.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "core/atomic_file.h"
#include "core/mapped_file.h"
#include "runtime/checksum.h"
#include "runtime/session.h"
#include "runtime/snapshot_sections.h"

namespace bifocal {
namespace {

constexpr char kMagic[8] = {'b', 'i', 'f', 'o', 'c', 'a', 'l', '\x1a'};
constexpr size_t kSectionAlign = 64;
constexpr int64_t kMostTokens = int64_t{1} << 48;  // more than anyone reads: damage

// The file's first 128 bytes, as they lie.
struct Header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t model_identity;
    uint64_t tokenizer_identity;
    int64_t position;
    int64_t furthest;  // position, rewinds undone
    int64_t capacity;
    uint32_t kv_type;  // 0 bf16, 1 f32
    uint32_t zero;
    uint64_t layout_bytes;
    uint64_t sampler_bytes;
    uint64_t stream_bytes;
    uint64_t transcript_bytes;
    uint64_t logits_bytes;
    uint64_t state_bytes;
    uint64_t header_sum;  // checksum of the bytes before it
};
static_assert(sizeof(Header) == 128);

uint64_t sum_of(const Header& header) {
    return checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_sum)));
}

// Sections in the order of the file.
struct Sections {
    std::span<const std::byte> layout, sampler, stream, transcript, logits, state;
};

std::array<std::span<const std::byte>*, 6> in_order(Sections& sections) {
    return {&sections.layout,     &sections.sampler, &sections.stream,
            &sections.transcript, &sections.logits,  &sections.state};
}

size_t padded(size_t n) {
    return (n + kSectionAlign - 1) / kSectionAlign * kSectionAlign;
}

// A snapshot ready to be written: all but the state is in memory of its own.
struct Encoded {
    std::vector<std::byte> front;  // header and sections before the state, padded
    std::span<const std::byte> state;
    std::vector<std::byte> back;  // padding and checksum
};

Encoded encode(const Session& session, const GenerationState& around) {
    const Session::Impl& self = session.impl();
    const Engine::Impl& engine = self.engine;
    const std::string layout = snapshot::layout_text(engine.decoder, engine.plan);
    const auto sampler =
        around.sampler ? snapshot::encode_sampler(*around.sampler) : std::vector<std::byte>();
    const auto stream =
        around.stream ? snapshot::encode_stream(*around.stream) : std::vector<std::byte>();
    Sections sections;
    sections.layout = std::as_bytes(std::span(layout));
    sections.sampler = sampler;
    sections.stream = stream;
    sections.transcript = std::as_bytes(std::span(around.transcript));
    sections.logits = std::as_bytes(session.logits());
    sections.state = {self.state(), engine.plan.bytes};

    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kSnapshotVersion;
    header.header_bytes = sizeof(Header);
    header.file_bytes = sizeof(Header) + sizeof(uint64_t);
    for (const auto* section : in_order(sections)) header.file_bytes += padded(section->size());
    header.model_identity = engine.identity;
    header.tokenizer_identity = around.tokenizer_identity;
    header.position = self.pos;
    header.furthest = self.furthest;
    header.capacity = engine.options.capacity;
    header.kv_type = engine.options.kv_type == KvType::f32 ? 1 : 0;
    header.layout_bytes = sections.layout.size();
    header.sampler_bytes = sections.sampler.size();
    header.stream_bytes = sections.stream.size();
    header.transcript_bytes = sections.transcript.size();
    header.logits_bytes = sections.logits.size();
    header.state_bytes = sections.state.size();
    header.header_sum = sum_of(header);

    Encoded out;
    snapshot::append(out.front, header);
    for (const auto* section : in_order(sections)) {
        if (section == &sections.state) break;
        out.front.insert(out.front.end(), section->begin(), section->end());
        out.front.resize(padded(out.front.size()));
    }
    out.state = sections.state;
    out.back.resize(padded(out.state.size()) - out.state.size());
    Checksum sum;
    for (const std::span<const std::byte> part :
         {std::span<const std::byte>(out.front), out.state, std::span<const std::byte>(out.back)})
        sum.add(part);
    snapshot::append(out.back, sum.value());
    return out;
}

Error damaged(const std::string& where, std::string what) {
    return Error{.what = std::move(what),
                 .where = where,
                 .hint = "the file is damaged; go back to another copy"};
}

// Everything that can be said without a session.
Result<Header> read_header(std::span<const std::byte> bytes, const std::string& where) {
    Header header{};
    if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
        return Error{.what = "not a snapshot of this program",
                     .where = where,
                     .expected = "a file that starts with 'bifocal'",
                     .got = bytes.empty() ? "an empty file" : ""};
    if (bytes.size() < sizeof(Header))
        return damaged(where, fmt::format("the snapshot is cut short: {} bytes, less than its "
                                          "header of {}",
                                          bytes.size(), sizeof(Header)));
    std::memcpy(&header, bytes.data(), sizeof(Header));
    if (header.version != kSnapshotVersion)
        return Error{.what = header.version > kSnapshotVersion
                                 ? "the snapshot is of a newer version than this program reads"
                                 : "unknown snapshot version",
                     .where = where,
                     .expected = fmt::format("version {}", kSnapshotVersion),
                     .got = fmt::format("{}", header.version)};
    if (header.header_sum != sum_of(header))
        return damaged(where, "the snapshot's header does not match its checksum");
    if (header.header_bytes != sizeof(Header) || header.zero != 0 || header.kv_type > 1 ||
        header.position < 0 || header.furthest < header.position || header.furthest > kMostTokens ||
        header.capacity < 0 || header.capacity > kMostTokens)
        return damaged(where, "the snapshot's header holds impossible values");
    if (bytes.size() < header.file_bytes)
        return damaged(where, fmt::format("the snapshot is cut short: expected {} bytes, got {}",
                                          header.file_bytes, bytes.size()));
    if (bytes.size() > header.file_bytes)
        return damaged(
            where, fmt::format("the snapshot has {} trailing bytes: expected {}, got {}",
                               bytes.size() - header.file_bytes, header.file_bytes, bytes.size()));
    return header;
}

Result<Sections> read_sections(const Header& header, std::span<const std::byte> bytes,
                               const std::string& where) {
    const uint64_t sizes[] = {header.layout_bytes,     header.sampler_bytes, header.stream_bytes,
                              header.transcript_bytes, header.logits_bytes,  header.state_bytes};
    Sections sections;
    const auto order = in_order(sections);
    const std::span<const std::byte> body = bytes.first(bytes.size() - sizeof(uint64_t));
    size_t at = sizeof(Header);
    for (size_t i = 0; i < order.size(); ++i) {
        if (sizes[i] > body.size() || padded(sizes[i]) > body.size() - at)
            return damaged(where, "the snapshot's sections do not fit into the file");
        *order[i] = body.subspan(at, sizes[i]);
        at += padded(sizes[i]);
    }
    if (at != body.size()) return damaged(where, "the snapshot's sections do not fill the file");
    uint64_t stored;
    std::memcpy(&stored, body.data() + body.size(), sizeof stored);
    if (stored != checksum(body)) return damaged(where, "the snapshot does not match its checksum");
    return sections;
}

Status check_fit(const Header& header, const Sections& sections, const Engine::Impl& engine,
                 uint64_t tokenizer_identity, const std::string& where) {
    if (header.model_identity != engine.identity)
        return Error{.what = "this snapshot is of another model",
                     .where = where,
                     .expected = fmt::format("model {:016x}", engine.identity),
                     .got = fmt::format("{:016x}", header.model_identity)};
    if (header.tokenizer_identity != 0 && tokenizer_identity != 0 &&
        header.tokenizer_identity != tokenizer_identity)
        return Error{.what = "this snapshot was made with another tokenizer",
                     .where = where,
                     .expected = fmt::format("tokenizer {:016x}", tokenizer_identity),
                     .got = fmt::format("{:016x}", header.tokenizer_identity)};
    const std::string ours = snapshot::layout_text(engine.decoder, engine.plan);
    const std::string theirs(reinterpret_cast<const char*>(sections.layout.data()),
                             sections.layout.size());
    if (ours != theirs) return snapshot::layout_error(where, ours, theirs);
    const uint64_t logits_bytes =
        static_cast<uint64_t>(engine.decoder.spec.vocab_size) * sizeof(float);
    if (sections.state.size() != engine.plan.bytes ||
        (header.logits_bytes != 0 && header.logits_bytes != logits_bytes) ||
        (engine.plan.max_tokens >= 0 && header.furthest > engine.plan.max_tokens))
        return damaged(where, "the snapshot's sizes do not fit its layout");
    return {};
}

}  // namespace

Status save_snapshot(const Session& session, const GenerationState& around,
                     const std::string& path) {
    const Encoded file = encode(session, around);
    const std::span<const std::byte> parts[] = {file.front, file.state, file.back};
    return write_file_atomically(path, parts);
}

std::vector<std::byte> encode_snapshot(const Session& session, const GenerationState& around) {
    Encoded file = encode(session, around);
    std::vector<std::byte> out = std::move(file.front);
    out.insert(out.end(), file.state.begin(), file.state.end());
    out.insert(out.end(), file.back.begin(), file.back.end());
    return out;
}

Result<GenerationState> decode_snapshot(Session& session, std::span<const std::byte> bytes,
                                        const std::string& where, uint64_t tokenizer_identity) {
    Session::Impl& self = session.impl();
    BIFOCAL_TRY(const Header header, read_header(bytes, where));
    BIFOCAL_TRY(const Sections sections, read_sections(header, bytes, where));
    BIFOCAL_TRY_STATUS(check_fit(header, sections, self.engine, tokenizer_identity, where));
    GenerationState around;
    if (!sections.sampler.empty()) {
        BIFOCAL_TRY(around.sampler, snapshot::decode_sampler(sections.sampler, where));
    }
    if (!sections.stream.empty()) {
        BIFOCAL_TRY(around.stream, snapshot::decode_stream(sections.stream, where));
    }
    around.tokenizer_identity = header.tokenizer_identity;
    around.transcript.assign(reinterpret_cast<const char*>(sections.transcript.data()),
                             sections.transcript.size());

    // All checked: from here on nothing fails.
    std::memcpy(self.state(), sections.state.data(), sections.state.size());
    self.pos = header.position;
    self.furthest = header.furthest;
    self.has_logits = !sections.logits.empty();
    if (self.has_logits)
        std::memcpy(self.logits.data(), sections.logits.data(), sections.logits.size());
    self.checkpoints.restart(self.pos, self.furthest, self.state());
    return around;
}

Result<GenerationState> load_snapshot(Session& session, const std::string& path,
                                      uint64_t tokenizer_identity) {
    BIFOCAL_TRY(const auto file, MappedFile::open(path));
    return decode_snapshot(session, file->bytes(), path, tokenizer_identity);
}

Result<SnapshotInfo> read_snapshot_info(const std::string& path) {
    BIFOCAL_TRY(const auto file, MappedFile::open(path));
    BIFOCAL_TRY(const Header header, read_header(file->bytes(), path));
    return SnapshotInfo{header.position, header.capacity,
                        header.kv_type == 1 ? KvType::f32 : KvType::bf16};
}

Status Session::save(const std::string& path) const {
    return save_snapshot(*this, {}, path);
}

Status Session::load(const std::string& path) {
    BIFOCAL_TRY([[maybe_unused]] const GenerationState around, load_snapshot(*this, path));
    return {};
}

}  // namespace bifocal
