// How the boundary between Weft and code that was built apart from it may change. Plain C.
//
// Each interface (kernels, models, kernels of users) has a version of its own, major and minor.
//
// A struct that one side gives the other begins with struct_size, what sizeof was where the struct
// was filled. A new minor version appends fields and does nothing else; 0 or NULL in such a field
// means that it is not used. Who reads a struct takes 0 for a field that lies beyond struct_size,
// and does not look at what lies beyond its own: so both an older and a newer minor version work,
// and a minor version may add only what an older reader can do without. Structs that stand in
// arrays have no struct_size and never grow.
//
// Whatever else changes is a new major version, which the other side refuses. In a struct that
// states its version, struct_size and version are the first two fields in all of them.
#ifndef WEFT_RUNTIME_ABI_VERSION_H
#define WEFT_RUNTIME_ABI_VERSION_H

#include <stdint.h>

#define WEFT_VERSION(major, minor) ((uint32_t)(major) | (uint32_t)(minor) << 16)
#define WEFT_VERSION_MAJOR(version) ((uint32_t)(version) & 0xffffu)
#define WEFT_VERSION_MINOR(version) ((uint32_t)(version) >> 16)

#endif // WEFT_RUNTIME_ABI_VERSION_H
