#!/usr/bin/env bash
# Writes the pkg-config files of an installed tree.
# Usage: write_flags.sh PREFIX tree|sealed_tree
set -euo pipefail
prefix=$1 kind=$2
mkdir -p "$prefix/lib/pkgconfig"
cat > "$prefix/lib/pkgconfig/weft.pc" <<END
prefix=$prefix

Name: weft
Description: a tensor library whose calls are compiled
Version: 0.1
Cflags: -std=c++20 -I\${prefix}/include/weft
Libs: -L\${prefix}/lib -Wl,-rpath,\${prefix}/lib -lweft
END
[[ $kind == tree ]] || exit 0
# A program of several ranks.
cat > "$prefix/lib/pkgconfig/weft-distributed.pc" <<END
prefix=$prefix

Name: weft-distributed
Description: Weft for programs of several ranks
Version: 0.1
Requires: weft
Libs: -L\${prefix}/lib -lweft_distributed
END
# A plugin links nothing of Weft and LLVM: both are in the process that loads it.
cat > "$prefix/lib/pkgconfig/weft-plugin.pc" <<END
prefix=$prefix
llvm=/usr/lib/llvm-22

Name: weft-plugin
Description: passes, ops and backends for Weft, in libraries of their own
Version: 0.1
Cflags: -std=c++20 -fPIC -fno-exceptions -I\${prefix}/include/weft -isystem \${llvm}/include
Libs: -shared
END
# A program that uses the compiler's C++ API itself, whose functions return statuses of Abseil's.
cat > "$prefix/lib/pkgconfig/weft-compiler.pc" <<END
prefix=$prefix
llvm=/usr/lib/llvm-22

Name: weft-compiler
Description: Weft with its compiler's C++ API
Version: 0.1
Requires: weft
Cflags: -isystem \${llvm}/include
Libs: -L\${llvm}/lib -Wl,-rpath,\${llvm}/lib -lMLIR -lLLVM-22 -labsl_status -labsl_statusor -labsl_strings
END
