// What rows of JSON hold, as a tree to compare with.
#pragma once

#include "io/json.hpp"
#include "io/json_rows.hpp"

namespace bantam::test {

/// The same tree as the rows make; numbers are reals.
inline Json tree_of(const JsonRows& rows) {
  using Shape = JsonRows::Shape;
  Json json = rows.shape() == Shape::members ? Json::object() : Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    switch (rows.shape()) {
      case Shape::texts: json.push_back(rows.text(i)); break;
      case Shape::pairs: json.push_back(Json::array({rows.text(2 * i), rows.text(2 * i + 1)})); break;
      case Shape::numbered: json.push_back(Json::array({rows.text(i), rows.number(i)})); break;
      case Shape::members: json[rows.text(i)] = rows.number(i);
    }
  }
  return json;
}

}  // namespace bantam::test
