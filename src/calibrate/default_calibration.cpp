// The bundled calibration text, models/calibration.txt, as the build has put it into the program.
#include "bantam/calibrate/calibration.hpp"

namespace bantam::inline v0 {

std::string_view default_calibration_text() noexcept {
  static constexpr unsigned char text[] = {
#include "calibrate/calibration_text.inc"
  };
  return {reinterpret_cast<const char*>(text), sizeof text};
}

}  // namespace bantam::inline v0
