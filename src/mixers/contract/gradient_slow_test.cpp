// The law of gradients, element by element.
#include "mixers/contract/gradient_check.h"

namespace bifocal::contract {

INSTANTIATE_TEST_SUITE_P(ElementLaw, Training, ::testing::ValuesIn(cases_that(true)), case_name);

TEST_P(Training, GradientsOfElementsAgreeWithFiniteDifferences) {
    for (const uint64_t seed : {1, 2, 3}) check_gradients(GetParam(), seed, 64, 3);
}

}  // namespace bifocal::contract
