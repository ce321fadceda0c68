// Memory, processor features and teams, compiled once.
#include "bantam/core/impl/cpu.hpp"
#include "bantam/core/impl/memory.hpp"
#include "bantam/core/impl/team.hpp"
