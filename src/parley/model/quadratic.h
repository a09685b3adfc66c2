// An analytic model, for tests of methods: every client's optimum is known in closed form.
//
// The features of a row are [h_1 … h_d, m_1 … m_d]; its loss is ½ Σ_j h_j (θ_j − m_j)², a batch's
// the mean over rows. The parameters are one tensor `theta` [d]. predict() gives √(h_j·d/2)·(θ_j −
// m_j): against targets of zero the mean squared error is then exactly the loss, so evaluation
// needs no special case. h must not be negative.
#pragma once

#include <vector>

#include "parley/data/dataset.h"
#include "parley/model/model.h"

namespace parley {

// One row for each pair of a curvature h and a minimum m, each of d numbers; targets zero,
// target_size d.
Dataset quadratic_dataset(const std::vector<std::vector<float>>& h, const std::vector<std::vector<float>>& m);

void add_quadratic(ModelRegistry& registry);

}  // namespace parley
