#include "sim/base/error.h"

G_DEFINE_QUARK(ech - error - quark, ech_error)
