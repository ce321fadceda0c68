/* For programs that include "llama.h" and are to stay as they are: put this folder on the include path. */
#include "../bantam-llama.h"
