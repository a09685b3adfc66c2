// What nodes say of their data when they join, as messages and as the journal keeps it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parley/wire/federation.pb.h"
#include "parley/wire/journal.h"
#include "parley/wire/protocol.h"

namespace parley::wire {

Agreement agreement_in(const v1::Facts& facts);
DataMoments moments_in(const v1::Facts& facts);

// Moments and, of a relay, the clients that it stands for, as the journal keeps them (Member::moments); every number
// comes back as it was.
std::string to_text(const v1::Facts& facts);
std::vector<std::size_t> relayed_from(const std::string& text);

// In which scales all see their data: standardised by the moments of all together where these are wanted, otherwise
// as `given`.
Scales agreed_scales(std::span<const Member> members, const WantedMoments& wanted, const Scales& given);
void fill(v1::Affine& to, const Affine& from);

}  // namespace parley::wire
