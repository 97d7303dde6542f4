// Numbers inside a message on their way to the wire, where payloads travel beside it.
#ifndef PHASOR_CLIENT_CLI_WIRE_DATA_H_
#define PHASOR_CLIENT_CLI_WIRE_DATA_H_

#include "phasor/v1/encoding.pb.h"
#include "phasor/v1/positions.pb.h"

#include "proto/raw/payloads.h"

namespace phasor::cli {

// Moves the data of every tensor in the message to `payloads`; it must not hold tokens yet.
void MoveData(v1::EncodingSpec& spec, raw::Payloads& payloads);
void MoveData(v1::Positions& positions, raw::Payloads& payloads);

// The spec without the numbers of its weights, for descriptions.
v1::EncodingSpec WithoutData(v1::EncodingSpec spec);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_WIRE_DATA_H_
