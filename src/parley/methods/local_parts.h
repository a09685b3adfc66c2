// Parts of the model that stay with each client: kept in its record, laid over the broadcast when it trains, and never
// in what it sends. FedBN (Li et al. 2021) keeps the norm layers so.
//
// The server's own values of these parts are never changed. A client that is seen for the first time starts from them.
#pragma once

#include <memory>
#include <set>

#include "parley/methods/method.h"

namespace parley {

// REQUIRES that training leaves the client's weights in the model, which every method does that sends weights.
std::unique_ptr<Method> keep_local(std::unique_ptr<Method> method, const Layout& layout, const std::set<Role>& roles);

}  // namespace parley
