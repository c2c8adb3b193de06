#include "formats/gguf/file.h"

#include <fmt/format.h>

#include "core/mapped_file.h"
#include "formats/gguf/part_reader.h"

namespace bifocal::gguf {
namespace {

// split.no and split.count of a part; count 0 when the file is not split.
struct SplitMark {
    int64_t index = 0;
    int64_t count = 0;
    int64_t n_tensors = -1;  // of all parts together; -1 when not said
};

Result<SplitMark> split_mark(const Metadata& metadata) {
    SplitMark mark;
    if (!metadata.has("split.count")) return mark;
    BIFOCAL_TRY(mark.count, metadata.get_integer("split.count", 0, 65535));
    if (mark.count == 0) return mark;
    BIFOCAL_TRY(mark.index, metadata.get_integer("split.no", 0, 65535));
    BIFOCAL_TRY(mark.n_tensors, metadata.get_integer_or("split.tensors.count", 0, INT32_MAX, -1));
    if (mark.index >= mark.count) {
        return metadata.error("split.no", "impossible number of this part",
                              fmt::format("below {}", mark.count), std::to_string(mark.index));
    }
    return mark;
}

}  // namespace

std::string split_part_path(const std::string& first_path, int index, int count) {
    const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
    if (!first_path.ends_with(ending)) return {};
    return fmt::format("{}-{:05}-of-{:05}.gguf",
                       first_path.substr(0, first_path.size() - ending.size()), index + 1, count);
}

Result<File> File::open(const std::string& path) {
    BIFOCAL_TRY(auto map, MappedFile::open(path));
    File file;
    BIFOCAL_TRY_STATUS(file.add_part(map->bytes(), path, map));
    BIFOCAL_TRY_STATUS(file.add_other_parts(path));
    return file;
}

Result<File> File::open_bytes(std::span<const std::byte> bytes, const std::string& name,
                              std::shared_ptr<const void> owner) {
    File file;
    BIFOCAL_TRY_STATUS(file.add_part(bytes, name, std::move(owner)));
    BIFOCAL_TRY(const SplitMark mark, split_mark(file.metadata_));
    if (mark.count > 1) {
        return file.metadata_.error("split.count", "a part of a split file cannot be read alone");
    }
    return file;
}

Status File::add_part(std::span<const std::byte> bytes, const std::string& name,
                      std::shared_ptr<const void> owner) {
    BIFOCAL_TRY(Part part, PartReader(bytes, name).read());
    const size_t index = part_paths_.size();
    if (index == 0) {
        version_ = part.version;
        metadata_ = std::move(part.metadata);
    } else {
        BIFOCAL_TRY(const SplitMark first, split_mark(metadata_));
        BIFOCAL_TRY(const SplitMark mark, split_mark(part.metadata));
        if (mark.count != first.count || mark.index != static_cast<int64_t>(index)) {
            return part.metadata.error("split.no", "the part does not belong here",
                                       fmt::format("part {} of {}", index + 1, first.count),
                                       fmt::format("part {} of {}", mark.index + 1, mark.count));
        }
    }
    for (TensorInfo& tensor : part.tensors) {
        tensor.part = index;
        if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
            return Error{.what = "the tensor occurs in two parts",
                         .where = fmt::format("{}, tensor '{}'", name, tensor.name)};
        }
        tensors_.push_back(std::move(tensor));
    }
    for (std::string& line : part.warnings) warnings_.push_back(std::move(line));
    owners_.push_back(std::move(owner));
    part_paths_.push_back(name);
    return {};
}

// The other parts lie in the same folder under names derived from this one's: what the metadata
// says is compared with the name, and never becomes a path.
Status File::add_other_parts(const std::string& first_path) {
    BIFOCAL_TRY(const SplitMark mark, split_mark(metadata_));
    if (mark.count > 1) {
        if (mark.index != 0) {
            return Error{
                .what = "not the first part of a split file",
                .where = first_path,
                .expected = "part 1",
                .got = fmt::format("part {}", mark.index + 1),
                .hint = fmt::format("open the file ending in -00001-of-{:05}.gguf", mark.count)};
        }
        const int count = static_cast<int>(mark.count);
        for (int i = 1; i < count; ++i) {
            const std::string path = split_part_path(first_path, i, count);
            if (path.empty()) {
                return Error{
                    .what = "the file name does not fit its split.count",
                    .where = first_path,
                    .expected = fmt::format("a name ending in -00001-of-{:05}.gguf", count)};
            }
            BIFOCAL_TRY(auto map, MappedFile::open(path));
            BIFOCAL_TRY_STATUS(add_part(map->bytes(), path, map));
        }
    }
    if (mark.n_tensors >= 0 && mark.n_tensors != std::ssize(tensors_)) {
        return metadata_.error("split.tensors.count", "tensors are missing or too many",
                               std::to_string(mark.n_tensors), std::to_string(tensors_.size()));
    }
    return {};
}

const TensorInfo* File::find_tensor(std::string_view name) const {
    const auto at = tensor_index_.find(std::string(name));
    return at == tensor_index_.end() ? nullptr : &tensors_[at->second];
}

Result<Tensor> File::tensor(std::string_view name) const {
    const TensorInfo* info = find_tensor(name);
    if (!info) {
        return Error{.what = "the tensor is missing",
                     .where = fmt::format("{}, tensor '{}'", path(), name)};
    }
    return Tensor{info->dtype, info->shape, info->bytes, owners_[info->part]};
}

}  // namespace bifocal::gguf
