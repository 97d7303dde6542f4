// Learned tables whose extents the code of a class derives from its configuration: formulas over the configuration's keys.
#ifndef PHASOR_SERVER_RESOLVE_CLASS_TABLES_H_
#define PHASOR_SERVER_RESOLVE_CLASS_TABLES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/resolve/family.h"

namespace phasor::server {

// One table of a class. Formulas have whole numbers, keys, + - * / (rounding down) and parentheses. A key has its default
// after '='; ".h" and ".w" read a side of a number or of [height, width], ".2" an entry of a list; "a>b" reads b of the
// object a. '^' begins a key of the file where others belong to its language model, '?' a flag, which counts 1 or 0.
struct ClassTable {
  std::string_view family;      // a family's name, or that of the file around it
  std::string_view layer_type;  // empty: the class's own layer type; else a name that ends in "embedding"
  std::string_view rows;        // formula
  std::string_view dim = {};    // formula; empty: the width of the model
  std::string_view source = {};
  std::string_view note = {};    // which rows are read, how the class resizes them, how they count
  int64_t offset = 0;            // row of position 0
  bool after_padding = false;    // row of position 0 is the padding row + 1, as in the class's own table
  std::string_view when = {};    // formula; 0: the class has no such table
  std::string_view layers = {};  // formula: a table of its own after each of so many first layers
};

// All of them, the tables of a class one after the other.
std::span<const ClassTable> ClassTables();

// The value of a formula. Fails, naming a key, when the value is outside −2^40 … 2^40 or a divisor is 0.
int64_t Evaluate(const Model& model, std::string_view formula, std::vector<Note>& defaults);

// Appends the tables of the model's family to out.layers.
void AddClassTables(const Model& model, ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_CLASS_TABLES_H_
