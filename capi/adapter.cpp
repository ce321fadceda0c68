// Adapters, and the sessions that have them.
#include "objects.hpp"

using namespace bantam;
using namespace bantam::capi;

namespace bantam::capi {

std::vector<ScaledAdapter> adapters_of(const bantam_adapter* const* adapters, const float* scales, std::size_t count) {
  std::vector<ScaledAdapter> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back({need((&need(adapters, "adapters"))[i], "adapter").adapter, scales != nullptr ? scales[i] : 1.0f});
  return all;
}

}  // namespace bantam::capi

extern "C" {

bantam_status bantam_adapter_load(bantam_adapter** adapter, const bantam_model* model, const char* path) {
  return guarded([&] {
    bantam_adapter*& out = need(adapter, "adapter");
    out = new bantam_adapter{Adapter::load(&need(path, "path"), model_of(model).config())};
  });
}

bantam_status bantam_adapter_get_info(const bantam_adapter* adapter, bantam_adapter_info* info) {
  return guarded([&] {
    const Adapter& a = need(adapter, "adapter").adapter;
    fill_struct(info, bantam_adapter_info{sizeof(bantam_adapter_info), a.matrices().size(), a.rank(), a.bytes()}, "info");
  });
}

void bantam_adapter_free(bantam_adapter* adapter) { delete adapter; }

bantam_status bantam_session_set_adapters(bantam_session* session, const bantam_adapter* const* adapters, const float* scales, size_t count) {
  return guarded([&] { need(session, "session").session.set_adapters(adapters_of(adapters, scales, count)); });
}

}  // extern "C"
