// The word in front of definitions that the library compiles once, or that programs without it have in their headers.
#pragma once

/// Headers declare; definitions lie in the folders impl/ beside them. A file of src/ includes each one and compiles it, with the
/// library's flags; bantam/header_only.hpp includes all of them, as inline functions and variables.
#if defined(BANTAM_HEADER_ONLY)
#define BANTAM_ONCE inline
#else
#define BANTAM_ONCE
#endif
