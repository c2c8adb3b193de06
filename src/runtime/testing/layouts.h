// Every kind of layout there is, for laws that all of them must keep. The list is made from the
// registered mixers and the rules of the linear family, so a new one joins by itself.
#pragma once

#include <string>
#include <vector>

#include "mixers/spec.h"

namespace bifocal::testing {

// Every registered mixer at the settings that `layer` takes: alone, with each rule, with a window
// of `window` tokens, with both. A mixer that takes none of these aborts: then it is to be added
// here.
std::vector<MixerSpec> every_mixer(const LayerContext& layer, int64_t window);

struct TinyLayout {
    std::string name;                 // for messages
    std::vector<MixerSpec> mixers;    // one for each layer of the tiny model
    bool same_bits_for_any_chunking;  // of all of them
};
// every_mixer() in both layers of the tiny model, and mixed ones: a window that can go back beside
// a state that cannot.
std::vector<TinyLayout> every_tiny_layout();

}  // namespace bifocal::testing
