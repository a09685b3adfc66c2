// Temperature scaling (Guo et al. 2017): one number that makes a classifier as sure of itself as it is right.
#pragma once

#include "parley/model/prediction.h"

namespace parley {

// The temperature, in [0.05, 20], at which the predictions give the view's labels the largest likelihood. REQUIRES
// class probabilities (Loss::cross_entropy), and a row of them for each of the view's, one at least.
double best_temperature(const MeanPrediction& prediction, const View& view);

// The predictions with every logit divided by the temperature: above 1 less sure, never another guess.
MeanPrediction at_temperature(const MeanPrediction& prediction, double temperature);

}  // namespace parley
