// [aggregate]: what becomes of a model's parts by their role, for any method with a server.
//
//   running_mean   mean | local
//   running_var    mean | pooled | mixture | local      (methods/running_statistics.h)
//   norm           mean | local                         scale and shift of the norm layers
//
// `mean` leaves a part to the method, which averages it. `local` parts stay with each client (methods/local_parts.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parley/methods/method.h"

namespace parley {

// The keys of [aggregate].
std::vector<Option> aggregate_options();

// The method itself when everything is "mean". Throws InputError for a model without the parts that a key is about, and
// for a method that cannot honour it; `name` is the method's.
std::unique_ptr<Method> aggregate_by_role(std::unique_ptr<Method> method, const std::string& name,
                                          const MethodContext& context);

// For a method that has rules of its own: throws InputError unless everything is "mean". `instead` is the remedy.
void require_own_aggregation(const std::string& name, const MethodContext& context, const std::string& instead);

}  // namespace parley
