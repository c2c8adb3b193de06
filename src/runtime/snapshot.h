// Snapshots: everything a session remembers as one file, byte by byte in docs/snapshot.md. Written
// beside the target and renamed; read only after all of it was checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "bifocal/session.h"
#include "formats/tokenizer/decoder.h"
#include "ops/sampling.h"

namespace bifocal {

inline constexpr uint32_t kSnapshotVersion = 1;

// What is going on around a session; each part may be absent.
struct GenerationState {
    std::optional<ops::Sampler> sampler;
    std::optional<tokenizer::StreamState> stream;  // of the streaming decoder
    uint64_t tokenizer_identity = 0;               // 0: not checked
    std::string transcript;                        // of a chat, its own format
};

Status save_snapshot(const Session& session, const GenerationState& around,
                     const std::string& path);
// On an error the session is as it was. `tokenizer_identity`: of the tokenizer that goes on; 0:
// any.
Result<GenerationState> load_snapshot(Session& session, const std::string& path,
                                      uint64_t tokenizer_identity = 0);

// The same in memory; `where` names the bytes in errors.
std::vector<std::byte> encode_snapshot(const Session& session, const GenerationState& around);
Result<GenerationState> decode_snapshot(Session& session, std::span<const std::byte> bytes,
                                        const std::string& where, uint64_t tokenizer_identity = 0);

// What a file needs of the engine that loads it.
struct SnapshotInfo {
    int64_t position = 0;
    int64_t capacity = 0;
    KvType kv_type = KvType::bf16;
};
Result<SnapshotInfo> read_snapshot_info(const std::string& path);

}  // namespace bifocal
