// Every record, for tools/opgen.
include "dialects/weft/ir/WeftOps.td"
include "dialects/weft/ir/CustomOps.td"
